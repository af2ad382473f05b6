//! The data folder: who holds it, which file in it is the store, how the last holder left it. It never reads objects.
//!
//! `store.redb` is the store. `store.redb.new` is an unfinished file: a new store without writes, or a copy of the store;
//! it is useless once the process that writes it has ended. `lock` is locked by the process that has the store open, and
//! has its state: `new PID` while the store is being created, `open PID` while it is in use, `closed REVISION` after a clean
//! close.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use super::error::FileError;
use crate::Revision;

const STORE: &str = "store.redb";
const NEW_STORE: &str = "store.redb.new";
const LOCK: &str = "lock";
/// Longer than any note.
const NOTE_BYTES_MAX: u64 = 64;
/// How a redb file begins.
const REDB_MAGIC: &[u8] = b"redb\x1A\x0A\xA9\x0D\x0A";

/// A data folder that this process has locked; dropping it unlocks the folder.
pub(super) struct Place {
    folder: PathBuf,
    lock: File,
    note: Note,
}

/// How the last holder left the folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Note {
    /// No process ever had it, the store was never finished, or the note is gone.
    None,
    /// It was in use and not closed.
    Open,
    /// It was closed when its newest revision was this one.
    Closed(Revision),
}

impl Place {
    /// Locks a folder, which is created when it is not there.
    pub(super) fn take(folder: &Path) -> Result<Self, FileError> {
        if folder.exists() && !folder.is_dir() {
            return Err(FileError::NotAStore {
                path: folder.to_owned(),
                found: "not a folder".to_owned(),
                expected: "the data folder of a store, or none",
            });
        }
        std::fs::create_dir_all(folder).map_err(|source| FileError::io(folder, "making the folder", source))?;
        let path = folder.join(LOCK);
        let mut lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(|source| FileError::io(&path, "opening the lock", source))?;
        let locked = lock.try_lock();
        let mut text = String::new();
        let read = (&mut lock).take(NOTE_BYTES_MAX).read_to_string(&mut text);
        match locked {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let holder = match text.trim().split_once(' ') {
                    Some(("new" | "open", process)) => format!("process {process}"),
                    _ => "another process".to_owned(),
                };
                let path = folder.to_owned();
                return Err(FileError::Locked { path, holder });
            }
            Err(TryLockError::Error(source)) => return Err(FileError::io(&path, "locking", source)),
        }
        read.map_err(|source| FileError::io(&path, "reading the lock", source))?;
        let note = match text.trim().split_once(' ') {
            Some(("open", _)) => Note::Open,
            Some(("closed", revision)) => revision
                .parse()
                .map_or(Note::None, |number| Note::Closed(Revision(number))),
            _ => Note::None,
        };
        Ok(Place {
            folder: folder.to_owned(),
            lock,
            note,
        })
    }

    /// The store's file.
    pub(super) fn file(&self) -> PathBuf {
        self.folder.join(STORE)
    }

    /// How the last holder left it.
    pub(super) fn note(&self) -> Note {
        self.note
    }

    /// Whether there is a store, by the first bytes of its file alone.
    pub(super) fn has_store(&self) -> Result<bool, FileError> {
        let path = self.file();
        let mut file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return match self.note {
                    Note::None => Ok(false),
                    Note::Open | Note::Closed(_) => Err(FileError::Damaged {
                        path,
                        found: "it is missing".to_owned(),
                        expected: format!("the store that {} speaks of", self.folder.join(LOCK).display()),
                    }),
                };
            }
            Err(source) => return Err(FileError::io(&path, "opening the file", source)),
        };
        let mut begin = Vec::new();
        let length = REDB_MAGIC.len() as u64;
        if let Err(source) = (&mut file).take(length).read_to_end(&mut begin) {
            return Err(FileError::io(&path, "reading the file", source));
        }
        if begin.is_empty() {
            return Err(FileError::damaged(&path, "it is empty"));
        }
        if begin != REDB_MAGIC {
            return Err(FileError::NotAStore {
                path,
                found: format!("a file that begins with {:?}", String::from_utf8_lossy(&begin)),
                expected: "a redb file of this store",
            });
        }
        Ok(true)
    }

    /// Creates a store: `make` fills a file at the path it is given and syncs it; then the file is put in place atomically.
    pub(super) fn make_store(&mut self, make: impl FnOnce(&Path) -> Result<(), FileError>) -> Result<(), FileError> {
        self.clear()?;
        self.write_note(&format!("new {}", std::process::id()))?;
        make(&self.new_file())?;
        self.put_in_place()
    }

    /// The path of the file that will replace the store's.
    pub(super) fn new_file(&self) -> PathBuf {
        self.folder.join(NEW_STORE)
    }

    /// Removes a file that was never finished.
    pub(super) fn clear(&self) -> Result<(), FileError> {
        let path = self.new_file();
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(FileError::io(&path, "removing what was never finished", error))
            }
            _ => Ok(()),
        }
    }

    /// Replaces the store's file by the new one, which must be durable, atomically.
    pub(super) fn put_in_place(&self) -> Result<(), FileError> {
        let path = self.new_file();
        std::fs::rename(&path, self.file()).map_err(|source| FileError::io(&path, "putting it in place", source))?;
        self.sync()
    }

    /// Makes durable which file is the store.
    pub(super) fn sync(&self) -> Result<(), FileError> {
        let synced = File::open(&self.folder).and_then(|folder| folder.sync_all());
        synced.map_err(|source| FileError::io(&self.folder, "syncing the folder", source))
    }

    /// How large the store's file is, in bytes.
    pub(super) fn file_bytes(&self) -> std::io::Result<u64> {
        Ok(std::fs::metadata(self.file())?.len())
    }

    /// Notes, before anything else is written, that the store is in use.
    pub(super) fn note_open(&mut self) -> Result<(), FileError> {
        self.write_note(&format!("open {}", std::process::id()))
    }

    /// Notes that the store was closed at this revision.
    pub(super) fn note_closed(&mut self, newest: Revision) -> Result<(), FileError> {
        self.write_note(&format!("closed {newest}"))
    }

    /// Durable when it returns: a stale note would make a good store look damaged.
    fn write_note(&mut self, note: &str) -> Result<(), FileError> {
        let mut write = || {
            self.lock.set_len(0)?;
            self.lock.seek(SeekFrom::Start(0))?;
            self.lock.write_all(note.as_bytes())?;
            self.lock.write_all(b"\n")?;
            self.lock.sync_all()
        };
        write().map_err(|source| FileError::io(&self.folder.join(LOCK), "noting how the store stands", source))
    }
}
