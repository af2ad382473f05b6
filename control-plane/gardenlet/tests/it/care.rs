//! How shoots and the seed stand, seen by what is reported and by what does not answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use api_core::v1beta1 as core;
use api_extensions::{ExtensionKind, ExtensionObject, ForKind, Network, Owner};
use api_meta::{Condition, ConditionStatus};
use base_client::{Injected, api_in, delete};
use futures::FutureExt;
use futures::future::BoxFuture;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tests_kit::until;

use crate::status_cases::sample;
use crate::succeeded;
use crate::world::{NAMESPACE, World, shoot};

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

fn reported(status: &str) -> Value {
    json!({"type": "SystemComponentsHealthy", "status": status, "reason": "R", "message": "no route",
        "lastTransitionTime": "2026-01-01T00:00:00Z", "lastUpdateTime": "2026-01-01T00:00:00Z"})
}

async fn report(world: &World, status: &str) {
    let patch = json!({"status": {"conditions": [reported(status)]}});
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

/// A secondary extension that reports on an object of a kind, whichever it is: made, reported on, and gone with it.
struct Failing<'a>(&'a Client);

impl<'a> ForKind for Failing<'a> {
    type Output = BoxFuture<'a, ()>;

    fn call<K: ExtensionObject>(self) -> Self::Output {
        async move {
            let name = if K::ROW.is_namespaced() {
                "sample".to_owned()
            } else {
                format!("{NAMESPACE}--sample")
            };
            let api = api_in::<K>(self.0, NAMESPACE);
            let object = sample(&name, "beside", "shoot");
            api.create(&PostParams::default(), &object).await.unwrap();
            let status = Patch::Merge(json!({"status": {"conditions": [reported("False")]}}));
            let params = PatchParams::default();
            api.patch_status(&name, &params, &status).await.unwrap();
        }
        .boxed()
    }
}

struct Gone<'a>(&'a Client);

impl<'a> ForKind for Gone<'a> {
    type Output = BoxFuture<'a, ()>;

    fn call<K: ExtensionObject>(self) -> Self::Output {
        async move {
            let name = if K::ROW.is_namespaced() {
                "sample".to_owned()
            } else {
                format!("{NAMESPACE}--sample")
            };
            let api = api_in::<K>(self.0, NAMESPACE);
            // The played extension of the kind may hold it.
            let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
            api.patch(&name, &PatchParams::default(), &free).await.unwrap();
            delete(&api, &name).await.unwrap();
        }
        .boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn conditions_on_objects_of_every_kind_reach_their_shoot() {
    let world = World::start().await;
    world.create_shoot(&shoot()).await;
    until(&world.shoots(), "b", "ready", succeeded).await;
    let (type_, seed) = ("SystemComponentsHealthy", world.seed.admin());
    let of_shoots = ExtensionKind::ALL.iter().filter(|kind| kind.owner() == Owner::Shoot);
    for kind in of_shoots.clone() {
        becomes(&world, type_, ConditionStatus::True, "SystemComponentsRunning").await;
        kind.with(Failing(&seed)).await;
        let reason = format!("{kind}UnhealthyReport");
        let is = |shoot: &core::Shoot| condition(shoot, type_).is_some_and(|(_, found)| found == reason);
        until(&world.shoots(), "b", &reason, is).await;
        kind.with(Gone(&seed)).await;
    }
    assert_eq!(of_shoots.count(), ExtensionKind::ALL.len() - 1, "all but BackupBucket");
}

#[tokio::test(start_paused = true)]
async fn a_secondary_without_heartbeat_makes_no_report_outdated() {
    let world = World::start().await;
    let secondary = json!([{"kind": "Network", "type": "orbit", "primary": false}]);
    world
        .create(json!({
            "apiVersion": "core.gardener.cloud/v1beta1", "kind": "ControllerRegistration", "metadata": {"name": "a-watcher"},
            "spec": {"resources": secondary},
        }))
        .await;
    world
        .create(json!({
            "apiVersion": "core.gardener.cloud/v1beta1", "kind": "ControllerInstallation", "metadata": {"name": "a-watcher"},
            "spec": {"registrationRef": {"name": "a-watcher"}, "seedRef": {"name": "south"}},
        }))
        .await;
    let namespace =
        json!({"metadata": {"name": "extension-a-watcher", "labels": {"gardener.cloud/role": "extension"}}});
    let namespaces: Api<Namespace> = Api::all(world.seed.admin());
    let namespace = serde_json::from_value(namespace).unwrap();
    namespaces.create(&PostParams::default(), &namespace).await.unwrap();
    world.create_shoot(&shoot()).await;
    until(&world.shoots(), "b", "ready", succeeded).await;
    becomes(
        &world,
        "SystemComponentsHealthy",
        ConditionStatus::True,
        "SystemComponentsRunning",
    )
    .await;
    report(&world, "True").await;
    tokio::time::sleep(Duration::from_secs(900)).await;
    let shoot = world.shoots().get("b").await.unwrap();
    let healthy = Some((ConditionStatus::True, "SystemComponentsRunning".to_owned()));
    assert_eq!(condition(&shoot, "SystemComponentsHealthy"), healthy);
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
async fn an_unresponsive_seed_is_reported_and_its_lease_is_not_renewed() {
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
