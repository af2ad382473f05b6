//! What the charts render, given to a real kube-apiserver: every field is known to it, and every pod meets the Pod Security
//! Standard `restricted`, which it enforces.

use serde_json::{Value, json};
use tests_conformance::real::{Options, Real};

use crate::shell::Shell;

const ADMIN: &str = "admin.kubeconfig";
/// The namespace of both releases.
const NAMESPACE: &str = "orangery-system";
/// Kinds with a template of pods.
const WORKLOADS: [&str; 2] = ["Deployment", "StatefulSet"];
/// What kube-apiserver warns of because the files of values have words in place of given certificates.
const NO_CERTIFICATE: &str = "tls: failed to find any PEM data in certificate input";
/// Kinds that are no part of Kubernetes.
const FOREIGN: &str = "cert-manager.io/v1";

/// All objects of a chart with a file of values from its folder `ci`.
fn rendered(shell: &Shell, chart: &str, values: &str) -> Vec<Value> {
    let file = format!("charts/{chart}/ci/{values}-values.yaml");
    let text = shell.run(&format!(
        "helm template test charts/{chart} --namespace {NAMESPACE} --values {file}"
    ));
    base_yaml::read_all_strict(&text).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kube_apiserver_takes_all_objects_strictly_and_all_pods_as_restricted() {
    let real = Real::start(Options::default())
        .await
        .unwrap_or_else(|why| panic!("{why}"));
    let shell = Shell::new(&["charts"]);
    shell.write(ADMIN, real.endpoint.kubeconfig.expose());
    shell.run(&format!(
        "export KUBECONFIG={ADMIN}
kubectl create namespace {NAMESPACE}
# kube-controller-manager, which makes it, does not run.
kubectl create serviceaccount default --namespace {NAMESPACE}
kubectl label namespace {NAMESPACE} pod-security.kubernetes.io/enforce=restricted"
    ));
    let all = [
        ("garden", "full"),
        ("garden", "given"),
        ("garden", "generated"),
        ("gardenlet", "kubeconfig"),
        ("gardenlet", "bootstrap"),
        ("gardenlet", "gardener"),
    ];
    for (chart, values) in all {
        let mut objects = rendered(&shell, chart, values);
        objects.retain(|object| object["apiVersion"] != FOREIGN);
        let list = |items: &[Value]| json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
        let apply = "kubectl apply --server-side --force-conflicts --validate=strict -f -";
        let printed = shell.run_with(&format!("{apply} 2>&1"), &list(&objects));
        let mut warnings = printed.lines().filter(|line| line.contains("Warning"));
        assert!(
            warnings.all(|line| line.ends_with(NO_CERTIFICATE)),
            "{chart} with {values}: {printed}"
        );
        let pods: Vec<Value> = objects.iter().filter_map(pod).collect();
        assert!(!pods.is_empty());
        shell.run_with("kubectl create --dry-run=server --validate=strict -f -", &list(&pods));
    }
    // What is enforced is seen in a pod that does not meet it.
    let root = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "root", "namespace": NAMESPACE},
        "spec": {"automountServiceAccountToken": false, "containers": [{"name": "a", "image": "a"}]}});
    let refused = "! kubectl create --dry-run=server -f - 2>&1 >/dev/null";
    let printed = shell.run_with(refused, &root.to_string());
    assert!(printed.contains("violates PodSecurity \"restricted"), "{printed}");
}

/// The pod of a workload, with its volumes as the controller of a StatefulSet makes them.
fn pod(workload: &Value) -> Option<Value> {
    if !WORKLOADS.iter().any(|kind| workload["kind"] == *kind) {
        return None;
    }
    let mut spec = workload["spec"]["template"]["spec"].clone();
    for claim in workload["spec"]["volumeClaimTemplates"]
        .as_array()
        .into_iter()
        .flatten()
    {
        let name = &claim["metadata"]["name"];
        let volume = json!({"name": name, "persistentVolumeClaim": {"claimName": name}});
        spec["volumes"].as_array_mut().unwrap().push(volume);
    }
    Some(json!({"apiVersion": "v1", "kind": "Pod", "spec": spec,
        "metadata": {"name": workload["metadata"]["name"], "namespace": workload["metadata"]["namespace"],
            "labels": workload["spec"]["template"]["metadata"]["labels"]}}))
}
