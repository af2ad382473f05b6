//! A provider for a cloud that does not exist: to learn how a provider is written on the SDK, and to find out what providers
//! and the SDK do when a cloud misbehaves. [`cloud`] is the cloud, in memory or behind HTTP; all else is an ordinary extension
//! that would work in the same way for a real one. It runs nothing: its machines are records.

mod admission;
pub mod cloud;
mod codes;
mod control_plane;
mod credentials;
mod driver;
mod infrastructure;
mod provider_status;
mod resource;
mod run;
mod webhooks;
mod worker;

pub use admission::{ADMISSION, admission};
pub use resource::{CLUSTER_TAG, SLOT_TAG, UNIQUE_TAG};
pub use run::{ABOUT, DEFAULT_TYPE, extend};
pub use webhooks::control_plane;
