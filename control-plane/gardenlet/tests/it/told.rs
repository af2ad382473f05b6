//! What the owner of a Shoot is told while nothing is done for it: by its status, and by events.

use api_core::v1beta1 as core;
use api_meta::LastOperationState;
use base_client::delete;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use tests_kit::until;

use crate::world::{World, shoot};
use crate::{errors, state, succeeded};

async fn patch(world: &World, patch: &Value) {
    let patch = Patch::Merge(patch);
    world
        .shoots()
        .patch("b", &PatchParams::default(), &patch)
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_generation_that_fails_before_it_begins_has_been_observed() {
    let world = World::start().await;
    world.create_shoot(&shoot()).await;
    let shoots = world.shoots();
    let before = until(&shoots, "b", "ready", succeeded).await;
    delete(&world.garden_namespace::<Secret>(), "cloud").await.unwrap();
    patch(&world, &json!({"spec": {"purpose": "testing"}})).await;
    let is_failed = |shoot: &core::Shoot| state(shoot).is_some_and(|(state, _)| state == LastOperationState::Failed);
    let failed = until(&shoots, "b", "failed", is_failed).await;
    assert!(
        errors(&failed).starts_with("Read the shoot's surroundings: "),
        "{failed:?}"
    );
    assert!(failed.metadata.generation > before.metadata.generation);
    let status = failed.status.unwrap();
    assert_eq!(status.observed_generation, failed.metadata.generation);
    assert!(status.retry_cycle_start_time.is_some());
}
