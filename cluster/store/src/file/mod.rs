//! The store's file backend: a folder that outlives the process. Objects are read from memory and written to one file.
//!
//! Reads and watches are those of the memory backend, which holds every object; the file is only written, and read again
//! when it is opened. Writes queue for one thread, which commits all that wait in one go and then shows them: what a
//! reader or a watcher has seen is on the disk, and nothing is acknowledged before it is. Revisions go on after a
//! crash where they stood, and watches resume, because the file has the history of the memory backend.
//!
//! It follows no virtual time: threads and disks do not.

mod compaction;
mod disk;
mod error;
#[cfg(test)]
mod faults;
mod place;
mod row;
mod writer;

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::{mpsc, oneshot};

use crate::write::Write;
use crate::{Changes, Entry, Key, Link, Listing, MemoryStore, Object, Page, Range, Revision, Store, StoreError};
use disk::{Medium, Plain};
pub use error::FileError;
use writer::{Message, Writer};

/// Writes that wait for the thread before callers wait for room: a few batches, so that the next one is always full.
const QUEUE_MAX: usize = 1024;

/// How a file store is opened.
#[derive(Clone, Debug)]
pub struct FileOptions {
    /// The revision of a store that is created because there is none; its first write gets the next one. The replacement of
    /// a lost store starts beyond the old one's last revision, so that old readers have to list again. At least 1:
    /// Kubernetes gives 0 the meaning "any". Ignored when the store exists.
    pub start: Revision,
    /// The number of the format in which the caller writes objects. A store with another number is refused, so that an
    /// older program never misreads what a newer one wrote.
    pub content_format: u32,
    /// A file of at least so many bytes that is mostly free space is copied into a smaller one while the store is in use.
    /// Smaller files are not worth the writing. 0, for tests: every file, again and again.
    pub compact_above_bytes: u64,
}

/// Even a hundred stores of this size take little of a disk.
const COMPACT_ABOVE_BYTES: u64 = 8 << 20;

impl Default for FileOptions {
    /// From revision 1, content format 1, compacted above 8 MiB.
    fn default() -> Self {
        FileOptions {
            start: Revision(1),
            content_format: 1,
            compact_above_bytes: COMPACT_ABOVE_BYTES,
        }
    }
}

/// Objects in a folder. Clones share one content.
///
/// A write returns when it is durable. [`StoreError::Unavailable`] from a write means that the file could not be
/// written; the write may still have happened, as with any store across a network, and a read shows whether. Reads go on,
/// and later writes try the file again, so they succeed once there is space or the disk is back. One object may have up to
/// 3 GiB.
///
/// [`FileStore::close`] waits until the folder is free for others. Dropping the last clone closes it too, a moment
/// later. Either ends watches with [`StoreError::Unavailable`]. A process that is killed loses nothing acknowledged.
#[derive(Clone)]
pub struct FileStore {
    shared: Arc<Shared>,
}

struct Shared {
    memory: MemoryStore,
    /// Readers use the memory through this, so that closing ends their watches.
    link: Link,
    queue: mpsc::Sender<Message>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.link.cut();
    }
}

impl FileStore {
    /// Opens the store in a folder, and creates folder and store when there is none. It reads and checks the whole file,
    /// on a thread of its own.
    ///
    /// Errors: see [`FileError`]; whatever it is, what was in the folder is left as it was.
    pub async fn open(folder: impl Into<PathBuf>, options: FileOptions) -> Result<Self, FileError> {
        let folder = folder.into();
        FileStore::start(folder.clone(), move || Writer::open(&folder, Plain, options)).await
    }

    async fn start<M: Medium>(
        folder: PathBuf,
        open: impl FnOnce() -> Result<Writer<M>, FileError> + Send + 'static,
    ) -> Result<Self, FileError> {
        let (queue, messages) = mpsc::channel(QUEUE_MAX);
        let (opened, is_open) = oneshot::channel();
        let thread = std::thread::Builder::new().name("file-store".to_owned());
        let spawned = thread.spawn(move || match open() {
            Ok(writer) => {
                // When the caller has gone, the queue's other end is gone too and the writer closes at once.
                let _ = opened.send(Ok(writer.memory()));
                writer.run(messages);
            }
            Err(error) => {
                let _ = opened.send(Err(error));
            }
        });
        if let Err(source) = spawned {
            return Err(FileError::io(&folder, "starting its thread", source));
        }
        let gone = |_| FileError::damaged(&folder, "its reader gave up");
        let memory = is_open.await.map_err(gone)??;
        Ok(FileStore {
            shared: Arc::new(Shared {
                link: Link::new(Arc::new(memory.clone())).with_reason("the store was closed"),
                memory,
                queue,
            }),
        })
    }

    /// Executes the queued writes, ends watches, closes the file and unlocks the folder. Every later call
    /// answers [`StoreError::Unavailable`]; closing again does nothing.
    ///
    /// Errors: the file could not be closed cleanly. Nothing acknowledged is lost; the next open finds it.
    pub async fn close(&self) -> Result<(), FileError> {
        let (answer, answered) = oneshot::channel();
        let sent = self.shared.queue.send(Message::Close(answer)).await;
        self.shared.link.cut();
        match sent {
            // No answer: another caller closed the store at the same time.
            Ok(()) => answered.await.unwrap_or(Ok(())),
            Err(_) => Ok(()),
        }
    }

    async fn write(&self, write: Write) -> Result<Entry, StoreError> {
        // A refusal must let watchers run too.
        tokio::task::consume_budget().await;
        // What the durable state refuses needs no disk.
        self.shared.link.check_open()?;
        self.shared.memory.validate(&write)?;
        let (answer, answered) = oneshot::channel();
        let closed = || StoreError::Unavailable("the store was closed".to_owned());
        let sent = self.shared.queue.send(Message::Write(Box::new(write), answer)).await;
        sent.map_err(|_| closed())?;
        answered.await.map_err(|_| closed())?
    }
}

#[async_trait]
impl Store for FileStore {
    async fn get(&self, key: &Key) -> Result<Option<Entry>, StoreError> {
        self.shared.link.get(key).await
    }

    async fn list(&self, range: &Range, page: Page) -> Result<Listing, StoreError> {
        self.shared.link.list(range, page).await
    }

    async fn create(&self, key: Key, object: Object) -> Result<Entry, StoreError> {
        self.write(Write::Create { key, object }).await
    }

    async fn update(&self, key: &Key, expected: Revision, object: Object) -> Result<Entry, StoreError> {
        let key = key.clone();
        self.write(Write::Update { key, expected, object }).await
    }

    async fn delete(&self, key: &Key, expected: Revision) -> Result<Entry, StoreError> {
        let key = key.clone();
        self.write(Write::Delete { key, expected }).await
    }

    async fn watch(&self, range: &Range, from: Revision) -> Result<Changes, StoreError> {
        self.shared.link.watch(range, from).await
    }

    async fn revision(&self) -> Result<Revision, StoreError> {
        self.shared.link.revision().await
    }
}
