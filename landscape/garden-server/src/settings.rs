//! The values of the command's flags, as plain values named as the flags are.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use cluster_apiserver::RequestHeaders;
use control_plane_garden_api::AdmissionPlugins;
use landscape_data_folder::audit_file::AuditSettings;
use landscape_data_folder::on_etcd::EtcdSettings;

/// All settings.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where objects are.
    pub etcd: EtcdSettings,
    /// Where it listens, and as whom.
    pub serving: ServingSettings,
    /// How the API server in front is reached.
    pub clients: ClientSettings,
    /// Whose certificates and headers are believed.
    pub trust: TrustSettings,
    /// The identity of the garden. (`--cluster-identity`)
    pub cluster_identity: Option<String>,
    /// The admission plug-ins that are on.
    pub plugins: AdmissionPlugins,
    /// A file with an AdmissionConfiguration. (`--admission-control-config-file`)
    pub admission_configuration: Option<PathBuf>,
    /// The audit log, if there is one.
    pub audit: Option<AuditSettings>,
    /// Who signs tokens of WorkloadIdentities; none: they are refused.
    pub tokens: Option<TokenSettings>,
    /// What `/version` reports.
    pub version: String,
}

/// Where it listens, and as whom.
#[derive(Clone, Debug)]
pub struct ServingSettings {
    /// `--bind-address`
    pub address: IpAddr,
    /// `--secure-port`; 0 takes a free one.
    pub port: u16,
    /// `--tls-cert-file`
    pub certificate: PathBuf,
    /// `--tls-private-key-file`
    pub key: PathBuf,
    /// How long requests are still taken after the request to stop, while `/readyz` fails. (`--shutdown-delay-duration`)
    pub shutdown_delay: Duration,
}

/// Kubeconfigs of the API server in front; without one the service account of the pod.
#[derive(Clone, Debug, Default)]
pub struct ClientSettings {
    /// For its objects. (`--kubeconfig`)
    pub objects: Option<PathBuf>,
    /// For reviews of tokens; as for objects if there is none. (`--authentication-kubeconfig`)
    pub authentication: Option<PathBuf>,
    /// For reviews of access; as for objects if there is none. (`--authorization-kubeconfig`)
    pub authorization: Option<PathBuf>,
}

/// Whose certificates and headers are believed. What no file holds is read from the ConfigMap
/// `kube-system/extension-apiserver-authentication`.
#[derive(Clone, Debug, Default)]
pub struct TrustSettings {
    /// `--client-ca-file`
    pub clients: Option<PathBuf>,
    /// `--requestheader-client-ca-file` and its siblings.
    pub front_proxies: Option<HeaderSettings>,
}

/// The flags about front proxies.
#[derive(Clone, Debug)]
pub struct HeaderSettings {
    /// `--requestheader-client-ca-file`
    pub authorities: PathBuf,
    /// `--requestheader-allowed-names`; empty for all that the authorities vouch for.
    pub allowed_names: Vec<String>,
    /// `--requestheader-username-headers` and its siblings.
    pub headers: RequestHeaders,
}

/// Who signs tokens of WorkloadIdentities.
#[derive(Clone, Debug)]
pub struct TokenSettings {
    /// `--workload-identity-token-issuer`
    pub issuer: String,
    /// `--workload-identity-signing-key-file`
    pub key: PathBuf,
}
