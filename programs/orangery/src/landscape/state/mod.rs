//! What outlives a landscape: of garden and seed each a store and its keys, and the volumes of the seed's pods. In
//! memory, for who keeps the value; or in a folder, for who keeps that. It starts nothing but the stores' own threads.
//!
//! The folder holds `format` (which comes first), `garden` and `seed-NAME` with `keys` (which come before the first
//! object) and `store`, and `volumes`.

mod format;
mod keys;

use std::path::Path;
use std::sync::Arc;

use api_meta::Fault;
use cluster_node::Volumes;
use cluster_store::{FileError, FileOptions, FileStore, MemoryStore, Store};

use super::Settings;
use crate::data_folder;
pub(super) use keys::Keys;

/// The garden's name among the API servers.
pub(super) const GARDEN: &str = "garden";
/// An API server's keys, in its folder.
const KEYS: &str = "keys";
/// An API server's objects, likewise.
const STORE: &str = "store";
/// The folder of volumes.
const VOLUMES: &str = "volumes";

/// What outlives a landscape. One landscape at a time may run on it.
pub struct State {
    pub(super) garden: Kept,
    pub(super) seed: Kept,
    pub(super) volumes: Volumes,
    files: Vec<FileStore>,
}

/// What an API server keeps.
#[derive(Clone)]
pub(super) struct Kept {
    pub(super) store: Arc<dyn Store>,
    pub(super) keys: Keys,
}

/// The seed's name among the API servers.
pub(super) fn of_seed(settings: &Settings) -> String {
    format!("seed-{}", settings.seed.name)
}

impl State {
    /// Nothing yet; what comes is kept as long as this value.
    ///
    /// # Errors
    /// Keys cannot be made, which is a bug.
    pub fn memory(settings: &Settings) -> Result<Self, Fault> {
        let kept = |name: &str| -> Result<Kept, Fault> {
            Ok(Kept {
                keys: Keys::generate(name, &settings.clock, &settings.entropy)?,
                store: Arc::new(MemoryStore::new()),
            })
        };
        Ok(Self {
            garden: kept(GARDEN)?,
            seed: kept(&of_seed(settings))?,
            volumes: Volumes::new(),
            files: Vec::new(),
        })
    }

    /// What is kept in a folder; nothing yet where there is no folder or an empty one.
    ///
    /// # Errors
    /// The folder cannot be read or written, is of another format, or is damaged. It is left as it was.
    pub async fn open(folder: &Path, settings: &Settings) -> Result<Self, Fault> {
        data_folder::make("the state's folder", folder)?;
        format::check(folder)?;
        let mut files = Vec::new();
        let garden = open(folder, GARDEN, settings, &mut files).await?;
        let seed = open(folder, &of_seed(settings), settings, &mut files).await?;
        let path = folder.join(VOLUMES);
        let volumes =
            Volumes::in_folder(&path).map_err(|error| data_folder::unusable("open the volumes in", &path, &error))?;
        Ok(Self {
            garden,
            seed,
            volumes,
            files,
        })
    }

    /// Whether a landscape can run on it now.
    ///
    /// # Errors
    /// The clock says a time at which the keys are not valid.
    pub(super) fn check(&self, settings: &Settings) -> Result<(), Fault> {
        self.garden.keys.check(GARDEN, &settings.clock)?;
        self.seed.keys.check(&of_seed(settings), &settings.clock)
    }

    /// Whether a folder holds a state.
    #[must_use]
    pub fn is_in(folder: &Path) -> bool {
        format::is_in(folder)
    }

    /// Closes what is open, after the landscape on it has stopped. Without it nothing is lost either.
    pub async fn close(self) {
        for store in &self.files {
            if let Err(error) = store.close().await {
                tracing::warn!("not closed in order: {error}");
            }
        }
    }
}

/// Opens what one API server keeps in its folder of the state's.
async fn open(folder: &Path, name: &str, settings: &Settings, files: &mut Vec<FileStore>) -> Result<Kept, Fault> {
    let own = folder.join(name);
    let path = own.join(STORE);
    let keys = match Keys::read(&own.join(KEYS))? {
        Some(keys) => keys,
        // The folder of volumes comes last. An empty store beside it would know none of them, and its nodes would
        // remove what they hold.
        None if path.exists() || folder.join(VOLUMES).exists() => {
            return Err(damaged(
                &own.join(KEYS),
                "it is missing",
                "the keys of the objects beside it",
            ));
        }
        None => {
            data_folder::make("the state's folder", &own)?;
            let keys = Keys::generate(name, &settings.clock, &settings.entropy)?;
            keys.write(&own.join(KEYS))?;
            keys
        }
    };
    let store = FileStore::open(path, FileOptions::default()).await.map_err(refused)?;
    files.push(store.clone());
    Ok(Kept {
        store: Arc::new(store),
        keys,
    })
}

/// A part of the state that is not as it was left.
fn damaged(path: &Path, found: &str, expected: &str) -> Fault {
    Fault::user(format!("{} is damaged: {found}, expected {expected}", path.display()))
        .hint("restore the whole data folder from a copy, or name another one with --data-dir")
}

/// A store that cannot be opened. What to do is said of the whole state: one store alone is worth nothing.
fn refused(error: FileError) -> Fault {
    match error {
        FileError::Damaged { path, found, expected } => damaged(&path, &found, &expected),
        FileError::NotAStore { path, found, expected } => damaged(&path, &format!("it is {found}"), expected),
        FileError::NotWritable { path, source } | FileError::NoSpace { path, source } => {
            data_folder::unusable("open", &path, &source)
        }
        FileError::OtherFormat {
            path,
            what,
            found,
            expected,
        } => format::other(&path, what, &found.to_string(), &expected.to_string()),
        // These say what to do themselves.
        other => Fault::user(other.to_string()),
    }
}
