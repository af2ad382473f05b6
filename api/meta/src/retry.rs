//! When a failed operation is tried again by itself, as it stands at the end of `lastOperation.description`: Gardener's
//! API has no field for it, and its own words there, "Operation will be retried.", stay as they are.

use std::fmt;

use jiff::Timestamp;

use crate::FaultClass;

/// Before the moment.
const AT: &str = ". Operation will be retried. Next try at ";
/// Between moment and class.
const OR_SOONER: &str = " or sooner (";
/// After the class.
const END: &str = ").";

/// The next try. Prints as the end of a description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// When, to the second: sooner if something that concerns it changes.
    pub at: Timestamp,
    /// The class of the fault that decides it.
    pub class: FaultClass,
}

impl Retry {
    /// The next try that a description ends with.
    pub fn of(description: &str) -> Option<Self> {
        let (_, told) = description.rsplit_once(AT)?;
        let (at, class) = told.strip_suffix(END)?.split_once(OR_SOONER)?;
        Some(Self {
            at: at.parse().ok()?,
            class: FaultClass::ALL.into_iter().find(|known| known.as_str() == class)?,
        })
    }

    /// A description without the next try that it ends with.
    pub fn strip(description: &str) -> &str {
        match (Self::of(description), description.rsplit_once(AT)) {
            (Some(_), Some((said, _))) => said,
            _ => description,
        }
    }
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
    fn a_next_try_is_read_as_it_was_written_and_nothing_else_is_one() {
        for class in FaultClass::ALL {
            let at = "2026-01-02T03:04:05.678Z".parse().unwrap();
            let said = "task \"A\" failed: no. Operation will be retried. (yes)";
            let told = format!("{said}{}", Retry { at, class });
            let at = "2026-01-02T03:04:05Z".parse().unwrap();
            assert_eq!(Retry::of(&told), Some(Retry { at, class }), "{told}");
            assert_eq!(Retry::strip(&told), said);
        }
        let end = "failed. Operation will be retried.";
        for other in [
            "",
            end,
            "failed. Operation will be retried. Next try at noon or sooner (user).",
            "failed. Operation will be retried. Next try at 2026-01-02T03:04:05Z or sooner (me).",
        ] {
            assert_eq!(Retry::of(other), None);
            assert_eq!(Retry::strip(other), other);
        }
    }
}
