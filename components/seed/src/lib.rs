//! Pure builders of what a cluster needs to be a seed, beside the kinds of our own API: gardener-resource-manager of
//! the seed, who may write the status of extension objects, priority classes, and stand-ins of kinds that extensions' charts
//! name. Settings in, complete Kubernetes objects out; nothing here reads, writes or decides. Names, labels and values are those
//! of gardener/gardener v1.150 `pkg/component`.

mod extension_status;
mod object;
mod priorities;
mod resource_manager;
mod stand_ins;

pub use extension_status::{
    EXTENSION_STATUS_POLICY, EXTENSION_STATUS_WRITERS, PRIMARY_FIELDS, RESTORED_FIELD, StatusWriters,
    extension_status_binding, extension_status_policy, extension_status_writers,
};
pub use priorities::priority_classes;
pub use resource_manager::{
    CLUSTER_ROLE, CONFIGURATION_FILE, RESOURCE_CLASS, RESOURCE_MANAGER, ResourceManagerObjects,
    ResourceManagerSettings, SEED_AUTHORITY, SERVING_CERTIFICATE, Serving, TOKEN_MOUNT_PATH, WebhookServer,
    resource_manager, serving_secrets,
};
pub use stand_ins::{STAND_IN, is_stand_in, stand_ins};
