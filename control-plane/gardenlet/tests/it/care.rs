//! How shoots and the seed stand, seen by what is reported and by what does not answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use api_core::v1beta1 as core;
use api_extensions::Network;
use api_meta::{Condition, ConditionStatus};
use base_client::Injected;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;
use tests_kit::until;

use crate::succeeded;
use crate::world::{World, shoot};

fn condition(shoot: &core::Shoot, type_: &str) -> Option<(ConditionStatus, String)> {
    let status = shoot.status.as_ref()?;
    let all: Vec<Condition> = [status.conditions.as_slice(), &status.constraints].concat();
    let found = Condition::find(&all, type_)?;
    Some((found.status.clone(), found.reason.clone()))
}

async fn becomes(world: &World, type_: &str, status: ConditionStatus, reason: &str) {
    let wanted = Some((status, reason.to_owned()));
    let is = |shoot: &core::Shoot| condition(shoot, type_) == wanted;
    until(&world.shoots(), "b", &format!("{type_} {wanted:?}"), is).await;
}

async fn report(world: &World, status: &str) {
    let condition = json!({"type": "SystemComponentsHealthy", "status": status, "reason": "R", "message": "no route",
        "lastTransitionTime": "2026-01-01T00:00:00Z", "lastUpdateTime": "2026-01-01T00:00:00Z"});
    let patch = json!({"status": {"conditions": [condition]}});
    let networks = world.seed::<Network>();
    let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
    networks.patch_status("b", &params, &patch).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_an_extension_reports_is_a_condition_of_the_shoot_once_it_lasts() {
    let world = World::start().await;
    world.create_shoot(&shoot()).await;
    until(&world.shoots(), "b", "ready", succeeded).await;
    let type_ = "SystemComponentsHealthy";
    becomes(&world, type_, ConditionStatus::True, "SystemComponentsRunning").await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    report(&world, "False").await;
    becomes(&world, type_, ConditionStatus::Progressing, "NetworkUnhealthyReport").await;
    becomes(&world, type_, ConditionStatus::False, "NetworkUnhealthyReport").await;
    report(&world, "True").await;
    becomes(&world, type_, ConditionStatus::True, "SystemComponentsRunning").await;
}

#[tokio::test(start_paused = true)]
async fn a_webhook_that_nodes_need_makes_hibernation_impossible_while_it_is_there() {
    let world = World::start().await;
    world.create_shoot(&shoot()).await;
    until(&world.shoots(), "b", "ready", succeeded).await;
    let (type_, healthy) = ("HibernationPossible", "NoProblematicWebhooks");
    becomes(&world, type_, ConditionStatus::True, healthy).await;
    let guard = json!({"metadata": {"name": "guard"}, "webhooks": [{
        "name": "guard.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": "https://guard.example.com/"},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["nodes"], "operations": ["CREATE"]}],
    }]});
    let guard: ValidatingWebhookConfiguration = serde_json::from_value(guard).unwrap();
    let guards: Api<ValidatingWebhookConfiguration> = Api::all(world.shoot.admin());
    guards.create(&PostParams::default(), &guard).await.unwrap();
    becomes(&world, type_, ConditionStatus::False, "ProblematicWebhooks").await;
    let shoot = world.shoots().get("b").await.unwrap();
    assert_eq!(
        condition(&shoot, "MaintenancePreconditionsSatisfied"),
        condition(&shoot, type_)
    );
    guards.delete("guard", &DeleteParams::default()).await.unwrap();
    becomes(&world, type_, ConditionStatus::True, healthy).await;
}

#[tokio::test(start_paused = true)]
async fn a_seed_that_does_not_answer_is_reported_and_its_lease_is_not_renewed() {
    let silent = Arc::new(AtomicBool::new(false));
    let switch = silent.clone();
    let world = World::start_with(move |call| {
        let of_seed = matches!(call.resource.as_str(), "deployments" | "") && switch.load(Ordering::Relaxed);
        if of_seed { Injected::DropBefore } else { Injected::Pass }
    })
    .await;
    let seeds: Api<core::Seed> = Api::all(world.garden.admin());
    let ready = |status: ConditionStatus, reason: &'static str| {
        move |seed: &core::Seed| {
            let conditions = seed.status.as_ref().map_or(&[][..], |status| &status.conditions);
            let found = Condition::find(conditions, "GardenletReady");
            found.is_some_and(|found| (&found.status, found.reason.as_str()) == (&status, reason))
        }
    };
    until(&seeds, "south", "ready", ready(ConditionStatus::True, "GardenletReady")).await;
    silent.store(true, Ordering::Relaxed);
    let unreachable = ready(ConditionStatus::False, "SeedNotReachable");
    until(&seeds, "south", "reported as silent", unreachable).await;
    let leases: Api<Lease> = Api::namespaced(world.garden.admin(), "gardener-system-seed-lease");
    let renewed = || async { leases.get("south").await.unwrap().spec.unwrap().renew_time.unwrap() };
    let last = renewed().await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(renewed().await, last);
    silent.store(false, Ordering::Relaxed);
    until(
        &seeds,
        "south",
        "ready again",
        ready(ConditionStatus::True, "GardenletReady"),
    )
    .await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(renewed().await > last);
}
