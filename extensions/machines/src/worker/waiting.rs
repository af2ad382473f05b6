//! Waits of a Worker's operation. One that takes longer than a moment goes on over several calls, so that it holds no place in
//! which another Worker could be worked on: what it has come to is left in memory for the next call, which comes when machines
//! change, see [`crate::Workers::registration`]. A process that starts restarts the operation.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api_extensions::WorkerOwn;
use api_meta::{Fault, RawJson};
use extensions_sdk::{Change, Context};
use jiff::Timestamp;
use tokio::time::Instant;

use super::plan::Planned;

/// How long a wait stays in its place before the status shows its reason: most are over sooner and need no write.
pub(super) const IN_PLACE: Duration = Duration::from_secs(2);
/// The longest pause between two looks: changes of machines call sooner where the registration is that of the Workers.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// What is waited for, and how long.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// In the words of the fault: "machines have not gone".
    what: &'static str,
    pub(super) limit: Duration,
}

/// Machines are removed: it is as long as upstream waits.
pub(super) const REMOVAL: Patience = Patience {
    what: "machines have not gone",
    limit: Duration::from_secs(10 * 60),
};
/// Turns of the machine controllers end: the longest of them wait for an answer of the cloud.
pub(super) const FREEZE: Patience = Patience {
    what: "calls of the cloud have not ended",
    limit: Duration::from_secs(15 * 60),
};

/// What has been written for a Worker.
pub(super) struct Deployed {
    pub(super) planned: Vec<Planned>,
    /// The generation of each deployment.
    pub(super) generations: Vec<i64>,
    pub(super) provider_status: Change<RawJson>,
    pub(super) own: WorkerOwn,
    /// When it was begun: an error of a machine that is older is of another operation.
    pub(super) at: Timestamp,
}

/// A wait that goes on.
#[derive(Clone)]
pub(super) struct Waiting {
    pub(super) since: Instant,
    /// What has been written; none while it waits to write.
    pub(super) deployed: Option<Arc<Deployed>>,
    /// Whether all machines have joined: it waits for others to go.
    pub(super) joined: bool,
    /// Since when each machine has failed that no retry can make, by its name, until it has recovered.
    pub(super) failing_since: BTreeMap<String, Instant>,
    /// Whether it is that of a forced deletion, which has its own time.
    pub(super) forced: bool,
}

impl Waiting {
    /// One that begins.
    pub(super) fn begun() -> Self {
        Self {
            since: Instant::now(),
            deployed: None,
            joined: false,
            failing_since: BTreeMap::new(),
            forced: false,
        }
    }

    /// The one that a call before has left; none if that was of a deletion of the other sort, forced or not.
    pub(super) fn of_deletion(context: &Context, forced: bool) -> Option<Self> {
        let before = context.carried::<Self>();
        before.filter(|before| before.forced == forced).cloned()
    }

    /// How long it stays in its place: a moment in its first call.
    pub(super) fn moment(&self, context: &Context) -> Duration {
        let before = context.carried::<Self>().map(|before| before.since);
        match before == Some(self.since) {
            true => Duration::ZERO,
            false => IN_PLACE,
        }
    }

    /// The wait for machines that join.
    pub(super) fn for_machines_to_join(deployed: Arc<Deployed>) -> Self {
        Self {
            deployed: Some(deployed),
            ..Self::begun()
        }
    }

    /// The wait for machines that go, after they have joined.
    pub(super) fn for_others_to_go(deployed: Arc<Deployed>) -> Self {
        Self {
            joined: true,
            ..Self::for_machines_to_join(deployed)
        }
    }
}

impl Patience {
    /// The end of a call whose wait goes on: it is called again, or it has waited long enough.
    pub(super) fn goes_on(&self, context: &Context, reason: &str, waiting: &Waiting) -> Fault {
        let left = self.limit.saturating_sub(waiting.since.elapsed());
        match left.is_zero() {
            true => {
                let (what, minutes) = (self.what, self.limit.as_secs() / 60);
                Fault::dependency(format!("{what} within {minutes} minutes: {reason}")).hint(
                    "look at the machines named, at their nodes and at the cloud: what works on them has not finished",
                )
            }
            false => again(context, left, reason, waiting),
        }
    }
}

/// The end of a call whose wait goes on for `left` at most.
pub(super) fn again(context: &Context, left: Duration, reason: &str, waiting: &Waiting) -> Fault {
    context.again_with(left.min(LOOK_AGAIN), format!("Waiting: {reason}"), waiting.clone())
}
