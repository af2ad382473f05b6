//! Several of a Shoot's extensions that fail at the same time: none hides the others.

use std::sync::Arc;

use api_meta::{Fault, LastOperationState};
use serde_json::{Value, json};
use tests_scenarios::moon::{Behaviour, Moon};
use tests_scenarios::{NAME, NAMESPACE, wait};

use crate::scene::Scene;

const TYPES: [&str; 2] = ["moon-one", "moon-two"];

#[tokio::test(start_paused = true)]
async fn extensions_that_fail_at_one_point_each_have_their_own_error() {
    let scene = Scene::start().await;
    let moon = Moon::rise(&scene.world, &scene.clock, &TYPES.map(|type_| (type_, json!({})))).await;
    moon.behave(Behaviour::Fails(Arc::new(|| Fault::dependency("no tide"))));
    let all: Vec<Value> = TYPES.iter().map(|type_| json!({"type": type_})).collect();
    scene.create(|shoot| shoot["spec"]["extensions"] = json!(all)).await;

    let errors = wait(&scene.world.shoots(NAMESPACE), NAME, |shoot| {
        let status = shoot?.status.clone()?;
        (status.last_operation?.state == LastOperationState::Error).then_some(status.last_errors)
    })
    .await;
    let mut described: Vec<&str> = errors.iter().map(|error| error.description.as_str()).collect();
    described.sort_unstable();
    assert_eq!(described.len(), TYPES.len(), "{described:?}");
    for (described, type_) in described.iter().zip(TYPES) {
        assert!(
            described.contains(type_) && described.contains("no tide"),
            "{described}"
        );
    }

    moon.behave(Behaviour::Works);
    scene.succeeded().await;
    scene.end_with_moon().await;
}
