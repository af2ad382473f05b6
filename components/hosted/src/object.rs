//! From a literal, which reads like the YAML it stands for, to a typed object.

use api_meta::labels::MUTATED_BY_CONTROL_PLANE_WEBHOOK;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

/// Reads a literal of this crate as its kind. Fields that the kind does not have would get lost: the goldens show
/// what is left.
pub(crate) fn typed<T: DeserializeOwned>(literal: Value) -> T {
    serde_json::from_value(literal).expect("a literal of this crate reads as its kind, which the goldens hold")
}

/// Labels of a component's pods and of what selects them.
pub(crate) struct Labels {
    pub(crate) app: &'static str,
    pub(crate) role: Option<&'static str>,
    pub(crate) name: &'static str,
}

impl Labels {
    /// What selectors match: never changes once deployed.
    pub(crate) fn selector(&self) -> Value {
        match self.role {
            Some(role) => json!({"app": self.app, "role": role}),
            None => json!({"app": self.app}),
        }
    }

    /// All labels of the objects.
    pub(crate) fn all(&self) -> Value {
        let mut labels: Map<String, Value> = match self.selector() {
            Value::Object(labels) => labels,
            _ => Map::new(),
        };
        labels.insert("gardener.cloud/role".into(), "controlplane".into());
        labels.insert("app.kubernetes.io/name".into(), self.name.into());
        labels.insert("app.kubernetes.io/part-of".into(), "shoot-control-plane".into());
        labels.insert("app.kubernetes.io/managed-by".into(), "gardenlet".into());
        Value::Object(labels)
    }

    /// All labels of an object that control plane webhooks of providers may change.
    pub(crate) fn with_webhooks(&self) -> Value {
        let mut labels = self.all();
        labels[MUTATED_BY_CONTROL_PLANE_WEBHOOK] = json!("true");
        labels
    }
}

/// An HTTPS probe of `path` on `port`.
pub(crate) fn https_probe(path: &str, port: u16) -> Value {
    json!({
        "httpGet": {"path": path, "port": port, "scheme": "HTTPS"},
        "periodSeconds": 10,
        "timeoutSeconds": 15,
        "successThreshold": 1,
        "failureThreshold": 3,
    })
}
