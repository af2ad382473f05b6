//! From pools to machine classes and machine deployments. Pure. A pool's deployment in a zone is called by the number of
//! the zone's subnet, which stays, and not by the zone's place in the pool, so that machines stay where they stand.
//! Source: gardener/gardener v1.150 extensions/pkg/controller/worker (machines.go, helper/distribute.go).

use std::collections::BTreeMap;

use api_extensions::{Worker, WorkerPool};
use api_machine::{
    ClassSpec, MachineClass, MachineDeployment, MachineDeploymentSpec, MachineDeploymentStrategy,
    MachineDeploymentStrategyType, MachineSpec, MachineTemplateSpec, NodeTemplate, NodeTemplateSpec,
    RollingUpdateMachineDeployment,
};
use api_meta::{ErrorCode, Fault, RawJson, SecretReference};
use k8s_openapi::api::core::v1::NodeSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt;
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::objects::meta;
use crate::provider_status::{API_VERSION, InfrastructureStatus};

pub(crate) const MADE_FOR: &str = "worker";
/// Label on a deployment's machines with its name, as upstream selects them.
pub(crate) const NAME_LABEL: &str = "name";
/// Seconds a node must be ready (upstream's value; the machine controllers go by phases).
const MIN_READY_SECONDS: i32 = 500;
/// Hexadecimal digits of a pool's hash (upstream's value).
const HASH_LENGTH: usize = 5;

/// One machine deployment, its class, and what the Worker's status reports of it.
#[derive(Clone, Debug)]
pub(crate) struct Planned {
    pub(crate) class: MachineClass,
    pub(crate) deployment: MachineDeployment,
    pub(crate) pool: String,
    pub(crate) minimum: i32,
    pub(crate) maximum: i32,
    pub(crate) priority: Option<i32>,
    /// Where the user data of the class's Secret comes from.
    pub(crate) user_data: (String, String),
}

/// What the plan is made from beside the Worker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts<'a> {
    pub(crate) provider: &'a str,
    pub(crate) infrastructure: &'a InfrastructureStatus,
    pub(crate) hibernated: bool,
    /// The replicas of deployments that are there already.
    pub(crate) present: &'a BTreeMap<String, i32>,
}

fn hex(text: impl AsRef<[u8]>) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The hash that names a pool's machine class in a zone: a new one replaces all machines. Without zone it is upstream's;
/// upstream does not count the zone, and gives a machine's class to another when zones change places.
pub(crate) fn pool_hash(pool: &WorkerPool, zone: &str) -> Result<String, Fault> {
    let agent = pool.node_agent_secret_name.as_deref().ok_or_else(|| {
        Fault::dependency(format!("pool {} has no nodeAgentSecretName", pool.name))
            .hint("gardenlet writes it: compare the versions of gardenlet and of this extension")
    })?;
    let config = pool.provider_config.as_ref().map(|raw| raw.get());
    let zone = (!zone.is_empty()).then_some(zone);
    let all: String = std::iter::once(agent).chain(config).chain(zone).map(hex).collect();
    Ok(hex(all)[..HASH_LENGTH].to_owned())
}

/// The share of zone `index` of `zones`: what cannot be shared evenly goes to the first ones.
pub(crate) fn share(total: i32, index: i32, zones: i32) -> i32 {
    total / zones + i32::from(index < total % zones)
}

/// A zone's share of a number; percentages are of the zone's own number already.
fn share_of(value: &IntOrString, index: i32, zones: i32) -> IntOrString {
    match value {
        IntOrString::Int(number) => IntOrString::Int(share(*number, index, zones)),
        percent @ IntOrString::String(_) => percent.clone(),
    }
}

/// All deployments of a Worker, in the order of its pools and their zones.
pub(crate) fn plan(worker: &Worker, facts: Facts<'_>) -> Result<Vec<Planned>, Fault> {
    let mut planned = Vec::new();
    for pool in &worker.spec.pools {
        let zones = if pool.zones.is_empty() {
            vec![String::new()]
        } else {
            pool.zones.clone()
        };
        let count = i32::try_from(zones.len()).unwrap_or(i32::MAX);
        for (index, zone) in (0..).zip(&zones) {
            planned.push(deployment_of(worker, pool, (index, zone, count), facts)?);
        }
    }
    Ok(planned)
}

fn deployment_of(
    worker: &Worker,
    pool: &WorkerPool,
    (index, zone, zones): (i32, &str, i32),
    facts: Facts<'_>,
) -> Result<Planned, Fault> {
    let namespace = worker.namespace().unwrap_or_default();
    let network = &facts.infrastructure.network;
    let (number, subnet) = network.subnet(zone).ok_or_else(|| {
        Fault::dependency(format!(
            "pool {}: the infrastructure has no subnet in zone {zone:?}",
            pool.name
        ))
        .code(ErrorCode::RetryableConfigurationProblem)
        .hint("reconcile the Infrastructure: it was made before the zone was added")
    })?;
    let name = format!("{namespace}-{}-z{number}", pool.name);
    let hash = pool_hash(pool, zone)?;
    let user_data = &pool.user_data_secret_ref;
    let (minimum, maximum) = (share(pool.minimum, index, zones), share(pool.maximum, index, zones));
    let class_name = format!("{name}-{hash}");
    let class = MachineClass {
        metadata: meta(&namespace, &class_name, MADE_FOR),
        node_template: Some(NodeTemplate {
            capacity: pool
                .node_template
                .as_ref()
                .map(|template| template.capacity.clone())
                .unwrap_or_default(),
            virtual_capacity: BTreeMap::new(),
            instance_type: pool.machine_type.clone(),
            region: worker.spec.region.clone(),
            zone: zone.to_owned(),
            architecture: pool.architecture.clone(),
        }),
        provider: Some(facts.provider.to_owned()),
        provider_spec: RawJson::from(json!({
            "apiVersion": API_VERSION, "kind": "ProviderSpec",
            "machineType": pool.machine_type, "networkID": network.id, "subnet": subnet.cidr,
        })),
        secret_ref: Some(SecretReference {
            name: Some(class_name.clone()),
            namespace: Some(namespace),
        }),
        credentials_secret_ref: None,
    };
    let replicas = replicas(minimum, maximum, facts.present.get(&name).copied(), facts.hibernated);
    Ok(Planned {
        deployment: deployment(worker, pool, &name, &class_name, replicas, (index, zones)),
        class,
        pool: pool.name.clone(),
        minimum,
        maximum,
        priority: pool.priority,
        user_data: (user_data.name.clone(), user_data.key.clone()),
    })
}

/// How many machines: what is there within its bounds, so that an autoscaler's decision stays; none while the shoot
/// is hibernated; the minimum for a new pool and on waking up.
pub(crate) fn replicas(minimum: i32, maximum: i32, present: Option<i32>, hibernated: bool) -> i32 {
    match present {
        _ if hibernated => 0,
        Some(present) if present > 0 => present.clamp(minimum, maximum.max(minimum)),
        _ => minimum,
    }
}

fn deployment(
    worker: &Worker,
    pool: &WorkerPool,
    name: &str,
    class: &str,
    replicas: i32,
    (index, zones): (i32, i32),
) -> MachineDeployment {
    let labels = BTreeMap::from([(NAME_LABEL.to_owned(), name.to_owned())]);
    let settings = pool.machine_controller_manager.as_ref();
    let mut template_meta = meta("", "", MADE_FOR);
    template_meta.name = None;
    template_meta.namespace = None;
    template_meta.labels.get_or_insert_default().extend(labels.clone());
    let taints = (!pool.taints.is_empty()).then(|| pool.taints.clone());
    MachineDeployment {
        metadata: meta(&worker.namespace().unwrap_or_default(), name, MADE_FOR),
        spec: MachineDeploymentSpec {
            replicas: Some(replicas),
            min_ready_seconds: Some(MIN_READY_SECONDS),
            revision_history_limit: Some(0),
            selector: Some(LabelSelector {
                match_labels: Some(labels),
                ..Default::default()
            }),
            strategy: Some(MachineDeploymentStrategy {
                type_: Some(MachineDeploymentStrategyType::RollingUpdate),
                rolling_update: Some(RollingUpdateMachineDeployment {
                    max_surge: Some(share_of(&pool.max_surge, index, zones)),
                    max_unavailable: Some(share_of(&pool.max_unavailable, index, zones)),
                }),
                in_place_update: None,
            }),
            template: MachineTemplateSpec {
                metadata: template_meta,
                spec: Some(MachineSpec {
                    class: Some(ClassSpec {
                        api_group: Some("machine.sapcloud.io".to_owned()),
                        kind: Some("MachineClass".to_owned()),
                        name: Some(class.to_owned()),
                    }),
                    node_template: Some(NodeTemplateSpec {
                        metadata: ObjectMeta {
                            labels: (!pool.labels.is_empty()).then(|| pool.labels.clone()),
                            annotations: (!pool.annotations.is_empty()).then(|| pool.annotations.clone()),
                            ..Default::default()
                        },
                        spec: taints.map(|taints| NodeSpec {
                            taints: Some(taints),
                            ..Default::default()
                        }),
                    }),
                    drain_timeout: settings.and_then(|settings| settings.machine_drain_timeout),
                    health_timeout: settings.and_then(|settings| settings.machine_health_timeout),
                    creation_timeout: settings.and_then(|settings| settings.machine_creation_timeout),
                    disable_health_timeout: settings.and_then(|settings| settings.disable_health_timeout),
                    max_evict_retries: settings.and_then(|settings| settings.max_evict_retries),
                    ..Default::default()
                }),
            },
            ..Default::default()
        },
        status: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider_status::{NetworkStatus, Subnet};

    fn pool(zones: &[&str], minimum: i32, maximum: i32) -> WorkerPool {
        WorkerPool {
            name: "p".into(),
            minimum,
            maximum,
            max_surge: IntOrString::Int(1),
            max_unavailable: IntOrString::String("50%".into()),
            node_agent_secret_name: Some("gardener-node-agent-p-0123456789abcdef".into()),
            zones: zones.iter().map(|zone| (*zone).to_owned()).collect(),
            ..Default::default()
        }
    }

    fn infrastructure(zones: &[&str]) -> InfrastructureStatus {
        let subnets = (0..)
            .zip(zones)
            .map(|(number, zone)| Subnet {
                zone: (*zone).into(),
                cidr: format!("10.0.{}.0/20", 16 * number),
            })
            .collect();
        let network = NetworkStatus {
            id: 1,
            cidr: "10.0.0.0/16".into(),
            subnets,
            egress_cidrs: vec![],
        };
        InfrastructureStatus::new("ns", network)
    }

    fn planned(pool: WorkerPool, zones: &[&str]) -> Result<Vec<Planned>, Fault> {
        let mut worker = Worker::default();
        worker.metadata.namespace = Some("shoot--a--b".into());
        worker.spec.pools = vec![pool];
        let (infrastructure, present) = (infrastructure(zones), BTreeMap::new());
        plan(
            &worker,
            Facts {
                provider: "x",
                infrastructure: &infrastructure,
                hibernated: false,
                present: &present,
            },
        )
    }

    #[test]
    fn each_zone_has_a_deployment_and_the_first_ones_the_remainder() {
        let plans = planned(pool(&["b", "a", "c"], 4, 5), &["a", "b", "c"]).unwrap();
        let message: Vec<(String, i32, i32)> = plans
            .iter()
            .map(|plan| (plan.deployment.name_any(), plan.minimum, plan.maximum))
            .collect();
        assert_eq!(
            message,
            [
                ("shoot--a--b-p-z2".into(), 2, 2),
                ("shoot--a--b-p-z1".into(), 1, 2),
                ("shoot--a--b-p-z3".into(), 1, 1)
            ]
        );
        assert_eq!(plans[0].class.node_template.as_ref().unwrap().zone, "b");
        let surge = |plan: &Planned| {
            plan.deployment
                .spec
                .strategy
                .as_ref()
                .unwrap()
                .rolling_update
                .as_ref()
                .unwrap()
                .max_surge
                .clone()
        };
        assert_eq!(surge(&plans[0]), Some(IntOrString::Int(1)));
        assert_eq!(surge(&plans[1]), Some(IntOrString::Int(0)));
    }

    #[test]
    fn names_and_classes_of_a_zone_are_independent_of_other_zones() {
        /// Zone, deployment and class of each.
        fn placed(zones: &[&str], parts: &[&str]) -> BTreeMap<String, (String, String)> {
            let plans = planned(pool(zones, 1, 1), parts).unwrap();
            let place = |plan: &Planned| {
                let zone = plan.class.node_template.as_ref().unwrap().zone.clone();
                (zone, (plan.deployment.name_any(), plan.class.name_any()))
            };
            plans.iter().map(place).collect()
        }
        let both = placed(&["a", "b"], &["a", "b"]);
        assert_eq!(placed(&["b"], &["a", "b"])["b"], both["b"]);
        let alone = placed(&["a"], &["a"]);
        let swapped = placed(&["b", "a"], &["a", "b"]);
        assert_eq!((&swapped["a"], &swapped["b"]), (&alone["a"], &both["b"]));
        // The one subnet there is, given to another zone: machines of the old class are replaced, and it is not rewritten.
        let (before, after) = (&alone["a"], &placed(&["z"], &["z"])["z"]);
        assert!(before.0 == after.0 && before.1 != after.1, "{before:?} {after:?}");
    }

    #[test]
    fn a_pool_hash_is_as_upstream_computes_it_and_moves_with_the_node_agent_secret() {
        let one = pool(&[], 1, 1);
        let inner = hex("gardener-node-agent-p-0123456789abcdef");
        assert_eq!(pool_hash(&one, "").unwrap(), hex(inner)[..5]);
        let other = WorkerPool {
            node_agent_secret_name: Some("other".into()),
            ..one.clone()
        };
        assert_ne!(pool_hash(&one, "").unwrap(), pool_hash(&other, "").unwrap());
        assert!(
            pool_hash(
                &WorkerPool {
                    node_agent_secret_name: None,
                    ..one
                },
                ""
            )
            .is_err()
        );
    }

    #[test]
    fn present_machines_stay_within_bounds_and_sleep_and_wake_are_followed() {
        assert_eq!(replicas(1, 3, None, false), 1);
        assert_eq!(replicas(1, 3, Some(2), false), 2);
        assert_eq!(replicas(1, 3, Some(9), false), 3);
        assert_eq!(replicas(1, 3, Some(2), true), 0);
        assert_eq!(replicas(1, 3, Some(0), false), 1);
    }

    #[test]
    fn a_zone_without_subnet_is_named() {
        let fault = planned(pool(&["z"], 1, 1), &["a"]).unwrap_err();
        assert!(fault.to_string().contains("\"z\""), "{fault}");
        assert_eq!(planned(pool(&[], 1, 1), &[""]).unwrap().len(), 1);
    }
}
