//! Rules applied to an episode: plain functions over the versions of an object. Each gives the rule and, if it is broken,
//! what was seen.

mod errors;
mod order;
mod others;

pub(crate) use others::{CONDITION, COUNTER, MARK, contended, untouched};

use crate::episode::Episode;
use crate::rule::Rule;

/// Whether a rule holds; if not, what was seen.
pub(crate) type Checked = (Rule, Result<(), String>);

/// Everything that is checked of every episode, in the order in which one break may cause the next.
pub(crate) fn episode(episode: &Episode) -> Vec<Checked> {
    let mut all = Vec::new();
    // What was missed may be what is looked for.
    if episode.is_whole {
        all.extend(order::check(episode));
        all.extend(errors::check(episode));
    }
    all.extend(others::check(episode));
    all
}

/// The first break among several looks; nothing of it if nothing was looked at.
fn first_break(looks: impl Iterator<Item = Result<(), String>>) -> Option<Result<(), String>> {
    let mut all = None;
    for look in looks {
        if look.is_err() {
            return Some(look);
        }
        all = Some(look);
    }
    all
}
