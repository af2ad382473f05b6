//! Dry runs against the embedded Kubernetes as callers do them.

use cluster_dry_run::{Problem, Remark, dry_run};
use serde_json::{Value, json};

async fn remarks_on(objects: &[Value]) -> Vec<Remark> {
    dry_run(&[], objects, "here")
        .await
        .expect("the embedded Kubernetes answers")
}

fn map(metadata: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
}

/// One of things in two versions.
fn definition() -> Value {
    let version = |name: &str, storage: bool| {
        json!({"name": name, "served": true, "storage": storage,
               "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}})
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.org"},
        "spec": {
            "group": "example.org",
            "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing"},
            "versions": [version("v1", true), version("v1alpha1", false)],
        },
    })
}

#[tokio::test]
async fn valid_and_existing_objects_get_no_remark() {
    let objects = [
        map(json!({"name": "a", "namespace": "new"})),
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "new", "labels": {"a": "b"}}}),
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system"}}),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "r", "namespace": "passed over"}, "rules": []}),
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "namespace": "new"},
               "spec": {"clusterIP": "10.243.0.10", "ports": [{"port": 1}]}}),
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "new"},
               "spec": {"priorityClassName": "p", "containers": [{"name": "c", "image": "i"}]}}),
        // Remarks on objects of the embedded server itself are not reported.
        json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "p"}, "value": 1}),
    ];
    assert_eq!(remarks_on(&objects).await, []);
}

#[tokio::test]
async fn unknown_field_does_not_hide_other_errors() {
    let mut object = map(json!({"name": "A", "namespace": "here"}));
    object["dta"] = json!({});
    let remarks = remarks_on(&[object]).await;
    let refused: Vec<_> = remarks.iter().map(|remark| &remark.problem).collect();
    let [Problem::UnknownField(unknown), Problem::Refused(name)] = refused[..] else {
        panic!("{remarks:?}");
    };
    assert_eq!(unknown, "unknown field \"dta\"");
    assert!(name.starts_with("metadata.name: Invalid value: \"A\""), "{name}");
}

#[tokio::test]
async fn names_that_would_change_the_path_are_refused() {
    let remarks = remarks_on(&[
        map(json!({"name": "a", "namespace": "x/secrets?dryRun=none"})),
        json!({"apiVersion": "v1/../..", "kind": "ConfigMap", "metadata": {"name": "a"}}),
        json!({"kind": 1}),
        json!(null),
    ])
    .await;
    let Some(Remark {
        place: 0,
        problem: Problem::Refused(why),
    }) = remarks.first()
    else {
        panic!("{remarks:?}");
    };
    assert!(why.starts_with("metadata.namespace: Invalid value"), "{why}");
    assert_eq!(remarks.len(), 4, "{remarks:?}");
    for remark in &remarks[1..] {
        let Problem::Refused(why) = &remark.problem else {
            panic!("{remark:?}");
        };
        assert!(why.ends_with("is no apiVersion: it is v1 or GROUP/VERSION"), "{why}");
    }
    let error = dry_run(&[], &[], "No").await.unwrap_err();
    assert!(
        error.to_string().contains("\"No\" is no name of a namespace"),
        "{error}"
    );
}

#[tokio::test]
async fn an_old_version_is_accepted_with_a_warning() {
    let remarks = remarks_on(&[json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "a"}})]).await;
    let [
        Remark {
            problem: Problem::NoNamespace,
            ..
        },
        Remark {
            problem: Problem::Warning(why),
            ..
        },
    ] = &remarks[..]
    else {
        panic!("{remarks:?}");
    };
    assert!(why.contains("deprecated"), "{why}");
}

#[tokio::test]
async fn a_removed_version_is_reported_with_the_served_one() {
    let object = |api_version: &str, kind: &str| json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "a", "namespace": "here"}});
    let remarks = remarks_on(&[
        object("policy/v1beta1", "PodDisruptionBudget"),
        object("extensions/v1beta1", "Ingress"),
        object("v1", "List"),
        object("autoscaling/v1", "HorizontalPodAutoscaler"),
        object("autoscaling.k8s.io/v1", "VerticalPodAutoscaler"),
    ])
    .await;
    let refused = |why: &str| Problem::Refused(format!("Kubernetes does not serve {why}"));
    let problems: Vec<_> = remarks.into_iter().map(|remark| remark.problem).collect();
    assert_eq!(
        problems,
        [
            refused("PodDisruptionBudget of policy/v1beta1; it is in policy/v1"),
            refused("Ingress of extensions/v1beta1"),
            refused("List of v1"),
            Problem::UnknownKind,
            Problem::UnknownKind,
        ]
    );
}

#[tokio::test]
async fn cluster_scoped_objects_are_created_although_they_name_a_namespace() {
    let mut definition = definition();
    definition["metadata"]["namespace"] = json!("here");
    let remarks = remarks_on(&[
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "here"},
               "spec": {"priorityClassName": "p", "containers": [{"name": "c", "image": "i"}]}}),
        json!({"apiVersion": "example.org/v1", "kind": "Thing", "metadata": {"name": "t", "namespace": "here"}}),
        definition,
        json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "p", "namespace": "here"}, "value": 1}),
    ])
    .await;
    assert_eq!(remarks, []);
}

#[tokio::test]
async fn definitions_call_no_webhook_and_do_not_replace_known_ones() {
    let definition = |url: &str| {
        let mut definition = definition();
        definition["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": {"url": url}}});
        definition
    };
    // A listener that must get no connection.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("https://{}/convert", listener.local_addr().expect("an address"));
    let old =
        json!({"apiVersion": "example.org/v1alpha1", "kind": "Thing", "metadata": {"name": "a", "namespace": "here"}});
    let objects = [definition(&url), old];
    let remarks = tokio::select! {
        remarks = remarks_on(&objects) => remarks,
        came = listener.accept() => panic!("{came:?} was called"),
    };
    assert_eq!(remarks, []);
    let known = serde_json::from_value(definition(&url)).expect("a definition");
    let remarks = dry_run(&[known], &objects[..1], "here")
        .await
        .expect("the embedded Kubernetes answers");
    let known = Remark {
        place: 0,
        problem: Problem::Known,
    };
    assert_eq!(remarks, [known]);
}

#[tokio::test]
async fn a_definition_with_names_in_use_is_refused() {
    let mut other = definition();
    other["metadata"]["name"] = json!("thingies.example.org");
    other["spec"]["names"]["plural"] = json!("thingies");
    other["spec"]["names"]["singular"] = json!("thingy");
    let remarks = remarks_on(&[definition(), other]).await;
    let [
        Remark {
            place: 1,
            problem: Problem::Refused(why),
        },
    ] = &remarks[..]
    else {
        panic!("{remarks:?}");
    };
    assert_eq!(why, "its kind would never be served: \"ThingList\" is already in use");
}

#[tokio::test]
async fn objects_are_the_same_by_kind_group_name_and_effective_namespace() {
    let role = |namespace: &str| {
        let metadata = json!({"name": "r", "namespace": namespace});
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": metadata, "rules": []})
    };
    let unheard = |version: &str, namespace: &str| json!({"apiVersion": format!("unheard.example/{version}"), "kind": "Unheard", "metadata": {"name": "a", "namespace": namespace}});
    let remarks = remarks_on(&[
        role("one"),
        role("two"),
        map(json!({"name": "a"})),
        map(json!({"name": "a", "namespace": "default"})),
        map(json!({"name": "a", "namespace": "other"})),
        unheard("v1", "one"),
        unheard("v2", "one"),
        unheard("v2", "two"),
        definition(),
        definition(),
    ])
    .await;
    let again = |remark: &Remark| match remark.problem {
        Problem::Again(first) => Some((remark.place, first)),
        _ => None,
    };
    assert_eq!(
        remarks.iter().filter_map(again).collect::<Vec<_>>(),
        [(1, 0), (3, 2), (6, 5), (9, 8)]
    );
}
