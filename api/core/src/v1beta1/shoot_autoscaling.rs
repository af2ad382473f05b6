//! Autoscalers of a shoot (gardener/gardener v1.150 pkg/apis/core/v1beta1/types_shoot.go).
//! It only describes; defaults and validation stand in `api/rules`.

use std::collections::BTreeMap;

use api_meta::{GoDuration, go_number, or_empty, string_enum};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ControlPlaneAutoscaling;

/// Settings of the cluster autoscaler.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ClusterAutoscaler {
    /// Wait after growing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale_down_delay_after_add: Option<GoDuration>,
    /// Wait after removing a node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale_down_delay_after_delete: Option<GoDuration>,
    /// Wait after a failed removal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale_down_delay_after_failure: Option<GoDuration>,
    /// How long a node must not be needed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale_down_unneeded_time: Option<GoDuration>,
    /// Use below which a node is not needed, 0 to 1.
    #[serde(serialize_with = "go_number", skip_serializing_if = "Option::is_none")]
    pub scale_down_utilization_threshold: Option<f64>,
    /// How often the cluster is looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scan_interval: Option<GoDuration>,
    /// How the pool to grow is chosen; several are separated by commas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expander: Option<ExpanderMode>,
    /// How long a new node may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_node_provision_time: Option<GoDuration>,
    /// Seconds that pods get when a node is removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_graceful_termination_seconds: Option<i32>,
    /// Taints that the autoscaler ignores; use `startupTaints`.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub ignore_taints: Vec<String>,
    /// How old a pending pod must be to count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new_pod_scale_up_delay: Option<GoDuration>,
    /// Empty nodes removed at once; use `maxScaleDownParallelism`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_empty_bulk_delete: Option<i32>,
    /// Pods of DaemonSets do not count as use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ignore_daemonsets_utilization: Option<bool>,
    /// Log level.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verbosity: Option<i32>,
    /// Taints that nodes only have while starting.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub startup_taints: Vec<String>,
    /// Taints that nodes may have while running.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub status_taints: Vec<String>,
    /// Nodes removed at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_scale_down_parallelism: Option<i32>,
    /// Nodes with pods removed at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_drain_parallelism: Option<i32>,
    /// First wait after a failed scale-up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_node_group_backoff_duration: Option<GoDuration>,
    /// Longest wait after failed scale-ups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_node_group_backoff_duration: Option<GoDuration>,
    /// After this time without a failure the wait is reset to the first one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_group_backoff_reset_timeout: Option<GoDuration>,
    /// Whether metrics are kept per pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub emit_per_node_group_metrics: Option<bool>,
    /// How long one scale-up computation may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_binpacking_time: Option<GoDuration>,
    /// Bounds of its vertical scaling.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub autoscaling: Option<ControlPlaneAutoscaling>,
}

string_enum! {
    /// How the pool to grow is chosen.
    pub enum ExpanderMode {
        /// Least waste.
        LeastWaste = "least-waste",
        /// Most pods.
        MostPods = "most-pods",
        /// Highest priority.
        Priority = "priority",
        /// At random.
        Random = "random",
        /// Fewest nodes.
        LeastNodes = "least-nodes",
    }
}

/// Settings of the cluster autoscaler for one pool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ClusterAutoscalerOptions {
    /// Use below which a node is not needed, 0 to 1.
    #[serde(serialize_with = "go_number", skip_serializing_if = "Option::is_none")]
    pub scale_down_utilization_threshold: Option<f64>,
    /// GPU use below which a node is not needed, 0 to 1.
    #[serde(serialize_with = "go_number", skip_serializing_if = "Option::is_none")]
    pub scale_down_gpu_utilization_threshold: Option<f64>,
    /// How long a node must not be needed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale_down_unneeded_time: Option<GoDuration>,
    /// How long an unready node must not be needed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale_down_unready_time: Option<GoDuration>,
    /// How long a new node may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_node_provision_time: Option<GoDuration>,
}

/// Settings of the vertical pod autoscaler.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct VerticalPodAutoscaler {
    /// Whether it is on.
    pub enabled: bool,
    /// A pod that runs out of memory within this time is resized.
    #[serde(rename = "evictAfterOOMThreshold", skip_serializing_if = "Option::is_none")]
    pub evict_after_oom_threshold: Option<GoDuration>,
    /// Pods that may be evicted at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eviction_rate_burst: Option<i32>,
    /// Pods evicted per second; zero or less switches the limit off.
    #[serde(serialize_with = "go_number", skip_serializing_if = "Option::is_none")]
    pub eviction_rate_limit: Option<f64>,
    /// Share of replicas that may be evicted, 0 to 1.
    #[serde(serialize_with = "go_number", skip_serializing_if = "Option::is_none")]
    pub eviction_tolerance: Option<f64>,
    /// Share added on top of use, 0 to 1.
    #[serde(serialize_with = "go_number", skip_serializing_if = "Option::is_none")]
    pub recommendation_margin_fraction: Option<f64>,
    /// How often pods are updated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updater_interval: Option<GoDuration>,
    /// How often recommendations are made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recommender_interval: Option<GoDuration>,
    /// Percentile of CPU use aimed at, 0 to 1.
    #[serde(
        rename = "targetCPUPercentile",
        serialize_with = "go_number",
        skip_serializing_if = "Option::is_none"
    )]
    pub target_cpu_percentile: Option<f64>,
    /// Percentile of the lower CPU bound, 0 to 1.
    #[serde(
        rename = "recommendationLowerBoundCPUPercentile",
        serialize_with = "go_number",
        skip_serializing_if = "Option::is_none"
    )]
    pub recommendation_lower_bound_cpu_percentile: Option<f64>,
    /// Percentile of the upper CPU bound, 0 to 1.
    #[serde(
        rename = "recommendationUpperBoundCPUPercentile",
        serialize_with = "go_number",
        skip_serializing_if = "Option::is_none"
    )]
    pub recommendation_upper_bound_cpu_percentile: Option<f64>,
    /// Percentile of memory use aimed at, 0 to 1.
    #[serde(serialize_with = "go_number", skip_serializing_if = "Option::is_none")]
    pub target_memory_percentile: Option<f64>,
    /// Percentile of the lower memory bound, 0 to 1.
    #[serde(serialize_with = "go_number", skip_serializing_if = "Option::is_none")]
    pub recommendation_lower_bound_memory_percentile: Option<f64>,
    /// Percentile of the upper memory bound, 0 to 1.
    #[serde(serialize_with = "go_number", skip_serializing_if = "Option::is_none")]
    pub recommendation_upper_bound_memory_percentile: Option<f64>,
    /// Half-life of CPU samples.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_histogram_decay_half_life: Option<GoDuration>,
    /// Half-life of memory samples.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_histogram_decay_half_life: Option<GoDuration>,
    /// Length of one interval of memory peaks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_aggregation_interval: Option<GoDuration>,
    /// Number of intervals of memory peaks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_aggregation_interval_count: Option<i64>,
    /// Feature gates by name.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "BTreeMap::is_empty")]
    pub feature_gates: BTreeMap<String, bool>,
    /// What may be recommended at most.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "BTreeMap::is_empty")]
    pub max_allowed: BTreeMap<String, Quantity>,
    /// Workers that write recommendations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recommender_update_worker_count: Option<i64>,
}
