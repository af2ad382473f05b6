//! What was done and what went wrong, counted while many do it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::deed::Deed;
use crate::fault::Fault;

/// Counts that many add to.
#[derive(Clone, Default)]
pub struct Tally(Arc<Mutex<Counted>>);

#[derive(Default)]
struct Counted {
    deeds: BTreeMap<Deed, u64>,
    faults: BTreeMap<String, u64>,
    wrong: Vec<String>,
}

impl Tally {
    fn counted(&self) -> MutexGuard<'_, Counted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a deed.
    pub fn deed(&self, deed: Deed) {
        *self.counted().deeds.entry(deed).or_default() += 1;
    }

    /// Counts a fault.
    pub fn fault(&self, fault: Fault) {
        *self.counted().faults.entry(fault.to_string()).or_default() += 1;
    }

    /// Keeps what went wrong.
    pub fn wrong(&self, why: String) {
        self.counted().wrong.push(why);
    }

    /// What went wrong so far.
    #[must_use]
    pub fn all_wrong(&self) -> Vec<String> {
        self.counted().wrong.clone()
    }

    /// How many deeds and faults there were.
    #[must_use]
    pub fn sums(&self) -> (u64, u64) {
        let counted = self.counted();
        (counted.deeds.values().sum(), counted.faults.values().sum())
    }

    /// All as a Markdown table.
    #[must_use]
    pub fn table(&self) -> String {
        let counted = self.counted();
        let mut table = "| deed | times |\n|---|--:|\n".to_owned();
        for (deed, times) in &counted.deeds {
            table += &format!("| {deed} | {times} |\n");
        }
        table += "\n| fault | times |\n|---|--:|\n";
        for (fault, times) in &counted.faults {
            table += &format!("| {fault} | {times} |\n");
        }
        table
    }
}
