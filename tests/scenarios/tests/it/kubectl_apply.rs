//! The real kubectl's move from client-side to server-side apply, and back.

use serde_json::Value;
use tests_scenarios::kubectl::Kubectl;

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

fn get(kubectl: &Kubectl, arguments: &[&str]) -> Value {
    let all = [&["get", "-o", "json", "--show-managed-fields"], arguments].concat();
    serde_json::from_str(&kubectl.ok(&all)).unwrap()
}

/// Manager, operation and subresource of everybody who owns something.
fn managers(object: &Value) -> Vec<String> {
    let entries = object["metadata"]["managedFields"].as_array().unwrap();
    let text = |entry: &Value, field: &str| entry[field].as_str().unwrap_or("-").to_owned();
    let shown = |entry| {
        ["manager", "operation", "subresource"]
            .map(|field| text(entry, field))
            .join(" ")
    };
    entries.iter().map(shown).collect()
}

#[test]
fn a_project_keeps_its_creator_when_its_manifest_becomes_server_side() {
    let garden = Kubectl::garden();
    let manifest = |description: &str| {
        format!(
            "---\n{{apiVersion: core.gardener.cloud/v1beta1, kind: Project, metadata: {{name: csa}}, spec: {{{description}namespace: garden-csa}}}}"
        )
    };
    let made = garden.feed(&["apply", "-f", "-"], &manifest("description: one, "));
    assert_eq!(made, "project.core.gardener.cloud/csa created\n");
    let before = get(&garden, &["project", "csa"]);
    let owned = &before["metadata"]["managedFields"][0];
    assert_eq!(owned["manager"], "kubectl-client-side-apply");
    let fields = &owned["fieldsV1"]["f:spec"];
    for field in ["f:createdBy", "f:owner"] {
        assert_eq!(fields.get(field), None, "{before}");
    }
    assert!(fields.get("f:namespace").is_some() && before["spec"]["owner"].is_object());

    let server_side = ["apply", "--server-side", "-f", "-"];
    let applied = garden.feed(&server_side, &manifest("description: two, "));
    assert_eq!(applied, "project.core.gardener.cloud/csa serverside-applied\n");
    let after = get(&garden, &["project", "csa"]);
    assert_eq!(after["spec"]["description"], "two");
    let all = managers(&after);
    assert!(all.contains(&"kubectl Apply -".to_owned()), "{all:?}");
    assert!(!all.iter().any(|manager| manager.contains("client-side")), "{all:?}");

    garden.feed(&server_side, &manifest(""));
    let last = get(&garden, &["project", "csa"]);
    assert_eq!(last["spec"].get("description"), None, "what is applied no more goes");
    for field in ["createdBy", "owner", "members", "namespace"] {
        assert_eq!(last["spec"].get(field), before["spec"].get(field), "{field}");
    }
}

#[test]
fn a_deployment_moves_to_server_side_apply_and_back() {
    let seed = Kubectl::seed();
    seed.ok(&["create", "namespace", "t-csa"]);
    let manifest = |spec: &str, image: &str| {
        format!(
            "---\n{{apiVersion: apps/v1, kind: Deployment, metadata: {{name: d}}, spec: {{{spec}selector: {{matchLabels: {{a: b}}}}, \
             template: {{metadata: {{labels: {{a: b}}}}, spec: {{containers: [{{name: one, image: 'x:{image}'}}]}}}}}}}}"
        )
    };
    let client_side = ["apply", "-n", "t-csa", "-f", "-"];
    let server_side = ["apply", "--server-side", "-n", "t-csa", "-f", "-"];
    seed.feed(&client_side, &manifest("replicas: 0, minReadySeconds: 5, ", "1"));
    seed.ok(&["scale", "deployment", "d", "-n", "t-csa", "--replicas=0"]);
    seed.feed(&server_side, &manifest("replicas: 0, ", "2"));
    let moved = get(&seed, &["deployment", "d", "-n", "t-csa"]);
    assert_eq!(moved["spec"].get("minReadySeconds"), None, "{moved}");
    assert_eq!(moved["spec"]["template"]["spec"]["containers"][0]["image"], "x:2");
    assert!(
        managers(&moved).contains(&"kubectl Apply -".to_owned()),
        "{:?}",
        managers(&moved)
    );
    let last: Value = serde_json::from_str(moved["metadata"]["annotations"][LAST_APPLIED].as_str().unwrap()).unwrap();
    assert_eq!(last["spec"].get("minReadySeconds"), None, "{last}");

    let back = seed.feed(&client_side, &manifest("replicas: 0, ", "3"));
    assert_eq!(back, "deployment.apps/d configured\n");
    let refused = seed.feed_any(
        &[
            "apply",
            "--server-side",
            "--field-manager=other",
            "-n",
            "t-csa",
            "-f",
            "-",
        ],
        &manifest("replicas: 0, ", "4"),
    );
    let error = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        !refused.status.success() && error.contains(r#"conflict with "kubectl-client-side-apply" using apps/v1"#),
        "{error}"
    );
}
