//! Settings of seeds (gardener/gardener v1.150 pkg/apis/core/v1beta1/types_seed.go).
//! It only describes; defaults and validation stand in `api/rules`.

use std::collections::BTreeMap;

use api_meta::{or_empty, string_enum};
use k8s_openapi::api::core::v1::Toleration;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the seed offers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct SeedSettings {
    /// Room kept free for new control planes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub excess_capacity_reservation: Option<SeedSettingExcessCapacityReservation>,
    /// Scheduling of shoots.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduling: Option<SeedSettingScheduling>,
    /// Services of type LoadBalancer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_balancer_services: Option<SeedSettingLoadBalancerServices>,
    /// Settings of the vertical pod autoscaler.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vertical_pod_autoscaler: Option<SeedSettingVerticalPodAutoscaler>,
    /// The watchdog over control planes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dependency_watchdog: Option<SeedSettingDependencyWatchdog>,
    /// Keep traffic in the zone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topology_aware_routing: Option<SeedSettingTopologyAwareRouting>,
    /// How zones of control planes are chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone_selection: Option<SeedSettingZoneSelection>,
    /// The autoscaler of volume claims.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persistent_volume_claim_autoscaler: Option<SeedSettingPersistentVolumeClaimAutoscaler>,
}

/// How zones of control planes are chosen.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct SeedSettingZoneSelection {
    /// Mode.
    pub mode: ZoneSelectionMode,
}

string_enum! {
    /// How zones of control planes are chosen.
    pub enum ZoneSelectionMode {
        /// The shoot's zones if the seed has them.
        Prefer = "Prefer",
        /// Only zones the shoot has.
        Enforce = "Enforce",
    }
}

/// Room kept free for new control planes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct SeedSettingExcessCapacityReservation {
    /// Whether it is on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// What to reserve.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub configs: Vec<SeedSettingExcessCapacityReservationConfig>,
}

/// One piece of room kept free.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct SeedSettingExcessCapacityReservationConfig {
    /// Resources.
    #[serde(deserialize_with = "or_empty")]
    pub resources: BTreeMap<String, Quantity>,
    /// Labels of the nodes.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// Taints that are tolerated.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,
}

/// Whether the scheduler may choose the seed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct SeedSettingScheduling {
    /// Whether the scheduler may choose the seed.
    pub visible: bool,
}

/// Services of type LoadBalancer in the seed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct SeedSettingLoadBalancerServices {
    /// Annotations.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// `Cluster` or `Local`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external_traffic_policy: Option<String>,
    /// Zones.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub zones: Vec<SeedSettingLoadBalancerServicesZones>,
    /// The PROXY protocol.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy_protocol: Option<LoadBalancerServicesProxyProtocol>,
    /// An ingress per zone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zonal_ingress: Option<SeedSettingLoadBalancerServicesZonalIngress>,
    /// `spec.loadBalancerClass` of the services.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
}

/// The same for one zone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct SeedSettingLoadBalancerServicesZones {
    /// Name.
    pub name: String,
    /// Annotations.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// `Cluster` or `Local`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external_traffic_policy: Option<String>,
    /// The PROXY protocol.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy_protocol: Option<LoadBalancerServicesProxyProtocol>,
}

/// The PROXY protocol.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct LoadBalancerServicesProxyProtocol {
    /// Whether the PROXY protocol may be used.
    pub allowed: bool,
}

/// An ingress per zone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct SeedSettingLoadBalancerServicesZonalIngress {
    /// Whether it is on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
}

/// The seed's vertical pod autoscaler.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct SeedSettingVerticalPodAutoscaler {
    /// Whether it is on.
    pub enabled: bool,
    /// Feature gates by name.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "BTreeMap::is_empty")]
    pub feature_gates: BTreeMap<String, bool>,
    /// What may be recommended at most.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "BTreeMap::is_empty")]
    pub max_allowed: BTreeMap<String, Quantity>,
}

/// The seed's autoscaler of volume claims.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct SeedSettingPersistentVolumeClaimAutoscaler {
    /// Whether it is on.
    pub enabled: bool,
}

/// The watchdog over control planes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct SeedSettingDependencyWatchdog {
    /// Restarts pods that wait for a dependency that is back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weeder: Option<SeedSettingDependencyWatchdogWeeder>,
    /// Watches reachability of API servers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prober: Option<SeedSettingDependencyWatchdogProber>,
}

/// The part that restarts waiting pods.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct SeedSettingDependencyWatchdogWeeder {
    /// Whether it is on.
    pub enabled: bool,
}

/// The part that watches API servers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct SeedSettingDependencyWatchdogProber {
    /// Whether it is on.
    pub enabled: bool,
}

/// Keeping traffic in the zone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct SeedSettingTopologyAwareRouting {
    /// Whether it is on.
    pub enabled: bool,
}
