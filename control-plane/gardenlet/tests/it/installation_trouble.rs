//! Installations in trouble: what the seed refuses is reported, what is lost comes back, and access to the garden works.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use api_meta::conditions::installation as reason;
use base_client::{Call, Injected, Verb};
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use kube::api::{DeleteParams, ListParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use tests_kit::{until, until_gone};

use crate::installing::{Installing, NAME, NAMESPACE, chart, config_map};

fn small_chart() -> String {
    chart(&[("templates/map.yaml", &config_map("  a: b"))])
}

#[tokio::test(start_paused = true)]
async fn a_refusal_of_the_seed_is_reported_until_it_ends() {
    let refuses = Arc::new(AtomicBool::new(true));
    let switch = refuses.clone();
    let world = Installing::start_with(move |call: &Call| {
        let concerns = call.verb == Verb::Patch && call.path.ends_with("/namespaces/extension-ext");
        match concerns && switch.load(Ordering::Relaxed) {
            true => Injected::Answer(403),
            false => Injected::Pass,
        }
    })
    .await;
    world.install(json!({"helm": {"rawChart": small_chart()}})).await;
    world.condition("Installed", reason::INSTALLATION_FAILED).await;
    world.condition("Valid", reason::REGISTRATION_VALID).await;
    let failed = world.reported().await.unwrap().errors.remove(0);
    let object = failed.object.map(|object| object.to_string());
    assert_eq!(object.as_deref(), Some("Namespace extension-ext"));
    assert!(failed.hint.contains("grant the named verb"), "{}", failed.hint);
    refuses.store(false, Ordering::Relaxed);
    world.condition("Installed", reason::INSTALLATION_PENDING).await;
    until(&world.namespaces(), NAMESPACE, "created", |_| true).await;
}

#[tokio::test(start_paused = true)]
async fn the_secret_with_the_objects_is_written_again_when_it_is_lost() {
    let world = Installing::start().await;
    world.install(json!({"helm": {"rawChart": small_chart()}})).await;
    let resource = until(&world.resources(), NAME, "written", |_| true).await;
    let name = &resource.spec.secret_refs[0].name;
    let before = world.secrets().get(name).await.unwrap();
    world.secrets().delete(name, &DeleteParams::default()).await.unwrap();
    world
        .report(("False", "Secret does not exist"), ("True", ""), ("False", ""))
        .await;
    let again = until(&world.secrets(), name, "written again", |secret| {
        secret.metadata.uid != before.metadata.uid
    })
    .await;
    assert_eq!(again.data, before.data);
}

#[tokio::test(start_paused = true)]
async fn the_garden_token_is_filled_restored_and_deleted_with_the_installation() {
    let world = Installing::start_with_garden_access().await;
    world
        .world()
        .create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "seed-south"}}))
        .await;
    world
        .install(json!({"helm": {"rawChart": small_chart()}, "injectGardenKubeconfig": true}))
        .await;
    let secrets: Api<Secret> = Api::namespaced(world.world().seed.admin(), NAMESPACE);
    let accounts: Api<ServiceAccount> = Api::namespaced(world.world().garden.admin(), "seed-south");
    let access = "garden-access-extension";
    let has_token = |secret: &Secret| secret.data.as_ref().is_some_and(|data| data.contains_key("token"));
    let filled = until(&secrets, access, "filled", has_token).await;
    assert!(accounts.get_opt("extension-ext").await.unwrap().is_some());
    secrets.delete(access, &DeleteParams::default()).await.unwrap();
    until(&secrets, access, "filled again", |secret| {
        secret.metadata.uid != filled.metadata.uid && has_token(secret)
    })
    .await;
    let listed = secrets.list(&ListParams::default()).await.unwrap();
    let mut all = listed.items.into_iter();
    let kubeconfig = all
        .find(|secret| secret.name_any().starts_with("generic-garden-kubeconfig-"))
        .unwrap();
    let name = kubeconfig.name_any();
    secrets.delete(&name, &DeleteParams::default()).await.unwrap();
    let again = until(&secrets, &name, "written again", |secret| {
        secret.metadata.uid != kubeconfig.metadata.uid
    });
    assert_eq!(again.await.data, kubeconfig.data);
    world.delete().await;
    until_gone(&world.installations(), NAME).await;
    assert!(accounts.get_opt("extension-ext").await.unwrap().is_none());
    assert!(world.namespaces().get_opt(NAMESPACE).await.unwrap().is_none());
    assert!(secrets.get_opt(access).await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn superseded_objects_go_once_the_new_ones_are_applied() {
    let world = Installing::start().await;
    world.install(json!({"helm": {"rawChart": small_chart()}})).await;
    let before = until(&world.resources(), NAME, "written", |_| true).await;
    let other = chart(&[("templates/map.yaml", &config_map("  a: c"))]);
    world.change_deployment(json!({"helm": {"rawChart": other}})).await;
    until(&world.resources(), NAME, "changed", |resource| {
        resource.spec.secret_refs != before.spec.secret_refs
    })
    .await;
    let old = &before.spec.secret_refs[0].name;
    assert!(
        world.secrets().get_opt(old).await.unwrap().is_some(),
        "it may still be applied"
    );
    world.report(("True", ""), ("True", ""), ("False", "")).await;
    until_gone(&world.secrets(), old).await;
}

#[tokio::test(start_paused = true)]
async fn a_change_that_is_taken_back_leaves_one_secret_with_objects() {
    let world = Installing::start().await;
    world.install(json!({"helm": {"rawChart": small_chart()}})).await;
    let first = until(&world.resources(), NAME, "written", |_| true).await;
    let other = chart(&[("templates/map.yaml", &config_map("  a: c"))]);
    world.change_deployment(json!({"helm": {"rawChart": other}})).await;
    let second = until(&world.resources(), NAME, "changed", |resource| {
        resource.spec.secret_refs != first.spec.secret_refs
    })
    .await;
    // Nothing of the change was applied, so that the Secret from before it is still there.
    world
        .change_deployment(json!({"helm": {"rawChart": small_chart()}}))
        .await;
    until(&world.resources(), NAME, "changed back", |resource| {
        resource.spec.secret_refs == first.spec.secret_refs
    })
    .await;
    world.report(("True", ""), ("True", ""), ("False", "")).await;
    until_gone(&world.secrets(), &second.spec.secret_refs[0].name).await;
    let in_use = &first.spec.secret_refs[0].name;
    assert!(world.secrets().get_opt(in_use).await.unwrap().is_some());
}
