//! What API servers store in a folder: each its keys and its objects, beside the `format` that comes first. It starts
//! nothing but the stores' own threads.

mod format;
mod keys;

use std::path::Path;
use std::sync::Arc;

use api_meta::Fault;
use base_clock::{Clock, Entropy};
use cluster_store::{FileError, FileOptions, FileStore, MemoryStore, Store};

use crate::folder;
pub use format::{check, is_in};
pub use keys::Keys;

/// An API server's keys, in its folder.
pub(crate) const KEYS: &str = "keys";
/// An API server's objects, likewise.
const STORE: &str = "store";
/// The folder of volumes, beside those of the API servers.
pub const VOLUMES: &str = "volumes";

/// The data of an API server.
#[derive(Clone)]
pub struct ServerData {
    /// Its objects.
    pub store: Arc<dyn Store>,
    /// Its keys.
    pub keys: Keys,
}

impl ServerData {
    /// Nothing yet; what comes is retained as long as this value.
    ///
    /// # Errors
    /// Keys cannot be made, which is a bug.
    pub fn memory(name: &str, clock: &Clock, entropy: &Entropy) -> Result<Self, Fault> {
        Ok(Self {
            keys: Keys::generate(name, clock, entropy)?,
            store: Arc::new(MemoryStore::new()),
        })
    }
}

/// Opens the data of one API server in its folder of the state's. `volumes`: the folder that is made after it.
///
/// # Errors
/// It cannot be read or written, or is damaged. It is left as it was.
pub async fn open(
    folder: &Path,
    name: &str,
    volumes: &str,
    clock: &Clock,
    entropy: &Entropy,
    files: &mut Vec<FileStore>,
) -> Result<ServerData, Fault> {
    let keys = keys(folder, name, volumes, clock, entropy)?;
    let store = FileStore::open(folder.join(name).join(STORE), FileOptions::default())
        .await
        .map_err(refused)?;
    files.push(store.clone());
    Ok(ServerData {
        store: Arc::new(store),
        keys,
    })
}

/// The keys of one API server in its folder of the state's; new ones in a folder that is empty.
///
/// # Errors
/// As [`open`].
pub(crate) fn keys(folder: &Path, name: &str, volumes: &str, clock: &Clock, entropy: &Entropy) -> Result<Keys, Fault> {
    let own = folder.join(name);
    let path = own.join(STORE);
    Ok(match Keys::read(&own.join(KEYS))? {
        Some(keys) => keys,
        // The folder of volumes comes last. An empty store beside it would know none of them, and its nodes would
        // remove what they hold.
        None if path.exists() || folder.join(volumes).exists() => {
            return Err(damaged(
                &own.join(KEYS),
                "it is missing",
                "the keys of the objects beside it",
            ));
        }
        None => {
            folder::make("the state's folder", &own)?;
            let keys = Keys::generate(name, clock, entropy)?;
            keys.write(&own.join(KEYS))?;
            keys
        }
    })
}

/// A part of the state that is not as it was left.
fn damaged(path: &Path, found: &str, expected: &str) -> Fault {
    Fault::user(format!("{} is damaged: {found}, expected {expected}", path.display()))
        .hint("restore the whole data folder from a copy, or name another one with --data-dir")
}

/// A store that cannot be opened. The hint is about the whole state: one store alone is worth nothing.
fn refused(error: FileError) -> Fault {
    match error {
        FileError::Damaged { path, found, expected } => damaged(&path, &found, &expected),
        FileError::NotAStore { path, found, expected } => damaged(&path, &format!("it is {found}"), expected),
        FileError::NotWritable { path, source } | FileError::NoSpace { path, source } => {
            folder::unusable("open", &path, &source)
        }
        FileError::OtherFormat {
            path,
            what,
            found,
            expected,
        } => format::other(&path, what, &found.to_string(), &expected.to_string()),
        // These have a hint of their own.
        other => Fault::user(other.to_string()),
    }
}
