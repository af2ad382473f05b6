//! Files that something else changed: a damaged store is refused or shows what it showed, and never anything else.

use std::path::Path;

use cluster_store::{Entry, FileError, Key, Object, Page, Range, Revision, Store};
use futures::{FutureExt, StreamExt};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::json;

use crate::file::{folder_in_memory, open};

/// Bits flipped at random places of the file; the places of its header are all tried besides.
const FLIPS: usize = 150;
const CUTS: usize = 30;
/// The header: what the file is, and the two slots with the roots of the tables.
const HEADER_BYTES: usize = 320;
/// The byte of the header that selects the valid slot.
const GOD_BYTE: usize = 9;
const RESOURCES: [&str; 3] = ["apps/deployments", "nodes", "pods"];

/// All that a reader can see: every object, and every change that a watch can still deliver.
#[derive(Debug, PartialEq)]
struct Seen {
    revision: Revision,
    entries: Vec<Entry>,
    changes: Vec<(Entry, bool)>,
}

async fn seen(store: &dyn Store) -> Seen {
    let mut seen = Seen {
        revision: store.revision().await.unwrap(),
        entries: Vec::new(),
        changes: Vec::new(),
    };
    for resource in RESOURCES {
        let range = Range::all(resource);
        seen.entries
            .extend(store.list(&range, Page::default()).await.unwrap().entries);
        let mut watch = store.watch(&range, Revision(1)).await.unwrap();
        while let Some(change) = watch.next().now_or_never() {
            let change = change.unwrap().unwrap();
            seen.changes.push((change.entry.clone(), change.is_delete()));
        }
    }
    seen
}

fn object(name: &str, size: usize) -> Object {
    Object::from_value(json!({"metadata": {"name": name, "labels": {"a": "b"}}, "data": "d".repeat(size)})).unwrap()
}

/// Some hundred objects of all sizes, many of them written again, some deleted.
async fn fill(store: &dyn Store, chance: &mut StdRng) {
    for number in 0..240 {
        let resource = RESOURCES[number % RESOURCES.len()];
        let namespace = (resource != "nodes").then_some("some-namespace");
        let name = format!("object-{}", chance.random_range(0..120));
        let key = Key::new(resource, namespace, name.as_str());
        let size = chance.random_range(1..2000) * if number % 40 == 0 { 20 } else { 1 };
        match store.get(&key).await.unwrap() {
            None => store.create(key, object(&name, size)).await,
            Some(entry) if chance.random_bool(0.2) => store.delete(&key, entry.revision).await,
            Some(entry) => store.update(&key, entry.revision, object(&name, size)).await,
        }
        .unwrap();
    }
}

struct Sound {
    store: Vec<u8>,
    lock: Vec<u8>,
}

impl Sound {
    fn of(folder: &Path) -> Self {
        Sound {
            store: std::fs::read(folder.join("store.redb")).unwrap(),
            lock: std::fs::read(folder.join("lock")).unwrap(),
        }
    }

    /// What opening shows after `damage`; none when it is refused.
    async fn damaged(&self, what: &str, damage: impl FnOnce(&mut Vec<u8>)) -> Option<Seen> {
        let folder = folder_in_memory();
        let mut store = self.store.clone();
        damage(&mut store);
        std::fs::write(folder.path().join("store.redb"), store).unwrap();
        std::fs::write(folder.path().join("lock"), &self.lock).unwrap();
        match open(folder.path()).await {
            Ok(store) => Some(seen(&store).await),
            Err(FileError::Damaged { .. } | FileError::NotAStore { .. } | FileError::OtherFormat { .. }) => None,
            Err(other) => panic!("{what}: {other}"),
        }
    }
}

async fn survives(sound: &Sound, right: &Seen, chance: &mut StdRng) {
    let mut refused = 0;
    let header = (0..HEADER_BYTES).map(|place| (place, chance.random_range(0..8)));
    let mut flips: Vec<(usize, usize)> = header.filter(|(place, _)| *place != GOD_BYTE).collect();
    flips.extend((0..FLIPS).map(|_| {
        (
            chance.random_range(HEADER_BYTES..sound.store.len()),
            chance.random_range(0..8),
        )
    }));
    for (place, bit) in flips {
        let what = format!("bit {bit} of byte {place} flipped");
        match sound.damaged(&what, |store| store[place] ^= 1 << bit).await {
            Some(shown) => assert_eq!(&shown, right, "{what}"),
            None => refused += 1,
        }
    }
    assert!(refused > FLIPS / 10, "flips do reach what is stored: {refused}");
    for _ in 0..CUTS {
        let length = chance.random_range(0..sound.store.len());
        let what = format!("cut to {length} of {}", sound.store.len());
        let shown = sound.damaged(&what, |store| store.truncate(length)).await;
        assert_eq!(shown, None, "{what}");
    }
}

#[tokio::test]
async fn damaged_file_of_a_closed_store_is_refused_or_shows_what_it_showed() {
    let chance = &mut StdRng::seed_from_u64(1);
    let folder = folder_in_memory();
    let store = open(folder.path()).await.unwrap();
    fill(&store, chance).await;
    let right = seen(&store).await;
    store.close().await.unwrap();
    let sound = Sound::of(folder.path());
    assert_eq!(sound.damaged("nothing", |_| ()).await.as_ref(), Some(&right));
    survives(&sound, &right, chance).await;
    for bit in 0..8 {
        let what = format!("bit {bit} of the byte that says which slot counts");
        if let Some(shown) = sound.damaged(&what, |store| store[GOD_BYTE] ^= 1 << bit).await {
            assert_eq!(shown, right, "{what}");
        }
    }
}

#[tokio::test]
async fn damaged_file_of_a_killed_store_is_refused_or_shows_what_it_showed() {
    let chance = &mut StdRng::seed_from_u64(2);
    let folder = folder_in_memory();
    let store = open(folder.path()).await.unwrap();
    fill(&store, chance).await;
    let right = seen(&store).await;
    // All writes have been acknowledged: this is what a killed process leaves.
    let sound = Sound::of(folder.path());
    assert_eq!(sound.damaged("nothing", |_| ()).await.as_ref(), Some(&right));
    survives(&sound, &right, chance).await;
    // FIXME: the bit that selects the slot has no checksum, and after a crash no note has the revision at which the store was
    // closed. Flipped, it shows the store as it was before the last commit. The database offers no way to detect that.
    let before = sound.damaged("the primary bit", |store| store[GOD_BYTE] ^= 1).await;
    assert_eq!(before.unwrap().revision.0, right.revision.0 - 1);
}
