//! The production form on real Kubernetes: etcd and kube-apiserver of `cargo xtask real kubernetes`, and our programs as
//! processes of their own with the rights of their manifests and no more.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "what tests share ends them where their set-up fails"
)]

pub mod balancer;
pub mod garden;
pub mod landscape;
pub mod objects;
pub mod process;

use std::time::Duration;

/// Real time: many times what a slow machine needs.
pub const PATIENCE: Duration = Duration::from_secs(120);
/// Between two looks at what no watch reports.
pub const LOOK_PAUSE: Duration = Duration::from_millis(50);
