//! What one server knows of its clients: who they are and what they may do, with rules that RBAC objects change. It never looks
//! at the body of a request.

use std::collections::BTreeMap;
use std::sync::Arc;

use base_clock::{Clock, Entropy};
use cluster_access::{
    Attributes, Authenticator, Authorizer, Change, Decision, Gatekeeper, IssuerDocuments, ServiceAccountTokens, User,
    group,
};
use cluster_store::{Key, Object};

use crate::access::authentication::{
    Authorities, FrontProxies, StoreLookup, TokenAuthority, trust, trust_clients, trust_front_proxies,
};
use crate::access::delegation::{Delegates, Delegation};
use crate::access::gatekeepers;
use crate::storage::stores::Stores;
use crate::wire::status::Status;

/// The prefix of RBAC objects in the store.
const RBAC_PREFIX: &str = "rbac.authorization.k8s.io/";
/// The name that loopback requests are audited under, as kube-apiserver's own.
const LOOPBACK_USER: &str = "system:apiserver";

/// Authenticator and authorizer of one server.
pub(crate) struct Access {
    /// None: no client is authenticated by it.
    pub(super) loopback_token: Option<String>,
    pub(super) loopback: Arc<User>,
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
