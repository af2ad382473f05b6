//! The store's file: tables, what a commit writes, how everything is loaded. It decides nothing about writes and
//! knows no threads; every call blocks.
//!
//! The file is a log: the table `rows` has the write of each revision, the table `horizons` up to which revision each
//! resource's history was dropped, the table `meta` the format of the file and its newest revision. A row is removed when
//! the history no longer needs it and it is no object's newest state, so the log stays as large as the store. Objects
//! are not compressed: that takes more time than it saves, because a commit waits for the disk's acknowledgement and
//! hardly for its throughput.
//!
//! Commits are two-phase: the pages first, then the byte that makes them valid, each synced. With one phase a crash
//! and a damaged page of the last commit look alike to the database, which would then silently go back one commit.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use redb::backends::FileBackend;
use redb::{Builder, Database, Durability, ReadableDatabase, ReadableTable, StorageBackend, TableDefinition};

use super::FileOptions;
use super::error::FileError;
use super::row::{Reader, encode};
use crate::Revision;
use crate::memory::{Forgotten, Loader, MemoryStore};
use crate::write::Decided;

const META: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("meta");
const ROWS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("rows");
const HORIZONS: TableDefinition<'_, &str, u64> = TableDefinition::new("horizons");

/// Under `magic` in `meta`: distinguishes a store from any other redb file.
const MAGIC: &[u8] = b"orangery object store";
/// Under `format` in `meta`: the version of the format that this file and `row.rs` define. A change of either needs
/// the next number and a reader of the old one.
const FORMAT: u64 = 1;
/// The database's own cache. Reads are served from memory and never come here; it only needs the few pages that
/// every commit touches, and a process has a hundred stores.
const CACHE_BYTES: usize = 1 << 20;

/// How a file is read and written; tests inject faults here.
pub(super) trait Medium: Send + 'static {
    type Backend: StorageBackend;
    fn backend(&self, file: File) -> Self::Backend;
}

/// The file itself.
pub(super) struct Plain;

impl Medium for Plain {
    type Backend = FileBackend;

    fn backend(&self, file: File) -> FileBackend {
        FileBackend::new(file).expect("redb 4 makes it without touching the file")
    }
}

/// An open file.
pub(super) struct Disk {
    path: PathBuf,
    database: Database,
}

/// What `meta` contains.
pub(super) struct Meta {
    start: Revision,
    pub(super) newest: Revision,
}

impl Disk {
    /// Creates an empty store at the path and closes it.
    pub(super) fn create(path: &Path, medium: &impl Medium, options: &FileOptions) -> Result<(), FileError> {
        let disk = Disk::blank(path, medium)?;
        let start = options.start.0.to_le_bytes();
        let numbers = [
            ("magic", MAGIC),
            ("format", &FORMAT.to_le_bytes()),
            ("content", &u64::from(options.content_format).to_le_bytes()),
            ("start", &start),
            ("newest", &start),
        ];
        let write = || -> Result<(), redb::Error> {
            let transaction = disk.database.begin_write()?;
            for (name, value) in numbers {
                transaction.open_table(META)?.insert(name, value)?;
            }
            transaction.open_table(ROWS)?;
            transaction.open_table(HORIZONS)?;
            transaction.commit()?;
            Ok(())
        };
        write().map_err(|error| FileError::database(path, "filling the new file", error))?;
        disk.close()
    }

    /// Creates a database without any table, not even `meta`.
    pub(super) fn blank(path: &Path, medium: &impl Medium) -> Result<Self, FileError> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(path)
            .map_err(|source| FileError::io(path, "making the file", source))?;
        Disk::over(path, medium.backend(file))
    }

    /// Opens a store and checks every page of it.
    pub(super) fn open(path: &Path, medium: &impl Medium) -> Result<Self, FileError> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(path)
            .map_err(|source| FileError::io(path, "opening the file", source))?;
        Disk::over(path, medium.backend(file))
    }

    fn over(path: &Path, backend: impl StorageBackend) -> Result<Self, FileError> {
        guarded(path, || {
            let database = Builder::new()
                .set_cache_size(CACHE_BYTES)
                .set_check_integrity_on_open(true)
                .create_with_backend(backend)
                .map_err(|error| FileError::database(path, "opening the file", error))?;
            Ok(Disk {
                path: path.to_owned(),
                database,
            })
        })
    }

    /// Reads `meta`. Errors: the file is another program's, or of another format.
    pub(super) fn meta(&self, options: &FileOptions) -> Result<Meta, FileError> {
        guarded(&self.path, || {
            let values = self.meta_values().map_err(|error| match error {
                redb::Error::TableDoesNotExist(_) | redb::Error::TableTypeMismatch { .. } => self.not_a_store(),
                error => FileError::database(&self.path, "reading what the file is", error),
            })?;
            if values.get("magic").map(Vec::as_slice) != Some(MAGIC) {
                return Err(self.not_a_store());
            }
            let number = |name: &str| {
                let bytes = values.get(name).and_then(|bytes| bytes.as_slice().try_into().ok());
                let bytes = bytes.ok_or_else(|| FileError::damaged(&self.path, format!("it does not tell its {name}")));
                bytes.map(u64::from_le_bytes)
            };
            let expect = |what, found, expected| {
                if found == expected {
                    return Ok(());
                }
                let path = self.path.clone();
                Err(FileError::OtherFormat {
                    path,
                    what,
                    found,
                    expected,
                })
            };
            expect("store format", number("format")?, FORMAT)?;
            expect("content format", number("content")?, options.content_format.into())?;
            Ok(Meta {
                start: Revision(number("start")?),
                newest: Revision(number("newest")?),
            })
        })
    }

    fn meta_values(&self) -> Result<BTreeMap<String, Vec<u8>>, redb::Error> {
        let table = self.database.begin_read()?.open_table(META)?;
        let mut values = BTreeMap::new();
        for entry in table.iter()? {
            let (name, value) = entry?;
            values.insert(name.value().to_owned(), value.value().to_vec());
        }
        Ok(values)
    }

    fn not_a_store(&self) -> FileError {
        FileError::NotAStore {
            path: self.path.clone(),
            found: "a redb file of another program".to_owned(),
            expected: "a redb file of this store",
        }
    }

    /// Everything in the file as a memory store, with what its history no longer needs, and how many bytes the rows have.
    pub(super) fn load(&self, meta: &Meta) -> Result<(MemoryStore, Forgotten, u64), FileError> {
        let horizons = guarded(&self.path, || {
            self.horizons()
                .map_err(|error| FileError::database(&self.path, "reading how far the history goes", error))
        })?;
        let mut loader = Loader::new(meta.start, horizons);
        let bytes = self.rows_after(Revision(0), |row| loader.row(row))?;
        let (memory, forgotten) = loader
            .finish(meta.newest)
            .map_err(|found| FileError::damaged(&self.path, found))?;
        Ok((memory, forgotten, bytes))
    }

    fn horizons(&self) -> Result<BTreeMap<Arc<str>, Revision>, redb::Error> {
        let table = self.database.begin_read()?.open_table(HORIZONS)?;
        let mut horizons = BTreeMap::new();
        for entry in table.iter()? {
            let (resource, horizon) = entry?;
            horizons.insert(Arc::from(resource.value()), Revision(horizon.value()));
        }
        Ok(horizons)
    }

    /// Calls `each` with every row after this revision, in order, until it returns an error. Returns how many bytes these
    /// rows have.
    pub(super) fn rows_after(
        &self,
        revision: Revision,
        each: impl FnMut(Decided) -> Result<(), String>,
    ) -> Result<u64, FileError> {
        guarded(&self.path, || self.read_rows_after(revision, each))
    }

    fn read_rows_after(
        &self,
        revision: Revision,
        mut each: impl FnMut(Decided) -> Result<(), String>,
    ) -> Result<u64, FileError> {
        let failed = |error: redb::Error| FileError::database(&self.path, "reading the rows", error);
        let mut reader = Reader::default();
        let mut bytes = 0;
        let transaction = self.database.begin_read().map_err(|error| failed(error.into()))?;
        let table = transaction.open_table(ROWS).map_err(|error| failed(error.into()))?;
        let rows = table.range(revision.0 + 1..).map_err(|error| failed(error.into()))?;
        for entry in rows {
            let (revision, row) = entry.map_err(|error| failed(error.into()))?;
            let revision = Revision(revision.value());
            bytes += row.value().len() as u64;
            reader
                .decode(revision, row.value())
                .map_err(|found| format!("the row of revision {revision}: {found}"))
                .and_then(&mut each)
                .map_err(|found| FileError::damaged(&self.path, found))?;
        }
        Ok(bytes)
    }

    /// How many bytes all rows have.
    pub(super) fn rows_bytes(&self) -> Result<u64, FileError> {
        let read = || -> Result<u64, redb::Error> {
            let table = self.database.begin_read()?.open_table(ROWS)?;
            let mut bytes = 0;
            for entry in table.iter()? {
                bytes += entry?.1.value().len() as u64;
            }
            Ok(bytes)
        };
        guarded(&self.path, || {
            read().map_err(|error| FileError::database(&self.path, "reading the rows", error))
        })
    }

    /// Writes these rows and removes what was forgotten, all or nothing. It is durable when it returns; after an error it
    /// may or may not have happened. Returns how many bytes the removed rows had.
    pub(super) fn commit(
        &self,
        rows: &[(Revision, Vec<u8>)],
        forgotten: &Forgotten,
        newest: Revision,
    ) -> Result<u64, FileError> {
        let write = || -> Result<u64, redb::Error> {
            let mut transaction = self.database.begin_write()?;
            transaction.set_two_phase_commit(true);
            let mut table = transaction.open_table(ROWS)?;
            for (revision, row) in rows {
                table.insert(revision.0, row.as_slice())?;
            }
            let mut removed = 0;
            for revision in &forgotten.rows {
                removed += table.remove(revision.0)?.map_or(0, |row| row.value().len() as u64);
            }
            drop(table);
            if !forgotten.horizons.is_empty() {
                let mut table = transaction.open_table(HORIZONS)?;
                for (resource, horizon) in &forgotten.horizons {
                    table.insert(&**resource, horizon.0)?;
                }
            }
            transaction
                .open_table(META)?
                .insert("newest", newest.0.to_le_bytes().as_slice())?;
            transaction.commit()?;
            Ok(removed)
        };
        guarded(&self.path, || {
            write().map_err(|error| FileError::database(&self.path, "writing", error))
        })
    }

    /// Copies the next rows behind a revision into another file, about so many bytes of them, and returns the revision of
    /// the last one and how many bytes they had; `None` when there are no more. The copy is not durable yet.
    pub(super) fn copy_rows(
        &self,
        after: Revision,
        bytes: u64,
        to: &Disk,
    ) -> Result<Option<(Revision, u64)>, FileError> {
        let copy = || -> Result<Option<(Revision, u64)>, redb::Error> {
            let from = self.database.begin_read()?.open_table(ROWS)?;
            let mut transaction = to.database.begin_write()?;
            transaction.set_durability(Durability::None)?;
            let mut table = transaction.open_table(ROWS)?;
            let (mut last, mut copied) = (None, 0);
            for entry in from.range(after.0 + 1..)? {
                let (revision, row) = entry?;
                table.insert(revision.value(), row.value())?;
                last = Some(Revision(revision.value()));
                copied += row.value().len() as u64;
                if copied >= bytes {
                    break;
                }
            }
            drop(table);
            transaction.commit()?;
            Ok(last.map(|last| (last, copied)))
        };
        guarded(&self.path, || {
            copy().map_err(|error| FileError::database(&to.path, "copying rows", error))
        })
    }

    /// Completes a copy that has all rows of this file and these obsolete ones: it becomes the same store, durably.
    pub(super) fn complete(&self, to: &Disk, obsolete: &[Revision]) -> Result<(), FileError> {
        let copy = || -> Result<(), redb::Error> {
            let from = self.database.begin_read()?;
            let mut transaction = to.database.begin_write()?;
            transaction.set_two_phase_commit(true);
            let mut rows = transaction.open_table(ROWS)?;
            for revision in obsolete {
                rows.remove(revision.0)?;
            }
            drop(rows);
            let mut horizons = transaction.open_table(HORIZONS)?;
            for entry in from.open_table(HORIZONS)?.iter()? {
                let (resource, horizon) = entry?;
                horizons.insert(resource.value(), horizon.value())?;
            }
            drop(horizons);
            let mut meta = transaction.open_table(META)?;
            for entry in from.open_table(META)?.iter()? {
                let (name, value) = entry?;
                meta.insert(name.value(), value.value())?;
            }
            drop(meta);
            transaction.commit()?;
            Ok(())
        };
        guarded(&self.path, || {
            copy().map_err(|error| FileError::database(&to.path, "completing the copy", error))
        })
    }

    /// The same file under another name.
    pub(super) fn renamed(self, path: PathBuf) -> Self {
        Disk { path, ..self }
    }

    /// Closes the file cleanly: the next open finds everything in place.
    pub(super) fn close(self) -> Result<(), FileError> {
        let Disk { path, database } = self;
        guarded(&path, || {
            database
                .close()
                .map_err(|error| FileError::database(&path, "closing the file", error))
        })
    }

    /// Drops a file that failed, whatever state it is in.
    pub(super) fn abandon(self) {
        let Disk { path, database } = self;
        // Its error is known already: the failure that led here.
        let _ = guarded(&path, || {
            drop(database);
            Ok(())
        });
    }
}

/// The rows of these writes.
pub(super) fn rows(batch: &[Decided]) -> Result<Vec<(Revision, Vec<u8>)>, crate::StoreError> {
    batch
        .iter()
        .map(|decided| {
            let mut row = Vec::new();
            encode(decided, &mut row)?;
            Ok((decided.entry.revision, row))
        })
        .collect()
}

/// The database panics on some damaged pages; here that is an error like others.
fn guarded<T>(path: &Path, work: impl FnOnce() -> Result<T, FileError>) -> Result<T, FileError> {
    std::panic::catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("no reason given");
        Err(FileError::damaged(path, format!("the database gave up on it ({text})")))
    })
}
