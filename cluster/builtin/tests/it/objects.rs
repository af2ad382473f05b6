//! Defaults and rules of built-in kinds: an object in, what kube-apiserver 1.35 would store or report.

use serde_json::{Value, json};

fn defaulted(group: &str, kind: &str, mut object: Value) -> Value {
    cluster_builtin::default(group, "v1", kind, &mut object);
    let once = object.clone();
    cluster_builtin::default(group, "v1", kind, &mut object);
    assert_eq!(once, object, "defaults of {kind} change when repeated");
    let mut pruned = object.clone();
    let schema = cluster_builtin::schema(group, "v1", kind).expect("known kind");
    assert!(
        schema.prune(&mut pruned).is_empty(),
        "defaults of {kind} set unknown fields"
    );
    object
}

fn texts(group: &str, kind: &str, object: &Value, old: Option<&Value>) -> Vec<String> {
    cluster_builtin::validate(group, "v1", kind, object, old)
        .iter()
        .map(ToString::to_string)
        .collect()
}

fn deployment() -> Value {
    json!({"metadata": {"name": "web"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {
        "metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}}}})
}

fn pod() -> Value {
    json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "nginx:1",
        "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}, "ports": [{"containerPort": 80}],
        "readinessProbe": {"httpGet": {"port": 80}}, "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}]}],
        "volumes": [{"name": "e"}, {"name": "s", "secret": {"secretName": "x"}}]}})
}

#[test]
fn pods_get_what_kube_apiserver_gives_them() {
    let spec = defaulted("", "Pod", pod())["spec"].clone();
    assert_eq!(spec["restartPolicy"], "Always");
    assert_eq!(spec["enableServiceLinks"], true);
    let container = &spec["containers"][0];
    assert_eq!(container["imagePullPolicy"], "IfNotPresent");
    assert_eq!(container["resources"]["requests"], json!({"cpu": "1", "memory": "1Gi"}));
    assert_eq!(container["ports"][0]["protocol"], "TCP");
    assert_eq!(container["env"][0]["valueFrom"]["fieldRef"]["apiVersion"], "v1");
    assert_eq!(
        container["readinessProbe"],
        json!({"httpGet": {"port": 80, "path": "/", "scheme": "HTTP"}, "timeoutSeconds": 1, "periodSeconds": 10,
            "successThreshold": 1, "failureThreshold": 3})
    );
    assert_eq!(
        spec["volumes"],
        json!([{"name": "e", "emptyDir": {}}, {"name": "s", "secret": {"secretName": "x", "defaultMode": 420}}])
    );
    assert_eq!(
        defaulted("", "Pod", pod())["status"],
        json!({"phase": "Pending", "qosClass": "Guaranteed"})
    );
}

#[test]
fn kinds_get_their_defaults() {
    #[rustfmt::skip] // one case a line
    let table: Vec<(&str, &str, Value, &str, Value)> = vec![
        ("apps", "Deployment", deployment(), "/spec/strategy", json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}})),
        ("apps", "Deployment", deployment(), "/spec/template/spec/containers/0/imagePullPolicy", json!("Always")),
        ("apps", "StatefulSet", deployment(), "/spec/updateStrategy", json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 0}})),
        ("apps", "DaemonSet", deployment(), "/spec/updateStrategy/rollingUpdate", json!({"maxUnavailable": 1, "maxSurge": 0})),
        ("apps", "ReplicaSet", deployment(), "/spec/replicas", json!(1)),
        ("batch", "Job", json!({"spec": {"template": {"spec": {}}}}), "/spec/completions", json!(1)),
        ("batch", "Job", json!({"spec": {"parallelism": 3, "template": {"spec": {}}}}), "/spec/backoffLimit", json!(6)),
        ("batch", "CronJob", json!({"spec": {}}), "/spec/concurrencyPolicy", json!("Allow")),
        ("", "Service", json!({"spec": {"ports": [{"port": 80}]}}), "/spec/ports/0", json!({"port": 80, "protocol": "TCP", "targetPort": 80})),
        ("", "Service", json!({"spec": {"type": "LoadBalancer"}}), "/spec/allocateLoadBalancerNodePorts", json!(true)),
        ("", "Secret", json!({"stringData": {"a": "b"}, "data": {"c": "ZA=="}}), "/data", json!({"a": "Yg==", "c": "ZA=="})),
        ("", "Secret", json!({"stringData": {"a": "b"}}), "/type", json!("Opaque")),
        ("", "Namespace", json!({"metadata": {"name": "n"}}), "/metadata/labels", json!({"kubernetes.io/metadata.name": "n"})),
        ("", "PersistentVolumeClaim", json!({"spec": {}}), "/spec/volumeMode", json!("Filesystem")),
        ("rbac.authorization.k8s.io", "RoleBinding", json!({"roleRef": {"kind": "Role"}, "subjects": [{"kind": "User"}, {"kind": "ServiceAccount"}]}), "/subjects", json!([{"kind": "User", "apiGroup": "rbac.authorization.k8s.io"}, {"kind": "ServiceAccount"}])),
        ("apiextensions.k8s.io", "CustomResourceDefinition", json!({"spec": {"names": {"kind": "Foo"}, "versions": [{"name": "v1", "storage": true}]}}), "/spec/names", json!({"kind": "Foo", "singular": "foo", "listKind": "FooList"})),
        ("networking.k8s.io", "NetworkPolicy", json!({"spec": {"egress": [{}]}}), "/spec/policyTypes", json!(["Ingress", "Egress"])),
    ];
    for (group, kind, object, pointer, expected) in table {
        let object = defaulted(group, kind, object);
        assert_eq!(object.pointer(pointer), Some(&expected), "{kind} {pointer}");
    }
    assert!(
        defaulted("", "Secret", json!({"stringData": {"a": "b"}}))
            .get("stringData")
            .is_none()
    );
}

/// A change to a good object, and the error it must cause.
fn spoiled(group: &str, kind: &str, good: Value, pointer: &str, value: Value, expected: &str) {
    let good = defaulted(group, kind, good);
    assert_eq!(
        texts(group, kind, &good, None),
        Vec::<String>::new(),
        "{kind} is good at first"
    );
    assert_eq!(
        texts(group, kind, &good, Some(&good)),
        Vec::<String>::new(),
        "{kind} may stay as it is"
    );
    let mut bad = good.clone();
    let (parent, field) = pointer.rsplit_once('/').expect("a pointer");
    match bad.pointer_mut(parent).expect("a pointer into the object") {
        Value::Array(list) => list.push(value),
        object => object[field] = value,
    }
    let found = texts(group, kind, &bad, Some(&good));
    assert!(
        found.iter().any(|text| text.starts_with(expected)),
        "{kind} {pointer}: {found:#?}"
    );
}

#[test]
fn broken_objects_are_refused_at_their_field() {
    let service = || json!({"metadata": {"name": "s"}, "spec": {"clusterIP": "10.0.0.1", "ports": [{"port": 80}]}});
    let config = || json!({"metadata": {"name": "c"}, "immutable": true, "data": {"a": "b"}});
    let rbac = "rbac.authorization.k8s.io";
    let binding = || {
        json!({"metadata": {"name": "system:b"}, "roleRef": {"kind": "ClusterRole", "name": "r"},
        "subjects": [{"kind": "User", "name": "u"}]})
    };
    let claim = || json!({"metadata": {"name": "p"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    #[rustfmt::skip] // one case a line
    let table: Vec<(&str, &str, Value, &str, Value, &str)> = vec![
        ("", "Pod", pod(), "/spec/containers", json!([]), "spec.containers: Required value"),
        ("", "Pod", pod(), "/spec/containers", json!([{"name": "c", "image": "x", "imagePullPolicy": "Always", "volumeMounts": [{"name": "nosuch", "mountPath": "/x"}]}]), "spec.containers[0].volumeMounts[0].name: Not found: \"nosuch\""),
        ("", "Pod", pod(), "/spec/containers", json!([{"name": "c", "image": "x", "imagePullPolicy": "Always", "volumeMounts": [{"name": "e", "mountPath": "/x", "subPath": "../.."}]}]), "spec.containers[0].volumeMounts.subPath: Invalid value: \"../..\": must not contain '..'"),
        ("", "Pod", pod(), "/spec/containers", json!([{"name": "c", "image": "x", "imagePullPolicy": "Always", "volumeMounts": [{"name": "e", "mountPath": "/x", "subPath": "/etc"}]}]), "spec.containers[0].volumeMounts.subPath: Invalid value: \"/etc\": must be a relative path"),
        ("", "Pod", pod(), "/spec/containers", json!([{"name": "c", "image": "x", "imagePullPolicy": "Always", "volumeMounts": [{"name": "e", "mountPath": "/x", "subPathExpr": "a/../$(X)"}]}]), "spec.containers[0].volumeMounts.subPathExpr: Invalid value: \"a/../$(X)\": must not contain '..'"),
        ("", "Pod", pod(), "/spec/containers", json!([{"name": "c", "image": "x", "imagePullPolicy": "Always", "volumeMounts": [{"name": "e", "mountPath": "/x", "subPath": "a", "subPathExpr": "b"}]}]), "spec.containers[0].volumeMounts[0].subPathExpr: Invalid value: \"b\": subPathExpr and subPath are mutually exclusive"),
        ("", "Pod", pod(), "/spec/restartPolicy", json!("Sometimes"), "spec.restartPolicy: Unsupported value: \"Sometimes\""),
        ("", "Pod", pod(), "/spec/hostNetwork", json!(true), "spec: Forbidden: pod updates may not change fields"),
        ("", "Pod", pod(), "/spec/containers/0/resources", json!({"limits": {"cpu": "-1"}}), "spec.containers[0].resources.limits[cpu]: Invalid value: \"-1\""),
        ("", "Pod", pod(), "/spec/containers/0/resources", json!({"limits": {"cpu": "1"}, "requests": {"cpu": "1001m"}}), "spec.containers[0].resources.requests: Invalid value: \"1001m\": must be less than or equal to cpu limit of 1"),
        ("", "Pod", pod(), "/spec/nodeName", json!("n"), "spec: Forbidden: pod updates may not change fields"),
        ("", "Pod", pod(), "/spec/containers/1", json!({"name": "b", "image": "x", "imagePullPolicy": "Always"}), "spec.containers: Forbidden: pod updates may not add or remove containers"),
        ("", "Node", json!({"metadata": {"name": "n"}, "spec": {"podCIDR": "10.0.0.0/24"}}), "/spec/taints", json!([{"key": "a", "effect": "Nonsense"}]), "metadata.taints[0].effect: Unsupported value: \"Nonsense\""),
        ("", "Node", json!({"metadata": {"name": "n"}, "spec": {"podCIDR": "10.0.0.0/24"}}), "/spec/podCIDRs", json!(["10.0.1.0/24"]), "spec.podCIDRs: Forbidden"),
        ("", "ConfigMap", json!({"metadata": {"name": "c"}}), "/metadata/finalizers", json!(["foregroundDeletion", "plain"]), "metadata.finalizers[1]: Invalid value: \"plain\": name is neither"),
        ("", "Secret", json!({"metadata": {"name": "s"}, "type": "kubernetes.io/basic-auth", "data": {"username": ""}}), "/data", json!({}), "data[username]: Required value"),
        ("apps", "Deployment", deployment(), "/status", json!({"replicas": 1, "readyReplicas": 2}), "status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas"),
        ("scheduling.k8s.io", "PriorityClass", json!({"metadata": {"name": "p"}, "value": 1}), "/value", json!(2_000_000_000), "value: Forbidden: maximum allowed value"),
        ("discovery.k8s.io", "EndpointSlice", json!({"metadata": {"name": "e"}, "addressType": "IPv4", "endpoints": []}), "/endpoints", json!([{"addresses": ["127.0.0.1"]}]), "endpoints[0].addresses[0]: Invalid value: \"127.0.0.1\": may not be in the loopback range"),
        ("", "Service", service(), "/spec/clusterIP", json!("10.0.0.2"), "spec.clusterIPs[0]: Invalid value: null: may not change once set"),
        ("", "Service", service(), "/spec/ports", json!([]), "spec.ports: Required value"),
        ("", "Service", service(), "/spec/ports/0/port", json!(70000), "spec.ports[0].port: Invalid value: 70000: must be between 1 and 65535, inclusive"),
        ("", "Service", service(), "/spec/type", json!("Magic"), "spec.type: Unsupported value: \"Magic\""),
        ("", "ConfigMap", config(), "/data", json!({"a": "c"}), "data: Forbidden: field is immutable when `immutable` is set"),
        ("", "Secret", json!({"metadata": {"name": "s"}}), "/type", json!("other"), "type: Invalid value: \"other\": field is immutable"),
        ("", "PersistentVolumeClaim", claim(), "/spec/accessModes", json!(["ReadOnlyMany"]), "spec: Forbidden: spec is immutable after creation"),
        ("apps", "Deployment", deployment(), "/spec/selector", json!({"matchLabels": {"x": "y"}}), "spec.selector: Invalid value: {\"matchLabels\":{\"x\":\"y\"}}: field is immutable"),
        ("apps", "Deployment", deployment(), "/spec/template/metadata/labels", json!({"a": "c"}), "spec.template.metadata.labels: Invalid value"),
        ("apps", "Deployment", deployment(), "/spec/replicas", json!(-1), "spec.replicas: Invalid value: -1: must be greater than or equal to 0"),
        ("apps", "StatefulSet", deployment(), "/spec/serviceName", json!("other"), "spec: Forbidden: updates to statefulset spec"),
        ("batch", "CronJob", json!({"metadata": {"name": "c"}, "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}}}}}}), "/spec/schedule", json!("every day"), "spec.schedule: Invalid value: \"every day\""),
        (rbac, "ClusterRoleBinding", binding(), "/roleRef/name", json!("other"), "roleRef: Invalid value"),
        (rbac, "ClusterRoleBinding", binding(), "/subjects", json!([{"kind": "ServiceAccount", "name": "x"}]), "subjects[0].namespace: Required value"),
        (rbac, "ClusterRole", json!({"metadata": {"name": "r"}, "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]}), "/rules", json!([{"apiGroups": [""], "resources": ["pods"]}]), "rules[0].verbs: Required value"),
        ("certificates.k8s.io", "CertificateSigningRequest", json!({"metadata": {"name": "c"}, "spec": {"request": "eA==", "usages": ["client auth"], "signerName": "a.b/c"}}), "/spec/usages", json!(["flying"]), "spec.usages[0]: Unsupported value: \"flying\""),
        ("apiextensions.k8s.io", "CustomResourceDefinition", json!({"metadata": {"name": "foos.x.y"}, "status": {"storedVersions": ["v1"]}, "spec": {"group": "x.y", "scope": "Cluster", "names": {"kind": "Foo", "plural": "foos"}, "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]}}), "/spec/versions/0/schema/openAPIV3Schema", json!({"type": "string"}), "spec.validation.openAPIV3Schema.type: Invalid value: \"string\": must be object at the root"),
    ];
    for (group, kind, good, pointer, value, expected) in table {
        spoiled(group, kind, good, pointer, value, expected);
    }
}

#[test]
fn a_service_stored_without_its_port_of_health_checks_remains_writable() {
    let stored = |health_check: Value| {
        let mut service = json!({"metadata": {"name": "s"}, "spec": {"type": "LoadBalancer", "externalTrafficPolicy": "Local",
            "clusterIP": "10.0.0.1", "ports": [{"port": 80}]}});
        service["spec"]["healthCheckNodePort"] = health_check;
        defaulted("", "Service", service)
    };
    let errors = |service: &Value, old: &Value| texts("", "Service", service, Some(old));
    let without = stored(Value::Null);
    // A write of the status allocates none, and one of the whole object does.
    assert_eq!(errors(&without, &without), Vec::<String>::new());
    assert_eq!(errors(&stored(json!(30_000)), &without), Vec::<String>::new());
    assert_eq!(
        errors(&stored(json!(30_001)), &stored(json!(30_000))),
        ["spec.healthCheckNodePort: Forbidden: field is immutable"]
    );
}

#[test]
fn names_depend_on_the_kind() {
    let table = [
        ("", "Namespace", "a.b", false),
        ("", "Pod", "a.b", true),
        ("", "Pod", "Bad_Name", false),
        ("rbac.authorization.k8s.io", "ClusterRole", "system:node", true),
        ("rbac.authorization.k8s.io", "ClusterRole", "a/b", false),
    ];
    for (group, kind, name, good) in table {
        assert_eq!(
            cluster_builtin::refuse_name(group, kind, name).is_none(),
            good,
            "{kind} {name}"
        );
    }
}

/// Every variant of `value` in which one node is replaced by something of another shape.
fn scrambled(value: &Value, out: &mut Vec<Value>, rebuild: &dyn Fn(Value) -> Value) {
    for junk in [
        json!(null),
        json!(1),
        json!("x"),
        json!([]),
        json!([1, null, "x", [], {}]),
        json!({}),
        json!({"x": 1}),
    ] {
        out.push(rebuild(junk));
    }
    match value {
        Value::Object(map) => {
            for (key, inner) in map {
                let at = |new: Value| {
                    let mut map = map.clone();
                    map.insert(key.clone(), new);
                    rebuild(Value::Object(map))
                };
                scrambled(inner, out, &at);
            }
        }
        Value::Array(items) => {
            for (index, inner) in items.iter().enumerate() {
                let at = |new: Value| {
                    let mut items = items.clone();
                    items[index] = new;
                    rebuild(Value::Array(items))
                };
                scrambled(inner, out, &at);
            }
        }
        _ => {}
    }
}

#[test]
fn no_shape_of_object_makes_defaults_or_rules_panic() {
    let everything = json!({"metadata": {"name": "n", "labels": {"a": "b"}}, "type": "x", "data": {"a": "b"}, "stringData": {"a": "b"},
        "immutable": true, "rules": [{"verbs": ["get"]}], "roleRef": {"kind": "Role"}, "subjects": [{"kind": "User"}],
        "ports": [{"port": 1}], "subsets": [{"ports": [{"port": 1}]}], "webhooks": [{"rules": [{}], "clientConfig": {"service": {}}}],
        "status": {"capacity": {"cpu": "1"}, "phase": "x"},
        "spec": {"selector": {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": pod()["spec"]},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}, "updateStrategy": {"rollingUpdate": {}},
            "volumeClaimTemplates": [{"spec": {}}], "ports": [{"port": 80, "targetPort": "x"}], "sessionAffinity": "ClientIP",
            "jobTemplate": {"spec": {"template": {"spec": {}}}}, "schedule": "* * * * *", "names": {"kind": "K"},
            "versions": [{"name": "v1", "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
            "conversion": {"webhook": {"clientConfig": {"service": {}}}}, "usages": ["any"], "containers": pod()["spec"]["containers"],
            "volumes": pod()["spec"]["volumes"], "rules": [{"http": {"paths": [{"backend": {}}]}}]}});
    let mut objects = Vec::new();
    scrambled(&everything, &mut objects, &|value| value);
    for kind in cluster_builtin::kinds() {
        for object in objects.iter().skip(kind.kind.len() % 4).step_by(4) {
            let mut made = object.clone();
            cluster_builtin::default(&kind.group, &kind.version, &kind.kind, &mut made);
            let _ = cluster_builtin::validate(&kind.group, &kind.version, &kind.kind, &made, Some(object));
        }
    }
}

#[test]
fn quantities_may_be_written_as_numbers_and_nulls_mean_nothing() {
    let schema = cluster_builtin::schema("", "v1", "Pod").expect("Pod");
    let mut object =
        json!({"spec": {"nodeName": null, "containers": [{"resources": {"limits": {"cpu": 2, "memory": "1Gi"}}}]}});
    schema.normalize(&mut object);
    let resources = json!({"limits": {"cpu": "2", "memory": "1Gi"}});
    let expected = json!({"metadata": {}, "spec": {"containers": [{"resources": resources}]}});
    assert_eq!(object, expected);
}
