//! An API server for one test: memory store, simulated clock, seeded randomness, RBAC on. Clients authenticate by certificate
//! alone, as in production.

use std::sync::Arc;
use std::time::Duration;

use base_clock::{Clock, Entropy};
use base_secrets::{Authority, CertificateSpec, PrivateKey};
use cluster_apiserver::{AUDIT_RECORDS_MAX, ApiServer, Authorities, Builder, Kind, PeerCertificates, TokenAuthority};
use cluster_store::MemoryStore;
use kube::Client;

/// When every test begins.
pub const EPOCH: &str = "2026-01-01T00:00:00Z";
/// Group that the kit binds to `cluster-admin`.
pub const ADMINS: &str = "orangery:admins";
/// Longer than any test runs in virtual time.
const VALIDITY: Duration = Duration::from_secs(365 * 24 * 3600);

/// A running server and what belongs to it.
#[derive(Clone)]
pub struct Embedded {
    /// The server.
    pub server: ApiServer,
    /// Its clock: moves with tokio's.
    pub clock: Clock,
    /// Its randomness; the same in every run.
    pub entropy: Entropy,
    /// Its store.
    pub store: MemoryStore,
    authority: Arc<Authority>,
}

/// A server with Kubernetes' kinds alone.
pub async fn embedded() -> Embedded {
    embedded_with("test", Vec::new(), |builder| builder).await
}

/// A server with further kinds, and with the changes of `change` to the builder.
///
/// # Panics
/// When the server does not start: the test cannot go on.
pub async fn embedded_with(name: &str, kinds: Vec<Arc<dyn Kind>>, change: impl FnOnce(Builder) -> Builder) -> Embedded {
    let clock = Clock::simulated(EPOCH.parse().expect("a constant"));
    let entropy = Entropy::seeded(1);
    let authority = Authority::generate("kit client authority", &clock, &entropy).expect("the authority is generated");
    let store = MemoryStore::new();
    let authorities = Authorities {
        client_authorities: authority.certificate_pem(),
        service_accounts: Some(TokenAuthority {
            issuer: "https://kubernetes.default.svc".to_owned(),
            keys_url: None,
            audiences: Vec::new(),
            signer: Some(PrivateKey::generate(&entropy)),
            verifiers: Vec::new(),
        }),
        bootstrap_tokens: true,
    };
    let builder = ApiServer::builder(name)
        .store(store.clone())
        .clock(clock.clone())
        .entropy(entropy.clone())
        .authorities(authorities)
        .audit_records(AUDIT_RECORDS_MAX)
        // Most tests run no controller that would create service accounts.
        .pods_as_accounts(false)
        .service_range("10.96.0.0/16".parse().expect("a constant"))
        .kinds(kinds);
    let server = change(builder).build().await.expect("the server starts");
    let embedded = Embedded {
        server,
        clock,
        entropy,
        store,
        authority: Arc::new(authority),
    };
    embedded.bind_admins().await;
    embedded
}

impl Embedded {
    /// A client of that user and groups, by a certificate of the server's authority.
    pub fn client(&self, user: &str, groups: &[&str]) -> Client {
        self.server.client_for(self.certificates(user, groups))
    }

    /// A client that may do everything, by RBAC and not as `system:masters`.
    pub fn admin(&self) -> Client {
        self.client("admin", &[ADMINS])
    }

    /// The certificate chain of that user and groups, as a TLS handshake would have verified it.
    ///
    /// # Panics
    /// When no certificate can be issued for the names.
    pub fn certificates(&self, user: &str, groups: &[&str]) -> PeerCertificates {
        let spec = CertificateSpec::client(user, groups, VALIDITY);
        let issued = self
            .authority
            .issue(&spec, &self.clock, &self.entropy)
            .expect("a client certificate");
        PeerCertificates::new(vec![issued.certificate.der().to_vec().into()])
    }

    /// The authority of client certificates.
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    async fn bind_admins(&self) {
        use k8s_openapi::api::rbac::v1::{ClusterRoleBinding, RoleRef, Subject};
        let binding = ClusterRoleBinding {
            metadata: kube::core::ObjectMeta {
                name: Some(ADMINS.to_owned()),
                ..Default::default()
            },
            role_ref: RoleRef {
                api_group: "rbac.authorization.k8s.io".to_owned(),
                kind: "ClusterRole".to_owned(),
                name: "cluster-admin".to_owned(),
            },
            subjects: Some(vec![Subject {
                api_group: Some("rbac.authorization.k8s.io".to_owned()),
                kind: "Group".to_owned(),
                name: ADMINS.to_owned(),
                namespace: None,
            }]),
        };
        let bindings = kube::Api::<ClusterRoleBinding>::all(self.server.loopback_client());
        bindings
            .create(&kube::api::PostParams::default(), &binding)
            .await
            .expect("the admins are bound");
        self.server.audit().clear();
    }
}
