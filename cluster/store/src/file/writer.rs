//! The one thread that writes the file: it collects the queued writes, validates them in order, commits them together, then
//! shows and answers them; between commits it compacts the file. It never shows or answers anything before the commit is
//! durable, not even a refusal, which may reveal a write of the same batch.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};

use super::FileOptions;
use super::compaction::Compaction;
use super::disk::{Disk, Medium, rows};
use super::error::FileError;
use super::place::{Note, Place};
use crate::memory::{Forgotten, MemoryStore};
use crate::write::{Decided, Write};
use crate::{Entry, Key, Revision, StoreError};

/// Writes in one commit. Far below the history's length, so that one batch does not expire watches.
const BATCH_CHANGES_MAX: usize = 256;
/// Bytes of objects in one commit, one object more or less: half of what the history retains, for the same reason.
const BATCH_BYTES_MAX: usize = crate::HISTORY_BYTES_MAX / 2;
/// Between two attempts to open a file that failed: each reads all of it.
const REOPEN_PAUSE: Duration = Duration::from_secs(1);

pub(super) type Answer<T> = oneshot::Sender<T>;
type Written = Result<Entry, StoreError>;

/// A message to the thread.
pub(super) enum Message {
    Write(Box<Write>, Answer<Written>),
    Close(Answer<Result<(), FileError>>),
}

/// The thread's state.
pub(super) struct Writer<M> {
    place: Place,
    medium: M,
    options: FileOptions,
    /// None after a failure, until it is opened again.
    disk: Option<Disk>,
    /// What readers see: everything durable and nothing else.
    memory: MemoryStore,
    /// What the history no longer needs and the file still has.
    forgotten: Forgotten,
    /// How many bytes the file's rows have.
    rows_bytes: u64,
    compaction: Compaction,
    failure: Option<Failure>,
    reopen_pause: Duration,
}

/// Why the file cannot be written at present.
struct Failure {
    why: StoreError,
    /// When the file was last tried.
    at: Instant,
}

/// Writes that have been validated.
#[derive(Default)]
struct Batch {
    decided: Vec<Decided>,
    answers: Vec<(Answer<Written>, Written)>,
}

impl<M: Medium> Writer<M> {
    /// Locks the folder, creates the store when there is none, and reads all of it.
    pub(super) fn open(folder: &std::path::Path, medium: M, options: FileOptions) -> Result<Self, FileError> {
        let mut place = Place::take(folder)?;
        if !place.has_store()? {
            place.make_store(|path| Disk::create(path, &medium, &options))?;
        }
        let disk = Disk::open(&place.file(), &medium)?;
        let meta = disk.meta(&options)?;
        if let Note::Closed(revision) = place.note()
            && revision != meta.newest
        {
            return Err(FileError::Damaged {
                path: place.file(),
                found: format!("it is at revision {}", meta.newest),
                expected: format!(
                    "revision {revision}, at which it was closed (remove the file `lock` beside it if you put it there)"
                ),
            });
        }
        let (memory, forgotten, rows_bytes) = disk.load(&meta)?;
        place.note_open()?;
        place.clear()?;
        let mut writer = Writer {
            compaction: Compaction::new(options.compact_above_bytes),
            rows_bytes,
            place,
            medium,
            options,
            disk: Some(disk),
            memory,
            forgotten,
            failure: None,
            reopen_pause: REOPEN_PAUSE,
        };
        writer.consider_compaction();
        Ok(writer)
    }

    /// What readers see.
    pub(super) fn memory(&self) -> MemoryStore {
        self.memory.clone()
    }

    /// Shortens the wait before a failed file is opened again.
    #[cfg(test)]
    pub(super) fn reopen_at_once(&mut self) {
        self.reopen_pause = Duration::ZERO;
    }

    /// Writes until it gets the message to close, or all senders are gone.
    pub(super) fn run(mut self, mut queue: mpsc::Receiver<Message>) {
        while let Some(first) = self.next(&mut queue) {
            let mut waiting = Vec::new();
            let mut bytes = 0;
            let mut close = None;
            let mut next = Some(first);
            while let Some(message) = next {
                match message {
                    Message::Write(write, answer) => {
                        bytes += write.bytes();
                        waiting.push((write, answer));
                    }
                    Message::Close(answer) => close = Some(answer),
                }
                let full = waiting.len() >= BATCH_CHANGES_MAX || bytes >= BATCH_BYTES_MAX;
                next = if full || close.is_some() {
                    None
                } else {
                    queue.try_recv().ok()
                };
            }
            self.write(waiting);
            self.compact();
            if let Some(answer) = close {
                let closed = self.close();
                // The answer means that the folder is free, so unlock it first.
                drop(self);
                // The caller may have gone away; the store is closed all the same.
                let _ = answer.send(closed);
                return;
            }
        }
        // No caller is left to return an error to; whatever was acknowledged is in the file already.
        let _ = self.close();
    }

    /// The next message. While the queue is empty, a copy goes on.
    fn next(&mut self, queue: &mut mpsc::Receiver<Message>) -> Option<Message> {
        while self.compaction.is_under_way() {
            match queue.try_recv() {
                Ok(message) => return Some(message),
                Err(mpsc::error::TryRecvError::Empty) => self.compact(),
                Err(mpsc::error::TryRecvError::Disconnected) => return None,
            }
        }
        queue.blocking_recv()
    }

    fn consider_compaction(&mut self) {
        self.compaction.consider(&self.place, &self.medium, self.rows_bytes);
    }

    /// One step of a copy that is under way.
    fn compact(&mut self) {
        let Some(disk) = &self.disk else { return };
        match self.compaction.step(disk, &self.place) {
            Ok(None) => {}
            Ok(Some(copy)) => {
                if let Some(before) = self.disk.replace(copy) {
                    before.abandon();
                }
            }
            Err(error) => drop(self.fail(&error)),
        }
    }

    /// Validates, commits, shows and answers these writes.
    fn write(&mut self, waiting: Vec<(Box<Write>, Answer<Written>)>) {
        if waiting.is_empty() {
            return;
        }
        if let Err(why) = self.ready() {
            for (_, answer) in waiting {
                let _ = answer.send(Err(why.clone()));
            }
            return;
        }
        let mut batch = self.validate(waiting);
        if let Err(why) = self.commit(&mut batch) {
            for (answer, _) in batch.answers {
                let _ = answer.send(Err(why.clone()));
            }
            return;
        }
        for (answer, result) in batch.answers {
            // A caller that no longer waits for the answer sees the write when it reads.
            let _ = answer.send(result);
        }
    }

    /// Decides each write on what those before it leave.
    fn validate(&self, waiting: Vec<(Box<Write>, Answer<Written>)>) -> Batch {
        let mut batch = Batch::default();
        let mut touched: HashMap<Key, Option<Entry>> = HashMap::new();
        let mut newest = self.memory.newest();
        for (write, answer) in waiting {
            let key = write.key().clone();
            let current = match touched.get(&key) {
                Some(current) => current.clone(),
                None => self.memory.current(&key),
            };
            let next = Revision(newest.0 + 1);
            match write.decide(current.as_ref(), next) {
                Ok(decided) => {
                    newest = next;
                    touched.insert(key, decided.after().cloned());
                    batch.answers.push((answer, Ok(decided.entry.clone())));
                    batch.decided.push(decided);
                }
                Err(refusal) => batch.answers.push((answer, Err(refusal))),
            }
        }
        batch
    }

    /// Makes a batch durable, then shows it to readers and watchers.
    fn commit(&mut self, batch: &mut Batch) -> Result<(), StoreError> {
        let Some(newest) = batch.decided.last().map(|decided| decided.entry.revision) else {
            return Ok(());
        };
        let rows = rows(&batch.decided)?;
        let disk = self
            .disk
            .as_ref()
            .expect("the file was made ready before the batch was validated");
        match disk.commit(&rows, &self.forgotten, newest) {
            Ok(removed_bytes) => {
                let added_bytes: u64 = rows.iter().map(|(_, row)| row.len() as u64).sum();
                self.rows_bytes = (self.rows_bytes + added_bytes).saturating_sub(removed_bytes);
                self.compaction.note_removed(&self.forgotten.rows);
                self.consider_compaction();
                self.forgotten = Forgotten::default();
                self.memory
                    .apply(std::mem::take(&mut batch.decided), &mut self.forgotten);
                Ok(())
            }
            Err(error) => Err(self.fail(&error)),
        }
    }

    fn fail(&mut self, error: &FileError) -> StoreError {
        self.compaction.give_up(&self.place);
        if let Some(disk) = self.disk.take() {
            disk.abandon();
        }
        let why = StoreError::from(error);
        self.failure = Some(Failure {
            why: why.clone(),
            at: Instant::now(),
        });
        why
    }

    /// Opens the file again after a failure. The database refuses everything after one, and only the file shows
    /// whether the commit that failed has happened.
    fn ready(&mut self) -> Result<(), StoreError> {
        if self.disk.is_some() {
            return Ok(());
        }
        if let Some(failure) = &self.failure
            && failure.at.elapsed() < self.reopen_pause
        {
            return Err(failure.why.clone());
        }
        match self.reopen() {
            Ok(disk) => {
                self.disk = Some(disk);
                Ok(())
            }
            Err(error) => Err(self.fail(&error)),
        }
    }

    /// Opens the file and shows what it has beyond what readers know: a commit whose failure came too late to undo it.
    fn reopen(&mut self) -> Result<Disk, FileError> {
        let path = self.place.file();
        // What failed may have been a change of files.
        self.place.sync()?;
        let disk = Disk::open(&path, &self.medium)?;
        let meta = disk.meta(&self.options)?;
        let shown = self.memory.newest();
        if meta.newest < shown {
            return Err(FileError::Damaged {
                path,
                found: format!("it is at revision {}", meta.newest),
                expected: format!("revision {shown} or later, which was acknowledged"),
            });
        }
        let mut unseen = Vec::new();
        disk.rows_after(shown, |row| {
            unseen.push(row);
            Ok(())
        })?;
        // Such a commit has removed rows as well.
        self.rows_bytes = disk.rows_bytes()?;
        let revisions = unseen.iter().map(|row| row.entry.revision.0);
        if !revisions.eq(shown.0 + 1..=meta.newest.0) {
            return Err(FileError::damaged(
                &path,
                format!("rows after revision {shown} are missing"),
            ));
        }
        self.memory.apply(unseen, &mut self.forgotten);
        Ok(disk)
    }

    fn close(&mut self) -> Result<(), FileError> {
        self.compaction.give_up(&self.place);
        match self.disk.take() {
            Some(disk) => disk.close()?,
            // Closed by a failure, which was returned to the callers.
            None => return Ok(()),
        }
        self.place.note_closed(self.memory.newest())
    }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt;
    use serde_json::json;

    use super::super::disk::Plain;
    use super::super::faults::Faults;
    use super::*;
    use crate::{HISTORY_AGE_MAX, Object, Range, Store};

    fn open(folder: &std::path::Path) -> Writer<Plain> {
        Writer::open(folder, Plain, FileOptions::default()).unwrap()
    }

    impl<M: Medium> Writer<M> {
        fn write_one(&mut self, write: Write) -> Entry {
            let (answer, mut answered) = oneshot::channel();
            self.write(vec![(Box::new(write), answer)]);
            answered.try_recv().unwrap().unwrap()
        }

        fn rows(&self) -> Vec<u64> {
            let mut revisions = Vec::new();
            let disk = self.disk.as_ref().unwrap();
            let read = disk.rows_after(Revision(0), |row| {
                revisions.push(row.entry.revision.0);
                Ok(())
            });
            read.unwrap();
            revisions
        }
    }

    fn create(resource: &str, name: &str) -> Write {
        Write::Create {
            key: Key::new(resource, None, name),
            object: Object::from_value(json!({"metadata": {"name": name}})).unwrap(),
        }
    }

    /// The writer is driven here and not by its thread: there, time is the machine's.
    #[tokio::test(start_paused = true)]
    async fn changes_too_old_for_the_history_are_removed_from_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = open(folder.path());
        let first = writer.write_one(create("pods", "a"));
        let second = writer.write_one(Write::Update {
            key: first.key.clone(),
            expected: first.revision,
            object: Object::from_value(json!({"metadata": {"name": "a"}, "again": true})).unwrap(),
        });
        tokio::time::advance(HISTORY_AGE_MAX + Duration::from_secs(1)).await;
        writer.write_one(create("nodes", "sweeps"));
        assert_eq!(writer.rows(), [2, 3, 4]);
        writer.write_one(create("nodes", "commits"));
        assert_eq!(writer.rows(), [3, 4, 5]);
        writer.close().unwrap();
        drop(writer);

        let again = open(folder.path()).memory();
        let expired = again.watch(&Range::all("pods"), first.revision).await.err();
        let (requested, oldest) = (first.revision, second.revision);
        assert_eq!(expired, Some(StoreError::Expired { requested, oldest }));
        assert!(again.watch(&Range::all("pods"), second.revision).await.is_ok());
        assert_eq!(again.current(&first.key), Some(second));
    }

    /// The disk fails from one operation of a commit on: from each of them in turn. After some of them the commit has happened.
    #[tokio::test(start_paused = true)]
    async fn bytes_of_rows_are_those_of_the_file_after_a_commit_that_failed() {
        for operations in 0.. {
            let folder = tempfile::tempdir().unwrap();
            let faults = Faults::default();
            let mut writer = Writer::open(folder.path(), faults.clone(), FileOptions::default()).unwrap();
            writer.reopen_at_once();
            let first = writer.write_one(create("pods", "a"));
            writer.write_one(Write::Update {
                key: first.key.clone(),
                expected: first.revision,
                object: Object::from_value(json!({"metadata": {"name": "a"}, "again": true})).unwrap(),
            });
            tokio::time::advance(HISTORY_AGE_MAX + Duration::from_secs(1)).await;
            writer.write_one(create("nodes", "sweeps"));
            faults.fail_after(operations, std::io::ErrorKind::StorageFull);
            let (answer, _answered) = oneshot::channel();
            writer.write(vec![(Box::new(create("nodes", "removes")), answer)]);
            let met_fault = faults.heal();
            writer.write_one(create("nodes", "after"));
            let disk = writer.disk.as_ref().unwrap();
            assert_eq!(writer.rows_bytes, disk.rows_bytes().unwrap(), "{operations}");
            if !met_fault {
                return;
            }
        }
    }

    /// The disk fails from one operation of the copy on: from each of them in turn.
    #[tokio::test]
    async fn disk_that_fails_during_compaction_loses_nothing() {
        let options = FileOptions {
            compact_above_bytes: 0,
            ..FileOptions::default()
        };
        for operations in 0.. {
            let folder = tempfile::tempdir().unwrap();
            let faults = Faults::default();
            let mut writer = Writer::open(folder.path(), faults.clone(), options.clone()).unwrap();
            writer.reopen_at_once();
            let mut written: Vec<_> = (0..3)
                .map(|number| writer.write_one(create("pods", &format!("p{number}"))))
                .collect();
            assert!(writer.compaction.is_under_way());
            writer.compact();
            // A copied row is removed, and others follow the last copied one.
            let gone = written.remove(0);
            let (key, expected) = (gone.key, gone.revision);
            writer.write_one(Write::Delete { key, expected });
            written.push(writer.write_one(create("pods", "while")));

            faults.fail_after(operations, std::io::ErrorKind::StorageFull);
            while writer.compaction.is_under_way() {
                writer.compact();
            }
            let met_fault = faults.heal();
            written.push(writer.write_one(create("pods", "after")));
            written.sort_by(|one, other| one.key.cmp(&other.key));
            writer.close().unwrap();
            drop(writer);
            let again = open(folder.path()).memory();
            let pods = Range::all("pods");
            assert_eq!(
                again.list(&pods, crate::Page::default()).await.unwrap().entries,
                written
            );
            let delivered = again.watch(&pods, Revision(1)).await.unwrap().take(6);
            let delivered: Vec<u64> = delivered.map(|change| change.unwrap().entry.revision.0).collect().await;
            assert_eq!(delivered, [2, 3, 4, 5, 6, 7]);
            assert!(!folder.path().join("store.redb.new").exists());
            if !met_fault {
                assert!(operations > 4, "a copy writes, syncs, writes and syncs: {operations}");
                return;
            }
        }
    }
}
