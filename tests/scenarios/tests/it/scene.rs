//! The example Shoot with its surroundings, a journal of its flows, and what was there before it.

use std::collections::BTreeMap;
use std::time::Duration;

use api_core::v1beta1::{CloudProfile, Shoot};
use api_machine::{Machine, MachinePhase};
use api_meta::LastOperationState;
use base_clock::Clock;
use futures::StreamExt;
use k8s_openapi::api::core::v1::Node;
use kube::api::{DeleteParams, ListParams};
use kube::{Api, ResourceExt};
use landscape_local::documents;
use serde_json::{Value, json};
use tests_scenarios::inventory::Inventory;
use tests_scenarios::journal::Journal;
use tests_scenarios::{NAME, NAMESPACE, SHOOT, SURROUNDINGS, TECHNICAL_ID, World, merge, wait};

/// A Kubernetes patch and a machine image that the example's cloud profile does not have.
pub(crate) const NEXT_PATCH: &str = "1.35.1";
pub(crate) const NEXT_IMAGE: &str = "1.1.0";

/// Many times what machines take to be drained; virtual.
const SETTLED_WITHIN: Duration = Duration::from_secs(3600);

pub(crate) struct Scene {
    pub(crate) world: World,
    pub(crate) clock: Clock,
    pub(crate) journal: Journal,
    before: Inventory,
}

impl Scene {
    /// Everything but the Shoot.
    pub(crate) async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    pub(crate) async fn start_with(change: impl FnOnce(&mut landscape_local::Settings)) -> Self {
        let mut seen = None;
        let world = World::start_with(|settings| {
            change(settings);
            seen = Some((settings.clock.clone(), settings.feed.clone()));
        })
        .await;
        let (clock, feed) = seen.unwrap();
        world.apply(&SURROUNDINGS).await;
        offer_more(&world).await;
        // What was set up this moment is allowed to settle, so that it is not taken for the Shoot's.
        tokio::time::sleep(std::time::Duration::from_secs(60)).await;
        Self {
            journal: Journal::of(&feed, &format!("{NAMESPACE}/{NAME}")),
            before: world.inventory().await,
            world,
            clock,
        }
    }

    /// The example Shoot, changed.
    pub(crate) async fn create(&self, change: impl FnOnce(&mut Value)) {
        let mut shoot = documents(SHOOT).unwrap().remove(0);
        change(&mut shoot);
        landscape_local::apply_all(&self.world.garden, vec![shoot])
            .await
            .unwrap();
    }

    /// The same, up to its success.
    pub(crate) async fn created(&self, change: impl FnOnce(&mut Value)) {
        self.create(change).await;
        self.succeeded().await;
    }

    pub(crate) async fn succeeded(&self) -> Shoot {
        let shoot = self.world.succeeded(NAMESPACE, NAME).await;
        let errors = &shoot.status.as_ref().unwrap().last_errors;
        assert!(errors.is_empty(), "{errors:?}");
        shoot
    }

    pub(crate) async fn change(&self, patch: Value) -> Shoot {
        merge(&self.world.shoots(NAMESPACE), NAME, &patch).await
    }

    /// Writes the worker pools and waits until it is so.
    pub(crate) async fn with_pools(&self, pools: &[Value]) {
        self.change(json!({"spec": {"provider": {"workers": pools}}})).await;
        self.succeeded().await;
    }

    /// Asks for the deletion and does not wait.
    pub(crate) async fn request_deletion(&self) {
        let confirmed = json!({"metadata": {"annotations": {"confirmation.gardener.cloud/deletion": "true"}}});
        self.change(confirmed).await;
        let shoots = self.world.shoots(NAMESPACE);
        shoots.delete(NAME, &DeleteParams::default()).await.unwrap();
    }

    /// Waits until the Shoot is gone and nothing of it is left anywhere.
    pub(crate) async fn gone(&self) {
        wait(&self.world.shoots(NAMESPACE), NAME, |shoot| {
            shoot.is_none().then_some(())
        })
        .await;
        self.world.nothing_beyond(&self.before).await;
    }

    /// Deletes the Shoot and looks whether anything is left.
    pub(crate) async fn end(&self) {
        self.request_deletion().await;
        self.gone().await;
    }

    pub(crate) async fn shoot_client(&self) -> kube::Client {
        self.world.shoot_client(NAMESPACE, NAME).await
    }

    /// The machines that stay, by name, with their pool.
    pub(crate) async fn machines(&self) -> BTreeMap<String, String> {
        let machines: Api<Machine> = Api::namespaced(self.world.seed.clone(), TECHNICAL_ID);
        let listed = machines.list(&ListParams::default()).await.unwrap();
        listed
            .items
            .iter()
            .map(|machine| (machine.name_any(), pool_of(machine)))
            .collect()
    }

    /// The same once there are `count`: machines that a smaller pool has to spare are drained after its Shoot succeeded.
    pub(crate) async fn machines_once(&self, count: usize) -> BTreeMap<String, String> {
        let api: Api<Machine> = Api::namespaced(self.world.seed.clone(), TECHNICAL_ID);
        let mut changes = std::pin::pin!(base_client::watch(api, Default::default()));
        let settled = async {
            loop {
                let machines = self.machines().await;
                if machines.len() == count {
                    return machines;
                }
                changes.next().await;
            }
        };
        tokio::time::timeout(SETTLED_WITHIN, settled).await.unwrap()
    }

    /// The nodes by name, with their pool; all of them ready.
    pub(crate) async fn nodes(&self) -> BTreeMap<String, String> {
        let nodes: Api<Node> = Api::all(self.shoot_client().await);
        let listed = nodes.list(&ListParams::default()).await.unwrap();
        assert!(listed.items.iter().all(is_ready), "{listed:?}");
        let pool = |node: &Node| node.labels()["worker.gardener.cloud/pool"].clone();
        listed.items.iter().map(|node| (node.name_any(), pool(node))).collect()
    }
}

/// A worker pool like the example's.
pub(crate) fn pool(name: &str, machines: i32) -> Value {
    json!({
        "name": name, "minimum": machines, "maximum": machines, "maxSurge": 1, "maxUnavailable": 0,
        "machine": {"type": "local", "image": {"name": "local", "version": "1.0.0"}},
    })
}

fn pool_of(machine: &Machine) -> String {
    let deployment = &machine.labels()["name"];
    let name = deployment.strip_prefix(&format!("{TECHNICAL_ID}-")).unwrap();
    name.rsplit_once("-z").unwrap().0.to_owned()
}

pub(crate) fn is_running(machine: &Machine) -> bool {
    let current = machine
        .status
        .as_ref()
        .and_then(|status| status.current_status.as_ref());
    current.and_then(|current| current.phase.as_ref()) == Some(&MachinePhase::Running)
}

pub(crate) fn is_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.is_some_and(|all| {
        all.iter()
            .any(|condition| condition.type_ == "Ready" && condition.status == "True")
    })
}

/// Waits until the Shoot's operation is in this state.
pub(crate) async fn until(world: &World, name: &str, state: LastOperationState) -> Shoot {
    wait(&world.shoots(NAMESPACE), name, |shoot| {
        let last = shoot?.status.as_ref()?.last_operation.as_ref()?;
        (last.state == state).then(|| shoot.cloned()).flatten()
    })
    .await
}

/// Adds the next versions to the example's cloud profile.
async fn offer_more(world: &World) {
    let profiles: Api<CloudProfile> = Api::all(world.garden.clone());
    let profile = serde_json::to_value(profiles.get("local").await.unwrap()).unwrap();
    let mut spec = profile["spec"].clone();
    let versions = spec["kubernetes"]["versions"].as_array_mut().unwrap();
    versions.push(json!({"version": NEXT_PATCH, "classification": "deprecated"}));
    let images = spec["machineImages"][0]["versions"].as_array_mut().unwrap();
    let mut image = images[0].clone();
    image["version"] = json!(NEXT_IMAGE);
    images.push(image);
    let more = json!({"spec": {"kubernetes": spec["kubernetes"], "machineImages": spec["machineImages"]}});
    merge(&profiles, "local", &more).await;
}
