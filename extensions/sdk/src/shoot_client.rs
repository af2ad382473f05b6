//! Clients of a shoot, for what an extension does there itself. What only has to exist there is better left to
//! [`crate::managed`].
//!
//! [`ShootAccess`] is an identity of the extension's own: a Secret `shoot-access-NAME` into which gardener-resource-manager
//! writes a token of a service account in the shoot, and the generic kubeconfig of the shoot's namespace (contract of
//! gardener/gardener v1.150 `pkg/utils/gardener/shoot_access.go`). Its rights are granted by a ManagedResource.
//! [`gardener_client`] uses gardenlet's own access for extensions, which may do everything.
//!
//! A client holds the token that it was made with, which expires: make one for each operation.

use std::collections::BTreeMap;
use std::time::Duration;

use api_meta::{Fault, annotations, labels, names};
use base_client::{Connector, WaitState, apply, delete, get, wait_until};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::config::Kubeconfig;
use kube::{Api, Client};

use crate::context::Context;

/// Before the name in a Secret with access to a shoot.
const ACCESS_PREFIX: &str = "shoot-access-";
/// The generic kubeconfig where the Cluster names none.
const GENERIC_KUBECONFIG: &str = "generic-token-kubeconfig";
/// Secrets with kubeconfigs of gardenlet's access for extensions: from within the seed, and from outside.
const GARDENER: [&str; 2] = ["gardener-internal", "gardener"];
const KUBECONFIG_KEY: &str = "kubeconfig";
const TOKEN_KEY: &str = "token";
/// What is done about a Secret that is not as it should be.
const HINT_GARDENLET: &str = "gardenlet writes it: look at the Shoot's status";
const HINT_TOKEN: &str = "gardener-resource-manager writes it: look at its pod in the namespace of the shoot";

/// An identity of an extension in a shoot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShootAccess {
    name: String,
}

impl ShootAccess {
    /// The identity of this name: of the service account in namespace `kube-system` of the shoot, and behind `shoot-access-` of
    /// the Secret in the seed.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into() }
    }

    /// Name of the Secret in the shoot's namespace of the seed.
    #[must_use]
    pub fn secret(&self) -> String {
        format!("{ACCESS_PREFIX}{}", self.name)
    }

    /// Namespace and name of the service account in the shoot, for the binding that gives it rights.
    #[must_use]
    pub fn service_account(&self) -> (&'static str, &str) {
        (names::SYSTEM_NAMESPACE, &self.name)
    }

    /// Requests a token: writes the Secret. `extension`: who writes it.
    ///
    /// # Errors
    /// What the API server returns.
    pub async fn request(&self, client: &Client, namespace: &str, extension: &str) -> Result<(), Fault> {
        let (account_namespace, account) = self.service_account();
        let pairs = |pairs: [(&str, &str); 2]| {
            let owned = pairs.map(|(key, value)| (key.to_owned(), value.to_owned()));
            Some(BTreeMap::from(owned))
        };
        let metadata = ObjectMeta {
            name: Some(self.secret()),
            namespace: Some(namespace.to_owned()),
            labels: pairs([
                (labels::RESOURCES_PURPOSE, labels::resources::PURPOSE_TOKEN_REQUESTOR),
                (labels::RESOURCES_CLASS, labels::resources::CLASS_SHOOT),
            ]),
            annotations: pairs([
                (annotations::SERVICE_ACCOUNT_NAME, account),
                (annotations::SERVICE_ACCOUNT_NAMESPACE, account_namespace),
            ]),
            ..ObjectMeta::default()
        };
        // Without data: the token in it belongs to its writer.
        let secret = Secret {
            metadata,
            type_: Some("Opaque".to_owned()),
            ..Secret::default()
        };
        apply(&secrets(client, namespace), &secret, extension).await.map(drop)
    }

    /// Takes the identity back; the service account goes with it. Fine when there is none.
    ///
    /// # Errors
    /// What the API server returns.
    pub async fn withdraw(&self, client: &Client, namespace: &str) -> Result<(), Fault> {
        delete(&secrets(client, namespace), &self.secret()).await
    }

    /// A client with this identity, once there is a token.
    ///
    /// # Errors
    /// A dependency fault when there is no token after `timeout`, or the kubeconfig is missing or cannot be used; what the API
    /// server returns.
    pub async fn client(
        &self,
        context: &Context,
        connector: &dyn Connector,
        timeout: Duration,
    ) -> Result<Client, Fault> {
        let cluster = context.cluster()?;
        let api = secrets(&context.client, &cluster.name);
        let annotations = cluster.object().metadata.annotations.as_ref();
        let generic = annotations.and_then(|all| all.get(annotations::GENERIC_TOKEN_KUBECONFIG_SECRET_NAME));
        let generic = generic.map_or(GENERIC_KUBECONFIG, String::as_str);
        let kubeconfig = get(&api, generic).await?;
        let kubeconfig = kubeconfig.ok_or_else(|| missing(&cluster.name, generic, HINT_GARDENLET))?;
        let kubeconfig = kubeconfig_of(&kubeconfig, &cluster.name, generic)?;
        let token = context
            .unless_obsolete(token(&api, &cluster.name, &self.secret(), timeout))
            .await?;
        connector.client(&with_token(kubeconfig, token))
    }
}

/// A client with gardenlet's own access for extensions, which may do everything in the shoot.
///
/// # Errors
/// A dependency fault while there is none; what the API server returns.
pub async fn gardener_client(context: &Context, connector: &dyn Connector) -> Result<Client, Fault> {
    let namespace = &context.cluster()?.name;
    let api = secrets(&context.client, namespace);
    for name in GARDENER {
        if let Some(secret) = get(&api, name).await? {
            return connector.client(&kubeconfig_of(&secret, namespace, name)?);
        }
    }
    Err(missing(namespace, GARDENER[0], HINT_GARDENLET))
}

fn secrets(client: &Client, namespace: &str) -> Api<Secret> {
    Api::namespaced(client.clone(), namespace)
}

fn unreachable(why: &str, namespace: &str, name: &str, hint: &str) -> Fault {
    Fault::dependency(format!("the shoot cannot be reached: Secret {namespace}/{name} {why}")).hint(hint)
}

fn missing(namespace: &str, name: &str, hint: &str) -> Fault {
    unreachable("does not exist", namespace, name, hint)
}

/// Waits for a token.
async fn token(api: &Api<Secret>, namespace: &str, name: &str, timeout: Duration) -> Result<String, Fault> {
    let bytes = wait_until(api, name, timeout, |secret| {
        let data = secret.and_then(|secret| secret.data.as_ref()?.get(TOKEN_KEY));
        match (secret, data) {
            (None, _) => WaitState::NotYet("it does not exist".to_owned()),
            (Some(_), Some(ByteString(token))) if !token.is_empty() => WaitState::Done(token.clone()),
            _ => WaitState::NotYet("gardener-resource-manager has not written a token yet".to_owned()),
        }
    });
    let bytes = bytes.await.map_err(|waited| Fault::from(waited).hint(HINT_TOKEN))?;
    String::from_utf8(bytes).map_err(|_| unreachable("has a token that is not text", namespace, name, HINT_TOKEN))
}

fn kubeconfig_of(secret: &Secret, namespace: &str, name: &str) -> Result<Kubeconfig, Fault> {
    let wrong = |why| unreachable(why, namespace, name, HINT_GARDENLET);
    let data = secret.data.as_ref().and_then(|data| data.get(KUBECONFIG_KEY));
    let data = data.ok_or_else(|| wrong("has no kubeconfig"))?;
    let text = std::str::from_utf8(&data.0).map_err(|_| wrong("has a kubeconfig that is not text"))?;
    // The parser's error may quote credentials.
    Kubeconfig::from_yaml(text).map_err(|_| wrong("has a kubeconfig that cannot be read"))
}

/// The generic kubeconfig has its token in a file, which pods mount beside it.
fn with_token(mut kubeconfig: Kubeconfig, token: String) -> Kubeconfig {
    let token = secrecy::SecretString::from(token);
    for user in kubeconfig
        .auth_infos
        .iter_mut()
        .filter_map(|named| named.auth_info.as_mut())
    {
        user.token_file = None;
        user.token = Some(token.clone());
    }
    kubeconfig
}

#[cfg(test)]
mod tests {
    use base_client::Target;

    use super::*;

    const GENERIC: &str = "current-context: c\ncontexts:\n- name: c\n  context: {cluster: k, user: u}\n\
                           clusters:\n- name: k\n  cluster: {server: 'https://kube-apiserver'}\n\
                           users:\n- name: u\n  user: {tokenFile: /var/run/secrets/token}\n";

    fn secret(text: &str) -> Secret {
        let data = BTreeMap::from([(KUBECONFIG_KEY.to_owned(), ByteString(text.as_bytes().to_vec()))]);
        Secret {
            data: Some(data),
            ..Secret::default()
        }
    }

    #[test]
    fn the_generic_kubeconfig_gets_the_token_in_place_of_the_file() {
        let generic = kubeconfig_of(&secret(GENERIC), "n", "s").unwrap();
        let target = Target::of(&with_token(generic, "abc".to_owned())).unwrap();
        assert_eq!(target.token(), Some("abc"));
        assert_eq!(target.url.host(), Some("kube-apiserver"));
    }

    #[test]
    fn a_kubeconfig_that_cannot_be_read_is_named_and_not_quoted() {
        let refused = |secret: &Secret| kubeconfig_of(secret, "shoot--a--b", "s").unwrap_err().to_string();
        assert!(refused(&Secret::default()).ends_with("Secret shoot--a--b/s has no kubeconfig"));
        let text = refused(&secret("token: {hunter2"));
        assert!(text.ends_with("cannot be read") && !text.contains("hunter2"), "{text}");
    }
}
