//! What steps of an operation leave for later ones, typed. A step reads and writes through a [`Given`], which hands out
//! what the step declares in `control_plane_shoot_flow` and nothing else: a use that is not declared there is a bug that the
//! first run shows, and a declared one without a giver before it is refused when the flow is built.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use api_meta::{Fault, RawJson};
use components_hosted::ComponentId;
use control_plane_shoot_flow::{Kind, Managed, Point, ShootTask, Slot};

use super::task::os_config::{Pool, PoolKey};
use super::task::secrets::ShootSecrets;
use crate::extension::Request;

/// Requests written onto extension objects, by the objects' names.
pub(crate) type Requests = BTreeMap<String, Request>;

/// All slots of an operation.
#[derive(Default)]
pub(crate) struct Slots(Mutex<Values>);

#[derive(Default)]
struct Values {
    secrets: Option<ShootSecrets>,
    /// The outer `None`: not reported yet; the inner: reported without one.
    infrastructure: Option<Option<RawJson>>,
    nodes: Vec<String>,
    connection: Option<kube::Client>,
    pool_keys: Option<Vec<PoolKey>>,
    pools: Option<Vec<Pool>>,
    requests: BTreeMap<Slot, Requests>,
    generations: BTreeMap<Slot, i64>,
}

impl Slots {
    /// Slots of an operation on a shoot whose nodes' networks are known to be these.
    pub(crate) fn new(nodes: Vec<String>) -> Self {
        Self(Mutex::new(Values {
            nodes,
            ..Values::default()
        }))
    }

    /// The slots as a task may use them.
    pub(crate) fn of(&self, task: ShootTask) -> Given<'_> {
        Given { slots: self, task }
    }

    /// The networks of nodes, as far as they are known. For what is no step of a flow.
    pub(crate) fn nodes(&self) -> Vec<String> {
        self.values().nodes.clone()
    }

    /// Names of Secrets that no pod mounts any more once all has been rolled out.
    pub(crate) fn obsolete_secrets(&self) -> Vec<String> {
        let values = self.values();
        values
            .secrets
            .as_ref()
            .map(|secrets| secrets.obsolete.clone())
            .unwrap_or_default()
    }

    fn values(&self) -> MutexGuard<'_, Values> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The slots of an operation, for one task of it.
#[derive(Clone, Copy)]
pub(crate) struct Given<'s> {
    slots: &'s Slots,
    task: ShootTask,
}

impl Given<'_> {
    fn read<T>(&self, slot: Slot, read: impl FnOnce(&Values) -> T) -> Result<T, Fault> {
        match self.task.needs().iter().any(|need| need.slot() == slot) {
            true => Ok(read(&self.slots.values())),
            false => Err(undeclared(self.task, "reads", slot)),
        }
    }

    fn must<T>(&self, slot: Slot, read: impl FnOnce(&Values) -> Option<T>) -> Result<T, Fault> {
        self.read(slot, read)?.ok_or_else(|| {
            Fault::bug(format!("{:?} reads {slot:?} before it is given", self.task))
                .hint("report it with the Shoot's events")
        })
    }

    fn give(&self, slot: Slot, write: impl FnOnce(&mut Values)) -> Result<(), Fault> {
        match self.task.gives().contains(&slot) {
            true => {
                write(&mut self.slots.values());
                Ok(())
            }
            false => Err(undeclared(self.task, "writes", slot)),
        }
    }

    /// Authorities, certificates and keys.
    ///
    /// # Errors
    /// A bug: the task does not declare it, or it has not been given. As for all that follows.
    pub(crate) fn secrets(&self) -> Result<ShootSecrets, Fault> {
        self.must(Slot::Secrets, |values| values.secrets.clone())
    }

    pub(crate) fn give_secrets(&self, secrets: ShootSecrets) -> Result<(), Fault> {
        self.give(Slot::Secrets, |values| values.secrets = Some(secrets))
    }

    /// The infrastructure's `status.providerStatus`, as read; none if it reported none.
    pub(crate) fn infrastructure(&self) -> Result<Option<RawJson>, Fault> {
        self.must(Slot::Infrastructure, |values| values.infrastructure.clone())
    }

    pub(crate) fn give_infrastructure(&self, status: Option<RawJson>) -> Result<(), Fault> {
        self.give(Slot::Infrastructure, |values| values.infrastructure = Some(status))
    }

    /// The networks of nodes: those that the infrastructure reported, else those known before.
    pub(crate) fn nodes(&self) -> Result<Vec<String>, Fault> {
        self.read(Slot::Nodes, |values| values.nodes.clone())
    }

    /// Replaces the networks of nodes; an empty report replaces nothing. Returns those that hold now.
    pub(crate) fn give_nodes(&self, nodes: &[String]) -> Result<Vec<String>, Fault> {
        self.give(Slot::Nodes, |values| {
            if !nodes.is_empty() {
                values.nodes = nodes.to_vec();
            }
        })?;
        Ok(self.slots.nodes())
    }

    /// A client of the shoot's API server.
    pub(crate) fn connection(&self) -> Result<kube::Client, Fault> {
        self.must(Slot::Connection, |values| values.connection.clone())
    }

    /// The same, where the task may run without.
    pub(crate) fn connection_if_any(&self) -> Result<Option<kube::Client>, Fault> {
        self.read(Slot::Connection, |values| values.connection.clone())
    }

    pub(crate) fn give_connection(&self, client: kube::Client) -> Result<(), Fault> {
        self.give(Slot::Connection, |values| values.connection = Some(client))
    }

    /// The names of what the nodes of each pool are to be.
    pub(crate) fn pool_keys(&self) -> Result<Vec<PoolKey>, Fault> {
        self.must(Slot::PoolKeys, |values| values.pool_keys.clone())
    }

    pub(crate) fn give_pool_keys(&self, keys: Vec<PoolKey>) -> Result<(), Fault> {
        self.give(Slot::PoolKeys, |values| values.pool_keys = Some(keys))
    }

    /// What the nodes of each pool are to be.
    pub(crate) fn pools(&self) -> Result<Vec<Pool>, Fault> {
        self.must(Slot::Pools, |values| values.pools.clone())
    }

    pub(crate) fn give_pools(&self, pools: Vec<Pool>) -> Result<(), Fault> {
        self.give(Slot::Pools, |values| values.pools = Some(pools))
    }

    /// The requests written onto objects of a kind.
    pub(crate) fn requests(&self, kind: Kind) -> Result<Requests, Fault> {
        self.requests_in(Slot::Request(kind))
    }

    pub(crate) fn give_requests(&self, kind: Kind, requests: Requests) -> Result<(), Fault> {
        self.give_requests_in(Slot::Request(kind), requests)
    }

    /// The requests written onto the Extensions of a point.
    pub(crate) fn requests_at(&self, point: Point) -> Result<Requests, Fault> {
        self.requests_in(Slot::Requests(point))
    }

    pub(crate) fn give_requests_at(&self, point: Point, requests: Requests) -> Result<(), Fault> {
        self.give_requests_in(Slot::Requests(point), requests)
    }

    fn requests_in(&self, slot: Slot) -> Result<Requests, Fault> {
        self.must(slot, |values| values.requests.get(&slot).cloned())
    }

    fn give_requests_in(&self, slot: Slot, requests: Requests) -> Result<(), Fault> {
        self.give(slot, |values| {
            values.requests.insert(slot, requests);
        })
    }

    /// The generation in which a component's workload was written: a wait does not trust a stale cache.
    pub(crate) fn written(&self, id: ComponentId) -> Result<i64, Fault> {
        let slot = Slot::Written(id);
        self.must(slot, |values| values.generations.get(&slot).copied())
    }

    pub(crate) fn give_written(&self, id: ComponentId, generation: i64) -> Result<(), Fault> {
        self.give_generation(Slot::Written(id), generation)
    }

    /// The generation in which a ManagedResource was written.
    pub(crate) fn applied(&self, managed: Managed) -> Result<i64, Fault> {
        let slot = Slot::Applied(managed);
        self.must(slot, |values| values.generations.get(&slot).copied())
    }

    pub(crate) fn give_applied(&self, managed: Managed, generation: i64) -> Result<(), Fault> {
        self.give_generation(Slot::Applied(managed), generation)
    }

    fn give_generation(&self, slot: Slot, generation: i64) -> Result<(), Fault> {
        self.give(slot, |values| {
            values.generations.insert(slot, generation);
        })
    }
}

fn undeclared(task: ShootTask, what: &str, slot: Slot) -> Fault {
    Fault::bug(format!("{task:?} {what} {slot:?}, which it does not declare")).hint("report it with the Shoot's events")
}

#[cfg(test)]
mod tests {
    use control_plane_shoot_flow::{Single, Step, Verb, Way};

    use super::*;

    fn task(step: Step) -> ShootTask {
        ShootTask {
            way: Way::Reconcile,
            step,
        }
    }

    #[test]
    fn a_task_reads_and_writes_only_what_it_declares() {
        let slots = Slots::new(Vec::new());
        let infrastructure = slots.of(task(Step::Kind(Kind::Infrastructure, Verb::Wait)));
        infrastructure.give_infrastructure(None).unwrap();
        let plane = slots.of(task(Step::Kind(Kind::ControlPlane, Verb::Deploy)));
        assert_eq!(plane.infrastructure().unwrap(), None);
        let refused = plane.give_infrastructure(None).unwrap_err().to_string();
        assert!(
            refused.contains("writes Infrastructure, which it does not declare"),
            "{refused}"
        );
        let other = slots.of(task(Step::Single(Single::DeployNamespace)));
        assert!(other.infrastructure().is_err());
    }

    #[test]
    fn a_value_that_was_not_given_is_a_bug_and_not_a_default() {
        let slots = Slots::new(Vec::new());
        let worker = slots.of(task(Step::Kind(Kind::Worker, Verb::Deploy)));
        let refused = worker.infrastructure().unwrap_err().to_string();
        assert!(refused.contains("before it is given"), "{refused}");
    }

    #[test]
    fn an_empty_report_of_nodes_replaces_nothing() {
        let slots = Slots::new(vec!["10.0.0.0/16".to_owned()]);
        let infrastructure = slots.of(task(Step::Kind(Kind::Infrastructure, Verb::Wait)));
        assert_eq!(infrastructure.give_nodes(&[]).unwrap(), ["10.0.0.0/16"]);
        let reported = ["10.1.0.0/16".to_owned()];
        assert_eq!(infrastructure.give_nodes(&reported).unwrap(), reported);
    }
}
