//! What a landscape finds on a state that it did not leave itself: what its user has changed stays, and what was reported
//! before a restart is not taken for news.

use std::path::Path;
use std::time::Duration;

use api_core::v1beta1::{ControllerDeployment, ControllerRegistration, Seed};
use api_meta::{Condition, ConditionStatus};
use base_client::{WaitState, wait_until};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use landscape_local::{Landscape, Settings, State};
use serde_json::{Value, json};

/// Virtual time, longer than any wait inside the product.
const PATIENCE: Duration = Duration::from_secs(3600);
const PROVIDER: &str = "provider-local";

fn settings(folder: &str, number: u64) -> Settings {
    let epoch = "2026-01-01T00:00:00Z".parse().unwrap();
    Settings::simulated(Path::new(folder).to_owned(), epoch, number)
}

fn clients(landscape: &Landscape) -> (Client, Client) {
    let client = |kubeconfig| landscape.connector().client(&kubeconfig).unwrap();
    (
        client(landscape.garden_kubeconfig().unwrap()),
        client(landscape.seed_kubeconfig().unwrap()),
    )
}

/// The gardenlet's last sign of life, and how often the provider's pods were started again.
async fn signs(garden: &Client, seed: &Client) -> (Option<String>, Vec<i32>) {
    let leases: Api<Lease> = Api::namespaced(garden.clone(), "gardener-system-seed-lease");
    let pods: Api<Pod> = Api::all(seed.clone());
    let ours = ListParams::default().labels("app=provider-local");
    let pods = pods.list(&ours).await.unwrap();
    let starts = |pod: &Pod| {
        let statuses = pod.status.as_ref().unwrap().container_statuses.as_ref().unwrap();
        statuses[0].restart_count
    };
    (
        leases.get("local").await.unwrap().resource_version(),
        pods.iter().map(starts).collect(),
    )
}

#[tokio::test(start_paused = true)]
async fn after_a_restart_ready_is_reported_once_those_who_reported_it_are_back() {
    let state = State::memory(&settings("data", 1)).unwrap();
    let first = Landscape::start(&settings("data", 1), &state).await.unwrap();
    first.ready(PATIENCE).await.unwrap();
    let (garden, seed) = clients(&first);
    let (beat, starts) = signs(&garden, &seed).await;
    assert_eq!(starts, [0]);
    first.stop(PATIENCE).await;

    let second = Landscape::start(&settings("data", 2), &state).await.unwrap();
    second.ready(PATIENCE).await.unwrap();
    let (garden, seed) = clients(&second);
    let (again, starts) = signs(&garden, &seed).await;
    assert_eq!(starts, [1]);
    assert_ne!(again, beat, "the gardenlet has given no sign of life since the start");
    second.stop(PATIENCE).await;
}

async fn provider(garden: &Client) -> Value {
    let deployments: Api<ControllerDeployment> = Api::all(garden.clone());
    deployments.get(PROVIDER).await.unwrap().provider_config.value()
}

#[tokio::test(start_paused = true)]
async fn a_restart_keeps_the_users_provider_settings_and_renews_the_rest() {
    let state = State::memory(&settings("data", 1)).unwrap();
    let first = Landscape::start(&settings("data", 1), &state).await.unwrap();
    let (garden, _) = clients(&first);
    assert_eq!(provider(&garden).await["values"]["replicas"], 1);
    let deployments: Api<ControllerDeployment> = Api::all(garden);
    let two = Patch::Merge(json!({"providerConfig": {"values": {"replicas": 2, "note": "mine"}}}));
    deployments
        .patch(PROVIDER, &PatchParams::default(), &two)
        .await
        .unwrap();
    first.stop(PATIENCE).await;

    let second = Landscape::start(&settings("elsewhere", 2), &state).await.unwrap();
    let (garden, _) = clients(&second);
    let expected = json!({
        "args": ["--provider-type=local", "--data-dir=elsewhere/backups"],
        "replicas": 2,
        "note": "mine",
    });
    assert_eq!(provider(&garden).await["values"], expected);
    second.stop(PATIENCE).await;
}

#[tokio::test(start_paused = true)]
async fn a_users_broken_extension_is_reported_and_the_landscape_gets_ready() {
    let state = State::memory(&settings("data", 1)).unwrap();
    let first = Landscape::start(&settings("data", 1), &state).await.unwrap();
    assert_eq!(first.ready(PATIENCE).await.unwrap(), []);
    let (garden, _) = clients(&first);
    let registration = json!({"metadata": {"name": "moon"}, "spec": {
        "deployment": {"policy": "Always"},
        "resources": [{"kind": "Extension", "type": "moon"}],
    }});
    let registration: ControllerRegistration = serde_json::from_value(registration).unwrap();
    let registrations: Api<ControllerRegistration> = Api::all(garden.clone());
    registrations
        .create(&PostParams::default(), &registration)
        .await
        .unwrap();
    let seeds: Api<Seed> = Api::all(garden);
    let is_broken = |seed: Option<&Seed>| {
        let conditions = seed.and_then(|seed| Some(&seed.status.as_ref()?.conditions));
        let known = conditions.and_then(|all| Condition::find(all, "ExtensionsReady"));
        match known.map(|condition| &condition.status) {
            Some(ConditionStatus::False) => WaitState::Done(()),
            _ => WaitState::NotYet("its extensions are ready".to_owned()),
        }
    };
    wait_until(&seeds, "local", PATIENCE, is_broken).await.unwrap();
    first.stop(PATIENCE).await;

    let second = Landscape::start(&settings("data", 2), &state).await.unwrap();
    let begun = tokio::time::Instant::now();
    let broken = second.ready(PATIENCE).await.unwrap();
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    assert_eq!(broken.len(), 1, "{broken:?}");
    assert!(broken[0].installation.starts_with("moon-"), "{broken:?}");
    let why = "ControllerRegistration moon does not say what installs it: name a ControllerDeployment";
    assert!(broken[0].why.starts_with(why), "{broken:?}");
    second.stop(PATIENCE).await;
}
