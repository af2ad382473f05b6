//! A server, its controllers, a scheduler and nodes under a test's control.

use std::sync::Arc;
use std::time::Duration;

use cluster_controllers::{Options, run, scheduler};
use futures::StreamExt;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tests_kit::Embedded;
use tokio_util::sync::CancellationToken;

pub(crate) struct Cluster {
    pub(crate) server: Embedded,
    pub(crate) client: Client,
    stop: CancellationToken,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// A server with all controllers, a namespace `n` and no nodes.
pub(crate) async fn start() -> Cluster {
    start_with(|_| {}).await
}

/// The same with options of the test's own.
pub(crate) async fn start_with(change: impl FnOnce(&mut Options)) -> Cluster {
    start_over(change, |client| client).await
}

/// The same with controllers whose client is wrapped.
pub(crate) async fn start_over(change: impl FnOnce(&mut Options), wrap: impl FnOnce(Client) -> Client) -> Cluster {
    let server = tests_kit::embedded().await;
    let (client, stop) = (server.admin(), CancellationToken::new());
    let mut options = Options {
        signer: Some(Arc::new(
            base_secrets::Authority::from_pem(
                &server.authority().certificate_pem(),
                server.authority().key_pem().expose(),
            )
            .unwrap(),
        )),
        root_ca: Some("the root".to_owned()),
        ..Options::all(server.clock.clone(), server.entropy.clone())
    };
    change(&mut options);
    tokio::spawn(run(
        wrap(server.client("controllers", &[tests_kit::ADMINS])),
        options,
        stop.clone(),
    ));
    tokio::spawn(scheduler::run(
        server.client("scheduler", &[tests_kit::ADMINS]),
        server.clock.clone(),
        stop.clone(),
    ));
    let cluster = Cluster { server, client, stop };
    cluster.create::<Namespace>(json!({"metadata": {"name": "n"}})).await;
    cluster
}

impl Cluster {
    pub(crate) fn all<K: Resource<DynamicType = ()>>(&self) -> Api<K> {
        Api::all(self.client.clone())
    }

    /// The objects of namespace `n`.
    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), "n")
    }

    /// Creates an object in its namespace, or in `n`.
    pub(crate) async fn create<K>(&self, object: Value) -> K
    where
        K: Resource<DynamicType = ()> + Clone + Serialize + DeserializeOwned + std::fmt::Debug,
        K: k8s_openapi::Resource,
    {
        let object: K = serde_json::from_value(object).unwrap();
        let url = match (K::URL_PATH_SEGMENT, object.meta().namespace.as_deref()) {
            (_, Some(namespace)) => K::url_path(&(), Some(namespace)),
            _ if is_cluster_scoped::<K>() => K::url_path(&(), None),
            _ => K::url_path(&(), Some("n")),
        };
        let body = serde_json::to_vec(&object).unwrap();
        let request = kube::core::Request::new(url)
            .create(&PostParams::default(), body)
            .unwrap();
        self.client.request(request).await.unwrap()
    }

    pub(crate) async fn patch<K>(&self, api: &Api<K>, name: &str, patch: Value) -> K
    where
        K: Clone + DeserializeOwned + std::fmt::Debug,
    {
        api.patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap()
    }

    /// Adds a node that runs what is bound to it until the returned token is cancelled.
    pub(crate) async fn node(&self, name: &str) -> CancellationToken {
        let now = self.server.clock.now().to_string();
        self.create::<Node>(json!({"metadata": {"name": name}})).await;
        let ready = json!({"type": "Ready", "status": "True", "lastHeartbeatTime": now, "lastTransitionTime": now});
        let nodes: Api<Node> = self.all();
        let status = json!({"status": {"conditions": [ready]}});
        nodes
            .patch_status(name, &PatchParams::default(), &Patch::Merge(status))
            .await
            .unwrap();
        let stop = self.stop.child_token();
        let (node, client, clock) = (name.to_owned(), self.client.clone(), self.server.clock.clone());
        let running = stop.clone();
        let kubelet = Box::pin(kubelet(node, client, clock));
        tokio::spawn(async move { running.run_until_cancelled(kubelet).await });
        stop
    }
}

fn is_cluster_scoped<K: k8s_openapi::Resource>() -> bool {
    matches!(
        K::KIND,
        "Namespace" | "Node" | "CertificateSigningRequest" | "PersistentVolume" | "StorageClass"
    )
}

/// Runs every pod of a node at once, ready unless its image is `broken`; confirms deletions at once. Its heartbeat
/// stops with it.
async fn kubelet(node: String, client: Client, clock: base_clock::Clock) {
    let beat = async {
        let nodes: Api<Node> = Api::all(client.clone());
        loop {
            tokio::time::sleep(Duration::from_secs(10)).await;
            let now = clock.now().to_string();
            let ready = json!({"type": "Ready", "status": "True", "lastHeartbeatTime": now});
            let status = json!({"status": {"conditions": [ready]}});
            nodes
                .patch_status(&node, &PatchParams::default(), &Patch::Strategic(status))
                .await
                .unwrap();
        }
    };
    let work = async {
        let config = watcher::Config::default().fields(&format!("spec.nodeName={node}"));
        let mut events = std::pin::pin!(watcher::watcher(Api::<Pod>::all(client.clone()), config));
        let mut ip = 0;
        while let Some(event) = events.next().await {
            let Ok(Event::Apply(pod) | Event::InitApply(pod)) = event else {
                continue;
            };
            let api: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace().unwrap());
            if pod.metadata.deletion_timestamp.is_some() {
                let _ = api
                    .delete(&pod.name_any(), &DeleteParams::default().grace_period(0))
                    .await;
            } else if pod.status.as_ref().and_then(|status| status.pod_ip.as_ref()).is_none() {
                ip += 1;
                let works = pod.spec.as_ref().unwrap().containers[0].image.as_deref() != Some("broken");
                let ready = if works { "True" } else { "False" };
                let status = json!({"status": {
                    "phase": "Running", "podIP": format!("10.1.0.{ip}"),
                    "conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": clock.now().to_string()}],
                }});
                let _ = api
                    .patch_status(&pod.name_any(), &PatchParams::default(), &Patch::Merge(status))
                    .await;
            }
        }
    };
    tokio::join!(beat, work);
}
