//! Hibernation schedules in virtual time: a night of a Shoot in another time zone.

use std::time::Duration;

use api_core::v1beta1::{CloudProfile, Project, ProjectPhase, Shoot};
use k8s_openapi::api::core::v1::Event;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use tests_kit::until;

use crate::Garden;

/// A garden with a Shoot of these schedules.
async fn garden_with(schedules: Value) -> (Garden, Api<Shoot>) {
    let garden = Garden::start().await;
    garden
        .register("prov", json!([{"kind": "ControlPlane", "type": "prov"}]))
        .await;
    garden
        .all::<CloudProfile>(
            json!({"metadata": {"name": "cloud"}, "spec": {"type": "prov", "regions": [{"name": "r"}],
            "kubernetes": {"versions": [{"version": "1.35.0", "classification": "supported"}]},
            "machineTypes": [{"name": "small", "cpu": 1, "gpu": 0, "memory": "1Gi", "architecture": "amd64"}],
            "machineImages": [{"name": "linux", "versions": [
                {"version": "1.0.0", "architectures": ["amd64"], "cri": [{"name": "containerd"}]}]}]}}),
        )
        .await;
    let ready = |project: &Project| {
        project.status.as_ref().and_then(|status| status.phase.clone()) == Some(ProjectPhase::Ready)
    };
    until(&garden.api::<Project>(), "p", "ready", ready).await;
    let shoots: Api<Shoot> = Api::namespaced(garden.client.clone(), "garden-p");
    let shoot = json!({"metadata": {"name": "s", "namespace": "garden-p"}, "spec": {
        "cloudProfile": {"kind": "CloudProfile", "name": "cloud"}, "region": "r", "purpose": "testing",
        "kubernetes": {"version": "1.35.0"}, "provider": {"type": "prov"}, "hibernation": {"schedules": schedules}}});
    let shoot = serde_json::from_value(shoot).unwrap();
    shoots.create(&Default::default(), &shoot).await.unwrap();
    (garden, shoots)
}

/// Lets time pass until this time of the first day, UTC; the garden starts at its midnight.
async fn at(garden: &Garden, time: &str) {
    let time: jiff::Timestamp = format!("2026-01-01T{time}Z").parse().unwrap();
    let left = time.duration_since(garden.embedded.clock.now());
    tokio::time::sleep(Duration::try_from(left).unwrap()).await;
}

async fn enabled(shoots: &Api<Shoot>) -> Option<bool> {
    shoots.get("s").await.unwrap().spec.hibernation.unwrap().enabled
}

async fn wake_by_hand(shoots: &Api<Shoot>) {
    let patch = Patch::Merge(json!({"spec": {"hibernation": {"enabled": false}}}));
    shoots.patch("s", &PatchParams::default(), &patch).await.unwrap();
}

/// The reasons of the events about Shoots.
async fn reasons(garden: &Garden) -> Vec<String> {
    let events: Api<Event> = Api::namespaced(garden.client.clone(), "garden-p");
    let events = events.list(&Default::default()).await.unwrap().items;
    let of_shoot = events
        .into_iter()
        .filter(|event| event.involved_object.kind.as_deref() == Some("Shoot"));
    of_shoot.filter_map(|event| event.reason).collect()
}

#[tokio::test(start_paused = true)]
async fn a_shoot_is_hibernated_and_woken_up_at_the_times_of_its_zone() {
    let nights = json!([{"start": "0 20 * * *", "end": "30 21 * * *", "location": "Asia/Kolkata"}]);
    let (garden, shoots) = garden_with(nights).await;
    at(&garden, "14:29:59").await;
    assert_eq!(enabled(&shoots).await, None, "too early");
    at(&garden, "14:30:01").await;
    assert_eq!(enabled(&shoots).await, Some(true));
    let status = shoots.get("s").await.unwrap().status.unwrap();
    let triggered = status.last_hibernation_trigger_time.unwrap().0;
    assert_eq!(triggered.strftime("%T").to_string(), "14:30:00");
    assert_eq!(reasons(&garden).await, ["Hibernated"]);
    wake_by_hand(&shoots).await;
    at(&garden, "15:59:59").await;
    assert_eq!(
        enabled(&shoots).await,
        Some(false),
        "a person's wish holds until the next event"
    );
    at(&garden, "16:00:01").await;
    assert_eq!(enabled(&shoots).await, Some(false));
    assert!(!reasons(&garden).await.contains(&"WokenUp".to_owned()), "it was awake");
}

#[tokio::test(start_paused = true)]
async fn a_changed_schedule_is_followed_from_then_on() {
    let (garden, shoots) = garden_with(json!([{"start": "0 20 * * *"}])).await;
    at(&garden, "12:00:00").await;
    let patch = Patch::Merge(
        json!({"spec": {"hibernation": {"schedules": [{"start": "30 11 * * *"}, {"end": "0 13 * * *"}]}}}),
    );
    shoots.patch("s", &PatchParams::default(), &patch).await.unwrap();
    let hibernated = |shoot: &Shoot| shoot.spec.hibernation.as_ref().and_then(|h| h.enabled) == Some(true);
    until(&shoots, "s", "hibernated by an event of the last two hours", hibernated).await;
    at(&garden, "13:00:01").await;
    assert_eq!(enabled(&shoots).await, Some(false));
    at(&garden, "20:00:01").await;
    assert_eq!(enabled(&shoots).await, Some(false), "the old schedule is gone");
}
