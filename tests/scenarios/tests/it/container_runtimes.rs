//! Container runtimes of worker pools: their objects come, change and go with the pools that ask for them, and whoever
//! keeps one from becoming ready is named.

use api_core::v1beta1::{CloudProfile, ControllerRegistration};
use api_extensions::{ContainerRuntime, OperatingSystemConfig, Worker};
use api_meta::LastOperationState;
use control_plane_diagnosis::observe::{Access, observe};
use control_plane_diagnosis::plan::{Answer, Blocker, Cause, plan};
use k8s_openapi::api::core::v1::Node;
use kube::api::{DeleteParams, ListParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use tests_scenarios::moon::{Behaviour, CRATER, MOON, Moon};
use tests_scenarios::{NAME, NAMESPACE, TECHNICAL_ID, merge, wait};

use crate::scene::{Scene, pool, until};

/// The label of nodes that have the runtime (Gardener's documentation, docs/extensions/resources/containerruntime.md).
const LABEL: &str = "containerruntime.worker.gardener.cloud/crater";
const OBJECT: &str = "crater-pool-b";

/// A landscape with moon, whose runtime the example's machine images offer.
async fn scene_with_moon() -> (Scene, Moon) {
    let scene = Scene::start().await;
    let moon = Moon::rise(&scene.world, &scene.clock, &[]).await;
    offer(&scene, &[CRATER]).await;
    (scene, moon)
}

/// Lets the example's machine images offer runtimes of these types.
async fn offer(scene: &Scene, types: &[&str]) {
    let profiles: Api<CloudProfile> = Api::all(scene.world.garden.clone());
    let profile = serde_json::to_value(profiles.get("local").await.unwrap()).unwrap();
    let mut images = profile["spec"]["machineImages"].clone();
    let types: Vec<Value> = types.iter().map(|type_| json!({"type": type_})).collect();
    for version in images[0]["versions"].as_array_mut().unwrap() {
        version["cri"] = json!([{"name": "containerd", "containerRuntimes": types}]);
    }
    merge(&profiles, "local", &json!({"spec": {"machineImages": images}})).await;
}

/// A pool of one machine that asks for the runtime with this configuration.
fn pool_with_runtime(name: &str, config: &Value) -> Value {
    let mut pool = pool(name, 1);
    pool["cri"] = json!({"name": "containerd", "containerRuntimes": [{"type": CRATER, "providerConfig": config}]});
    pool
}

fn runtimes(scene: &Scene) -> Api<ContainerRuntime> {
    Api::namespaced(scene.world.seed.clone(), TECHNICAL_ID)
}

async fn names(scene: &Scene) -> Vec<String> {
    let all = runtimes(scene).list(&ListParams::default()).await.unwrap();
    all.iter().map(ResourceExt::name_any).collect()
}

/// The nodes' pools, with the value of the runtime's label.
async fn labels(scene: &Scene) -> Vec<(String, Option<String>)> {
    let nodes: Api<Node> = Api::all(scene.shoot_client().await);
    let nodes = nodes.list(&ListParams::default()).await.unwrap();
    let of = |node: &Node| {
        let labels = node.labels();
        (labels["worker.gardener.cloud/pool"].clone(), labels.get(LABEL).cloned())
    };
    let mut labels: Vec<_> = nodes.iter().map(of).collect();
    labels.sort();
    labels
}

async fn why(scene: &Scene) -> Answer {
    let access = Access {
        garden: scene.world.garden.clone(),
        seeds: Box::new({
            let seed = scene.world.seed.clone();
            move |_| Ok(seed.clone())
        }),
    };
    plan(&observe(&access, NAMESPACE, NAME, scene.clock.now()).await.unwrap())
}

/// Where the objects stand of whom the runtime's extension needs to know (contract of Gardener v1.150).
async fn assert_content(scene: &Scene, config: &Value) {
    assert_eq!(names(scene).await, [OBJECT]);
    let object = runtimes(scene).get(OBJECT).await.unwrap();
    assert_eq!(
        serde_json::to_value(&object.spec).unwrap(),
        json!({
            "type": CRATER,
            "providerConfig": config,
            "binaryPath": "/var/bin/containerruntimes",
            "workerPool": {"name": "pool-b", "selector": {"matchLabels": {
                "worker.gardener.cloud/pool": "pool-b",
                "worker.garden.sapcloud.io/group": "pool-b",
            }}},
        })
    );
}

/// Whether a blocker names an object as `Kind namespace/name`.
fn is_about(blocker: &Blocker, object: &str) -> bool {
    blocker.objects.iter().any(|one| one.object.to_string() == object)
}

#[tokio::test(start_paused = true)]
async fn a_runtime_of_one_pool_comes_changes_and_goes_with_the_pools_wish() {
    let (scene, moon) = scene_with_moon().await;
    let config = json!({"sandbox": "glass"});
    let pools = |with: Value| json!([pool("pool-a", 1), with]);
    scene
        .created(|shoot| shoot["spec"]["provider"]["workers"] = pools(pool_with_runtime("pool-b", &config)))
        .await;
    assert_content(&scene, &config).await;
    let yes = Some("true".to_owned());
    assert_eq!(
        labels(&scene).await,
        [("pool-a".to_owned(), None), ("pool-b".to_owned(), yes)]
    );
    let shoot = scene.world.shoots(NAMESPACE).get(NAME).await.unwrap();
    assert_eq!(
        shoot.labels()["containerruntime.extensions.gardener.cloud/crater"],
        "true"
    );
    let machines = scene.machines().await;

    // Another configuration reaches the extension and no machine.
    let config = json!({"sandbox": "steel"});
    let before = moon.requests().len();
    scene
        .with_pools(pools(pool_with_runtime("pool-b", &config)).as_array().unwrap())
        .await;
    assert_content(&scene, &config).await;
    let reconciled = ("reconcile", TECHNICAL_ID.to_owned(), CRATER.to_owned());
    assert!(moon.requests()[before..].contains(&reconciled), "{:?}", moon.requests());
    assert_eq!(scene.machines().await, machines);

    // The runtime goes, the pool stays.
    scene.with_pools(pools(pool("pool-b", 1)).as_array().unwrap()).await;
    assert_eq!(names(&scene).await, [""; 0]);
    let deleted = ("delete", TECHNICAL_ID.to_owned(), CRATER.to_owned());
    assert_eq!(moon.requests().iter().filter(|request| **request == deleted).count(), 1);
    let shoot = scene.world.shoots(NAMESPACE).get(NAME).await.unwrap();
    assert!(
        !shoot
            .labels()
            .contains_key("containerruntime.extensions.gardener.cloud/crater")
    );

    // The runtime goes with its pool.
    scene
        .with_pools(pools(pool_with_runtime("pool-b", &config)).as_array().unwrap())
        .await;
    assert_content(&scene, &config).await;
    scene.with_pools(&[pool("pool-a", 1)]).await;
    assert_eq!(names(&scene).await, [""; 0]);
    assert_eq!(moon.requests().iter().filter(|request| **request == deleted).count(), 2);
    scene.end_with_moon().await;
}

#[tokio::test(start_paused = true)]
async fn a_shoot_with_a_runtime_hibernates_wakes_and_is_deleted_without_a_trace() {
    let (scene, moon) = scene_with_moon().await;
    let config = json!({"sandbox": "glass"});
    scene
        .created(|shoot| shoot["spec"]["provider"]["workers"] = json!([pool_with_runtime("pool-b", &config)]))
        .await;
    for enabled in [true, false] {
        // Extensions report in whole seconds: an answer of the same second would pass for that to this wish.
        tokio::time::sleep(std::time::Duration::from_secs(60)).await;
        scene
            .change(json!({"spec": {"hibernation": {"enabled": enabled}}}))
            .await;
        scene.succeeded().await;
        assert_content(&scene, &config).await;
    }
    scene.end_with_moon().await;
    let last = moon.requests().pop();
    assert_eq!(last, Some(("delete", TECHNICAL_ID.to_owned(), CRATER.to_owned())));
}

#[tokio::test(start_paused = true)]
async fn a_silent_runtime_extension_is_named_by_the_shoot_and_by_why() {
    let (scene, moon) = scene_with_moon().await;
    moon.behave(Behaviour::Sleeps);
    scene
        .create(|shoot| shoot["spec"]["provider"]["workers"] = json!([pool_with_runtime("pool-b", &json!({}))]))
        .await;
    let task = "Waiting until container runtime resources are ready";
    scene.journal.until_in(task).await;
    let errors = until(&scene.world, NAME, LastOperationState::Error)
        .await
        .status
        .unwrap()
        .last_errors;
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert_eq!(errors[0].task_id.as_deref(), Some(task));
    let object = format!("ContainerRuntime {TECHNICAL_ID}/{OBJECT}");
    let description = &errors[0].description;
    assert!(
        description.contains(&object) && description.contains("extension \"crater\""),
        "{description}"
    );
    let answer = why(&scene).await;
    let blocker = &answer.blockers[0];
    assert!(is_about(blocker, &object), "{answer:#?}");
    assert!(blocker.tasks.iter().any(|one| one == task), "{answer:#?}");
    // The machines wait for no runtime.
    let run = scene.journal.runs().remove(0);
    assert!(
        run.succeeded
            .contains("Waiting until worker pools have been reconciled"),
        "{run:#?}"
    );
    moon.behave(Behaviour::Works);
    scene.succeeded().await;

    // Nor does one that cannot be taken away stay without a word.
    moon.behave(Behaviour::Sleeps);
    scene
        .change(json!({"spec": {"provider": {"workers": [pool("pool-b", 1)]}}}))
        .await;
    let errors = until(&scene.world, NAME, LastOperationState::Error)
        .await
        .status
        .unwrap()
        .last_errors;
    let stale = "Waiting until stale container runtime resources are deleted";
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert_eq!(errors[0].task_id.as_deref(), Some(stale));
    assert!(errors[0].description.contains(&object), "{errors:?}");
    let answer = why(&scene).await;
    assert!(is_about(&answer.blockers[0], &object), "{answer:#?}");
    moon.behave(Behaviour::Works);
    scene.succeeded().await;
    scene.end_with_moon().await;
}

#[tokio::test(start_paused = true)]
async fn an_unserved_runtime_is_refused_and_one_whose_registration_went_is_named() {
    let scene = Scene::start().await;
    offer(&scene, &[CRATER]).await;
    let pools = || json!([pool_with_runtime("pool-b", &json!({}))]);
    let mut shoot = landscape_local::documents(tests_scenarios::SHOOT).unwrap().remove(0);
    shoot["spec"]["provider"]["workers"] = pools();
    let refused = landscape_local::apply_all(&scene.world.garden, vec![shoot])
        .await
        .unwrap_err()
        .to_string();
    let path = "spec.provider.workers[0].cri.containerRuntimes[0].type";
    for part in [
        path,
        "\"crater\"",
        "create a ControllerRegistration for ContainerRuntime/crater",
    ] {
        assert!(refused.contains(part), "{refused}\nlacks {part}");
    }

    // The registration goes between the wish and the first reconciliation.
    let registrations: Api<ControllerRegistration> = Api::all(scene.world.garden.clone());
    let registration = json!({"apiVersion": "core.gardener.cloud/v1beta1", "kind": "ControllerRegistration",
        "metadata": {"name": MOON}, "spec": {"resources": [{"kind": "ContainerRuntime", "type": CRATER}]}});
    landscape_local::apply_all(&scene.world.garden, vec![registration])
        .await
        .unwrap();
    scene
        .create(|shoot| shoot["spec"]["provider"]["workers"] = pools())
        .await;
    let named = wait(&scene.world.shoots(NAMESPACE), NAME, |shoot| {
        let errors = &shoot?.status.as_ref()?.last_errors;
        let named = errors
            .iter()
            .find(|error| error.description.contains("ContainerRuntime/crater"))?;
        Some(named.description.clone())
    })
    .await;
    let answer = why(&scene).await;
    assert_eq!(answer.blockers[0].cause, Cause::NotInstalled, "{named}: {answer:#?}");
    assert_eq!(answer.blockers[0].details, ["needed for ContainerRuntime/crater"]);
    registrations.delete(MOON, &DeleteParams::default()).await.unwrap();
    merge(&registrations, MOON, &json!({"metadata": {"finalizers": null}})).await;
    let answer = why(&scene).await;
    let blocker = &answer.blockers[0];
    assert_eq!(blocker.cause, Cause::NotRegistered, "{answer:#?}");
    assert!(
        blocker
            .message
            .ends_with("no ControllerRegistration is responsible for ContainerRuntime/crater"),
        "{answer:#?}"
    );
}

/// What the operating system's extension and the Worker's know of runtimes.
#[tokio::test(start_paused = true)]
async fn a_runtime_changes_labels_of_a_pool_and_no_operating_system_config() {
    let (scene, _moon) = scene_with_moon().await;
    scene
        .created(|shoot| shoot["spec"]["provider"]["workers"] = json!([pool_with_runtime("pool-b", &json!({}))]))
        .await;
    let workers: Api<Worker> = Api::namespaced(scene.world.seed.clone(), TECHNICAL_ID);
    let worker = workers.get(NAME).await.unwrap();
    assert_eq!(worker.spec.pools[0].labels[LABEL], "true");
    let configs: Api<OperatingSystemConfig> = Api::namespaced(scene.world.seed.clone(), TECHNICAL_ID);
    let configs = configs.list(&ListParams::default()).await.unwrap();
    for config in &configs {
        let cri = serde_json::to_value(config.spec.cri_config.as_ref().unwrap()).unwrap();
        let original = config.name_any().ends_with("-original");
        assert_eq!(cri["name"], "containerd");
        assert_eq!(cri["containerd"].is_object(), original, "{cri}");
    }
    assert_eq!(configs.items.len(), 2);
}
