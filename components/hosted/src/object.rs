//! The objects that components consist of, and how they are made: from a literal, which reads like the YAML it stands
//! for, to a typed object.

use std::fmt;

use api_meta::annotations::network as annotations;
use api_meta::labels::{MUTATED_BY_CONTROL_PLANE_WEBHOOK, network};
use k8s_openapi::Metadata;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{ConfigMap, Service, ServiceAccount};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::de::DeserializeOwned;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

macro_rules! kinds {
    ($($kind:ident,)+) => {
        /// A kind of object that components consist of. All of them are namespaced, and none holds data that its
        /// deletion would lose, but for a StatefulSet's claims, which stay.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum ObjectKind {
            $(#[doc = concat!("Kind ", stringify!($kind), ".")] $kind,)+
        }

        impl ObjectKind {
            /// Every kind.
            pub const ALL: &'static [Self] = &[$(Self::$kind,)+];

            /// The kind as it is written in an object's `kind`.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => stringify!($kind),)+
                }
            }
        }

        /// One object of a component. It serialises as the object itself, `apiVersion` and `kind` included.
        #[derive(Clone, Debug, PartialEq)]
        pub enum HostedObject {
            $(#[doc = concat!("Of kind ", stringify!($kind), ".")] $kind(Box<$kind>),)+
        }

        impl HostedObject {
            /// Its kind.
            #[must_use]
            pub fn kind(&self) -> ObjectKind {
                match self {
                    $(Self::$kind(_) => ObjectKind::$kind,)+
                }
            }

            /// Its metadata.
            #[must_use]
            pub fn metadata(&self) -> &ObjectMeta {
                match self {
                    $(Self::$kind(object) => Metadata::metadata(object.as_ref()),)+
                }
            }

            pub(crate) fn metadata_mut(&mut self) -> &mut ObjectMeta {
                match self {
                    $(Self::$kind(object) => Metadata::metadata_mut(object.as_mut()),)+
                }
            }
        }

        impl Serialize for HostedObject {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self {
                    $(Self::$kind(object) => object.serialize(serializer),)+
                }
            }
        }

        $(impl From<$kind> for HostedObject {
            fn from(object: $kind) -> Self {
                Self::$kind(Box::new(object))
            }
        })+
    };
}

// One line per kind. Code that applies or deletes them matches all.
kinds! {
    ServiceAccount,
    Role,
    RoleBinding,
    ConfigMap,
    Service,
    PodDisruptionBudget,
    Deployment,
    StatefulSet,
}

impl HostedObject {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.metadata().name.as_deref().unwrap_or_default()
    }

    /// Kind and name.
    #[must_use]
    pub fn reference(&self) -> Reference {
        Reference {
            kind: self.kind(),
            name: self.name().to_owned(),
        }
    }
}

/// Kind and name of an object in a shoot's namespace. Printed as `KIND/NAME`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reference {
    /// The object's kind.
    pub kind: ObjectKind,
    /// The object's name.
    pub name: String,
}

impl Reference {
    /// Reads `KIND/NAME`; none where the kind is unknown or the name is empty or has a slash.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let (kind, name) = text.split_once('/')?;
        let kind = ObjectKind::ALL.iter().find(|one| one.name() == kind)?;
        let well_formed = !name.is_empty() && !name.contains('/');
        well_formed.then(|| Self {
            kind: *kind,
            name: name.to_owned(),
        })
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind.name(), self.name)
    }
}

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

/// Label: the component that an object belongs to.
pub(crate) const NAME: &str = "app.kubernetes.io/name";
/// Label: who made an object.
pub(crate) const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// Who made the objects of components.
pub(crate) const MANAGER: &str = "gardenlet";

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
        labels.insert(NAME.into(), self.name.into());
        labels.insert("app.kubernetes.io/part-of".into(), "shoot-control-plane".into());
        labels.insert(MANAGED_BY.into(), MANAGER.into());
        Value::Object(labels)
    }

    /// Metadata of an object that has the component's name.
    pub(crate) fn metadata(&self, namespace: &str) -> Value {
        json!({"name": self.name, "namespace": namespace, "labels": self.all()})
    }

    /// The component's identity in the seed.
    pub(crate) fn service_account(&self, namespace: &str) -> ServiceAccount {
        typed(json!({"metadata": self.metadata(namespace), "automountServiceAccountToken": false}))
    }

    /// Gives that identity the Role of the same name.
    pub(crate) fn role_binding(&self, namespace: &str) -> RoleBinding {
        typed(json!({
            "metadata": self.metadata(namespace),
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": self.name},
            "subjects": [{"kind": "ServiceAccount", "name": self.name, "namespace": namespace}],
        }))
    }

    /// Lets one pod at a time be evicted for the maintenance of nodes, and any that is not ready: that one serves no client.
    pub(crate) fn disruption_budget(&self, namespace: &str) -> PodDisruptionBudget {
        typed(json!({
            "metadata": self.metadata(namespace),
            "spec": {
                "maxUnavailable": 1,
                "selector": {"matchLabels": self.selector()},
                "unhealthyPodEvictionPolicy": "AlwaysAllow",
            },
        }))
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

/// The annotation that opens ports of a Service's pods to pods that scrape a shoot's metrics.
pub(crate) fn from_scrape_targets() -> String {
    let (prefix, suffix) = (annotations::FROM_PREFIX, annotations::ALLOWED_PORTS_SUFFIX);
    format!("{prefix}{}{suffix}", network::SCRAPE_TARGETS)
}

/// An HTTPS probe that holds the others back until `path` answers on `port`, for at most ten minutes.
pub(crate) fn startup_probe(path: &str, port: u16) -> Value {
    json!({
        "httpGet": {"path": path, "port": port, "scheme": "HTTPS"},
        "periodSeconds": 1,
        "timeoutSeconds": 15,
        "failureThreshold": 600,
    })
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
