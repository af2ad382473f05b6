//! When a failed operation is tried again by itself. It prints as the end of `lastOperation.description`: Gardener's API has
//! no field for it, and its own words there, "Operation will be retried.", stay as they are. Programs read it from
//! [`crate::OperationReport`].

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::FaultClass;

/// Before the moment.
const AT: &str = ". Operation will be retried. Next try at ";
/// Between moment and class.
const OR_SOONER: &str = " or sooner (";
/// After the class.
const END: &str = ").";

/// The next try. Prints as the end of a description.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retry {
    /// When, to the second: sooner if something that concerns it changes.
    pub at: Timestamp,
    /// The class of the fault that decides it.
    pub class: FaultClass,
}

impl fmt::Display for Retry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{AT}{:.0}{OR_SOONER}{}{END}", self.at, self.class)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_next_try_prints_its_second_and_its_class() {
        let at = "2026-01-02T03:04:05.678Z".parse().unwrap();
        let class = FaultClass::Quota;
        assert_eq!(
            format!("no{}", Retry { at, class }),
            "no. Operation will be retried. Next try at 2026-01-02T03:04:05Z or sooner (quota)."
        );
    }
}
