//! What follows from a deletion: dependents, in the three ways, and the content of namespaces.

use base_client::{Injected, Verb, inject_faults};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret, ServiceAccount};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, DynamicObject, PostParams};
use kube::core::ApiResource;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use tests_kit::{until, until_gone};

use crate::cluster::{Cluster, start, start_over};

async fn map(cluster: &Cluster, name: &str, owners: &[&ConfigMap], finalizers: Value) -> ConfigMap {
    let owner = |owner: &&ConfigMap| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": owner.name_any(), "uid": owner.uid(), "blockOwnerDeletion": true});
    let owners: Vec<Value> = owners.iter().map(owner).collect();
    cluster
        .create(json!({"metadata": {"name": name, "ownerReferences": owners, "finalizers": finalizers}}))
        .await
}

#[tokio::test(start_paused = true)]
async fn dependents_go_when_their_last_owner_has_gone() {
    let cluster = start().await;
    let (a, b) = (
        map(&cluster, "a", &[], json!([])).await,
        map(&cluster, "b", &[], json!([])).await,
    );
    let child = map(&cluster, "child", &[&a, &b], json!([])).await;
    map(&cluster, "grandchild", &[&child], json!([])).await;
    let maps = cluster.api::<ConfigMap>();
    maps.delete("a", &DeleteParams::background()).await.unwrap();
    let child = until(&maps, "child", "owned by b alone", |map| {
        map.owner_references().len() == 1
    })
    .await;
    assert_eq!(child.owner_references()[0].name, "b");
    maps.delete("b", &DeleteParams::background()).await.unwrap();
    until_gone(&maps, "child").await;
    until_gone(&maps, "grandchild").await;
}

#[tokio::test(start_paused = true)]
async fn owner_of_the_same_name_and_another_uid_is_no_owner() {
    let cluster = start().await;
    let mut impostor = map(&cluster, "a", &[], json!([])).await;
    impostor.metadata.uid = Some("another".to_owned());
    map(&cluster, "child", &[&impostor], json!([])).await;
    until_gone(&cluster.api::<ConfigMap>(), "child").await;
    assert!(cluster.api::<ConfigMap>().get_opt("a").await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn foreground_deletion_lets_the_owner_go_last_and_orphaning_frees_its_dependents() {
    let cluster = start().await;
    let maps = cluster.api::<ConfigMap>();
    let a = map(&cluster, "a", &[], json!([])).await;
    map(&cluster, "child", &[&a], json!(["test.dev/hold"])).await;
    maps.delete("a", &DeleteParams::foreground()).await.unwrap();
    until(&maps, "child", "leaving", |map| {
        map.metadata.deletion_timestamp.is_some()
    })
    .await;
    assert!(maps.get("a").await.unwrap().metadata.deletion_timestamp.is_some());
    cluster
        .patch(&maps, "child", json!({"metadata": {"finalizers": null}}))
        .await;
    until_gone(&maps, "child").await;
    until_gone(&maps, "a").await;

    let b = map(&cluster, "b", &[], json!([])).await;
    map(&cluster, "freed", &[&b], json!([])).await;
    maps.delete("b", &DeleteParams::orphan()).await.unwrap();
    until_gone(&maps, "b").await;
    assert_eq!(maps.get("freed").await.unwrap().owner_references().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn dependent_with_an_owner_of_an_unknown_kind_outlives_foreground_deletion() {
    let cluster = start().await;
    let maps = cluster.api::<ConfigMap>();
    let a = map(&cluster, "a", &[], json!([])).await;
    // Neither blocks: `a` goes as soon as its dependents have been looked at.
    let owners = json!([
        {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": a.uid()},
        {"apiVersion": "unknown.dev/v1", "kind": "Thing", "name": "t", "uid": "t"},
    ]);
    for (name, owners) in [("shared", &owners), ("own", &json!([owners[0]]))] {
        let metadata = json!({"name": name, "ownerReferences": owners});
        cluster.create::<ConfigMap>(json!({ "metadata": metadata })).await;
    }
    maps.delete("a", &DeleteParams::foreground()).await.unwrap();
    until_gone(&maps, "a").await;
    until_gone(&maps, "own").await;
    assert_eq!(maps.get("shared").await.unwrap().metadata.deletion_timestamp, None);
}

#[tokio::test(start_paused = true)]
async fn foreground_deletion_ends_once_shared_dependents_have_forgotten_the_owner() {
    let cluster = start().await;
    let maps = cluster.api::<ConfigMap>();
    let a = map(&cluster, "a", &[], json!([])).await;
    let stays = map(&cluster, "stays", &[], json!([])).await;
    let shared = map(&cluster, "shared", &[&a, &stays], json!([])).await;
    let mut owners = shared.metadata.owner_references.unwrap();
    owners[1].kind = "Thing".to_owned();
    owners[1].api_version = "unknown.dev/v1".to_owned();
    let metadata = json!({"name": "of-unknown", "ownerReferences": owners});
    cluster.create::<ConfigMap>(json!({ "metadata": metadata })).await;
    maps.delete("a", &DeleteParams::foreground()).await.unwrap();
    until_gone(&maps, "a").await;
    for name in ["shared", "of-unknown"] {
        let shared = maps.get(name).await.unwrap();
        assert_eq!(shared.owner_references().len(), 1, "{name}");
        assert_eq!(shared.metadata.deletion_timestamp, None, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn dependent_that_cannot_be_settled_does_not_hold_up_the_others() {
    let cluster = start_over(
        |_| {},
        |client| {
            inject_faults(client, |call| match (call.verb, call.name.as_deref()) {
                (Verb::Get, Some("unreadable")) | (Verb::Patch, Some("unchangeable")) => Injected::Answer(503),
                _ => Injected::Pass,
            })
        },
    )
    .await;
    let maps = cluster.api::<ConfigMap>();
    let names: Vec<String> = (0..8).map(|number| format!("other-{number}")).collect();

    let a = map(&cluster, "a", &[], json!([])).await;
    let owner =
        |name: &str, uid: Option<String>| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid});
    // None blocks, so that only `a` deletes them.
    let own = owner("a", a.uid());
    let shared = json!([own, owner("unreadable", Some("u".to_owned()))]);
    cluster
        .create::<ConfigMap>(json!({"metadata": {"name": "shared", "ownerReferences": shared}}))
        .await;
    for name in &names {
        cluster
            .create::<ConfigMap>(json!({"metadata": {"name": name, "ownerReferences": [own]}}))
            .await;
    }
    maps.delete("a", &DeleteParams::foreground()).await.unwrap();
    for name in &names {
        until_gone(&maps, name).await;
    }
    for name in ["a", "shared"] {
        assert!(maps.get_opt(name).await.unwrap().is_some(), "{name} is tried again");
    }

    let b = map(&cluster, "b", &[], json!([])).await;
    map(&cluster, "unchangeable", &[&b], json!([])).await;
    for name in &names {
        map(&cluster, name, &[&b], json!([])).await;
    }
    maps.delete("b", &DeleteParams::orphan()).await.unwrap();
    for name in &names {
        until(&maps, name, "free", |map| map.owner_references().is_empty()).await;
    }
    assert!(maps.get_opt("b").await.unwrap().is_some(), "it is tried again");
}

#[tokio::test(start_paused = true)]
async fn custom_resources_own_and_are_owned_as_soon_as_their_kind_is_there() {
    let cluster = start().await;
    // Long after the controllers have looked at the kinds.
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    let definition = json!({
        "metadata": {"name": "things.test.dev"},
        "spec": {"group": "test.dev", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]},
    });
    let definitions = cluster.all::<CustomResourceDefinition>();
    definitions
        .create(&PostParams::default(), &serde_json::from_value(definition).unwrap())
        .await
        .unwrap();
    until(&definitions, "things.test.dev", "established", |definition| {
        let conditions = definition
            .status
            .clone()
            .and_then(|status| status.conditions)
            .unwrap_or_default();
        conditions
            .iter()
            .any(|condition| condition.type_ == "Established" && condition.status == "True")
    })
    .await;
    let resource = ApiResource {
        group: "test.dev".into(),
        version: "v1".into(),
        api_version: "test.dev/v1".into(),
        kind: "Thing".into(),
        plural: "things".into(),
    };
    let things: Api<DynamicObject> = Api::namespaced_with(cluster.client.clone(), "n", &resource);
    let thing = things
        .create(&PostParams::default(), &DynamicObject::new("t", &resource))
        .await
        .unwrap();
    let owner = json!({"apiVersion": "test.dev/v1", "kind": "Thing", "name": "t", "uid": thing.uid()});
    cluster
        .create::<Secret>(json!({"metadata": {"name": "s", "ownerReferences": [owner]}}))
        .await;
    things.delete("t", &DeleteParams::background()).await.unwrap();
    until_gone(&cluster.api::<Secret>(), "s").await;
}

#[tokio::test(start_paused = true)]
async fn namespace_is_deleted_after_its_objects_and_reports_what_it_waits_for() {
    let cluster = start().await;
    let maps = cluster.api::<ConfigMap>();
    until(&maps, "kube-root-ca.crt", "there", |map| {
        map.data.as_ref().unwrap()["ca.crt"] == "the root"
    })
    .await;
    until(&cluster.api::<ServiceAccount>(), "default", "there", |_| true).await;
    map(&cluster, "held", &[], json!(["test.dev/hold"])).await;
    cluster.create::<Secret>(json!({"metadata": {"name": "s"}})).await;
    let namespaces = cluster.all::<Namespace>();
    namespaces.delete("n", &DeleteParams::default()).await.unwrap();
    let message = "Some resources are remaining: configmaps has 1 resource instances";
    let waiting = until(&namespaces, "n", "waiting", |namespace| {
        let conditions = namespace
            .status
            .clone()
            .and_then(|status| status.conditions)
            .unwrap_or_default();
        conditions
            .iter()
            .any(|condition| condition.message.as_deref() == Some(message))
    });
    assert_eq!(waiting.await.status.unwrap().phase.as_deref(), Some("Terminating"));
    assert!(cluster.api::<Secret>().get_opt("s").await.unwrap().is_none());
    cluster
        .patch(&maps, "held", json!({"metadata": {"finalizers": null}}))
        .await;
    until_gone(&namespaces, "n").await;
}
