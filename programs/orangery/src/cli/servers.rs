//! Flags that several commands with an API server share, named as kube-apiserver names them.

use std::path::PathBuf;

use clap::Args;
use landscape_data_folder::audit_file::AuditSettings;
use landscape_data_folder::on_etcd::EtcdSettings;

/// The audit log; named as kube-apiserver names it.
#[derive(Args, Debug)]
pub struct AuditLog {
    /// File for the audit log, a line of JSON per event; needs --audit-policy-file
    #[arg(long, value_name = "FILE", requires = "audit_policy_file")]
    pub audit_log_path: Option<PathBuf>,
    /// Which requests are recorded, and how much of each: a Policy of audit.k8s.io/v1
    #[arg(long, value_name = "FILE", requires = "audit_log_path")]
    pub audit_policy_file: Option<PathBuf>,
    /// Size at which the audit log is set aside and a new one begun, in megabytes
    #[arg(long, value_name = "MB", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    pub audit_log_maxsize: u32,
    /// How many audit logs are set aside before the oldest is deleted; 0 keeps all
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    pub audit_log_maxbackup: usize,
}

impl AuditLog {
    /// The log that the flags enable, if they do.
    #[must_use]
    pub fn settings(&self) -> Option<AuditSettings> {
        Some(AuditSettings {
            policy: self.audit_policy_file.clone()?,
            log: self.audit_log_path.clone()?,
            file_megabytes_max: self.audit_log_maxsize,
            backups_max: self.audit_log_maxbackup,
        })
    }
}

/// Which etcd, and how; named as kube-apiserver names it.
#[derive(Args, Debug)]
pub struct Etcd {
    /// Keep objects in this etcd, not in the data folder: its members' client URLs, separated by commas
    #[arg(long, value_name = "URL", value_delimiter = ',', conflicts_with = "memory")]
    pub etcd_servers: Vec<String>,
    /// What all keys in etcd begin with
    #[arg(long, value_name = "PREFIX", default_value = "/registry", requires = "etcd_servers")]
    pub etcd_prefix: String,
    /// PEM file with the authority of etcd's certificate; https URLs need it
    #[arg(long, value_name = "FILE", requires = "etcd_servers")]
    pub etcd_cafile: Option<PathBuf>,
    /// PEM file with the certificate that this process shows etcd
    #[arg(long, value_name = "FILE", requires = "etcd_keyfile", requires = "etcd_servers")]
    pub etcd_certfile: Option<PathBuf>,
    /// PEM file with the key of that certificate
    #[arg(long, value_name = "FILE", requires = "etcd_certfile")]
    pub etcd_keyfile: Option<PathBuf>,
    /// Run controllers and scheduler only while no other process on the same etcd does
    #[arg(long, value_name = "BOOL", default_value_t = true, default_missing_value = "true", num_args = 0..=1,
        action = clap::ArgAction::Set, require_equals = true, requires = "etcd_servers")]
    pub leader_elect: bool,
}

impl From<&Etcd> for EtcdSettings {
    fn from(flags: &Etcd) -> Self {
        Self {
            servers: flags.etcd_servers.clone(),
            prefix: flags.etcd_prefix.clone(),
            cafile: flags.etcd_cafile.clone(),
            certfile: flags.etcd_certfile.clone(),
            keyfile: flags.etcd_keyfile.clone(),
            leader_elect: flags.leader_elect,
        }
    }
}

/// How kubelets of other processes are asked; named as kube-apiserver names it.
#[derive(Args, Debug)]
pub struct Kubelets {
    /// PEM file with the certificate that kubelets are shown; by default one of the cluster's own authority
    #[arg(long, value_name = "FILE", requires = "kubelet_client_key")]
    pub kubelet_client_certificate: Option<PathBuf>,
    /// PEM file with the key of that certificate
    #[arg(long, value_name = "FILE", requires = "kubelet_client_certificate")]
    pub kubelet_client_key: Option<PathBuf>,
    /// PEM file with the authority of kubelets' certificates, beside the cluster's own
    #[arg(long, value_name = "FILE")]
    pub kubelet_certificate_authority: Option<PathBuf>,
    /// Which addresses of a node are taken, the best first, separated by commas
    #[arg(long, value_name = "TYPES", value_delimiter = ',',
        default_value = "InternalIP,Hostname,InternalDNS,ExternalDNS,ExternalIP",
        value_parser = ["InternalIP", "Hostname", "InternalDNS", "ExternalDNS", "ExternalIP"])]
    pub kubelet_preferred_address_types: Vec<String>,
}
