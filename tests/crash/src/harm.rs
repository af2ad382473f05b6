//! What is done to tasks: the layer around them, which breaks those that it is set to break and counts what is at work. It
//! knows tasks by the enum of the flows alone.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};

use api_meta::{ErrorCode, Fault};
use base_flow::{Flow, Name, TaskSettings};
use base_flow_run::{TaskLayer, Work};
use control_plane_shoot_flow::{
    DeletionFacts, ExtensionTimeouts, Goal, HibernationFacts, ShootFacts, ShootTask, Tunnel, shoot_flow,
};
use futures::FutureExt;

use crate::script::Phase;

/// What a broken task says.
pub const SAID: &str = "broken on purpose";
/// The code of what does not pass by itself.
pub const CODE: ErrorCode = ErrorCode::ConfigurationProblem;

/// What is done to a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Kind {
    /// Its first try fails before its work begins, with a fault that may pass.
    FailsOnce,
    /// Its work is done, and the first time its result is lost.
    ResultLost,
    /// Its work is done twice, one right after the other.
    Twice,
    /// It fails until its cause is removed.
    FailsForGood,
    /// It panics until its cause is removed.
    Panics,
    /// Its work never begins and never ends.
    Hangs,
    /// Its work is done, and it never ends.
    HangsAfterwards,
}

impl Kind {
    /// All.
    pub const ALL: [Self; 7] = [
        Self::FailsOnce,
        Self::ResultLost,
        Self::Twice,
        Self::FailsForGood,
        Self::Panics,
        Self::Hangs,
        Self::HangsAfterwards,
    ];

    /// Whether the flow gets over it by itself, without help and without an end of its run.
    #[must_use]
    pub fn passes(self) -> bool {
        matches!(self, Self::FailsOnce | Self::ResultLost | Self::Twice)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::FailsOnce => "fails once",
            Self::ResultLost => "result lost",
            Self::Twice => "twice",
            Self::FailsForGood => "fails for good",
            Self::Panics => "panics",
            Self::Hangs => "hangs",
            Self::HangsAfterwards => "hangs afterwards",
        })
    }
}

/// The phases whose flows are known here.
pub const PHASES: [Phase; 5] = [
    Phase::Create,
    Phase::Hibernate,
    Phase::Wake,
    Phase::Direct,
    Phase::Delete,
];

/// A task of one of the flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Which flow: that of one of [`PHASES`].
    pub phase: Phase,
    /// Which task.
    pub task: ShootTask,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {:?}", self.phase, self.task.step)
    }
}

/// The flow of a phase with every task that it can have.
///
/// # Errors
/// The flow is no flow.
pub fn widest(phase: Phase) -> Result<Flow<ShootTask>, String> {
    let facts = ShootFacts {
        workerless: false,
        has_credentials: true,
        has_backup: true,
        has_internal_domain: true,
        has_external_domain: true,
        nodes_cidr_known: false,
        skip_readiness: false,
        restart_requested: false,
        tunnel: match phase {
            Phase::Direct => Tunnel::Leftover,
            _ => Tunnel::Wanted,
        },
        extension_timeouts: ExtensionTimeouts::STANDARD,
    };
    let there = DeletionFacts {
        namespace_active: true,
        shoot_cleanup: true,
        control_plane_needed: true,
    };
    let goal = match phase {
        Phase::Delete => Goal::Delete(there),
        Phase::Hibernate => Goal::Hibernate(HibernationFacts { api_server_runs: true }),
        Phase::Wake => Goal::Wake,
        _ => Goal::Reconcile,
    };
    shoot_flow(&facts, &goal).map_err(|error| error.to_string())
}

/// Whether harm to a task shows what harm to another does not: a Shoot that loses its tunnel is reconciled like others beside
/// that.
///
/// # Errors
/// The flow is no flow.
pub fn is_own(place: Place) -> Result<bool, String> {
    Ok(place.phase != Phase::Direct || widest(Phase::Create)?.step(place.task).is_none())
}

/// How a task is tried, as its flow says.
///
/// # Errors
/// The flow has no such task.
pub fn settings(place: Place) -> Result<TaskSettings, String> {
    let flow = widest(place.phase)?;
    let step = flow.step(place.task);
    step.map(base_flow::Step::settings)
        .ok_or_else(|| format!("{place} is in no flow"))
}

/// Lets tasks that panic on purpose do so without output on standard error; other panics are printed as before.
pub fn hush() {
    static HUSHED: Once = Once::new();
    HUSHED.call_once(|| {
        let loud = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if panic.payload().downcast_ref::<&str>() != Some(&SAID) {
                loud(panic);
            }
        }));
    });
}

/// Which tasks are meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Victims {
    /// None.
    #[default]
    None,
    /// Each task, as it comes.
    All,
    /// This one.
    One(Place),
}

/// Breaks tasks. Clones are the same.
#[derive(Clone, Default)]
pub struct Harm(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    phase: Phase,
    meant: Option<(Kind, Victims)>,
    seen: BTreeSet<Place>,
    done: BTreeSet<Place>,
    working: BTreeMap<Place, usize>,
}

/// A try that has begun and not ended.
struct Working {
    harm: Harm,
    place: Place,
}

impl Drop for Working {
    fn drop(&mut self) {
        if let Some(count) = self.harm.state().working.get_mut(&self.place) {
            *count -= 1;
        }
    }
}

impl Harm {
    /// From now on the flow of this phase runs, and until [`Harm::cease`] this is done to these of its tasks.
    pub fn begin(&self, phase: Phase, kind: Kind, victims: Victims) {
        let mut state = self.state();
        state.phase = phase;
        state.meant = Some((kind, victims));
        state.seen.clear();
        state.done.clear();
    }

    /// From now on nothing is done to any task.
    pub fn cease(&self) {
        self.state().meant = None;
    }

    /// The tasks that were tried since harm began.
    #[must_use]
    pub fn seen(&self) -> BTreeSet<Place> {
        self.state().seen.clone()
    }

    /// The tasks to which something was done since harm began.
    #[must_use]
    pub fn done(&self) -> BTreeSet<Place> {
        self.state().done.clone()
    }

    /// The tasks at work now.
    #[must_use]
    pub fn working(&self) -> BTreeSet<Place> {
        let state = self.state();
        let busy = state.working.iter().filter(|(_, count)| **count > 0);
        busy.map(|(place, _)| *place).collect()
    }

    /// What to put around the tasks.
    ///
    /// # Errors
    /// The flows are no flows.
    pub fn layer(&self) -> Result<TaskLayer, String> {
        let harm = self.clone();
        let places = places()?;
        Ok(TaskLayer::new(move |one, work| {
            let key = (harm.state().phase, one.flow.clone(), one.task.to_owned());
            let place = places.get(&key).copied();
            harm.clone().around(place, work).boxed()
        }))
    }

    async fn around(self, place: Option<Place>, work: Work<'_>) -> Result<(), Fault> {
        let Some(place) = place else {
            return Err(Fault::bug("a task that is not in the enum of tasks"));
        };
        let _working = self.enter(place);
        let Some(kind) = self.decide(place) else {
            return work().await;
        };
        match kind {
            Kind::FailsOnce => {
                self.did(place);
                Err(Fault::transient(SAID))
            }
            Kind::ResultLost => {
                work().await?;
                self.did(place);
                Err(Fault::transient(SAID))
            }
            Kind::Twice => {
                work().await?;
                self.did(place);
                work().await
            }
            Kind::FailsForGood => {
                self.did(place);
                Err(Fault::user(SAID).code(CODE).hint("mend it"))
            }
            Kind::Panics => {
                self.did(place);
                panics()
            }
            Kind::Hangs => {
                self.did(place);
                std::future::pending().await
            }
            Kind::HangsAfterwards => {
                work().await?;
                self.did(place);
                std::future::pending().await
            }
        }
    }

    fn enter(&self, place: Place) -> Working {
        let mut state = self.state();
        state.seen.insert(place);
        *state.working.entry(place).or_default() += 1;
        Working {
            harm: self.clone(),
            place,
        }
    }

    fn decide(&self, place: Place) -> Option<Kind> {
        let state = self.state();
        let (kind, victims) = state.meant?;
        let meant = match victims {
            Victims::None => false,
            Victims::All => true,
            Victims::One(one) => one == place,
        };
        let again = matches!(kind, Kind::FailsOnce | Kind::ResultLost) && state.done.contains(&place);
        (meant && !again).then_some(kind)
    }

    fn did(&self, place: Place) {
        self.state().done.insert(place);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[expect(clippy::panic, reason = "a task that panics is what is tried")]
fn panics() -> ! {
    std::panic::panic_any(SAID)
}

/// Every task of the flows, by their phase and the names of its flow and itself: several phases share the name of a flow.
///
/// # Errors
/// The flows are no flows.
pub fn places() -> Result<BTreeMap<(Phase, String, String), Place>, String> {
    let mut places = BTreeMap::new();
    for phase in PHASES {
        let flow = widest(phase)?;
        for step in flow.steps() {
            let task = step.task();
            let key = (phase, flow.name().to_owned(), task.name().to_owned());
            places.insert(key, Place { phase, task });
        }
    }
    Ok(places)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stands_for_one_task_of_its_flow() {
        let tasks = PHASES.map(|phase| widest(phase).unwrap().steps().count());
        assert_eq!(places().unwrap().len(), tasks.iter().sum::<usize>());
    }
}
