//! A machine at the API server of its cluster, with a bootstrap token as the only thing it has.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api_meta::Fault;
use base_client::{Connector, Target};
use base_secrets::BootstrapToken;
use cluster_apiserver::{ApiServer, Identity};
use control_plane_node_agent::{AgentOptions, CONFIG_PATH, MemoryMachine, TOKEN_PATH, run};
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::{Api, ListParams, PostParams};
use kube::config::Kubeconfig;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tests_kit::{Embedded, embedded};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Long enough for the agent to have done what it can; virtual.
const A_WHILE: Duration = Duration::from_secs(10);

/// Gives whoever has a token what that is good for.
struct ByToken(ApiServer);

impl Connector for ByToken {
    fn client(&self, kubeconfig: &Kubeconfig) -> Result<kube::Client, Fault> {
        let token = Target::of(kubeconfig)?.token().unwrap().to_owned();
        Ok(self.0.client_for(Identity::Token(token)))
    }
}

type Agent = JoinHandle<Result<(), Fault>>;

fn agent(server: &Embedded, token: &str) -> Agent {
    let config = json!({"apiServer": {"server": "https://api"}, "secretName": "pool"});
    let file = |path: &str, content: &str| json!({"path": path, "permissions": 0o600, "content": content});
    let user_data = json!({"files": [file(CONFIG_PATH, &config.to_string()), file(TOKEN_PATH, token)]});
    let options = AgentOptions {
        machine_name: "m1".to_owned(),
        user_data: user_data.to_string(),
        machine: Arc::new(MemoryMachine::new(BTreeMap::new())),
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
    assert!(refusals(&server) > 1, "it was refused and asked again");

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
    let asked = requests.list(&ListParams::default()).await.unwrap().items;
    assert_eq!(asked.len(), 1, "it joins");
    agent.abort();
}

#[tokio::test(start_paused = true)]
async fn a_machine_whose_token_stays_refused_says_so_after_a_minute() {
    let (server, _) = cluster().await;
    let started = tokio::time::Instant::now();
    let fault = agent(&server, "abcdef.0123456789abcdef").await.unwrap().unwrap_err();
    assert!(
        fault
            .to_string()
            .starts_with("bootstrap token was refused by https://api"),
        "{fault}"
    );
    let took = started.elapsed().as_secs();
    assert!((50..=60).contains(&took), "{took} s");
}
