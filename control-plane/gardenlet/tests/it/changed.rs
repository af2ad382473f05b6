//! A Shoot that is changed while it is worked on, unseen by gardenlet's cache: what was begun is done to its end, and
//! nothing of the change is mixed into it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use api_core::v1beta1 as core;
use api_extensions as extensions;
use api_meta::{LastOperationState, annotations};
use base_client::{Injected, Verb};
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use tests_kit::until;

use crate::world::{NAMESPACE, World, shoot};
use crate::{errors, succeeded};

/// Longer than a watch lives (kube-runtime: 290 s), shorter than an infrastructure may take (600 s).
const CACHE_IS_BLIND: Duration = Duration::from_secs(400);

/// A landscape in which gardenlet's cache of Shoots gets no news while the flag is set.
async fn with_a_cache_to_blind() -> (World, Arc<AtomicBool>) {
    let blind = Arc::new(AtomicBool::new(false));
    let is_blind = blind.clone();
    let world = World::start_with(move |call| {
        let caching = matches!(call.verb, Verb::Watch | Verb::List) && call.resource == "shoots";
        match caching && is_blind.load(Ordering::Relaxed) {
            true => Injected::Answer(503),
            false => Injected::Pass,
        }
    })
    .await;
    (world, blind)
}

/// Names of the worker pools in a Shoot or a Worker.
fn pools(list: &Value) -> Vec<&str> {
    let all = list.as_array().unwrap();
    all.iter().map(|pool| pool["name"].as_str().unwrap()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_request_during_a_run_is_not_mixed_into_it() {
    let (world, blind) = with_a_cache_to_blind().await;
    world.extensions.silence("Infrastructure");
    world.extensions.silence("Worker");
    world.create_shoot(&shoot()).await;
    let shoots = world.shoots();
    let waits = |shoot: &core::Shoot| {
        let last = shoot.status.as_ref().and_then(|status| status.last_operation.as_ref());
        last.is_some_and(|last| last.description.contains("waiting for Infrastructure"))
    };
    let begun = until(&shoots, "b", "waiting for its infrastructure", waits).await;
    blind.store(true, Ordering::Relaxed);
    tokio::time::sleep(CACHE_IS_BLIND).await;
    let mut workers = shoot()["spec"]["provider"]["workers"].clone();
    let mut second = workers[0].clone();
    second["name"] = json!("pool-b");
    workers.as_array_mut().unwrap().push(second);
    let change = Patch::Merge(json!({"spec": {"provider": {"workers": workers}}}));
    shoots.patch("b", &PatchParams::default(), &change).await.unwrap();
    world.extensions.speak("Infrastructure");

    until(&world.seed::<extensions::Worker>(), "b", "requested", |_| true).await;
    let worker: Value = world.raw::<extensions::Worker>("b").await;
    assert_eq!(pools(&worker["spec"]["pools"]), ["pool-a"]);
    let clusters: Api<extensions::Cluster> = Api::all(world.seed.admin());
    let seen = clusters.get(NAMESPACE).await.unwrap().spec.shoot.value();
    assert_eq!(pools(&seen["spec"]["provider"]["workers"]), ["pool-a"]);
    assert_eq!(seen["metadata"]["generation"], json!(begun.metadata.generation));
    assert_eq!(seen["spec"]["networking"]["nodes"], "10.9.0.0/16");

    world.extensions.speak("Worker");
    let ended = |shoot: &core::Shoot| {
        let last = shoot.status.as_ref().and_then(|status| status.last_operation.as_ref());
        last.is_some_and(|last| last.state != LastOperationState::Processing)
    };
    let done = until(&shoots, "b", "done with what was begun", ended).await;
    assert_eq!(errors(&done), "");
    let observed = done.status.as_ref().and_then(|status| status.observed_generation);
    assert_eq!(observed, begun.metadata.generation);
    assert!(done.metadata.generation > observed, "the change is still to be done");
    let has_tasks = |shoot: &core::Shoot| shoot.annotations().contains_key(annotations::SHOOT_TASKS);
    assert!(has_tasks(&done), "and so is what may have been requested with it");

    blind.store(false, Ordering::Relaxed);
    let done = until(&shoots, "b", "done with the change", succeeded).await;
    assert!(!has_tasks(&done));
    let worker: Value = world.raw::<extensions::Worker>("b").await;
    assert_eq!(pools(&worker["spec"]["pools"]), ["pool-a", "pool-b"]);
}
