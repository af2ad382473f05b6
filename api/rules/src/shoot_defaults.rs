//! Defaults of Shoots (gardener/gardener v1.150 pkg/apis/core/v1beta1/defaults_shoot.go, plugin/pkg/shoot/mutator).
//! It overwrites nothing that a user wrote, and done twice changes nothing.

use api_core::v1beta1::{
    CRI, CRIName, CloudProfileReference, CloudProfileSpec, IPFamily, KubeControllerManagerConfig, KubeProxyConfig,
    MachineUpdateStrategy, MaintenanceAutoUpdate, MaintenanceRotationConfig, MaintenanceTimeWindow, Networking,
    ProxyMode, SSHAccess, Seed, Shoot, ShootMachineImage, ShootPurpose, Toleration, VerticalPodAutoscaler, Worker,
    WorkerSystemComponents,
};
use api_meta::GoDuration;
use api_meta::names::{GARDEN_NAMESPACE, SEED_TAINT_PROTECTED};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::shoot::is_workerless;
use crate::shoot_kubernetes_defaults::{default_reservation, default_settings};
use crate::shoot_values::NODE_MASKS;
use crate::shoot_workers::is_in_place;
use crate::versions;

/// Pod network when neither shoot nor seed chooses one.
const POD_NETWORK: &str = "100.96.0.0/11";
/// Service network when neither shoot nor seed chooses one.
const SERVICE_NETWORK: &str = "100.64.0.0/13";
/// Pods per node when no kubelet setting overrides it (Kubernetes' own default).
const MAX_PODS: i32 = 110;
/// How often the key that encrypts etcd's content rotates.
const KEY_ROTATION_PERIOD: GoDuration = GoDuration::from_hours(28 * 24);
/// Node network of IPv6 addresses.
const NODE_MASK_IPV6: i32 = 64;
/// The scheduler that picks seeds.
const SCHEDULER_NAME: &str = "default-scheduler";

/// What defaults depend on beside the shoot itself.
#[derive(Clone, Copy, Debug)]
pub struct ShootDefaults<'a> {
    /// The shoot's seed, if it is known; without it networks are left open until [`default_shoot_networks`].
    pub seed: Option<&'a Seed>,
    /// The shoot's cloud profile, if it is known: version prefixes and missing images are completed from it.
    pub cloud_profile: Option<&'a CloudProfileSpec>,
    /// Now, for versions that expire.
    pub now: Timestamp,
    /// A random number: it picks the maintenance window.
    pub entropy: u64,
    /// Whether the key that encrypts etcd's content gets a period of rotation: a new shoot's does.
    pub rotates_key: bool,
    /// Whether pods are scaled vertically by default: a new shoot's are.
    pub scales_vertically: bool,
    /// Whether the kubelet gets reserved resources by default.
    pub reserves: bool,
}

/// Writes today's defaults into a shoot.
pub fn default_shoot(shoot: &mut Shoot, with: ShootDefaults<'_>) {
    let ShootDefaults {
        seed,
        cloud_profile,
        now,
        entropy,
        rotates_key,
        scales_vertically,
        reserves,
    } = with;
    let workerless = is_workerless(shoot);
    let in_garden = shoot.metadata.namespace.as_deref() == Some(GARDEN_NAMESPACE);
    let spec = &mut shoot.spec;
    spec.scheduler_name.get_or_insert_with(|| SCHEDULER_NAME.to_owned());
    spec.purpose.get_or_insert(ShootPurpose::Evaluation);
    if in_garden
        && !spec
            .tolerations
            .iter()
            .any(|toleration| toleration.key == SEED_TAINT_PROTECTED)
    {
        spec.tolerations.push(Toleration {
            key: SEED_TAINT_PROTECTED.to_owned(),
            value: None,
        });
    }
    default_maintenance(shoot, workerless, entropy);
    if rotates_key {
        default_key_rotation(shoot);
    }
    if scales_vertically && !workerless {
        default_vertical_scaling(shoot);
    }
    if let Some(profile) = cloud_profile {
        default_versions(shoot, profile, now);
        default_architectures(shoot, profile);
    }
    default_profile_reference(shoot);
    default_settings(shoot);
    if reserves {
        default_reservation(shoot);
    }
    let spec = &mut shoot.spec;
    spec.networking.get_or_insert_default();
    if !workerless {
        let proxy = spec.kubernetes.kube_proxy.get_or_insert_with(KubeProxyConfig::default);
        proxy.mode.get_or_insert(ProxyMode::IPTables);
        proxy.enabled.get_or_insert(true);
        spec.provider
            .workers_settings
            .get_or_insert_default()
            .ssh_access
            .get_or_insert(SSHAccess { enabled: true });
        spec.provider.workers.iter_mut().for_each(default_worker);
        default_node_mask(shoot);
    }
    if let Some(networking) = &mut shoot.spec.networking
        && networking.ip_families.is_empty()
    {
        networking.ip_families = vec![IPFamily::IPv4];
    }
    if seed.is_some() {
        default_shoot_networks(shoot, seed);
    }
}

/// Completes pod and service networks: the seed's choice for shoots first, then the general ones. For IPv4 alone.
pub fn default_shoot_networks(shoot: &mut Shoot, seed: Option<&Seed>) {
    let workerless = is_workerless(shoot);
    let defaults = seed.and_then(|seed| seed.spec.networks.shoot_defaults.as_ref());
    let networking = shoot.spec.networking.get_or_insert_with(Networking::default);
    if networking.ip_families.iter().any(|family| *family != IPFamily::IPv4) {
        return;
    }
    let choose = |theirs: Option<&String>, general: &str| theirs.cloned().unwrap_or_else(|| general.to_owned());
    let services = choose(defaults.and_then(|d| d.services.as_ref()), SERVICE_NETWORK);
    networking.services.get_or_insert(services);
    if !workerless {
        let pods = choose(defaults.and_then(|d| d.pods.as_ref()), POD_NETWORK);
        networking.pods.get_or_insert(pods);
    }
}

/// Below Kubernetes 1.34 `cloudProfile` follows the older `cloudProfileName`, and below 1.33 (or with a version that
/// cannot be read) also the other way round, for clients that know the older field alone (gardener/gardener v1.150
/// pkg/utils/gardener/cloudprofile.go). From 1.34 the fields are what the user wrote.
fn default_profile_reference(shoot: &mut Shoot) {
    const CLOUD_PROFILE: &str = "CloudProfile";
    let spec = &mut shoot.spec;
    let version = spec.kubernetes.version.as_deref().and_then(versions::parse);
    let below = |minor| {
        version
            .as_ref()
            .is_none_or(|version| versions::is_below(version, minor))
    };
    let syncs = below(34);
    if syncs && spec.cloud_profile.is_none() {
        spec.cloud_profile = spec.cloud_profile_name.clone().map(|name| CloudProfileReference {
            kind: CLOUD_PROFILE.to_owned(),
            name,
        });
    }
    let Some(reference) = &mut spec.cloud_profile else {
        return;
    };
    if reference.kind.is_empty() {
        reference.kind = CLOUD_PROFILE.to_owned();
    }
    if !syncs {
        return;
    }
    if reference.kind != CLOUD_PROFILE {
        spec.cloud_profile_name = None;
    } else if below(33) || spec.cloud_profile_name.as_ref().is_some_and(|name| !name.is_empty()) {
        spec.cloud_profile_name = Some(reference.name.clone());
    }
}

fn default_key_rotation(shoot: &mut Shoot) {
    shoot
        .spec
        .maintenance
        .get_or_insert_default()
        .auto_rotation
        .get_or_insert_default()
        .credentials
        .get_or_insert_default()
        .etcd_encryption_key
        .get_or_insert(MaintenanceRotationConfig {
            rotation_period: Some(KEY_ROTATION_PERIOD),
        });
}

fn default_vertical_scaling(shoot: &mut Shoot) {
    shoot
        .spec
        .kubernetes
        .vertical_pod_autoscaler
        .get_or_insert_with(|| VerticalPodAutoscaler {
            enabled: true,
            ..VerticalPodAutoscaler::default()
        });
}

/// A pool has the one architecture of its machine type.
fn default_architectures(shoot: &mut Shoot, profile: &CloudProfileSpec) {
    for worker in &mut shoot.spec.provider.workers {
        let machine = &mut worker.machine;
        let offered = profile
            .machine_types
            .iter()
            .find(|offered| offered.name == machine.type_);
        if machine.architecture.is_none()
            && let Some(architecture) = offered.and_then(|offered| offered.architecture.clone())
        {
            machine.architecture = Some(architecture);
        }
    }
}

fn default_maintenance(shoot: &mut Shoot, workerless: bool, entropy: u64) {
    let maintenance = shoot.spec.maintenance.get_or_insert_default();
    let update = maintenance.auto_update.get_or_insert(MaintenanceAutoUpdate {
        kubernetes_version: true,
        machine_image_version: None,
    });
    if !workerless {
        update.machine_image_version.get_or_insert(true);
    }
    maintenance.time_window.get_or_insert_with(|| {
        let begin = entropy % 24;
        MaintenanceTimeWindow {
            begin: format!("{begin:02}0000+0000"),
            end: format!("{end:02}0000+0000", end = (begin + 1) % 24),
        }
    });
}

fn default_worker(worker: &mut Worker) {
    worker.cri.get_or_insert(CRI {
        name: CRIName::Containerd,
        container_runtimes: Vec::new(),
    });
    let strategy = worker
        .update_strategy
        .get_or_insert(MachineUpdateStrategy::AutoRollingUpdate);
    let (surge, unavailable) = match strategy {
        MachineUpdateStrategy::AutoInPlaceUpdate => (0, 1),
        MachineUpdateStrategy::ManualInPlaceUpdate => (0, 0),
        MachineUpdateStrategy::AutoRollingUpdate | MachineUpdateStrategy::Other(_) => (1, 0),
    };
    worker.max_surge.get_or_insert(IntOrString::Int(surge));
    worker.max_unavailable.get_or_insert(IntOrString::Int(unavailable));
    worker
        .system_components
        .get_or_insert(WorkerSystemComponents { allow: true });
    if is_in_place(worker) {
        // A machine that is updated in place is not ready for as long as that takes.
        let settings = worker.machine_controller_manager.get_or_insert_default();
        settings.disable_health_timeout.get_or_insert(true);
    }
    worker.machine.architecture.get_or_insert_with(|| "amd64".to_owned());
}

/// The smallest node network that holds twice the pods of the largest node.
pub(crate) fn default_node_mask(shoot: &mut Shoot) {
    let kubernetes = &mut shoot.spec.kubernetes;
    let general = kubernetes.kubelet.as_ref().and_then(|kubelet| kubelet.max_pods);
    let pools = shoot.spec.provider.workers.iter();
    let of_pools = pools.filter_map(|w| w.kubernetes.as_ref()?.kubelet.as_ref()?.max_pods);
    // What is out of bounds is refused where it stands, not by what would follow from it here.
    let max_pods = of_pools
        .chain(general)
        .filter(|pods| *pods > 0)
        .max()
        .unwrap_or(MAX_PODS);
    let addresses = u32::try_from(max_pods)
        .unwrap_or(1)
        .saturating_mul(2)
        .checked_next_power_of_two()
        .unwrap_or(1 << 31);
    let mask = 32 - i32::try_from(addresses.trailing_zeros()).unwrap_or(8);
    let families = shoot
        .spec
        .networking
        .as_ref()
        .map_or(&[][..], |networking| &networking.ip_families);
    let has = |family| families.contains(&family);
    let (v4, v6) = (families.is_empty() || has(IPFamily::IPv4), has(IPFamily::IPv6));
    let manager = kubernetes
        .kube_controller_manager
        .get_or_insert_with(KubeControllerManagerConfig::default);
    let (size, size_ipv6) = (&mut manager.node_cidr_mask_size, &mut manager.node_cidr_mask_size_ipv6);
    if v4 {
        size.get_or_insert(mask.clamp(*NODE_MASKS.start(), *NODE_MASKS.end()));
    }
    match (v4, v6) {
        (true, true) => {
            size_ipv6.get_or_insert(NODE_MASK_IPV6);
        }
        (false, true) if size_ipv6.is_none() => {
            size.get_or_insert(NODE_MASK_IPV6);
        }
        _ => {}
    }
}

/// Completes version prefixes and missing images with the newest supported ones.
fn default_versions(shoot: &mut Shoot, profile: &CloudProfileSpec, now: Timestamp) {
    let kubernetes = &mut shoot.spec.kubernetes;
    let wanted = kubernetes.version.clone().unwrap_or_default();
    if !versions::is_full(&wanted) {
        let offer = profile
            .kubernetes
            .versions
            .iter()
            .map(|v| (v.version.as_str(), versions::classification(v, now)));
        if let Some(version) = versions::newest(offer, &wanted) {
            kubernetes.version = Some(version.to_owned());
        }
    }
    for worker in &mut shoot.spec.provider.workers {
        let image = worker.machine.image.get_or_insert_with(ShootMachineImage::default);
        if image.name.is_empty() && image.version.as_deref().is_some_and(versions::is_full) {
            // A version without a name is no choice; validation refuses it.
            continue;
        }
        let offered = profile
            .machine_images
            .iter()
            .find(|offer| image.name.is_empty() || offer.name == image.name);
        let Some(offered) = offered else { continue };
        image.name = offered.name.clone();
        let wanted = image.version.clone().unwrap_or_default();
        if !versions::is_full(&wanted) {
            let offer = offered
                .versions
                .iter()
                .map(|v| (v.version.as_str(), image_classification(v, now)));
            if let Some(version) = versions::newest(offer, &wanted) {
                image.version = Some(version.to_owned());
            }
        }
    }
}

/// What a machine image version may be used for at `now`.
pub(crate) fn image_classification(
    version: &api_core::v1beta1::MachineImageVersion,
    now: Timestamp,
) -> api_core::v1beta1::VersionClassification {
    let as_version = api_core::v1beta1::ExpirableVersion {
        version: version.version.clone(),
        expiration_date: version.expiration_date.clone(),
        classification: version.classification.clone(),
        lifecycle: version.lifecycle.clone(),
    };
    versions::classification(&as_version, now)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::seed::tests::seed;
    use crate::validate_shoot;

    fn defaults<'a>(seed: Option<&'a Seed>, profile: Option<&'a CloudProfileSpec>) -> ShootDefaults<'a> {
        ShootDefaults {
            seed,
            cloud_profile: profile,
            now: Timestamp::UNIX_EPOCH,
            entropy: 47,
            rotates_key: true,
            scales_vertically: true,
            reserves: true,
        }
    }

    fn profile() -> CloudProfileSpec {
        serde_json::from_value(json!({"kubernetes": {"versions": [{"version": "1.34.9"}, {"version": "1.35.1"}, {"version": "1.35.2", "classification": "preview"}]},
            "machineImages": [{"name": "linux", "versions": [{"version": "2.0.0"}, {"version": "2.1.0"}]}]}))
        .unwrap()
    }

    #[test]
    fn a_small_shoot_becomes_a_valid_one_and_defaults_settle() {
        let mut shoot: Shoot = serde_json::from_value(json!({"metadata": {"name": "s", "namespace": "garden"}, "spec": {
            "region": "r", "cloudProfile": {"name": "c"}, "credentialsBindingName": "b", "kubernetes": {"version": "1.35", "kubelet": {"maxPods": 200}},
            "networking": {"type": "flat"},
            "provider": {"type": "local", "workers": [{"name": "a", "minimum": 1, "maximum": 2, "machine": {"type": "m"}}]}}}))
        .unwrap();
        let (seed, profile) = (seed(), profile());
        default_shoot(&mut shoot, defaults(Some(&seed), Some(&profile)));
        let again = shoot.clone();
        default_shoot(&mut shoot, defaults(Some(&seed), Some(&profile)));
        assert_eq!(shoot, again);
        assert_eq!(validate_shoot(&shoot), []);
        let written = serde_json::to_value(&shoot.spec).unwrap();
        assert_eq!(written["kubernetes"]["version"], "1.35.1");
        assert_eq!(
            written["kubernetes"]["kubeControllerManager"],
            json!({"nodeCIDRMaskSize": 23, "nodeMonitorGracePeriod": "40s"})
        );
        assert_eq!(
            written["networking"],
            json!({"type": "flat", "pods": "100.96.0.0/11", "services": "100.64.0.0/13", "ipFamilies": ["IPv4"]})
        );
        assert_eq!(written["cloudProfile"], json!({"kind": "CloudProfile", "name": "c"}));
        assert_eq!(
            written["maintenance"]["timeWindow"],
            json!({"begin": "230000+0000", "end": "000000+0000"})
        );
        assert_eq!(
            written["tolerations"],
            json!([{"key": "seed.gardener.cloud/protected"}])
        );
        let worker = &written["provider"]["workers"][0];
        assert_eq!(
            worker["machine"],
            json!({"type": "m", "architecture": "amd64", "image": {"name": "linux", "version": "2.1.0"}})
        );
        assert_eq!((&worker["maxSurge"], &worker["maxUnavailable"]), (&json!(1), &json!(0)));
    }

    #[test]
    fn older_references_to_the_profile_are_completed_below_kubernetes_1_34() {
        let references = |version: &str, spec: serde_json::Value| {
            let mut shoot: Shoot = serde_json::from_value(json!({ "spec": spec })).unwrap();
            shoot.spec.kubernetes.version = Some(version.to_owned());
            default_profile_reference(&mut shoot);
            let kind = shoot.spec.cloud_profile.map(|reference| reference.kind);
            (
                kind.unwrap_or_default(),
                shoot.spec.cloud_profile_name.unwrap_or_default(),
            )
        };
        let pair = |kind: &str, name: &str| (kind.to_owned(), name.to_owned());
        let old = json!({"cloudProfileName": "c"});
        assert_eq!(references("1.33.1", old.clone()), pair("CloudProfile", "c"));
        assert_eq!(references("1.34.1", old), pair("", "c"));
        let new = json!({"cloudProfile": {"name": "c"}});
        assert_eq!(references("1.32.1", new.clone()), pair("CloudProfile", "c"));
        assert_eq!(references("1.33.1", new), pair("CloudProfile", ""));
        let own = json!({"cloudProfile": {"kind": "NamespacedCloudProfile", "name": "n"}, "cloudProfileName": "c"});
        assert_eq!(references("1.33.1", own), pair("NamespacedCloudProfile", ""));
    }

    #[test]
    fn a_workerless_shoot_gets_nothing_about_nodes() {
        let mut shoot: Shoot = serde_json::from_value(json!({"metadata": {"name": "s", "namespace": "garden-dev"}, "spec": {
            "region": "r", "cloudProfile": {"name": "c"}, "kubernetes": {"version": "1.35.1"}, "provider": {"type": "local"}}}))
        .unwrap();
        let mut seed = seed();
        seed.spec.networks.shoot_defaults = serde_json::from_value(json!({"services": "10.9.0.0/16"})).unwrap();
        default_shoot(&mut shoot, defaults(Some(&seed), Some(&profile())));
        assert_eq!(validate_shoot(&shoot), []);
        let written = serde_json::to_value(&shoot.spec).unwrap();
        assert_eq!(
            written["networking"],
            json!({"services": "10.9.0.0/16", "ipFamilies": ["IPv4"]})
        );
        let settings: Vec<&str> = written["kubernetes"]
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .collect();
        assert_eq!(settings, ["kubeAPIServer", "version"]);
        assert_eq!(written["provider"], json!({"type": "local"}));
    }
}
