//! A machine's clock that is set while a landscape runs, and between two runs: Shoots go on, nothing hangs, and where
//! nothing can go on the message says what the clock has to do with it.

use std::time::Duration;

use api_core::authentication::AdminKubeconfigRequest;
use api_core::v1beta1::Shoot;
use api_meta::LastOperationState;
use base_client::{WaitState, delete_and_wait, wait_until};
use base_clock::Clock;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::config::Kubeconfig;
use kube::{Api, Client};
use landscape_local::{Landscape, Settings, State, apply_all, documents};
use serde_json::json;

/// Virtual time, longer than any wait inside the product.
const PATIENCE: Duration = Duration::from_secs(3600);
const NAMESPACE: &str = "garden-local";
const NAME: &str = "local";
const EXAMPLE: [&str; 4] = [
    include_str!("../../../../examples/10-project.yaml"),
    include_str!("../../../../examples/20-cloudprofile.yaml"),
    include_str!("../../../../examples/30-credentials.yaml"),
    include_str!("../../../../examples/40-shoot.yaml"),
];
const DAY: SignedDuration = SignedDuration::from_hours(24);
const YEAR: SignedDuration = SignedDuration::from_hours(24 * 365);

fn epoch() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

fn settings(clock: Clock, number: u64) -> Settings {
    Settings {
        clock,
        ..Settings::simulated("data".into(), epoch(), number)
    }
}

async fn start(settings: &Settings, state: &State) -> (Landscape, Client) {
    let landscape = Landscape::start(settings, state).await.unwrap();
    landscape.ready(PATIENCE).await.unwrap();
    let garden = landscape.garden_kubeconfig().unwrap();
    let garden = landscape.connector().client(&garden).unwrap();
    (landscape, garden)
}

async fn succeeded(shoots: &Api<Shoot>) {
    let done = wait_until(shoots, NAME, PATIENCE, |shoot| {
        let status = shoot.and_then(|shoot| shoot.status.as_ref());
        let well = shoot.zip(status).is_some_and(|(shoot, status)| {
            let last = status.last_operation.as_ref();
            last.is_some_and(|last| last.state == LastOperationState::Succeeded && last.progress == 100)
                && status.observed_generation == shoot.metadata.generation
        });
        if well {
            WaitState::Done(())
        } else {
            WaitState::NotYet(format!("{:#}", serde_json::to_value(status).unwrap()))
        }
    });
    done.await.unwrap();
}

/// Asks for a reconcile, and for the Shoot's nodes with a kubeconfig that is made now.
async fn goes_on(landscape: &Landscape, shoots: &Api<Shoot>) {
    let patch = json!({"metadata": {"annotations": {"gardener.cloud/operation": "reconcile"}}});
    let patch = Patch::Merge(&patch);
    shoots.patch(NAME, &PatchParams::default(), &patch).await.unwrap();
    succeeded(shoots).await;
    let answer: AdminKubeconfigRequest = shoots
        .create_subresource(
            "adminkubeconfig",
            NAME,
            &PostParams::default(),
            &AdminKubeconfigRequest::default(),
        )
        .await
        .unwrap();
    let text = String::from_utf8(answer.status.unwrap().kubeconfig.0).unwrap();
    let shoot = Kubeconfig::from_yaml(&text).unwrap();
    let nodes: Api<Node> = Api::all(landscape.connector().client(&shoot).unwrap());
    assert_eq!(nodes.list(&ListParams::default()).await.unwrap().items.len(), 1);
}

async fn goes(shoots: &Api<Shoot>) {
    let confirmed = json!({"metadata": {"annotations": {"confirmation.gardener.cloud/deletion": "true"}}});
    let confirmed = Patch::Merge(&confirmed);
    shoots.patch(NAME, &PatchParams::default(), &confirmed).await.unwrap();
    delete_and_wait(shoots, NAME, PATIENCE).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_shoot_goes_on_while_the_clock_is_put_forward_and_back() {
    let (clock, hand) = Clock::settable(epoch());
    let settings = settings(clock, 1);
    let state = State::memory(&settings).unwrap();
    let (landscape, garden) = start(&settings, &state).await;
    for manifest in EXAMPLE {
        apply_all(&garden, documents(manifest).unwrap()).await.unwrap();
    }
    let shoots: Api<Shoot> = Api::namespaced(garden, NAMESPACE);
    succeeded(&shoots).await;
    for jump in [DAY, -DAY, 30 * DAY, DAY / 24] {
        hand.jump(jump);
        goes_on(&landscape, &shoots).await;
    }
    landscape.stop(PATIENCE).await;
}

#[tokio::test(start_paused = true)]
async fn the_clock_jumps_in_the_middle_of_a_creation_and_of_a_deletion() {
    let (clock, hand) = Clock::settable(epoch());
    let settings = settings(clock, 1);
    let state = State::memory(&settings).unwrap();
    let (landscape, garden) = start(&settings, &state).await;
    for manifest in EXAMPLE {
        apply_all(&garden, documents(manifest).unwrap()).await.unwrap();
    }
    let shoots: Api<Shoot> = Api::namespaced(garden, NAMESPACE);
    for (percent, jump) in [(10, DAY), (40, DAY / 24), (80, DAY)] {
        let at = wait_until(&shoots, NAME, PATIENCE, |shoot| {
            let last = shoot.and_then(|shoot| shoot.status.as_ref()?.last_operation.as_ref());
            match last.map(|last| last.progress) {
                Some(progress) if progress >= percent => WaitState::Done(()),
                progress => WaitState::NotYet(format!("{progress:?}")),
            }
        });
        at.await.unwrap();
        hand.jump(jump);
    }
    succeeded(&shoots).await;
    let jumping = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        hand.jump(DAY);
    };
    tokio::join!(goes(&shoots), jumping);
    landscape.stop(PATIENCE).await;
}

#[tokio::test(start_paused = true)]
async fn a_landscape_starts_again_on_another_day_and_in_another_year() {
    let at = |offset: SignedDuration| Clock::simulated(epoch().checked_add(offset).unwrap());
    let first = settings(at(SignedDuration::ZERO), 1);
    let state = State::memory(&first).unwrap();
    let (landscape, garden) = start(&first, &state).await;
    for manifest in EXAMPLE {
        apply_all(&garden, documents(manifest).unwrap()).await.unwrap();
    }
    succeeded(&Api::namespaced(garden, NAMESPACE)).await;
    landscape.stop(PATIENCE).await;
    for (number, later) in [(2, 30 * DAY), (3, DAY), (4, 2 * YEAR)] {
        let (landscape, garden) = start(&settings(at(later), number), &state).await;
        goes_on(&landscape, &Api::namespaced(garden, NAMESPACE)).await;
        landscape.stop(PATIENCE).await;
    }
}

#[tokio::test(start_paused = true)]
async fn start_fails_with_a_clock_at_which_no_key_is_valid() {
    let first = settings(Clock::simulated(epoch()), 1);
    let state = State::memory(&first).unwrap();
    for offset in [-10 * YEAR, 11 * YEAR] {
        let now = epoch().checked_add(offset).unwrap();
        let fault = Landscape::start(&settings(Clock::simulated(now), 2), &state)
            .await
            .err()
            .unwrap();
        let text = fault.to_string();
        assert!(
            text.contains(&format!("the clock shows {now}"))
                && text.contains("valid from 2025-12-31T23:59:00Z to 2035-"),
            "{text}"
        );
        assert!(fault.hint.contains("set the clock"), "{}", fault.hint);
    }
}
