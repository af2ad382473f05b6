//! What is known of a folder from what its writers said, and whether a store shows exactly that.

use std::collections::BTreeMap;

use cluster_store::{Change, Entry, FileStore, Key, Page, Range, Revision, Store};
use futures::{FutureExt, StreamExt};

use crate::{Outcome, RESOURCES};

/// What is known of one key. A content below zero stands for a deletion.
#[derive(Debug, Default)]
struct Known {
    /// What the changes that were checked left there: the content and its revision.
    stands: Option<(i64, u64)>,
    /// What was sent last and not answered yet.
    open: Option<i64>,
    /// Sent to processes that died before they answered.
    unanswered: Vec<i64>,
}

/// What is known of a folder.
#[derive(Default)]
pub(crate) struct Ledger {
    /// By resource and name.
    keys: BTreeMap<(String, String), Known>,
    /// What was acknowledged and has not been checked, by revision.
    acknowledged: BTreeMap<u64, (String, String, i64)>,
    /// What watches delivered and has not been checked, by resource, in the order of delivery.
    watched: BTreeMap<String, Vec<u64>>,
    /// How far each resource was watched.
    resumes: BTreeMap<String, u64>,
    /// The newest revision that was seen.
    seen: u64,
    /// Up to here all has been checked.
    checked: u64,
    /// How many writes were acknowledged, and found again.
    pub(crate) found: usize,
    /// How many writes were found that a process had sent and died over.
    pub(crate) unanswered_found: usize,
}

macro_rules! ensure {
    ($holds:expr, $($otherwise:tt)*) => {
        if !$holds {
            return Err(format!($($otherwise)*));
        }
    };
}

impl Ledger {
    /// The ledger of a folder in which nothing was written yet.
    pub(crate) fn new() -> Self {
        let begun = |resource: &str| (resource.to_owned(), 1);
        Ledger {
            resumes: RESOURCES.into_iter().map(begun).collect(),
            seen: 1,
            checked: 1,
            ..Ledger::default()
        }
    }

    /// From where each resource is to be watched.
    pub(crate) fn resumes(&self) -> impl Iterator<Item = u64> {
        RESOURCES.into_iter().map(|resource| self.resumes[resource])
    }

    /// Takes down a line that a writer said; whether it acknowledges a write.
    pub(crate) fn line(&mut self, line: &str) -> Outcome<bool> {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |word: &str| word.parse::<u64>().map_err(|error| format!("`{line}`: {error}"));
        match words[..] {
            ["opened", revision] => {
                let revision = number(revision)?;
                let seen = self.seen;
                ensure!(
                    revision >= seen,
                    "it opens at revision {revision} after {seen} was seen"
                );
                self.seen = revision;
            }
            ["watched", resource, revision] => {
                let revision = number(revision)?;
                self.seen = self.seen.max(revision);
                self.watched.entry(resource.to_owned()).or_default().push(revision);
                self.resumes.insert(resource.to_owned(), revision);
            }
            ["sent", resource, name, content] => {
                let content = content.parse().map_err(|error| format!("`{line}`: {error}"))?;
                let known = self.keys.entry((resource.to_owned(), name.to_owned())).or_default();
                // Left open by a process that died.
                known.unanswered.extend(known.open.replace(content));
            }
            ["acknowledged", resource, name, revision] => {
                let revision = number(revision)?;
                self.seen = self.seen.max(revision);
                let key = (resource.to_owned(), name.to_owned());
                let sent = self.keys.get_mut(&key).and_then(|known| known.open.take());
                let content = sent.ok_or_else(|| format!("`{line}`: nothing was sent"))?;
                let before = self.acknowledged.insert(revision, (key.0, key.1, content));
                ensure!(before.is_none(), "revision {revision} was given twice");
                return Ok(true);
            }
            _ => return Err(format!("the writing process said: {line}")),
        }
        Ok(false)
    }

    /// Compares what a store holds, and what watches tell that resume where the last check was, with what is known.
    pub(crate) async fn check(&mut self, store: &FileStore) -> Outcome {
        let failed = |error: cluster_store::StoreError| error.to_string();
        let newest = store.revision().await.map_err(failed)?.0;
        ensure!(
            newest >= self.seen,
            "revision {} was seen, the store is at {newest}",
            self.seen
        );
        let mut changes = BTreeMap::new();
        for resource in RESOURCES {
            let from = Revision(self.checked);
            let mut watch = store.watch(&Range::all(resource), from).await.map_err(failed)?;
            let mut delivered = Vec::new();
            while let Some(change) = watch.next().now_or_never() {
                let change = change.ok_or("a watch has ended")?.map_err(failed)?;
                delivered.push(change.entry.revision.0);
                changes.insert(change.entry.revision.0, change);
            }
            let watched = self.watched.remove(resource).unwrap_or_default();
            ensure!(
                delivered.starts_with(&watched),
                "{resource}: watches delivered {watched:?}, the changes are {delivered:?}"
            );
            // Whoever watches next goes on where this check ends.
            self.resumes.insert(resource.to_owned(), newest);
        }
        ensure!(
            changes.keys().copied().eq(self.checked + 1..=newest),
            "changes are missing between {} and {newest}: {:?}",
            self.checked,
            changes.keys()
        );
        for (revision, change) in changes {
            self.check_change(revision, &change)?;
        }
        ensure!(self.acknowledged.is_empty(), "lost: {:?}", self.acknowledged);
        self.compare(store).await?;
        (self.checked, self.seen) = (newest, newest);
        Ok(())
    }

    fn check_change(&mut self, revision: u64, change: &Change) -> Outcome {
        let Key { resource, name, .. } = &change.entry.key;
        let found = if change.is_delete() { -1 } else { content(&change.entry) };
        let matches = |sent: &i64| *sent == found || (*sent < 0 && found < 0);
        let known = self.keys.get_mut(&(resource.to_string(), name.to_string()));
        let known = known.ok_or_else(|| format!("{} was never sent", change.entry.key))?;
        match self.acknowledged.remove(&revision) {
            Some(sent) => {
                let same = *sent.0 == **resource && *sent.1 == **name && matches(&sent.2);
                ensure!(
                    same,
                    "revision {revision} was acknowledged for {sent:?}, it is {found} at {resource} {name}"
                );
                self.found += 1;
            }
            None => {
                // The last one to be sent may be the one that a process died over.
                known.unanswered.extend(known.open.take());
                let place = known.unanswered.iter().position(matches);
                let place = place.ok_or_else(|| {
                    format!("{found} at revision {revision} of {resource} {name} was not sent, or is there twice")
                })?;
                known.unanswered.remove(place);
                self.unanswered_found += 1;
            }
        }
        known.stands = (found >= 0).then_some((found, revision));
        Ok(())
    }

    /// Whether every key holds what the changes left there, and nothing else is there.
    async fn compare(&mut self, store: &FileStore) -> Outcome {
        let mut found = BTreeMap::new();
        for resource in RESOURCES {
            let listing = store.list(&Range::all(resource), Page::default()).await;
            for entry in listing.map_err(|error| error.to_string())?.entries {
                let stands = (content(&entry), entry.revision.0);
                found.insert((resource.to_owned(), entry.key.name.to_string()), stands);
            }
        }
        for (key, known) in &mut self.keys {
            // Whoever could still have done it is dead.
            known.unanswered.clear();
            known.open = None;
            let found = found.remove(key);
            ensure!(
                found == known.stands,
                "{key:?} holds {found:?}, it should hold {:?}",
                known.stands
            );
        }
        ensure!(found.is_empty(), "never sent: {found:?}");
        Ok(())
    }
}

fn content(entry: &Entry) -> i64 {
    entry.object.value(entry.revision)["content"]
        .as_i64()
        .unwrap_or_default()
}
