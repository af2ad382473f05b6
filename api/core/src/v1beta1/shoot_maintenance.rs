//! Hibernation and maintenance of a shoot (gardener/gardener v1.150 pkg/apis/core/v1beta1/types_shoot.go).
//! It only describes; defaults and validation stand in `api/rules`.

use api_meta::{GoDuration, or_empty};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Sleep: without nodes and control plane.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct Hibernation {
    /// Whether it is on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// When the shoot sleeps and wakes.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub schedules: Vec<HibernationSchedule>,
}

/// When the shoot sleeps and wakes: cron lines.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct HibernationSchedule {
    /// When the shoot goes to sleep, a cron line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<String>,
    /// When the shoot wakes up, a cron line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<String>,
    /// Time zone of the schedule, for instance `Europe/Berlin`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
}

/// When and how maintenance is done.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct Maintenance {
    /// What is updated in the maintenance window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_update: Option<MaintenanceAutoUpdate>,
    /// When maintenance may run; 30 minutes to 6 hours.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_window: Option<MaintenanceTimeWindow>,
    /// Changes of the spec wait for the maintenance window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confine_spec_update_rollout: Option<bool>,
    /// Credentials that rotate in the maintenance window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_rotation: Option<MaintenanceAutoRotation>,
}

/// What is updated by itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct MaintenanceAutoUpdate {
    /// Whether Kubernetes is updated.
    pub kubernetes_version: bool,
    /// Whether machine images are updated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine_image_version: Option<bool>,
}

/// What rotates by itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct MaintenanceAutoRotation {
    /// Which credentials rotate by themselves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credentials: Option<MaintenanceCredentialsAutoRotation>,
}

/// Which credentials rotate by themselves.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct MaintenanceCredentialsAutoRotation {
    /// Credentials of monitoring and logging.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observability: Option<MaintenanceRotationConfig>,
    /// The nodes' SSH key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ssh_keypair: Option<MaintenanceRotationConfig>,
    /// The key that encrypts etcd's content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etcd_encryption_key: Option<MaintenanceRotationConfig>,
}

/// How often.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct MaintenanceRotationConfig {
    /// How long credentials are used; zero switches rotation off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rotation_period: Option<GoDuration>,
}

/// The maintenance window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct MaintenanceTimeWindow {
    /// Begin of the window: `HHMMSS+HHMM`, for instance `220000+0100`.
    pub begin: String,
    /// End of the window, in the form of `begin`.
    pub end: String,
}
