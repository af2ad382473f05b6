//! The cloud in memory, with what a test does behind its clients' backs.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use super::api::{Answer, Call, CloudApi, CloudConnector};
use super::error::CloudError;
use super::harm::Harms;
use super::held::Held;
use super::item::{Item, State};
use super::settings::Settings;
use super::world::World;

/// What a client proves with that an account is its own.
#[derive(Clone, PartialEq, Eq)]
pub struct Keys {
    /// The name of the pair.
    pub access_key_id: String,
    /// The secret.
    pub secret_access_key: String,
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys")
            .field("access_key_id", &self.access_key_id)
            .finish_non_exhaustive()
    }
}

/// A cloud in memory. Clones are the same cloud.
#[derive(Clone, Debug)]
pub struct Cloud(Arc<Mutex<World>>);

impl Default for Cloud {
    fn default() -> Self {
        Self::new(Settings::default())
    }
}

impl Cloud {
    /// An empty cloud.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self(Arc::new(Mutex::new(World::new(settings))))
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// New keys for an account, which exists from its first keys on. Earlier keys stay valid.
    #[must_use]
    pub fn issue_keys(&self, account: &str) -> Keys {
        let mut world = self.world();
        world.keys_issued += 1;
        let keys = Keys {
            access_key_id: format!("FAKEKEY{:08}", world.keys_issued),
            secret_access_key: format!("secret-of-{account}-{:08}", world.keys_issued),
        };
        let of = (keys.secret_access_key.clone(), account.to_owned());
        world.keys.insert(keys.access_key_id.clone(), of);
        keys
    }

    /// Makes one pair of keys valid.
    pub fn accept_keys(&self, account: &str, keys: &Keys) {
        let of = (keys.secret_access_key.clone(), account.to_owned());
        self.world().keys.insert(keys.access_key_id.clone(), of);
    }

    /// Makes keys invalid, as at the end of a rotation.
    pub fn revoke_keys(&self, keys: &Keys) {
        self.world().keys.remove(&keys.access_key_id);
    }

    /// Changes what the cloud is like from the next call on.
    pub fn configure(&self, change: impl FnOnce(&mut Settings)) {
        change(&mut self.world().settings);
    }

    /// Decides what goes wrong from the next call on.
    pub fn harm(&self, harms: Harms) {
        self.world().harms = harms;
    }

    /// How many calls were made, including those that failed.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.world().calls
    }

    /// All that exists.
    #[must_use]
    pub fn held(&self) -> Held {
        let world = self.world();
        let existing = world.records.iter().filter(|record| record.exists());
        Held(existing.map(|record| record.item.clone()).collect())
    }

    /// All that was ever made, in its order, as it is now.
    #[must_use]
    pub fn made(&self) -> Vec<Item> {
        self.world().records.iter().map(|record| record.item.clone()).collect()
    }

    /// Deletes a thing as another client with the rights to do so would, whatever hangs on it. Whether it existed.
    #[must_use]
    pub fn lose(&self, id: &str) -> bool {
        let mut world = self.world();
        let record = world
            .records
            .iter_mut()
            .find(|record| record.exists() && record.item.id == id);
        record.map(|record| record.item.state = State::Gone).is_some()
    }

    /// Makes a call at once, for the server.
    pub(super) fn answer(&self, keys: &Keys, region: &str, call: Call) -> Result<Answer, CloudError> {
        let key = (keys.access_key_id.as_str(), keys.secret_access_key.as_str());
        self.world().call(key, region, call)
    }
}

impl CloudConnector for Cloud {
    fn connect(&self, keys: &Keys, region: &str) -> Arc<dyn CloudApi> {
        Arc::new(InMemory {
            cloud: self.clone(),
            keys: keys.clone(),
            region: region.to_owned(),
        })
    }
}

/// A client of a cloud in memory.
struct InMemory {
    cloud: Cloud,
    keys: Keys,
    region: String,
}

#[async_trait]
impl CloudApi for InMemory {
    async fn call(&self, call: Call) -> Result<Answer, CloudError> {
        self.cloud.answer(&self.keys, &self.region, call)
    }
}
