//! What goes on before the first node of a Shoot has joined.

use api_extensions::{Extension, ExtensionObject};
use api_meta::LastOperationState;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::ListParams;
use serde_json::json;
use tests_scenarios::moon::Moon;
use tests_scenarios::{NAME, NAMESPACE, TECHNICAL_ID, wait};

use crate::scene::Scene;

/// "During shoot creation the extension will start its reconciliation before the first workers have joined the cluster, they
/// will become available at some later point" (seed document on registrations, on AfterWorker).
#[tokio::test(start_paused = true)]
async fn an_extension_after_the_workers_is_reconciled_before_the_first_node_joins() {
    let scene = Scene::start().await;
    let types = [("moon-last", json!({"reconcile": "AfterWorker"}))];
    let moon = Moon::rise(&scene.world, &scene.clock, &types).await;
    scene.world.hold_machines().await;
    scene
        .create(|shoot| shoot["spec"]["extensions"] = json!([{"type": "moon-last"}]))
        .await;
    let extensions: Api<Extension> = Api::namespaced(scene.world.seed.clone(), TECHNICAL_ID);
    wait(&extensions, "moon-last", |extension| {
        let state = extension?.status()?.last_operation?.state.clone();
        (state == LastOperationState::Succeeded).then_some(())
    })
    .await;
    let found = moon.found();
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].available && found[0].answers, "{found:?}");
    // What it is after: the machines are asked for, and none has become a node.
    scene.machines_once(1).await;
    let waits = "Waiting until worker pools have been reconciled";
    scene.journal.until_in(waits).await;
    let nodes: Api<Node> = Api::all(scene.shoot_client().await);
    assert!(nodes.list(&ListParams::default()).await.unwrap().items.is_empty());
    let shoot = scene.world.shoots(NAMESPACE).get(NAME).await.unwrap();
    let last = shoot.status.unwrap().last_operation.unwrap();
    assert_eq!(last.state, LastOperationState::Processing, "{last:?}");

    scene.world.release_machines().await;
    scene.succeeded().await;
    assert_eq!(scene.nodes().await.len(), 1);
    scene.end_with_moon().await;
}
