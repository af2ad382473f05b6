//! Who a request is from: client certificates, tokens, front proxies, over cluster-access and this server's own store. It never
//! looks at a body.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use base_clock::{Clock, Entropy};
use base_secrets::{PrivateKey, PublicKey};
use cluster_access::front_proxy::RequestHeaders;
use cluster_access::{
    Attributes, Authenticator, Authorizer, Change, Decision, Gatekeeper, IssuerDocuments, Live, Lookup,
    PeerCertificates, ServiceAccountTokens, User, group,
};
use cluster_store::{Key, Object};
use http::header::AUTHORIZATION;
use http::request::Parts;
use k8s_openapi::api::core::v1::Secret;
use serde_json::json;

use crate::access::delegation::{Delegates, Delegation};
use crate::access::gatekeepers;
use crate::storage::stores::Stores;
use crate::wire::status::Status;

/// The prefix of RBAC objects in the store.
const RBAC_PREFIX: &str = "rbac.authorization.k8s.io/";
/// The name that loopback requests are audited under, as kube-apiserver's own.
const LOOPBACK_USER: &str = "system:apiserver";

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

/// Authenticator and authorizer of one server.
pub(crate) struct Access {
    /// None: no client is authenticated by it.
    loopback_token: Option<String>,
    loopback: Arc<User>,
    pub(crate) authenticator: Authenticator,
    pub(crate) tokens: Option<Arc<ServiceAccountTokens>>,
    /// What the issuer of tokens publishes.
    pub(crate) issuer: Option<IssuerDocuments>,
    pub(crate) rbac: Authorizer,
    /// The delegates: called beside this server's own authorities and instead of its own rules.
    pub(crate) delegation: Option<Delegation>,
    /// Where nodes' pods are looked up.
    pub(crate) store: Arc<Stores>,
    /// The gatekeepers: called before its own rules, in order.
    pub(crate) gatekeepers: Vec<Arc<dyn Gatekeeper>>,
    /// What servers behind this one have to know of it, by the keys of a ConfigMap.
    pub(crate) trust: BTreeMap<String, String>,
}

impl Access {
    /// Errors: a bundle of authorities that cannot be read.
    pub(crate) fn new(
        authorities: Authorities,
        front_proxies: Option<FrontProxies>,
        delegates: Option<Delegates>,
        clock: &Clock,
        entropy: &Entropy,
        store: Arc<Stores>,
    ) -> Result<Self, Status> {
        let Authorities {
            client_authorities,
            service_accounts,
            bootstrap_tokens,
        } = authorities;
        let trust = trust(&client_authorities, front_proxies.as_ref());
        let mut authenticator = Authenticator::new(clock.clone(), Arc::new(StoreLookup(store.clone())))
            .with_bootstrap_tokens(bootstrap_tokens);
        trust_clients(&authenticator, &client_authorities)?;
        if let Some(front) = front_proxies {
            trust_front_proxies(&authenticator, &front)?;
        }
        let mut tokens = None;
        let mut documents = None;
        if let Some(TokenAuthority {
            issuer,
            audiences,
            signer,
            verifiers,
            keys_url,
        }) = service_accounts
        {
            let made = ServiceAccountTokens::new(issuer, audiences, signer, verifiers, clock.clone());
            documents = IssuerDocuments::of(&made, keys_url.as_deref());
            let made = Arc::new(made);
            authenticator = authenticator.with_tokens(made.clone());
            tokens = Some(made);
        }
        let loopback = User::new(LOOPBACK_USER, &[group::MASTERS, group::AUTHENTICATED]);
        Ok(Self {
            loopback_token: Some(format!("loopback-{}", entropy.suffix(64))),
            loopback: Arc::new(loopback),
            authenticator,
            tokens,
            issuer: documents,
            rbac: Authorizer::default(),
            delegation: delegates.map(Delegation::new),
            store,
            gatekeepers: Vec::new(),
            trust,
        })
    }

    /// Signs tokens of others than service accounts, and accepts none. Nothing of it is published.
    pub(crate) fn sign_for_others(&mut self, issuer: TokenAuthority, clock: &Clock) {
        let TokenAuthority {
            issuer,
            audiences,
            signer,
            verifiers,
            keys_url: _,
        } = issuer;
        let made = ServiceAccountTokens::new(issuer, audiences, signer, verifiers, clock.clone());
        self.tokens = Some(Arc::new(made));
    }

    /// Empty for a server that accepts no such token.
    pub(crate) fn loopback_token(&self) -> &str {
        self.loopback_token.as_deref().unwrap_or_default()
    }

    /// Accepts no token of this server's own.
    pub(crate) fn without_loopback(&mut self) {
        self.loopback_token = None;
    }

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

    /// Replaces whose certificates are accepted from now on.
    ///
    /// Errors: a bundle that does not parse; what it was for stays as it was.
    pub(crate) fn trust(&self, client_authorities: &str, front_proxies: &FrontProxies) -> Result<(), Status> {
        trust_clients(&self.authenticator, client_authorities)?;
        trust_front_proxies(&self.authenticator, front_proxies)
    }

    /// Whether another server decides what is allowed.
    pub(crate) fn is_delegated(&self) -> bool {
        self.delegation.is_some()
    }

    /// Decides without waiting.
    pub(crate) fn authorize(&self, attributes: &Attributes) -> Decision {
        gatekeepers::decide_now(&self.gatekeepers, attributes).unwrap_or_else(|| self.rbac.authorize(attributes))
    }

    /// Changes the rules after a write of an RBAC object.
    pub(crate) fn update_rbac(&self, key: &Key, object: Option<&Object>) {
        let Some(resource) = key.resource.strip_prefix(RBAC_PREFIX) else {
            return;
        };
        let value = object.and_then(|object| serde_json::from_slice(object.bytes()).ok());
        let namespace = key.namespace.as_deref().unwrap_or_default();
        if let Some(change) = Change::of(resource, namespace, &key.name, value.as_ref()) {
            self.rbac.apply(change);
        }
    }
}

fn trust_clients(authenticator: &Authenticator, bundle: &str) -> Result<(), Status> {
    authenticator.trust_clients_of(bundle).map_err(|error| {
        Status::internal(format!(
            "the authorities of client certificates cannot be read: {error}"
        ))
    })
}

fn trust_front_proxies(authenticator: &Authenticator, front: &FrontProxies) -> Result<(), Status> {
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
fn trust(client_authorities: &str, front_proxies: Option<&FrontProxies>) -> BTreeMap<String, String> {
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
struct StoreLookup(Arc<Stores>);

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
