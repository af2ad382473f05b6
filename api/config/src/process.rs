//! What every process has: a way to its API servers, a leader election, logs, two ports.

use std::net::IpAddr;
use std::time::Duration;

use crate::fields::{Fields, Form};

/// The largest port.
const PORT_MAX: u64 = 65535;

/// The client connection `name`; gives the path of its kubeconfig, none where the pod's service account is meant.
pub(crate) fn connection(fields: &mut Fields<'_>, name: &str) -> Option<String> {
    fields.object(name, kubeconfig)
}

/// The fields of a client connection; gives the path of its kubeconfig.
pub(crate) fn kubeconfig(fields: &mut Fields<'_>) -> Option<String> {
    let purpose = "File with the kubeconfig; without it the pod's service account";
    let path = fields.optional_text("kubeconfig", purpose);
    fields.without_effect(&[
        ("acceptContentTypes", Form::Text),
        ("contentType", Form::Text),
        ("qps", Form::Number),
        ("burst", Form::Whole),
    ]);
    path
}

/// How replicas agree on the one that works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderElection {
    /// Whether there is an election; without one, this process works at once.
    pub leader_elect: bool,
    /// How long a leader's lease holds after its last renewal.
    pub lease_duration: Duration,
    /// How long a leader tries to renew before it gives up.
    pub renew_deadline: Duration,
    /// Pause between tries.
    pub retry_period: Duration,
    /// Name of the lease.
    pub resource_name: String,
    /// Its namespace; none: that of the pod.
    pub resource_namespace: Option<String>,
}

impl LeaderElection {
    /// That of a process of which every replica works.
    fn none() -> Self {
        Self {
            leader_elect: false,
            lease_duration: Duration::ZERO,
            renew_deadline: Duration::ZERO,
            retry_period: Duration::ZERO,
            resource_name: String::new(),
            resource_namespace: None,
        }
    }
}

/// The leader election, with Gardener's defaults for this lease.
pub(crate) fn leader_election(fields: &mut Fields<'_>, lease: &str, namespace: &str) -> LeaderElection {
    fields.object("leaderElection", |fields| {
        let election = LeaderElection {
            leader_elect: fields.flag("leaderElect", true, "Whether only one of several replicas works"),
            lease_duration: fields.span(
                "leaseDuration",
                Duration::from_secs(15),
                "How long a lease holds after its last renewal",
            ),
            renew_deadline: fields.span(
                "renewDeadline",
                Duration::from_secs(10),
                "How long a leader tries to renew its lease; then its process ends",
            ),
            retry_period: fields.span("retryPeriod", Duration::from_secs(2), "Pause between tries"),
            resource_name: fields.text("resourceName", lease, "Name of the Lease"),
            resource_namespace: Some(fields.text("resourceNamespace", namespace, "Namespace of the Lease"))
                .filter(|namespace| !namespace.is_empty()),
        };
        fields.choice(
            "resourceLock",
            &[("leases", ())],
            "leases",
            "What the election is held with",
        );
        check_times(fields, &election);
        election
    })
}

/// As client-go demands it (k8s.io/client-go v0.35 tools/leaderelection), and Leases count whole seconds.
fn check_times(fields: &mut Fields<'_>, election: &LeaderElection) {
    let LeaderElection {
        lease_duration,
        renew_deadline,
        retry_period,
        ..
    } = election;
    if *lease_duration < Duration::from_secs(1) {
        fields.contradicts("leaseDuration", shown(*lease_duration), "1s or more");
    }
    if renew_deadline >= lease_duration {
        let allowed = format!("less than leaseDuration, which is {}", shown(*lease_duration));
        fields.contradicts("renewDeadline", shown(*renew_deadline), &allowed);
    }
    if retry_period.is_zero() || retry_period.mul_f64(1.2) >= *renew_deadline {
        let allowed = format!(
            "more than 0s, and 1.2 times it less than renewDeadline, which is {}",
            shown(*renew_deadline)
        );
        fields.contradicts("retryPeriod", shown(*retry_period), &allowed);
    }
}

fn shown(span: Duration) -> api_meta::GoDuration {
    span.into()
}

/// What is logged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogLevel {
    /// Everything.
    Debug,
    /// What is worth a line in an ordinary run.
    #[default]
    Info,
    /// Errors alone.
    Error,
}

/// How a line of the log looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// An object per line.
    #[default]
    Json,
    /// For people.
    Text,
}

/// Where a port is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Server {
    /// Address on which it listens; none: all of the machine.
    pub address: Option<IpAddr>,
    /// The port.
    pub port: u16,
}

/// What every process has beside its clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// How replicas agree on the one that works.
    pub leader_election: LeaderElection,
    /// What is logged.
    pub log_level: LogLevel,
    /// How it is logged.
    pub log_format: LogFormat,
    /// `/healthz` and `/readyz`.
    pub health_probes: Server,
    /// `/metrics`.
    pub metrics: Server,
}

/// Gardener's defaults of a process.
pub(crate) struct Defaults {
    /// Name and namespace of the lease; none where every replica works.
    pub(crate) lease: Option<(&'static str, &'static str)>,
    pub(crate) health_port: u64,
    pub(crate) metrics_port: u64,
}

/// Takes what every process has; `servers` takes further ports.
pub(crate) fn process<T>(
    fields: &mut Fields<'_>,
    defaults: &Defaults,
    servers: impl FnOnce(&mut Fields<'_>) -> T,
) -> (Process, T) {
    let leader_election = match defaults.lease {
        Some((lease, namespace)) => leader_election(fields, lease, namespace),
        None => LeaderElection::none(),
    };
    let levels = [
        ("debug", LogLevel::Debug),
        ("info", LogLevel::Info),
        ("error", LogLevel::Error),
    ];
    let log_level = fields.choice("logLevel", &levels, "info", "What is logged; RUST_LOG comes before it");
    let formats = [("json", LogFormat::Json), ("text", LogFormat::Text)];
    let log_format = fields.choice("logFormat", &formats, "json", "How it is logged");
    let (health_probes, metrics, more) = fields.object("server", |fields| {
        let health = server(
            fields,
            "healthProbes",
            defaults.health_port,
            "Port of /healthz and /readyz",
        );
        let metrics = server(fields, "metrics", defaults.metrics_port, "Port of /metrics");
        (health, metrics, servers(fields))
    });
    fields.without_effect(&[("debugging", Form::Object), ("featureGates", Form::Object)]);
    let process = Process {
        leader_election,
        log_level: log_level.unwrap_or_default(),
        log_format: log_format.unwrap_or_default(),
        health_probes,
        metrics,
    };
    (process, more)
}

fn server(fields: &mut Fields<'_>, name: &str, port: u64, purpose: &'static str) -> Server {
    fields.object(name, |fields| listen(fields, port, purpose))
}

/// Address and port; without an address, all of the machine.
pub(crate) fn listen(fields: &mut Fields<'_>, port: u64, purpose: &'static str) -> Server {
    let address = fields.address(
        "bindAddress",
        "Address on which it listens; without it, all of the machine",
    );
    let port = fields.count("port", 1..=PORT_MAX, port, purpose);
    Server {
        address,
        port: u16::try_from(port).unwrap_or_default(),
    }
}

/// A port of HTTPS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Webhooks {
    /// Where it listens.
    pub server: Server,
    /// Folder with `tls.crt` and `tls.key`.
    pub certificate_folder: String,
}

/// How a process describes its port of webhooks.
pub(crate) struct OfWebhooks {
    pub(crate) port: u64,
    pub(crate) port_purpose: &'static str,
    /// Where the certificate is by default.
    pub(crate) folder: &'static str,
    pub(crate) folder_purpose: &'static str,
}

/// Takes the port of webhooks among the servers; its folder is empty where the process has no default and none is named.
pub(crate) fn webhooks(fields: &mut Fields<'_>, of: &OfWebhooks) -> Webhooks {
    fields.object("webhooks", |fields| Webhooks {
        server: listen(fields, of.port, of.port_purpose),
        certificate_folder: fields.object("tls", |fields| {
            fields.text("serverCertDir", of.folder, of.folder_purpose)
        }),
    })
}
