//! Why a store refuses. Turning a refusal into an HTTP answer is the server's business.

use crate::{Entry, Key, Revision};

/// Why a store refused or failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum StoreError {
    /// Something is already there.
    #[error("{} already exists", current.key)]
    Exists {
        /// What is there.
        current: Entry,
    },
    /// Nothing is there.
    #[error("{key} does not exist")]
    Missing {
        /// The requested key.
        key: Key,
    },
    /// Something newer is there; read it and try again.
    #[error("{} has been written at revision {}, not at {expected}", current.key, current.revision)]
    Conflict {
        /// The revision that the caller had read.
        expected: Revision,
        /// What is there now, so that a patch can be repeated without another read.
        current: Entry,
    },
    /// The history no longer reaches back so far; list again.
    #[error("revision {requested} is older than the history, which begins at {oldest}")]
    Expired {
        /// The requested revision.
        requested: Revision,
        /// The oldest revision that can still be answered.
        oldest: Revision,
    },
    /// The store has not come so far. Readers of a store that lost its data meet this; they should list again.
    #[error("revision {requested} is ahead of the store, which is at {current}")]
    Ahead {
        /// The requested revision.
        requested: Revision,
        /// The newest revision.
        current: Revision,
    },
    /// Another writer that decides by other objects came first; read those again, decide again and write again.
    #[error("another writer was faster, and what this one has read may have changed")]
    Overtaken,
    /// What was to be stored is not an object with valid metadata.
    #[error("malformed object: {0}")]
    Malformed(String),
    /// The store cannot be reached now; another try may work.
    #[error("store unavailable: {0}")]
    Unavailable(String),
}
