//! The real kubectl, verb by verb: each answer is what a user of Kubernetes expects.

use std::io::{BufRead, BufReader};

use api_extensions::ExtensionKind;
use serde_json::Value;
use tests_scenarios::kubectl::Kubectl;

/// A namespace of the seed for one test.
fn namespace(name: &str) -> Kubectl {
    let seed = Kubectl::seed();
    seed.ok(&["create", "namespace", name]);
    seed
}

const CONFIG: &str =
    "---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: c, labels: {app: a}}, data: {k: v, other: w}}";

#[test]
fn apply_creates_configures_and_leaves_unchanged() {
    let seed = namespace("t-apply");
    let apply = ["apply", "-n", "t-apply", "-f", "-"];
    assert_eq!(seed.feed(&apply, CONFIG), "configmap/c created\n");
    assert_eq!(seed.feed(&apply, CONFIG), "configmap/c unchanged\n");
    let changed = CONFIG.replace("k: v, other: w", "k: x");
    assert_eq!(seed.feed(&apply, &changed), "configmap/c configured\n");
    let data = seed.ok(&["get", "configmap", "c", "-n", "t-apply", "-o", "jsonpath={.data}"]);
    assert_eq!(data, r#"{"k":"x"}"#);
}

#[test]
fn server_side_apply_reports_conflicts_and_force_takes_over() {
    let seed = namespace("t-ssa");
    let apply = |manager: &str, extra: &[&str], text: &str| {
        let mut arguments = vec![
            "apply",
            "--server-side",
            "-n",
            "t-ssa",
            "--field-manager",
            manager,
            "-f",
            "-",
        ];
        arguments.extend(extra);
        seed.feed_any(&arguments, text)
    };
    assert!(apply("one", &[], CONFIG).status.success());
    let changed = CONFIG.replace("k: v", "k: x");
    let refused = apply("two", &[], &changed);
    let error = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        !refused.status.success() && error.contains(r#"conflict with "one": .data.k"#),
        "{error}"
    );
    assert!(apply("two", &["--force-conflicts"], &changed).status.success());
    let managers = seed.ok(&[
        "get",
        "configmap",
        "c",
        "-n",
        "t-ssa",
        "--show-managed-fields",
        "-o",
        "jsonpath={.metadata.managedFields[*].manager}",
    ]);
    assert_eq!(managers, "one two");
}

#[test]
fn get_prints_tables_yaml_and_json() {
    let seed = namespace("t-get");
    seed.feed(&["apply", "-n", "t-get", "-f", "-"], CONFIG);
    let table = seed.ok(&["get", "configmap", "c", "-n", "t-get"]);
    let mut lines = table.lines();
    assert_eq!(
        lines.next().unwrap().split_whitespace().collect::<Vec<_>>(),
        ["NAME", "DATA", "AGE"]
    );
    assert!(lines.next().unwrap().starts_with("c      2"), "{table}");
    let wide = seed.ok(&["get", "nodes", "-o", "wide"]);
    assert!(
        wide.contains("INTERNAL-IP") && wide.contains("KERNEL-VERSION") && wide.contains("Ready"),
        "{wide}"
    );
    let json: Value = serde_json::from_str(&seed.ok(&["get", "configmap", "c", "-n", "t-get", "-o", "json"])).unwrap();
    assert_eq!(json["kind"], "ConfigMap");
    assert_eq!(json["data"]["k"], "v");
    let yaml = seed.ok(&["get", "configmap", "c", "-n", "t-get", "-o", "yaml"]);
    assert!(yaml.contains("  k: v\n") && yaml.contains("uid: "), "{yaml}");
    assert_eq!(
        seed.ok(&["get", "configmap", "-n", "t-get", "-l", "app=a", "-o", "name"]),
        "configmap/c\n"
    );
    let missing = seed.fails(&["get", "configmap", "nothing", "-n", "t-get"]);
    assert_eq!(
        missing,
        "Error from server (NotFound): configmaps \"nothing\" not found\n"
    );
}

#[test]
fn describe_shows_the_object_and_its_events() {
    let seed = Kubectl::seed();
    let described = seed.ok(&["describe", "node"]);
    for part in ["Conditions:", "Ready", "Capacity:", "Events:"] {
        assert!(described.contains(part), "{part} is missing in {described}");
    }
    let garden = Kubectl::garden();
    let described = garden.ok(&["describe", "seed", "local"]);
    assert!(
        described.contains("API Version:  core.gardener.cloud/v1beta1"),
        "{described}"
    );
}

#[test]
fn api_resources_lists_kinds_of_every_group() {
    let garden = Kubectl::garden().ok(&["api-resources"]);
    let line = garden
        .lines()
        .find(|line| line.starts_with("shoots "))
        .unwrap_or_else(|| panic!("no shoots in {garden}"));
    assert_eq!(
        line.split_whitespace().collect::<Vec<_>>(),
        ["shoots", "core.gardener.cloud/v1beta1", "true", "Shoot"]
    );
    let seed = Kubectl::seed().ok(&["api-resources", "--api-group=extensions.gardener.cloud"]);
    for kind in ExtensionKind::NAMES.iter().chain(&["Cluster"]) {
        assert!(seed.contains(kind), "{kind} is missing in {seed}");
    }
    let versions = Kubectl::seed().ok(&["api-versions"]);
    assert!(versions.lines().any(|version| version == "apps/v1"), "{versions}");
}

#[test]
fn each_type_of_patch_has_its_documented_effect() {
    let seed = namespace("t-patch");
    let deployment = "---\n{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: {replicas: 0, selector: {matchLabels: {a: b}}, \
        template: {metadata: {labels: {a: b}}, spec: {containers: [{name: one, image: x:1}]}}}}";
    seed.feed(&["apply", "-n", "t-patch", "-f", "-"], deployment);
    let patch = |type_: &str, patch: &str| {
        seed.ok(&[
            "patch",
            "deployment",
            "d",
            "-n",
            "t-patch",
            "--type",
            type_,
            "-p",
            patch,
        ])
    };
    let names = || {
        seed.ok(&[
            "get",
            "deployment",
            "d",
            "-n",
            "t-patch",
            "-o",
            "jsonpath={.spec.template.spec.containers[*].name}",
        ])
    };
    assert_eq!(
        patch(
            "strategic",
            r#"{"spec":{"template":{"spec":{"containers":[{"name":"two","image":"y:1"}]}}}}"#
        ),
        "deployment.apps/d patched\n"
    );
    assert_eq!(names(), "two one");
    patch(
        "merge",
        r#"{"spec":{"template":{"spec":{"containers":[{"name":"three","image":"z:1"}]}}}}"#,
    );
    assert_eq!(names(), "three");
    patch(
        "json",
        r#"[{"op":"replace","path":"/spec/template/spec/containers/0/name","value":"four"}]"#,
    );
    assert_eq!(names(), "four");
    let wrong = seed.fails(&[
        "patch",
        "deployment",
        "d",
        "-n",
        "t-patch",
        "--type",
        "merge",
        "-p",
        r#"{"spec":{"replicas":"many"}}"#,
    ]);
    assert!(
        wrong.contains("spec.replicas") || wrong.contains(".spec.replicas"),
        "{wrong}"
    );
}

#[test]
fn labels_and_annotations_are_set_refused_and_removed() {
    let seed = namespace("t-label");
    seed.feed(&["apply", "-n", "t-label", "-f", "-"], CONFIG);
    assert_eq!(
        seed.ok(&["label", "configmap", "c", "-n", "t-label", "tier=back"]),
        "configmap/c labeled\n"
    );
    let refused = seed.fails(&["label", "configmap", "c", "-n", "t-label", "tier=front"]);
    assert!(refused.contains("already has a value"), "{refused}");
    seed.ok(&["label", "configmap", "c", "-n", "t-label", "tier-"]);
    assert_eq!(
        seed.ok(&["annotate", "configmap", "c", "-n", "t-label", "note=x"]),
        "configmap/c annotated\n"
    );
    let metadata = seed.ok(&[
        "get",
        "configmap",
        "c",
        "-n",
        "t-label",
        "-o",
        "jsonpath={.metadata.labels.tier}{.metadata.annotations.note}",
    ]);
    assert_eq!(metadata, "x");
    let invalid = seed.fails(&["label", "configmap", "c", "-n", "t-label", "bad=a b"]);
    assert!(invalid.to_lowercase().contains("a b"), "{invalid}");
}

#[test]
fn wait_returns_when_the_condition_holds_and_when_the_object_goes() {
    let seed = namespace("t-wait");
    let pod =
        "---\n{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c, image: nobody-knows:1}]}}";
    seed.feed(&["apply", "-n", "t-wait", "-f", "-"], pod);
    seed.ok(&[
        "wait",
        "--for=condition=PodScheduled",
        "pod/p",
        "-n",
        "t-wait",
        "--timeout=30s",
    ]);
    let timed_out = seed.fails(&["wait", "--for=condition=Ready", "pod/p", "-n", "t-wait", "--timeout=1s"]);
    assert!(timed_out.contains("timed out waiting"), "{timed_out}");
    let reason = seed.ok(&[
        "wait",
        "--for=jsonpath={.status.containerStatuses[0].state.waiting.reason}=ImageNotInCatalogue",
        "pod/p",
        "-n",
        "t-wait",
        "--timeout=30s",
    ]);
    assert!(reason.contains("condition met"), "{reason}");
    seed.ok(&["delete", "pod", "p", "-n", "t-wait", "--wait=false"]);
    seed.ok(&["wait", "--for=delete", "pod/p", "-n", "t-wait", "--timeout=60s"]);
}

#[test]
fn a_watch_shows_what_happens() {
    let seed = namespace("t-watch");
    let mut watching = seed.spawn(&[
        "get",
        "configmap",
        "-l",
        "app=a",
        "-n",
        "t-watch",
        "--watch",
        "-o",
        "jsonpath={.data.k}{\"\\n\"}",
    ]);
    let mut lines = BufReader::new(watching.stdout.take().unwrap()).lines();
    seed.feed(&["apply", "-n", "t-watch", "-f", "-"], CONFIG);
    assert_eq!(lines.next().unwrap().unwrap(), "v");
    seed.feed(&["apply", "-n", "t-watch", "-f", "-"], &CONFIG.replace("k: v", "k: x"));
    assert_eq!(lines.next().unwrap().unwrap(), "x");
    watching.kill().unwrap();
    watching.wait().unwrap();
}

#[test]
fn delete_removes_one_and_by_label_and_reports_what_is_missing() {
    let seed = namespace("t-delete");
    seed.feed(&["apply", "-n", "t-delete", "-f", "-"], CONFIG);
    assert_eq!(
        seed.ok(&["delete", "configmap", "c", "-n", "t-delete"]),
        "configmap \"c\" deleted\n"
    );
    assert!(
        seed.fails(&["delete", "configmap", "c", "-n", "t-delete"])
            .contains("NotFound")
    );
    seed.feed(&["apply", "-n", "t-delete", "-f", "-"], CONFIG);
    seed.ok(&["delete", "configmap", "-l", "app=a", "-n", "t-delete"]);
    assert_eq!(
        seed.ok(&["get", "configmap", "-l", "app=a", "-n", "t-delete", "-o", "name"]),
        ""
    );
    assert_eq!(
        seed.ok(&["delete", "namespace", "t-delete"]),
        "namespace \"t-delete\" deleted\n"
    );
    assert!(seed.fails(&["get", "namespace", "t-delete"]).contains("NotFound"));
}

#[test]
fn events_report_what_happened() {
    let seed = namespace("t-events");
    let pod = "---\n{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {nodeSelector: {nobody: has}, containers: [{name: c, image: x:1}]}}";
    seed.feed(&["apply", "-n", "t-events", "-f", "-"], pod);
    seed.ok(&[
        "wait",
        "--for=jsonpath={.status.conditions[0].reason}=Unschedulable",
        "pod/p",
        "-n",
        "t-events",
        "--timeout=30s",
    ]);
    let events = seed.ok(&["events", "-n", "t-events"]);
    assert!(
        events.contains("FailedScheduling") && events.to_lowercase().contains("pod/p"),
        "{events}"
    );
}

#[test]
fn auth_can_i_answers_by_the_roles() {
    let seed = namespace("t-auth");
    assert_eq!(
        seed.ok(&["auth", "can-i", "create", "deployments", "-n", "t-auth"]),
        "yes\n"
    );
    seed.ok(&["create", "serviceaccount", "robot", "-n", "t-auth"]);
    let robot = "--as=system:serviceaccount:t-auth:robot";
    let no = seed.run(&["auth", "can-i", "list", "pods", "-n", "t-auth", robot]);
    assert_eq!(String::from_utf8_lossy(&no.stdout), "no\n");
    seed.ok(&[
        "create",
        "role",
        "reader",
        "-n",
        "t-auth",
        "--verb=get,list",
        "--resource=pods",
    ]);
    seed.ok(&[
        "create",
        "rolebinding",
        "reads",
        "-n",
        "t-auth",
        "--role=reader",
        "--serviceaccount=t-auth:robot",
    ]);
    assert_eq!(
        seed.ok(&["auth", "can-i", "list", "pods", "-n", "t-auth", robot]),
        "yes\n"
    );
    let forbidden = seed.fails(&["get", "secrets", "-n", "t-auth", robot]);
    assert!(
        forbidden.contains("cannot list resource \"secrets\" in API group \"\" in the namespace \"t-auth\""),
        "{forbidden}"
    );
    let rules = seed.ok(&["auth", "can-i", "--list", "-n", "t-auth", robot]);
    assert!(rules.contains("pods"), "{rules}");
    let who = seed.ok(&["auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"]);
    assert_eq!(who, "orangery-admin");
}

#[test]
fn misspelled_fields_are_refused_by_name() {
    let seed = namespace("t-strict");
    let refused = seed.feed_any(
        &["apply", "-n", "t-strict", "-f", "-"],
        &CONFIG.replace(" data:", " dato:"),
    );
    let error = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(error.contains("unknown field \"dato\""), "{error}");
    let shoot = "---\n{apiVersion: core.gardener.cloud/v1beta1, kind: Shoot, metadata: {name: x, namespace: default}, spec: {regoin: local}}";
    let refused = Kubectl::garden().feed_any(&["apply", "-f", "-"], shoot);
    let error = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(error.contains("unknown field \"spec.regoin\""), "{error}");
}

#[test]
fn a_misspelled_kind_is_reported_by_its_name() {
    let shot = "---\n{apiVersion: core.gardener.cloud/v1beta1, kind: Shot, metadata: {name: x, namespace: default}}";
    for verb in ["apply", "create"] {
        let refused = Kubectl::garden().feed_any(&[verb, "-f", "-"], shot);
        let error = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(error.contains("no matches for kind \"Shot\""), "{verb}: {error}");
    }
}

#[test]
fn the_example_shoot_has_ready_nodes_and_runs_pods() {
    let shoot = Kubectl::shoot();
    let nodes = shoot.ok(&["get", "nodes"]);
    assert!(
        nodes.lines().skip(1).all(|line| line.contains(" Ready ")) && nodes.lines().count() == 2,
        "{nodes}"
    );
    assert!(nodes.contains("v1.35.0"), "{nodes}");
    shoot.ok(&[
        "create",
        "deployment",
        "web",
        "--image=registry.example/web:1",
        "--replicas=2",
    ]);
    shoot.ok(&["expose", "deployment", "web", "--port=80"]);
    shoot.ok(&["rollout", "status", "deployment/web", "--timeout=60s"]);
    shoot.ok(&["wait", "--for=condition=Available", "deployment/web", "--timeout=60s"]);
    let garden = Kubectl::garden();
    let shoots = garden.ok(&["get", "shoots", "-n", "garden-local"]);
    assert!(
        shoots.contains("local") && shoots.contains("Succeeded") && shoots.contains("1.35.0"),
        "{shoots}"
    );
}
