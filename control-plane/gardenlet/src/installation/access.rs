//! How an extension's pods reach the garden: a kubeconfig without credentials, a Secret that the token requestor fills,
//! and what is put into the pods (gardener/gardener v1.150 pkg/utils/gardener/garden.go). Pure.

use std::collections::BTreeMap;

use api_meta::{Fault, annotations, labels, names};
use api_resources::data::{checksum, reference};
use base_secrets::{Credential, KubeconfigSpec, kubeconfig, to_yaml};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use serde_json::{Value, json};

use super::pods::{annotate, containers, has_variable, pod_spec, set_named, set_variable};
use crate::config::GardenAccess;

/// Where the volume is mounted.
const MOUNT_PATH: &str = "/var/run/secrets/gardener.cloud/garden/generic-kubeconfig";
/// The volume, and what mounts it.
const VOLUME: &str = "garden-kubeconfig";
/// Environment variable with the path of a container's kubeconfig.
const VARIABLE: &str = "GARDEN_KUBECONFIG";
/// Prefix of the kubeconfig's Secret, and its purpose as a label.
pub(crate) const GENERIC_KUBECONFIG: &str = "generic-garden-kubeconfig";
/// Name of the Secret with the token.
pub(crate) const ACCESS_SECRET: &str = "garden-access-extension";
/// Key of the kubeconfig, and its file below [`MOUNT_PATH`].
const KUBECONFIG_KEY: &str = "kubeconfig";
/// Key of the token, and its file below [`MOUNT_PATH`].
const TOKEN_KEY: &str = "token";
/// Kinds whose pods get the kubeconfig.
const GROUPS: [&str; 2] = ["apps", "batch"];

/// The Secrets of an installation whose pods reach the garden.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Access {
    /// The kubeconfig. Immutable: another one has another name.
    pub kubeconfig: Secret,
    /// What the token requestor reads, and fills.
    pub token: Secret,
}

/// Name of the service account in the garden that an installation acts as.
pub(crate) fn service_account(installation: &str) -> String {
    format!("{}{installation}", names::EXTENSION_SERVICE_ACCOUNT_PREFIX)
}

impl Access {
    /// For the pods in `namespace`.
    ///
    /// # Errors
    /// The kubeconfig cannot be written, which never happens.
    pub(crate) fn new(
        garden: &GardenAccess,
        installation: &str,
        registration: &str,
        seed: &str,
        namespace: &str,
    ) -> Result<Self, Fault> {
        let GardenAccess {
            server,
            ca_pem,
            tls_server_name,
        } = garden;
        let content = to_yaml(&kubeconfig(&KubeconfigSpec {
            name: "garden".to_owned(),
            server: server.clone(),
            tls_server_name: tls_server_name.clone(),
            authorities: ca_pem.clone(),
            credential: Credential::TokenFile(format!("{MOUNT_PATH}/{TOKEN_KEY}")),
            namespace: None,
        }));
        let content = content.map_err(Fault::bug)?.expose().as_bytes().to_vec();
        let metadata = |name: String, labels: &[(&str, &str)]| ObjectMeta {
            name: Some(name),
            namespace: Some(namespace.to_owned()),
            labels: Some(owned(labels)),
            ..ObjectMeta::default()
        };
        let of_kubeconfig = [
            (labels::GARBAGE_COLLECTABLE_REFERENCE, "true"),
            // By these it is watched; the token requestor has another purpose.
            (labels::RESOURCES_PURPOSE, GENERIC_KUBECONFIG),
            (labels::RESOURCES_CLASS, labels::resources::CLASS_GARDEN),
        ];
        let name = format!("{GENERIC_KUBECONFIG}-{}", checksum(&content));
        let of_account = json!({labels::CONTROLLER_REGISTRATION_NAME: registration}).to_string();
        Ok(Self {
            kubeconfig: Secret {
                metadata: metadata(name, &of_kubeconfig),
                data: Some(BTreeMap::from([(KUBECONFIG_KEY.to_owned(), ByteString(content))])),
                immutable: Some(true),
                type_: Some("Opaque".to_owned()),
                ..Secret::default()
            },
            token: Secret {
                metadata: ObjectMeta {
                    annotations: Some(owned(&[
                        (annotations::SERVICE_ACCOUNT_NAME, &service_account(installation)),
                        (annotations::SERVICE_ACCOUNT_NAMESPACE, &names::seed_namespace(seed)),
                        (annotations::SERVICE_ACCOUNT_LABELS, &of_account),
                    ])),
                    ..metadata(
                        ACCESS_SECRET.to_owned(),
                        &[
                            (labels::RESOURCES_PURPOSE, labels::resources::PURPOSE_TOKEN_REQUESTOR),
                            (labels::RESOURCES_CLASS, labels::resources::CLASS_GARDEN),
                        ],
                    )
                },
                type_: Some("Opaque".to_owned()),
                ..Secret::default()
            },
        })
    }

    /// Name of the Secret with the kubeconfig.
    pub(crate) fn kubeconfig_name(&self) -> String {
        self.kubeconfig.name_any()
    }

    /// Whether both Secrets are among those that are `present` in the namespace.
    pub(crate) fn is_among(&self, present: &[String]) -> bool {
        let names = [self.kubeconfig_name(), ACCESS_SECRET.to_owned()];
        names.iter().all(|name| present.contains(name))
    }

    /// Gives the kubeconfig to the pods of `object`, unless it is of another namespace, of a kind without pods, has
    /// been opted out by label, or has one already. The Secrets that the pods use are protected from garbage
    /// collection.
    pub(crate) fn inject(&self, object: &mut Value, namespace: &str) {
        self.give(object, namespace);
        let Some(pods) = pod_spec(object, &GROUPS, namespace) else {
            return;
        };
        let (pods, kubeconfig) = (pods.to_string(), self.kubeconfig_name());
        for name in [kubeconfig.as_str(), ACCESS_SECRET] {
            // Quoted as JSON: no part of a longer name.
            if pods.contains(&json!(name).to_string()) {
                annotate(object, &reference("secret", name), name);
            }
        }
    }

    fn give(&self, object: &mut Value, namespace: &str) {
        let opted_out = object["metadata"]["labels"][labels::INJECT_GARDEN_KUBECONFIG]
            .as_str()
            .is_some_and(|label| label != "true");
        if opted_out {
            return;
        }
        let Some(pods) = pod_spec(object, &GROUPS, namespace) else {
            return;
        };
        if containers(pods).any(|container| has_variable(container, VARIABLE)) {
            return;
        }
        let kubeconfig = self.kubeconfig_name();
        let source = |name: &str, key: &str| json!({"secret": {"name": name, "items": [{"key": key, "path": key}], "optional": false}});
        let sources = [source(&kubeconfig, KUBECONFIG_KEY), source(ACCESS_SECRET, TOKEN_KEY)];
        // Readable by the group that a security context may name, as upstream has it.
        let volume = json!({"name": VOLUME, "projected": {"defaultMode": 0o640, "sources": sources}});
        set_named(pods, "volumes", volume);
        let path = json!(format!("{MOUNT_PATH}/{KUBECONFIG_KEY}"));
        for container in containers(pods) {
            let mount = json!({"name": VOLUME, "mountPath": MOUNT_PATH, "readOnly": true});
            set_named(container, "volumeMounts", mount);
            set_variable(container, VARIABLE, &path);
        }
    }
}

fn owned(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}
