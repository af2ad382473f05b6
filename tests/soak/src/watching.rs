//! All Shoots as the garden shows them, by one watch that outlives the process it watches.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use api_core::v1beta1::Shoot;
use api_meta::LastOperationState;
use base_client::watch;
use futures::StreamExt;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, ResourceExt};

use crate::wish::Place;

/// What was seen last.
#[derive(Clone, Default)]
pub struct Watching(Arc<Mutex<BTreeMap<String, Shoot>>>);

/// How many there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// All.
    pub all: u64,
    /// Such that are worked on, or will be.
    pub under_way: u64,
    /// Such that wait for their owner.
    pub failed: u64,
}

impl Watching {
    /// Begins to watch, for as long as the runtime lives.
    #[must_use]
    pub fn begin(garden: Client) -> Self {
        let watching = Self::default();
        let seen = watching.clone();
        tokio::spawn(async move {
            let mut listed = BTreeMap::new();
            let mut events = std::pin::pin!(watch(Api::<Shoot>::all(garden), watcher::Config::default()));
            while let Some(event) = events.next().await {
                let mut seen = seen.0.lock().unwrap_or_else(PoisonError::into_inner);
                match event {
                    Ok(Event::Init) => listed.clear(),
                    Ok(Event::InitApply(shoot)) => drop(listed.insert(key(&shoot), shoot)),
                    Ok(Event::InitDone) => *seen = std::mem::take(&mut listed),
                    Ok(Event::Apply(shoot)) => drop(seen.insert(key(&shoot), shoot)),
                    Ok(Event::Delete(shoot)) => drop(seen.remove(&key(&shoot))),
                    // The process is away.
                    Err(_) => {}
                }
            }
        });
        watching
    }

    /// A Shoot.
    #[must_use]
    pub fn get(&self, place: &Place) -> Option<Shoot> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&place.to_string())
            .cloned()
    }

    /// How many there are.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = |what: fn(&Shoot) -> bool| seen.values().filter(|shoot| what(shoot)).count() as u64;
        Counts {
            all: seen.len() as u64,
            under_way: count(|shoot| {
                !matches!(
                    state(shoot),
                    Some(LastOperationState::Succeeded | LastOperationState::Failed)
                )
            }),
            failed: count(|shoot| state(shoot) == Some(LastOperationState::Failed)),
        }
    }

    /// Those that are worked on, each with what its last operation says.
    #[must_use]
    pub fn under_way(&self) -> Vec<String> {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let busy = seen
            .iter()
            .filter(|(_, shoot)| state(shoot) != Some(LastOperationState::Succeeded));
        busy.map(|(key, shoot)| {
            let status = shoot.status.as_ref();
            let operation = status.and_then(|status| status.last_operation.as_ref());
            let progress = operation.map_or_else(String::new, |last| {
                format!(
                    "{:?} {:?} {}%: {}",
                    last.type_, last.state, last.progress, last.description
                )
            });
            let errors = status.map(|status| status.last_errors.as_slice()).unwrap_or_default();
            let errors: Vec<&str> = errors.iter().map(|error| error.description.as_str()).collect();
            format!("{key}: {progress} {}", errors.join("; "))
        })
        .collect()
    }
}

/// How the last operation of the newest generation stands; `None`: it has not been begun.
fn state(shoot: &Shoot) -> Option<LastOperationState> {
    let status = shoot.status.as_ref()?;
    let deleted = shoot.metadata.deletion_timestamp.is_some();
    let state = status.last_operation.as_ref()?.state.clone();
    let old = status.observed_generation != shoot.metadata.generation;
    let of_before = old || deleted && state == LastOperationState::Succeeded;
    (!of_before).then_some(state)
}

fn key(shoot: &Shoot) -> String {
    format!("{}/{}", shoot.namespace().unwrap_or_default(), shoot.name_any())
}
