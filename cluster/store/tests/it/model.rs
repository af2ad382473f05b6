//! Random operations against a model that keeps a full copy of the state at every revision.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Arc;

use cluster_store::{Changes, Key, Page, Range, Revision, Store, StoreError};
use futures::{FutureExt, StreamExt};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::suite::{Backend, object};

#[derive(Clone, Debug)]
enum Step {
    /// Creates, or updates at the current revision.
    Write {
        key: usize,
        content: i64,
    },
    /// Creates where something is, updates or deletes at a wrong revision.
    WriteWrongly {
        key: usize,
    },
    Delete {
        key: usize,
    },
    /// Opens a watch of a range from a revision this share of the way back.
    Watch {
        range: usize,
        back: u8,
    },
    /// Lists in pages as of a revision this share of the way back.
    List {
        range: usize,
        back: u8,
        limit: usize,
    },
    /// Closes the store and opens it again, as far as its backend outlives that.
    Reopen,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        5 => (0..KEYS.len(), any::<i64>()).prop_map(|(key, content)| Step::Write { key, content }),
        1 => (0..KEYS.len()).prop_map(|key| Step::WriteWrongly { key }),
        2 => (0..KEYS.len()).prop_map(|key| Step::Delete { key }),
        1 => (0..RANGES, any::<u8>()).prop_map(|(range, back)| Step::Watch { range, back }),
        1 => (0..RANGES, any::<u8>(), 1..4_usize).prop_map(|(range, back, limit)| Step::List { range, back, limit }),
        1 => Just(Step::Reopen),
    ];
    prop::collection::vec(step, 1..120)
}

const KEYS: [(&str, Option<&str>, &str); 8] = [
    ("pods", Some("a"), "x"),
    ("pods", Some("a"), "y"),
    ("pods", Some("a-b"), "x"),
    ("pods", Some("b"), "x"),
    ("pods", None, "x"),
    ("nodes", None, "x"),
    ("nodes", None, "y"),
    ("pods.x", Some("a"), "x"),
];
const RANGES: usize = 5;

fn key(index: usize) -> Key {
    let (resource, namespace, name) = KEYS[index];
    Key::new(resource, namespace, name)
}

fn range(index: usize) -> Range {
    match index {
        0 => Range::all("pods"),
        1 => Range::namespaced("pods", "a"),
        2 => Range::all("nodes"),
        3 => Range::one(&key(2)),
        _ => Range::all("pods.x"),
    }
}

type State = BTreeMap<Key, (Revision, i64)>;

/// Every state there ever was, and every change.
struct Model {
    states: Vec<(Revision, State)>,
    changes: Vec<(Revision, Key, Option<i64>)>,
}

impl Model {
    fn now(&self) -> &(Revision, State) {
        self.states.last().expect("the first state is the empty one")
    }

    fn revision_back(&self, back: u8) -> Revision {
        let last = self.states.len() - 1;
        self.states[last - last * usize::from(back) / 255].0
    }

    fn write(&mut self, revision: Revision, key: Key, content: Option<i64>) {
        let (before, mut state) = self.now().clone();
        assert!(revision > before, "revisions grow");
        match content {
            Some(content) => state.insert(key.clone(), (revision, content)),
            None => state.remove(&key),
        };
        self.states.push((revision, state));
        self.changes.push((revision, key, content));
    }
}

/// Runs random steps on the store and compares it with the model.
pub(crate) fn check(backend: &(impl Backend + Sync)) {
    // Regression files would be written into the checkout; failures print their smallest case anyway.
    let mut runner = TestRunner::new(Config {
        cases: 64,
        failure_persistence: None,
        ..Config::default()
    });
    let result = runner.run(&steps(), |steps| {
        std::thread::scope(|scope| {
            let run = scope.spawn(move || {
                backend.runtime().block_on(follow(backend, steps));
            });
            run.join().map_err(|panic| {
                let text = panic.downcast_ref::<String>().cloned();
                TestCaseError::fail(text.unwrap_or_else(|| "the case panicked".to_owned()))
            })
        })
    });
    result.unwrap();
}

async fn follow(backend: &impl Backend, steps: Vec<Step>) {
    let mut store = backend.fresh();
    let start = store.revision().await.unwrap();
    let mut model = Model {
        states: vec![(start, State::new())],
        changes: Vec::new(),
    };
    let mut watches = Vec::new();
    for step in steps {
        match step {
            Step::Write { key: index, content } => write(&store, &mut model, key(index), content).await,
            Step::WriteWrongly { key: index } => write_wrongly(&store, &model, key(index)).await,
            Step::Delete { key: index } => {
                let key = key(index);
                let current = model.now().1.get(&key).copied();
                let result = store
                    .delete(&key, current.map_or(Revision(1), |(revision, _)| revision))
                    .await;
                match current {
                    Some(_) => model.write(result.unwrap().revision, key, None),
                    None => assert_eq!(result, Err(StoreError::Missing { key })),
                }
            }
            Step::Watch { range: index, back } => {
                let from = model.revision_back(back);
                watches.push((range(index), from, store.watch(&range(index), from).await.unwrap()));
            }
            Step::List {
                range: index,
                back,
                limit,
            } => list(&store, &model, range(index), back, limit).await,
            Step::Reopen => {
                check_watches(&model, std::mem::take(&mut watches)).await;
                store = backend.reopened(store);
                assert_eq!(store.revision().await.unwrap(), model.now().0);
            }
        }
    }
    check_watches(&model, watches).await;
}

/// Checks that each watch delivers what it should and no more.
async fn check_watches(model: &Model, watches: Vec<(Range, Revision, Changes)>) {
    for (range, from, mut watch) in watches {
        for (revision, key, content) in &model.changes {
            if *revision > from && range.contains(key) {
                let change = watch
                    .next()
                    .now_or_never()
                    .expect("a change is there")
                    .unwrap()
                    .unwrap();
                assert_eq!((&change.entry.key, change.entry.revision), (key, *revision));
                assert_eq!(change.is_delete(), content.is_none());
                if let Some(content) = content {
                    assert_eq!(change.entry.object.value(*revision)["content"], *content);
                }
            }
        }
        assert!(watch.next().now_or_never().is_none(), "no change is delivered twice");
    }
}

async fn write(store: &Arc<dyn Store>, model: &mut Model, key: Key, content: i64) {
    let object = object(&key.name, content);
    let entry = match model.now().1.get(&key) {
        Some((revision, _)) => store.update(&key, *revision, object).await,
        None => store.create(key.clone(), object).await,
    };
    model.write(entry.unwrap().revision, key, Some(content));
}

async fn write_wrongly(store: &Arc<dyn Store>, model: &Model, key: Key) {
    let wrong = Revision(0);
    let result = match model.now().1.get(&key) {
        Some(_) => {
            assert!(store.delete(&key, wrong).await.is_err());
            assert!(store.create(key.clone(), object(&key.name, 0)).await.is_err());
            store.update(&key, wrong, object(&key.name, 0)).await
        }
        None => store.update(&key, wrong, object(&key.name, 0)).await,
    };
    assert!(result.is_err());
    assert_eq!(store.revision().await.unwrap(), model.now().0);
}

async fn list(store: &Arc<dyn Store>, model: &Model, range: Range, back: u8, limit: usize) {
    let at = model.revision_back(back);
    let state = &model
        .states
        .iter()
        .find(|(revision, _)| *revision == at)
        .expect("it came from there")
        .1;
    let expected: Vec<_> = state.iter().filter(|(key, _)| range.contains(key)).collect();
    let mut seen = Vec::new();
    let mut after = None;
    loop {
        let page = Page {
            limit: NonZeroUsize::new(limit),
            after: after.take(),
            at: Some(at),
        };
        let listing = store.list(&range, page).await.unwrap();
        assert_eq!(listing.revision, at);
        seen.extend(listing.entries.iter().map(|entry| {
            let content = entry.object.value(entry.revision)["content"]
                .as_i64()
                .expect("a number");
            (entry.key.clone(), (entry.revision, content))
        }));
        assert_eq!(listing.remaining, expected.len() - seen.len());
        if !listing.more() {
            break;
        }
        after = listing.entries.last().map(|entry| entry.key.clone());
    }
    assert!(seen.iter().map(|(key, value)| (key, value)).eq(expected), "{seen:?}");
}
