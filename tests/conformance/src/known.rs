//! The one table of known differences. An entry that no case needs any more fails the run, so that the table has only
//! differences that exist.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use serde::Deserialize;

use crate::{Difference, Outcome};

/// The table.
const TABLE: &str = include_str!("../known-differences.yaml");

/// Differences that are known, and why they are there.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Known {
    /// By `file / title` of a case, in which `*` stands for any text, the places of the differences and all below them:
    /// `2/body/items/*/name`, in which `*` stands for any text in one part, `**` for any parts.
    pub at: BTreeMap<String, Vec<String>>,
    /// Whether it is to stay.
    pub status: Status,
    /// What differs and why.
    pub reason: String,
}

/// What is to become of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub enum Status {
    /// A fault of ours.
    #[serde(rename = "to be mended")]
    ToBeMended,
    /// Intended, for the reason given.
    #[serde(rename = "meant")]
    Meant,
}

/// The table, and which of its entries were needed.
pub struct Table {
    entries: Vec<Known>,
    /// By the number of the entry, case and place: what has explained a difference.
    needed: Mutex<BTreeSet<(usize, String, String)>>,
    /// By the number of the entry, how many cases have met it.
    met: Mutex<BTreeMap<usize, usize>>,
}

/// An entry that explains a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Explained {
    /// What is to become of it.
    pub status: Status,
    entry: usize,
}

impl Table {
    /// The committed table.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn committed() -> Outcome<Self> {
        Self::read(TABLE)
    }

    /// A table without entries.
    #[must_use]
    pub fn empty() -> Self {
        Self {
            entries: Vec::new(),
            needed: Mutex::default(),
            met: Mutex::default(),
        }
    }

    fn read(text: &str) -> Outcome<Self> {
        let entries: Vec<Known> =
            base_yaml::read_strict(text).map_err(|error| format!("known-differences.yaml cannot be read: {error}"))?;
        Ok(Self {
            entries,
            ..Self::empty()
        })
    }

    /// The entry that explains a difference, if there is one; it counts as needed from then on.
    pub fn explain(&self, case: &str, difference: &Difference) -> Option<Explained> {
        let explains =
            |(_, pattern, place): &(usize, &String, &String)| covers(place, &difference.at) && is_like(pattern, case);
        let (index, pattern, place) = self.places().find(explains)?;
        let needed = (index, pattern.clone(), place.clone());
        let status = self.entries.get(index)?.status;
        self.needed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(needed);
        Some(Explained { status, entry: index })
    }

    /// Counts a case that met these.
    pub fn count(&self, met: &BTreeSet<Explained>) {
        let mut counts = self.met.lock().unwrap_or_else(PoisonError::into_inner);
        for explained in met {
            *counts.entry(explained.entry).or_default() += 1;
        }
    }

    /// Each entry that was met, in how many cases, the commonest first.
    pub fn met(&self) -> Vec<(usize, &Known)> {
        let counts = self.met.lock().unwrap_or_else(PoisonError::into_inner);
        let met = counts.iter();
        let mut met: Vec<_> = met
            .filter_map(|(index, times)| Some((*times, self.entries.get(*index)?)))
            .collect();
        met.sort_by_key(|(times, _)| std::cmp::Reverse(*times));
        met
    }

    /// Places that explained nothing, of the cases that ran; with `all`, of any case.
    pub fn stale(&self, ran: &[String], all: bool) -> Vec<String> {
        let needed = self.needed.lock().unwrap_or_else(PoisonError::into_inner);
        self.places()
            .filter(|(_, pattern, _)| all || ran.contains(pattern))
            .filter(|(index, pattern, place)| !needed.contains(&(*index, (*pattern).clone(), (*place).clone())))
            .map(|(_, pattern, place)| format!("{pattern}: {place}"))
            .collect()
    }

    fn places(&self) -> impl Iterator<Item = (usize, &String, &String)> {
        self.entries.iter().enumerate().flat_map(|(index, entry)| {
            let at = entry.at.iter();
            at.flat_map(move |(pattern, places)| places.iter().map(move |place| (index, pattern, place)))
        })
    }
}

/// Whether a place is that of the pattern or below it.
fn covers(pattern: &str, place: &str) -> bool {
    let wanted: Vec<&str> = pattern.split('/').collect();
    let parts: Vec<&str> = place.split('/').collect();
    covers_parts(&wanted, &parts)
}

fn covers_parts(wanted: &[&str], parts: &[&str]) -> bool {
    match (wanted.split_first(), parts.split_first()) {
        (None, _) => true,
        (Some((&"**", after)), _) => {
            (0..=parts.len()).any(|skipped| covers_parts(after, parts.get(skipped..).unwrap_or(&[])))
        }
        (Some((first, wanted)), Some((part, parts))) => is_like(first, part) && covers_parts(wanted, parts),
        (Some(_), None) => false,
    }
}

/// Whether a text is like a pattern in which `*` stands for any text.
fn is_like(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((before, after)) => text.strip_prefix(before).is_some_and(|rest| {
            (0..=rest.len())
                .filter_map(|start| rest.get(start..))
                .any(|rest| is_like(after, rest))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTRIES: &str = "
- {at: {a / one: ['1/body/x', '2/status']}, status: meant, reason: r}
- {at: {a / *: ['*/headers/warning'], '*': ['9/status']}, status: to be mended, reason: r}
";

    fn difference(at: &str) -> Difference {
        Difference {
            at: at.to_owned(),
            real: None,
            ours: None,
        }
    }

    #[test]
    fn a_difference_is_known_at_its_place_and_below_in_its_case() {
        let table = Table::read(ENTRIES).unwrap();
        assert!(table.explain("a / one", &difference("1/body/x/0")).is_some());
        assert!(table.explain("a / one", &difference("1/body/xy")).is_none());
        assert!(table.explain("a / two", &difference("1/body/x")).is_none());
        assert!(table.explain("a / two", &difference("7/headers/warning")).is_some());
    }

    #[test]
    fn stars_stand_for_parts() {
        assert!(covers(
            "*/body/**/fieldsV1/**/.",
            "2/body/metadata/managedFields/0/fieldsV1/f:spec/."
        ));
        assert!(!covers(
            "*/body/**/fieldsV1/**/.",
            "2/body/metadata/managedFields/0/fieldsV1/f:spec/f:a"
        ));
        assert!(covers("*/body/spec/volume*", "1/body/spec/volumeMounts/0"));
        assert!(covers("**/time", "1/time") && !covers("**/time", "1/times"));
    }

    #[test]
    fn an_entry_that_explains_nothing_is_stale_once_its_case_has_run() {
        let table = Table::read(ENTRIES).unwrap();
        assert!(table.stale(&["b / one".to_owned()], false).is_empty());
        table.explain("a / one", &difference("2/status"));
        assert_eq!(table.stale(&["a / one".to_owned()], false), ["a / one: 1/body/x"]);
        assert_eq!(table.stale(&[], true).len(), 3);
    }

    #[test]
    fn an_entry_is_counted_once_for_each_case() {
        let table = Table::read(ENTRIES).unwrap();
        let met = |places: &[&str]| -> BTreeSet<Explained> {
            let explained = places.iter().map(|at| table.explain("a / one", &difference(at)));
            explained.collect::<Option<_>>().unwrap()
        };
        table.count(&met(&["9/status", "2/headers/warning"]));
        table.count(&met(&["9/status", "1/body/x/0", "1/body/x/1"]));
        let times: Vec<(usize, Status)> = table
            .met()
            .iter()
            .map(|(times, known)| (*times, known.status))
            .collect();
        assert_eq!(times, [(2, Status::ToBeMended), (1, Status::Meant)]);
    }

    #[test]
    fn the_committed_table_can_be_read_and_gives_reasons() {
        let table = Table::committed().unwrap();
        assert!(table.entries.iter().all(|entry| !entry.reason.is_empty()));
    }
}
