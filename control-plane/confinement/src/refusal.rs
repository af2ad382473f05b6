//! The one sentence by which a request is refused: who, which verb, which object, of which seed, why, and what would be
//! allowed. It never names the other seed that something belongs to.

use std::fmt;

use crate::identity::{Identity, Party};

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    text: String,
    may_change: bool,
}

impl Refusal {
    /// A refusal of `verb` on `what`, such as `Secret garden-x/y`. `may_change`: the graph may be behind, and the answer be
    /// another in a moment.
    pub(crate) fn new(identity: &Identity, verb: &str, what: &str, why: &str, allowed: &str, may_change: bool) -> Self {
        let seed = &identity.seed;
        let party = match identity.party {
            Party::Gardenlet => "the gardenlet",
            Party::Extension => "an extension",
        };
        let allowed = allowed.replace("{seed}", seed);
        Self {
            text: format!("{party} of seed {seed:?} may not {verb} {what}: {why} (allowed: {allowed})"),
            may_change,
        }
    }

    /// A refusal of what cannot be decided before these are listed.
    pub(crate) fn unready(missing: &str) -> Self {
        Self {
            text: format!("not ready yet: what belongs to which seed is known once {missing} have been listed"),
            may_change: true,
        }
    }

    /// Whether it hangs on what the graph does not show yet or not any more.
    pub fn may_change(&self) -> bool {
        self.may_change
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
