//! Rows as kube-apiserver prints them: objects in, the line kubectl shows out.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends where its set-up fails")]

use cluster_table::{CustomColumn, Printer};
use jiff::Timestamp;
use serde_json::{Value, json};

fn now() -> Timestamp {
    "2026-01-01T01:00:00Z".parse().unwrap()
}

/// An object created an hour ago.
fn object(mut rest: Value) -> Value {
    let metadata = rest
        .as_object_mut()
        .unwrap()
        .entry("metadata")
        .or_insert_with(|| json!({}));
    metadata
        .as_object_mut()
        .unwrap()
        .entry("name")
        .or_insert_with(|| json!("x"));
    metadata["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
    rest
}

/// Cells that are shown without `-o wide`, then the others behind `|`; each between `;`.
fn line(printer: &Printer, object: &Value) -> String {
    let row = printer.row(object, now());
    assert_eq!(row.cells.len(), printer.columns().len(), "{:?}", printer.columns());
    let shown = |wide: bool| -> String {
        let cells = row
            .cells
            .iter()
            .zip(printer.columns())
            .filter(|(_, column)| (column.priority > 0) == wide);
        cells
            .map(|(cell, _)| cell.as_str().map_or_else(|| cell.to_string(), str::to_owned))
            .collect::<Vec<_>>()
            .join(";")
    };
    let wide = shown(true);
    if wide.is_empty() {
        shown(false)
    } else {
        format!("{}|{wide}", shown(false))
    }
}

fn check(group: &str, resource: &str, given: Value, wanted: &str) {
    let printer = Printer::builtin(group, resource).expect(resource);
    assert_eq!(line(&printer, &object(given)), wanted, "{resource}");
}

fn pod(status: Value) -> Value {
    json!({"kind": "Pod", "spec": {"nodeName": "n", "containers": [{"name": "a"}, {"name": "b"}], "initContainers": [{"name": "i"}, {"name": "s", "restartPolicy": "Always"}]}, "status": status})
}

#[test]
fn pods_report_what_delays_them() {
    let running = |restarts: i64| json!({"name": "a", "ready": true, "restartCount": restarts, "state": {"running": {}}, "lastState": {"terminated": {"finishedAt": "2026-01-01T00:55:00Z"}}});
    let cases = [
        (
            json!({"phase": "Pending"}),
            "x;0/3;Pending;0;60m|<none>;n;<none>;<none>",
        ),
        (
            json!({"phase": "Pending", "initContainerStatuses": [{"name": "i", "restartCount": 0, "state": {"running": {}}}]}),
            "x;0/3;Init:0/2;0;60m|<none>;n;<none>;<none>",
        ),
        (
            json!({"phase": "Pending", "initContainerStatuses": [{"name": "i", "restartCount": 4, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}),
            "x;0/3;Init:CrashLoopBackOff;4;60m|<none>;n;<none>;<none>",
        ),
        (
            json!({"phase": "Running", "podIP": "10.0.0.1", "initContainerStatuses": [{"name": "i", "state": {"terminated": {"exitCode": 0}}}, {"name": "s", "started": true, "ready": true, "state": {"running": {}}}],
            "containerStatuses": [running(2), running(1)]}),
            "x;3/3;Running;3 (5m ago);60m|10.0.0.1;n;<none>;<none>",
        ),
        (
            json!({"phase": "Running", "containerStatuses": [running(0), {"name": "b", "state": {"waiting": {"reason": "ImageNotInCatalogue"}}}]}),
            "x;1/3;ImageNotInCatalogue;0;60m|<none>;n;<none>;<none>",
        ),
        (
            json!({"phase": "Failed", "containerStatuses": [{"name": "a", "state": {"terminated": {"exitCode": 137, "signal": 9}}}]}),
            "x;0/3;Signal:9;0;60m|<none>;n;<none>;<none>",
        ),
        (
            json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}], "containerStatuses": [running(0), {"name": "b", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}]}),
            "x;1/3;Running;0;60m|<none>;n;<none>;<none>",
        ),
        (
            json!({"phase": "Failed", "reason": "Evicted"}),
            "x;0/3;Evicted;0;60m|<none>;n;<none>;<none>",
        ),
    ];
    for (status, wanted) in cases {
        check("", "pods", pod(status), wanted);
    }
    let mut going = pod(json!({"phase": "Running"}));
    going["metadata"] = json!({"deletionTimestamp": "2026-01-01T00:59:00Z"});
    check("", "pods", going, "x;0/3;Terminating;0;60m|<none>;n;<none>;<none>");
    let done = object(pod(json!({"phase": "Succeeded"})));
    assert_eq!(
        Printer::builtin("", "pods").unwrap().row(&done, now()).conditions[0]["type"],
        "Completed"
    );
}

#[test]
fn nodes_namespaces_and_small_kinds_print_as_kube_apiserver_prints_them() {
    let node = json!({"metadata": {"labels": {"node-role.kubernetes.io/worker": "", "kubernetes.io/role": "node"}}, "spec": {"unschedulable": true},
        "status": {"conditions": [{"type": "Ready", "status": "Unknown"}], "addresses": [{"type": "InternalIP", "address": "10.1.0.2"}], "nodeInfo": {"kubeletVersion": "v1.35.0", "osImage": "os"}}});
    check(
        "",
        "nodes",
        node,
        "x;NotReady,SchedulingDisabled;node,worker;60m;v1.35.0|10.1.0.2;<none>;os;<unknown>;<unknown>",
    );
    check(
        "",
        "nodes",
        json!({}),
        "x;Unknown;<none>;60m;|<none>;<none>;<unknown>;<unknown>;<unknown>",
    );
    check(
        "",
        "namespaces",
        json!({"status": {"phase": "Terminating"}}),
        "x;Terminating;60m",
    );
    check(
        "",
        "configmaps",
        json!({"data": {"a": "1"}, "binaryData": {"b": ""}}),
        "x;2;60m",
    );
    check(
        "",
        "secrets",
        json!({"type": "Opaque", "data": {"a": ""}}),
        "x;Opaque;1;60m",
    );
    check("", "serviceaccounts", json!({}), "x;60m");
    check(
        "coordination.k8s.io",
        "leases",
        json!({"spec": {"holderIdentity": "me"}}),
        "x;me;60m",
    );
    let request = json!({"spec": {"signerName": "kubernetes.io/kube-apiserver-client-kubelet", "username": "system:bootstrap:a", "expirationSeconds": 86400}, "status": {"certificate": "x", "conditions": [{"type": "Approved", "status": "True"}]}});
    check(
        "certificates.k8s.io",
        "certificatesigningrequests",
        request,
        "x;60m;kubernetes.io/kube-apiserver-client-kubelet;system:bootstrap:a;24h;Approved,Issued",
    );
    check(
        "apiextensions.k8s.io",
        "customresourcedefinitions",
        json!({}),
        "x;2026-01-01T00:00:00Z",
    );
}

#[test]
fn workloads_print_counts_and_templates() {
    let template = json!({"spec": {"containers": [{"name": "a", "image": "i:1"}, {"name": "b", "image": "j"}]}});
    let selector = json!({"matchLabels": {"app": "x"}, "matchExpressions": [{"key": "tier", "operator": "In", "values": ["a", "b"]}, {"key": "old", "operator": "DoesNotExist"}]});
    check(
        "apps",
        "deployments",
        json!({"spec": {"replicas": 3, "template": template, "selector": selector}, "status": {"readyReplicas": 1, "updatedReplicas": 2, "availableReplicas": 1}}),
        "x;1/3;2;1;60m|a,b;i:1,j;!old,app=x,tier in (a,b)",
    );
    check(
        "apps",
        "replicasets",
        json!({"spec": {"replicas": 3, "template": template}, "status": {"replicas": 2, "readyReplicas": 1}}),
        "x;3;2;1;60m|a,b;i:1,j;<none>",
    );
    check(
        "apps",
        "statefulsets",
        json!({"spec": {"replicas": 1, "template": template}}),
        "x;0/1;60m|a,b;i:1,j",
    );
    check(
        "apps",
        "daemonsets",
        json!({"spec": {"template": template}, "status": {"desiredNumberScheduled": 2, "currentNumberScheduled": 2, "numberReady": 1, "updatedNumberScheduled": 2, "numberAvailable": 1}}),
        "x;2;2;1;2;1;<none>;60m|a,b;i:1,j;<none>",
    );
    check(
        "batch",
        "jobs",
        json!({"spec": {"completions": 2, "template": template}, "status": {"succeeded": 1, "startTime": "2026-01-01T00:10:00Z"}}),
        "x;Running;1/2;50m;60m|a,b;i:1,j;<none>",
    );
    check(
        "batch",
        "jobs",
        json!({"spec": {"parallelism": 3}, "status": {"succeeded": 1, "startTime": "2026-01-01T00:10:00Z", "completionTime": "2026-01-01T00:11:00Z", "conditions": [{"type": "Complete", "status": "True"}]}}),
        "x;Complete;1/1 of 3;60s;60m|;;<none>",
    );
}

#[test]
fn services_endpoints_and_volumes_print_addresses() {
    check(
        "",
        "services",
        json!({"spec": {"type": "LoadBalancer", "clusterIP": "10.0.0.1", "selector": {"a": "b"}, "ports": [{"port": 443, "nodePort": 30443, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}]}}),
        "x;LoadBalancer;10.0.0.1;<pending>;443:30443/TCP,53/UDP;60m|a=b",
    );
    check(
        "",
        "services",
        json!({"spec": {"clusterIP": "None"}}),
        "x;ClusterIP;None;<none>;<none>;60m|<none>",
    );
    let addresses = json!([{"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}, {"ip": "fd00::1"}, {"ip": "10.0.0.4"}]);
    check(
        "",
        "endpoints",
        json!({"subsets": [{"addresses": addresses, "ports": [{"port": 80}]}]}),
        "x;10.0.0.1:80,10.0.0.2:80,[fd00::1]:80 + 1 more...;60m",
    );
    check("", "endpoints", json!({}), "x;<none>;60m");
    check(
        "discovery.k8s.io",
        "endpointslices",
        json!({"addressType": "IPv4", "ports": [{"port": 80}], "endpoints": [{"addresses": ["10.0.0.1"]}, {"addresses": ["10.0.0.2"]}]}),
        "x;IPv4;80;10.0.0.1,10.0.0.2;60m",
    );
    check(
        "",
        "persistentvolumes",
        json!({"spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany", "ReadWriteOnce"], "persistentVolumeReclaimPolicy": "Delete", "claimRef": {"namespace": "n", "name": "c"}, "storageClassName": "s", "volumeMode": "Filesystem"}, "status": {"phase": "Bound"}}),
        "x;1Gi;RWO,RWX;Delete;Bound;n/c;s;<unset>;;60m|Filesystem",
    );
    check(
        "",
        "persistentvolumeclaims",
        json!({"spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "s"}, "status": {"phase": "Pending", "capacity": {"storage": "1Gi"}}}),
        "x;Pending;;;;s;<unset>;60m|<unset>",
    );
    check(
        "rbac.authorization.k8s.io",
        "rolebindings",
        json!({"roleRef": {"kind": "ClusterRole", "name": "view"}, "subjects": [{"kind": "User", "name": "u"}, {"kind": "Group", "name": "g"}, {"kind": "Group", "name": "h"}, {"kind": "ServiceAccount", "namespace": "n", "name": "s"}]}),
        "x;ClusterRole/view;60m|u;g, h;n/s",
    );
}

#[test]
fn events_print_in_both_forms() {
    let old = json!({"involvedObject": {"kind": "Pod", "name": "p", "fieldPath": "spec.containers{a}"}, "type": "Warning", "reason": "BackOff", "message": " text\n", "source": {"component": "kubelet", "host": "n"},
        "firstTimestamp": "2026-01-01T00:30:00Z", "lastTimestamp": "2026-01-01T00:59:00Z", "count": 7});
    check(
        "",
        "events",
        old,
        "60s;Warning;BackOff;pod/p;text|spec.containers{a};kubelet, n;30m;7;x",
    );
    let new = json!({"regarding": {"kind": "Widget", "name": "s"}, "type": "Normal", "reason": "Reconciled", "note": "done", "reportingController": "operator", "eventTime": "2026-01-01T00:59:30.000000Z"});
    check(
        "events.k8s.io",
        "events",
        new,
        "30s;Normal;Reconciled;widget/s;done|;operator;30s;1;x",
    );
}

#[test]
fn columns_of_custom_resources_follow_their_types() {
    let column = |name: &str, type_: &str, json_path: &str| CustomColumn {
        name: name.into(),
        type_: type_.into(),
        json_path: json_path.into(),
        ..CustomColumn::default()
    };
    let wide = CustomColumn {
        priority: 1,
        ..column("Purpose", "string", ".spec.purpose")
    };
    let columns = [
        column("Type", "string", ".spec.type"),
        column("Ready", "string", r#".status.conditions[?(@.type=="Ready")].status"#),
        column("Progress", "integer", ".status.progress"),
        column("On", "boolean", ".spec.on"),
        column("Zones", "string", ".spec.zones[*]"),
        column("Map", "string", ".spec.map"),
        column("Age", "date", ".metadata.creationTimestamp"),
        column("Never", "date", ".status.never"),
        column("Wrong", "integer", ".spec.type"),
        wide,
    ];
    let printer = Printer::custom(&columns).unwrap();
    let given = object(
        json!({"spec": {"type": "local", "on": true, "zones": ["a", "b"], "map": {"k": 1}}, "status": {"progress": 42, "conditions": [{"type": "Ready", "status": "True"}]}}),
    );
    assert_eq!(
        line(&printer, &given),
        r#"x;local;True;42;true;a b;{"k":1};60m;null;null|null"#
    );
    let mut name = serde_json::to_value(&printer.columns()[0]).unwrap();
    assert!(
        name["description"]
            .take()
            .as_str()
            .is_some_and(|text| text.starts_with("Name must be unique"))
    );
    assert_eq!(
        name,
        json!({"name": "Name", "type": "string", "format": "name", "description": null, "priority": 0})
    );
    assert_eq!(line(&Printer::custom(&[]).unwrap(), &given), "x;60m");
    assert_eq!(line(&Printer::plain(), &given), "x;2026-01-01T00:00:00Z");
    assert!(Printer::custom(&[column("Bad", "string", ".a[1:2]")]).is_err());
}

#[test]
fn columns_of_built_in_kinds_are_described() {
    let ready = |group: &str, resource: &str| {
        let printer = Printer::builtin(group, resource).unwrap();
        let column = printer.columns().iter().find(|column| column.name == "Ready").cloned();
        column.unwrap().description
    };
    assert!(
        ready("", "pods").contains("containers") || ready("", "pods").contains("pod"),
        "{}",
        ready("", "pods")
    );
    assert_ne!(ready("", "pods"), ready("apps", "deployments"));
}
