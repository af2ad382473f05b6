//! Kubelet settings of a shoot or pool (gardener/gardener v1.150 pkg/apis/core/v1beta1/types_shoot.go).
//! It only describes; defaults and validation stand in `api/rules`.

use std::collections::BTreeMap;

use api_meta::{GoDuration, or_empty, string_enum};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Settings of the kubelets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct KubeletConfig {
    /// Feature gates by name.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "BTreeMap::is_empty")]
    pub feature_gates: BTreeMap<String, bool>,
    /// Whether CPU limits are enforced.
    #[serde(rename = "cpuCFSQuota", skip_serializing_if = "Option::is_none")]
    pub cpu_cfs_quota: Option<bool>,
    /// `none` or `static`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_manager_policy: Option<String>,
    /// Thresholds below which pods are evicted at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eviction_hard: Option<KubeletConfigEviction>,
    /// Seconds a pod gets on soft eviction at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eviction_max_pod_grace_period: Option<i32>,
    /// What an eviction must free at least.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eviction_minimum_reclaim: Option<KubeletConfigEvictionMinimumReclaim>,
    /// How long a node must stay above a threshold to lose its condition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eviction_pressure_transition_period: Option<GoDuration>,
    /// Thresholds below which pods are evicted after a grace period.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eviction_soft: Option<KubeletConfigEviction>,
    /// Those grace periods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eviction_soft_grace_period: Option<KubeletConfigEvictionSoftGracePeriod>,
    /// Pods per node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_pods: Option<i32>,
    /// Processes per pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_pids_limit: Option<i64>,
    /// Refuse to start with swap on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fail_swap_on: Option<bool>,
    /// Resources kept for Kubernetes' own processes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kube_reserved: Option<KubeletConfigReserved>,
    /// Disk use in percent that starts image clean-up.
    #[serde(rename = "imageGCHighThresholdPercent", skip_serializing_if = "Option::is_none")]
    pub image_gc_high_threshold_percent: Option<i32>,
    /// Disk use in percent that image clean-up aims at.
    #[serde(rename = "imageGCLowThresholdPercent", skip_serializing_if = "Option::is_none")]
    pub image_gc_low_threshold_percent: Option<i32>,
    /// Pull one image at a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serialize_image_pulls: Option<bool>,
    /// Image pulls per second.
    #[serde(rename = "registryPullQPS", skip_serializing_if = "Option::is_none")]
    pub registry_pull_qps: Option<i32>,
    /// Image pulls allowed in a burst.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub registry_burst: Option<i32>,
    /// Pods run with the runtime's default seccomp profile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seccomp_default: Option<bool>,
    /// Size at which a container's log is rotated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container_log_max_size: Option<Quantity>,
    /// Log files kept per container; at least 2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container_log_max_files: Option<i32>,
    /// Fail if the kernel's settings differ.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protect_kernel_defaults: Option<bool>,
    /// How long streaming connections may be idle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub streaming_connection_idle_timeout: Option<GoDuration>,
    /// How swap is used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_swap: Option<MemorySwapConfiguration>,
    /// Images pulled at once; needs `serializeImagePulls: false`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_parallel_image_pulls: Option<i32>,
    /// Unused images younger than this are kept.
    #[serde(rename = "imageMinimumGCAge", skip_serializing_if = "Option::is_none")]
    pub image_minimum_gc_age: Option<GoDuration>,
    /// Unused images older than this are removed.
    #[serde(rename = "imageMaximumGCAge", skip_serializing_if = "Option::is_none")]
    pub image_maximum_gc_age: Option<GoDuration>,
    /// Out of memory kills one process, not the container.
    #[serde(rename = "singleProcessOOMKill", skip_serializing_if = "Option::is_none")]
    pub single_process_oom_kill: Option<bool>,
    /// When credentials for images already there are checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_pull_credentials_verification_policy: Option<ImagePullCredentialsVerificationPolicy>,
    /// Images that need no credentials once they are there.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub preloaded_images_verification_allowlist: Vec<String>,
}

string_enum! {
    /// When credentials for images already there are checked.
    pub enum ImagePullCredentialsVerificationPolicy {
        /// Never.
        NeverVerify = "NeverVerify",
        /// Unless preloaded.
        NeverVerifyPreloadedImages = "NeverVerifyPreloadedImages",
        /// Unless on the list.
        NeverVerifyAllowlistedImages = "NeverVerifyAllowlistedImages",
        /// Always.
        AlwaysVerify = "AlwaysVerify",
    }
}

/// Thresholds of eviction: quantities or percentages.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct KubeletConfigEviction {
    /// Free memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_available: Option<String>,
    /// Free space of the image file system.
    #[serde(rename = "imageFSAvailable", skip_serializing_if = "Option::is_none")]
    pub image_fs_available: Option<String>,
    /// Free inodes of the image file system.
    #[serde(rename = "imageFSInodesFree", skip_serializing_if = "Option::is_none")]
    pub image_fs_inodes_free: Option<String>,
    /// Free space of the node's file system.
    #[serde(rename = "nodeFSAvailable", skip_serializing_if = "Option::is_none")]
    pub node_fs_available: Option<String>,
    /// Free inodes of the node's file system.
    #[serde(rename = "nodeFSInodesFree", skip_serializing_if = "Option::is_none")]
    pub node_fs_inodes_free: Option<String>,
}

/// What an eviction must free at least.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct KubeletConfigEvictionMinimumReclaim {
    /// Free memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_available: Option<Quantity>,
    /// Free space of the image file system.
    #[serde(rename = "imageFSAvailable", skip_serializing_if = "Option::is_none")]
    pub image_fs_available: Option<Quantity>,
    /// Free inodes of the image file system.
    #[serde(rename = "imageFSInodesFree", skip_serializing_if = "Option::is_none")]
    pub image_fs_inodes_free: Option<Quantity>,
    /// Free space of the node's file system.
    #[serde(rename = "nodeFSAvailable", skip_serializing_if = "Option::is_none")]
    pub node_fs_available: Option<Quantity>,
    /// Free inodes of the node's file system.
    #[serde(rename = "nodeFSInodesFree", skip_serializing_if = "Option::is_none")]
    pub node_fs_inodes_free: Option<Quantity>,
}

/// Grace periods of soft eviction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct KubeletConfigEvictionSoftGracePeriod {
    /// Free memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_available: Option<GoDuration>,
    /// Free space of the image file system.
    #[serde(rename = "imageFSAvailable", skip_serializing_if = "Option::is_none")]
    pub image_fs_available: Option<GoDuration>,
    /// Free inodes of the image file system.
    #[serde(rename = "imageFSInodesFree", skip_serializing_if = "Option::is_none")]
    pub image_fs_inodes_free: Option<GoDuration>,
    /// Free space of the node's file system.
    #[serde(rename = "nodeFSAvailable", skip_serializing_if = "Option::is_none")]
    pub node_fs_available: Option<GoDuration>,
    /// Free inodes of the node's file system.
    #[serde(rename = "nodeFSInodesFree", skip_serializing_if = "Option::is_none")]
    pub node_fs_inodes_free: Option<GoDuration>,
}

/// Resources kept back.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct KubeletConfigReserved {
    /// CPU cores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Quantity>,
    /// Memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Quantity>,
    /// Local disk space.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ephemeral_storage: Option<Quantity>,
    /// Process ids.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<Quantity>,
}

/// How swap is used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct MemorySwapConfiguration {
    /// What may be swapped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swap_behavior: Option<SwapBehavior>,
}

string_enum! {
    /// What may be swapped.
    pub enum SwapBehavior {
        /// Nothing.
        NoSwap = "NoSwap",
        /// What pods may by their memory requests.
        LimitedSwap = "LimitedSwap",
    }
}
