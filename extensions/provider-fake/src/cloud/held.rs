//! What the cloud holds, as its operator sees it: at once, without lag, of all accounts.

use std::collections::BTreeMap;
use std::fmt;

use super::item::Item;

/// All that exists at one moment, in the order of its creation; what is being deleted exists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held(pub Vec<Item>);

impl Held {
    /// How many things there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Those with this tag.
    #[must_use]
    pub fn tagged(self, key: &str, value: &str) -> Self {
        let mut items = self.0;
        items.retain(|item| item.tags.get(key).is_some_and(|found| found == value));
        Self(items)
    }

    /// Those that agree in kind and in all these tags with another one: what should exist once and does not. Things that lack
    /// one of the tags are none of them.
    #[must_use]
    pub fn doubled(&self, keys: &[&str]) -> Self {
        let mark = |item: &Item| {
            let values: Option<Vec<String>> = keys.iter().map(|key| item.tags.get(*key).cloned()).collect();
            values.map(|values| (item.kind(), values))
        };
        let mut counts: BTreeMap<_, usize> = BTreeMap::new();
        for mark in self.0.iter().filter_map(mark) {
            *counts.entry(mark).or_default() += 1;
        }
        let twice = |item: &&Item| mark(item).is_some_and(|mark| counts[&mark] > 1);
        Self(self.0.iter().filter(twice).cloned().collect())
    }
}

impl fmt::Display for Held {
    /// A line for each thing: id and tags.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for item in &self.0 {
            let tags: Vec<String> = item.tags.iter().map(|(key, value)| format!(" {key}={value}")).collect();
            writeln!(f, "{}{}", item.id, tags.concat())?;
        }
        Ok(())
    }
}
