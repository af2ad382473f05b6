//! A machine at the API server of its cluster, with a bootstrap token as the only thing it has.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api_meta::Fault;
use base_client::{Connector, Target};
use base_secrets::BootstrapToken;
use cluster_apiserver::{ApiServer, Identity};
use control_plane_node_agent::{
    Action, AgentOptions, CONFIG_PATH, Content, DesiredFile, JoinError, KUBECONFIG_PATH, KUBELET_UNIT, Machine,
    MemoryMachine, TOKEN_PATH, run,
};
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::{Node, Secret};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use kube::ResourceExt;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use kube::config::Kubeconfig;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tests_kit::{Embedded, embedded, until};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Long enough for the agent to have done what it can; virtual.
const A_WHILE: Duration = Duration::from_secs(10);

/// Grants the holder of a token its rights.
struct ByToken(ApiServer);

impl Connector for ByToken {
    fn client(&self, kubeconfig: &Kubeconfig) -> Result<kube::Client, Fault> {
        let token = Target::of(kubeconfig)?.token().unwrap().to_owned();
        Ok(self.0.client_for(Identity::Token(token)))
    }
}

type Agent = JoinHandle<Result<(), Fault>>;

fn agent(server: &Embedded, token: &str) -> Agent {
    agent_of(server, token, MemoryMachine::new(BTreeMap::new()))
}

fn agent_of(server: &Embedded, token: &str, machine: MemoryMachine) -> Agent {
    let config = json!({"apiServer": {"server": "https://api"}, "secretName": "pool"});
    let file = |path: &str, content: &str| json!({"path": path, "permissions": 0o600, "content": content});
    let user_data = json!({"files": [file(CONFIG_PATH, &config.to_string()), file(TOKEN_PATH, token)]});
    let options = AgentOptions {
        machine_name: "m1".to_owned(),
        user_data: user_data.to_string(),
        machine: Arc::new(machine),
        connector: Arc::new(ByToken(server.server.clone())),
        entropy: server.entropy.clone(),
    };
    tokio::spawn(run(options, CancellationToken::new()))
}

/// The agent does what it can do now, and is still at it.
async fn goes_on(agent: &mut Agent) {
    if let Ok(ended) = tokio::time::timeout(A_WHILE, agent).await {
        unreachable!("it gave up: {:?}", ended.unwrap().map_err(|fault| fault.chain()));
    }
}

async fn create<K>(api: Api<K>, object: Value)
where
    K: kube::Resource + Clone + std::fmt::Debug + serde::Serialize + DeserializeOwned,
{
    let object: K = serde_json::from_value(object).unwrap();
    api.create(&PostParams::default(), &object).await.unwrap();
}

/// A cluster that knows a bootstrap token and has the configuration of its pool, and has granted nothing.
async fn cluster() -> (Embedded, BootstrapToken) {
    let server = embedded().await;
    let token = BootstrapToken::generate(&server.entropy);
    let expiration = server.clock.now() + Duration::from_secs(3600);
    let secrets: Api<Secret> = Api::namespaced(server.admin(), "kube-system");
    let known = token.to_secret("machines", expiration, &[]);
    secrets.create(&PostParams::default(), &known).await.unwrap();
    create(secrets, json!({"metadata": {"name": "pool"}})).await;
    (server, token)
}

fn refusals(server: &Embedded) -> usize {
    let records = server.server.audit().records();
    records.iter().filter(|record| record.code == 403).count()
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_starts_before_its_rights_are_granted_waits_for_them() {
    let (server, token) = cluster().await;
    let mut agent = agent(&server, token.text().expose());
    goes_on(&mut agent).await;
    assert!(refusals(&server) > 1, "it was refused and sent again");

    let group = json!([{"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "system:bootstrappers"}]);
    let role = json!({"metadata": {"name": "agents"}, "rules": [
        {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["pool"], "verbs": ["get", "list", "watch"]},
    ]});
    create(Api::<Role>::namespaced(server.admin(), "kube-system"), role).await;
    let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "agents"});
    let binding = json!({"metadata": {"name": "agents"}, "roleRef": role, "subjects": group});
    create(Api::<RoleBinding>::namespaced(server.admin(), "kube-system"), binding).await;
    goes_on(&mut agent).await;
    let requests: Api<CertificateSigningRequest> = Api::all(server.admin());
    let found = requests.list(&ListParams::default()).await.unwrap().items;
    assert_eq!(found.len(), 1, "it joins");
    agent.abort();
}

#[tokio::test(start_paused = true)]
async fn a_permanently_refused_token_is_reported_after_a_minute() {
    let (server, _) = cluster().await;
    let started = tokio::time::Instant::now();
    let fault = agent(&server, "abcdef.0123456789abcdef").await.unwrap().unwrap_err();
    assert!(JoinError::is_token_refused(&fault), "{fault}");
    assert!(JoinError::is_token_refused(&fault.doing("start the machine")));
    assert!(!JoinError::is_token_refused(&Fault::access("forbidden")));
    let took = started.elapsed().as_secs();
    assert!((50..=60).contains(&took), "{took} s");
}

/// A machine that has joined with a token.
async fn joined_machine(token: &str) -> MemoryMachine {
    let machine = MemoryMachine::new(BTreeMap::new());
    let config = json!({"apiServer": {"server": "https://api"}, "secretName": "pool"});
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": "https://api"}}],
        "users": [{"name": "u", "user": {"token": token}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    });
    for (path, content) in [(CONFIG_PATH, config), (KUBECONFIG_PATH, kubeconfig)] {
        let content = Content::Bytes(content.to_string().into());
        let file = DesiredFile {
            permissions: 0o600,
            content,
        };
        let path = path.to_owned();
        machine.perform(&Action::WriteFile { path, file }).await.unwrap();
    }
    machine
}

#[tokio::test(start_paused = true)]
async fn a_corrected_configuration_is_applied_while_the_node_does_not_come() {
    let (server, token) = cluster().await;
    let secrets: Api<Secret> = Api::namespaced(server.admin(), "kube-system");
    let group = json!([{"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "system:bootstrappers"}]);
    let of = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "agents"});
    let rules = json!([{"apiGroups": [""], "resources": ["nodes", "secrets"], "verbs": ["get", "list", "watch"]}]);
    create(
        Api::<ClusterRole>::all(server.admin()),
        json!({"metadata": {"name": "agents"}, "rules": rules}),
    )
    .await;
    let binding = json!({"metadata": {"name": "agents"}, "roleRef": of, "subjects": group});
    create(Api::<ClusterRoleBinding>::all(server.admin()), binding).await;
    let configure = async |unit: &str| {
        let osc = json!({"apiVersion": "extensions.gardener.cloud/v1alpha1", "kind": "OperatingSystemConfig",
            "spec": {"type": "t", "purpose": "reconcile", "units": [{"name": KUBELET_UNIT, "content": unit}]}});
        let data = Patch::Merge(json!({"stringData": {"osc.yaml": osc.to_string()}}));
        secrets.patch("pool", &PatchParams::default(), &data).await.unwrap();
    };
    configure("wrong").await;
    let text = token.text();
    let machine = joined_machine(text.expose()).await;
    let mut agent = agent_of(&server, text.expose(), machine.clone());
    goes_on(&mut agent).await;
    let before = machine.seen().await.unwrap().units[KUBELET_UNIT].clone();

    configure("right").await;
    goes_on(&mut agent).await;
    let after = machine.seen().await.unwrap().units[KUBELET_UNIT].clone();
    assert_ne!(before, after, "the correction waits for a Node that cannot come");
    agent.abort();
}

#[tokio::test(start_paused = true)]
async fn a_report_that_was_refused_is_made_again_though_nothing_changes() {
    let (server, token) = cluster().await;
    let secrets: Api<Secret> = Api::namespaced(server.admin(), "kube-system");
    let osc = json!({"apiVersion": "extensions.gardener.cloud/v1alpha1", "kind": "OperatingSystemConfig",
        "spec": {"type": "t", "purpose": "reconcile", "units": [{"name": KUBELET_UNIT, "content": "run"}]}});
    let data = Patch::Merge(json!({"stringData": {"osc.yaml": osc.to_string()}}));
    secrets.patch("pool", &PatchParams::default(), &data).await.unwrap();
    let nodes: Api<Node> = Api::all(server.admin());
    create(nodes.clone(), json!({"metadata": {"name": "m1"}})).await;
    let roles: Api<ClusterRole> = Api::all(server.admin());
    let see = json!(["get", "list", "watch"]);
    let role = |on_nodes: &[&str]| {
        json!({"metadata": {"name": "agents"}, "rules": [
            {"apiGroups": [""], "resources": ["secrets"], "verbs": see},
            {"apiGroups": [""], "resources": ["nodes"], "verbs": on_nodes},
        ]})
    };
    create(roles.clone(), role(&["get", "list", "watch"])).await;
    let group = json!([{"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "system:bootstrappers"}]);
    let of = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "agents"});
    let binding = json!({"metadata": {"name": "agents"}, "roleRef": of, "subjects": group});
    create(Api::<ClusterRoleBinding>::all(server.admin()), binding).await;

    let text = token.text();
    let mut agent = agent_of(&server, text.expose(), joined_machine(text.expose()).await);
    // Longer than a refusal may pass.
    for _ in 0..12 {
        goes_on(&mut agent).await;
    }
    assert!(refusals(&server) > 1, "it was refused and sent again");
    let reported = |node: &Node| node.annotations().contains_key("checksum/cloud-config-data");
    assert!(!reported(&nodes.get("m1").await.unwrap()));

    let allowed = Patch::Merge(role(&["get", "list", "watch", "patch"]));
    roles.patch("agents", &PatchParams::default(), &allowed).await.unwrap();
    until(&nodes, "m1", "reported", reported).await;
    let records = server.server.audit().records().len();
    goes_on(&mut agent).await;
    assert_eq!(server.server.audit().records().len(), records, "and then it is silent");
    agent.abort();
}
