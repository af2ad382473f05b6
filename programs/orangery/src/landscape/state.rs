//! What outlives a landscape: of garden and seed each a store and its keys, and the volumes of the seed's pods. In
//! memory, for who keeps the value; or in a folder, for who keeps that. It starts nothing but the stores' own threads.
//!
//! The folder holds `format` (which comes first), `garden` and `seed-NAME` with `keys` (which come before the first
//! object) and `store`, and `volumes`.

use std::path::Path;

use api_meta::Fault;
use cluster_node::Volumes;
use cluster_store::FileStore;

use super::Settings;
use crate::data_folder;
use crate::kept::{self, Kept, VOLUMES};

/// The garden's name among the API servers.
pub(super) const GARDEN: &str = "garden";

/// What outlives a landscape. One landscape at a time may run on it.
pub struct State {
    pub(super) garden: Kept,
    pub(super) seed: Kept,
    pub(super) volumes: Volumes,
    files: Vec<FileStore>,
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
        let kept = |name: &str| Kept::memory(name, &settings.clock, &settings.entropy);
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
        kept::check(folder)?;
        let (clock, entropy) = (&settings.clock, &settings.entropy);
        let mut files = Vec::new();
        let garden = kept::open(folder, GARDEN, clock, entropy, &mut files).await?;
        let seed = kept::open(folder, &of_seed(settings), clock, entropy, &mut files).await?;
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
        kept::is_in(folder)
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
