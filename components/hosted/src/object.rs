//! From a literal, which reads like the YAML it stands for, to a typed object.

use api_meta::annotations::network as annotations;
use api_meta::labels::{MUTATED_BY_CONTROL_PLANE_WEBHOOK, network};
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

    /// All labels of the pods, with those by which network policies let them connect somewhere.
    pub(crate) fn of_pods(&self, allowed: &[&str]) -> Value {
        let mut labels = self.all();
        for key in allowed {
            labels[key] = network::ALLOWED.into();
        }
        labels
    }

    /// All labels of an object that control plane webhooks of providers may change.
    pub(crate) fn with_webhooks(&self) -> Value {
        let mut labels = self.all();
        labels[MUTATED_BY_CONTROL_PLANE_WEBHOOK] = json!("true");
        labels
    }
}

/// The label of pods that connect to a port of a Service in their namespace.
pub(crate) fn to_service(service: &str, port: u16) -> String {
    format!("{}to-{service}-tcp-{port}", network::PREFIX)
}

/// The value of an annotation that opens TCP ports of a Service's pods.
pub(crate) fn open_ports(ports: &[u16]) -> String {
    let ports: Vec<String> = ports
        .iter()
        .map(|port| format!(r#"{{"protocol":"TCP","port":{port}}}"#))
        .collect();
    format!("[{}]", ports.join(","))
}

/// The value of an annotation that selects namespaces by one label each.
pub(crate) fn namespaces_with(labels: &[(&str, &str)]) -> String {
    let selectors: Vec<String> = labels
        .iter()
        .map(|(key, value)| format!(r#"{{"matchLabels":{{"{key}":"{value}"}}}}"#))
        .collect();
    format!("[{}]", selectors.join(","))
}

/// The annotation that opens ports of a Service's pods to whoever scrapes a shoot's metrics.
pub(crate) fn from_scrape_targets() -> String {
    let (prefix, suffix) = (annotations::FROM_PREFIX, annotations::ALLOWED_PORTS_SUFFIX);
    format!("{prefix}{}{suffix}", network::SCRAPE_TARGETS)
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
