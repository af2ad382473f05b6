//! How etcd is reached, and what its clients agree on.

use std::time::Duration;

use secrecy::SecretString;

/// How an etcd store is reached and maintained.
#[derive(Clone, Debug)]
pub struct EtcdOptions {
    /// The members' client URLs, `https://10.0.0.1:2379`; at least one. The first that answers is used until it fails.
    pub endpoints: Vec<String>,
    /// All keys begin with it. Kubernetes' own is `/registry`; servers that share an etcd have one each.
    pub prefix: String,
    /// Certificates, for `https` URLs.
    pub tls: Option<EtcdTls>,
    /// How often history older than that is compacted, in step with every other server on the same etcd,
    /// kube-apiserver included. `None`: never; another process must, or etcd fills its disk.
    pub compact_every: Option<Duration>,
    /// Resources whose objects expire so long after their last write, or a twelfth of that later: objects that
    /// are written at about the same time share a lease and expire together.
    pub expiring: Vec<(String, Duration)>,
}

/// What TLS needs.
#[derive(Clone, Debug, Default)]
pub struct EtcdTls {
    /// The certificates that etcd's must be signed by, PEM.
    pub authorities_pem: Vec<u8>,
    /// Certificate chain and key that this client shows, PEM.
    pub identity: Option<EtcdIdentity>,
    /// The name in etcd's certificate, where it is not the host of the URL.
    pub server_name: Option<String>,
}

/// The identity of this client.
#[derive(Clone, Debug)]
pub struct EtcdIdentity {
    /// The certificate chain, PEM.
    pub certificates_pem: Vec<u8>,
    /// The private key, PEM.
    pub key_pem: SecretString,
}

/// What kube-apiserver does by default (kubernetes/kubernetes v1.35
/// staging/src/k8s.io/apiserver/pkg/storage/storagebackend/config.go, DefaultCompactInterval).
pub(crate) const COMPACT_EVERY: Duration = Duration::from_secs(300);
/// How long kube-apiserver retains Events by default, `--event-ttl`.
pub(crate) const EVENTS_TTL: Duration = Duration::from_secs(3600);

impl Default for EtcdOptions {
    /// kube-apiserver's defaults and etcd's port on this machine, without TLS.
    fn default() -> Self {
        EtcdOptions {
            endpoints: vec!["http://127.0.0.1:2379".to_owned()],
            prefix: "/registry".to_owned(),
            tls: None,
            compact_every: Some(COMPACT_EVERY),
            expiring: vec![("events".to_owned(), EVENTS_TTL)],
        }
    }
}

/// Why a store on etcd cannot be set up. That etcd does not answer is no reason: it may later.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EtcdError {
    /// There is no URL.
    #[error("no etcd endpoint is given: name at least one client URL, such as http://127.0.0.1:2379")]
    NoEndpoint,
    /// A URL that cannot be used.
    #[error("etcd endpoint {endpoint}: {found}; expected a client URL, such as https://10.0.0.1:2379")]
    Endpoint {
        /// The URL.
        endpoint: String,
        /// What is wrong with it.
        found: String,
    },
    /// Certificates that cannot be used.
    #[error("TLS for etcd endpoint {endpoint}: {found}; check that certificates and key are PEM and belong together")]
    Tls {
        /// The URL.
        endpoint: String,
        /// What is wrong with them.
        found: String,
    },
}
