//! How long gardenlet waits for Extensions: exactly as long as their registration sets.

use std::time::Duration;

use api_core::v1beta1 as core;
use api_extensions as extensions;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{from_value, json};
use tests_kit::{until, until_gone};
use tokio::time::Instant;

use crate::world::{self, World};
use crate::{errors, succeeded};

/// A world whose Extension may take this long, and reports nothing for now.
async fn with_reconcile_timeout(timeout: &str) -> World {
    let world = World::start().await;
    let api: Api<core::ControllerRegistration> = Api::all(world.garden.admin());
    let registration = api.get("moon").await.unwrap();
    let resources = &registration.spec.resources;
    let index = resources
        .iter()
        .position(|resource| resource.kind == "Extension")
        .unwrap();
    let change = json!([{"op": "add", "path": format!("/spec/resources/{index}/reconcileTimeout"), "value": timeout}]);
    let change = Patch::Json::<()>(from_value(change).unwrap());
    api.patch("moon", &PatchParams::default(), &change).await.unwrap();
    world.extensions.silence("Extension");
    world.create_shoot(&world::shoot()).await;
    world
}

/// Waits until gardenlet has written a request onto the Extension.
async fn requested(world: &World) -> Instant {
    until(&world.seed::<extensions::Extension>(), "crew", "requested", |_| true).await;
    Instant::now()
}

fn seconds(range: std::ops::Range<u64>, since: Instant) {
    let elapsed = since.elapsed().as_secs();
    assert!(range.contains(&elapsed), "{elapsed} s");
}

#[tokio::test(start_paused = true)]
async fn an_extension_that_exceeds_its_reconcile_timeout_is_reported_then() {
    let world = with_reconcile_timeout("30s").await;
    let begun = requested(&world).await;
    let failed = |shoot: &core::Shoot| errors(shoot).contains("(waited 30s)");
    let shoot = until(&world.shoots(), "b", "failed", failed).await;
    seconds(29..33, begun);
    assert!(
        errors(&shoot).contains("Extension shoot--a--b/crew"),
        "{}",
        errors(&shoot)
    );
}

#[tokio::test(start_paused = true)]
async fn an_extension_within_a_reconcile_timeout_of_minutes_succeeds() {
    let world = with_reconcile_timeout("5m").await;
    let begun = requested(&world).await;
    tokio::time::sleep(Duration::from_secs(200)).await;
    world.extensions.speak("Extension");
    let shoot = until(&world.shoots(), "b", "ready", succeeded).await;
    seconds(200..230, begun);
    assert_eq!(errors(&shoot), "");

    // The time holds for its deletion as well.
    world.extensions.silence("Extension");
    world.shoots().delete("b", &DeleteParams::default()).await.unwrap();
    let going = |extension: &extensions::Extension| extension.metadata.deletion_timestamp.is_some();
    until(&world.seed::<extensions::Extension>(), "crew", "going", going).await;
    tokio::time::sleep(Duration::from_secs(200)).await;
    let shoot = world.shoots().get("b").await.unwrap();
    assert_eq!(errors(&shoot), "");
    world.extensions.speak("Extension");
    until_gone(&world.shoots(), "b").await;
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_exceeds_the_reconcile_timeout_is_reported_then() {
    let world = with_reconcile_timeout("30s").await;
    world.extensions.speak("Extension");
    until(&world.shoots(), "b", "ready", succeeded).await;
    world.extensions.silence("Extension");
    world.shoots().delete("b", &DeleteParams::default()).await.unwrap();
    let going = |extension: &extensions::Extension| extension.metadata.deletion_timestamp.is_some();
    until(&world.seed::<extensions::Extension>(), "crew", "going", going).await;
    let begun = Instant::now();
    let failed = |shoot: &core::Shoot| errors(shoot).contains("(waited 30s)");
    until(&world.shoots(), "b", "failed", failed).await;
    seconds(29..33, begun);
}
