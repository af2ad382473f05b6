//! A cluster for one test, with a node whose images are scripts that the test brings.

use std::fmt::Debug;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use base_client::{WaitState, wait_until};
use cluster_bare::Cluster;
use cluster_node::{ImageCatalogue, Volumes};
use cluster_programs::{AtAddress, ImageFile, Isolation, Options, Programs};
use k8s_openapi::api::core::v1::{Event, Namespace, Pod, ServiceAccount};
use kube::api::{ListParams, LogParams, PostParams};
use kube::core::NamespaceResourceScope;
use kube::{Api, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tempfile::TempDir;

/// How long a test waits for anything: many times what a slow machine needs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct World {
    pub(crate) cluster: Cluster,
    pub(crate) folder: TempDir,
    /// What pods have on disk.
    pub(crate) data: TempDir,
}

/// A free port of loopback; another process may take it before the test does, which is rare enough.
pub(crate) fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    listener.local_addr().unwrap().port()
}

impl World {
    /// A cluster whose node runs shell scripts by their names, without namespaces.
    pub(crate) async fn new(scripts: &[(&str, &str)]) -> Self {
        Self::of(scripts, Volumes::new(), Isolation::None).await
    }

    /// The same with namespaces; `None` where this machine has none for its users, which is printed.
    pub(crate) async fn isolated(scripts: &[(&str, &str)]) -> Option<Self> {
        let helper = PathBuf::from(env!("CARGO_BIN_EXE_programs-testee"));
        if let Err(missing) = cluster_sandbox::available_with(&helper) {
            println!("left out: {missing}");
            return None;
        }
        let isolation = Isolation::Namespaces { helper };
        Some(Self::of(scripts, Volumes::new(), isolation).await)
    }

    pub(crate) async fn of(scripts: &[(&str, &str)], volumes: Volumes, isolation: Isolation) -> Self {
        let (folder, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut images = Vec::new();
        for (name, script) in scripts {
            write_script(&folder.path().join(name), script);
            images.push(json!({"image": name, "command": [format!("./{name}")]}));
        }
        images.push(json!({"image": "testee", "command": [env!("CARGO_BIN_EXE_programs-testee")]}));
        images.push(json!({"image": "missing", "command": ["./no-such-program"]}));
        let file = folder.path().join("images.yaml");
        fs::write(&file, json!({"images": images}).to_string()).unwrap();
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let options = Options {
            folder: data.path().to_owned(),
            hidden: vec![data.path().to_owned()],
            isolation,
            servers: Arc::new(AtAddress(listener.local_addr().unwrap())),
        };
        let programs = Programs::new(&ImageFile::read(&file).unwrap(), options).unwrap();
        let catalogue = programs.add_to(ImageCatalogue::new());
        let cluster = Cluster::builder()
            .listener(listener)
            .node(catalogue, volumes)
            .start()
            .await
            .unwrap();
        let world = World { cluster, folder, data };
        let namespaces: Api<Namespace> = Api::all(world.cluster.client());
        let namespace = serde_json::from_value(json!({"metadata": {"name": "ns"}})).unwrap();
        namespaces.create(&PostParams::default(), &namespace).await.unwrap();
        // Pods are refused before a controller has made it.
        let accounts = world.api::<ServiceAccount>();
        until(&accounts, "default", |account: Option<&ServiceAccount>| {
            account.map(drop)
        })
        .await;
        world
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.cluster.client(), "ns")
    }

    pub(crate) async fn create<K>(&self, object: Value) -> K
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + Serialize + DeserializeOwned,
    {
        let object = serde_json::from_value(object).unwrap();
        self.api().create(&PostParams::default(), &object).await.unwrap()
    }

    /// A pod with one container `main` of an image, whose fields and whose pod's fields are given.
    pub(crate) async fn pod(&self, name: &str, image: &str, container: Value, spec: Value) -> Pod {
        let mut main = json!({"name": "main", "image": format!("example.org/{image}:v1")});
        merge(&mut main, container);
        let mut object = json!({
            "metadata": {"name": name, "labels": {"app": name}},
            "spec": {"restartPolicy": "Never", "containers": [main]},
        });
        merge(&mut object["spec"], spec);
        self.create(object).await
    }

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
        .await;
    }

    /// Waits until a pod is over, and gives its phase and log.
    pub(crate) async fn outcome(&self, name: &str) -> (String, String) {
        let pod = self
            .pod_until(name, |pod| matches!(phase(pod), "Succeeded" | "Failed"))
            .await;
        (phase(&pod).to_owned(), self.log(name, "main").await)
    }

    pub(crate) async fn log(&self, pod: &str, container: &str) -> String {
        let params = LogParams {
            container: Some(container.to_owned()),
            ..LogParams::default()
        };
        self.api::<Pod>().logs(pod, &params).await.unwrap()
    }

    /// Waits until a container has logged a line.
    pub(crate) async fn logged(&self, pod: &str, line: &str) {
        let reading = async {
            // Until the container runs, there is no log.
            while !self
                .api::<Pod>()
                .logs(pod, &LogParams::default())
                .await
                .is_ok_and(|log| log.contains(line))
            {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(PATIENCE, reading).await.unwrap();
    }

    /// Waits for an event and gives its message.
    pub(crate) async fn event(&self, pod: &str, reason: &str) -> String {
        let waiting = async {
            loop {
                let events = self.api::<Event>().list(&ListParams::default()).await.unwrap();
                let found = events.into_iter().find(|event| {
                    event.involved_object.name.as_deref() == Some(pod) && event.reason.as_deref() == Some(reason)
                });
                if let Some(message) = found.and_then(|event| event.message) {
                    return message;
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        tokio::time::timeout(PATIENCE, waiting).await.unwrap()
    }
}

pub(crate) fn write_script(path: &std::path::Path, script: &str) {
    // A file that is being run cannot be written to; another in its place can.
    let next = path.with_extension("next");
    fs::write(&next, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&next, fs::Permissions::from_mode(0o755)).unwrap();
    fs::rename(next, path).unwrap();
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

pub(crate) fn phase(pod: &Pod) -> &str {
    pod.status
        .as_ref()
        .and_then(|status| status.phase.as_deref())
        .unwrap_or_default()
}

pub(crate) fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// The status of a container as JSON.
pub(crate) fn container(pod: &Pod, name: &str) -> Value {
    let status = pod.status.clone().unwrap_or_default();
    let init = status.init_container_statuses.into_iter().flatten();
    let mut all = init.chain(status.container_statuses.into_iter().flatten());
    serde_json::to_value(all.find(|status| status.name == name)).unwrap()
}

fn merge(into: &mut Value, from: Value) {
    if let (Value::Object(into), Value::Object(from)) = (into, from) {
        into.extend(from);
    }
}
