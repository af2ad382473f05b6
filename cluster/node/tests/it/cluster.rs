//! A cluster for one test: an API server in memory, nodes with the images that the test brings.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use api_meta::Fault;
use base_client::{Connector, Target, WaitState, wait_until};
use base_clock::{Clock, Entropy};
use base_secrets::PrivateKey;
use cluster_apiserver::{ApiServer, Authorities, Identity, TokenAuthority};
use cluster_node::{ImageCatalogue, Network, NodeOptions, NodeServices, Volumes};
use cluster_store::MemoryStore;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, ServiceAccount};
use kube::api::PostParams;
use kube::config::Kubeconfig;
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Virtual time in which anything a test waits for must happen.
const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) struct Cluster {
    pub(crate) client: Client,
    pub(crate) clock: Clock,
    pub(crate) network: Network,
    pub(crate) volumes: Volumes,
    services: NodeServices,
}

/// Gives every caller the same client; identities do not matter in these tests.
pub(crate) struct OneClient(pub(crate) Client);

impl Connector for OneClient {
    fn client(&self, _: &Kubeconfig) -> Result<Client, Fault> {
        Ok(self.0.clone())
    }
}

/// Gives the node the loopback client, and a caller with a token the client of that identity.
pub(crate) struct ByToken(pub(crate) ApiServer);

impl Connector for ByToken {
    fn client(&self, kubeconfig: &Kubeconfig) -> Result<Client, Fault> {
        Ok(match Target::of(kubeconfig)?.token() {
            Some(token) => self.0.client_for(Identity::Token(token.to_owned())),
            None => self.0.loopback_client(),
        })
    }
}

pub(crate) struct RunningNode {
    pub(crate) stop: CancellationToken,
    pub(crate) task: JoinHandle<Result<(), Fault>>,
}

impl Cluster {
    pub(crate) async fn new() -> Self {
        let clock = Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap());
        let services = NodeServices::default();
        let node_services = services.clone();
        let server = ApiServer::builder("test")
            .store(MemoryStore::new())
            .clock(clock.clone())
            .entropy(Entropy::seeded(1))
            .pods_as_accounts(false)
            .nodes(move |node| node_services.find(node))
            .build()
            .await
            .unwrap();
        Cluster {
            services,
            ..Self::around(server, clock).await
        }
    }

    /// As [`Cluster::new`], with service account tokens and the admission that mounts them.
    pub(crate) async fn with_tokens() -> (Self, ApiServer) {
        let clock = Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap());
        let tokens = TokenAuthority {
            issuer: "https://test".to_owned(),
            keys_url: None,
            audiences: Vec::new(),
            signer: Some(PrivateKey::generate(&Entropy::seeded(3))),
            verifiers: Vec::new(),
        };
        let server = ApiServer::builder("test")
            .store(MemoryStore::new())
            .clock(clock.clone())
            .entropy(Entropy::seeded(1))
            .authorities(Authorities {
                service_accounts: Some(tokens),
                ..Authorities::default()
            })
            .build()
            .await
            .unwrap();
        let cluster = Self::around(server.clone(), clock).await;
        // Controllers make both in every namespace.
        let authority = json!({"metadata": {"name": "kube-root-ca.crt"}, "data": {"ca.crt": "none"}});
        cluster.create::<ConfigMap>(&cluster.api(), authority).await;
        let account = json!({"metadata": {"name": "default"}});
        cluster.create::<ServiceAccount>(&cluster.api(), account).await;
        (cluster, server)
    }

    async fn around(server: ApiServer, clock: Clock) -> Self {
        let client = server.loopback_client();
        let cluster = Cluster {
            client,
            clock,
            network: Network::new(),
            volumes: Volumes::new(),
            services: NodeServices::default(),
        };
        let namespaces: Api<Namespace> = Api::all(cluster.client.clone());
        for name in ["ns", "kube-node-lease"] {
            let namespace = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
            // Servers make the second one themselves.
            let _ = namespaces.create(&PostParams::default(), &namespace).await;
        }
        cluster
    }

    pub(crate) fn node(&self, name: &str, catalogue: ImageCatalogue) -> RunningNode {
        self.node_with(name, catalogue, self.client.clone())
    }

    pub(crate) fn node_with(&self, name: &str, catalogue: ImageCatalogue, client: Client) -> RunningNode {
        self.node_over(name, catalogue, Arc::new(OneClient(client)))
    }

    pub(crate) fn node_over(
        &self,
        name: &str,
        catalogue: ImageCatalogue,
        connector: Arc<dyn Connector>,
    ) -> RunningNode {
        self.node_of(name, catalogue, connector, |_| {})
    }

    /// A node with options of the test's own.
    pub(crate) fn node_of(
        &self,
        name: &str,
        catalogue: ImageCatalogue,
        connector: Arc<dyn Connector>,
        change: impl FnOnce(&mut NodeOptions),
    ) -> RunningNode {
        let mut options = NodeOptions::new(
            name,
            kubeconfig(),
            connector,
            Arc::new(catalogue),
            self.clock.clone(),
            Entropy::seeded(2),
        );
        options.network = self.network.clone();
        options.volumes = self.volumes.clone();
        options.services = self.services.clone();
        options.addresses = vec!["192.0.2.1".parse().unwrap()];
        change(&mut options);
        let stop = CancellationToken::new();
        let task = tokio::spawn(cluster_node::run(options, stop.clone()));
        RunningNode { stop, task }
    }

    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), "ns")
    }

    pub(crate) async fn create<K>(&self, api: &Api<K>, object: Value) -> K
    where
        K: Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned,
    {
        let object = serde_json::from_value(object).unwrap();
        api.create(&PostParams::default(), &object).await.unwrap()
    }

    /// A pod on node-a with one container `main`, whose fields and whose pod's fields are given.
    pub(crate) async fn pod(&self, name: &str, container: Value, spec: Value) -> Pod {
        let mut main = json!({"name": "main", "image": "example.org/app:v1"});
        merge(&mut main, container);
        let mut object = json!({
            "metadata": {"name": name, "labels": {"app": name}},
            "spec": {"nodeName": "node-a", "automountServiceAccountToken": false, "containers": [main]},
        });
        merge(&mut object["spec"], spec);
        self.create(&self.api::<Pod>(), object).await
    }

    /// Waits until the pod is as `seen` wants it.
    pub(crate) async fn pod_until(&self, name: &str, seen: impl Fn(&Pod) -> bool) -> Pod {
        until(&self.api::<Pod>(), name, |pod: Option<&Pod>| {
            pod.filter(|pod| seen(pod)).cloned()
        })
        .await
    }

    pub(crate) async fn pod_gone(&self, name: &str) {
        until(&self.api::<Pod>(), name, |pod: Option<&Pod>| {
            pod.is_none().then_some(())
        })
        .await
    }
}

pub(crate) async fn until<K, T>(api: &Api<K>, name: &str, seen: impl Fn(Option<&K>) -> Option<T>) -> T
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let check = |object: Option<&K>| match seen(object) {
        Some(result) => WaitState::Done(result),
        None => WaitState::NotYet(format!("{object:?}")),
    };
    wait_until(api, name, PATIENCE, check).await.unwrap()
}

pub(crate) fn is_ready(pod: &Pod) -> bool {
    condition(pod, "Ready") == "True"
}

pub(crate) fn condition(pod: &Pod, type_: &str) -> String {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    let found = conditions
        .into_iter()
        .flatten()
        .find(|condition| condition.type_ == type_);
    found.map(|condition| condition.status.clone()).unwrap_or_default()
}

/// The status of the first container as JSON.
pub(crate) fn container(pod: &Pod) -> Value {
    let statuses = pod
        .status
        .as_ref()
        .and_then(|status| status.container_statuses.clone())
        .unwrap_or_default();
    serde_json::to_value(statuses.first()).unwrap()
}

pub(crate) fn kubeconfig() -> Kubeconfig {
    serde_json::from_value(json!({
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {}}],
    }))
    .unwrap()
}

fn merge(into: &mut Value, from: Value) {
    if let (Value::Object(into), Value::Object(from)) = (into, from) {
        into.extend(from);
    }
}
