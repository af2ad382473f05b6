//! What machines and deployments of a namespace were like at each moment, and whether that was allowed.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use api_machine::{Machine, MachineDeployment, MachinePhase, NAME_LABEL};
use base_client::watch;
use futures::StreamExt;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::runtime::watcher::{Config, Event};
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::task::AbortHandle;

/// What became of one object, in the order of the store's revisions.
#[derive(Clone, Debug)]
enum Moment {
    Deployment(String, Option<Room>),
    Machine(String, Option<Seen>),
}

/// What a deployment allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Room {
    desired: i32,
    surge: i32,
    unavailable: i32,
}

/// What counts of a machine.
#[derive(Clone, Debug)]
struct Seen {
    deployment: String,
    id: Option<String>,
    ready: bool,
    /// It is not being deleted, and its set does not replace it.
    counts: bool,
}

type Moments = Arc<Mutex<BTreeMap<u64, Moment>>>;

/// Watches one namespace until it is dropped.
pub(crate) struct Witness {
    moments: Moments,
    watches: [AbortHandle; 2],
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.watches.iter().for_each(AbortHandle::abort);
    }
}

impl Witness {
    pub(crate) fn of(client: &Client, namespace: &str) -> Self {
        let moments = Moments::default();
        let deployments = record(client, namespace, &moments, |deployment: &MachineDeployment, exists| {
            let wanted = exists && deployment.metadata.deletion_timestamp.is_none();
            Moment::Deployment(deployment.name_any(), wanted.then(|| room_of(deployment)))
        });
        let machines = record(client, namespace, &moments, |machine: &Machine, exists| {
            Moment::Machine(machine.name_any(), exists.then(|| seen_of(machine)))
        });
        Self {
            moments,
            watches: [deployments, machines],
        }
    }

    /// Replays all that was seen. `spare`: so many machines are not ready because the test took them.
    pub(crate) fn check(&self, row: &str, spare: i32) {
        let mut replay = Replay {
            row: row.to_owned(),
            spare,
            ..Replay::default()
        };
        let moments = self.moments.lock().unwrap();
        assert!(!moments.is_empty(), "{row}: nothing was seen");
        for moment in moments.values() {
            replay.step(moment);
        }
    }
}

fn record<K>(
    client: &Client,
    namespace: &str,
    moments: &Moments,
    of: impl Fn(&K, bool) -> Moment + Send + 'static,
) -> AbortHandle
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let (api, moments) = (Api::<K>::namespaced(client.clone(), namespace), moments.clone());
    let watching = async move {
        let mut events = std::pin::pin!(watch(api, Config::default()));
        while let Some(event) = events.next().await {
            let (object, exists) = match event.unwrap() {
                Event::Init | Event::InitDone => continue,
                Event::InitApply(object) | Event::Apply(object) => (object, true),
                Event::Delete(object) => (object, false),
            };
            let revision = object.resource_version().unwrap().parse().unwrap();
            moments.lock().unwrap().insert(revision, of(&object, exists));
        }
    };
    tokio::spawn(watching).abort_handle()
}

/// As machine-controller-manager reads a strategy: percentages round up for the surge and down for the unavailable, and one of
/// both is at least one.
fn room_of(deployment: &MachineDeployment) -> Room {
    let desired = deployment.spec.replicas.unwrap_or(1);
    let strategy = deployment.spec.strategy.clone().unwrap();
    let rolling = strategy.rolling_update.unwrap();
    let number = |value: Option<IntOrString>, up: i32| match value.unwrap() {
        IntOrString::Int(number) => number,
        IntOrString::String(text) => {
            let percent: i32 = text.trim_end_matches('%').parse().unwrap();
            (percent * desired + up) / 100
        }
    };
    let (surge, unavailable) = (number(rolling.max_surge, 99), number(rolling.max_unavailable, 0));
    Room {
        desired,
        surge,
        unavailable: if surge == 0 { unavailable.max(1) } else { unavailable },
    }
}

fn seen_of(machine: &Machine) -> Seen {
    let status = machine.status.as_ref();
    let phase = status
        .and_then(|status| status.current_status.as_ref())
        .and_then(|current| current.phase.clone());
    let stays = machine.metadata.deletion_timestamp.is_none();
    Seen {
        deployment: machine.labels()[NAME_LABEL].clone(),
        id: machine.spec.provider_id.clone(),
        ready: stays && phase == Some(MachinePhase::Running),
        counts: stays && phase != Some(MachinePhase::Failed),
    }
}

/// Bounds of one deployment. They move with what is wanted: a bound that never held is not demanded, and one that holds stays.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    room: Room,
    floor: i32,
    ceiling: i32,
}

#[derive(Default)]
struct Replay {
    row: String,
    spare: i32,
    machines: BTreeMap<String, Seen>,
    bounds: BTreeMap<String, Bounds>,
}

impl Replay {
    fn step(&mut self, moment: &Moment) {
        let deployment = match moment {
            Moment::Deployment(name, Some(room)) => {
                let bounds = self.bounds.entry(name.clone()).or_insert(Bounds {
                    room: *room,
                    floor: 0,
                    ceiling: 0,
                });
                bounds.room = *room;
                name.clone()
            }
            Moment::Deployment(name, None) => {
                self.bounds.remove(name);
                return;
            }
            Moment::Machine(name, Some(seen)) => {
                self.machines.insert(name.clone(), seen.clone());
                self.check_ids();
                seen.deployment.clone()
            }
            Moment::Machine(name, None) => match self.machines.remove(name) {
                Some(seen) => seen.deployment,
                None => return,
            },
        };
        self.check(&deployment);
    }

    fn check_ids(&self) {
        let mut ids: Vec<&String> = self.machines.values().filter_map(|seen| seen.id.as_ref()).collect();
        ids.sort();
        let count = ids.len();
        ids.dedup();
        assert_eq!(
            ids.len(),
            count,
            "{}: one machine twice: {:#?}",
            self.row,
            self.machines
        );
    }

    fn check(&mut self, deployment: &str) {
        let of_deployment = || self.machines.values().filter(|seen| seen.deployment == deployment);
        let ready = of_deployment().filter(|seen| seen.ready).count() as i32;
        let counting = of_deployment().filter(|seen| seen.counts).count() as i32;
        let Some(bounds) = self.bounds.get_mut(deployment) else {
            return;
        };
        let Room {
            desired,
            surge,
            unavailable,
        } = bounds.room;
        let floor = desired - unavailable - self.spare;
        bounds.floor = bounds.floor.min(floor).max(floor.min(ready));
        assert!(
            ready >= bounds.floor,
            "{}: {deployment} has {ready} ready machines, and {bounds:?}",
            self.row
        );
        if counting > desired + surge {
            assert!(
                counting <= bounds.ceiling,
                "{}: {deployment} has {counting} machines, and {bounds:?}",
                self.row
            );
        }
        bounds.ceiling = counting.max(desired + surge);
    }
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    fn deployment(desired: i32) -> Moment {
        let room = Room {
            desired,
            surge: 1,
            unavailable: 0,
        };
        Moment::Deployment("d".into(), Some(room))
    }

    fn machine(name: &str, id: &str, ready: bool) -> Moment {
        let seen = Seen {
            deployment: "d".into(),
            id: Some(id.into()),
            ready,
            counts: true,
        };
        Moment::Machine(name.into(), Some(seen))
    }

    /// Whether a witness of these moments is content.
    fn allows(moments: &[Moment], spare: i32) -> bool {
        let replay = || {
            let mut replay = Replay {
                spare,
                ..Replay::default()
            };
            moments.iter().for_each(|moment| replay.step(moment));
        };
        catch_unwind(replay).is_ok()
    }

    #[test]
    fn a_witness_notices_too_few_too_many_and_one_machine_twice() {
        let two = || vec![deployment(2), machine("a", "1", true), machine("b", "2", true)];
        let then = |moments: &[Moment]| [two(), moments.to_vec()].concat();
        assert!(allows(&then(&[machine("c", "3", false)]), 0));
        assert!(
            !allows(&then(&[machine("c", "3", false), machine("d", "4", false)]), 0),
            "surge is 1"
        );
        assert!(!allows(&then(&[machine("a", "1", false)]), 0), "unavailability is 0");
        assert!(allows(&then(&[machine("a", "1", false)]), 1), "the row takes one");
        assert!(!allows(&then(&[machine("c", "2", false)]), 0), "an ID twice");
        assert!(allows(&then(&[deployment(1), Moment::Machine("b".into(), None)]), 0));
        assert!(
            allows(&then(&[deployment(3), machine("c", "3", false)]), 0),
            "more are not demanded at once"
        );
        let smaller = [deployment(1), machine("c", "3", false)];
        assert!(!allows(&then(&smaller), 0), "none is made while there are too many");
    }
}
