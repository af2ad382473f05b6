//! The configuration files of the processes. What they leave out has its default.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tests_parts::Outcome;

use crate::{local, write_private};

/// How replicas agree on the one that works.
#[derive(Clone, Copy, Debug)]
pub struct Election {
    /// Seconds for which a Lease holds after its last renewal: how long another start waits after `kill -9`.
    pub lease_seconds: u32,
    /// Seconds for which a leader tries to renew it.
    pub renew_seconds: u32,
    /// Milliseconds between tries.
    pub retry_ms: u32,
}

impl Election {
    /// What stands when nothing is configured.
    pub const DEFAULT: Self = Self {
        lease_seconds: 15,
        renew_seconds: 10,
        retry_ms: 2_000,
    };
    /// For tests that kill leaders: as short as a busy machine bears.
    pub const SHORT: Self = Self {
        lease_seconds: 5,
        renew_seconds: 4,
        retry_ms: 500,
    };
}

/// Ports of a process: health, then metrics.
pub(super) type HealthPorts = [u16; 2];

/// What every process has.
pub(super) fn process(api_version: &str, kind: &str, ports: HealthPorts, election: Election) -> Value {
    let [health, metrics] = ports;
    let Election {
        lease_seconds,
        renew_seconds,
        retry_ms,
    } = election;
    json!({
        "apiVersion": api_version,
        "kind": kind,
        "leaderElection": {"leaseDuration": format!("{lease_seconds}s"), "renewDeadline": format!("{renew_seconds}s"),
            "retryPeriod": format!("{retry_ms}ms")},
        "logFormat": "text",
        "server": {"healthProbes": local(health), "metrics": local(metrics)},
    })
}

/// Writes a configuration to `NAME.yaml` of the folder.
///
/// # Errors
/// It cannot be written.
pub(super) fn write(folder: &Path, name: &str, configuration: &Value) -> Outcome<PathBuf> {
    let path = folder.join(format!("{name}.yaml"));
    write_private(&path, &format!("{configuration:#}\n"))?;
    Ok(path)
}
