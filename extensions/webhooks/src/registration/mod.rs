//! How API servers come to call an extension's webhooks: configurations in the cluster that the extension runs in or in the
//! garden, and in shoots by ManagedResources.

mod configuration;
mod mode;
mod register;
mod shoots;

pub(crate) use configuration::{Configurations, configurations};
pub use mode::Mode;
pub(crate) use mode::Place;
pub(crate) use register::Registration;
pub use shoots::ShootWebhooks;
