//! A cloud in memory with one state beside it. Its lists lag behind, it counts calls and stops answering at any of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use api_meta::{Fault, RawJson};
use async_trait::async_trait;
use base_clock::Entropy;
use jiff::Timestamp;
use serde_json::Value;

use super::super::{Inventory, Ledger, Presence, Resource, VISIBLE_AFTER, WhenGone};

/// The lag that resources declare, but for a moment.
pub(super) const LAG_MAX: Duration = Duration::from_secs(VISIBLE_AFTER.as_secs() - 1);

/// A cloud, its clock and what an API server stores about it.
pub(super) struct World {
    lag: Duration,
    entropy: Entropy,
    inner: Mutex<Inner>,
}

struct Inner {
    now: Timestamp,
    left: usize,
    made: BTreeMap<String, Made>,
    number: usize,
    state: Option<RawJson>,
    version: u64,
    pauses: BTreeMap<String, Duration>,
    refuses: bool,
    pointless: bool,
    tags: BTreeSet<String>,
    deleted: Vec<String>,
}

struct Made {
    slot: String,
    tag: String,
    at: Timestamp,
    gone: Option<Timestamp>,
}

impl World {
    pub(super) fn new(lag: Duration) -> Self {
        Self {
            lag,
            entropy: Entropy::seeded(1),
            inner: Mutex::new(Inner {
                now: "2026-01-01T00:00:00Z".parse().unwrap(),
                left: usize::MAX,
                made: BTreeMap::new(),
                number: 0,
                state: None,
                version: 0,
                pauses: BTreeMap::new(),
                refuses: false,
                pointless: false,
                tags: BTreeSet::new(),
                deleted: Vec::new(),
            }),
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap()
    }

    /// Lets so many places pass until the process ends.
    pub(super) fn allow(&self, calls: usize) {
        self.inner().left = calls;
    }

    pub(super) fn refuse_creation(&self, refuses: bool) {
        self.inner().refuses = refuses;
    }

    pub(super) fn make_pointless(&self) {
        self.inner().pointless = true;
    }

    pub(super) fn advance(&self, by: Duration) {
        let now = self.inner().now.checked_add(by).unwrap();
        self.inner().now = now;
    }

    /// How long to wait before the operation is called again; none for any other fault.
    pub(super) fn pause_of(&self, fault: &Fault) -> Option<Duration> {
        self.inner().pauses.get(&fault.to_string()).copied()
    }

    pub(super) fn open(&self) -> Result<Inventory<'_>, Fault> {
        let (seen, state) = {
            let inner = self.inner();
            (inner.version, inner.state.clone())
        };
        let store = Store {
            world: self,
            seen: Mutex::new(seen),
        };
        Inventory::with_ledger(store, state.as_ref(), "Test a")
    }

    /// The slots of all that exists, in the order of its creation.
    pub(super) fn slots(&self) -> Vec<String> {
        let inner = self.inner();
        let mut there: Vec<(&String, &Made)> = inner.made.iter().filter(|(_, made)| made.gone.is_none()).collect();
        there.sort_by_key(|(id, _)| number_of(id));
        there.into_iter().map(|(_, made)| made.slot.clone()).collect()
    }

    pub(super) fn count(&self) -> usize {
        self.slots().len()
    }

    pub(super) fn tags_requested(&self) -> usize {
        self.inner().tags.len()
    }

    /// How many were deleted while another one of their slot existed.
    pub(super) fn doubles_deleted(&self) -> usize {
        let inner = self.inner();
        let there = |slot: &String| {
            inner
                .made
                .values()
                .any(|made| made.slot == *slot && made.gone.is_none())
        };
        inner.deleted.iter().filter(|slot| there(slot)).count()
    }

    /// Deletes it behind the extension's back.
    pub(super) fn lose(&self, slot: &str) {
        let mut inner = self.inner();
        let now = inner.now;
        for made in inner.made.values_mut().filter(|made| made.slot == slot) {
            made.gone = Some(now);
        }
    }

    /// # Panics
    /// Something exists that the state does not name.
    pub(super) fn check_that_all_is_named(&self) {
        let inner = self.inner();
        let state = inner.state.as_ref().map(RawJson::value).unwrap_or_default();
        let entries = state["resources"].as_array().cloned().unwrap_or_default();
        for (id, made) in inner.made.iter().filter(|(_, made)| made.gone.is_none()) {
            let names = |entry: &Value| entry["id"] == id.as_str() || entry["tag"] == made.tag.as_str();
            assert!(
                entries.iter().any(names),
                "{id} with tag {} is not in {state}",
                made.tag
            );
        }
    }

    /// A place where the process may end: it never goes on from there.
    async fn place(&self) {
        let left = self.inner().left;
        match left.checked_sub(1) {
            Some(left) => self.inner().left = left,
            None => std::future::pending().await,
        }
    }

    /// Does something between two such places.
    async fn call<T>(&self, effect: impl FnOnce(&mut Inner) -> T) -> T {
        self.place().await;
        let done = effect(&mut self.inner());
        self.place().await;
        done
    }
}

fn number_of(id: &str) -> usize {
    let (_, number) = id.rsplit_once('-').unwrap();
    number.parse().unwrap()
}

/// What one process sees of the state.
struct Store<'a> {
    world: &'a World,
    seen: Mutex<u64>,
}

#[async_trait]
impl Ledger for Store<'_> {
    async fn save(&self, state: RawJson) -> Result<(), Fault> {
        self.world
            .call(|inner| {
                let mut seen = self.seen.lock().unwrap();
                if *seen != inner.version {
                    return Err(Fault::transient("another process works on it"));
                }
                inner.version += 1;
                *seen = inner.version;
                inner.state = Some(state);
                Ok(())
            })
            .await
    }

    fn now(&self) -> Timestamp {
        self.world.inner().now
    }

    fn tag(&self) -> String {
        Inventory::tag_for("shoot--a--b", &self.world.entropy)
    }

    fn may_begin(&self) -> Result<(), Fault> {
        match self.world.inner().pointless {
            true => Err(Fault::transient("pointless")),
            false => Ok(()),
        }
    }

    fn again(&self, after: Duration, reason: String) -> Fault {
        self.world.inner().pauses.insert(reason.clone(), after);
        Fault::transient(reason)
    }
}

/// A resource of the cloud. Everything but the network needs the network.
pub(super) struct Thing<'a> {
    world: &'a World,
    slot: String,
    when_gone: WhenGone,
}

impl<'a> Thing<'a> {
    pub(super) fn new(world: &'a World, slot: &str) -> Self {
        Self {
            world,
            slot: slot.to_owned(),
            when_gone: WhenGone::Report,
        }
    }

    pub(super) fn recreated(mut self) -> Self {
        self.when_gone = WhenGone::Recreate;
        self
    }
}

impl Inner {
    fn is_there(&self, slot: &str) -> bool {
        self.made.values().any(|made| made.slot == slot && made.gone.is_none())
    }
}

#[async_trait]
impl Resource for Thing<'_> {
    fn slot(&self) -> &str {
        &self.slot
    }

    async fn find(&self, tag: &str) -> Result<Vec<String>, Fault> {
        let lag = self.world.lag;
        self.world
            .call(|inner| {
                let now = inner.now;
                let seen = |at: Timestamp| at.checked_add(lag).unwrap() <= now;
                let shown = |made: &Made| made.tag == tag && seen(made.at) && !made.gone.is_some_and(seen);
                let found = inner.made.iter().filter(|(_, made)| shown(made));
                Ok(found.map(|(id, _)| id.clone()).collect())
            })
            .await
    }

    async fn create(&self, tag: &str) -> Result<String, Fault> {
        self.world
            .call(|inner| {
                inner.tags.insert(tag.to_owned());
                if inner.refuses {
                    return Err(Fault::quota("no more networks"));
                }
                assert!(self.slot == "network" || inner.is_there("network"), "made too early");
                inner.number += 1;
                let id = format!("{}-{}", self.slot, inner.number);
                let made = Made {
                    slot: self.slot.clone(),
                    tag: tag.to_owned(),
                    at: inner.now,
                    gone: None,
                };
                inner.made.insert(id.clone(), made);
                Ok(id)
            })
            .await
    }

    async fn update(&self, id: &str) -> Result<Presence, Fault> {
        self.world
            .call(|inner| {
                let there = inner.made.get(id).is_some_and(|made| made.gone.is_none());
                Ok(if there { Presence::There } else { Presence::Gone })
            })
            .await
    }

    async fn delete(&self, id: &str) -> Result<(), Fault> {
        self.world
            .call(|inner| {
                let now = inner.now;
                let networks = inner
                    .made
                    .values()
                    .filter(|made| made.slot == "network" && made.gone.is_none());
                let last_network = self.slot == "network" && networks.count() == 1;
                let others = inner
                    .made
                    .values()
                    .any(|made| made.slot != "network" && made.gone.is_none());
                assert!(!(last_network && others), "the network is in use");
                if let Some(made) = inner.made.get_mut(id).filter(|made| made.gone.is_none()) {
                    made.gone = Some(now);
                    inner.deleted.push(self.slot.clone());
                }
                Ok(())
            })
            .await
    }

    fn when_gone(&self) -> WhenGone {
        self.when_gone
    }
}
