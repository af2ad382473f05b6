//! The present run of the Shoot's flow, as gardenlet's feed reported it.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base_flow_run::{Feed, Received, TaskState, Trace};

/// Listens from its making on. Clones are the same.
#[derive(Clone, Default)]
pub struct Journal(Arc<Mutex<(Trace, u64)>>);

impl Journal {
    /// Writes down the events of `subject` from `feed`, until the feed ends. Must be called in a runtime.
    #[must_use]
    pub fn of(feed: &Feed, subject: &str) -> Self {
        let (journal, mut listener, subject) = (Self::default(), feed.listen(), subject.to_owned());
        let writer = journal.clone();
        tokio::spawn(async move {
            while let Some(received) = listener.next().await {
                match received {
                    Received::Event(next) if next.subject == subject => writer.state().0.take(&next.event),
                    Received::Event(_) => {}
                    Received::Missed(count) => writer.state().1 += count,
                }
            }
        });
        journal
    }

    /// Forgets all runs so far.
    pub fn forget(&self) {
        *self.state() = (Trace::default(), 0);
    }

    /// The last run since it forgot.
    ///
    /// # Errors
    /// It could not keep up with the feed.
    pub fn run(&self) -> Result<Trace, String> {
        match &*self.state() {
            (trace, 0) => Ok(trace.clone()),
            (_, missed) => Err(format!("{missed} events were missed")),
        }
    }

    fn state(&self) -> MutexGuard<'_, (Trace, u64)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The tasks of a run that `task` holds back: all that waits for it, directly or not.
#[must_use]
pub fn held_back(run: &Trace, task: &str) -> BTreeSet<String> {
    let mut held = BTreeSet::from([task.to_owned()]);
    loop {
        let before = held.len();
        for one in run.tasks() {
            if one.after.iter().any(|earlier| held.contains(earlier)) {
                held.insert(one.name.clone());
            }
        }
        if held.len() == before {
            held.remove(task);
            return held;
        }
    }
}

/// The tasks of a run that stand like this.
#[must_use]
pub fn standing(run: &Trace, state: &TaskState) -> BTreeSet<String> {
    let like = run.tasks().iter().filter(|task| task.state == *state);
    like.map(|task| task.name.clone()).collect()
}
