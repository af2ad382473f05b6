//! Why an installation cannot go on, as its conditions report it: which condition, which reason, and the fault with its
//! one thing to do. It writes nothing.

use api_meta::{Condition, ConditionStatus, Fault, FaultClass, conditions::installation as reason};
use jiff::Timestamp;

/// What a person finds in the installation's conditions.
#[derive(Debug)]
pub(crate) struct Problem {
    condition: &'static str,
    status: ConditionStatus,
    pub reason: &'static str,
    fault: Box<Fault>,
}

impl Problem {
    /// The installation is not valid.
    pub(crate) fn invalid(reason: &'static str, fault: Fault) -> Self {
        Self {
            condition: reason::VALID,
            status: ConditionStatus::False,
            reason,
            fault: Box::new(fault),
        }
    }

    /// Whether the installation is valid is not known yet.
    pub(crate) fn undecided(reason: &'static str, fault: Fault) -> Self {
        Self {
            status: ConditionStatus::Unknown,
            ..Self::invalid(reason, fault)
        }
    }

    /// The installation is valid and cannot be installed.
    pub(crate) fn not_installed(reason: &'static str, fault: Fault) -> Self {
        Self {
            condition: reason::INSTALLED,
            ..Self::invalid(reason, fault)
        }
    }

    /// The text of the fault, with its hint.
    pub(crate) fn message(&self) -> String {
        self.fault.text_with_hint()
    }

    /// As a condition.
    pub(crate) fn condition(&self, now: Timestamp) -> Condition {
        let mut condition = Condition::new(self.condition, self.status.clone(), self.reason, &self.message(), now);
        condition.codes = self.fault.codes.clone();
        condition
    }

    /// The fault as data.
    pub(crate) fn data(&self) -> api_meta::Problem {
        api_meta::Problem::of(None, &self.fault, self.fault.codes.clone())
    }

    /// Whether it may be none.
    pub(crate) fn is_undecided(&self) -> bool {
        self.status == ConditionStatus::Unknown
    }

    /// Whether only a change of what was read can help, which is watched.
    pub(crate) fn waits_for_change(&self) -> bool {
        self.fault.class == FaultClass::User
    }
}

/// Why a look at an installation ended early.
#[derive(Debug)]
pub(crate) enum Halt {
    /// What its conditions report.
    Problem(Problem),
    /// What is needed to decide could not be read: tried again, and nothing is reported of the installation.
    Fault(Fault),
    /// The seed's API server does not take what the chart needs.
    Refused(Fault),
}

impl From<Problem> for Halt {
    fn from(problem: Problem) -> Self {
        Self::Problem(problem)
    }
}

impl From<Fault> for Halt {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}
