//! What others do to applied objects.

use std::time::Duration;

use api_meta::ConditionStatus;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use serde_json::json;
use tests_kit::{until, until_gone};

use crate::{Landscape, map};

/// Long enough for what our own writes call for; virtual.
async fn settle() {
    tokio::time::sleep(Duration::from_secs(60)).await;
}

#[tokio::test(start_paused = true)]
async fn foreign_deletions_and_changes_are_reverted_and_additions_stay() {
    let landscape = Landscape::start().await;
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "admins"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}, "subjects": []});
    landscape.write(&[binding, map("a", "1")]).await;
    landscape.manage(|_| {}).await;
    landscape
        .until("ResourcesApplied", ConditionStatus::True, "ApplySucceeded")
        .await;
    settle().await;
    let bindings: Api<ClusterRoleBinding> = Api::all(landscape.target.admin());
    let lost = bindings.get("admins").await.unwrap().uid();
    bindings.delete("admins", &DeleteParams::default()).await.unwrap();
    until(&bindings, "admins", "there again", |binding: &ClusterRoleBinding| {
        binding.uid() != lost
    })
    .await;

    settle().await;
    let edit = json!({"metadata": {"labels": {"resources.gardener.cloud/managed-by": null}}, "data": {"key": "edited", "other": "theirs"}});
    let params = PatchParams::default();
    landscape.maps().patch("a", &params, &Patch::Merge(edit)).await.unwrap();
    let a = until(&landscape.maps(), "a", "as it was", |map: &ConfigMap| {
        map.data.as_ref().unwrap()["key"] == "1" && map.labels().contains_key("resources.gardener.cloud/managed-by")
    })
    .await;
    assert_eq!(a.data.unwrap()["other"], "theirs");

    // What is ours to do is no drift: nothing follows an addition to the Secret, nor a removal from it.
    settle().await;
    landscape.target.server.audit().clear();
    landscape.write(&[map("a", "2"), map("b", "1")]).await;
    until_gone(&bindings, "admins").await;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    // A turn for the Secret and one after its own status was written, and no third.
    let patches = patches(&landscape);
    let one_turn = ["a", "b"].map(|name| format!("/api/v1/namespaces/default/configmaps/{name}"));
    assert!(
        patches.len() <= 2 * one_turn.len() && patches.chunks(one_turn.len()).all(|turn| turn == one_turn),
        "{patches:?}"
    );
}

/// The objects that were patched in the target since its audit was cleared.
fn patches(landscape: &Landscape) -> Vec<String> {
    let records = landscape.target.server.audit().records();
    let patches = records.iter().filter(|record| record.verb == "patch");
    patches.map(|record| record.path.clone()).collect()
}

#[tokio::test(start_paused = true)]
async fn what_others_note_on_an_object_is_theirs_and_calls_for_nothing() {
    let landscape = Landscape::start().await;
    landscape.write(&[map("a", "1")]).await;
    landscape.manage(|_| {}).await;
    landscape
        .until("ResourcesApplied", ConditionStatus::True, "ApplySucceeded")
        .await;
    settle().await;
    landscape.target.server.audit().clear();
    for note in ["one", "two"] {
        let edit = Patch::Merge(json!({"metadata": {"annotations": {"note": note}}, "data": {"other": note}}));
        (landscape.maps().patch("a", &PatchParams::default(), &edit).await).unwrap();
        settle().await;
    }
    assert_eq!(
        patches(&landscape),
        ["/api/v1/namespaces/default/configmaps/a"; 2],
        "theirs alone"
    );
}

#[tokio::test(start_paused = true)]
async fn a_persistent_foreign_writer_is_overwritten_at_a_limited_rate() {
    let landscape = Landscape::start().await;
    landscape.write(&[map("a", "1")]).await;
    landscape.manage(|_| {}).await;
    landscape
        .until("ResourcesApplied", ConditionStatus::True, "ApplySucceeded")
        .await;
    settle().await;
    let (maps, stop) = (landscape.maps(), landscape.stop.clone());
    tokio::spawn(stop.run_until_cancelled_owned(async move {
        loop {
            until(&maps, "a", "ours", |map: &ConfigMap| {
                map.data.as_ref().unwrap()["key"] == "1"
            })
            .await;
            let edit = Patch::Merge(json!({"data": {"key": "edited"}}));
            maps.patch("a", &PatchParams::default(), &edit).await.unwrap();
        }
    }));
    landscape.target.server.audit().clear();
    tokio::time::sleep(Duration::from_secs(100)).await;
    let records = landscape.target.server.audit().records();
    // Each of theirs and the one that answers it.
    let writes = records.iter().filter(|record| record.verb == "patch").count();
    assert!((14..=24).contains(&writes), "{writes} in 100 s");
}
