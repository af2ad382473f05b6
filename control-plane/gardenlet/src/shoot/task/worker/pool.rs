//! A worker pool of a Shoot as its Worker object has it. Plain functions: what the Shoot leaves open comes from the
//! cloud profile (gardener/gardener v1.150 `pkg/component/extensions/worker`).

use std::collections::BTreeMap;

use api_core::v1beta1 as core;
use api_extensions::{ClusterAutoscalerOptions, DataVolume, MachineImage, NodeTemplate, Volume, WorkerPool};
use api_meta::{labels, names};
use k8s_openapi::api::core::v1::SecretKeySelector;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::super::os_config::Pool;

/// Resource name of GPUs in node templates: upstream's, understood by the extensions.
const GPU: &str = "gpu";

/// What a pool is completed from.
pub(super) struct Surroundings<'a> {
    /// The Shoot's spec.
    pub(super) spec: &'a core::ShootSpec,
    /// The machine types of its cloud profile.
    pub(super) machine_types: &'a [core::MachineType],
    /// The pools of the Worker object as it is now.
    pub(super) present: &'a [WorkerPool],
}

/// The pool as the extension gets it.
#[must_use]
pub(super) fn pool_of(worker: &core::Worker, pool: &Pool, surroundings: &Surroundings<'_>) -> WorkerPool {
    let machine_type = surroundings
        .machine_types
        .iter()
        .find(|offer| offer.name == worker.machine.type_);
    let image = worker.machine.image.clone().unwrap_or_default();
    WorkerPool {
        machine_type: worker.machine.type_.clone(),
        maximum: worker.maximum,
        minimum: worker.minimum,
        max_surge: worker.max_surge.clone().unwrap_or(IntOrString::Int(1)),
        max_unavailable: worker.max_unavailable.clone().unwrap_or(IntOrString::Int(0)),
        annotations: worker.annotations.clone(),
        labels: node_labels(worker, pool, surroundings.spec),
        taints: worker.taints.clone(),
        machine_image: Some(MachineImage {
            name: image.name,
            version: image.version.unwrap_or_default(),
        }),
        name: worker.name.clone(),
        node_agent_secret_name: Some(pool.key.key.clone()),
        provider_config: worker.provider_config.clone(),
        user_data_secret_ref: SecretKeySelector {
            name: pool.user_data.name.clone().unwrap_or_default(),
            key: names::CLOUD_CONFIG_DATA_KEY.to_owned(),
            optional: None,
        },
        volume: worker.volume.clone().map(|volume| Volume {
            name: volume.name,
            type_: volume.type_,
            size: volume.size,
            encrypted: volume.encrypted,
        }),
        data_volumes: worker.data_volumes.iter().cloned().map(data_volume).collect(),
        kubelet_data_volume_name: worker.kubelet_data_volume_name.clone(),
        zones: worker.zones.clone(),
        machine_controller_manager: machine_controller_manager(worker, machine_type),
        kubernetes_version: Some(pool.key.version.clone()),
        kubelet_config: kubelet(worker, surroundings.spec),
        node_template: node_template(worker, machine_type, surroundings.present),
        architecture: worker.machine.architecture.clone(),
        cluster_autoscaler: worker.cluster_autoscaler.as_ref().map(cluster_autoscaler),
        priority: worker.priority,
        update_strategy: worker.update_strategy.clone(),
    }
}

fn data_volume(volume: core::DataVolume) -> DataVolume {
    DataVolume {
        name: volume.name,
        type_: volume.type_,
        size: volume.size,
        encrypted: volume.encrypted,
    }
}

/// Labels of the pool's nodes: the owner's, and over them ours.
fn node_labels(worker: &core::Worker, pool: &Pool, spec: &core::ShootSpec) -> BTreeMap<String, String> {
    let mut all = worker.labels.clone();
    let mut set = |key: &str, value: &str| all.insert(key.to_owned(), value.to_owned());
    set(labels::NODE_ROLE, "node");
    set(
        labels::NODE_ARCHITECTURE,
        worker
            .machine
            .architecture
            .as_deref()
            .unwrap_or(names::ARCHITECTURE_AMD64),
    );
    let dns = spec
        .system_components
        .as_ref()
        .and_then(|system| system.node_local_dns.as_ref());
    set(labels::NODE_LOCAL_DNS, &dns.is_some_and(|dns| dns.enabled).to_string());
    if worker.system_components.as_ref().is_none_or(|system| system.allow) {
        set(labels::WORKER_SYSTEM_COMPONENTS, "true");
    }
    set(labels::WORKER_POOL, &worker.name);
    set(labels::WORKER_POOL_DEPRECATED, &worker.name);
    set(labels::WORKER_NODE_AGENT_SECRET, &pool.key.key);
    set(labels::WORKER_KUBERNETES_VERSION, &pool.key.version);
    if let Some(cri) = &worker.cri {
        set(labels::WORKER_CRI_NAME, &cri.name.to_string());
        for runtime in &cri.container_runtimes {
            set(
                &format!("{}{}", labels::WORKER_CONTAINER_RUNTIME_PREFIX, runtime.type_),
                "true",
            );
        }
    }
    all
}

/// A pool's own kubelet settings replace the Shoot's as a whole.
fn kubelet(worker: &core::Worker, spec: &core::ShootSpec) -> Option<core::KubeletConfig> {
    let own = worker.kubernetes.as_ref().and_then(|own| own.kubelet.as_ref());
    own.or(spec.kubernetes.kubelet.as_ref()).cloned()
}

/// The pool's settings; how long a machine may take to join comes from its type where the pool does not say.
fn machine_controller_manager(
    worker: &core::Worker,
    machine_type: Option<&core::MachineType>,
) -> Option<core::MachineControllerManagerSettings> {
    let creation_timeout = machine_type
        .and_then(|offer| offer.machine_controller_manager.as_ref())
        .and_then(|settings| settings.machine_creation_timeout);
    let own = worker.machine_controller_manager.clone();
    if creation_timeout.is_none() {
        return own;
    }
    let mut settings = own.unwrap_or_default();
    settings.machine_creation_timeout = settings.machine_creation_timeout.or(creation_timeout);
    Some(settings)
}

/// What a node of the pool has, so that the pool can be scaled up from zero. A machine type that has left the cloud
/// profile keeps the template that the Worker has, as long as the pool keeps the type.
fn node_template(
    worker: &core::Worker,
    machine_type: Option<&core::MachineType>,
    present: &[WorkerPool],
) -> Option<NodeTemplate> {
    let Some(machine_type) = machine_type else {
        let before = present
            .iter()
            .find(|pool| pool.name == worker.name && pool.machine_type == worker.machine.type_);
        return before.and_then(|pool| pool.node_template.clone());
    };
    let mut capacity = BTreeMap::from([
        ("cpu".to_owned(), machine_type.cpu.clone()),
        (GPU.to_owned(), machine_type.gpu.clone()),
        ("memory".to_owned(), machine_type.memory.clone()),
    ]);
    capacity.extend(disk(worker, machine_type).map(|size| ("ephemeral-storage".to_owned(), size)));
    Some(NodeTemplate {
        capacity,
        virtual_capacity: BTreeMap::new(),
    })
}

/// The disk that pods write to: the kubelet's, or the pool's, or the one that comes with the machine type. Upstream
/// leaves it out, so that a pool is never scaled up from zero for pods that request ephemeral storage.
fn disk(worker: &core::Worker, machine_type: &core::MachineType) -> Option<Quantity> {
    let kubelets = worker.kubelet_data_volume_name.as_ref();
    let kubelets = kubelets.and_then(|name| worker.data_volumes.iter().find(|volume| volume.name == *name));
    let own = kubelets
        .map(|volume| &volume.size)
        .or(worker.volume.as_ref().map(|volume| &volume.size));
    own.cloned()
        .map(Quantity)
        .or_else(|| machine_type.storage.as_ref()?.size.clone())
}

fn cluster_autoscaler(options: &core::ClusterAutoscalerOptions) -> ClusterAutoscalerOptions {
    let core::ClusterAutoscalerOptions {
        scale_down_utilization_threshold,
        scale_down_gpu_utilization_threshold,
        scale_down_unneeded_time,
        scale_down_unready_time,
        max_node_provision_time,
    } = options;
    ClusterAutoscalerOptions {
        scale_down_utilization_threshold: scale_down_utilization_threshold.map(|share| share.to_string()),
        scale_down_gpu_utilization_threshold: scale_down_gpu_utilization_threshold.map(|share| share.to_string()),
        scale_down_unneeded_time: *scale_down_unneeded_time,
        scale_down_unready_time: *scale_down_unready_time,
        max_node_provision_time: *max_node_provision_time,
    }
}

#[cfg(test)]
mod tests {
    use api_meta::SecretReference;
    use serde_json::{Value, json};

    use super::super::super::os_config::PoolKey;
    use super::*;

    fn machine_types() -> Vec<core::MachineType> {
        serde_json::from_value(json!([
            {"name": "crater", "cpu": "4", "gpu": "1", "memory": "8Gi",
                "storage": {"class": "standard", "type": "ssd", "size": "20Gi"},
                "machineControllerManager": {"machineCreationTimeout": "40m0s"}},
            {"name": "plain", "cpu": "2", "gpu": "0", "memory": "4Gi"},
        ]))
        .unwrap()
    }

    fn made(worker: Value, spec: Value, present: &[WorkerPool]) -> Value {
        let worker: core::Worker = serde_json::from_value(worker).unwrap();
        let pool = Pool {
            key: PoolKey {
                name: worker.name.clone(),
                key: "gardener-node-agent-pool-a-0123456789abcdef".into(),
                version: "1.35.0".into(),
            },
            user_data: SecretReference {
                name: Some("user-data".into()),
                namespace: None,
            },
            config: String::new(),
        };
        let (spec, machine_types) = (serde_json::from_value(spec).unwrap(), machine_types());
        let surroundings = Surroundings {
            spec: &spec,
            machine_types: &machine_types,
            present,
        };
        serde_json::to_value(pool_of(&worker, &pool, &surroundings)).unwrap()
    }

    #[test]
    fn a_node_template_has_what_the_machine_type_offers() {
        let pool = made(json!({"name": "pool-a", "machine": {"type": "crater"}}), json!({}), &[]);
        let mut wanted = json!({"cpu": "4", "gpu": "1", "memory": "8Gi", "ephemeral-storage": "20Gi"});
        assert_eq!(pool["nodeTemplate"], json!({"capacity": wanted}));
        let with_volume = json!({"name": "pool-a", "machine": {"type": "crater"}, "volume": {"size": "50Gi"}});
        wanted["ephemeral-storage"] = json!("50Gi");
        assert_eq!(made(with_volume, json!({}), &[])["nodeTemplate"]["capacity"], wanted);
        let with_data_volume = json!({"name": "pool-a", "machine": {"type": "crater"}, "volume": {"size": "50Gi"},
            "dataVolumes": [{"name": "k", "size": "90Gi"}], "kubeletDataVolumeName": "k"});
        wanted["ephemeral-storage"] = json!("90Gi");
        assert_eq!(
            made(with_data_volume, json!({}), &[])["nodeTemplate"]["capacity"],
            wanted
        );
        let plain = made(json!({"name": "pool-a", "machine": {"type": "plain"}}), json!({}), &[]);
        assert_eq!(
            plain["nodeTemplate"]["capacity"],
            json!({"cpu": "2", "gpu": "0", "memory": "4Gi"})
        );
    }

    #[test]
    fn a_machine_type_gone_from_the_profile_keeps_its_node_template() {
        let present: WorkerPool = serde_json::from_value(json!({"name": "pool-a", "machineType": "retired",
            "nodeTemplate": {"capacity": {"cpu": "64"}}}))
        .unwrap();
        let with = |type_: &str| {
            let worker = json!({"name": "pool-a", "machine": {"type": type_}});
            made(worker, json!({}), std::slice::from_ref(&present))["nodeTemplate"].clone()
        };
        assert_eq!(with("retired"), json!({"capacity": {"cpu": "64"}}));
        assert_eq!(with("never-known"), Value::Null);
        assert_eq!(with("plain")["capacity"]["cpu"], "2");
    }

    #[test]
    fn settings_of_the_pool_go_before_those_of_shoot_and_machine_type() {
        let spec = json!({"kubernetes": {"kubelet": {"maxPods": 50}}});
        let pool = made(
            json!({"name": "pool-a", "machine": {"type": "crater"}}),
            spec.clone(),
            &[],
        );
        assert_eq!(pool["kubeletConfig"]["maxPods"], 50);
        assert_eq!(
            pool["machineControllerManager"],
            json!({"machineCreationTimeout": "40m0s"})
        );
        let own = json!({"name": "pool-a", "machine": {"type": "crater", "architecture": "arm64"},
            "kubernetes": {"kubelet": {"maxPods": 70}}, "priority": 3, "updateStrategy": "AutoInPlaceUpdate",
            "machineControllerManager": {"machineCreationTimeout": "5m0s", "maxEvictRetries": 2},
            "clusterAutoscaler": {"scaleDownUtilizationThreshold": 0.5, "scaleDownGpuUtilizationThreshold": 1.0,
                "scaleDownUnneededTime": "10m0s"}});
        let pool = made(own, spec, &[]);
        assert_eq!(pool["kubeletConfig"]["maxPods"], 70);
        assert_eq!(
            pool["machineControllerManager"],
            json!({"machineCreationTimeout": "5m0s", "maxEvictRetries": 2})
        );
        assert_eq!(
            pool["clusterAutoscaler"],
            json!({"scaleDownUtilizationThreshold": "0.5", "scaleDownGpuUtilizationThreshold": "1",
                "scaleDownUnneededTime": "10m0s"})
        );
        assert_eq!(
            (&pool["architecture"], &pool["priority"], &pool["updateStrategy"]),
            (&json!("arm64"), &json!(3), &json!("AutoInPlaceUpdate"))
        );
        assert_eq!(
            made(json!({"name": "p", "machine": {"type": "plain"}}), json!({}), &[])["machineControllerManager"],
            Value::Null
        );
    }

    #[test]
    fn node_labels_of_the_owner_never_replace_ours() {
        let worker = json!({"name": "pool-a", "machine": {"type": "plain", "architecture": "arm64"},
            "labels": {"own": "1", "worker.gardener.cloud/pool": "stolen"},
            "systemComponents": {"allow": false},
            "cri": {"name": "containerd", "containerRuntimes": [{"type": "gvisor"}]}});
        let spec = json!({"systemComponents": {"nodeLocalDNS": {"enabled": true}}});
        assert_eq!(
            made(worker, spec, &[])["labels"],
            json!({
                "own": "1",
                "node.kubernetes.io/role": "node",
                "kubernetes.io/arch": "arm64",
                "networking.gardener.cloud/node-local-dns-enabled": "true",
                "worker.gardener.cloud/pool": "pool-a",
                "worker.garden.sapcloud.io/group": "pool-a",
                "worker.gardener.cloud/gardener-node-agent-secret-name": "gardener-node-agent-pool-a-0123456789abcdef",
                "worker.gardener.cloud/kubernetes-version": "1.35.0",
                "worker.gardener.cloud/cri-name": "containerd",
                "containerruntime.worker.gardener.cloud/gvisor": "true",
            })
        );
    }
}
