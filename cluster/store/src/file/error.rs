//! Why a data folder cannot be opened, or its file not be written. Each text names the path, what was found, what is
//! expected and one thing to do.

use std::io;
use std::path::{Path, PathBuf};

use crate::StoreError;

/// Why a file store cannot be opened or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// Another process, or another store of this process, has it open.
    #[error("{} is in use by {holder}: one store at a time may open it; stop the other or choose another folder", path.display())]
    Locked {
        /// The data folder.
        path: PathBuf,
        /// Who has it, as far as is known.
        holder: String,
    },
    /// The folder or a file in it may not be written.
    #[error("{} cannot be written ({source}): the store needs a folder that it may write; give this user the right to write it, or choose another folder", path.display())]
    NotWritable {
        /// The folder or file.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// The disk or the quota is full.
    #[error("{} cannot be written: no space is left ({source}); nothing that was stored is lost: free space on its disk and try again", path.display())]
    NoSpace {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// It is something else, which the store will not touch.
    #[error("{} is {found}, expected {expected}: choose another folder, or move it away to begin an empty store", path.display())]
    NotAStore {
        /// The folder or file.
        path: PathBuf,
        /// What is there.
        found: String,
        /// What belongs there.
        expected: &'static str,
    },
    /// It was written in another format.
    #[error("{} has {what} {found}, this program reads {expected}: use a version of the program that reads {found}, or another folder", path.display())]
    OtherFormat {
        /// The file.
        path: PathBuf,
        /// Which of the numbers in it.
        what: &'static str,
        /// The number in it.
        found: u64,
        /// The number that this program reads.
        expected: u64,
    },
    /// It is not as the store left it. It is left untouched.
    #[error("{} is damaged: {found}; expected {expected}: restore the folder from a backup, or begin in another one; an empty store knows nothing of what belonged to this one", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What was found.
        found: String,
        /// What should have been found.
        expected: String,
    },
    /// The operating system failed in another way.
    #[error("{} failed while {doing} ({source}): see what ails its disk and try again", path.display())]
    Io {
        /// The folder or file.
        path: PathBuf,
        /// What was being done.
        doing: &'static str,
        /// The operating system's error.
        source: io::Error,
    },
}

impl FileError {
    /// Classifies an error of the operating system.
    pub(super) fn io(path: &Path, doing: &'static str, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                FileError::NotWritable { path, source }
            }
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                FileError::NoSpace { path, source }
            }
            _ => FileError::Io { path, doing, source },
        }
    }

    /// Classifies an error of the database.
    pub(super) fn database(path: &Path, doing: &'static str, error: impl Into<redb::Error>) -> Self {
        match error.into() {
            redb::Error::Io(source) => match source.kind() {
                // Reading beyond the end of a file that should be longer.
                io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData => {
                    FileError::damaged(path, source.to_string())
                }
                _ => FileError::io(path, doing, source),
            },
            redb::Error::DatabaseAlreadyOpen | redb::Error::LockProtocolMismatch => FileError::Locked {
                path: path.to_owned(),
                holder: "another program".to_owned(),
            },
            redb::Error::UpgradeRequired(found) => FileError::OtherFormat {
                path: path.to_owned(),
                what: "redb file format",
                found: found.into(),
                expected: REDB_FORMAT,
            },
            // A failure before this one closed the file; opening it again may work.
            error @ (redb::Error::PreviousIo | redb::Error::DatabaseClosed) => {
                FileError::io(path, doing, io::Error::other(error.to_string()))
            }
            other => FileError::damaged(path, other.to_string()),
        }
    }

    pub(super) fn damaged(path: &Path, found: impl Into<String>) -> Self {
        FileError::Damaged {
            path: path.to_owned(),
            found: found.into(),
            expected: "every byte as the store wrote it".to_owned(),
        }
    }
}

/// The file format that redb 3 and 4 write.
const REDB_FORMAT: u64 = 3;

impl From<&FileError> for StoreError {
    /// A write that met it may be tried again.
    fn from(error: &FileError) -> Self {
        StoreError::Unavailable(error.to_string())
    }
}
