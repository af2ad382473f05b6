//! Which kinds an API server has: what its discovery lists once, and from then on what its CustomResourceDefinitions
//! add. Aggregated kinds that come later are not seen.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use api_meta::Fault;
use base_client::fault_of;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResourceList;
use kube::Client;
use kube::core::ApiResource;

/// Group and plural.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct KindKey {
    pub(crate) group: Arc<str>,
    pub(crate) plural: Arc<str>,
}

impl KindKey {
    fn new(group: &str, plural: &str) -> Self {
        KindKey {
            group: group.into(),
            plural: plural.into(),
        }
    }
}

impl fmt::Display for KindKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.group {
            "" => f.write_str(&self.plural),
            group => write!(f, "{}.{group}", self.plural),
        }
    }
}

/// A kind whose objects can be listed, watched and deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) resource: ApiResource,
    pub(crate) namespaced: bool,
}

impl Kind {
    pub(crate) fn key(&self) -> KindKey {
        KindKey::new(&self.resource.group, &self.resource.plural)
    }
}

pub(crate) type Kinds = BTreeMap<KindKey, Kind>;

/// Not tracked: events, which come and go, and what is not stored, such as reviews.
fn is_tracked(group: &str, plural: &str, verbs: &[String]) -> bool {
    let has = |verb: &str| verbs.iter().any(|it| it == verb);
    plural != "events"
        && !plural.contains('/')
        && has("list")
        && has("watch")
        && has("delete")
        && group != "metrics.k8s.io"
}

fn kinds_of(group: &str, version: &str, list: &APIResourceList) -> Vec<Kind> {
    let tracked = list
        .resources
        .iter()
        .filter(|resource| is_tracked(group, &resource.name, &resource.verbs));
    let kinds = tracked.map(|resource| Kind {
        resource: ApiResource {
            group: group.to_owned(),
            version: version.to_owned(),
            api_version: list.group_version.clone(),
            kind: resource.kind.clone(),
            plural: resource.name.clone(),
        },
        namespaced: resource.namespaced,
    });
    kinds.collect()
}

/// Reads all kinds from the API server, each in the version it prefers, or the first that has it: a group's preferred
/// version need not have all of its kinds. A group version that does not answer is left out and named.
pub(crate) async fn discover(client: &Client) -> Result<(Kinds, Vec<String>), Fault> {
    let doing = "discover the kinds of the API server";
    let core = client
        .list_core_api_resources("v1")
        .await
        .map_err(|error| fault_of(error, doing))?;
    let groups = client.list_api_groups().await.map_err(|error| fault_of(error, doing))?;
    let mut kinds: Vec<Kind> = kinds_of("", "v1", &core);
    let mut missing = Vec::new();
    for group in groups.groups {
        let others = group
            .versions
            .iter()
            .filter(|version| group.preferred_version.as_ref() != Some(*version));
        for version in group.preferred_version.iter().chain(others) {
            match client.list_api_group_resources(&version.group_version).await {
                Ok(list) => kinds.extend(kinds_of(&group.name, &version.version, &list)),
                Err(error) => {
                    tracing::debug!(version = version.group_version, "{}", fault_of(error, doing));
                    missing.push(version.group_version.clone());
                }
            }
        }
    }
    Ok((first_of_each(kinds), missing))
}

fn first_of_each(kinds: Vec<Kind>) -> Kinds {
    let mut found = Kinds::new();
    for kind in kinds {
        found.entry(kind.key()).or_insert(kind);
    }
    found
}

/// The kind that a definition brings, once the server takes its objects.
pub(crate) fn of_definition(definition: &CustomResourceDefinition) -> Option<Kind> {
    let conditions = definition.status.as_ref()?.conditions.as_ref()?;
    conditions
        .iter()
        .find(|condition| condition.type_ == "Established" && condition.status == "True")?;
    let spec = &definition.spec;
    let served = || spec.versions.iter().filter(|version| version.served);
    let version = served().find(|version| version.storage).or_else(|| served().next())?;
    Some(Kind {
        resource: ApiResource {
            group: spec.group.clone(),
            version: version.name.clone(),
            api_version: format!("{}/{}", spec.group, version.name),
            kind: spec.names.kind.clone(),
            plural: spec.names.plural.clone(),
        },
        namespaced: spec.scope == "Namespaced",
    })
}

/// The key of what a definition brings, whether the server takes its objects yet or not.
pub(crate) fn key_of_definition(definition: &CustomResourceDefinition) -> KindKey {
    KindKey::new(&definition.spec.group, &definition.spec.names.plural)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_that_the_preferred_version_lacks_are_found_in_the_others() {
        let kind = |version: &str, plural: &str| Kind {
            resource: ApiResource {
                group: "g".to_owned(),
                version: version.to_owned(),
                api_version: format!("g/{version}"),
                kind: plural.to_owned(),
                plural: plural.to_owned(),
            },
            namespaced: true,
        };
        let found = first_of_each(vec![kind("v1", "a"), kind("v1beta1", "a"), kind("v1beta1", "b")]);
        let versions: Vec<_> = found.values().map(|kind| kind.resource.api_version.as_str()).collect();
        assert_eq!(versions, ["g/v1", "g/v1beta1"]);
    }
}
