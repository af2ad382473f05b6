//! What is deleted inside a Shoot that belongs to the landscape comes back.

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::api::{DeleteParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use tests_scenarios::wait;

use crate::scene::Scene;

#[tokio::test(start_paused = true)]
async fn the_owners_access_and_the_shoots_information_come_back_when_they_are_deleted() {
    const BINDING: &str = "gardener.cloud:system:admins";
    const INFORMATION: &str = "shoot-info";
    let scene = Scene::start().await;
    scene.created(|_| {}).await;
    let client = scene.shoot_client().await;
    let bindings: Api<ClusterRoleBinding> = Api::all(client.clone());
    let maps: Api<ConfigMap> = Api::namespaced(client, "kube-system");
    // Who looks must not lose the right to look meanwhile.
    let mine = json!({
        "metadata": {"name": "mine"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "garden-user"}],
    });
    let mine = serde_json::from_value(mine).unwrap();
    bindings.create(&PostParams::default(), &mine).await.unwrap();
    let lost = (
        bindings.get(BINDING).await.unwrap().uid(),
        maps.get(INFORMATION).await.unwrap().uid(),
    );
    maps.delete(INFORMATION, &DeleteParams::default()).await.unwrap();
    bindings.delete(BINDING, &DeleteParams::default()).await.unwrap();
    let back = wait(&bindings, BINDING, |binding| {
        let uid = binding?.uid();
        (uid != lost.0).then_some(uid)
    })
    .await;
    let told = wait(&maps, INFORMATION, |map| {
        let uid = map?.uid();
        (uid != lost.1).then_some(uid)
    })
    .await;
    assert!(back.is_some() && told.is_some());
    scene.end().await;
}
