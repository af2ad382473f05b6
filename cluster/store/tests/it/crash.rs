//! A process that writes is killed at random moments, over and over on the same folder: nothing acknowledged is lost,
//! nothing appears that was never sent, nothing that anybody saw goes away, and watches resume.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use cluster_store::{FileStore, Key, Range, Revision, Store};
use futures::{FutureExt, StreamExt};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::file::open;
use crate::suite::{object, pod};

/// How often the process is killed, unless `ORANGERY_STORE_CRASHES` says otherwise.
const CRASHES: usize = 20;
const FOLDER: &str = "ORANGERY_STORE_CRASH_FOLDER";
const ROUND: &str = "ORANGERY_STORE_CRASH_ROUND";
const WRITERS: u64 = 8;
/// Each writer has its own, so that what a key may hold is known.
const KEYS_PER_WRITER: u64 = 4;
/// Per round; far fewer than the history holds.
const ACKNOWLEDGED_MAX: usize = 300;

fn key(writer: u64, number: u64) -> Key {
    pod("n", &format!("w{writer}-{number}"))
}

fn content(entry: &cluster_store::Entry) -> i64 {
    entry.object.value(entry.revision)["content"].as_i64().unwrap()
}

/// One line at once, so that a killed process leaves whole lines and at most one torn one.
fn tell(line: &str) {
    std::io::stdout()
        .lock()
        .write_all(format!("\n@{line}\n").as_bytes())
        .unwrap();
}

/// Not a test of its own: the process that is killed, which is this program again with a folder in its environment.
#[test]
fn child_writes_until_it_is_killed() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let round = std::env::var(ROUND).unwrap().parse().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .build()
        .unwrap();
    runtime.block_on(async {
        let store = open(folder.as_ref()).await.unwrap();
        let start = store.revision().await.unwrap();
        tell(&format!("opened {start}"));
        let mut watch = store.watch(&Range::all("pods"), start).await.unwrap();
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| tokio::spawn(write_forever(store.clone(), round, writer)))
            .collect();
        while let Some(change) = watch.next().await {
            tell(&format!("watched {}", change.unwrap().entry.revision));
        }
        for writer in writers {
            writer.await.unwrap();
        }
    });
}

async fn write_forever(store: FileStore, round: u64, writer: u64) {
    let mut chance = StdRng::seed_from_u64(round * WRITERS + writer);
    for number in 0.. {
        let key = key(writer, chance.random_range(0..KEYS_PER_WRITER));
        let id = i64::try_from((round * WRITERS + writer) * 1_000_000 + number).unwrap();
        let current = store.get(&key).await.unwrap();
        let delete = current.is_some() && chance.random_bool(0.2);
        tell(&format!("sent {} {}", key.name, if delete { -id } else { id }));
        let object = object(&key.name, id);
        let written = match current {
            None => store.create(key.clone(), object).await,
            Some(current) if delete => store.delete(&key, current.revision).await,
            Some(current) => store.update(&key, current.revision, object).await,
        };
        tell(&format!("acknowledged {} {}", key.name, written.unwrap().revision));
    }
}

/// What is known of one key. A content below zero stands for a deletion.
#[derive(Clone, Debug, Default)]
struct Known {
    /// What the changes that were checked left there.
    content: Option<i64>,
    revision: u64,
    sent_last: i64,
    /// Sent to a process that died before it answered, or not answered yet.
    unanswered: Vec<i64>,
}

/// What is known of the folder.
#[derive(Default)]
struct Ledger {
    keys: BTreeMap<String, Known>,
    /// The contents under the revisions that acknowledged them; deletions below zero.
    acknowledged: BTreeMap<u64, (String, i64)>,
    /// The newest revision that anybody saw.
    seen: u64,
    /// Up to here, changes have been checked.
    checked: u64,
}

impl Ledger {
    fn line(&mut self, line: &str) {
        let mut words = line.split(' ');
        match words.next() {
            Some("opened") => {
                let revision = words.next().unwrap().parse().unwrap();
                assert!(
                    revision >= self.seen,
                    "it opens at {revision} after {} was seen",
                    self.seen
                );
                self.seen = revision;
            }
            Some("watched") => self.seen = self.seen.max(words.next().unwrap().parse().unwrap()),
            Some("sent") => {
                let known = self.keys.entry(words.next().unwrap().to_owned()).or_default();
                known.sent_last = words.next().unwrap().parse().unwrap();
                known.unanswered.push(known.sent_last);
            }
            Some("acknowledged") => {
                let name = words.next().unwrap();
                let revision = words.next().unwrap().parse().unwrap();
                let known = self.keys.get_mut(name).unwrap();
                let content = known.unanswered.pop().unwrap();
                assert_eq!(content, known.sent_last);
                let before = self.acknowledged.insert(revision, (name.to_owned(), content));
                assert_eq!(before, None, "revision {revision} was given twice");
                self.seen = self.seen.max(revision);
            }
            other => panic!("{other:?}"),
        }
    }

    /// Compares what the folder holds, and what a watch from the last check tells, with what is known.
    async fn check(&mut self, store: &FileStore) {
        let newest = store.revision().await.unwrap().0;
        assert!(
            newest >= self.seen,
            "revision {} was seen, the store is at {newest}",
            self.seen
        );
        let mut watch = store
            .watch(&Range::all("pods"), Revision(self.checked))
            .await
            .expect("a watch resumes");
        let mut expected = self.checked + 1;
        while let Some(change) = watch.next().now_or_never() {
            let change = change.unwrap().unwrap();
            let revision = change.entry.revision.0;
            assert_eq!(revision, expected, "no change is missing");
            expected += 1;
            let name = change.entry.key.name.to_string();
            let told = if change.is_delete() { -1 } else { content(&change.entry) };
            let matches = |sent: &i64| *sent == told || (*sent < 0 && told < 0);
            let known = self.keys.get_mut(&name).expect("it was sent");
            match self.acknowledged.remove(&revision) {
                Some((key, sent)) => assert!(name == key && matches(&sent), "{revision}: {name} {told}, {key} {sent}"),
                None => {
                    let place = known
                        .unanswered
                        .iter()
                        .position(matches)
                        .expect("it was sent and not answered");
                    known.unanswered.remove(place);
                }
            }
            known.content = (told >= 0).then_some(told);
            known.revision = revision;
        }
        assert_eq!(expected, newest + 1);
        assert!(self.acknowledged.is_empty(), "lost: {:?}", self.acknowledged);
        for (name, known) in &mut self.keys {
            known.unanswered.clear();
            let entry = store.get(&pod("n", name)).await.unwrap();
            let found = entry.map(|entry| (content(&entry), entry.revision.0));
            assert_eq!(found, known.content.map(|content| (content, known.revision)), "{name}");
        }
        self.checked = newest;
        self.seen = newest;
    }
}

fn child(folder: &Path, round: usize) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["crash::child_writes_until_it_is_killed", "--exact", "--nocapture"])
        .env(FOLDER, folder)
        .env(ROUND, round.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Lets a process write, kills it, and takes down what it told.
fn crash(folder: &Path, round: usize, ledger: &mut Ledger) {
    let mut chance = StdRng::seed_from_u64(u64::try_from(round).unwrap());
    let mut child = child(folder, round);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    // One in eight dies before it has opened the folder, or while it does.
    let acknowledged = chance.random_range(0..ACKNOWLEDGED_MAX);
    let early = chance.random_ratio(1, 8);
    let mut left = acknowledged;
    while !early && left > 0 {
        let line = lines.next().expect("it writes until it is killed").unwrap();
        if let Some(line) = line.strip_prefix('@') {
            left -= usize::from(line.starts_with("acknowledged"));
            ledger.line(line);
        }
    }
    // Nothing waits for this: it spreads the moment of death over what a commit does.
    std::thread::sleep(Duration::from_micros(chance.random_range(0..15_000)));
    child.kill().unwrap();
    child.wait().unwrap();
    let rest: Vec<String> = lines.map(Result::unwrap).filter(|line| line.starts_with('@')).collect();
    for line in rest {
        ledger.line(&line[1..]);
    }
}

#[tokio::test]
async fn killed_writer_loses_nothing_acknowledged_and_leaves_no_phantom() {
    let crashes = match std::env::var("ORANGERY_STORE_CRASHES") {
        Ok(number) => number.parse().unwrap(),
        Err(_) => CRASHES,
    };
    let folder = tempfile::tempdir().unwrap();
    let mut ledger = Ledger {
        checked: 1,
        seen: 1,
        ..Ledger::default()
    };
    let mut written = 0;
    for round in 0..crashes {
        crash(folder.path(), round, &mut ledger);
        // Every third process finds the folder as a killed one left it.
        if round % 3 != 1 || round + 1 == crashes {
            let store = open(folder.path()).await.unwrap();
            let before = ledger.checked;
            ledger.check(&store).await;
            written += ledger.checked - before;
            store.close().await.unwrap();
        }
    }
    assert!(written > 20 * crashes as u64, "they did write: {written}");
}
