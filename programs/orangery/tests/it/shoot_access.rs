//! Programs of `orangery up --images` that work in a Shoot as Gardener's extensions do: by the kubeconfigs in Secrets that
//! gardenlet writes, read through the API or mounted, with the real kubectl. Where a machine's users have no namespaces, the test
//! prints why and proves nothing.

use std::fmt::Debug;
use std::fs;
use std::path::Path;
use std::time::Duration;

use api_core::v1beta1::Shoot;
use api_extensions::Cluster;
use api_meta::LastOperationState;
use base_client::{WaitState, wait_until};
use k8s_openapi::api::core::v1::{Event, Pod, Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::api::{ListParams, LogParams, Patch, PatchParams, PostParams};
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource, ResourceExt};
use landscape_data_folder::kubeconfig;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tests_kit::{cache_folder, free_port};

use crate::process::{Running, client_of};

/// Real time: many times what a slow machine needs.
const PATIENCE: Duration = Duration::from_secs(120);
/// Between two looks at events, which have names that are not known before.
const LOOK_PAUSE: Duration = Duration::from_millis(100);
const NAMESPACE: &str = "shoot--local--local";
const MOUNTED: &str = "/var/run/secrets/gardener.cloud/shoot/generic-kubeconfig";
const TO_PUBLIC: &str = "networking.gardener.cloud/to-public-networks";
const TO_SHOOT: &str = "networking.resources.gardener.cloud/to-kube-apiserver-tcp-443";
const GENERIC: &str = "generic-token-kubeconfig.secret.gardener.cloud/name";

/// Reads a Secret's kubeconfig through the API, and lists the namespaces of the cluster that it names, until that works.
const BY_SECRET: &str =
    "until \"$KUBECTL\" get secret \"$1\" -o 'jsonpath={.data.kubeconfig}' | base64 -d > /tmp/kubeconfig &&
    \"$KUBECTL\" --kubeconfig /tmp/kubeconfig get namespaces -o name; do sleep 0.2; done";
/// The same by a kubeconfig that is mounted.
const BY_FILE: &str = "until \"$KUBECTL\" --kubeconfig \"$1\" get namespaces -o name; do sleep 0.2; done";

async fn create<K>(seed: &Client, object: Value) -> K
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + Serialize + DeserializeOwned,
{
    let object = serde_json::from_value(object).unwrap();
    let api = Api::namespaced(seed.clone(), NAMESPACE);
    api.create(&PostParams::default(), &object).await.unwrap()
}

fn write_images(folder: &Path) -> String {
    for (name, script) in [("by-secret", BY_SECRET), ("by-file", BY_FILE)] {
        fs::write(folder.join(name), script).unwrap();
    }
    let kubectl = cache_folder().unwrap().join("real/kubectl/kubectl");
    assert!(kubectl.is_file(), "`cargo xtask real` prepares {}", kubectl.display());
    let image = |name: &str| {
        let env = json!({"KUBECTL": kubectl, "HOME": "/tmp"});
        json!({"image": name, "command": ["sh", format!("./{name}")], "env": env})
    };
    let images = folder.join("images.yaml");
    fs::write(
        &images,
        json!({"images": [image("by-secret"), image("by-file")]}).to_string(),
    )
    .unwrap();
    images.to_str().unwrap().to_owned()
}

/// What the pods have rights by, and a token for the Shoot as a component of an extension requests it.
async fn rights(seed: &Client) {
    create::<ServiceAccount>(seed, json!({"metadata": {"name": "tool"}})).await;
    let binding = json!({
        "metadata": {"name": "tool"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "tool", "namespace": NAMESPACE}],
    });
    create::<RoleBinding>(seed, binding).await;
    let token = json!({"metadata": {
        "name": "shoot-access-tool",
        "labels": {"resources.gardener.cloud/purpose": "token-requestor", "resources.gardener.cloud/class": "shoot"},
        "annotations": {
            "serviceaccount.resources.gardener.cloud/name": "gardener-internal",
            "serviceaccount.resources.gardener.cloud/namespace": "kube-system",
        },
    }});
    create::<Secret>(seed, token).await;
}

/// A pod that requests connections to the seed's API server and the name server alone.
async fn pod(seed: &Client, name: &str, image: &str, argument: &str, generic: &str) {
    let projected = json!({"sources": [
        {"secret": {"name": generic, "items": [{"key": "kubeconfig", "path": "kubeconfig"}]}},
        {"secret": {"name": "shoot-access-tool", "items": [{"key": "token", "path": "token"}]}},
    ]});
    let labels = json!({
        "networking.gardener.cloud/to-dns": "allowed", "networking.gardener.cloud/to-runtime-apiserver": "allowed",
    });
    let container = json!({
        "name": "main", "image": format!("example.org/{image}:v1"), "args": [argument],
        "volumeMounts": [{"name": "generic", "mountPath": MOUNTED}],
    });
    let spec = json!({
        "serviceAccountName": "tool", "restartPolicy": "Never", "terminationGracePeriodSeconds": 1,
        "containers": [container], "volumes": [{"name": "generic", "projected": projected}],
    });
    create::<Pod>(
        seed,
        json!({"metadata": {"name": name, "labels": labels}, "spec": spec}),
    )
    .await;
}

/// Waits until a connection of a pod was refused; why.
async fn refusal(seed: &Client, pod: &str) -> String {
    let events: Api<Event> = Api::namespaced(seed.clone(), NAMESPACE);
    let looking = async {
        loop {
            let found = events.list(&ListParams::default()).await.unwrap();
            let refused = found.into_iter().find(|event| {
                event.reason.as_deref() == Some("RefusedByNetworkPolicy")
                    && event.involved_object.name.as_deref() == Some(pod)
            });
            if let Some(message) = refused.and_then(|event| event.message) {
                return message;
            }
            tokio::time::sleep(LOOK_PAUSE).await;
        }
    };
    tokio::time::timeout(PATIENCE, looking).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn extensions_work_in_a_shoot_by_its_secrets_with_gardeners_labels() {
    if let Err(missing) = cluster_sandbox::available_with(Path::new(env!("CARGO_BIN_EXE_orangery"))) {
        println!("left out: {missing}");
        return;
    }
    let (folder, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let images = write_images(folder.path());
    let up = ["--memory", "--example", "--images", &images];
    let mut up = Running::up(data.path(), free_port().unwrap(), &up);
    up.until("ready:");
    let client = |part: &str| client_of(&kubeconfig::path(data.path(), part));
    let (garden, seed) = (client("garden"), client("seed"));
    let shoots: Api<Shoot> = Api::namespaced(garden, "garden-local");
    let succeeded = |shoot: Option<&Shoot>| {
        let operation = shoot.and_then(|shoot| shoot.status.as_ref()?.last_operation.as_ref());
        match operation.filter(|operation| operation.state == LastOperationState::Succeeded) {
            Some(_) => WaitState::Done(()),
            None => WaitState::NotYet(format!("{operation:?}")),
        }
    };
    wait_until(&shoots, "local", PATIENCE, succeeded).await.unwrap();
    rights(&seed).await;
    let cluster = Api::<Cluster>::all(seed.clone()).get(NAMESPACE).await.unwrap();
    let generic = &cluster.annotations()[GENERIC];
    let mounted = format!("{MOUNTED}/kubeconfig");
    let cases = [
        ("internal", "by-secret", "gardener-internal", TO_SHOOT),
        ("external", "by-secret", "gardener", TO_PUBLIC),
        ("mounted", "by-file", &mounted, TO_SHOOT),
    ];
    let pods: Api<Pod> = Api::namespaced(seed.clone(), NAMESPACE);
    for (name, image, argument, _) in cases {
        pod(&seed, name, image, argument, generic).await;
    }
    for (name, _, _, label) in cases {
        let refused = refusal(&seed, name).await;
        assert!(
            refused.contains(&format!("the label {label}: allowed on pod")),
            "{refused}"
        );
        let log = pods.logs(name, &LogParams::default()).await.unwrap();
        assert!(!log.contains("namespace/kube-system"), "{name}: {log}");
        let labelled = Patch::Merge(json!({"metadata": {"labels": {label: "allowed"}}}));
        pods.patch(name, &PatchParams::default(), &labelled).await.unwrap();
        let ended = |pod: Option<&Pod>| match pod.and_then(|pod| pod.status.as_ref()?.phase.clone()) {
            Some(phase) if phase == "Succeeded" => WaitState::Done(()),
            phase => WaitState::NotYet(format!("{phase:?}")),
        };
        let waited = wait_until(&pods, name, PATIENCE, ended).await;
        let log = pods.logs(name, &LogParams::default()).await.unwrap();
        assert!(waited.is_ok() && log.contains("namespace/kube-system"), "{name}: {log}");
    }
    up.stop();
}
