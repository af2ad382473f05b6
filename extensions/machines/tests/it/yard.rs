//! Machines that are entries of a map, with a driver for them and the node agents that join for them. A test makes it slow, full,
//! or broken.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use api_meta::Fault;
use async_trait::async_trait;
use base_clock::Entropy;
use extensions_machines::{Created, Driver, DriverState, MachineRequest};
use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;

/// The name of the driver.
pub(crate) const PROVIDER: &str = "yard";

/// What the yard is like.
#[derive(Clone, Debug)]
pub(crate) struct Moods {
    /// How many machines it has room for.
    pub(crate) limit: usize,
    /// How long a call takes.
    pub(crate) slow: Duration,
    /// How long a machine takes to join.
    pub(crate) boot: Duration,
    /// Whether new machines join.
    pub(crate) joins: bool,
    /// What all calls but looks fail with, by class.
    pub(crate) broken: Option<fn(&'static str) -> Fault>,
    /// Calls that fail at random.
    pub(crate) faults: Option<Faults>,
}

/// Faults of calls, drawn by a seed: so many of a thousand fail, half of them after they had their effect.
#[derive(Clone, Debug)]
pub(crate) struct Faults {
    entropy: Entropy,
    per_mille: u64,
}

impl Faults {
    pub(crate) fn seeded(seed: u64, per_mille: u64) -> Self {
        Self {
            entropy: Entropy::seeded(seed),
            per_mille,
        }
    }

    /// Whether the next call fails, and if so whether it has its effect.
    fn next(&self) -> Option<bool> {
        let drawn = self.entropy.below(1000);
        (drawn < self.per_mille).then_some(drawn.is_multiple_of(2))
    }
}

/// One machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Made {
    pub(crate) id: String,
    pub(crate) class: String,
}

struct State {
    moods: Moods,
    /// By the names of their Machine objects, which contain the namespace.
    machines: BTreeMap<String, Made>,
    /// How many were ever made.
    made: usize,
}

/// The yard. Clones are the same one.
#[derive(Clone)]
pub(crate) struct Yard {
    state: Arc<Mutex<State>>,
    nodes: Api<Node>,
}

impl Yard {
    /// An empty yard whose machines join the cluster of `client`.
    pub(crate) fn new(client: Client) -> Self {
        let moods = Moods {
            limit: usize::MAX,
            slow: Duration::from_secs(1),
            boot: Duration::from_secs(20),
            joins: true,
            broken: None,
            faults: None,
        };
        let state = State {
            moods,
            machines: BTreeMap::new(),
            made: 0,
        };
        Self {
            state: Arc::new(Mutex::new(state)),
            nodes: Api::all(client),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub(crate) fn set(&self, change: impl FnOnce(&mut Moods)) {
        change(&mut self.state().moods);
    }

    pub(crate) fn machines(&self) -> BTreeMap<String, Made> {
        self.state().machines.clone()
    }

    pub(crate) fn made(&self) -> usize {
        self.state().made
    }

    /// Has all machines join that are there.
    pub(crate) async fn join_all(&self) {
        let names: Vec<String> = self.state().machines.keys().cloned().collect();
        for name in names {
            self.join(&name).await;
        }
    }

    /// Ends a machine behind its driver's back; its node is not ready from then on.
    pub(crate) async fn lose(&self, name: &str) {
        self.state().machines.remove(name).unwrap();
        self.sicken(name, "Unknown").await;
    }

    /// Lets a node be ready (`True`) or not.
    pub(crate) async fn sicken(&self, name: &str, ready: &str) {
        let status = json!({"status": {"conditions": [{"type": "Ready", "status": ready, "reason": "Test"}]}});
        let params = PatchParams::default();
        self.nodes
            .patch_status(name, &params, &Patch::Merge(status))
            .await
            .unwrap();
    }

    async fn join(&self, name: &str) {
        if !self.state().machines.contains_key(name) {
            return;
        }
        let node: Node = serde_json::from_value(json!({
            "metadata": {"name": name},
            "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "Test"}]},
        }))
        .unwrap();
        // A second time after a restart.
        drop(self.nodes.create(&PostParams::default(), &node).await);
        // A machine that went meanwhile has no node; its Machine may be gone already.
        if !self.state().machines.contains_key(name) {
            drop(self.nodes.delete(name, &Default::default()).await);
        }
    }

    /// The time that a call takes, and what it fails with before its effect. Whether it fails after it.
    async fn begin(&self, what: &'static str) -> Result<bool, Fault> {
        let (slow, broken, fails) = {
            let State { moods, .. } = &*self.state();
            let fails = moods.faults.as_ref().and_then(Faults::next);
            (moods.slow, moods.broken, fails)
        };
        tokio::time::sleep(slow).await;
        match (broken, fails) {
            (Some(fault), _) => Err(fault(what)),
            (None, Some(false)) => Err(Fault::transient(format!("cannot {what}: no answer"))),
            (None, fails) => Ok(fails.is_some()),
        }
    }

    /// The answer, unless it is lost.
    fn end<T>(lost: bool, answer: T) -> Result<T, Fault> {
        match lost {
            true => Err(Fault::transient("the answer was lost")),
            false => Ok(answer),
        }
    }
}

#[async_trait]
impl Driver for Yard {
    fn provider(&self) -> &str {
        PROVIDER
    }

    async fn create(&self, request: MachineRequest<'_>) -> Result<Created, Fault> {
        let lost = self.begin("create").await?;
        let name = request.name().to_owned();
        let (id, boot) = {
            let mut state = self.state();
            let State { moods, machines, made } = &mut *state;
            if !machines.contains_key(&name) {
                if machines.len() >= moods.limit {
                    let text = format!(
                        "QuotaExceeded: the account has {} of {} machines",
                        machines.len(),
                        moods.limit
                    );
                    return Err(Fault::quota(text));
                }
                *made += 1;
                let class = request.class.metadata.name.clone().unwrap();
                let id = format!("{PROVIDER}:///{made}");
                machines.insert(name.clone(), Made { id, class });
            }
            (machines[&name].id.clone(), moods.joins.then_some(moods.boot))
        };
        if let Some(boot) = boot {
            let (yard, name) = (self.clone(), name.clone());
            tokio::spawn(async move {
                tokio::time::sleep(boot).await;
                yard.join(&name).await;
            });
        }
        let created = Created {
            provider_id: id,
            node_name: name,
        };
        Self::end(lost, created)
    }

    async fn status(&self, request: MachineRequest<'_>) -> Result<DriverState, Fault> {
        Ok(match self.state().machines.contains_key(request.name()) {
            true => DriverState::Exists(None),
            false => DriverState::Gone,
        })
    }

    async fn delete(&self, request: MachineRequest<'_>) -> Result<(), Fault> {
        let lost = self.begin("delete").await?;
        self.state().machines.remove(request.name());
        Self::end(lost, ())
    }
}
