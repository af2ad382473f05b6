//! The production form as one landscape: a Shoot is created, changed, hibernated, woken and deleted while each of our processes
//! is killed once, and nothing of it is left.

use std::fmt::Debug;
use std::time::Instant;

use api_core::v1beta1::{ControllerDeployment, Shoot};
use api_meta::{LastOperation, LastOperationState};
use base_client::{Connector as _, Https, WaitState, delete_and_wait, wait_until};
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use kube::api::{ListParams, PostParams};
use kube::{Api, Client, Resource};
use landscape_local::example;
use serde::de::DeserializeOwned;
use serde_json::json;
use tests_production::landscape::{Landscape, Part, Settings};
use tests_production::{LOOK_PAUSE, PATIENCE};
use tests_scenarios::inventory::Inventory;
use tests_scenarios::{NAME, NAMESPACE, SHOOT, SURROUNDINGS, TECHNICAL_ID, admin_kubeconfig, has_succeeded, merge};

use crate::rights::{self, Rights};

/// What an extension's author changes in a release: an environment variable that its program does not read.
const RELEASE: &str = "RELEASE";

/// The operator's view of a landscape.
struct Scene {
    landscape: Landscape,
    garden: Client,
    seed: Client,
    shoots: Api<Shoot>,
    begun: Instant,
    folder: tempfile::TempDir,
}

impl Scene {
    async fn start() -> Self {
        let begun = Instant::now();
        let mut folder = tempfile::tempdir().unwrap();
        // What a test that fails leaves behind is there for who looks for the reason.
        folder.disable_cleanup(true);
        let settings = Settings::for_test(folder.path().to_owned());
        let landscape = Landscape::start(&settings).await.unwrap_or_else(|why| panic!("{why}"));
        let garden = landscape.garden.garden.admin.clone();
        let scene = Self {
            seed: landscape.seeds[0].admin.clone(),
            shoots: Api::namespaced(garden.clone(), NAMESPACE),
            garden,
            landscape,
            begun,
            folder,
        };
        if let Err(why) = scene.landscape.until_ready().await {
            scene.fail(&why);
        }
        scene
    }

    /// Ends the test with what the processes have logged.
    fn fail(&self, why: &str) -> ! {
        let of_garden = &self.landscape.garden;
        let of_seed = &self.landscape.seeds[0];
        let parts = [
            &of_garden.apiserver,
            &of_garden.admission_controller,
            &of_garden.controller_manager,
            &of_garden.scheduler,
            &of_seed.gardenlet,
            &of_seed.resource_manager,
            &of_seed.node,
        ];
        for part in parts {
            println!("--- {}\n{}", part.name(), part.logged());
        }
        panic!(
            "after {:?}: {why}\nfiles: {}",
            self.begun.elapsed(),
            self.folder.path().display()
        );
    }

    fn note(&self, what: &str) {
        println!("{:6.1} s: {what}", self.begun.elapsed().as_secs_f32());
    }

    async fn until<K, T>(&self, api: &Api<K>, name: &str, judge: impl FnMut(Option<&K>) -> WaitState<T>) -> T
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
    {
        match wait_until(api, name, PATIENCE, judge).await {
            Ok(found) => found,
            Err(waited) => self.fail(&waited.to_string()),
        }
    }

    /// Waits until the Shoot's newest generation has succeeded.
    async fn succeeded(&self, what: &str) -> Shoot {
        let shoot = self
            .until(&self.shoots, NAME, |shoot| match shoot {
                Some(shoot) if has_succeeded(shoot) => WaitState::Done(shoot.clone()),
                Some(shoot) => WaitState::NotYet(format!("{:?}", shoot.status)),
                None => WaitState::NotYet("it is not there".to_owned()),
            })
            .await;
        self.note(what);
        shoot
    }

    /// Waits until a flow of the Shoot runs for its newest generation and has got so far, in percent.
    async fn in_the_middle(&self, percent: i32) {
        self.until(&self.shoots, NAME, |shoot| {
            let Some(shoot) = shoot else {
                return WaitState::NotYet("it is not there".to_owned());
            };
            let operation = operation(shoot);
            let runs = |one: &LastOperation| one.state == LastOperationState::Processing && one.progress >= percent;
            match operation.filter(|one| runs(one)) {
                Some(_) => WaitState::Done(()),
                None => WaitState::NotYet(format!("{operation:?}")),
            }
        })
        .await;
    }

    /// Kills a part, looks that the Shoot's flow has not ended, and starts the part again.
    async fn killed(&mut self, part: impl Fn(&mut Landscape) -> &mut Part) {
        let killed = part(&mut self.landscape);
        let name = killed.name();
        killed.kill();
        self.note(&format!("{name} killed"));
        let started = part(&mut self.landscape);
        started.start_again().unwrap();
        if let Err(why) = started.until_ready().await {
            self.fail(&why);
        }
    }

    async fn still_runs(&self) {
        let shoot = self.shoots.get(NAME).await.unwrap();
        let operation = operation(&shoot).unwrap();
        assert_eq!(operation.state, LastOperationState::Processing, "{operation:?}");
    }

    async fn shoot_client(&self) -> Client {
        let mut kubeconfig = admin_kubeconfig(&self.shoots, NAME).await;
        // The name in it is one of a DNS service that this machine does not ask; the server is known by it all the same.
        let cluster = kubeconfig.clusters[0].cluster.as_mut().unwrap();
        let name = cluster.server.as_ref().unwrap().parse::<http::Uri>().unwrap();
        cluster.tls_server_name = name.host().map(str::to_owned);
        cluster.server = Some(format!("https://127.0.0.1:{}", self.landscape.seeds[0].of_shoots));
        Https::new("tests").client(&kubeconfig).unwrap()
    }
}

fn operation(shoot: &Shoot) -> Option<&LastOperation> {
    shoot.status.as_ref()?.last_operation.as_ref()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shoot_lives_and_goes_while_each_process_is_killed_once() {
    let mut scene = Scene::start().await;
    scene.note("every seed takes Shoots");

    // The project's namespace is made by the next controller-manager.
    scene.landscape.garden.controller_manager.kill();
    scene.landscape.garden.controller_manager.start_again().unwrap();
    example::apply_project(&scene.garden).await.unwrap();
    scene.note("the project is ready");
    for manifest in &SURROUNDINGS[1..] {
        apply(&scene.garden, manifest).await;
    }
    let clusters = [("garden", &scene.garden), ("seed", &scene.seed)];
    let before = Inventory::of(&clusters).await;

    scene.landscape.garden.scheduler.kill();
    apply(&scene.garden, SHOOT).await;
    scene.landscape.garden.scheduler.start_again().unwrap();
    scene.in_the_middle(10).await;
    scene.landscape.seeds[0].gardenlet.kill();
    scene.still_runs().await;
    scene.killed(|landscape| &mut landscape.seeds[0].gardenlet).await;
    scene
        .killed(|landscape| &mut landscape.garden.admission_controller)
        .await;
    scene.succeeded("created, with gardenlet killed in the middle").await;

    Box::pin(changed(&mut scene)).await;
    upgraded(&scene).await;
    hibernated_and_woken(&mut scene).await;
    deleted(&mut scene, &before).await;

    let garden = scene.landscape.garden.garden.real.audit_log().unwrap();
    let seed = scene.landscape.seeds[0].real.audit_log().unwrap();
    rights::compare(
        &Rights::of(&garden, &scene.garden).await,
        &Rights::of(&seed, &scene.seed).await,
    );
    scene.folder.disable_cleanup(false);
}

async fn apply(client: &Client, manifest: &str) {
    let objects = landscape_local::documents(manifest).unwrap();
    landscape_local::apply_all(client, objects)
        .await
        .unwrap_or_else(|fault| panic!("{}", fault.chain()));
}

/// A change is taken by the next API server of the garden, and carried out.
async fn changed(scene: &mut Scene) {
    scene.killed(|landscape| &mut landscape.garden.apiserver).await;
    let garden = &scene.landscape.garden.garden;
    // kube-apiserver notices by its next request that the server is back.
    garden.until_served("core.gardener.cloud", "v1beta1").await;
    let shoot = scene.shoots.get(NAME).await.unwrap();
    let mut workers = serde_json::to_value(&shoot.spec.provider.workers).unwrap();
    workers[0]["maximum"] = json!(2);
    workers[0]["minimum"] = json!(2);
    let changed = merge(
        &scene.shoots,
        NAME,
        &json!({"spec": {"provider": {"workers": workers}}}),
    )
    .await;
    let generation = changed.metadata.generation;
    scene.note(&format!(
        "generation {:?} becomes {generation:?}",
        shoot.metadata.generation
    ));
    let done = scene.succeeded("changed: a pool of two").await;
    let nodes: Api<Node> = Api::all(scene.shoot_client().await);
    let nodes = nodes.list(&ListParams::default()).await.unwrap().items.len();
    if nodes != 2 || done.metadata.generation < generation {
        scene.fail(&format!("{nodes} nodes of a Shoot that has succeeded: {done:#?}"));
    }
}

/// A new release of an extension replaces its pod; the Shoot is reconciled neither for that nor harmed by it.
async fn upgraded(scene: &Scene) {
    let before = scene.shoots.get(NAME).await.unwrap();
    let deployments: Api<ControllerDeployment> = Api::all(scene.garden.clone());
    let values = json!({"providerConfig": {"values": {"env": [{"name": RELEASE, "value": "second"}]}}});
    merge(&deployments, "provider-local", &values).await;
    let pods: Api<Pod> = Api::all(scene.seed.clone());
    let begun = Instant::now();
    loop {
        let listed = pods
            .list(&ListParams::default().labels("app=provider-local"))
            .await
            .unwrap();
        let releases: Vec<(bool, bool)> = listed.items.iter().map(|pod| (is_second(pod), is_ready(pod))).collect();
        if releases == [(true, true)] {
            break;
        }
        if begun.elapsed() > PATIENCE {
            scene.fail(&format!("pods of provider-local (new, ready): {releases:?}"));
        }
        tokio::time::sleep(LOOK_PAUSE).await;
    }
    let after = scene.succeeded("extension upgraded").await;
    assert_eq!(operation(&before), operation(&after));
}

fn is_second(pod: &Pod) -> bool {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let mut env = containers.flat_map(|container| container.env.iter().flatten());
    env.any(|variable| variable.name == RELEASE && variable.value.as_deref() == Some("second"))
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions
        .into_iter()
        .any(|one| one.type_ == "Ready" && one.status == "True")
}

/// What users keep in the Shoot is there after it was hibernated, though the seed's node is killed while it wakes.
async fn hibernated_and_woken(scene: &mut Scene) {
    let stored: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "kept"}, "data": {"a": "1"}})).unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(scene.shoot_client().await, "default");
    maps.create(&PostParams::default(), &stored).await.unwrap();
    hibernate(scene, true).await;
    let shoot = scene.succeeded("hibernated").await;
    assert!(shoot.status.unwrap().hibernated);
    let pods: Api<Pod> = Api::namespaced(scene.seed.clone(), TECHNICAL_ID);
    let left = pods.list(&ListParams::default()).await.unwrap();
    assert_eq!(
        left.items.len(),
        0,
        "{:?}",
        left.items.iter().map(|pod| &pod.metadata.name).collect::<Vec<_>>()
    );

    hibernate(scene, false).await;
    scene.in_the_middle(10).await;
    scene.landscape.seeds[0].node.kill();
    scene.still_runs().await;
    scene.killed(|landscape| &mut landscape.seeds[0].node).await;
    scene
        .succeeded("woken, with the seed's node killed in the middle")
        .await;
    let maps: Api<ConfigMap> = Api::namespaced(scene.shoot_client().await, "default");
    assert_eq!(maps.get("kept").await.unwrap().data, stored.data);
}

async fn hibernate(scene: &Scene, enabled: bool) {
    merge(
        &scene.shoots,
        NAME,
        &json!({"spec": {"hibernation": {"enabled": enabled}}}),
    )
    .await;
}

async fn deleted(scene: &mut Scene, before: &Inventory) {
    scene.killed(|landscape| &mut landscape.seeds[0].resource_manager).await;
    let confirmed = json!({"metadata": {"annotations": {"confirmation.gardener.cloud/deletion": "true"}}});
    merge(&scene.shoots, NAME, &confirmed).await;
    if let Err(waited) = delete_and_wait(&scene.shoots, NAME, PATIENCE).await {
        scene.fail(&waited.to_string());
    }
    scene.note("deleted");
    let begun = Instant::now();
    loop {
        let clusters = [("garden", &scene.garden), ("seed", &scene.seed)];
        let mut left = Inventory::of(&clusters).await.beyond(before);
        // The upgraded extension has other pods and Secrets than before.
        left.retain(|name| !name.contains("provider-local"));
        if left.is_empty() {
            break;
        }
        if begun.elapsed() > PATIENCE {
            scene.fail(&format!("left behind: {left:#?}"));
        }
        tokio::time::sleep(LOOK_PAUSE).await;
    }
    scene.note("nothing is left");
}
