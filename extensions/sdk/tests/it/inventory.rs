//! An inventory in the status of an Infrastructure, with processes that end in the middle.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use api_extensions::Infrastructure;
use api_meta::{Fault, LastOperationState::Succeeded};
use async_trait::async_trait;
use extensions_sdk::inventory::{Inventory, Presence, Resource};
use extensions_sdk::{Actuator, Context, Outcome, Registration, Saved};
use kube::api::DeleteParams;
use serde_json::{Value, json};
use tests_kit::{until, until_gone};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::landscape::{Seed, state_of};

/// How long the cloud's lists lag behind, in virtual time.
const LAG: Duration = Duration::from_secs(50);

/// A cloud: tags by id.
#[derive(Clone, Default)]
struct Cloud {
    made: Arc<Mutex<BTreeMap<String, String>>>,
    /// Creations that have had their effect and are never answered.
    unanswered: Arc<Mutex<usize>>,
    reached: Arc<Notify>,
}

impl Cloud {
    fn made(&self) -> Vec<(String, String)> {
        let made = self.made.lock().unwrap();
        made.iter().map(|(id, tag)| (id.clone(), tag.clone())).collect()
    }
}

struct Network(Cloud);

#[async_trait]
impl Resource for Network {
    fn slot(&self) -> &str {
        "network"
    }

    async fn find(&self, tag: &str) -> Result<Vec<String>, Fault> {
        let made = self.0.made().into_iter().filter(|(_, known)| known == tag);
        Ok(made.map(|(id, _)| id).collect())
    }

    async fn create(&self, tag: &str) -> Result<String, Fault> {
        let id = {
            let mut made = self.0.made.lock().unwrap();
            let id = format!("network-{}", made.len() + 1);
            made.insert(id.clone(), tag.to_owned());
            id
        };
        let unanswered = {
            let mut left = self.0.unanswered.lock().unwrap();
            let was = *left;
            *left = was.saturating_sub(1);
            was > 0
        };
        if unanswered {
            self.0.reached.notify_one();
            std::future::pending::<()>().await;
        }
        Ok(id)
    }

    async fn update(&self, id: &str) -> Result<Presence, Fault> {
        let there = self.0.made.lock().unwrap().contains_key(id);
        Ok(if there { Presence::There } else { Presence::Gone })
    }

    async fn delete(&self, id: &str) -> Result<(), Fault> {
        self.0.made.lock().unwrap().remove(id);
        Ok(())
    }

    fn visible_after(&self) -> Duration {
        LAG
    }
}

#[async_trait]
impl Actuator<Infrastructure> for Cloud {
    async fn reconcile(&self, context: &Context, object: &Infrastructure) -> Result<Outcome<Infrastructure>, Fault> {
        let inventory = Inventory::open(context, object)?;
        inventory.ensure(&Network(self.clone())).await?;
        inventory.set_own(&json!({"range": "10.0.0.0/16"})).await?;
        Ok(Outcome::default())
    }

    async fn delete(&self, context: &Context, object: &Infrastructure) -> Result<(), Fault> {
        let inventory = Inventory::open(context, object)?;
        let resolve = |slot: &str| -> Option<Box<dyn Resource>> {
            (slot == "network").then(|| Box::new(Network(self.clone())) as Box<dyn Resource>)
        };
        inventory.remove_all(&resolve).await
    }

    async fn migrate(&self, _: &Context, _: &Infrastructure) -> Result<Saved, Fault> {
        Ok(Saved::default())
    }
}

fn start(seed: &Seed, cloud: &Cloud) -> JoinHandle<()> {
    let registration = Registration::of_type("test");
    let extension = seed.extension();
    tokio::spawn(
        extension
            .actuator::<Infrastructure>(registration, Arc::new(cloud.clone()))
            .run(),
    )
}

fn state(object: &Infrastructure) -> Value {
    let state = object.status.as_ref().and_then(|status| status.state.as_ref());
    state.map(api_meta::RawJson::value).unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn what_a_process_made_before_it_ended_is_found_and_deleted() {
    let mut seed = Seed::new().await;
    seed.cluster(Succeeded, json!({})).await;
    let cloud = Cloud::default();
    *cloud.unanswered.lock().unwrap() = 1;
    let first = start(&seed, &cloud);
    seed.create("test", json!({})).await;
    cloud.reached.notified().await;
    first.abort();
    seed.stop.cancel();
    let api = seed.infrastructures();
    let announced = state(&api.get("b").await.unwrap());
    assert_eq!(announced["resources"][0]["tag"], cloud.made()[0].1.as_str());
    assert_eq!(announced["resources"][0]["id"], Value::Null);

    seed.stop = CancellationToken::new();
    start(&seed, &cloud);
    let object = until(&api, "b", "created", |object| {
        state_of(object) == "Create Succeeded 100"
    })
    .await;
    assert_eq!(cloud.made().len(), 1);
    assert_eq!(state(&object)["resources"][0]["id"], "network-1");
    assert_eq!(state(&object)["own"], json!({"range": "10.0.0.0/16"}));

    api.delete("b", &DeleteParams::default()).await.unwrap();
    until_gone(&api, "b").await;
    assert!(cloud.made().is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_may_exist_is_waited_for_while_the_object_is_processing() {
    let mut seed = Seed::new().await;
    seed.cluster(Succeeded, json!({})).await;
    let cloud = Cloud::default();
    *cloud.unanswered.lock().unwrap() = 1;
    let first = start(&seed, &cloud);
    seed.create("test", json!({})).await;
    cloud.reached.notified().await;
    first.abort();
    seed.stop.cancel();
    // The request never had an effect after all.
    cloud.made.lock().unwrap().clear();

    seed.stop = CancellationToken::new();
    start(&seed, &cloud);
    let api = seed.infrastructures();
    let waiting = until(&api, "b", "waiting", |object| {
        let status = object.status.as_ref();
        let last = status.and_then(|status| status.last_operation.as_ref());
        last.is_some_and(|last| last.description.contains("network cannot be found yet"))
    })
    .await;
    assert!(
        state_of(&waiting).starts_with("Create Processing"),
        "{}",
        state_of(&waiting)
    );
    assert!(cloud.made().is_empty());
    let object = until(&api, "b", "created", |object| {
        state_of(object) == "Create Succeeded 100"
    })
    .await;
    assert_eq!(state(&object)["resources"][0]["attempts"], 2);
    assert_eq!(cloud.made().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_state_of_another_format_stays_as_it_is() {
    let seed = Seed::new().await;
    seed.cluster(Succeeded, json!({})).await;
    let cloud = Cloud::default();
    let created = seed.create("test", json!({})).await;
    let mut written = created.clone();
    let foreign = api_meta::RawJson::parse(r#"{"terraform":"state"}"#).unwrap();
    written.status.get_or_insert_default().state = Some(foreign);
    let api = seed.infrastructures();
    base_client::patch_status_if_changed(&api, &created, &written)
        .await
        .unwrap();
    start(&seed, &cloud);
    let object = until(&api, "b", "refused", |object| state_of(object) == "Create Error 50").await;
    let error = object.status.clone().unwrap().last_error.unwrap().description;
    assert!(
        error.contains("status.state of Infrastructure shoot--a--b/b cannot be used"),
        "{error}"
    );
    assert_eq!(state(&object), json!({"terraform": "state"}));
    assert!(cloud.made().is_empty());
}
