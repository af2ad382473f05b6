//! From pools to machine classes and machine deployments. Pure. A pool's deployment in a zone is called by the zone's number,
//! which is the provider's and stays, and not by the zone's place in the pool, so that machines stay where they stand.
//! Source: gardener/gardener v1.150 extensions/pkg/controller/worker (machines.go).

use std::collections::{BTreeMap, BTreeSet};

use api_core::v1beta1::MachineUpdateStrategy;
use api_extensions::{Worker, WorkerPool};
use api_machine::{
    ClassSpec, MachineClass, MachineDeployment, MachineDeploymentSpec, MachineDeploymentStrategy,
    MachineDeploymentStrategyType, MachineSpec, MachineTemplateSpec, NAME_LABEL, NodeTemplate, NodeTemplateSpec,
    RollingUpdateMachineDeployment,
};
use api_meta::{ErrorCode, Fault, SecretReference};
use k8s_openapi::api::core::v1::NodeSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use kube::ResourceExt;

use super::classes::{ClassPart, Marks, Place};
use super::distribute::{check_room, replicas, share, share_of};
use super::hash::pool_hash;

/// Seconds a node must be ready (upstream's value; the machine controllers go by phases).
const MIN_READY_SECONDS: i32 = 500;

/// One machine deployment, its class, and what the Worker's status reports of it.
#[derive(Clone, Debug)]
pub struct Planned {
    /// The class.
    pub class: MachineClass,
    /// The deployment; how many machines it has is decided when it is written, by [`Planned::replicas`].
    pub deployment: MachineDeployment,
    /// Its pool.
    pub pool: String,
    /// Fewest machines.
    pub minimum: i32,
    /// Most machines.
    pub maximum: i32,
    /// Order in which an autoscaler prefers it.
    pub priority: Option<i32>,
    /// Name and key of the Secret with the user data of its machines.
    pub user_data: (String, String),
    /// Further keys of the class's Secret.
    pub secret_data: BTreeMap<String, Vec<u8>>,
}

impl Planned {
    /// How many machines the deployment has, by how many it is `present` with: what is there within its bounds, so that an
    /// autoscaler's decision stays; none while the shoot is hibernated; the minimum for a new pool and on waking up.
    pub fn replicas(&self, present: Option<i32>, hibernated: bool) -> i32 {
        replicas(self.minimum, self.maximum, present, hibernated)
    }

    /// The name of its class.
    pub(super) fn class_name(&self) -> &str {
        self.class.metadata.name.as_deref().unwrap_or_default()
    }

    /// The name of its deployment.
    pub(super) fn name(&self) -> &str {
        self.deployment.metadata.name.as_deref().unwrap_or_default()
    }
}

/// A place with its share of the pool.
#[derive(Clone, Copy)]
struct Share<'a> {
    place: Place<'a>,
    index: i32,
    zones: i32,
}

/// All deployments of a Worker, in the order of its pools and their zones. `part` is the provider's part of a class, `provider`
/// the name of its driver.
///
/// # Errors
/// Those of `part`; a pool that cannot be rolled, or is to be updated in place; a bug: two zones of a pool have one number.
pub fn plan(
    worker: &Worker,
    provider: &str,
    marks: Marks,
    part: impl Fn(Place<'_>) -> Result<ClassPart, Fault>,
) -> Result<Vec<Planned>, Fault> {
    let (mut planned, mut names) = (Vec::new(), BTreeSet::new());
    for pool in &worker.spec.pools {
        check_strategy(pool)?;
        check_room(pool)?;
        let zones = if pool.zones.is_empty() {
            vec![String::new()]
        } else {
            pool.zones.clone()
        };
        let count = i32::try_from(zones.len()).unwrap_or(i32::MAX);
        for (index, zone) in (0..).zip(&zones) {
            let place = Place { worker, pool, zone };
            let share = Share {
                place,
                index,
                zones: count,
            };
            let one = deployment_of(share, provider, marks, part(place)?)?;
            if !names.insert(one.name().to_owned()) {
                let text = format!("pool {}: two of its zones have the number of {zone:?}", pool.name);
                return Err(Fault::bug(text).hint("correct the provider: each zone has a number of its own"));
            }
            planned.push(one);
        }
    }
    Ok(planned)
}

/// Machines are replaced one after the other, and not updated in place.
fn check_strategy(pool: &WorkerPool) -> Result<(), Fault> {
    match &pool.update_strategy {
        None | Some(MachineUpdateStrategy::AutoRollingUpdate) => Ok(()),
        Some(other) => Err(Fault::user(format!(
            "pool {}: updateStrategy {other} is not supported by this extension; AutoRollingUpdate is",
            pool.name
        ))
        .code(ErrorCode::ConfigurationProblem)
        .hint(format!(
            "remove the pool {0} from spec.provider.workers of the Shoot and add one with updateStrategy AutoRollingUpdate",
            pool.name
        ))),
    }
}

fn deployment_of(share_of_pool: Share<'_>, provider: &str, marks: Marks, part: ClassPart) -> Result<Planned, Fault> {
    let Share { place, index, zones } = share_of_pool;
    let Place { worker, pool, zone } = place;
    let namespace = worker.namespace().unwrap_or_default();
    let name = format!("{namespace}-{}-z{}", pool.name, part.number);
    let class_name = format!("{name}-{}", pool_hash(pool, &part.hash_data)?);
    let template = pool.node_template.as_ref();
    let capacity = part.capacity.or_else(|| template.map(|own| own.capacity.clone()));
    let class = MachineClass {
        metadata: meta(&namespace, &class_name, marks),
        node_template: Some(NodeTemplate {
            capacity: capacity.unwrap_or_default(),
            virtual_capacity: template.map(|own| own.virtual_capacity.clone()).unwrap_or_default(),
            instance_type: pool.machine_type.clone(),
            region: worker.spec.region.clone(),
            zone: part.node_zone.unwrap_or_else(|| zone.to_owned()),
            architecture: pool.architecture.clone(),
        }),
        provider: Some(provider.to_owned()),
        provider_spec: part.provider_spec,
        secret_ref: Some(SecretReference {
            name: Some(class_name.clone()),
            namespace: Some(namespace.clone()),
        }),
        credentials_secret_ref: part.credentials,
    };
    let user_data = &pool.user_data_secret_ref;
    Ok(Planned {
        deployment: MachineDeployment {
            metadata: meta(&namespace, &name, marks),
            spec: deployment(&share_of_pool, &name, &class_name, marks),
            status: None,
        },
        class,
        pool: pool.name.clone(),
        minimum: share(pool.minimum, index, zones),
        maximum: share(pool.maximum, index, zones),
        priority: pool.priority,
        user_data: (user_data.name.clone(), user_data.key.clone()),
        secret_data: part.secret_data,
    })
}

/// Metadata of an object made for a Worker.
pub(super) fn meta(namespace: &str, name: &str, marks: Marks) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: Some(namespace.to_owned()),
        labels: Some(marks.labels()),
        ..Default::default()
    }
}

fn deployment(share: &Share<'_>, name: &str, class: &str, marks: Marks) -> MachineDeploymentSpec {
    let Share { place, index, zones } = *share;
    let pool = place.pool;
    let labels = BTreeMap::from([(NAME_LABEL.to_owned(), name.to_owned())]);
    let mut of_machines = marks.labels();
    of_machines.extend(labels.clone());
    MachineDeploymentSpec {
        replicas: None,
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
            metadata: ObjectMeta {
                labels: Some(of_machines),
                ..Default::default()
            },
            spec: Some(machine(pool, class)),
        },
        ..Default::default()
    }
}

/// What a machine of the pool shall be.
fn machine(pool: &WorkerPool, class: &str) -> MachineSpec {
    let settings = pool.machine_controller_manager.as_ref();
    let taints = (!pool.taints.is_empty()).then(|| pool.taints.clone());
    MachineSpec {
        class: Some(ClassSpec::machine_class(class)),
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
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use api_extensions::{
        ClusterAutoscalerOptions, DataVolume, MachineImage, NodeTemplate as PoolTemplate, Volume, WorkerPool,
    };
    use api_meta::{GoDuration, RawJson};
    use k8s_openapi::api::core::v1::{SecretKeySelector, Taint};
    use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
    use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
    use serde_json::json;

    use super::*;

    const MARKS: Marks = Marks {
        label: "test/made-for",
        value: "worker",
        manager: "test",
    };

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

    /// Numbers zones by their letters, as a provider with stable numbers does.
    fn part(place: Place<'_>) -> Result<ClassPart, Fault> {
        let number = place
            .zone
            .bytes()
            .next()
            .map_or(1, |letter| u32::from(letter - b'a' + 1));
        let mut part = ClassPart::new(number, json!({"size": place.pool.machine_type}).into());
        let config = place.pool.provider_config.as_ref();
        part.hash_data.extend(config.map(|raw| raw.get().to_owned()));
        Ok(part)
    }

    fn planned(pool: WorkerPool) -> Result<Vec<Planned>, Fault> {
        let mut worker = Worker::default();
        worker.metadata.namespace = Some("shoot--a--b".into());
        worker.spec.pools = vec![pool];
        plan(&worker, "x", MARKS, part)
    }

    #[test]
    fn each_zone_has_a_deployment_and_the_first_ones_the_remainder() {
        let plans = planned(pool(&["b", "a", "c"], 4, 5)).unwrap();
        let numbers: Vec<(&str, i32, i32)> = plans
            .iter()
            .map(|plan| (plan.name(), plan.minimum, plan.maximum))
            .collect();
        assert_eq!(
            numbers,
            [
                ("shoot--a--b-p-z2", 2, 2),
                ("shoot--a--b-p-z1", 1, 2),
                ("shoot--a--b-p-z3", 1, 1)
            ]
        );
        assert_eq!(plans[0].class.node_template.as_ref().unwrap().zone, "b");
        let surge = |plan: &Planned| {
            let strategy = plan.deployment.spec.strategy.clone().unwrap();
            strategy.rolling_update.unwrap().max_surge
        };
        assert_eq!(surge(&plans[0]), Some(IntOrString::Int(1)));
        assert_eq!(surge(&plans[1]), Some(IntOrString::Int(0)));
        assert_eq!(planned(pool(&[], 1, 1)).unwrap()[0].name(), "shoot--a--b-p-z1");
    }

    #[test]
    fn names_and_classes_of_a_zone_are_independent_of_other_zones() {
        let placed = |zones: &[&str]| -> BTreeMap<String, (String, String)> {
            let plans = planned(pool(zones, 1, 1)).unwrap();
            let place = |plan: &Planned| {
                let zone = plan.class.node_template.as_ref().unwrap().zone.clone();
                (zone, (plan.name().to_owned(), plan.class_name().to_owned()))
            };
            plans.iter().map(place).collect()
        };
        let both = placed(&["a", "b"]);
        assert_eq!(placed(&["b"])["b"], both["b"]);
        assert_eq!(placed(&["b", "a"]), both);
    }

    /// A pool in which every field is another one than in [`pool`]. A new field has to be named here, and decided about below.
    fn changed() -> WorkerPool {
        let texts = || BTreeMap::from([("k".to_owned(), "v".to_owned())]);
        let capacity = || BTreeMap::from([("cpu".to_owned(), Quantity("7".into()))]);
        WorkerPool {
            machine_type: "other".into(),
            maximum: 9,
            max_surge: IntOrString::Int(2),
            max_unavailable: IntOrString::Int(3),
            annotations: texts(),
            labels: texts(),
            taints: vec![Taint::default()],
            machine_image: Some(MachineImage::default()),
            minimum: 8,
            name: "p".into(),
            node_agent_secret_name: Some("other".into()),
            provider_config: Some(RawJson::from(json!({"a": 1}))),
            user_data_secret_ref: SecretKeySelector::default(),
            volume: Some(Volume::default()),
            data_volumes: vec![DataVolume::default()],
            kubelet_data_volume_name: Some("v".into()),
            zones: Vec::new(),
            machine_controller_manager: Some(Default::default()),
            kubernetes_version: Some("1.99.0".into()),
            kubelet_config: Some(Default::default()),
            node_template: Some(PoolTemplate {
                capacity: capacity(),
                virtual_capacity: capacity(),
            }),
            architecture: Some("arm64".into()),
            cluster_autoscaler: Some(ClusterAutoscalerOptions::default()),
            priority: Some(5),
            update_strategy: Some(MachineUpdateStrategy::AutoRollingUpdate),
        }
    }

    #[test]
    fn the_node_agent_secret_and_the_providers_data_alone_name_the_class() {
        let class = |pool: WorkerPool| planned(pool).unwrap()[0].class_name().to_owned();
        let before = class(pool(&[], 1, 1));
        let stays = WorkerPool {
            node_agent_secret_name: pool(&[], 1, 1).node_agent_secret_name,
            provider_config: None,
            ..changed()
        };
        assert_eq!(
            class(stays.clone()),
            before,
            "gardenlet puts what matters of these into the Secret's name"
        );
        for rolls in [
            WorkerPool {
                node_agent_secret_name: changed().node_agent_secret_name,
                ..pool(&[], 1, 1)
            },
            WorkerPool {
                provider_config: changed().provider_config,
                ..pool(&[], 1, 1)
            },
        ] {
            assert_ne!(class(rolls), before);
        }
        let template = |pool: WorkerPool| planned(pool).unwrap()[0].deployment.spec.template.clone();
        let (old, new) = (template(pool(&[], 1, 1)), template(stays));
        assert_eq!(
            old.metadata, new.metadata,
            "labels of machines are part of their set's name"
        );
        let left = |template: MachineTemplateSpec| crate::passed_on::what_makes_it(&template.spec.unwrap());
        assert_eq!(left(old), left(new));
    }

    #[test]
    fn what_does_not_roll_reaches_the_class_or_the_machines_in_place() {
        let settings = api_core::v1beta1::MachineControllerManagerSettings {
            machine_drain_timeout: Some(GoDuration::from_secs(7)),
            ..Default::default()
        };
        let changed = WorkerPool {
            machine_controller_manager: Some(settings),
            ..changed()
        };
        let plan = planned(changed).unwrap().remove(0);
        let node = plan.class.node_template.unwrap();
        assert_eq!((node.instance_type.as_str(), node.capacity.len()), ("other", 1));
        let machine = plan.deployment.spec.template.spec.unwrap();
        assert_eq!(machine.drain_timeout, Some(GoDuration::from_secs(7)));
        let template = machine.node_template.unwrap();
        assert_eq!(template.metadata.labels.unwrap()["k"], "v");
        assert_eq!(template.spec.unwrap().taints.unwrap().len(), 1);
    }

    #[test]
    fn updates_in_place_are_refused_with_pool_value_and_what_is_allowed() {
        for strategy in [
            MachineUpdateStrategy::AutoInPlaceUpdate,
            MachineUpdateStrategy::ManualInPlaceUpdate,
        ] {
            let fault = planned(WorkerPool {
                update_strategy: Some(strategy.clone()),
                ..pool(&[], 1, 1)
            })
            .unwrap_err();
            let text = fault.to_string();
            assert!(
                text.contains("pool p") && text.contains(&strategy.to_string()),
                "{text}"
            );
            assert_eq!(fault.codes, [ErrorCode::ConfigurationProblem]);
        }
    }

    #[test]
    fn two_zones_with_one_number_are_a_defect_of_the_provider() {
        let fault = planned(pool(&["a", "aa"], 2, 2)).unwrap_err();
        assert_eq!(fault.class, api_meta::FaultClass::Bug, "{fault}");
    }
}
