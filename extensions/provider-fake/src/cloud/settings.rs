//! What a cloud is like. A test changes it while the cloud is in use.

use std::collections::BTreeMap;
use std::time::Duration;

use super::kind::Kind;

/// Shorter than what the SDK's inventory waits for.
const LAG_MAX: Duration = Duration::from_secs(59);

/// What a cloud is like. By default it has one region with three zones, four machine types, unlimited quotas, and hides
/// nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The zones of each region.
    pub regions: BTreeMap<String, Vec<String>>,
    /// How many machines of each type there are in all zones together.
    pub machine_types: BTreeMap<String, usize>,
    /// How many things of a kind an account may have; as many as it likes of a kind that is not named.
    pub quotas: BTreeMap<Kind, usize>,
    /// How many lists still miss a thing that was made, or still show one that is gone. A list counts for a thing if its tags
    /// select it.
    pub list_lag: u32,
    /// For how many further calls, of whatever kind, looks by id still miss a thing that was made, or show one that is gone.
    pub get_lag: u32,
    /// What lists and looks learn at the latest, counted from its happening, however few calls there are: a cloud promises that
    /// much, and clients wait for it.
    pub lag_max: Duration,
    /// For how many further calls of the account an instance or a load balancer is pending, and stopping.
    pub settle: u32,
}

impl Default for Settings {
    fn default() -> Self {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let machine_types = [("tiny", 1_000), ("small", 1_000), ("large", 1_000), ("gpu", 4)];
        Self {
            regions: BTreeMap::from([("fake-1".to_owned(), names(&["fake-1a", "fake-1b", "fake-1c"]))]),
            machine_types: machine_types
                .into_iter()
                .map(|(name, count)| (name.to_owned(), count))
                .collect(),
            quotas: BTreeMap::new(),
            list_lag: 0,
            get_lag: 0,
            lag_max: LAG_MAX,
            settle: 0,
        }
    }
}
