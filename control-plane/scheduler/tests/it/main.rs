//! The scheduler against a real API server with the garden's kinds, in virtual time.
#![expect(clippy::unwrap_used, reason = "what a test prepares must succeed")]

use api_core::v1beta1::{CloudProfile, ControllerRegistration, Project, Seed, Shoot};
use api_meta::{OperationReport, SeedMismatch, Unscheduled};
use control_plane_garden_api::{GardenSettings, kinds};
use k8s_openapi::api::core::v1::{Event, Namespace, Secret};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tests_kit::{Embedded, embedded_with, until};
use tokio_util::sync::CancellationToken;

/// The user that the scheduler is.
const SCHEDULER: &str = "gardener.cloud:system:scheduler";

async fn create<K>(client: &Client, object: Value) -> K
where
    K: Resource<DynamicType = ()> + Clone + Serialize + DeserializeOwned + std::fmt::Debug,
{
    let object: K = serde_json::from_value(object).unwrap();
    let url = K::url_path(&(), object.meta().namespace.as_deref());
    let request = http::Request::post(url)
        .header("content-type", "application/json")
        .body(serde_json::to_vec(&object).unwrap());
    client.request(request.unwrap()).await.unwrap()
}

async fn seed(client: &Client, name: &str, region: &str) {
    create::<Seed>(
        client,
        json!({"metadata": {"name": name}, "spec": {"provider": {"type": "prov", "region": region},
        "networks": {"pods": "10.1.0.0/16", "services": "10.2.0.0/16"},
        "dns": {"internal": {"domain": "internal.example", "type": "names",
            "credentialsRef": {"apiVersion": "v1", "kind": "Secret", "name": "n", "namespace": "garden"}}}}}),
    )
    .await;
}

async fn gardenlet_reports(client: &Client, name: &str) {
    let patch = Patch::Merge(json!({"status": {"conditions": [{"type": "GardenletReady", "status": "True"}]}}));
    Api::<Seed>::all(client.clone())
        .patch_status(name, &PatchParams::default(), &patch)
        .await
        .unwrap();
}

/// Two seeds in two regions, and all that a shoot needs to be taken.
async fn landscape(client: &Client) {
    let kinds = [
        ("ControlPlane", "prov"),
        ("Infrastructure", "prov"),
        ("Worker", "prov"),
        ("Network", "net"),
        ("OperatingSystemConfig", "linux"),
    ]
    .map(|(kind, type_)| json!({"kind": kind, "type": type_}));
    create::<ControllerRegistration>(
        client,
        json!({"metadata": {"name": "prov"}, "spec": {"resources": kinds}}),
    )
    .await;
    create::<Namespace>(client, json!({"metadata": {"name": "garden-p"}})).await;
    create::<Project>(
        client,
        json!({"metadata": {"name": "p"}, "spec": {"namespace": "garden-p"}}),
    )
    .await;
    create::<CloudProfile>(
        client,
        json!({"metadata": {"name": "cloud"}, "spec": {"type": "prov",
        "kubernetes": {"versions": [{"version": "1.35.0"}]}, "regions": [{"name": "east"}, {"name": "west"}],
        "machineTypes": [{"name": "small", "cpu": "1", "gpu": "0", "memory": "1Gi"}],
        "machineImages": [{"name": "linux", "versions": [{"version": "1.0.0"}]}]}}),
    )
    .await;
    create::<Secret>(client, json!({"metadata": {"name": "c", "namespace": "garden-p"}})).await;
    create::<api_core::security::CredentialsBinding>(client, json!({"metadata": {"name": "b", "namespace": "garden-p"},
        "provider": {"type": "prov"}, "credentialsRef": {"apiVersion": "v1", "kind": "Secret", "name": "c", "namespace": "garden-p"}}))
        .await;
    seed(client, "east", "east").await;
    seed(client, "west", "west").await;
}

/// How often the scheduler has written the status of Shoots.
fn written(garden: &Embedded) -> usize {
    let records = garden.server.audit().records();
    let of_scheduler = records.iter().filter(|record| record.user == SCHEDULER);
    of_scheduler
        .filter(|record| record.verb == "patch" && record.path.ends_with("/shoots/s/status"))
        .count()
}

/// Changes a seed in a way that calls the scheduler and changes nothing of its reasons, and gives it all the time it needs.
async fn looked_again(client: &Client) {
    let labelled = Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}}));
    Api::<Seed>::all(client.clone())
        .patch("east", &PatchParams::default(), &labelled)
        .await
        .unwrap();
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
}

fn in_another_region_and_not_ready() -> Unscheduled {
    let mismatches = [
        (
            "east",
            SeedMismatch::Region {
                seed: "east".to_owned(),
                shoot: "west".to_owned(),
            },
        ),
        (
            "west",
            SeedMismatch::ConditionMissing {
                condition: "GardenletReady".to_owned(),
            },
        ),
    ];
    let mismatches = mismatches.map(|(seed, reason)| (seed.to_owned(), reason));
    Unscheduled::none_fits(mismatches.into())
}

#[tokio::test(start_paused = true)]
async fn a_shoot_waits_with_reasons_and_is_bound_when_a_seed_fits() {
    let settings = GardenSettings {
        entropy: base_clock::Entropy::seeded(7),
        gateway: None,
        plugins: control_plane_garden_api::AdmissionPlugins::default(),
    };
    let garden = embedded_with("garden", kinds(&settings), |builder| builder).await;
    let client = garden.admin();
    landscape(&client).await;
    gardenlet_reports(&client, "east").await;
    let stop = CancellationToken::new();
    let scheduler = garden.client(SCHEDULER, &[tests_kit::ADMINS]);
    tokio::spawn(control_plane_scheduler::run(
        scheduler,
        garden.clock.clone(),
        stop.clone(),
    ));
    create::<Shoot>(&client, json!({"metadata": {"name": "s", "namespace": "garden-p"}, "spec": {"region": "west",
        "cloudProfile": {"kind": "CloudProfile", "name": "cloud"}, "credentialsBindingName": "b", "kubernetes": {"version": "1.35.0"}, "networking": {"type": "net"},
        "provider": {"type": "prov", "workers": [{"name": "w", "minimum": 1, "maximum": 1, "machine": {"type": "small"}}]}}}))
        .await;
    let shoots: Api<Shoot> = Api::namespaced(client.clone(), "garden-p");
    let is_reported = |shoot: &Shoot| {
        shoot
            .status
            .as_ref()
            .is_some_and(|status| status.last_operation.is_some())
    };
    let waiting = until(&shoots, "s", "reported as waiting", is_reported).await;
    let status = waiting.status.clone().unwrap();
    assert_eq!(
        status.last_operation.as_ref().unwrap().description,
        "Failed to schedule Shoot: 0 of 2 seeds fit: east is in region \"east\", not \"west\"; \
         west does not report condition GardenletReady yet"
    );
    // The reasons as data have come with the same write.
    let annotations = waiting.metadata.annotations.as_ref();
    let report = OperationReport::current(annotations, status.observed_generation, status.last_operation.as_ref());
    assert_eq!(report.unwrap().unscheduled, Some(in_another_region_and_not_ready()));
    assert_eq!(written(&garden), 1);
    looked_again(&client).await;
    assert_eq!(written(&garden), 1, "nothing has changed");

    gardenlet_reports(&client, "west").await;
    let bound = until(&shoots, "s", "bound", |shoot| shoot.spec.seed_name.is_some()).await;
    assert_eq!(bound.spec.seed_name.as_deref(), Some("west"));
    assert!(bound.spec.networking.unwrap().pods.is_some());
    let events: Api<Event> = Api::namespaced(client, "garden-p");
    let reasons = || async {
        let mut reasons: Vec<String> = events
            .list(&Default::default())
            .await
            .unwrap()
            .into_iter()
            .filter_map(|event| event.reason)
            .collect();
        reasons.sort();
        reasons
    };
    // The event follows the binding.
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    assert_eq!(reasons().await, ["SchedulingFailed", "SchedulingSuccessful"]);
    stop.cancel();
}
