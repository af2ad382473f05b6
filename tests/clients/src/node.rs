//! A node of ours in a real cluster: an identity of its own, a port on which kube-apiserver asks it, and the rights that it
//! has beyond a kubelet's.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use base_client::{Connector, Https, WaitState, wait_until};
use base_clock::{Clock, Entropy};
use base_secrets::{Authority, CertificateSpec};
use cluster_front::{ANY_NAME, Front, RegisteredServer, Registration};
use cluster_node::{ImageCatalogue, Network, NodeOptions, NodeServices};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::api::{Patch, PatchParams};
use kube::config::Kubeconfig;
use kube::{Api, Client};
use serde_json::json;
use tests_conformance::Outcome;
use tests_conformance::real::Real;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Longer than any run.
const VALIDITY: Duration = Duration::from_secs(24 * 3600);
/// Until a node is ready: many times what it takes.
const PATIENCE: Duration = Duration::from_secs(60);
/// What a node of ours reads and writes beyond what the node authorizer lets a kubelet: it keeps what persistent volumes
/// hold, dials Services itself, and marks pods that it only pretends to run.
const RIGHTS: &str = "orangery:node";

/// A node that runs, until it is dropped; then it stops in order, as long as the runtime goes on.
pub(crate) struct Joined {
    stop: CancellationToken,
    _registration: Registration,
}

impl Drop for Joined {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// The administrator of the real cluster.
pub(crate) fn client(kubeconfig: &str) -> Outcome<Client> {
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig).map_err(|error| error.to_string())?;
    Https::new("tests").client(&kubeconfig).map_err(|fault| fault.chain())
}

/// Starts a node and waits until it is ready. Nodes that share a network reach each other's pods.
pub(crate) async fn join(real: &Real, name: &str, catalogue: ImageCatalogue, network: Network) -> Outcome<Joined> {
    let admin = client(real.endpoint.kubeconfig.expose())?;
    grant(&admin).await.map_err(|error| error.to_string())?;
    let text = real.kubeconfig(&format!("system:node:{name}"), &["system:nodes"])?;
    let kubeconfig = Kubeconfig::from_yaml(text.expose()).map_err(|error| error.to_string())?;
    let connector = Https::new("orangery");
    let own = connector.client(&kubeconfig).map_err(|fault| fault.chain())?;
    let services = NodeServices::default();
    let guarded = services.guarded(name, own, &real.authority(), Clock::real());
    let guarded = guarded.map_err(|fault| fault.chain())?;

    let (clock, entropy) = (Clock::real(), Entropy::os());
    let authority = Authority::generate(name, &clock, &entropy).map_err(|error| error.to_string())?;
    let local = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let serving = CertificateSpec::server(name, vec![name.to_owned()], vec![local], VALIDITY);
    let serving = authority.issue(&serving, &clock, &entropy);
    let serving = serving.map_err(|error| error.to_string())?;
    let server = RegisteredServer::new(guarded, &serving.certificate_pem(), serving.key_pem().expose());
    let front = Front::new(clock.clone());
    let registration = front.register([ANY_NAME], server.map_err(|error| error.to_string())?);
    let registration = registration.map_err(|error| error.to_string())?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
    let listener = listener.map_err(|error| format!("cannot listen on loopback: {error}"))?;
    let port = listener.local_addr().map_err(|error| error.to_string())?.port();

    let stop = CancellationToken::new();
    let serves = stop.clone();
    tokio::spawn(async move { front.serve(listener, serves).await });
    let options = NodeOptions {
        addresses: vec![local],
        services,
        port: Some(port),
        network,
        ..NodeOptions::new(
            name,
            kubeconfig,
            Arc::new(connector),
            Arc::new(catalogue),
            clock,
            entropy,
        )
    };
    let (running, called) = (stop.clone(), name.to_owned());
    tokio::spawn(async move {
        if let Err(fault) = cluster_node::run(options, running).await {
            eprintln!("node {called} ended: {}", fault.chain());
        }
    });
    let joined = Joined {
        stop,
        _registration: registration,
    };
    ready(&admin, name).await?;
    Ok(joined)
}

async fn grant(admin: &Client) -> Result<(), kube::Error> {
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": RIGHTS},
    "rules": [
        {"apiGroups": [""], "resources": ["persistentvolumes"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["patch"]},
    ]});
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": RIGHTS},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": RIGHTS},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:nodes"}]});
    let params = PatchParams::apply("tests").force();
    let roles: Api<ClusterRole> = Api::all(admin.clone());
    roles.patch(RIGHTS, &params, &Patch::Apply(role)).await?;
    let bindings: Api<ClusterRoleBinding> = Api::all(admin.clone());
    bindings.patch(RIGHTS, &params, &Patch::Apply(binding)).await.map(drop)
}

/// Waits until a node is ready.
pub(crate) async fn ready(admin: &Client, name: &str) -> Outcome {
    let nodes: Api<Node> = Api::all(admin.clone());
    let waited = wait_until(&nodes, name, PATIENCE, |node| {
        let status = node.and_then(|node| node.status.as_ref());
        let mut conditions = status
            .and_then(|status| status.conditions.as_ref())
            .into_iter()
            .flatten();
        match conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True") {
            true => WaitState::Done(()),
            false => WaitState::NotYet("it is not ready".to_owned()),
        }
    });
    waited.await.map(drop).map_err(|waited| waited.to_string())
}
