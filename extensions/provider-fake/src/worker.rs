//! Worker: what this provider puts into machine classes. Deployments, waits and the rest are those of `extensions-machines`.

use api_extensions::Worker;
use api_meta::{ErrorCode, Fault};
use async_trait::async_trait;
use extensions_machines::{ClassPart, MachineClasses, Marks, Place};
use extensions_sdk::Context;
use serde::{Deserialize, Serialize};

use crate::provider_status::{InfrastructureStatus, ZoneStatus};
use crate::run::ABOUT;

/// `providerSpec` of a machine class: what an instance is made of beside its user data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct InstanceClass {
    /// What it boots.
    pub(crate) image: String,
    /// Who can log in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) key_pair: Option<String>,
    /// How large it is.
    pub(crate) machine_type: String,
    /// What it accepts.
    pub(crate) security_group: String,
    /// Where it stands.
    pub(crate) subnet: String,
}

/// Machines are instances in the subnets of the Infrastructure.
pub(crate) struct InstanceClasses;

#[async_trait]
impl MachineClasses for InstanceClasses {
    type Facts = InfrastructureStatus;

    fn marks(&self) -> Marks {
        Marks {
            label: "provider-fake.orangery.dev/made-for",
            value: "worker",
            manager: ABOUT.name,
        }
    }

    async fn facts(&self, _: &Context, worker: &Worker) -> Result<InfrastructureStatus, Fault> {
        InfrastructureStatus::read(worker.spec.infrastructure_provider_status.as_ref())
    }

    fn class(&self, infrastructure: &InfrastructureStatus, place: Place<'_>) -> Result<ClassPart, Fault> {
        let Place { worker, pool, zone } = place;
        if pool.provider_config.is_some() {
            return Err(problem(format!(
                "pool {}: providerConfig is set, and this provider has none",
                pool.name
            ))
            .hint(format!(
                "remove providerConfig of the pool {} in spec.provider.workers of the Shoot",
                pool.name
            )));
        }
        let subnet = subnet_in(infrastructure, &pool.name, zone)?;
        let image = pool.machine_image.clone().unwrap_or_default();
        let class = InstanceClass {
            image: format!("{}-{}", image.name, image.version),
            key_pair: infrastructure.key_pair.clone(),
            machine_type: pool.machine_type.clone(),
            security_group: infrastructure.nodes_security_group.clone(),
            subnet: subnet.to_owned(),
        };
        Ok(ClassPart {
            credentials: Some(worker.spec.secret_ref.clone()),
            // A subnet that was lost and made again has another ID; its machines are lost too.
            hash_data: vec![subnet.to_owned()],
            ..ClassPart::new(number_of(subnet)?, api_meta::RawJson::of(&class).map_err(Fault::bug)?)
        })
    }

    fn where_to_look(&self) -> &str {
        "the machine named, at its instance in the cloud and at its OperatingSystemConfig"
    }
}

fn problem(text: String) -> Fault {
    Fault::user(text).code(ErrorCode::ConfigurationProblem)
}

/// The subnet of a zone. A pool without zones stands in the first one.
fn subnet_in<'a>(infrastructure: &'a InfrastructureStatus, pool: &str, zone: &str) -> Result<&'a str, Fault> {
    let is_it = |known: &&ZoneStatus| zone.is_empty() || known.name == zone;
    let found = infrastructure.zones.iter().find(is_it);
    found.map(|known| known.subnet.as_str()).ok_or_else(|| {
        let names: Vec<&str> = infrastructure.zones.iter().map(|known| known.name.as_str()).collect();
        Fault::dependency(format!(
            "pool {pool}: the infrastructure has no subnet in zone {zone:?}; it has subnets in {}",
            names.join(", ")
        ))
        .code(ErrorCode::RetryableConfigurationProblem)
        .hint("add the zone to networks.zones in spec.provider.infrastructureConfig of the Shoot")
    })
}

/// The number of a subnet in the cloud, which nothing else has: it stays when other zones come and go.
fn number_of(subnet: &str) -> Result<u32, Fault> {
    let number = subnet
        .rsplit_once('-')
        .and_then(|(_, number)| u32::from_str_radix(number, 16).ok());
    number.ok_or_else(|| Fault::bug(format!("the ID {subnet} has no number")))
}

#[cfg(test)]
mod tests {
    use extensions_machines::{Planned, plan};
    use serde_json::{Value, json};

    use super::*;

    fn planned(zones: &[&str], more: &Value) -> Result<Vec<Planned>, Fault> {
        let mut pool = json!({
            "name": "p", "machineType": "small", "minimum": 2, "maximum": 2, "maxSurge": 1, "maxUnavailable": 0,
            "nodeAgentSecretName": "agent", "zones": zones, "machineImage": {"name": "linux", "version": "1.0.0"},
            "userDataSecretRef": {"name": "user-data", "key": "cloud_config"},
        });
        pool.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let worker: Worker = serde_json::from_value(json!({
            "metadata": {"namespace": "ns", "name": "b"},
            "spec": {"type": "fake", "region": "fake-1", "secretRef": {"name": "cloudprovider"}, "pools": [pool]},
        }))
        .unwrap();
        let zone = |name: &str, subnet: &str| ZoneStatus {
            name: name.to_owned(),
            subnet: subnet.to_owned(),
        };
        let zones = vec![zone("a", "subnet-00000002"), zone("b", "subnet-0000001f")];
        let infrastructure = InfrastructureStatus::new("net-1".to_owned(), "sg-3".to_owned(), None, zones);
        plan(&worker, "fake", InstanceClasses.marks(), |place| {
            InstanceClasses.class(&infrastructure, place)
        })
    }

    fn name(plan: &Planned) -> &str {
        plan.deployment.metadata.name.as_deref().unwrap()
    }

    #[test]
    fn deployments_are_named_by_subnet_and_classes_name_what_the_cloud_needs() {
        let plans = planned(&["b", "a"], &json!({})).unwrap();
        assert_eq!((name(&plans[0]), name(&plans[1])), ("ns-p-z31", "ns-p-z2"));
        let spec: InstanceClass = plans[1].class.provider_spec.decode().unwrap();
        assert_eq!(
            (spec.subnet.as_str(), spec.image.as_str()),
            ("subnet-00000002", "linux-1.0.0")
        );
        let credentials = plans[0].class.credentials_secret_ref.clone().unwrap();
        assert_eq!(credentials.name.as_deref(), Some("cloudprovider"));
        assert_eq!(name(&planned(&[], &json!({})).unwrap()[0]), "ns-p-z2");
    }

    #[test]
    fn unknown_zones_and_configurations_are_refused() {
        let text = |result: Result<Vec<Planned>, Fault>| result.unwrap_err().to_string();
        let zone = text(planned(&["c"], &json!({})));
        assert!(zone.contains("\"c\"") && zone.contains("a, b"), "{zone}");
        let config = text(planned(&["a"], &json!({"providerConfig": {}})));
        assert!(config.contains("pool p: providerConfig"), "{config}");
    }
}
