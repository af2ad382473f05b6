//! From a request's credentials to its user. Never falls back to anonymous when a credential was shown and refused.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use base_clock::Clock;
use base_secrets::{BootstrapToken, SecretError, text_of};
use http::HeaderMap;
use http::header::AUTHORIZATION;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;

use crate::certificates::{CREDENTIAL_ID, Certificates};
use crate::error::TokenFault;
use crate::front_proxy::{FrontProxies, RequestHeaders};
use crate::token::{Claims, Reference, ServiceAccountTokens};
use crate::{AuthenticationError, PeerCertificates, User, group};

/// How long a token outlives its pod or secret once that is being deleted, so that what shuts down can still write
/// (kubernetes/kubernetes v1.35 pkg/serviceaccount/claims.go).
const DELETION_LEEWAY_S: i64 = 60;

/// An object as a token's existence check sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Live {
    /// UID of the object that has the name now.
    pub uid: String,
    /// When it is to be gone, if it is being deleted.
    pub deletion: Option<Timestamp>,
}

/// What authentication looks up. Implemented by the API server over its own store.
#[async_trait]
pub trait Lookup: Send + Sync + 'static {
    /// The object of a core resource (`serviceaccounts`, `pods`, `secrets`, `nodes`); `namespace` is empty for nodes.
    ///
    /// # Errors
    /// A text, when the store cannot be read.
    async fn live(&self, resource: &str, namespace: &str, name: &str) -> Result<Option<Live>, String>;

    /// A Secret.
    ///
    /// # Errors
    /// A text, when the store cannot be read.
    async fn secret(&self, namespace: &str, name: &str) -> Result<Option<Secret>, String>;
}

/// A user and what their token is good for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authenticated {
    /// The user.
    pub user: User,
    /// Audiences that both the token and the caller name; empty for credentials without audiences.
    pub audiences: Vec<String>,
}

/// Authenticates the requests of one API server.
pub struct Authenticator {
    clock: Clock,
    certificates: Certificates,
    front_proxies: FrontProxies,
    tokens: Option<Arc<ServiceAccountTokens>>,
    bootstrap: bool,
    anonymous: bool,
    lookup: Arc<dyn Lookup>,
}

impl Authenticator {
    /// An authenticator that knows no authority and no token yet, and lets anonymous requests through to
    /// authorisation, as kube-apiserver's default.
    pub fn new(clock: Clock, lookup: Arc<dyn Lookup>) -> Self {
        let certificates = Certificates::new(clock.clone());
        let front_proxies = FrontProxies::new(clock.clone());
        Self {
            clock,
            certificates,
            front_proxies,
            tokens: None,
            bootstrap: false,
            anonymous: true,
            lookup,
        }
    }

    /// Accepts service account tokens.
    #[must_use]
    pub fn with_tokens(self, tokens: Arc<ServiceAccountTokens>) -> Self {
        Self {
            tokens: Some(tokens),
            ..self
        }
    }

    /// Replaces the trusted front proxies: clients with a certificate of these authorities (PEM) and one of these common names
    /// may name the user in these headers (`--requestheader-client-ca-file`, `--requestheader-allowed-names`,
    /// `--requestheader-username-headers` and its siblings). No names: any common name. Empty bundle: no client.
    ///
    /// # Errors
    /// When the bundle does not parse; then the ones before stay.
    pub fn trust_front_proxies_of(
        &self,
        bundle: &str,
        names: Vec<String>,
        headers: RequestHeaders,
    ) -> Result<(), SecretError> {
        self.front_proxies.trust(bundle, names, headers)
    }

    /// Whether bootstrap tokens are accepted (`--enable-bootstrap-token-auth`).
    #[must_use]
    pub fn with_bootstrap_tokens(self, accepted: bool) -> Self {
        Self {
            bootstrap: accepted,
            ..self
        }
    }

    /// Whether requests without a credential get as far as authorisation (`--anonymous-auth`).
    #[must_use]
    pub fn with_anonymous(self, accepted: bool) -> Self {
        Self {
            anonymous: accepted,
            ..self
        }
    }

    /// Replaces the authorities of client certificates (`--client-ca-file`). Empty text: none.
    ///
    /// # Errors
    /// When the bundle does not parse; then the ones before stay.
    pub fn trust_clients_of(&self, bundle: &str) -> Result<(), SecretError> {
        self.certificates.trust(bundle)
    }

    /// The user of a request. A certificate that verifies wins over a token, as in kube-apiserver; one that does not
    /// is forgiven only when a token is good.
    ///
    /// # Errors
    /// [`AuthenticationError`]: answer 401.
    pub async fn authenticate(
        &self,
        headers: &HeaderMap,
        peer: Option<&PeerCertificates>,
    ) -> Result<User, AuthenticationError> {
        let mut refused = None;
        if let Some(peer) = peer.filter(|peer| !peer.0.is_empty()) {
            // The user that a front proxy names is the caller; without a name the front proxy itself is.
            if let Ok(Some(user)) = self.front_proxies.authenticate(headers, peer) {
                return Ok(user);
            }
            match self.certificates.authenticate(peer) {
                Ok(user) => return Ok(user),
                Err(error) => refused = Some(error),
            }
        }
        if let Some(token) = bearer(headers) {
            return self.authenticate_token(token, &[]).await.map(|found| found.user);
        }
        match refused {
            Some(error) => Err(error),
            None if self.anonymous => Ok(User::anonymous()),
            None => Err(AuthenticationError::UnknownToken),
        }
    }

    /// The user of a bearer token, as TokenReview wants it. `audiences` empty: the API server's own.
    ///
    /// # Errors
    /// [`AuthenticationError`] when the token is not good.
    pub async fn authenticate_token(
        &self,
        token: &str,
        audiences: &[String],
    ) -> Result<Authenticated, AuthenticationError> {
        if let Some(tokens) = self.tokens.as_ref().filter(|tokens| tokens.recognises(token)) {
            let (claims, audiences) = tokens.verify(token, audiences).map_err(AuthenticationError::Token)?;
            let user = self.service_account(claims).await?;
            return Ok(Authenticated { user, audiences });
        }
        match BootstrapToken::parse(token) {
            Ok(token) if self.bootstrap => {
                let user = self.bootstrapper(&token).await?;
                Ok(Authenticated {
                    user,
                    audiences: Vec::new(),
                })
            }
            _ => Err(AuthenticationError::UnknownToken),
        }
    }

    async fn service_account(&self, claims: Claims) -> Result<User, AuthenticationError> {
        let private = claims.private;
        let namespace = &private.namespace;
        self.verify_exists_unchanged(
            "serviceaccounts",
            namespace,
            &private.serviceaccount,
            TokenFault::ServiceAccount,
        )
        .await?;
        let mut user = User::service_account(namespace, &private.serviceaccount.name);
        user.uid = private.serviceaccount.uid.clone();
        user.extra
            .insert(CREDENTIAL_ID.to_owned(), vec![format!("JTI={}", claims.jti)]);
        if let Some(secret) = &private.secret {
            self.verify_exists_unchanged("secrets", namespace, secret, TokenFault::Bound("secret".to_owned()))
                .await?;
        }
        if let Some(pod) = &private.pod {
            self.verify_exists_unchanged("pods", namespace, pod, TokenFault::Bound("pod".to_owned()))
                .await?;
            add_reference(&mut user.extra, "pod", pod);
        }
        if let Some(node) = &private.node {
            // The node of a pod-bound token is reported but not checked; a token bound to the node itself ends with it.
            if private.pod.is_none() {
                self.verify_exists_unchanged("nodes", "", node, TokenFault::Bound("node".to_owned()))
                    .await?;
            }
            add_reference(&mut user.extra, "node", node);
        }
        Ok(user)
    }

    /// Verifies that the object of this name is still the one that the token refers to.
    async fn verify_exists_unchanged(
        &self,
        resource: &str,
        namespace: &str,
        meant: &Reference,
        fault: TokenFault,
    ) -> Result<(), AuthenticationError> {
        let found = self
            .lookup
            .live(resource, namespace, &meant.name)
            .await
            .map_err(AuthenticationError::Lookup)?;
        let now = self.clock.now().as_second();
        let good = found.is_some_and(|live| {
            let doomed = live
                .deletion
                .is_some_and(|at| now > at.as_second().saturating_add(DELETION_LEEWAY_S));
            live.uid == meant.uid && !doomed
        });
        if good {
            Ok(())
        } else {
            Err(AuthenticationError::Token(fault))
        }
    }

    /// As kubernetes/kubernetes v1.35 plugin/pkg/auth/authenticator/token/bootstrap/bootstrap.go.
    async fn bootstrapper(&self, token: &BootstrapToken) -> Result<User, AuthenticationError> {
        let refused = AuthenticationError::BootstrapToken;
        let found = self
            .lookup
            .secret("kube-system", &token.secret_name())
            .await
            .map_err(AuthenticationError::Lookup)?;
        let secret = found.ok_or(refused("there is no such token"))?;
        let entry = |key: &str| {
            text_of(&secret, key)
                .map(|text| text.expose().to_owned())
                .unwrap_or_default()
        };
        if secret.type_.as_deref() != Some("bootstrap.kubernetes.io/token")
            || secret.metadata.deletion_timestamp.is_some()
        {
            return Err(refused("its secret is of another type or being deleted"));
        }
        if !equal_in_constant_time(entry("token-secret").as_bytes(), token.secret().expose().as_bytes())
            || entry("token-id") != token.id()
        {
            return Err(refused("there is no such token"));
        }
        if let Some(at) = Some(entry("expiration")).filter(|text| !text.is_empty()) {
            match at.parse::<Timestamp>() {
                Ok(at) if self.clock.now() <= at => {}
                Ok(_) => return Err(refused("it has expired")),
                Err(_) => return Err(refused("its expiration is not a time")),
            }
        }
        if entry("usage-bootstrap-authentication") != "true" {
            return Err(refused("it is not for authentication"));
        }
        let mut groups = vec![group::BOOTSTRAPPERS.to_owned()];
        for extra in entry("auth-extra-groups").split(',').filter(|text| !text.is_empty()) {
            if !extra.starts_with("system:bootstrappers:") {
                return Err(refused("one of its groups does not begin with system:bootstrappers:"));
            }
            groups.push(extra.to_owned());
        }
        let name = format!("system:bootstrap:{}", token.id());
        Ok(User {
            name,
            groups,
            ..User::default()
        }
        .authenticated())
    }
}

fn add_reference(extra: &mut BTreeMap<String, Vec<String>>, what: &str, reference: &Reference) {
    extra.insert(
        format!("authentication.kubernetes.io/{what}-name"),
        vec![reference.name.clone()],
    );
    extra.insert(
        format!("authentication.kubernetes.io/{what}-uid"),
        vec![reference.uid.clone()],
    );
}

/// The warning of kube-apiserver about a token that it ignores because of extra spaces before it. (Source: that of `bearer`.)
#[must_use]
pub fn overlooked_token(headers: &HeaderMap) -> Option<&'static str> {
    let mut words = headers.get(AUTHORIZATION)?.to_str().ok()?.trim().splitn(3, ' ');
    let (scheme, gap, _) = (words.next()?, words.next()?, words.next()?);
    (scheme.eq_ignore_ascii_case("bearer") && gap.is_empty())
        .then_some("the provided Authorization header contains extra space before the bearer token, and is ignored")
}

/// The second of the words that single spaces separate, as in kubernetes/kubernetes v1.35
/// staging/src/k8s.io/apiserver/pkg/authentication/request/bearertoken/bearertoken.go: after two spaces it is empty.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut words = headers.get(AUTHORIZATION)?.to_str().ok()?.trim().split(' ');
    let (scheme, token) = (words.next()?, words.next()?);
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// Compares in a time that does not depend on where the texts differ.
fn equal_in_constant_time(left: &[u8], right: &[u8]) -> bool {
    left.len() == right.len()
        && left
            .iter()
            .zip(right)
            .fold(0, |differ, (left, right)| differ | (left ^ right))
            == 0
}
