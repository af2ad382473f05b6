//! Arguments of `orangery garden-apiserver`, named as aggregated API servers name them.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use api_meta::{Fault, GoDuration};
use clap::Args;
use landscape_data_folder::on_etcd::EtcdSettings;
use landscape_garden_server::{
    ClientSettings, HeaderSettings, ServingSettings, Settings, TokenSettings, TrustSettings,
};

use super::{AuditLog, Plugins};

/// Arguments of `orangery garden-apiserver`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  orangery garden-apiserver --etcd-servers https://etcd:2379 --etcd-cafile ca.crt --etcd-certfile etcd.crt \\
      --etcd-keyfile etcd.key --tls-cert-file tls.crt --tls-private-key-file tls.key
    In a pod of the garden, as its service account. An APIService for each group and version leads to it.
  orangery garden-apiserver --etcd-servers http://127.0.0.1:2379 --tls-cert-file tls.crt --tls-private-key-file tls.key \\
      --kubeconfig garden.kubeconfig --secure-port 8443
    Outside of it. The certificate is for SERVICE.NAMESPACE.svc, by which kube-apiserver knows it.")]
pub struct GardenApiserver {
    /// Client URLs of etcd's members, separated by commas
    #[arg(long, value_name = "URL", value_delimiter = ',', required = true)]
    pub etcd_servers: Vec<String>,
    /// What all keys in etcd begin with
    #[arg(long, value_name = "PREFIX", default_value = "/registry-gardener")]
    pub etcd_prefix: String,
    /// PEM file with the authority of etcd's certificate; https URLs need it
    #[arg(long, value_name = "FILE")]
    pub etcd_cafile: Option<PathBuf>,
    /// PEM file with the certificate that this process shows etcd
    #[arg(long, value_name = "FILE", requires = "etcd_keyfile")]
    pub etcd_certfile: Option<PathBuf>,
    /// PEM file with the key of that certificate
    #[arg(long, value_name = "FILE", requires = "etcd_certfile")]
    pub etcd_keyfile: Option<PathBuf>,
    /// Address to listen on
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0")]
    pub bind_address: IpAddr,
    /// Port to listen on; 0 takes a free one
    #[arg(long, value_name = "PORT", default_value_t = 443, value_parser = super::port)]
    pub secure_port: u16,
    /// PEM file with the certificate that clients are shown, and what signed it behind it; read again when it changes
    #[arg(long, value_name = "FILE")]
    pub tls_cert_file: PathBuf,
    /// PEM file with the key of that certificate
    #[arg(long, value_name = "FILE")]
    pub tls_private_key_file: PathBuf,
    /// How long requests are still taken after the request to stop, while /readyz fails: 0s, 10s, 1m
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration)]
    pub shutdown_delay_duration: Duration,
    /// Kubeconfig of the API server in front, for its objects; without it, as the pod's service account
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Kubeconfig of the API server that reviews tokens; without it, the same as for objects
    #[arg(long, value_name = "FILE")]
    pub authentication_kubeconfig: Option<PathBuf>,
    /// Kubeconfig of the API server that reviews access; without it, the same as for objects
    #[arg(long, value_name = "FILE")]
    pub authorization_kubeconfig: Option<PathBuf>,
    /// PEM file with the authorities of client certificates; without it, those that the API server in front publishes in
    /// ConfigMap kube-system/extension-apiserver-authentication
    #[arg(long, value_name = "FILE")]
    pub client_ca_file: Option<PathBuf>,
    /// Front proxies
    #[command(flatten)]
    pub request_headers: RequestHeaderFlags,
    /// Identity of the garden, written to ConfigMap kube-system/cluster-identity of the API server in front if there is none
    #[arg(long, value_name = "NAME")]
    pub cluster_identity: Option<String>,
    /// Admission plug-ins
    #[command(flatten)]
    pub admission: Plugins,
    /// File with an AdmissionConfiguration
    #[arg(long, value_name = "FILE")]
    pub admission_control_config_file: Option<PathBuf>,
    /// The audit log
    #[command(flatten)]
    pub audit: AuditLog,
    /// Issuer of tokens of WorkloadIdentities, a URL; without it none are issued
    #[arg(long, value_name = "URL", requires = "workload_identity_signing_key_file")]
    pub workload_identity_token_issuer: Option<String>,
    /// PEM file with the key that signs these tokens: ECDSA, P-256
    #[arg(long, value_name = "FILE", requires = "workload_identity_token_issuer")]
    pub workload_identity_signing_key_file: Option<PathBuf>,
}

/// Which front proxies are believed.
#[derive(Args, Debug)]
pub struct RequestHeaderFlags {
    /// PEM file with the authorities of front proxies' certificates; without it, all about front proxies is what the API
    /// server in front publishes
    #[arg(long, value_name = "FILE")]
    pub requestheader_client_ca_file: Option<PathBuf>,
    /// Common names of front proxies, separated by commas; empty for all that the authorities vouch for
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        requires = "requestheader_client_ca_file"
    )]
    pub requestheader_allowed_names: Vec<String>,
    /// Headers that name the user, separated by commas
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        requires = "requestheader_client_ca_file",
        default_value = "X-Remote-User"
    )]
    pub requestheader_username_headers: Vec<String>,
    /// Headers with the user's uid
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        requires = "requestheader_client_ca_file",
        default_value = "X-Remote-Uid"
    )]
    pub requestheader_uid_headers: Vec<String>,
    /// Headers with the user's groups
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        requires = "requestheader_client_ca_file",
        default_value = "X-Remote-Group"
    )]
    pub requestheader_group_headers: Vec<String>,
    /// Prefixes of headers with more about the user
    #[arg(
        long,
        value_name = "PREFIXES",
        value_delimiter = ',',
        requires = "requestheader_client_ca_file",
        default_value = "X-Remote-Extra-"
    )]
    pub requestheader_extra_headers_prefix: Vec<String>,
}

impl RequestHeaderFlags {
    fn settings(&self) -> Option<HeaderSettings> {
        let named = |names: &[String]| -> Vec<String> {
            let names = names.iter().filter(|name| !name.is_empty());
            names.cloned().collect()
        };
        Some(HeaderSettings {
            authorities: self.requestheader_client_ca_file.clone()?,
            allowed_names: named(&self.requestheader_allowed_names),
            headers: cluster_apiserver::RequestHeaders {
                user: named(&self.requestheader_username_headers),
                uid: named(&self.requestheader_uid_headers),
                group: named(&self.requestheader_group_headers),
                extra_prefixes: named(&self.requestheader_extra_headers_prefix),
            },
        })
    }
}

impl GardenApiserver {
    /// The settings of the flags.
    ///
    /// # Errors
    /// A plug-in that is both switched on and off.
    pub fn settings(&self) -> Result<Settings, Fault> {
        let tokens = self
            .workload_identity_token_issuer
            .clone()
            .zip(self.workload_identity_signing_key_file.clone());
        Ok(Settings {
            etcd: EtcdSettings {
                servers: self.etcd_servers.clone(),
                prefix: self.etcd_prefix.clone(),
                cafile: self.etcd_cafile.clone(),
                certfile: self.etcd_certfile.clone(),
                keyfile: self.etcd_keyfile.clone(),
                leader_elect: false,
            },
            serving: ServingSettings {
                address: self.bind_address,
                port: self.secure_port,
                certificate: self.tls_cert_file.clone(),
                key: self.tls_private_key_file.clone(),
                shutdown_delay: self.shutdown_delay_duration,
            },
            clients: ClientSettings {
                objects: self.kubeconfig.clone(),
                authentication: self.authentication_kubeconfig.clone(),
                authorization: self.authorization_kubeconfig.clone(),
            },
            trust: TrustSettings {
                clients: self.client_ca_file.clone(),
                front_proxies: self.request_headers.settings(),
            },
            cluster_identity: self.cluster_identity.clone(),
            plugins: self.admission.plugins()?,
            admission_configuration: self.admission_control_config_file.clone(),
            audit: self.audit.settings(),
            tokens: tokens.map(|(issuer, key)| TokenSettings { issuer, key }),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        })
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || "a duration is a number with a unit, as in 0s, 10s or 1m".to_owned();
    let duration: GoDuration = text.parse().map_err(|_| wrong())?;
    match duration.as_nanos() {
        0.. => Ok(duration.to_std()),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::super::{Cli, Command};
    use super::*;

    fn parsed(words: &[&str]) -> Result<GardenApiserver, String> {
        let required = "--etcd-servers http://a:2379 --tls-cert-file c --tls-private-key-file k";
        let words = ["orangery", "garden-apiserver"]
            .into_iter()
            .chain(required.split(' '))
            .chain(words.iter().copied());
        match Cli::try_parse_from(words).map_err(|error| error.to_string())?.command {
            Command::GardenApiserver(arguments) => Ok(*arguments),
            _ => panic!("another command"),
        }
    }

    #[test]
    fn flags_about_front_proxies_need_their_authority() {
        let none = parsed(&[]).unwrap().settings().unwrap();
        assert!(none.trust.front_proxies.is_none());
        let refusal = parsed(&["--requestheader-allowed-names=front"]).unwrap_err();
        assert!(refusal.contains("--requestheader-client-ca-file"), "{refusal}");
        let words = [
            "--requestheader-client-ca-file=f",
            "--requestheader-allowed-names=",
            "--requestheader-username-headers=X-A,X-B",
        ];
        let front = parsed(&words).unwrap().settings().unwrap().trust.front_proxies.unwrap();
        assert!(front.allowed_names.is_empty());
        assert_eq!(front.headers.user, ["X-A", "X-B"]);
        assert_eq!(front.headers.group, ["X-Remote-Group"]);
    }

    #[test]
    fn flags_that_do_nothing_here_are_refused_by_name() {
        for flag in ["--encryption-provider-config=f", "--feature-gates=A=true"] {
            let refusal = parsed(&[flag]).unwrap_err();
            assert!(refusal.contains(flag.split('=').next().unwrap()), "{refusal}");
        }
        assert!(parsed(&["--workload-identity-token-issuer=https://a"]).is_err());
        assert_eq!(
            parsed(&["--shutdown-delay-duration=1m"])
                .unwrap()
                .shutdown_delay_duration,
            Duration::from_secs(60)
        );
    }
}
