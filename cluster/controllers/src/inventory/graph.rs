//! The graph of owners and dependents, and which of its items are worth a look. Pure.

use std::collections::{BTreeMap, BTreeSet};

use base_controller::ObjectKey;
use tokio_util::sync::CancellationToken;

use crate::kinds::{Kind, KindKey};

/// A reference to an owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) uid: String,
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) name: String,
    /// The owner's foreground deletion waits for the dependent.
    pub(crate) blocks: bool,
}

impl Owner {
    fn group(&self) -> &str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }
}

/// An object by its metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) kind: KindKey,
    pub(crate) key: ObjectKey,
    pub(crate) owners: Vec<Owner>,
    pub(crate) finalizers: Vec<String>,
    pub(crate) deleting: bool,
}

impl Item {
    pub(crate) fn has_finalizer(&self, finalizer: &str) -> bool {
        self.finalizers.iter().any(|it| it == finalizer)
    }
}

struct Tracked {
    kind: Kind,
    /// Its first list has been read.
    ready: bool,
    stop: CancellationToken,
}

/// What became of a kind that was to be watched.
pub(crate) enum Tracking {
    Same,
    New,
    /// The watch of another form of it is to be stopped.
    Replaces(CancellationToken),
}

/// All items by uid.
#[derive(Default)]
pub(crate) struct Graph {
    kinds: BTreeMap<KindKey, Tracked>,
    items: BTreeMap<String, Item>,
    dependents: BTreeMap<String, BTreeSet<String>>,
    by_namespace: BTreeMap<String, BTreeSet<String>>,
    dirty_items: BTreeSet<String>,
    dirty_namespaces: BTreeSet<String>,
    emptied: BTreeSet<String>,
}

impl Graph {
    /// Adds a kind, unless it is watched in this form already.
    pub(crate) fn track(&mut self, kind: Kind, stop: CancellationToken) -> Tracking {
        let key = kind.key();
        if self.kinds.get(&key).is_some_and(|tracked| tracked.kind == kind) {
            return Tracking::Same;
        }
        match self.kinds.insert(
            key,
            Tracked {
                kind,
                ready: false,
                stop,
            },
        ) {
            Some(old) => Tracking::Replaces(old.stop),
            None => Tracking::New,
        }
    }

    /// Removes a kind and its items.
    pub(super) fn untrack(&mut self, key: &KindKey) -> Option<CancellationToken> {
        let tracked = self.kinds.remove(key)?;
        self.listed_only(key, &BTreeSet::new());
        Some(tracked.stop)
    }

    /// The first or a later list of a kind has been read: items of it that are not in it are gone.
    pub(crate) fn listed(&mut self, key: &KindKey, uids: &BTreeSet<String>) {
        self.listed_only(key, uids);
        if let Some(tracked) = self.kinds.get_mut(key) {
            tracked.ready = true;
        }
    }

    fn listed_only(&mut self, key: &KindKey, uids: &BTreeSet<String>) {
        let is_gone = |(uid, item): &(&String, &Item)| item.kind == *key && !uids.contains(*uid);
        let gone: Vec<String> = self.items.iter().filter(is_gone).map(|(uid, _)| uid.clone()).collect();
        gone.iter().for_each(|uid| self.remove(uid));
    }

    pub(crate) fn put(&mut self, uid: String, item: Item) {
        let old = self.items.get(&uid);
        if old == Some(&item) {
            return;
        }
        if let Some(old) = old.cloned() {
            self.unlink(&uid, &old);
            self.dirty_unblocked(&old, &item);
        }
        for owner in &item.owners {
            self.dependents
                .entry(owner.uid.clone())
                .or_default()
                .insert(uid.clone());
        }
        if let Some(namespace) = &item.key.namespace {
            self.by_namespace
                .entry(namespace.clone())
                .or_default()
                .insert(uid.clone());
            self.dirty_namespaces.insert(namespace.clone());
        }
        if item.deleting {
            self.dirty_around(&uid, &item);
        }
        if item.deleting || !item.owners.is_empty() {
            self.dirty_items.insert(uid.clone());
        }
        self.items.insert(uid, item);
    }

    pub(crate) fn remove(&mut self, uid: &str) {
        let Some(item) = self.items.remove(uid) else { return };
        self.unlink(uid, &item);
        self.dirty_items.remove(uid);
        self.dirty_around(uid, &item);
        self.emptied.extend(item.key.namespace.clone());
        self.dirty_namespaces.extend(item.key.namespace);
    }

    /// What depends on an item, and what waits for it.
    fn dirty_around(&mut self, uid: &str, item: &Item) {
        self.dirty_items
            .extend(self.dependents.get(uid).into_iter().flatten().cloned());
        self.dirty_items
            .extend(item.owners.iter().map(|owner| owner.uid.clone()));
    }

    /// The owners that a changed item no longer blocks: their deletion in the foreground may have waited for it alone.
    /// After upstream's `addUnblockedOwnersToDeleteQueue`.
    fn dirty_unblocked(&mut self, old: &Item, new: &Item) {
        let is_blocked = |uid: &str| new.owners.iter().any(|owner| owner.blocks && owner.uid == uid);
        let unblocked = old
            .owners
            .iter()
            .filter(|owner| owner.blocks && !is_blocked(&owner.uid));
        self.dirty_items.extend(unblocked.map(|owner| owner.uid.clone()));
    }

    fn unlink(&mut self, uid: &str, item: &Item) {
        let drop_from = |index: &mut BTreeMap<String, BTreeSet<String>>, key: &str| {
            if let Some(set) = index.get_mut(key) {
                set.remove(uid);
                if set.is_empty() {
                    index.remove(key);
                }
            }
        };
        for owner in &item.owners {
            drop_from(&mut self.dependents, &owner.uid);
        }
        if let Some(namespace) = &item.key.namespace {
            drop_from(&mut self.by_namespace, namespace);
        }
    }

    pub(crate) fn item(&self, uid: &str) -> Option<&Item> {
        self.items.get(uid)
    }

    /// The items that name this one as an owner.
    pub(crate) fn dependents(&self, uid: &str) -> impl Iterator<Item = (&String, &Item)> {
        self.dependents
            .get(uid)
            .into_iter()
            .flatten()
            .filter_map(|uid| Some((uid, self.items.get(uid)?)))
    }

    /// The items of a namespace.
    pub(crate) fn in_namespace(&self, namespace: &str) -> impl Iterator<Item = &Item> {
        self.by_namespace
            .get(namespace)
            .into_iter()
            .flatten()
            .filter_map(|uid| self.items.get(uid))
    }

    pub(crate) fn kind(&self, key: &KindKey) -> Option<&Kind> {
        self.kinds.get(key).map(|tracked| &tracked.kind)
    }

    /// All kinds whose objects live in namespaces.
    pub(crate) fn namespaced_kinds(&self) -> Vec<Kind> {
        self.kinds
            .values()
            .map(|tracked| tracked.kind.clone())
            .filter(|kind| kind.namespaced)
            .collect()
    }

    /// Whether every kind has been listed once.
    pub(crate) fn is_complete(&self) -> bool {
        !self.kinds.is_empty() && self.kinds.values().all(|tracked| tracked.ready)
    }

    /// The kind that an owner reference names, if its objects are known.
    pub(crate) fn kind_of_owner(&self, owner: &Owner) -> Option<&Kind> {
        let is_it = |tracked: &&Tracked| {
            tracked.kind.resource.kind == owner.kind && tracked.kind.resource.group == owner.group()
        };
        self.kinds
            .values()
            .find(is_it)
            .filter(|tracked| tracked.ready)
            .map(|tracked| &tracked.kind)
    }

    /// Items worth a look since the last call.
    pub(crate) fn take_dirty_items(&mut self) -> BTreeSet<String> {
        std::mem::take(&mut self.dirty_items)
    }

    /// Namespaces in which something has gone since the last call.
    pub(crate) fn take_namespaces_with_deletions(&mut self) -> BTreeSet<String> {
        std::mem::take(&mut self.emptied)
    }

    /// Namespaces in which something has changed since the last call.
    pub(crate) fn take_dirty_namespaces(&mut self) -> BTreeSet<String> {
        std::mem::take(&mut self.dirty_namespaces)
    }
}
