//! What the user wants of each Shoot: plain values, and the manifest and the patch they become. Sends no requests.

use std::collections::BTreeMap;
use std::fmt;

use base_clock::Entropy;
use landscape_local::documents;
use serde_json::{Value, json};

/// The projects in turn.
pub const PROJECTS: [&str; 4] = ["plum", "pear", "fig", "quince"];
/// Kubernetes' versions in the order in which one may be raised to the next.
pub const VERSIONS: [&str; 5] = ["1.33.5", "1.34.2", "1.34.3", "1.35.0", "1.35.1"];
/// The names that pools may have.
pub const POOLS: [&str; 2] = ["pool-a", "pool-b"];
/// How many machines a pool has at most.
const MACHINES_MAX: u64 = 2;
/// How many of the versions a new Shoot may have; the others are left to be raised to.
const VERSIONS_NEW: u64 = 3;
/// The Extension that a Shoot may have beside what it needs.
const EXTENSION: &str = "local-ext";
/// A label and an annotation of pools that have no meaning to any controller.
const MARK: &str = "soak.example.org/mark";

const SHOOT: &str = include_str!("../../../examples/40-shoot.yaml");

/// Where a Shoot is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// One of [`PROJECTS`].
    pub project: &'static str,
    /// Its name in the project.
    pub name: String,
}

impl Place {
    /// The place of this number.
    #[must_use]
    pub fn of(number: usize) -> Self {
        Self {
            project: PROJECTS[number % PROJECTS.len()],
            name: format!("s{number:03}"),
        }
    }

    /// Its namespace in the garden.
    #[must_use]
    pub fn namespace(&self) -> String {
        format!("garden-{}", self.project)
    }

    /// Its namespace in the seed.
    #[must_use]
    pub fn technical_id(&self) -> String {
        format!("shoot--{}--{}", self.project, self.name)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace(), self.name)
    }
}

/// A pool as it is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// How many machines.
    pub machines: u64,
    /// What its label and its annotation say.
    pub mark: u64,
}

impl Pool {
    /// A pool of any size.
    #[must_use]
    pub fn draw(entropy: &Entropy) -> Self {
        Self {
            machines: 1 + entropy.below(MACHINES_MAX),
            mark: entropy.below(1000),
        }
    }

    /// Makes it larger or smaller.
    pub fn resize(&mut self) {
        self.machines = self.machines % MACHINES_MAX + 1;
    }
}

/// A Shoot as it is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// Which of [`VERSIONS`].
    pub version: usize,
    /// The pools by name; at least one.
    pub pools: BTreeMap<&'static str, Pool>,
    /// Whether it has the additional Extension.
    pub extension: bool,
    /// Whether its infrastructure's configuration is one that the provider cannot read.
    pub misconfigured: bool,
}

impl Wish {
    /// A new Shoot of any kind that works.
    #[must_use]
    pub fn draw(entropy: &Entropy) -> Self {
        let count = 1 + entropy.below(POOLS.len() as u64) as usize;
        Self {
            version: entropy.below(VERSIONS_NEW) as usize,
            pools: POOLS[..count].iter().map(|name| (*name, Pool::draw(entropy))).collect(),
            extension: entropy.below(4) == 0,
            misconfigured: false,
        }
    }

    /// The version as it is written.
    #[must_use]
    pub fn kubernetes(&self) -> &'static str {
        VERSIONS[self.version]
    }

    /// The whole Shoot, as it is created.
    ///
    /// # Errors
    /// The example it is made from is none.
    pub fn manifest(&self, place: &Place) -> Result<Value, String> {
        let mut shoot = documents(SHOOT).map_err(|fault| fault.to_string())?.remove(0);
        shoot["metadata"] = json!({"name": place.name, "namespace": place.namespace()});
        merge(&mut shoot, self.patch());
        Ok(shoot)
    }

    /// What makes the Shoot as it is wanted, however it is now: a merge patch.
    #[must_use]
    pub fn patch(&self) -> Value {
        json!({"spec": self.spec()})
    }

    fn spec(&self) -> Value {
        let workers: Vec<Value> = self.pools.iter().map(|(name, pool)| worker(name, pool)).collect();
        let extensions = self.extension.then(|| json!([{"type": EXTENSION}]));
        let infrastructure = self.misconfigured.then(|| json!({"networks": 5}));
        json!({
            "kubernetes": {"version": self.kubernetes()},
            "extensions": extensions,
            "provider": {"workers": workers, "infrastructureConfig": infrastructure},
        })
    }
}

/// Puts into `target` what a merge patch would.
fn merge(target: &mut Value, patch: Value) {
    let Value::Object(fields) = patch else {
        *target = patch;
        return;
    };
    for (field, value) in fields {
        if !value.is_null() {
            merge(&mut target[&field], value);
        }
    }
}

fn worker(name: &str, pool: &Pool) -> Value {
    let mark = json!({MARK: pool.mark.to_string()});
    json!({
        "name": name,
        "machine": {"type": "local", "image": {"name": "local", "version": "1.0.0"}},
        "minimum": pool.machines,
        "maximum": pool.machines,
        "maxSurge": 1,
        "maxUnavailable": 0,
        "labels": mark,
        "annotations": mark,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_is_the_example_with_what_is_wanted() {
        let place = Place::of(5);
        let wish = Wish {
            version: 2,
            pools: BTreeMap::from([("pool-b", Pool { machines: 2, mark: 7 })]),
            extension: true,
            misconfigured: false,
        };
        let shoot = wish.manifest(&place).unwrap();
        assert_eq!(place.to_string(), "garden-pear/s005");
        assert_eq!(shoot["metadata"], json!({"name": "s005", "namespace": "garden-pear"}));
        assert_eq!(shoot["spec"]["kubernetes"]["version"], "1.34.3");
        assert_eq!(shoot["spec"]["provider"]["type"], "local");
        assert_eq!(shoot["spec"]["provider"]["workers"][0]["maximum"], 2);
        assert_eq!(shoot["spec"]["extensions"][0]["type"], EXTENSION);
    }

    #[test]
    fn a_patch_takes_back_what_is_no_longer_wanted() {
        let wish = Wish {
            extension: false,
            ..Wish::draw(&Entropy::seeded(1))
        };
        let spec = &wish.patch()["spec"];
        assert!(spec["extensions"].is_null() && spec["provider"]["infrastructureConfig"].is_null());
        assert!(spec.as_object().unwrap().contains_key("extensions"));
    }
}
