//! Who may write the status of extension objects: the policy itself, and how its parameters follow what is registered and
//! installed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use api_core::v1beta1 as core;
use base_client::{Call, Injected, Verb};
use k8s_openapi::api::admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use tests_kit::{ADMINS, embedded, until};

use crate::installing::{Installing, NAME, chart, config_map};
use crate::status_cases::{Ground, run_all};
use crate::world::{GARDENLET, World};

const WRITERS: &str = "extension-status-writers";
const POLICY: &str = "extension-status.orangery.dev";

#[tokio::test(start_paused = true)]
async fn secondary_extensions_write_conditions_alone() {
    let server = embedded().await;
    let users = server.clone();
    let ground = Ground {
        admin: server.admin(),
        gardenlet: server.client(GARDENLET, &[ADMINS]),
        user: Box::new(move |user| users.client(user, &[ADMINS])),
    };
    run_all(&ground).await;
}

fn writers(world: &World) -> Api<ConfigMap> {
    Api::namespaced(world.seed.admin(), "garden")
}

/// Waits until this is what the parameters say of a key.
async fn becomes(world: &World, key: &str, value: Option<&str>) -> BTreeMap<String, String> {
    let what = format!("{key} is {value:?}");
    let maps = writers(world);
    let found = until(&maps, WRITERS, &what, |map| {
        let data = map.data.as_ref();
        data.and_then(|data| data.get(key)).map(String::as_str) == value
    });
    found.await.data.unwrap_or_default()
}

async fn merge<K>(api: &Api<K>, name: &str, patch: Value)
where
    K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let params = PatchParams::default();
    api.patch(name, &params, &Patch::Merge(patch)).await.unwrap();
}

/// What an operator of Scenario 2 reports.
async fn report(world: &World, installation: &str, namespace: &str) {
    let api: Api<core::ControllerInstallation> = Api::all(world.garden.admin());
    let status = Patch::Merge(json!({"status": {"providerStatus": {"namespace": namespace}}}));
    let params = PatchParams::default();
    api.patch_status(installation, &params, &status).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn parameters_follow_the_namespaces_that_operators_report_and_a_change_of_primary() {
    let world = World::start().await;
    world.register("tide", &[("Network", "Tide"), ("Worker", "tide")]).await;
    world.install("tide").await;
    report(&world, "tide", "tide-system").await;
    let data = becomes(&world, "Network.tide", Some("tide-system")).await;
    assert_eq!(data["Worker.tide"], "tide-system");
    assert_eq!(data["gardenlet"], GARDENLET);
    assert!(
        !data.keys().any(|key| key.ends_with(".moon")),
        "no operator has reported: {data:?}"
    );

    // Another registration takes the Network over.
    let registrations: Api<core::ControllerRegistration> = Api::all(world.garden.admin());
    let worker = json!([{"kind": "Worker", "type": "tide", "primary": true}]);
    merge(&registrations, "tide", json!({"spec": {"resources": worker}})).await;
    world.register("ebb", &[("Network", "tide")]).await;
    world.install("ebb").await;
    report(&world, "ebb", "ebb-system").await;
    let data = becomes(&world, "Network.tide", Some("ebb-system")).await;
    assert_eq!(data["Worker.tide"], "tide-system");

    let installations: Api<core::ControllerInstallation> = Api::all(world.garden.admin());
    installations.delete("ebb", &DeleteParams::default()).await.unwrap();
    becomes(&world, "Network.tide", None).await;
}

#[tokio::test(start_paused = true)]
async fn changed_policy_and_parameters_are_restored() {
    let world = World::start().await;
    let policies: Api<ValidatingAdmissionPolicy> = Api::all(world.seed.admin());
    let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(world.seed.admin());
    let policy = until(&policies, POLICY, "there", |_| true).await;
    let binding = until(&bindings, POLICY, "there", |_| true).await;
    bindings.delete(POLICY, &DeleteParams::default()).await.unwrap();
    until(&bindings, POLICY, "there again", |found| found.uid() != binding.uid()).await;
    merge(&policies, POLICY, json!({"spec": {"failurePolicy": "Ignore"}})).await;
    until(&policies, POLICY, "as before", |found| {
        found.metadata.generation > policy.metadata.generation && found.spec == policy.spec
    })
    .await;
    merge(
        &writers(&world),
        WRITERS,
        json!({"data": {"Worker.moon": "mine", "gardenlet": "me"}}),
    )
    .await;
    let data = becomes(&world, "Worker.moon", None).await;
    assert_eq!(data["gardenlet"], GARDENLET);
    writers(&world).delete(WRITERS, &DeleteParams::default()).await.unwrap();
    becomes(&world, "gardenlet", Some(GARDENLET)).await;
}

#[tokio::test(start_paused = true)]
async fn a_chart_is_applied_only_after_its_namespace_may_write() {
    let broken = Arc::new(AtomicBool::new(false));
    let switch = broken.clone();
    let faults = move |call: &Call| {
        let of_writers = call.name.as_deref() == Some(WRITERS) && call.verb == Verb::Patch;
        if of_writers && switch.load(Ordering::Relaxed) {
            Injected::DropBefore
        } else {
            Injected::Pass
        }
    };
    let installing = Installing::start_with(faults).await;
    let world = installing.world();
    becomes(world, "gardenlet", Some(GARDENLET)).await;
    broken.store(true, Ordering::Relaxed);
    let chart = chart(&[("templates/map.yaml", &config_map("  a: b"))]);
    installing.install(json!({"helm": {"rawChart": chart}})).await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert!(installing.resources().get_opt(NAME).await.unwrap().is_none());
    broken.store(false, Ordering::Relaxed);
    until(&installing.resources(), NAME, "applied", |_| true).await;
    let present = writers(world).get(WRITERS).await.unwrap();
    assert_eq!(present.data.unwrap()["Extension.ext"], "extension-ext");
}
