//! Questions to the embedded Kubernetes as callers ask them.

use cluster_dry_run::{Remark, Said, dry_run};
use serde_json::{Value, json};

async fn said(objects: &[Value]) -> Vec<Remark> {
    dry_run(&[], objects, "here").await.unwrap()
}

fn map(metadata: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
}

#[tokio::test]
async fn nothing_is_said_of_what_is_right_or_there_already() {
    let objects = [
        map(json!({"name": "a", "namespace": "new"})),
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "new", "labels": {"a": "b"}}}),
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system"}}),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "r", "namespace": "passed over"}, "rules": []}),
    ];
    assert_eq!(said(&objects).await, []);
}

#[tokio::test]
async fn what_is_unknown_does_not_hide_what_is_wrong() {
    let mut object = map(json!({"name": "A", "namespace": "here"}));
    object["dta"] = json!({});
    let remarks = said(&[object]).await;
    let refused: Vec<_> = remarks.iter().map(|remark| &remark.said).collect();
    let [Said::Refused(unknown), Said::Refused(name)] = refused[..] else {
        panic!("{remarks:?}");
    };
    assert_eq!(unknown, "unknown field \"dta\"");
    assert!(name.starts_with("metadata.name: Invalid value: \"A\""), "{name}");
}

#[tokio::test]
async fn names_that_would_lead_elsewhere_are_refused_and_not_followed() {
    let remarks = said(&[
        map(json!({"name": "a", "namespace": "x/secrets?dryRun=none"})),
        json!({"apiVersion": "v1/../..", "kind": "ConfigMap", "metadata": {"name": "a"}}),
        json!({"kind": 1}),
        json!(null),
    ])
    .await;
    let Some(Remark {
        place: 0,
        said: Said::Refused(why),
    }) = remarks.first()
    else {
        panic!("{remarks:?}");
    };
    assert!(why.starts_with("metadata.namespace: Invalid value"), "{why}");
    let rest: Vec<_> = remarks[1..].iter().map(|remark| (remark.place, &remark.said)).collect();
    assert_eq!(
        rest,
        [
            (1, &Said::UnknownKind),
            (2, &Said::UnknownKind),
            (3, &Said::UnknownKind)
        ]
    );
    let error = dry_run(&[], &[], "No").await.unwrap_err();
    assert!(
        error.to_string().contains("\"No\" is no name of a namespace"),
        "{error}"
    );
}

#[tokio::test]
async fn an_old_version_is_taken_with_a_warning() {
    let remarks = said(&[json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "a"}})]).await;
    let [
        Remark {
            said: Said::NoNamespace,
            ..
        },
        Remark {
            said: Said::Warning(why),
            ..
        },
    ] = &remarks[..]
    else {
        panic!("{remarks:?}");
    };
    assert!(why.contains("deprecated"), "{why}");
}
