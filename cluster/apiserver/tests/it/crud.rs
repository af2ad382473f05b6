//! Create, read, update, patch, delete of built-in kinds.

use http::Method;
use serde_json::{Value, json};

use crate::server::{CONFIG_MAPS, DEPLOYMENTS, call, config_map, delete, get, merge, post, put, start};

#[tokio::test(start_paused = true)]
async fn object_lives_from_create_to_delete() {
    let server = start().await;
    let client = server.admin();
    let (code, made) = post(&client, CONFIG_MAPS, &config_map("a", &json!({"k": "v"}))).await;
    assert_eq!(code, 201, "{made}");
    assert_eq!(made["metadata"]["namespace"], "default");
    assert_eq!(made["metadata"]["creationTimestamp"], "2026-01-01T00:00:00Z");
    assert!(made["metadata"].get("generation").is_none());
    assert_eq!(made["metadata"]["uid"].as_str().unwrap().len(), 36);
    let path = format!("{CONFIG_MAPS}/a");
    assert_eq!(get(&client, &path).await, (200, made.clone()));

    let (code, again) = post(&client, CONFIG_MAPS, &config_map("a", &json!({}))).await;
    assert_eq!(
        (code, again["message"].as_str()),
        (409, Some(r#"configmaps "a" already exists"#))
    );
    assert_eq!(again["details"], json!({"name": "a", "kind": "configmaps"}));

    let (code, changed) = merge(&client, &path, &json!({"data": {"k": null, "l": "w"}})).await;
    assert_eq!((code, &changed["data"]), (200, &json!({"l": "w"})));
    assert_ne!(
        changed["metadata"]["resourceVersion"],
        made["metadata"]["resourceVersion"]
    );
    let (_, same) = merge(&client, &path, &json!({"data": {"l": "w"}})).await;
    assert_eq!(same, changed, "a patch that changes nothing writes nothing");

    let (code, stale) = put(&client, &path, &made).await;
    assert_eq!(code, 409);
    assert_eq!(
        stale["message"],
        r#"Operation cannot be fulfilled on configmaps "a": the object has been modified; please apply your changes to the latest version and try again"#
    );
    assert_eq!(stale["reason"], "Conflict");

    let (code, gone) = delete(&client, &path).await;
    assert_eq!((code, &gone["status"]), (200, &json!("Success")));
    let (code, missing) = get(&client, &path).await;
    assert_eq!(
        (code, missing["message"].as_str()),
        (404, Some(r#"configmaps "a" not found"#))
    );
}

#[tokio::test(start_paused = true)]
async fn generated_names_differ_and_start_with_their_base() {
    let server = start().await;
    let client = server.admin();
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "job-"}});
    let (_, first) = post(&client, CONFIG_MAPS, &body).await;
    let (_, second) = post(&client, CONFIG_MAPS, &body).await;
    let (first, second) = (
        first["metadata"]["name"].as_str().unwrap(),
        second["metadata"]["name"].as_str().unwrap(),
    );
    assert!(first.starts_with("job-") && first.len() == 9 && first != second);
    let (code, nameless) = post(&client, CONFIG_MAPS, &json!({"apiVersion": "v1", "kind": "ConfigMap"})).await;
    assert_eq!(code, 422);
    assert_eq!(
        nameless["message"],
        r#"ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required"#
    );
}

#[tokio::test(start_paused = true)]
async fn four_kinds_of_patches_change_a_deployment() {
    let server = start().await;
    let client = server.admin();
    let (code, made) = post(&client, DEPLOYMENTS, &deployment()).await;
    assert_eq!(code, 201, "{made}");
    assert_eq!(
        (&made["metadata"]["generation"], &made["spec"]["replicas"]),
        (&json!(1), &json!(1))
    );
    assert_eq!(made["spec"]["template"]["spec"]["restartPolicy"], "Always");
    let path = format!("{DEPLOYMENTS}/web");
    let strategic = json!({"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "s"}]}}}});
    let (code, two) = call(
        &client,
        Method::PATCH,
        &path,
        "application/strategic-merge-patch+json",
        strategic.to_string(),
    )
    .await;
    assert_eq!(
        (
            code,
            two["spec"]["template"]["spec"]["containers"].as_array().unwrap().len()
        ),
        (200, 2),
        "{two}"
    );
    assert_eq!(two["metadata"]["generation"], 2);
    let json_patch = json!([{"op": "replace", "path": "/spec/replicas", "value": 3}]);
    let (code, three) = call(
        &client,
        Method::PATCH,
        &path,
        "application/json-patch+json",
        json_patch.to_string(),
    )
    .await;
    assert_eq!((code, &three["spec"]["replicas"]), (200, &json!(3)));
    let (code, labelled) = merge(&client, &path, &json!({"metadata": {"labels": {"x": "y"}}})).await;
    assert_eq!(
        (code, &labelled["metadata"]["generation"]),
        (200, &json!(3)),
        "labels raise no generation"
    );

    let (code, refused) = call(&client, Method::PATCH, &path, "application/octet-stream", "{}").await;
    assert_eq!((code, &refused["reason"]), (415, &json!("UnsupportedMediaType")));
}

#[tokio::test(start_paused = true)]
async fn applied_fields_are_owned_and_only_force_takes_them_over() {
    let server = start().await;
    let client = server.admin();
    post(&client, DEPLOYMENTS, &deployment()).await;
    let path = format!("{DEPLOYMENTS}/web");
    merge(&client, &path, &json!({"spec": {"replicas": 3}})).await;

    let applied = "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web\nspec:\n  replicas: 5\n";
    let apply = "application/apply-patch+yaml";
    let (code, conflict) = call(
        &client,
        Method::PATCH,
        &format!("{path}?fieldManager=me"),
        apply,
        applied,
    )
    .await;
    assert_eq!(
        (code, &conflict["details"]["causes"][0]["field"]),
        (409, &json!(".spec.replicas")),
        "{conflict}"
    );
    let forced = format!("{path}?fieldManager=me&force=true");
    let (code, taken) = call(&client, Method::PATCH, &forced, apply, applied).await;
    assert_eq!((code, &taken["spec"]["replicas"]), (200, &json!(5)), "{taken}");
    let managers: Vec<&Value> = taken["metadata"]["managedFields"]
        .as_array()
        .unwrap()
        .iter()
        .map(|m| &m["manager"])
        .collect();
    assert!(managers.contains(&&json!("me")), "{managers:?}");
}

fn deployment() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "main", "image": "i"}]},
            },
        },
        "status": {"replicas": 7},
    })
}

#[tokio::test(start_paused = true)]
async fn status_and_spec_are_written_separately() {
    let server = start().await;
    let client = server.admin();
    let (_, made) = post(&client, DEPLOYMENTS, &deployment()).await;
    assert!(
        made["status"].get("replicas").is_none(),
        "status is not taken on create"
    );
    let path = format!("{DEPLOYMENTS}/web");
    let both = json!({"spec": {"replicas": 9}, "status": {"replicas": 4}});
    let (code, status) = merge(&client, &format!("{path}/status"), &both).await;
    assert_eq!(code, 200, "{status}");
    assert_eq!(
        (&status["spec"]["replicas"], &status["status"]["replicas"]),
        (&json!(1), &json!(4))
    );
    assert_eq!(status["metadata"]["generation"], 1);
    let (_, spec) = merge(&client, &path, &both).await;
    assert_eq!(
        (&spec["spec"]["replicas"], &spec["status"]["replicas"]),
        (&json!(9), &json!(4))
    );
    assert_eq!(spec["metadata"]["generation"], 2);
}

#[tokio::test(start_paused = true)]
async fn a_status_of_another_object_of_that_name_is_not_written() {
    let server = start().await;
    let client = server.admin();
    post(&client, DEPLOYMENTS, &deployment()).await;
    let path = format!("{DEPLOYMENTS}/web/status");
    let of_another = json!({"metadata": {"uid": "0b8a6f0c-0000-4000-8000-000000000000"}, "status": {"replicas": 4}});
    let (code, refused) = merge(&client, &path, &of_another).await;
    assert_eq!((code, &refused["reason"]), (422, &json!("Invalid")), "{refused}");
    assert_eq!(refused["details"]["causes"][0]["field"], "metadata.uid");
    let (_, stored) = get(&client, &path).await;
    assert_eq!(stored["status"].get("replicas"), None);
    let of_it = json!({"metadata": {"uid": stored["metadata"]["uid"]}, "status": {"replicas": 4}});
    assert_eq!(merge(&client, &path, &of_it).await.0, 200);
}

#[tokio::test(start_paused = true)]
async fn scale_is_a_view_of_replicas() {
    let server = start().await;
    let client = server.admin();
    post(&client, DEPLOYMENTS, &deployment()).await;
    let path = format!("{DEPLOYMENTS}/web/scale");
    let (code, scale) = get(&client, &path).await;
    assert_eq!(
        (code, &scale["kind"], &scale["status"]["selector"]),
        (200, &json!("Scale"), &json!("app=web"))
    );
    let (code, scaled) = merge(&client, &path, &json!({"spec": {"replicas": 4}})).await;
    assert_eq!((code, &scaled["spec"]["replicas"]), (200, &json!(4)), "{scaled}");
}

#[tokio::test(start_paused = true)]
async fn finalizers_hold_an_object_until_the_last_is_removed() {
    let server = start().await;
    let client = server.admin();
    let mut body = config_map("held", &json!({}));
    body["metadata"]["finalizers"] = json!(["example.org/a"]);
    post(&client, CONFIG_MAPS, &body).await;
    let path = format!("{CONFIG_MAPS}/held");
    let (code, going) = delete(&client, &path).await;
    assert_eq!(
        (code, &going["metadata"]["deletionTimestamp"]),
        (200, &json!("2026-01-01T00:00:00Z"))
    );
    let (code, refused) = merge(
        &client,
        &path,
        &json!({"metadata": {"finalizers": ["example.org/a", "example.org/b"]}}),
    )
    .await;
    assert_eq!(code, 422);
    assert!(refused["message"].as_str().unwrap().contains(
        r#"metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{"example.org/b"}"#
    ));
    let (code, _) = merge(&client, &path, &json!({"metadata": {"finalizers": null}})).await;
    assert_eq!(code, 200);
    assert_eq!(get(&client, &path).await.0, 404);
}

#[tokio::test(start_paused = true)]
async fn propagation_policies_become_finalizers_and_preconditions_hold() {
    let server = start().await;
    let client = server.admin();
    post(&client, CONFIG_MAPS, &config_map("a", &json!({}))).await;
    let path = format!("{CONFIG_MAPS}/a");
    let wrong = json!({"preconditions": {"uid": "other"}}).to_string();
    let (code, refused) = call(&client, Method::DELETE, &path, "application/json", wrong).await;
    assert_eq!((code, &refused["reason"]), (409, &json!("Conflict")));
    let (_, going) = call(
        &client,
        Method::DELETE,
        &format!("{path}?propagationPolicy=Foreground"),
        "application/json",
        "",
    )
    .await;
    assert_eq!(going["metadata"]["finalizers"], json!(["foregroundDeletion"]));
}

#[tokio::test(start_paused = true)]
async fn a_deleted_pod_on_a_node_stays_until_its_node_confirms_it() {
    let server = start().await;
    let client = server.admin();
    let pods = "/api/v1/namespaces/default/pods";
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    let (code, made) = post(&client, pods, &pod).await;
    assert_eq!((code, &made["status"]["phase"]), (201, &json!("Pending")), "{made}");
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}});
    let (code, bound) = post(&client, &format!("{pods}/p/binding"), &binding).await;
    assert_eq!(code, 201, "{bound}");
    assert_eq!(post(&client, &format!("{pods}/p/binding"), &binding).await.0, 409);
    let path = format!("{pods}/p");
    let (_, going) = delete(&client, &path).await;
    assert_eq!(going["metadata"]["deletionTimestamp"], "2026-01-01T00:00:30Z");
    assert_eq!(going["spec"]["nodeName"], "n");
    let (code, _) = merge(&client, &path, &json!({"metadata": {"labels": {"still": "there"}}})).await;
    assert_eq!(code, 200);
    assert_eq!(get(&client, &path).await.0, 200);
    let last = json!({"gracePeriodSeconds": 0}).to_string();
    call(&client, Method::DELETE, &path, "application/json", last).await;
    assert_eq!(get(&client, &path).await.0, 404);
}

#[tokio::test(start_paused = true)]
async fn selectors_limit_lists_and_deletions_of_collections() {
    let server = start().await;
    let client = server.admin();
    for (name, tier) in [("a", "front"), ("b", "back"), ("c", "back")] {
        let mut body = config_map(name, &json!({}));
        body["metadata"]["labels"] = json!({"tier": tier});
        post(&client, CONFIG_MAPS, &body).await;
    }
    let names = |list: &Value| -> Vec<String> {
        list["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| item["metadata"]["name"].as_str().unwrap().to_owned())
            .collect()
    };
    let (_, list) = get(&client, &format!("{CONFIG_MAPS}?labelSelector=tier%20in%20(back)")).await;
    assert_eq!(
        (names(&list), &list["kind"]),
        (vec!["b".to_owned(), "c".to_owned()], &json!("ConfigMapList"))
    );
    assert!(
        list["items"][0].get("kind").is_none(),
        "items of typed lists carry no kind"
    );
    let (_, list) = get(&client, &format!("{CONFIG_MAPS}?fieldSelector=metadata.name%3Da")).await;
    assert_eq!(names(&list), ["a"]);
    let (code, refused) = get(&client, &format!("{CONFIG_MAPS}?fieldSelector=spec.x%3Da")).await;
    assert_eq!(
        (
            code,
            refused["message"]
                .as_str()
                .unwrap()
                .contains("\"spec.x\" is not a known field selector")
        ),
        (400, true)
    );
    let (code, _) = delete(&client, &format!("{CONFIG_MAPS}?labelSelector=tier%3Dback")).await;
    assert_eq!(code, 200);
    assert_eq!(names(&get(&client, CONFIG_MAPS).await.1), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn pages_of_a_list_show_one_version() {
    let server = start().await;
    let client = server.admin();
    for name in ["a", "b", "c", "d", "e"] {
        post(&client, CONFIG_MAPS, &config_map(name, &json!({}))).await;
    }
    let (mut seen, mut token, mut versions) = (Vec::new(), String::new(), Vec::new());
    loop {
        let (_, page) = get(&client, &format!("{CONFIG_MAPS}?limit=2&continue={token}")).await;
        seen.extend(
            page["items"]
                .as_array()
                .unwrap()
                .iter()
                .map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()),
        );
        versions.push(page["metadata"]["resourceVersion"].clone());
        token = page["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
        if token.is_empty() {
            break;
        }
        delete(&client, &format!("{CONFIG_MAPS}/e")).await;
    }
    assert_eq!(
        seen,
        ["a", "b", "c", "d", "e"],
        "later pages show the state of the first"
    );
    assert!(versions.windows(2).all(|pair| pair[0] == pair[1]));
    assert_eq!(get(&client, &format!("{CONFIG_MAPS}?continue=nonsense")).await.0, 400);
}

#[tokio::test(start_paused = true)]
async fn dry_runs_store_nothing_and_unknown_fields_are_refused_when_strict() {
    let server = start().await;
    let client = server.admin();
    let (code, dry) = post(
        &client,
        &format!("{CONFIG_MAPS}?dryRun=All"),
        &config_map("dry", &json!({})),
    )
    .await;
    assert_eq!((code, dry["metadata"].get("resourceVersion")), (201, None));
    assert_eq!(get(&client, &format!("{CONFIG_MAPS}/dry")).await.0, 404);

    let mut body = deployment();
    body["spec"]["foo"] = json!(1);
    let (code, refused) = post(&client, &format!("{DEPLOYMENTS}?fieldValidation=Strict"), &body).await;
    assert_eq!(code, 400);
    assert_eq!(
        refused["message"],
        r#"Deployment in version "v1" cannot be handled as a Deployment: strict decoding error: unknown field "spec.foo""#
    );
    let (code, made) = post(&client, &format!("{DEPLOYMENTS}?fieldValidation=Ignore"), &body).await;
    assert_eq!((code, made["spec"].get("foo")), (201, None));
    let (code, wrong) = merge(
        &client,
        &format!("{DEPLOYMENTS}/web"),
        &json!({"spec": {"replicas": "three"}}),
    )
    .await;
    assert_eq!(
        (code, &wrong["details"]["causes"][0]["field"]),
        (422, &json!("patch")),
        "{wrong}"
    );
}

#[tokio::test(start_paused = true)]
async fn nothing_is_created_in_a_namespace_that_is_missing_or_terminating() {
    let server = start().await;
    let client = server.admin();
    let (code, missing) = post(
        &client,
        "/api/v1/namespaces/nowhere/configmaps",
        &config_map("a", &json!({})),
    )
    .await;
    assert_eq!(
        (code, missing["message"].as_str()),
        (404, Some(r#"namespaces "nowhere" not found"#))
    );
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}});
    let (_, made) = post(&client, "/api/v1/namespaces", &namespace).await;
    assert_eq!(
        (&made["status"]["phase"], &made["spec"]["finalizers"]),
        (&json!("Active"), &json!(["kubernetes"]))
    );
    assert_eq!(made["metadata"]["labels"]["kubernetes.io/metadata.name"], "n");
    let (_, going) = delete(&client, "/api/v1/namespaces/n").await;
    assert_eq!(going["status"]["phase"], "Terminating");
    let (code, refused) = post(&client, "/api/v1/namespaces/n/configmaps", &config_map("a", &json!({}))).await;
    assert_eq!(
        (code, &refused["details"]["causes"][0]["reason"]),
        (403, &json!("NamespaceTerminating"))
    );
    let (_, mut now) = get(&client, "/api/v1/namespaces/n").await;
    now["spec"]["finalizers"] = json!([]);
    let (code, _) = put(&client, "/api/v1/namespaces/n/finalize", &now).await;
    assert_eq!((code, get(&client, "/api/v1/namespaces/n").await.0), (200, 404));
}

#[tokio::test(start_paused = true)]
async fn services_get_unique_addresses() {
    let server = start().await;
    let client = server.admin();
    let services = "/api/v1/namespaces/default/services";
    let service = |name: &str| {
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
            "spec": {"ports": [{"port": 80}], "selector": {"app": name}},
        })
    };
    let (_, kubernetes) = get(&client, &format!("{services}/kubernetes")).await;
    assert_eq!(kubernetes["spec"]["clusterIP"], "10.0.0.1");
    let (code, a) = post(&client, services, &service("a")).await;
    let (_, b) = post(&client, services, &service("b")).await;
    assert_eq!(code, 201, "{a}");
    assert_eq!(
        (&a["spec"]["clusterIP"], &b["spec"]["clusterIP"]),
        (&json!("10.0.0.2"), &json!("10.0.0.3"))
    );
    assert_eq!(a["spec"]["ports"][0]["targetPort"], 80);
    let (code, _) = merge(
        &client,
        &format!("{services}/a"),
        &json!({"spec": {"ports": [{"port": 81}]}}),
    )
    .await;
    assert_eq!(code, 200);
    let mut taken = service("c");
    taken["spec"]["clusterIP"] = json!("10.0.0.3");
    let (code, refused) = post(&client, services, &taken).await;
    assert_eq!(
        (
            code,
            refused["message"]
                .as_str()
                .unwrap()
                .contains("provided IP is already allocated")
        ),
        (422, true)
    );
}

#[tokio::test(start_paused = true)]
async fn an_event_is_one_object_in_both_groups() {
    let server = start().await;
    let client = server.admin();
    let new = json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e"}, "action": "Pull", "type": "Normal",
        "reason": "Pulled", "note": "it is there", "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "node", "reportingInstance": "n", "regarding": {"kind": "Pod", "name": "p", "namespace": "default"},
    });
    let path = "/apis/events.k8s.io/v1/namespaces/default/events";
    let (code, made) = post(&client, path, &new).await;
    assert_eq!((code, &made["note"]), (201, &json!("it is there")), "{made}");
    let (_, old) = get(
        &client,
        "/api/v1/namespaces/default/events?fieldSelector=involvedObject.name%3Dp",
    )
    .await;
    assert_eq!(
        (&old["items"][0]["message"], &old["items"][0]["metadata"]["uid"]),
        (&made["note"], &made["metadata"]["uid"])
    );
    let (_, list) = get(&client, &format!("{path}?fieldSelector=regarding.kind%3DPod")).await;
    assert_eq!(list["items"][0]["regarding"]["name"], "p");
}
