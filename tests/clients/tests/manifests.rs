//! The objects that gardenlet creates in a seed, from their goldens, given to real kube-apiserver: each is accepted with strict
//! validation of its fields, and each pod under Pod Security's level `restricted`. Nothing runs them here. Run by
//! `cargo xtask test clients`, which prepares the real parts.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test ends where its set-up fails, and says why"
)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use base_client::{Connector, Https};
use http::{Method, Request, header};
use kube::Client;
use kube::config::Kubeconfig;
use serde_json::{Value, json};
use tests_conformance::real::{Options, Real};

/// Where the plural name of a kind stands, for the kinds that gardenlet creates.
const KINDS: [(&str, &str, bool); 10] = [
    ("ClusterRole", "clusterroles", false),
    ("ClusterRoleBinding", "clusterrolebindings", false),
    ("Deployment", "deployments", true),
    ("MutatingWebhookConfiguration", "mutatingwebhookconfigurations", false),
    ("PodDisruptionBudget", "poddisruptionbudgets", true),
    ("PriorityClass", "priorityclasses", false),
    ("Role", "roles", true),
    ("RoleBinding", "rolebindings", true),
    ("Service", "services", true),
    ("StatefulSet", "statefulsets", true),
];

/// The server's answer to a creation.
async fn create(client: &Client, path: &str, object: &Value) -> Result<(), String> {
    let request = Request::builder()
        .method(Method::POST)
        .uri(format!("{path}?fieldValidation=Strict"))
        .header(header::CONTENT_TYPE, "application/json")
        .body(object.to_string().into_bytes())
        .unwrap();
    let answer: Result<Value, kube::Error> = client.request(request).await;
    answer.map(drop).map_err(|error| error.to_string())
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The path of the collection that an object belongs to.
fn collection(object: &Value) -> String {
    let (version, kind) = (text(object, "/apiVersion"), text(object, "/kind"));
    let root = match version.contains('/') {
        true => format!("/apis/{version}"),
        false => format!("/api/{version}"),
    };
    if kind == "ServiceAccount" {
        return format!(
            "{root}/namespaces/{}/serviceaccounts",
            text(object, "/metadata/namespace")
        );
    }
    let known = KINDS.iter().find(|(known, ..)| *known == kind);
    let (_, plural, namespaced) = known.unwrap_or_else(|| panic!("the test knows no collection of {kind}"));
    match namespaced {
        true => format!("{root}/namespaces/{}/{plural}", text(object, "/metadata/namespace")),
        false => format!("{root}/{plural}"),
    }
}

/// The pod that a workload would create first.
fn pod(workload: &Value) -> Option<Value> {
    let template = workload.pointer("/spec/template")?;
    let mut spec = template["spec"].clone();
    // A claim of a StatefulSet is a volume of its pods.
    let claims = workload.pointer("/spec/volumeClaimTemplates").and_then(Value::as_array);
    for claim in claims.into_iter().flatten() {
        let name = &claim["metadata"]["name"];
        let volume = json!({"name": name, "persistentVolumeClaim": {"claimName": format!("{}-0", name.as_str()?)}});
        spec["volumes"].as_array_mut()?.push(volume);
    }
    Some(json!({
        "apiVersion": "v1", "kind": "Pod", "spec": spec,
        "metadata": {
            "name": format!("{}-0", text(workload, "/metadata/name")),
            "namespace": text(workload, "/metadata/namespace"),
            "labels": template["metadata"]["labels"],
            "annotations": template["metadata"]["annotations"],
        },
    }))
}

/// The objects of the goldens, by file: of one shoot's control plane, and of the seed itself.
fn goldens() -> BTreeMap<PathBuf, Vec<Value>> {
    let components = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../components");
    let mut objects = BTreeMap::new();
    for folder in ["hosted", "seed"] {
        for entry in std::fs::read_dir(components.join(folder).join("tests/golden")).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            // What begins so belongs into the shoot.
            if name.starts_with("shoot-") || !name.ends_with(".json") {
                continue;
            }
            let read: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
            let list = match read {
                Value::Array(list) => list,
                one => vec![one],
            };
            objects.insert(path, list);
        }
    }
    objects
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn control_plane_objects_are_accepted_strictly_and_their_pods_as_restricted() {
    let real = Real::start(Options::default()).await.unwrap();
    let kubeconfig = Kubeconfig::from_yaml(real.endpoint.kubeconfig.expose()).unwrap();
    let client = Https::new("tests").client(&kubeconfig).unwrap();
    for namespace in ["shoot--dev--moon", "garden"] {
        let labels = json!({
            "pod-security.kubernetes.io/enforce": "restricted",
            "pod-security.kubernetes.io/enforce-version": "latest",
        });
        let object =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": labels}});
        create(&client, "/api/v1/namespaces", &object).await.unwrap();
        // No controller makes it here.
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts");
        create(&client, &path, &account).await.unwrap();
    }
    refuses_what_is_not_restricted(&client).await;

    let goldens = goldens();
    let (mut refused, mut pods) = (Vec::new(), Vec::new());
    for (path, objects) in &goldens {
        for object in objects {
            if let Err(why) = create(&client, &collection(object), object).await {
                refused.push(format!("{}: {why}", path.display()));
            }
            pods.extend(pod(object));
        }
    }
    // After the priorities and accounts that they name.
    for pod in &pods {
        let path = format!("/api/v1/namespaces/{}/pods", text(pod, "/metadata/namespace"));
        if let Err(why) = create(&client, &path, pod).await {
            refused.push(format!("pod {}: {why}", text(pod, "/metadata/name")));
        }
    }
    assert!(refused.is_empty(), "{}", refused.join("\n"));
    assert_eq!(
        pods.len(),
        8,
        "of each workload one, and that of the seed's gardener-resource-manager"
    );
}

/// The test notices what it is to notice.
async fn refuses_what_is_not_restricted(client: &Client) {
    let pod = |more: Value| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"},
            "spec": {"containers": [{"name": "c", "image": "i"}], "hostNetwork": more}})
    };
    let path = "/api/v1/namespaces/garden/pods";
    let why = create(client, path, &pod(json!(true))).await.unwrap_err();
    assert!(why.contains("violates PodSecurity"), "{why}");
    let mut misspelt = pod(json!(false));
    misspelt["spec"]["replicaz"] = json!(1);
    let why = create(client, path, &misspelt).await.unwrap_err();
    assert!(why.contains("unknown field"), "{why}");
}
