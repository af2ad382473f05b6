//! The production form on real Kubernetes: etcd and kube-apiserver of `cargo xtask real kubernetes`, and our programs as
//! processes of their own with the rights of their manifests and no more.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "what tests share ends them where their set-up fails"
)]

pub mod balancer;
pub mod confinement;
pub mod garden;
pub mod landscape;
pub mod objects;
pub mod process;

use std::path::Path;
use std::time::Duration;

/// Real time: many times what a slow machine needs.
pub const PATIENCE: Duration = Duration::from_secs(120);
/// Between two looks at what no watch reports.
pub const LOOK_PAUSE: Duration = Duration::from_millis(50);

/// A port of loopback, as configuration files name it.
#[must_use]
pub fn local(port: u16) -> serde_json::Value {
    serde_json::json!({"bindAddress": "127.0.0.1", "port": port})
}

/// Writes a file that only its owner may read.
///
/// # Errors
/// It cannot be written.
pub(crate) fn write_private(path: &Path, text: &str) -> tests_parts::Outcome {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut options = std::fs::OpenOptions::new();
    let opened = options.write(true).create(true).truncate(true).mode(0o600).open(path);
    opened
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|error| format!("cannot write {}: {error}", path.display()))
}
