//! Shoots side by side of which one depends on an extension that is broken, silent or untruthful: the others do not
//! notice, its owner's status reports what is wrong where, and it heals by itself with the extension.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use api_core::v1beta1::Shoot;
use api_extensions::Network;
use api_meta::{ErrorCode, Fault, FaultClass, LastError, LastOperationState};
use futures::StreamExt;
use kube::api::{Patch, PatchParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, ResourceExt};
use landscape_local::{apply_all, documents};
use serde_json::{Value, json};
use tests_scenarios::moon::{Behaviour, MOON, Moon};
use tests_scenarios::{NAMESPACE, SHOOT, World, merge, wait};

use crate::scene::{Scene, until};

/// The Shoot whose network is moon's, and its namespace in the seed.
const ODD: &str = "odd";
const ODD_NAMESPACE: &str = "shoot--local--odd";
/// Shoots that have nothing to do with moon.
const OTHERS: [&str; 2] = ["plum", "pear"];
const TASK: &str = "Waiting until shoot network plugin has been reconciled";

async fn create(world: &World, name: &str, network: &str) {
    let mut shoot = documents(SHOOT).unwrap().remove(0);
    shoot["metadata"]["name"] = json!(name);
    shoot["spec"]["networking"]["type"] = json!(network);
    apply_all(&world.garden, vec![shoot]).await.unwrap();
}

/// The odd Shoot and the others at once, the others up to their success.
async fn side_by_side(world: &World) {
    create(world, ODD, MOON).await;
    for other in OTHERS {
        create(world, other, "local").await;
    }
    for other in OTHERS {
        let shoot = world.succeeded(NAMESPACE, other).await;
        let errors = shoot.status.unwrap().last_errors;
        assert!(errors.is_empty(), "{other}: {errors:?}");
    }
}

/// The one error of the odd Shoot in this state.
async fn reported_error(world: &World, state: LastOperationState) -> LastError {
    let status = until(world, ODD, state).await.status.unwrap();
    let mut errors = status.last_errors;
    assert_eq!(errors.len(), 1, "{errors:?}");
    let error = errors.remove(0);
    assert_eq!(error.task_id.as_deref(), Some(TASK));
    let object = format!("Network {ODD_NAMESPACE}/{ODD}: extension \"{MOON}\" ");
    assert!(error.description.starts_with(&object), "{}", error.description);
    error
}

/// Waits for the odd Shoot's success, without help from outside but its extension's.
async fn healed(world: &World, before: &Shoot) {
    let healed = world.succeeded(NAMESPACE, ODD).await;
    assert_eq!(healed.spec.provider, before.spec.provider);
    let errors = healed.status.unwrap().last_errors;
    assert!(errors.is_empty(), "{errors:?}");
}

/// An extension that fails with `code`. Where trying again cannot help, the Shoot rests until its owner asks.
async fn check_code(code: ErrorCode) {
    let scene = Scene::start().await;
    let moon = Moon::rise(&scene.world, &scene.clock, &[]).await;
    let fails = code.clone();
    moon.behave(Behaviour::Fails(Arc::new(move || {
        Fault::new(FaultClass::Dependency, "the moon is on the other side").code(fails.clone())
    })));
    side_by_side(&scene.world).await;
    let rests = !code.retryable();
    let state = match rests {
        true => LastOperationState::Failed,
        false => LastOperationState::Error,
    };
    let error = reported_error(&scene.world, state).await;
    assert!(
        error.description.contains("reports: ") && error.description.contains("the moon is on the other side"),
        "{}",
        error.description
    );
    assert_eq!(error.codes, std::slice::from_ref(&code));
    moon.behave(Behaviour::Works);
    let shoots = scene.world.shoots(NAMESPACE);
    if rests {
        let retry = json!({"metadata": {"annotations": {"gardener.cloud/operation": "retry"}}});
        merge(&shoots, ODD, &retry).await;
    }
    healed(&scene.world, &shoots.get(ODD).await.unwrap()).await;
}

macro_rules! codes {
    ($($name:ident: $code:ident,)+) => {
        $(
            #[tokio::test(start_paused = true)]
            async fn $name() {
                check_code(ErrorCode::$code).await;
            }
        )+
    };
}

codes! {
    refused_credentials_are_one_shoots_affair: InfraUnauthenticated,
    missing_permissions_are_one_shoots_affair: InfraUnauthorized,
    a_used_up_quota_is_one_shoots_affair: InfraQuotaExceeded,
    a_rate_limit_is_one_shoots_affair: InfraRateLimitsExceeded,
    a_dependency_in_the_cloud_is_one_shoots_affair: InfraDependencies,
    a_passing_dependency_in_the_cloud_is_one_shoots_affair: RetryableInfraDependencies,
    a_lack_of_resources_is_one_shoots_affair: InfraResourcesDepleted,
    a_failed_clean_up_is_one_shoots_affair: CleanupClusterResources,
    a_wrong_configuration_is_one_shoots_affair: ConfigurationProblem,
    a_passing_wrong_configuration_is_one_shoots_affair: RetryableConfigurationProblem,
    a_problematic_webhook_is_one_shoots_affair: ProblematicWebhook,
}

#[tokio::test(start_paused = true)]
async fn an_extension_that_never_ends_holds_one_shoot_only() {
    let scene = Scene::start().await;
    let moon = Moon::rise(&scene.world, &scene.clock, &[]).await;
    moon.behave(Behaviour::Sleeps);
    side_by_side(&scene.world).await;
    let error = reported_error(&scene.world, LastOperationState::Error).await;
    let description = &error.description;
    assert!(
        description.contains("is in state Processing, not yet Succeeded") && description.contains("(waited 180s)"),
        "{description}"
    );
    moon.behave(Behaviour::Works);
    healed(&scene.world, &scene.world.shoots(NAMESPACE).get(ODD).await.unwrap()).await;
}

/// Writes this status onto moon's Network whenever it changes, for as long as the task is not aborted. `status` is given
/// generation and time.
fn lie(scene: &Scene, status: fn(i64, &str) -> Value) -> tokio::task::JoinHandle<()> {
    let networks: Api<Network> = Api::namespaced(scene.world.seed.clone(), ODD_NAMESPACE);
    let clock = scene.clock.clone();
    tokio::spawn(async move {
        let mut changes = std::pin::pin!(watcher(networks.clone(), watcher::Config::default()).applied_objects());
        while let Some(change) = changes.next().await {
            let Ok(network) = change else { continue };
            if network.annotations().contains_key("gardener.cloud/operation") {
                let picked_up = json!({"metadata": {"annotations": {"gardener.cloud/operation": null}}});
                merge(&networks, &network.name_any(), &picked_up).await;
                let reported = status(network.metadata.generation.unwrap(), &clock.now().to_string());
                networks
                    .patch_status(
                        &network.name_any(),
                        &PatchParams::default(),
                        &Patch::Merge(&json!({"status": reported})),
                    )
                    .await
                    .unwrap();
            }
        }
    })
}

/// A lie about the odd Shoot's Network, which its owner reads, until the real extension answers.
async fn check_lie(status: fn(i64, &str) -> Value, words: &str) {
    let scene = Scene::start().await;
    let installed = Moon::rise(&scene.world, &scene.clock, &[]).await;
    installed.set();
    let liar = lie(&scene, status);
    side_by_side(&scene.world).await;
    let error = reported_error(&scene.world, LastOperationState::Error).await;
    assert!(error.description.contains(words), "{}", error.description);
    assert_eq!(error.codes, []);
    liar.abort();
    let _truth = Moon::rise(&scene.world, &scene.clock, &[]).await;
    healed(&scene.world, &scene.world.shoots(NAMESPACE).get(ODD).await.unwrap()).await;
}

#[tokio::test(start_paused = true)]
async fn a_success_of_another_generation_does_not_count() {
    let other = |generation: i64, now: &str| {
        json!({"observedGeneration": generation + 1, "lastOperation":
            {"type": "Create", "state": "Succeeded", "progress": 100, "description": "d", "lastUpdateTime": now}})
    };
    check_lie(other, "reports success of generation 2, not of 1").await;
}

#[tokio::test(start_paused = true)]
async fn an_endless_progress_holds_one_shoot_only() {
    let endless = |generation: i64, now: &str| {
        json!({"observedGeneration": generation, "lastOperation":
            {"type": "Create", "state": "Processing", "progress": 99, "description": "d", "lastUpdateTime": now}})
    };
    check_lie(endless, "is in state Processing, not yet Succeeded").await;
}

#[tokio::test(start_paused = true)]
async fn an_object_with_constant_writes_does_not_block_for_long() {
    let scene = Scene::start().await;
    let _moon = Moon::rise(&scene.world, &scene.clock, &[]).await;
    let networks: Api<Network> = Api::namespaced(scene.world.seed.clone(), ODD_NAMESPACE);
    let quarrel = Arc::new(AtomicBool::new(true));
    let goes_on = quarrel.clone();
    // So often that whoever takes longer between reading and writing writes to an old version.
    tokio::spawn(async move {
        let mut number = 0;
        while goes_on.load(Ordering::Relaxed) {
            number += 1;
            let note = json!({"metadata": {"annotations": {"example.org/number": number.to_string()}}});
            let params = PatchParams::default();
            let _ = networks.patch(ODD, &params, &Patch::Merge(&note)).await;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
    side_by_side(&scene.world).await;
    wait(&scene.world.shoots(NAMESPACE), ODD, |shoot| {
        let last = shoot?.status.as_ref()?.last_operation.as_ref()?;
        matches!(last.state, LastOperationState::Succeeded | LastOperationState::Error).then_some(())
    })
    .await;
    quarrel.store(false, Ordering::Relaxed);
    healed(&scene.world, &scene.world.shoots(NAMESPACE).get(ODD).await.unwrap()).await;
}
