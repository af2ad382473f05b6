//! The two clusters: real Kubernetes and a bare one of ours, each with controllers, scheduler and one of our nodes that
//! pretends to run every image. The same administrator on both.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use base_client::{Connector, Https, Judgement, wait_until};
use base_clock::{Clock, Entropy};
use base_secrets::{CertificateSpec, Credential, KubeconfigSpec, SecretText};
use cluster_bare::{Cluster, Keys};
use cluster_node::{ImageCatalogue, NodeOptions, Volumes};
use kube::Api;
use kube::config::Kubeconfig;
use tests_conformance::Outcome;
use tests_conformance::real::{Options, Real, VERSION};
use tokio_util::sync::{CancellationToken, DropGuard};

/// Longer than any run.
const VALIDITY: Duration = Duration::from_secs(24 * 3600);
/// The node's name, as a bare cluster calls its own.
const NODE: &str = "orangery-0";
/// Until a node is ready: many times what it takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Both of them, until they are dropped.
pub(crate) struct Clusters {
    /// The administrator's kubeconfig of each, real first.
    pub(crate) kubeconfigs: [SecretText; 2],
    _real: Real,
    _node: DropGuard,
    _ours: Cluster,
}

impl Clusters {
    pub(crate) async fn start() -> Outcome<Self> {
        let all = Options {
            controllers: true,
            scheduler: true,
            ..Options::default()
        };
        let real = Real::start(all).await?;
        let stop = CancellationToken::new();
        let kubeconfig = parse(&real.endpoint.kubeconfig)?;
        let options = NodeOptions {
            addresses: vec![IpAddr::V4(Ipv4Addr::LOCALHOST)],
            ..NodeOptions::new(
                NODE,
                kubeconfig.clone(),
                Arc::new(Https::new("orangery")),
                Arc::new(ImageCatalogue::new().simulating()),
                Clock::real(),
                Entropy::os(),
            )
        };
        let running = stop.clone();
        tokio::spawn(async move {
            if let Err(fault) = cluster_node::run(options, running).await {
                eprintln!("the node of the real cluster ended: {}", fault.chain());
            }
        });
        ready(&kubeconfig).await?;
        let (ours, ours_kubeconfig) = ours().await?;
        ready(&parse(&ours_kubeconfig)?).await?;
        Ok(Self {
            kubeconfigs: [real.endpoint.kubeconfig.clone(), ours_kubeconfig],
            _real: real,
            _node: stop.drop_guard(),
            _ours: ours,
        })
    }
}

async fn ours() -> Outcome<(Cluster, SecretText)> {
    let (clock, entropy) = (Clock::real(), Entropy::os());
    let failed = |error: &dyn std::fmt::Display| format!("the bare cluster does not start: {error}");
    let keys = Keys::generate(&clock, &entropy).map_err(|error| failed(&error))?;
    let masters = CertificateSpec::client("admin", &["system:masters"], VALIDITY);
    let issued = keys.clients.issue(&masters, &clock, &entropy);
    let credential = Credential::Certificate(Box::new(issued.map_err(|error| failed(&error))?));
    let authorities = keys.authority.certificate_pem();
    let cluster = Cluster::builder()
        .keys(keys)
        .git_version(VERSION)
        .node(ImageCatalogue::new().simulating(), Volumes::new())
        .start()
        .await
        .map_err(|error| failed(&error))?;
    let kubeconfig = base_secrets::kubeconfig(&KubeconfigSpec {
        name: "admin".to_owned(),
        server: cluster.url().to_owned(),
        tls_server_name: None,
        authorities,
        credential,
        namespace: None,
    });
    let text = base_secrets::to_yaml(&kubeconfig).map_err(|error| failed(&error))?;
    Ok((cluster, text))
}

fn parse(text: &SecretText) -> Outcome<Kubeconfig> {
    Kubeconfig::from_yaml(text.expose()).map_err(|error| error.to_string())
}

async fn ready(kubeconfig: &Kubeconfig) -> Outcome {
    let client = Https::new("clients")
        .client(kubeconfig)
        .map_err(|fault| fault.chain())?;
    let nodes: Api<k8s_openapi::api::core::v1::Node> = Api::all(client);
    let waited = wait_until(&nodes, NODE, PATIENCE, |node| {
        let status = node.and_then(|node| node.status.as_ref());
        let mut conditions = status
            .and_then(|status| status.conditions.as_ref())
            .into_iter()
            .flatten();
        match conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True") {
            true => Judgement::Done(()),
            false => Judgement::NotYet("it is not ready".to_owned()),
        }
    });
    waited.await.map(drop).map_err(|waited| waited.to_string())
}
