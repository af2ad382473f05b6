//! What is known of a Shoot's operation: the flow's events and the Shoot as it is watched, nothing else. Pure.

use api_core::v1beta1::Shoot;
use base_flow_run::{Event, Trace};
use jiff::Timestamp;

use super::lines::{Ended, ended};

/// An entry of the Shoot's `status.lastErrors`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// The task that failed.
    pub task: Option<String>,
    /// What went wrong, with one thing to do.
    pub text: String,
}

/// What the status of the Shoot reports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Why there is no operation yet; empty when there is one.
    pub before: String,
    /// The operation's type: `Create`.
    pub type_: String,
    /// Its state: `Processing`.
    pub state: String,
    /// Its progress.
    pub percent: usize,
    /// Its description.
    pub description: String,
    /// What went wrong.
    pub troubles: Vec<Trouble>,
    /// How it ended.
    pub ended: Option<Ended>,
}

/// Everything that is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// Whose operation: `garden-local/local`.
    pub subject: String,
    /// When the observation began.
    pub since: Timestamp,
    /// The newest run of its flow.
    pub trace: Trace,
    /// What the status of the Shoot reports.
    pub standing: Standing,
    /// Events that came faster than they were read.
    pub missed: u64,
}

impl View {
    /// Nothing is known yet.
    #[must_use]
    pub fn new(subject: &str, since: Timestamp) -> Self {
        Self {
            subject: subject.to_owned(),
            since,
            trace: Trace::default(),
            standing: Standing {
                before: "waiting for the Shoot to appear".to_owned(),
                ..Standing::default()
            },
            missed: 0,
        }
    }

    /// Something happened in the flow.
    pub fn take(&mut self, event: &Event) {
        self.trace.take(event);
    }

    /// Events were lost: what is shown may be behind until the next run begins.
    pub fn miss(&mut self, count: u64) {
        self.missed += count;
    }

    /// The Shoot has changed.
    pub fn see(&mut self, shoot: Option<&Shoot>) {
        self.standing = shoot.map(standing).unwrap_or_default();
        if shoot.is_none() {
            "waiting for the Shoot to appear".clone_into(&mut self.standing.before);
        }
    }

    /// The progress as `lastOperation` counts it. The flow's events are a little ahead of the written status.
    #[must_use]
    pub fn percent(&self) -> usize {
        match self.trace.started {
            Some(_) if self.missed == 0 && self.standing.ended.is_none() => self.trace.percent(),
            _ => self.standing.percent,
        }
    }

    /// The operation's errors that no task of the flow shows: what failed before it began, or after. While the
    /// operation goes on, its Shoot still names the errors of the try before: they are past.
    pub fn other_troubles(&self) -> impl Iterator<Item = &Trouble> {
        let shown = |trouble: &Trouble| {
            let named = |name: &str| trouble.task.as_deref() == Some(name);
            self.trace.tasks().iter().any(|task| named(&task.name))
        };
        let stands = matches!(self.standing.state.as_str(), "Error" | "Failed");
        let troubles = self.standing.troubles.iter();
        troubles.filter(move |trouble| stands && !shown(trouble))
    }
}

fn standing(shoot: &Shoot) -> Standing {
    let waiting = |why: &str| Standing {
        before: why.to_owned(),
        ..Standing::default()
    };
    let Some(status) = &shoot.status else {
        return waiting("waiting for a seed");
    };
    let Some(operation) = &status.last_operation else {
        return waiting("waiting for its gardenlet");
    };
    Standing {
        before: String::new(),
        type_: operation.type_.to_string(),
        state: operation.state.to_string(),
        percent: usize::try_from(operation.progress).unwrap_or_default(),
        description: operation.description.clone(),
        troubles: status
            .last_errors
            .iter()
            .map(|error| Trouble {
                task: error.task_id.clone(),
                text: error.description.clone(),
            })
            .collect(),
        ended: ended(shoot),
    }
}
