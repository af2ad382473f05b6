//! Changes that a provider needs in hosted control planes and on nodes (contract of gardener/gardener v1.150
//! docs/extensions/controlplane-webhooks.md): one method per object, called by a webhook for what gardenlet writes.

mod context;
mod control_plane;
mod kinds;
mod mutator;
mod nodes;
mod webhook;

pub use context::{Context, Pool};
pub use control_plane::ControlPlane;
pub use kinds::{Etcd, VerticalPodAutoscaler};
pub use webhook::{ControlPlaneKind, Ensured, cloud_provider_webhook, control_plane_webhook};
