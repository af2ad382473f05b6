//! Defaults of a Shoot's settings of Kubernetes' components: constants, so that they can be filled in wherever a Shoot is
//! read (gardener/gardener v1.150 pkg/apis/core/v1beta1/defaults_shoot.go, plugin/pkg/shoot/resourcereservation).
//! Extensions in Go follow these fields without looking whether they are there.

use api_core::v1beta1::{
    APIServerLogging, APIServerRequests, CoreDNSAutoscalingMode, EncryptionProviderType, KubeAPIServerConfig,
    KubeletConfig, KubeletConfigReserved, Maintenance, MaintenanceCredentialsAutoRotation, SchedulingProfile, Shoot,
    SwapBehavior, SystemComponents,
};
use api_meta::GoDuration;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::shoot::is_workerless;
use crate::shoot_scaling_defaults::{default_of_pools, default_vertical};

/// Seconds that pods tolerate a node that is not ready or not reachable.
const NODE_TOLERATION_SECONDS: i64 = 300;
/// Resources of a node that are not for pods.
const RESERVED: [(&str, Reserved); 3] = [
    ("80m", |reserved| &mut reserved.cpu),
    ("1Gi", |reserved| &mut reserved.memory),
    ("20k", |reserved| &mut reserved.pid),
];
type Reserved = fn(&mut KubeletConfigReserved) -> &mut Option<Quantity>;

/// Fills in what the Shoot leaves open of these settings. Done twice it changes nothing.
pub fn default_shoot_kubernetes(shoot: &mut Shoot) {
    default_settings(shoot);
    default_reservation(shoot);
}

/// The same but for what kubelets reserve.
pub(crate) fn default_settings(shoot: &mut Shoot) {
    let workerless = is_workerless(shoot);
    let spec = &mut shoot.spec;
    let api_server = spec.kubernetes.kube_api_server.get_or_insert_default();
    default_api_server(api_server);
    spec.kubernetes
        .vertical_pod_autoscaler
        .iter_mut()
        .for_each(default_vertical);
    spec.kubernetes.cluster_autoscaler.iter_mut().for_each(default_of_pools);
    default_rotation(spec.maintenance.as_mut());
    if let Some(ingress) = spec.addons.as_mut().and_then(|addons| addons.nginx_ingress.as_mut()) {
        ingress
            .external_traffic_policy
            .get_or_insert_with(|| "Cluster".to_owned());
    }
    if workerless {
        return;
    }
    let tolerations = [
        &mut api_server.default_not_ready_toleration_seconds,
        &mut api_server.default_unreachable_toleration_seconds,
    ];
    for seconds in tolerations {
        seconds.get_or_insert(NODE_TOLERATION_SECONDS);
    }
    spec.kubernetes
        .kube_controller_manager
        .get_or_insert_default()
        .node_monitor_grace_period
        .get_or_insert(GoDuration::from_secs(40));
    spec.kubernetes
        .kube_scheduler
        .get_or_insert_default()
        .profile
        .get_or_insert(SchedulingProfile::Balanced);
    default_kubelet(spec.kubernetes.kubelet.get_or_insert_default());
    // A pool's own settings replace the Shoot's as a whole; of these only swap is filled in.
    for worker in &mut spec.provider.workers {
        if let Some(kubelet) = worker.kubernetes.as_mut().and_then(|own| own.kubelet.as_mut()) {
            default_swap(kubelet);
        }
    }
    default_dns(spec.system_components.get_or_insert_default());
    let dashboard = spec
        .addons
        .as_mut()
        .and_then(|addons| addons.kubernetes_dashboard.as_mut());
    if let Some(dashboard) = dashboard.filter(|dashboard| dashboard.enabled) {
        dashboard.authentication_mode.get_or_insert_with(|| "token".to_owned());
    }
}

/// Credentials whose rotation is configured without a period rotate weekly.
fn default_rotation(maintenance: Option<&mut Maintenance>) {
    let rotation = maintenance.and_then(|maintenance| maintenance.auto_rotation.as_mut());
    let Some(credentials) = rotation.and_then(|rotation| rotation.credentials.as_mut()) else {
        return;
    };
    let MaintenanceCredentialsAutoRotation {
        observability,
        ssh_keypair,
        etcd_encryption_key,
    } = credentials;
    for config in [observability, ssh_keypair, etcd_encryption_key].into_iter().flatten() {
        config.rotation_period.get_or_insert(GoDuration::from_hours(7 * 24));
    }
}

fn default_api_server(config: &mut KubeAPIServerConfig) {
    let APIServerRequests {
        max_non_mutating_inflight,
        max_mutating_inflight,
    } = config.requests.get_or_insert_default();
    max_non_mutating_inflight.get_or_insert(400);
    max_mutating_inflight.get_or_insert(200);
    config.event_ttl.get_or_insert(GoDuration::from_hours(1));
    let APIServerLogging { verbosity, .. } = config.logging.get_or_insert_default();
    verbosity.get_or_insert(2);
    let encryption = config.encryption_config.get_or_insert_default();
    encryption.provider.type_.get_or_insert(EncryptionProviderType::Aescbc);
}

fn default_kubelet(config: &mut KubeletConfig) {
    default_swap(config);
    config.image_minimum_gc_age.get_or_insert(GoDuration::from_mins(2));
    config.image_maximum_gc_age.get_or_insert_default();
    config.image_gc_high_threshold_percent.get_or_insert(50);
    config.image_gc_low_threshold_percent.get_or_insert(40);
    let parallel = config.max_parallel_image_pulls.is_some_and(|pulls| pulls > 1);
    config.serialize_image_pulls.get_or_insert(!parallel);
}

/// What the kubelets of a Shoot with workers reserve (gardener/gardener v1.150 plugin/pkg/shoot/resourcereservation).
pub(crate) fn default_reservation(shoot: &mut Shoot) {
    if is_workerless(shoot) {
        return;
    }
    let kubelet = shoot.spec.kubernetes.kubelet.get_or_insert_default();
    let reserved = kubelet.kube_reserved.get_or_insert_default();
    for (quantity, field) in RESERVED {
        field(reserved).get_or_insert_with(|| Quantity(quantity.to_owned()));
    }
}

/// Nodes have no swap by default; with swap pods may use what belongs to their memory requests.
fn default_swap(config: &mut KubeletConfig) {
    let fail_swap_on = *config.fail_swap_on.get_or_insert(true);
    if !fail_swap_on && config.feature_gates.get("NodeSwap") == Some(&true) {
        config
            .memory_swap
            .get_or_insert_default()
            .swap_behavior
            .get_or_insert(SwapBehavior::LimitedSwap);
    }
}

fn default_dns(components: &mut SystemComponents) {
    let autoscaling = components
        .core_dns
        .get_or_insert_default()
        .autoscaling
        .get_or_insert_default();
    // Upstream replaces an unknown mode as well as a missing one.
    if matches!(autoscaling.mode, CoreDNSAutoscalingMode::Other(_)) {
        autoscaling.mode = CoreDNSAutoscalingMode::Horizontal;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn defaulted(spec: Value) -> Value {
        let mut shoot: Shoot = serde_json::from_value(json!({"spec": spec})).unwrap();
        default_shoot_kubernetes(&mut shoot);
        let once = shoot.clone();
        default_shoot_kubernetes(&mut shoot);
        assert_eq!(shoot, once);
        serde_json::to_value(&shoot.spec).unwrap()
    }

    fn workers(kubernetes: Value) -> Value {
        json!({"kubernetes": kubernetes, "provider": {"type": "p", "workers": [{"name": "a"}]}})
    }

    #[test]
    fn a_shoot_with_workers_gets_what_gardens_api_answers() {
        let spec = defaulted(workers(json!({"version": "1.34.3"})));
        assert_eq!(
            spec["kubernetes"],
            json!({
                "version": "1.34.3",
                "kubeAPIServer": {"defaultNotReadyTolerationSeconds": 300, "defaultUnreachableTolerationSeconds": 300,
                    "encryptionConfig": {"provider": {"type": "aescbc"}}, "eventTTL": "1h0m0s", "logging": {"verbosity": 2},
                    "requests": {"maxMutatingInflight": 200, "maxNonMutatingInflight": 400}},
                "kubeControllerManager": {"nodeMonitorGracePeriod": "40s"},
                "kubeScheduler": {"profile": "balanced"},
                "kubelet": {"failSwapOn": true, "imageGCHighThresholdPercent": 50, "imageGCLowThresholdPercent": 40,
                    "imageMaximumGCAge": "0s", "imageMinimumGCAge": "2m0s", "serializeImagePulls": true,
                    "kubeReserved": {"cpu": "80m", "memory": "1Gi", "pid": "20k"}},
            })
        );
        assert_eq!(
            spec["systemComponents"],
            json!({"coreDNS": {"autoscaling": {"mode": "horizontal"}}})
        );
    }

    #[test]
    fn a_workerless_shoot_gets_the_api_servers_settings_alone() {
        assert_eq!(
            defaulted(json!({"kubernetes": {"kubeAPIServer": {"eventTTL": "2h0m0s"}}}))["kubernetes"],
            json!({"kubeAPIServer": {"encryptionConfig": {"provider": {"type": "aescbc"}}, "eventTTL": "2h0m0s", "logging": {"verbosity": 2},
                "requests": {"maxMutatingInflight": 200, "maxNonMutatingInflight": 400}}})
        );
    }

    #[test]
    fn what_the_owner_wrote_stays_and_decides_on_the_rest() {
        let kubelet = json!({"failSwapOn": false, "featureGates": {"NodeSwap": true}, "maxParallelImagePulls": 3,
            "kubeReserved": {"memory": "2Gi"}});
        let mut spec = workers(json!({"kubelet": kubelet, "kubeScheduler": {"profile": "bin-packing"}}));
        spec["systemComponents"] = json!({"coreDNS": {"autoscaling": {"mode": "cluster-proportional"}}});
        let spec = defaulted(spec);
        let kubelet = &spec["kubernetes"]["kubelet"];
        assert_eq!(kubelet["memorySwap"], json!({"swapBehavior": "LimitedSwap"}));
        assert_eq!(kubelet["serializeImagePulls"], false);
        assert_eq!(
            kubelet["kubeReserved"],
            json!({"cpu": "80m", "memory": "2Gi", "pid": "20k"})
        );
        assert_eq!(spec["kubernetes"]["kubeScheduler"]["profile"], "bin-packing");
        assert_eq!(
            spec["systemComponents"]["coreDNS"]["autoscaling"]["mode"],
            "cluster-proportional"
        );
    }

    #[test]
    fn a_pools_own_kubelet_settings_get_only_swap() {
        let mut spec = workers(json!({}));
        spec["provider"]["workers"][0]["kubernetes"] = json!({"kubelet": {"maxPods": 50}});
        let spec = defaulted(spec);
        assert_eq!(
            spec["provider"]["workers"][0]["kubernetes"]["kubelet"],
            json!({"maxPods": 50, "failSwapOn": true})
        );
    }
}
