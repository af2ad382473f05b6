//! Power cuts: everything that runs is dropped at once, in the middle of whatever it did, and a landscape starts again on
//! what was kept.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use api_core::authentication::{AdminKubeconfigRequest, KubeconfigRequestSpec};
use api_core::v1beta1::Shoot;
use api_extensions::{Cluster, DNSRecord, Infrastructure, Worker};
use api_machine::Machine;
use api_meta::LastOperationState;
use base_client::{WaitState, delete_and_wait, wait_until};
use jiff::Timestamp;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, PersistentVolume, Pod};
use kube::api::{ListParams, PostParams};
use kube::api::{Patch, PatchParams};
use kube::config::Kubeconfig;
use kube::{Api, ResourceExt};
use kube::{Client, Resource};
use landscape_local::{Landscape, Settings, State, apply_all, documents};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Virtual time, longer than any wait inside the product.
const PATIENCE: Duration = Duration::from_secs(3600);
const NAMESPACE: &str = "garden-local";
const NAME: &str = "local";
const TECHNICAL_ID: &str = "shoot--local--local";
const EXAMPLE: [&str; 4] = [
    include_str!("../../../../examples/10-project.yaml"),
    include_str!("../../../../examples/20-cloudprofile.yaml"),
    include_str!("../../../../examples/30-credentials.yaml"),
    include_str!("../../../../examples/40-shoot.yaml"),
];
/// Longer than any lease, heartbeat or health time-out of the product: whoever counts from before the cut is wrong.
const OFF: Duration = Duration::from_secs(3600);

/// A running landscape and its administrator.
struct World {
    landscape: Landscape,
    garden: Client,
    seed: Client,
}

impl World {
    async fn start(settings: &Settings, state: &State) -> Self {
        let landscape = Landscape::start(settings, state).await.unwrap();
        landscape.ready(PATIENCE).await.unwrap();
        let connector = landscape.connector();
        World {
            garden: connector.client(&landscape.garden_kubeconfig().unwrap()).unwrap(),
            seed: connector.client(&landscape.seed_kubeconfig().unwrap()).unwrap(),
            landscape,
        }
    }

    async fn apply_example(&self) {
        for manifest in EXAMPLE {
            apply_all(&self.garden, documents(manifest).unwrap()).await.unwrap();
        }
    }

    fn shoots(&self) -> Api<Shoot> {
        Api::namespaced(self.garden.clone(), NAMESPACE)
    }

    async fn succeeded(&self) {
        wait(&self.shoots(), NAME, |shoot| {
            let (shoot, status) = (shoot?, shoot?.status.as_ref()?);
            let operation = status.last_operation.as_ref()?;
            let done = operation.state == LastOperationState::Succeeded && operation.progress == 100;
            (done && status.observed_generation == shoot.metadata.generation).then_some(())
        })
        .await;
    }

    /// Its administrator in the Shoot, as soon as its API server answers.
    async fn shoot(&self) -> Client {
        let request = AdminKubeconfigRequest {
            spec: KubeconfigRequestSpec::default(),
            ..AdminKubeconfigRequest::default()
        };
        let answer: AdminKubeconfigRequest = self
            .shoots()
            .create_subresource("adminkubeconfig", NAME, &PostParams::default(), &request)
            .await
            .unwrap();
        let text = String::from_utf8(answer.status.unwrap().kubeconfig.0).unwrap();
        let kubeconfig = Kubeconfig::from_yaml(&text).unwrap();
        self.landscape.connector().client(&kubeconfig).unwrap()
    }
}

async fn merge<K>(api: &Api<K>, name: &str, patch: &Value)
where
    K: Resource + Clone + DeserializeOwned + std::fmt::Debug,
{
    let patch = Patch::Merge(patch);
    api.patch(name, &PatchParams::default(), &patch).await.unwrap();
}

async fn wait<K, T>(api: &Api<K>, name: &str, mut check: impl FnMut(Option<&K>) -> Option<T>) -> T
where
    K: Resource<DynamicType = ()> + Clone + Serialize + DeserializeOwned + std::fmt::Debug + Send + 'static,
{
    let found = wait_until(api, name, PATIENCE, |object| match check(object) {
        Some(found) => WaitState::Done(found),
        None => WaitState::NotYet(format!("{:#}", serde_json::to_value(object).unwrap()["status"])),
    });
    found.await.unwrap()
}

async fn gone<K>(api: &Api<K>, name: &str)
where
    K: Resource<DynamicType = ()> + Clone + Serialize + DeserializeOwned + std::fmt::Debug + Send + 'static,
{
    wait(api, name, |object| object.is_none().then_some(())).await;
}

/// A landscape that is switched on and cut off, and what outlives the cuts.
struct PowerCycle {
    folder: tempfile::TempDir,
    state: Option<State>,
    starts: u64,
    now: Timestamp,
}

impl PowerCycle {
    fn new() -> Self {
        PowerCycle {
            folder: tempfile::tempdir().unwrap(),
            state: None,
            starts: 0,
            now: "2026-01-01T00:00:00Z".parse().unwrap(),
        }
    }

    /// Switches a landscape on, lets `live` do what it does, and cuts the power.
    fn run<T>(&mut self, live: impl AsyncFnOnce(&World) -> T) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap();
        self.starts += 1;
        let (folder, epoch, number): (&Path, _, _) = (self.folder.path(), self.now, self.starts);
        let state = &mut self.state;
        let (lived, ended) = runtime.block_on(async {
            let settings = Settings::simulated(folder.to_owned(), epoch, number);
            let state = state.get_or_insert_with(|| State::memory(&settings).unwrap());
            let world = World::start(&settings, state).await;
            (live(&world).await, settings.clock.now())
        });
        self.now = ended.checked_add(OFF).unwrap();
        lived
    }
}

/// The Shoot's pods in the seed: how often their containers were started again, by name and uid.
async fn pods(world: &World) -> BTreeMap<(String, String), i32> {
    let pods: Api<Pod> = Api::namespaced(world.seed.clone(), TECHNICAL_ID);
    let list = pods.list(&ListParams::default()).await.unwrap();
    list.items
        .into_iter()
        .map(|pod| {
            let key = (pod.name_any(), pod.uid().unwrap());
            let containers = pod.status.and_then(|status| status.container_statuses);
            let restarts = containers
                .iter()
                .flatten()
                .map(|container| container.restart_count)
                .sum();
            (key, restarts)
        })
        .collect()
}

async fn machines(world: &World) -> Vec<String> {
    let machines: Api<Machine> = Api::namespaced(world.seed.clone(), TECHNICAL_ID);
    let list = machines.list(&ListParams::default()).await.unwrap();
    list.items.iter().map(|machine| machine.uid().unwrap()).collect()
}

/// The requests of the Shoot's machines to become nodes.
async fn joins(shoot: Client) -> Vec<String> {
    let requests: Api<CertificateSigningRequest> = Api::all(shoot);
    let list = requests.list(&ListParams::default()).await.unwrap();
    list.items.iter().map(ResourceExt::name_any).collect()
}

fn is_ready(conditions: impl IntoIterator<Item = (String, String)>) -> bool {
    conditions
        .into_iter()
        .any(|(type_, status)| type_ == "Ready" && status == "True")
}

/// Waits until every container that ran before the cut runs again, and the node in the Shoot is ready.
async fn is_back(world: &World, before: &BTreeMap<(String, String), i32>, boots_before: &BTreeMap<String, String>) {
    let api: Api<Pod> = Api::namespaced(world.seed.clone(), TECHNICAL_ID);
    for ((name, uid), restarts) in before {
        wait(&api, name, |pod| {
            let (pod, status) = (pod?, pod?.status.as_ref()?);
            assert_eq!(pod.uid().as_ref(), Some(uid), "{name} is another pod");
            let container = status.container_statuses.as_ref()?.first()?;
            let conditions = status.conditions.iter().flatten();
            let ready = is_ready(conditions.map(|c| (c.type_.clone(), c.status.clone())));
            (container.restart_count == restarts + 1 && ready).then_some(())
        })
        .await;
    }
    // The boot id is of this run: a node that is only remembered as ready has the old one.
    let nodes: Api<Node> = Api::all(world.shoot().await);
    for (name, boot) in boots_before {
        wait(&nodes, name, |node| {
            let status = node?.status.as_ref()?;
            let conditions = status.conditions.iter().flatten();
            let ready = is_ready(conditions.map(|c| (c.type_.clone(), c.status.clone())));
            (ready && status.node_info.as_ref()?.boot_id != *boot).then_some(())
        })
        .await;
    }
}

/// The boot ids of the Shoot's nodes, by name.
async fn boots(shoot: Client) -> BTreeMap<String, String> {
    let nodes: Api<Node> = Api::all(shoot);
    let list = nodes.list(&ListParams::default()).await.unwrap();
    let boot = |node: Node| (node.name_any(), node.status.unwrap().node_info.unwrap().boot_id);
    list.items.into_iter().map(boot).collect()
}

/// Asks for a reconcile and waits until it has succeeded and every condition is well.
async fn reconciles(world: &World) {
    let shoots = world.shoots();
    let patch = json!({"metadata": {"annotations": {"gardener.cloud/operation": "reconcile"}}});
    merge(&shoots, NAME, &patch).await;
    world.succeeded().await;
    wait(&shoots, NAME, |shoot: Option<&Shoot>| {
        let conditions = &shoot?.status.as_ref()?.conditions;
        let well = conditions
            .iter()
            .all(|condition| condition.status.to_string() == "True");
        (well && !conditions.is_empty()).then_some(())
    })
    .await;
}

async fn confirm(world: &World) {
    let confirmed = json!({"metadata": {"annotations": {"confirmation.gardener.cloud/deletion": "true"}}});
    merge(&world.shoots(), NAME, &confirmed).await;
}

/// Deletes the Shoot; nothing of it is left.
async fn goes(world: &World) {
    confirm(world).await;
    delete_and_wait(&world.shoots(), NAME, PATIENCE).await.unwrap();
    nothing_is_left(world).await;
}

async fn nothing_is_left(world: &World) {
    let namespaces: Api<Namespace> = Api::all(world.seed.clone());
    assert!(namespaces.get_opt(TECHNICAL_ID).await.unwrap().is_none());
    let clusters: Api<Cluster> = Api::all(world.seed.clone());
    assert!(clusters.get_opt(TECHNICAL_ID).await.unwrap().is_none());
    let records: Api<DNSRecord> = Api::all(world.seed.clone());
    assert!(records.list(&ListParams::default()).await.unwrap().items.is_empty());
    let volumes: Api<PersistentVolume> = Api::all(world.seed.clone());
    let volumes = volumes.list(&ListParams::default()).await.unwrap().items;
    assert!(volumes.is_empty(), "{volumes:?}");
}

#[test]
fn a_shoot_outlives_power_cuts_with_its_data_its_pods_and_its_machines() {
    let mut power_cycle = PowerCycle::new();
    let (mut pods_before, mut boots_before, machines_before, joined) = power_cycle.run(async |world| {
        world.apply_example().await;
        world.succeeded().await;
        let maps: Api<ConfigMap> = Api::namespaced(world.shoot().await, "default");
        let map = serde_json::from_value(json!({"metadata": {"name": "kept"}, "data": {"a": "b"}})).unwrap();
        maps.create(&PostParams::default(), &map).await.unwrap();
        let joined = joins(world.shoot().await).await;
        let boots = boots(world.shoot().await).await;
        (pods(world).await, boots, machines(world).await, joined)
    });
    assert_eq!((machines_before.len(), joined.len()), (1, 1));
    for _ in 0..2 {
        (pods_before, boots_before) = power_cycle.run(async |world| {
            is_back(world, &pods_before, &boots_before).await;
            let maps: Api<ConfigMap> = Api::namespaced(world.shoot().await, "default");
            assert_eq!(maps.get("kept").await.unwrap().data.unwrap()["a"], "b");
            reconciles(world).await;
            let now = pods(world).await;
            assert!(now.keys().eq(pods_before.keys()), "{now:#?} {pods_before:#?}");
            assert_eq!(machines(world).await, machines_before);
            // Requests go an hour after they were answered, so that there may be none left.
            let joins = joins(world.shoot().await).await;
            assert!(
                joins.iter().all(|join| joined.contains(join)),
                "a machine joins once: {joins:?}"
            );
            (now, boots(world.shoot().await).await)
        });
    }
    power_cycle.run(async |world| goes(world).await);
}

#[test]
fn a_shoot_comes_up_and_goes_however_often_the_power_is_cut() {
    let mut power_cycle = PowerCycle::new();
    power_cycle.run(async |world| {
        world.apply_example().await;
    });
    for percent in [5, 20, 35, 50, 65, 80, 95] {
        power_cycle.run(async |world| {
            wait(&world.shoots(), NAME, |shoot| {
                let operation = shoot?.status.as_ref()?.last_operation.as_ref()?;
                (operation.progress >= percent).then_some(())
            })
            .await;
        });
    }
    let machines_before = power_cycle.run(async |world| {
        world.succeeded().await;
        reconciles(world).await;
        machines(world).await
    });
    assert_eq!(machines_before.len(), 1, "{machines_before:?}");
    power_cycle.run(async |world| {
        confirm(world).await;
        world.shoots().delete(NAME, &Default::default()).await.unwrap();
    });
    // The progress of a deletion that takes no time cannot be observed, but the objects that go on the way can.
    power_cycle.run(async |world| {
        let workers: Api<Worker> = Api::namespaced(world.seed.clone(), TECHNICAL_ID);
        gone(&workers, NAME).await;
    });
    power_cycle.run(async |world| {
        let infrastructures: Api<Infrastructure> = Api::namespaced(world.seed.clone(), TECHNICAL_ID);
        gone(&infrastructures, NAME).await;
    });
    power_cycle.run(async |world| {
        let namespaces: Api<Namespace> = Api::all(world.seed.clone());
        gone(&namespaces, TECHNICAL_ID).await;
    });
    power_cycle.run(async |world| {
        gone(&world.shoots(), NAME).await;
        nothing_is_left(world).await;
    });
}
