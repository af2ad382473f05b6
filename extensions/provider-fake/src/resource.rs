//! One thing of the cloud as the SDK's inventory makes it: found by a tag, created, compared, deleted.

use std::sync::Arc;

use api_meta::{ErrorCode, Fault};
use async_trait::async_trait;
use extensions_sdk::inventory::{Presence, Resource, WhenGone};

use crate::cloud::{CloudApi, ItemChange, Kind, Spec, State, Tags};

/// Tag of everything in the cloud: the shoot that it belongs to, by its technical id.
pub const CLUSTER_TAG: &str = "kubernetes.io/cluster";
/// Tag of everything in the cloud: what it is to the shoot.
pub const SLOT_TAG: &str = "fake.provider.extensions.gardener.cloud/slot";
/// Tag of everything in the cloud: what nothing else has, so that it is found after a call without an answer.
pub const UNIQUE_TAG: &str = "fake.provider.extensions.gardener.cloud/unique";

/// One thing of the cloud.
pub(crate) struct CloudResource {
    api: Arc<dyn CloudApi>,
    cluster: String,
    slot: String,
    kind: Kind,
    /// What it shall be; none where it is only removed.
    wanted: Option<Spec>,
}

impl CloudResource {
    /// A thing that shall exist.
    pub(crate) fn wanted(api: &Arc<dyn CloudApi>, cluster: &str, slot: impl Into<String>, spec: Spec) -> Self {
        Self {
            kind: spec.kind(),
            wanted: Some(spec),
            ..Self::unwanted(api, cluster, slot, Kind::Network)
        }
    }

    /// A thing that shall not exist.
    pub(crate) fn unwanted(api: &Arc<dyn CloudApi>, cluster: &str, slot: impl Into<String>, kind: Kind) -> Self {
        Self {
            api: api.clone(),
            cluster: cluster.to_owned(),
            slot: slot.into(),
            kind,
            wanted: None,
        }
    }

    fn spec(&self) -> Result<&Spec, Fault> {
        let missing = || Fault::bug(format!("{} is to be removed, not made", self.slot));
        self.wanted.as_ref().ok_or_else(missing)
    }
}

#[async_trait]
impl Resource for CloudResource {
    fn slot(&self) -> &str {
        &self.slot
    }

    async fn find(&self, tag: &str) -> Result<Vec<String>, Fault> {
        let tags = Tags::from([(UNIQUE_TAG.to_owned(), tag.to_owned())]);
        let mut found = self.api.list(self.kind, &tags).await?;
        found.retain(|item| item.state != State::Gone);
        Ok(found.into_iter().map(|item| item.id).collect())
    }

    async fn create(&self, tag: &str) -> Result<String, Fault> {
        let tags = [
            (CLUSTER_TAG, &*self.cluster),
            (SLOT_TAG, &*self.slot),
            (UNIQUE_TAG, tag),
        ];
        let tags = tags.map(|(key, value)| (key.to_owned(), value.to_owned()));
        Ok(self.api.create(self.spec()?.clone(), Tags::from(tags)).await?.id)
    }

    async fn update(&self, id: &str) -> Result<Presence, Fault> {
        let Some(item) = self.api.get(self.kind, id).await? else {
            return Ok(Presence::Gone);
        };
        if matches!(item.state, State::Stopping | State::Gone) {
            return Ok(Presence::Gone);
        }
        match difference(&item.spec, self.spec()?) {
            Difference::None => {}
            Difference::Change(change) => drop(self.api.change(self.kind, id, change).await?),
            Difference::Fixed { is, wanted } => {
                return Err(Fault::user(format!("{id} is {is} and cannot become {wanted}"))
                    .code(ErrorCode::ConfigurationProblem)
                    .hint(format!(
                        "set it back to {is} in spec.provider.infrastructureConfig of the Shoot"
                    )));
            }
        }
        Ok(Presence::There)
    }

    async fn delete(&self, id: &str) -> Result<(), Fault> {
        match self.api.delete(self.kind, id).await {
            Err(error) if !error.is_missing() => Err(error.into()),
            _ => Ok(()),
        }
    }

    fn when_gone(&self) -> WhenGone {
        match self.kind {
            // Nothing hangs on it: instances have read it when they booted.
            Kind::KeyPair => WhenGone::Recreate,
            _ => WhenGone::Report,
        }
    }
}

/// How what exists differs from what is wanted.
#[derive(Debug, PartialEq, Eq)]
enum Difference {
    None,
    Change(ItemChange),
    /// In what cannot be changed.
    Fixed {
        is: String,
        wanted: String,
    },
}

fn difference(is: &Spec, wanted: &Spec) -> Difference {
    let fixed = |is: &dyn ToString, wanted: &dyn ToString| Difference::Fixed {
        is: is.to_string(),
        wanted: wanted.to_string(),
    };
    match (is, wanted) {
        (is, wanted) if is == wanted => Difference::None,
        (Spec::SecurityGroup(_), Spec::SecurityGroup(wanted)) => {
            Difference::Change(ItemChange::Rules(wanted.rules.clone()))
        }
        (Spec::Network(is), Spec::Network(wanted)) => fixed(&is.cidr, &wanted.cidr),
        (Spec::Subnet(is), Spec::Subnet(wanted)) if is.cidr != wanted.cidr => fixed(&is.cidr, &wanted.cidr),
        (Spec::Subnet(is), Spec::Subnet(wanted)) => fixed(&is.network, &wanted.network),
        (is, wanted) => fixed(&is.kind(), &wanted.kind()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cloud::{NetworkSpec, Rule, SecurityGroupSpec};

    #[test]
    fn rules_change_in_place_and_ranges_never() {
        let network = |cidr: &str| {
            Spec::Network(NetworkSpec {
                cidr: cidr.parse().unwrap(),
            })
        };
        let group = |rules: &[Rule]| {
            Spec::SecurityGroup(SecurityGroupSpec {
                network: "net-1".to_owned(),
                rules: rules.to_vec(),
            })
        };
        let rule = Rule {
            source: "10.0.0.0/8".parse().unwrap(),
            port: 1,
            port_end: 2,
        };
        assert_eq!(
            difference(&network("10.0.0.0/8"), &network("10.0.0.0/8")),
            Difference::None
        );
        let fixed = Difference::Fixed {
            is: "10.0.0.0/8".to_owned(),
            wanted: "10.0.0.0/9".to_owned(),
        };
        assert_eq!(difference(&network("10.0.0.0/8"), &network("10.0.0.0/9")), fixed);
        let change = Difference::Change(ItemChange::Rules(vec![rule.clone()]));
        assert_eq!(difference(&group(&[]), &group(&[rule])), change);
    }
}
