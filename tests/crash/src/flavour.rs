//! The Shoots to whose tasks harm is done: between them they have every task that there is.

use std::fmt;

use landscape_local::{NodeAccess, documents};
use serde_json::{Value, json};

use crate::script::{NAME, NAMESPACE, Phase, SHOOT};

const WORKERLESS: &str = include_str!("../../../examples/41-shoot-workerless.yaml");

/// A Shoot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Flavour {
    /// The example.
    Example,
    /// The example without machines.
    Workerless,
    /// Two pools, a domain, an Extension, references to other objects, and a tunnel to its nodes.
    Full,
    /// The example, which loses the tunnel to its nodes.
    Untunnelled,
}

impl Flavour {
    /// All, the simplest first.
    pub const ALL: [Self; 4] = [Self::Example, Self::Workerless, Self::Full, Self::Untunnelled];

    /// The phases of its life.
    #[must_use]
    pub fn phases(self) -> &'static [Phase] {
        match self {
            Self::Untunnelled => &[Phase::Create, Phase::Direct, Phase::Delete],
            _ => &[Phase::Create, Phase::Hibernate, Phase::Wake, Phase::Delete],
        }
    }

    /// Those of them that no flavour before it has.
    #[must_use]
    pub fn own_phases(self) -> &'static [Phase] {
        match self {
            Self::Untunnelled => &[Phase::Direct],
            _ => self.phases(),
        }
    }

    /// How its API server reaches its nodes in a phase.
    #[must_use]
    pub fn node_access(self, phase: Phase) -> NodeAccess {
        match (self, phase) {
            (Self::Full, _) | (Self::Untunnelled, Phase::Create) => NodeAccess::Tunnel,
            _ => NodeAccess::Direct,
        }
    }

    /// The Shoot as its user asks for it.
    ///
    /// # Errors
    /// An example is no YAML.
    pub fn manifest(self) -> Result<Value, String> {
        let text = match self {
            Self::Example | Self::Full | Self::Untunnelled => SHOOT,
            Self::Workerless => WORKERLESS,
        };
        let mut shoot = documents(text).map_err(|fault| fault.to_string())?.remove(0);
        shoot["metadata"]["name"] = json!(NAME);
        if self == Self::Full {
            let spec = &mut shoot["spec"];
            let mut second = spec["provider"]["workers"][0].clone();
            second["name"] = json!("pool-b");
            if let Value::Array(pools) = &mut spec["provider"]["workers"] {
                pools.push(second);
            }
            spec["dns"] = json!({"domain": format!("{NAME}.local.external.local.gardener.cloud")});
            spec["extensions"] = json!([{"type": "local-ext"}]);
            spec["resources"] = json!([
                {"name": "a", "resourceRef": {"apiVersion": "v1", "kind": "Secret", "name": "referenced"}},
                {"name": "b", "resourceRef": {"apiVersion": "v1", "kind": "ConfigMap", "name": "referenced"}},
            ]);
        }
        Ok(shoot)
    }
}

impl fmt::Display for Flavour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Example => "example",
            Self::Workerless => "workerless",
            Self::Full => "full",
            Self::Untunnelled => "untunnelled",
        })
    }
}

/// What Shoots refer to, in their project's namespace.
#[must_use]
pub fn referenced() -> Vec<Value> {
    let metadata = json!({"name": "referenced", "namespace": NAMESPACE});
    vec![
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"a": "b"}}),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "b"}}),
    ]
}

/// What a user has in the Shoot when it is deleted: something of each sort that a
/// deletion looks for. Webhooks are not served yet.
#[must_use]
pub fn furniture() -> Vec<Value> {
    let (labels, group) = (json!({"app": "hello"}), "crash.example");
    vec![
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "mine"}}),
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "hello", "namespace": "mine"},
            "spec": {"selector": labels, "ports": [{"port": 80}]}}),
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "hello", "namespace": "default"},
            "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "web", "image": "registry.example/hello:1"}]}}}}),
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("things.{group}")},
            "spec": {"group": group, "scope": "Namespaced",
                "names": {"kind": "Thing", "listKind": "ThingList", "plural": "things", "singular": "thing"},
                "versions": [{"name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}}),
        json!({"apiVersion": format!("{group}/v1"), "kind": "Thing",
            "metadata": {"name": "mine", "namespace": "default"}, "spec": {}}),
    ]
}
