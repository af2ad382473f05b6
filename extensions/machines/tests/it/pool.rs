//! Pools as a user writes them, and what gardenlet makes of them in a Worker.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// A pool of a Shoot.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    pub(crate) name: &'static str,
    pub(crate) zones: Vec<&'static str>,
    pub(crate) size: (i32, i32),
    pub(crate) surge: Value,
    pub(crate) unavailable: Value,
    pub(crate) version: &'static str,
    pub(crate) machine_type: &'static str,
    pub(crate) image: &'static str,
    pub(crate) volume: &'static str,
    pub(crate) cri: &'static str,
    /// Further fields of the Worker's pool, which gardenlet passes on as they are.
    pub(crate) more: Value,
}

/// A pool of `machines` machines without zones, with the defaults of a Shoot.
pub(crate) fn pool(machines: i32) -> Pool {
    Pool {
        name: "p",
        zones: Vec::new(),
        size: (machines, machines),
        surge: json!(1),
        unavailable: json!(0),
        version: "1.33.1",
        machine_type: "small",
        image: "1.0.0",
        volume: "20Gi",
        cri: "containerd",
        more: json!({}),
    }
}

impl Pool {
    pub(crate) fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    pub(crate) fn named(self, name: &'static str) -> Self {
        self.with(|pool| pool.name = name)
    }

    pub(crate) fn zones(self, zones: &[&'static str]) -> Self {
        self.with(|pool| pool.zones = zones.to_vec())
    }

    pub(crate) fn image(self, image: &'static str) -> Self {
        self.with(|pool| pool.image = image)
    }

    pub(crate) fn size(self, minimum: i32, maximum: i32) -> Self {
        self.with(|pool| pool.size = (minimum, maximum))
    }

    pub(crate) fn room(self, surge: impl Into<Value>, unavailable: impl Into<Value>) -> Self {
        let (surge, unavailable) = (surge.into(), unavailable.into());
        self.with(|pool| (pool.surge, pool.unavailable) = (surge, unavailable))
    }

    pub(crate) fn more(self, more: Value) -> Self {
        self.with(|pool| pool.more = more)
    }

    /// The name of the Secret of its node agents (gardener/gardener v1.150
    /// pkg/component/extensions/operatingsystemconfig, `Key`).
    fn agent(&self) -> String {
        let minor = self.version.rsplit_once('.').unwrap().0;
        let parts = [minor, self.machine_type, self.image, self.volume, self.cri];
        let hex = |text: &str| -> String { Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect() };
        let joined: String = parts.map(hex).concat();
        format!("gardener-node-agent-{}-{}", self.name, &hex(&joined)[..16])
    }

    /// As it stands in a Worker.
    pub(crate) fn spec(&self) -> Value {
        let mut spec = json!({
            "name": self.name, "machineType": self.machine_type, "minimum": self.size.0, "maximum": self.size.1,
            "maxSurge": self.surge, "maxUnavailable": self.unavailable, "nodeAgentSecretName": self.agent(),
            "zones": self.zones, "machineImage": {"name": "linux", "version": self.image},
            "volume": {"size": self.volume}, "kubernetesVersion": self.version,
            "labels": {"worker.gardener.cloud/pool": self.name},
            "userDataSecretRef": {"name": "user-data", "key": "cloud_config"},
        });
        spec.as_object_mut()
            .unwrap()
            .extend(self.more.as_object().unwrap().clone());
        spec
    }
}
