//! What outlives a landscape: of garden and seeds each a store and its keys, and the volumes of the seeds' pods. In
//! memory, for who keeps the value; or in a folder, for who keeps that. It starts nothing but the stores' own threads.
//!
//! The folder holds `format` (which comes first), `garden` and each `seed-NAME` with `keys` (which come before the first
//! object) and `store`, and `volumes` of the first seed, `volumes-NAME` of every other.

use std::path::Path;

use api_meta::Fault;
use cluster_node::Volumes;
use cluster_store::FileStore;
use landscape_data_folder::folder;
use landscape_data_folder::server_data::{self, ServerData, VOLUMES};

use super::Settings;
use super::settings::SeedSettings;

/// The garden's name among the API servers.
pub(super) const GARDEN: &str = "garden";
/// What the names of seeds' API servers begin with.
const SEED_PREFIX: &str = "seed-";

/// What outlives a landscape. One landscape at a time may run on it.
pub struct State {
    pub(super) garden: ServerData,
    /// In the order of the settings.
    pub(super) seeds: Vec<SeedState>,
    files: Vec<FileStore>,
}

/// What outlives one seed.
pub(super) struct SeedState {
    pub(super) data: ServerData,
    pub(super) volumes: Volumes,
}

/// The seed's name among the API servers.
pub(super) fn of_seed(seed: &SeedSettings) -> String {
    format!("{SEED_PREFIX}{}", seed.name)
}

/// The folder of the volumes of the seed at this place among the settings.
fn volumes_of(place: usize, seed: &SeedSettings) -> String {
    match place {
        0 => VOLUMES.to_owned(),
        _ => format!("{VOLUMES}-{}", seed.name),
    }
}

impl State {
    /// Nothing yet; what comes is retained as long as this value.
    ///
    /// # Errors
    /// Keys cannot be made, which is a bug.
    pub fn memory(settings: &Settings) -> Result<Self, Fault> {
        let memory = |name: &str| ServerData::memory(name, &settings.clock, &settings.entropy);
        let garden = memory(GARDEN)?;
        let seed = |seed: &SeedSettings| {
            Ok(SeedState {
                data: memory(&of_seed(seed))?,
                volumes: Volumes::new(),
            })
        };
        Ok(Self {
            garden,
            seeds: settings.seeds.iter().map(seed).collect::<Result<_, Fault>>()?,
            files: Vec::new(),
        })
    }

    /// What is kept in a folder; nothing yet where there is no folder or an empty one. It may have fewer seeds than the
    /// settings: the others begin empty.
    ///
    /// # Errors
    /// The folder cannot be read or written, is of another format, is damaged, or holds a seed that the settings leave
    /// out. It is left as it was.
    pub async fn open(folder: &Path, settings: &Settings) -> Result<Self, Fault> {
        folder::make("the state's folder", folder)?;
        server_data::check(folder)?;
        refuse_left_out(folder, settings)?;
        let (clock, entropy) = (&settings.clock, &settings.entropy);
        let mut files = Vec::new();
        let garden = server_data::open(folder, GARDEN, VOLUMES, clock, entropy, &mut files).await?;
        let mut seeds = Vec::new();
        for (place, seed) in settings.seeds.iter().enumerate() {
            let volumes = volumes_of(place, seed);
            let data = server_data::open(folder, &of_seed(seed), &volumes, clock, entropy, &mut files).await?;
            let path = folder.join(volumes);
            let volumes =
                Volumes::in_folder(&path).map_err(|error| folder::unusable("open the volumes in", &path, &error))?;
            seeds.push(SeedState { data, volumes });
        }
        Ok(Self { garden, seeds, files })
    }

    /// Whether a landscape can run on it now.
    ///
    /// # Errors
    /// The clock shows a time at which the keys are not valid, or the state was opened for other seeds.
    pub(super) fn check(&self, settings: &Settings) -> Result<(), Fault> {
        if settings.seeds.is_empty() || settings.seeds.len() != self.seeds.len() {
            return Err(Fault::bug(
                "a landscape has at least one seed, and the state has the same",
            ));
        }
        self.garden.keys.check(GARDEN, &settings.clock)?;
        for (seed, settings_of) in self.seeds.iter().zip(&settings.seeds) {
            seed.data.keys.check(&of_seed(settings_of), &settings.clock)?;
        }
        Ok(())
    }

    /// Whether a folder holds a state.
    #[must_use]
    pub fn is_in(folder: &Path) -> bool {
        server_data::is_in(folder)
    }

    /// How many seeds the state in a folder has: none where there is no state.
    #[must_use]
    pub fn seeds_in(folder: &Path) -> usize {
        seed_names(folder).len()
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

/// The names of the seeds in a state's folder, in order. An unreadable folder is reported when it is opened.
fn seed_names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let mut names: Vec<String> = entries
        .filter_map(|entry| {
            let name = entry.ok()?.file_name().into_string().ok()?;
            name.strip_prefix(SEED_PREFIX).map(str::to_owned)
        })
        .collect();
    names.sort();
    names
}

/// A seed that is left out would leave its Shoots without API servers, and its Seed without a gardenlet.
fn refuse_left_out(folder: &Path, settings: &Settings) -> Result<(), Fault> {
    let held = seed_names(folder);
    let is_wanted = |name: &String| settings.seeds.iter().any(|seed| seed.name == *name);
    let left_out: Vec<&str> = held
        .iter()
        .filter(|name| !is_wanted(name))
        .map(String::as_str)
        .collect();
    if left_out.is_empty() {
        return Ok(());
    }
    Err(Fault::user(format!(
        "the state in {} has {} seeds; --seeds {} would leave out {}",
        folder.display(),
        held.len(),
        settings.seeds.len(),
        left_out.join(", ")
    ))
    .hint(format!(
        "start with --seeds {}, or without --seeds, which takes as many as there are; or name another folder with --data-dir",
        held.len()
    )))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    async fn opened(folder: &Path, seeds: u8) -> Result<(), Fault> {
        let settings = Settings::real(folder.to_owned(), 0).with_seeds(seeds);
        State::open(folder, &settings).await?.close().await;
        Ok(())
    }

    #[tokio::test]
    async fn seeds_are_added_to_a_state_and_none_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(State::seeds_in(folder.path()), 0);
        opened(folder.path(), 1).await.unwrap();
        let of_one = fs::read(folder.path().join("seed-local/keys")).unwrap();
        opened(folder.path(), 3).await.unwrap();
        assert_eq!(State::seeds_in(folder.path()), 3);
        assert_eq!(fs::read(folder.path().join("seed-local/keys")).unwrap(), of_one);
        for own in ["volumes", "volumes-local-2", "volumes-local-3"] {
            assert!(folder.path().join(own).is_dir(), "{own}");
        }
        let fault = opened(folder.path(), 2).await.unwrap_err();
        assert!(
            fault
                .to_string()
                .ends_with("has 3 seeds; --seeds 2 would leave out local-3"),
            "{fault}"
        );
        assert!(fault.hint.starts_with("start with --seeds 3"), "{}", fault.hint);
        opened(folder.path(), 3).await.unwrap();
    }

    #[tokio::test]
    async fn a_seed_without_its_keys_is_damaged_once_it_has_volumes() {
        let folder = tempfile::tempdir().unwrap();
        opened(folder.path(), 2).await.unwrap();
        fs::remove_dir_all(folder.path().join("seed-local-2")).unwrap();
        let fault = opened(folder.path(), 2).await.unwrap_err();
        assert!(fault.to_string().contains("seed-local-2/keys is damaged"), "{fault}");
    }
}
