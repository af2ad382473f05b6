//! What steps leave for later ones. A step declares what it needs and what it gives; a flow in which a need is not given by
//! a step before it is refused, so that an edge that carries data cannot be lost unseen.

use std::fmt;

use base_flow::{Flow, FlowError};
use components_hosted::ComponentId;

use crate::step::{Kind, Managed, Point, ShootTask, Step, Verb, Way};

/// A place for one result. Exactly one step gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Slot {
    /// Authorities, certificates and keys.
    Secrets,
    /// The status that the infrastructure's extension has reported, byte for byte.
    Infrastructure,
    /// The networks of nodes.
    Nodes,
    /// A client of the shoot's API server.
    Connection,
    /// The names of what the nodes of each pool are to be.
    PoolKeys,
    /// What the nodes of each pool are to be.
    Pools,
    /// The request written onto an extension object.
    Request(Kind),
    /// The requests written onto the Extensions of a point.
    Requests(Point),
    /// The generation in which a component was written.
    Written(ComponentId),
    /// The generation in which a ManagedResource was written.
    Applied(Managed),
}

/// A slot that a step reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Its giver must have run.
    Must(Slot),
    /// Its giver comes before, and may be skipped: the step knows what to do without.
    May(Slot),
}

impl Need {
    /// The slot.
    #[must_use]
    pub fn slot(self) -> Slot {
        match self {
            Self::Must(slot) | Self::May(slot) => slot,
        }
    }
}

impl ShootTask {
    /// What it reads.
    #[must_use]
    pub fn needs(self) -> Vec<Need> {
        use Need::{May, Must};
        match self.step {
            Step::Single(single) => single.row().needs.to_vec(),
            Step::Kind(kind, Verb::Deploy) => match kind {
                Kind::Infrastructure => vec![Must(Slot::Secrets)],
                Kind::InternalDnsRecord | Kind::ExternalDnsRecord | Kind::Network | Kind::ContainerRuntime => {
                    Vec::new()
                }
                // A deletion does not wait for the infrastructure: it reads the object.
                Kind::ControlPlane if self.way == Way::Delete => Vec::new(),
                Kind::ControlPlane => vec![Must(Slot::Infrastructure)],
                Kind::OperatingSystemConfig => vec![Must(Slot::Secrets), Must(Slot::Connection)],
                Kind::Worker => vec![Must(Slot::Secrets), Must(Slot::Infrastructure), Must(Slot::Pools)],
            },
            Step::Kind(Kind::OperatingSystemConfig, Verb::Wait) => {
                vec![Must(Slot::PoolKeys), Must(Slot::Request(Kind::OperatingSystemConfig))]
            }
            // Written and waited for in one task.
            Step::Kind(Kind::InternalDnsRecord | Kind::ExternalDnsRecord, Verb::Wait) => Vec::new(),
            Step::Kind(kind, Verb::Wait) => vec![Must(Slot::Request(kind))],
            Step::Component(_, Verb::Deploy) => vec![Must(Slot::Secrets)],
            Step::Component(id, Verb::Wait) => {
                let written = id.members().map(|one| Must(Slot::Written(one)));
                let connects = (id == ComponentId::ApiServer).then_some(Must(Slot::Secrets));
                connects.into_iter().chain(written).collect()
            }
            Step::Extensions(point, Verb::Wait) => vec![Must(Slot::Requests(point))],
            Step::Managed(Managed::ShootSystem, Verb::Deploy) => vec![May(Slot::Nodes)],
            Step::Managed(Managed::NodeAgent, Verb::Deploy) => vec![Must(Slot::Pools)],
            Step::Managed(Managed::VpnShoot, Verb::Deploy) => vec![Must(Slot::Secrets), May(Slot::Nodes)],
            Step::Managed(managed, Verb::Wait) => vec![Must(Slot::Applied(managed))],
            Step::Extensions(_, Verb::Deploy) | Step::Managed(_, Verb::Deploy) => Vec::new(),
            Step::Kind(_, Verb::Destroy | Verb::WaitDestroyed)
            | Step::Component(_, Verb::Destroy | Verb::WaitDestroyed)
            | Step::Extensions(_, Verb::Destroy | Verb::WaitDestroyed)
            | Step::Managed(_, Verb::Destroy | Verb::WaitDestroyed) => Vec::new(),
        }
    }

    /// What it leaves.
    #[must_use]
    pub fn gives(self) -> Vec<Slot> {
        match self.step {
            Step::Single(single) => single.row().gives.to_vec(),
            Step::Kind(Kind::OperatingSystemConfig, Verb::Deploy) => {
                vec![Slot::PoolKeys, Slot::Request(Kind::OperatingSystemConfig)]
            }
            Step::Kind(Kind::InternalDnsRecord | Kind::ExternalDnsRecord, Verb::Deploy) => Vec::new(),
            Step::Kind(kind, Verb::Deploy) => vec![Slot::Request(kind)],
            Step::Kind(Kind::Infrastructure, Verb::Wait) => vec![Slot::Infrastructure, Slot::Nodes],
            Step::Kind(Kind::OperatingSystemConfig, Verb::Wait) => vec![Slot::Pools],
            Step::Component(id, Verb::Deploy) => id.members().map(Slot::Written).collect(),
            Step::Extensions(point, Verb::Deploy) => vec![Slot::Requests(point)],
            Step::Managed(managed, Verb::Deploy) => vec![Slot::Applied(managed)],
            Step::Kind(_, Verb::Wait | Verb::Destroy | Verb::WaitDestroyed)
            | Step::Component(_, Verb::Wait | Verb::Destroy | Verb::WaitDestroyed)
            | Step::Extensions(_, Verb::Wait | Verb::Destroy | Verb::WaitDestroyed)
            | Step::Managed(_, Verb::Wait | Verb::Destroy | Verb::WaitDestroyed) => Vec::new(),
        }
    }
}

/// Why there is no flow. All of these are mistakes in the code that builds it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShootFlowError {
    /// The graph is none.
    #[error(transparent)]
    Graph(#[from] FlowError),
    /// A step reads what no step before it gives.
    #[error("{0}")]
    NotGiven(NotGiven),
    /// There is no flow to this goal yet.
    #[error("no flow leads to the goal {0:?} yet")]
    NotYet(Way),
}

/// A need that is not met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotGiven {
    /// Who has it.
    pub task: ShootTask,
    /// For what.
    pub slot: Slot,
}

impl fmt::Display for NotGiven {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = base_flow::Name::name(&self.task);
        write!(f, "{name:?} needs {:?}, which no task before it gives", self.slot)
    }
}

/// Checks that each need of a task that runs is given by a task before it.
///
/// # Errors
/// The first need that is not.
pub fn check_slots(flow: &Flow<ShootTask>) -> Result<(), NotGiven> {
    let given = |need: Need, task: ShootTask| {
        flow.steps().any(|giver| {
            let runs = giver.skipped().is_none() || matches!(need, Need::May(_));
            runs && giver.task().gives().contains(&need.slot()) && flow.precedes(giver.task(), task)
        })
    };
    for step in flow.steps().filter(|step| step.skipped().is_none()) {
        let task = step.task();
        if let Some(need) = task.needs().into_iter().find(|need| !given(*need, task)) {
            return Err(NotGiven {
                task,
                slot: need.slot(),
            });
        }
    }
    Ok(())
}
