//! Deleted objects of a Shoot that belong to the landscape come back, and those of others stay.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::api::{DeleteParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use tests_scenarios::{TECHNICAL_ID, merge, wait};

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
    let recreated = wait(&maps, INFORMATION, |map| {
        let uid = map?.uid();
        (uid != lost.1).then_some(uid)
    })
    .await;
    assert!(back.is_some() && recreated.is_some());
    scene.end().await;
}

/// The list of what a component consists of stands on its Deployment, which webhooks of extensions may change.
#[tokio::test(start_paused = true)]
async fn of_the_objects_listed_for_a_component_only_its_own_are_deleted() {
    const INVENTORY: &str = "hosted.orangery.dev/inventory";
    let scene = Scene::start().await;
    scene.created(|_| {}).await;
    let accounts: Api<ServiceAccount> = Api::namespaced(scene.world.seed.clone(), TECHNICAL_ID);
    let account = |name: &str, component: &str| {
        serde_json::from_value(json!({"metadata": {"name": name, "labels": {
            "app.kubernetes.io/name": component, "app.kubernetes.io/managed-by": "gardenlet",
        }}}))
        .unwrap()
    };
    for (name, component) in [
        ("of-an-older-version", "kube-scheduler"),
        ("of-an-extension", "my-extension"),
    ] {
        let account: ServiceAccount = account(name, component);
        accounts.create(&PostParams::default(), &account).await.unwrap();
    }
    let deployments: Api<Deployment> = Api::namespaced(scene.world.seed.clone(), TECHNICAL_ID);
    let before = deployments.get("kube-scheduler").await.unwrap();
    let listed = before.annotations().get(INVENTORY).cloned().unwrap_or_default();
    let more = format!("ServiceAccount/of-an-older-version,ServiceAccount/of-an-extension,{listed}");
    let more = more.trim_end_matches(',');
    let patch = json!({"metadata": {"annotations": {INVENTORY: more}}});
    merge(&deployments, "kube-scheduler", &patch).await;

    let reconcile = json!({"metadata": {"annotations": {"gardener.cloud/operation": "reconcile"}}});
    scene.change(reconcile).await;
    wait(&accounts, "of-an-older-version", |account| {
        account.is_none().then_some(())
    })
    .await;
    scene.succeeded().await;
    assert!(accounts.get("of-an-extension").await.is_ok());
    scene.end().await;
}
