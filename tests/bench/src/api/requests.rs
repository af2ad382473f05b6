//! The requests of each phase, made before the clock starts.

use clap::ValueEnum;
use http::Method;
use serde_json::{Value, json};
use tests_conformance::Call;

/// Where everything is made.
pub(crate) const NAMESPACE: &str = "bench";
const JSON: &str = "application/json";

/// What objects are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// A kind that every server has
    Configmaps,
    /// A custom resource with a schema
    Widgets,
}

impl Kind {
    /// How it is named in results.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Configmaps => "ConfigMap",
            Kind::Widgets => "custom resource",
        }
    }

    /// Where its objects are.
    pub(crate) fn collection(self) -> String {
        match self {
            Kind::Configmaps => format!("/api/v1/namespaces/{NAMESPACE}/configmaps"),
            Kind::Widgets => format!("/apis/bench.orangery.dev/v1/namespaces/{NAMESPACE}/widgets"),
        }
    }

    fn object(self, name: &str, fields: &Value) -> Value {
        match self {
            Kind::Configmaps => {
                json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": fields})
            }
            Kind::Widgets => {
                json!({"apiVersion": "bench.orangery.dev/v1", "kind": "Widget", "metadata": {"name": name}, "spec": fields})
            }
        }
    }

    fn path(self, name: &str) -> String {
        format!("{}/{name}", self.collection())
    }

    /// Creates one with a payload of that many bytes.
    pub(crate) fn create(self, name: &str, bytes: usize) -> Call {
        let body = self.object(name, &json!({"payload": "x".repeat(bytes)}));
        Call::new(Method::POST, self.collection()).with_body(JSON, body.to_string())
    }

    /// Sets one field by a merge patch.
    pub(crate) fn patch(self, name: &str, text: &str) -> Call {
        let fields = match self {
            Kind::Configmaps => "data",
            Kind::Widgets => "spec",
        };
        let body = json!({fields: {"patched": text}});
        Call::new(Method::PATCH, self.path(name)).with_body("application/merge-patch+json", body.to_string())
    }

    /// Sets another field by server-side apply.
    pub(crate) fn apply(self, name: &str) -> Call {
        let body = self.object(name, &json!({"applied": "yes"}));
        let path = format!("{}?fieldManager=bench", self.path(name));
        Call::new(Method::PATCH, path).with_body("application/apply-patch+yaml", body.to_string())
    }

    /// Reads one.
    pub(crate) fn get(self, name: &str) -> Call {
        Call::new(Method::GET, self.path(name))
    }

    /// Reads all.
    pub(crate) fn list(self) -> Call {
        Call::new(Method::GET, self.collection())
    }

    /// Reads one, with the version of the list.
    pub(crate) fn first(self) -> Call {
        Call::new(Method::GET, format!("{}?limit=1", self.collection()))
    }

    /// Follows all from a version on.
    pub(crate) fn watch(self, version: &str) -> Call {
        let path = format!("{}?watch=1&resourceVersion={version}", self.collection());
        Call::new(Method::GET, path)
    }
}

/// The name of the object of that number.
pub(crate) fn name(number: usize) -> String {
    format!("o-{number:06}")
}

/// What must be there before the first phase.
pub(crate) fn preparations() -> [Call; 2] {
    let text = json!({"type": "string"});
    let spec = json!({"type": "object", "properties": {"payload": text, "patched": text, "applied": text}});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.bench.orangery.dev"},
        "spec": {
            "group": "bench.orangery.dev", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
            }],
        },
    });
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    [
        ("/api/v1/namespaces", namespace),
        ("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition),
    ]
    .map(|(path, body)| Call::new(Method::POST, path).with_body(JSON, body.to_string()))
}
