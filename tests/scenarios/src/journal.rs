//! What happened in the flows of a Shoot, run by run, as gardenlet's feed reported it.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use base_flow_run::{Feed, FlowEnd, Received, What};
use tokio::sync::Notify;

/// One run of a flow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Run {
    /// The flow.
    pub flow: String,
    /// Tasks that began.
    pub started: BTreeSet<String>,
    /// Tasks that began and succeeded.
    pub succeeded: BTreeSet<String>,
    /// Tasks that were left out.
    pub skipped: BTreeSet<String>,
    /// How it ended, if it has.
    pub end: Option<FlowEnd>,
}

/// Listens from its making on.
#[derive(Clone, Default)]
pub struct Journal {
    runs: Arc<Mutex<Vec<Run>>>,
    changed: Arc<Notify>,
}

impl Journal {
    /// Writes down what `feed` tells of the Shoot `subject`, which is "namespace/name". A scenario that falls behind the
    /// feed has failed.
    #[must_use]
    pub fn of(feed: &Feed, subject: &str) -> Self {
        let (journal, mut listener, subject) = (Self::default(), feed.listen(), subject.to_owned());
        let writer = journal.clone();
        tokio::spawn(async move {
            while let Some(received) = listener.next().await {
                match received {
                    Received::Event(next) if next.subject == subject => {
                        writer.write(&next.event.flow, &next.event.what);
                        writer.changed.notify_waiters();
                    }
                    Received::Event(_) => {}
                    Received::Missed(count) => panic!("{count} events of {subject} were missed"),
                }
            }
        });
        journal
    }

    fn write(&self, flow: &str, what: &What) {
        let mut runs = self.runs.lock().unwrap();
        if let What::FlowStarted { .. } = what {
            runs.push(Run {
                flow: flow.to_owned(),
                ..Run::default()
            });
        }
        let Some(run) = runs.last_mut() else {
            return;
        };
        match what {
            What::TaskStarted { task } => drop(run.started.insert(task.clone())),
            What::TaskSucceeded { task, .. } => drop(run.succeeded.insert(task.clone())),
            What::TaskSkipped { task, .. } => drop(run.skipped.insert(task.clone())),
            What::FlowFinished { end } => run.end = Some(*end),
            _ => {}
        }
    }

    /// What has happened so far.
    #[must_use]
    pub fn runs(&self) -> Vec<Run> {
        self.runs.lock().unwrap().clone()
    }

    /// Waits until the runs are as `check` wants them.
    pub async fn until(&self, what: &str, check: impl Fn(&[Run]) -> bool) -> Vec<Run> {
        let found = async {
            loop {
                let changed = self.changed.notified();
                let runs = self.runs();
                if check(&runs) {
                    return runs;
                }
                changed.await;
            }
        };
        match tokio::time::timeout(crate::PATIENCE, found).await {
            Ok(runs) => runs,
            Err(_) => panic!("never {what}: {:#?}", self.runs()),
        }
    }

    /// Waits until the present run has begun `task`.
    pub async fn until_in(&self, task: &str) {
        let begun = |runs: &[Run]| {
            runs.last()
                .is_some_and(|run| run.end.is_none() && run.started.contains(task) && !run.succeeded.contains(task))
        };
        self.until(&format!("in {task:?}"), begun).await;
    }
}
