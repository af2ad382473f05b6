//! Who a request is from: client certificates, tokens, front proxies, over cluster-access and this server's own store. It never
//! looks at a body.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use base_secrets::{PrivateKey, PublicKey};
use cluster_access::front_proxy::RequestHeaders;
use cluster_access::{Authenticator, Live, Lookup, PeerCertificates, User};
use cluster_store::{Key, Object};
use http::header::AUTHORIZATION;
use http::request::Parts;
use k8s_openapi::api::core::v1::Secret;
use serde_json::json;

use crate::access::server_access::Access;
use crate::storage::stores::Stores;
use crate::wire::status::Status;

/// Who signs client certificates and service account tokens.
#[derive(Clone, Default)]
pub struct Authorities {
    /// PEM bundle of the authorities of client certificates; empty for none. (`--client-ca-file`)
    pub client_authorities: String,
    /// Service account tokens; without it none are accepted or issued.
    pub service_accounts: Option<TokenAuthority>,
    /// Whether bootstrap tokens are accepted. (`--enable-bootstrap-token-auth`)
    pub bootstrap_tokens: bool,
}

/// Which clients may name in headers the user on whose behalf they send requests: by default `X-Remote-User`,
/// `X-Remote-Group`, `X-Remote-Uid`, `X-Remote-Extra-KEY`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FrontProxies {
    /// PEM bundle of the authorities of their client certificates. (`--requestheader-client-ca-file`)
    pub authorities: String,
    /// Their common names; empty: every client that the authorities have signed. (`--requestheader-allowed-names`)
    pub allowed_names: Vec<String>,
    /// The names of the headers. (`--requestheader-username-headers` and its siblings)
    pub headers: RequestHeaders,
}

/// Who issues service account tokens.
#[derive(Clone)]
pub struct TokenAuthority {
    /// The `iss` of tokens. (`--service-account-issuer`)
    pub issuer: String,
    /// Audiences the server accepts for itself; the issuer when empty. (`--api-audiences`)
    pub audiences: Vec<String>,
    /// Signs tokens; without it tokens are verified only. (`--service-account-signing-key-file`)
    pub signer: Option<PrivateKey>,
    /// Further keys that are trusted. (`--service-account-key-file`)
    pub verifiers: Vec<PublicKey>,
    /// Where others find the keys; below the issuer when absent. (`--service-account-jwks-uri`)
    pub keys_url: Option<String>,
}

impl Access {
    /// The user whom a request is from: the server itself, one that its own authorities know, or one that a delegate knows;
    /// `system:anonymous` for a request without credentials.
    ///
    /// Errors: 401 for credentials that are not accepted.
    pub(crate) async fn authenticate(&self, parts: &Parts) -> Result<Arc<User>, Status> {
        let header = parts.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        match header.and_then(|value| value.strip_prefix("Bearer ")) {
            Some(token) if self.loopback_token.as_deref() == Some(token) => Ok(self.loopback.clone()),
            _ => {
                let peer = parts.extensions.get::<PeerCertificates>();
                let user = self.authenticator.authenticate(&parts.headers, peer).await;
                let token = header.and_then(|value| value.strip_prefix("Bearer "));
                match (user, &self.delegation, token) {
                    (Ok(user), ..) => Ok(Arc::new(user)),
                    (Err(_), Some(other), Some(token)) => Box::pin(other.authenticate(token)).await,
                    (Err(error), ..) => {
                        tracing::debug!(%error, "authentication failed");
                        Err(Status::unauthorized())
                    }
                }
            }
        }
    }
}

pub(super) fn trust_clients(authenticator: &Authenticator, bundle: &str) -> Result<(), Status> {
    authenticator.trust_clients_of(bundle).map_err(|error| {
        Status::internal(format!(
            "the authorities of client certificates cannot be read: {error}"
        ))
    })
}

pub(super) fn trust_front_proxies(authenticator: &Authenticator, front: &FrontProxies) -> Result<(), Status> {
    let FrontProxies {
        authorities,
        allowed_names,
        headers,
    } = front.clone();
    let trusted = authenticator.trust_front_proxies_of(&authorities, allowed_names, headers);
    trusted.map_err(|error| Status::internal(format!("the authorities of front proxies cannot be read: {error}")))
}

/// What servers behind this one read to trust those whom it trusts
/// (kubernetes/kubernetes v1.35 pkg/controlplane/controller/clusterauthenticationtrust).
pub(super) fn trust(client_authorities: &str, front_proxies: Option<&FrontProxies>) -> BTreeMap<String, String> {
    let mut trust = BTreeMap::new();
    let mut put = |key: &str, value: String| trust.insert(key.to_owned(), value);
    if !client_authorities.trim().is_empty() {
        put("client-ca-file", client_authorities.to_owned());
    }
    if let Some(front) = front_proxies {
        put("requestheader-client-ca-file", front.authorities.clone());
        put("requestheader-allowed-names", json!(front.allowed_names).to_string());
        put("requestheader-username-headers", json!(["X-Remote-User"]).to_string());
        put("requestheader-uid-headers", json!(["X-Remote-Uid"]).to_string());
        put("requestheader-group-headers", json!(["X-Remote-Group"]).to_string());
        put(
            "requestheader-extra-headers-prefix",
            json!(["X-Remote-Extra-"]).to_string(),
        );
    }
    trust
}

/// Looks up objects for authentication.
pub(super) struct StoreLookup(pub(super) Arc<Stores>);

impl StoreLookup {
    async fn object(&self, resource: &str, namespace: &str, name: &str) -> Result<Option<Arc<Object>>, String> {
        let namespace = Some(namespace).filter(|namespace| !namespace.is_empty());
        let entry = self
            .0
            .get(&Key::new(resource, namespace, name))
            .await
            .map_err(|error| error.to_string())?;
        Ok(entry.map(|entry| entry.object))
    }
}

#[async_trait]
impl Lookup for StoreLookup {
    async fn live(&self, resource: &str, namespace: &str, name: &str) -> Result<Option<Live>, String> {
        let object = self.object(resource, namespace, name).await?;
        Ok(object.map(|object| Live {
            uid: object.meta().uid.clone(),
            deletion: object
                .meta()
                .deletion_timestamp
                .as_deref()
                .and_then(|time| time.parse().ok()),
        }))
    }

    async fn secret(&self, namespace: &str, name: &str) -> Result<Option<Secret>, String> {
        let Some(object) = self.object("secrets", namespace, name).await? else {
            return Ok(None);
        };
        object.parse().map(Some).map_err(|error| error.to_string())
    }
}
