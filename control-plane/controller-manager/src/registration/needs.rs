//! What the Shoots of each seed need of extensions. It is computed for a Shoot when that Shoot changes, and for all Shoots
//! of a seed when the seed or a registration changes. It never calls the API.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api_core::v1beta1::{ControllerRegistration, Seed, Shoot};
use api_rules::{KindType, required_types_for_shoot};
use base_controller::ObjectKey;
use kube::ResourceExt;

use crate::context::seeds_of;

/// What the Shoots of one seed need. Most Shoots need the same, so they are grouped by it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Needs {
    of: BTreeMap<ObjectKey, Arc<BTreeSet<KindType>>>,
    groups: BTreeMap<Arc<BTreeSet<KindType>>, BTreeSet<ObjectKey>>,
}

impl Needs {
    /// Those of these Shoots.
    pub(crate) fn new<'a>(
        shoots: impl IntoIterator<Item = &'a Arc<Shoot>>,
        seed: &Seed,
        registrations: &[ControllerRegistration],
    ) -> Self {
        let mut needs = Self::default();
        for shoot in shoots {
            let types = required_types_for_shoot(shoot, seed, registrations);
            needs.put(ObjectKey::of(&**shoot), Some(types));
        }
        needs
    }

    /// Whether the seed has no Shoots.
    pub(crate) fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    /// Every kind and type that a Shoot needs.
    pub(crate) fn types(&self) -> BTreeSet<&KindType> {
        self.groups.keys().flat_map(|types| types.iter()).collect()
    }

    /// The Shoots that need this kind and type.
    pub(crate) fn needing<'a>(&'a self, wanted: &'a KindType) -> impl Iterator<Item = &'a ObjectKey> {
        let groups = self.groups.iter().filter(|(types, _)| types.contains(wanted));
        groups.flat_map(|(_, shoots)| shoots)
    }

    /// A Shoot needs this now; none: it is not of this seed any more.
    fn put(&mut self, shoot: ObjectKey, types: Option<BTreeSet<KindType>>) {
        if let Some(before) = self.of.remove(&shoot)
            && let Some(group) = self.groups.get_mut(&before)
        {
            group.remove(&shoot);
            if group.is_empty() {
                self.groups.remove(&before);
            }
        }
        let Some(types) = types else { return };
        let types = match self.groups.get_key_value(&types) {
            Some((same, _)) => same.clone(),
            None => Arc::new(types),
        };
        self.groups.entry(types.clone()).or_default().insert(shoot.clone());
        self.of.insert(shoot, types);
    }
}

/// The needs of the Shoots of all seeds.
#[derive(Debug, Default)]
pub(crate) struct ShootNeeds(Mutex<BTreeMap<String, OfSeed>>);

#[derive(Debug)]
struct OfSeed {
    needs: Arc<Needs>,
    /// Shoots that have changed since.
    changed: BTreeSet<ObjectKey>,
    /// What beside the Shoots the needs were computed from.
    seed: Arc<Seed>,
    registrations: Vec<ControllerRegistration>,
}

impl OfSeed {
    fn is_from(&self, seed: &Seed, registrations: &[ControllerRegistration]) -> bool {
        let concerns = |one: &ControllerRegistration| one.metadata.deletion_timestamp.is_some();
        let same = |(one, other): (&ControllerRegistration, &ControllerRegistration)| {
            one.metadata.uid == other.metadata.uid && one.spec == other.spec && concerns(one) == concerns(other)
        };
        self.seed.spec == seed.spec
            && self.registrations.len() == registrations.len()
            && self.registrations.iter().zip(registrations).all(same)
    }
}

impl ShootNeeds {
    /// Notes that a Shoot which is or was of this seed has changed. To be called after the cache has the change.
    pub(crate) fn note(&self, seed: &str, shoot: &ObjectKey) {
        // Where nothing is known yet, all Shoots are looked at.
        if let Some(known) = self.lock().get_mut(seed) {
            known.changed.insert(shoot.clone());
        }
    }

    /// The needs of the Shoots of a seed, as the cache is now: `get` gives one Shoot, `list` those of this seed.
    pub(crate) fn of(
        &self,
        seed: &Arc<Seed>,
        registrations: &[ControllerRegistration],
        get: impl Fn(&ObjectKey) -> Option<Arc<Shoot>>,
        list: impl FnOnce() -> Vec<Arc<Shoot>>,
    ) -> Arc<Needs> {
        let name = seed.name_any();
        let mut all = self.lock();
        if let Some(known) = all.get_mut(&name).filter(|known| known.is_from(seed, registrations)) {
            let changed = std::mem::take(&mut known.changed);
            if !changed.is_empty() {
                // It has no other owner between two turns of a seed, so nothing is copied.
                let needs = Arc::make_mut(&mut known.needs);
                for key in changed {
                    let shoot = get(&key).filter(|shoot| seeds_of(shoot).contains(&name));
                    let types = shoot.map(|shoot| required_types_for_shoot(&shoot, seed, registrations));
                    needs.put(key, types);
                }
            }
            return known.needs.clone();
        }
        let needs = Arc::new(Needs::new(&list(), seed, registrations));
        let known = OfSeed {
            needs: needs.clone(),
            changed: BTreeSet::new(),
            seed: seed.clone(),
            registrations: registrations.to_vec(),
        };
        all.insert(name, known);
        needs
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, OfSeed>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::*;

    fn object<T: DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    fn seed(name: &str, provider: &str) -> Arc<Seed> {
        let spec = json!({"provider": {"type": provider, "region": "r"}});
        Arc::new(object(json!({"metadata": {"name": name}, "spec": spec})))
    }

    fn shoot(name: &str, network: &str, seed: &str, seed_in_status: Option<&str>) -> Arc<Shoot> {
        let spec = json!({"seedName": seed, "networking": {"type": network},
            "provider": {"type": "local", "workers": [{"name": "a", "machine": {"type": "m"}}]}});
        let status = seed_in_status.map(|seed| json!({"seedName": seed}));
        Arc::new(object(
            json!({"metadata": {"name": name, "namespace": "garden-dev"}, "spec": spec, "status": status}),
        ))
    }

    fn automatic(type_: &str) -> ControllerRegistration {
        let resource = json!({"kind": "Extension", "type": type_, "autoEnable": ["shoot"]});
        object(json!({"metadata": {"name": type_}, "spec": {"resources": [resource]}}))
    }

    /// A cache of Shoots, with what is computed from it.
    #[derive(Default)]
    struct World {
        shoots: BTreeMap<ObjectKey, Arc<Shoot>>,
        needs: ShootNeeds,
        /// Shoots looked at since the last check.
        looked_at: Cell<usize>,
    }

    impl World {
        /// Adds a Shoot, or removes it, and notes it at all seeds that it concerns, as the controller does.
        fn change(&mut self, name: &str, now: Option<Arc<Shoot>>) {
            let before = match &now {
                Some(now) => self.shoots.insert(key(name), now.clone()),
                None => self.shoots.remove(&key(name)),
            };
            for seed in before.iter().chain(&now).flat_map(|shoot| seeds_of(shoot)) {
                self.needs.note(&seed, &key(name));
            }
        }

        /// Compares with what is computed from all Shoots; returns how many Shoots were looked at.
        fn check(&self, seed: &Arc<Seed>, registrations: &[ControllerRegistration]) -> usize {
            let name = seed.name_any();
            let there = || self.shoots.values().filter(|shoot| seeds_of(shoot).contains(&name));
            let looked_at = |number| self.looked_at.set(self.looked_at.get() + number);
            let get = |key: &ObjectKey| {
                looked_at(1);
                self.shoots.get(key).cloned()
            };
            let list = || {
                let all: Vec<Arc<Shoot>> = there().cloned().collect();
                looked_at(all.len());
                all
            };
            let found = self.needs.of(seed, registrations, get, list);
            let expected = Needs::new(there(), seed, registrations);
            assert_eq!((&found.of, &found.groups), (&expected.of, &expected.groups), "{name}");
            self.looked_at.replace(0)
        }
    }

    #[test]
    fn change_of_one_shoot_looks_at_no_other() {
        let (mut world, north) = (World::default(), seed("north", "local"));
        for number in 0..50 {
            let name = format!("s{number}");
            world.change(&name, Some(shoot(&name, "flat", "north", None)));
        }
        assert_eq!(world.check(&north, &[]), 50, "the first look after a start");
        assert_eq!(world.check(&north, &[]), 0);
        world.change("s7", Some(shoot("s7", "deep", "north", None)));
        world.change("s8", None);
        world.change("new", Some(shoot("new", "flat", "north", None)));
        assert_eq!(world.check(&north, &[]), 3);
    }

    #[test]
    fn shoot_that_changes_seed_is_of_both_until_its_status_follows() {
        let mut world = World::default();
        let seeds = [seed("north", "local"), seed("south", "other")];
        let check = |world: &World| {
            for seed in &seeds {
                world.check(seed, &[]);
            }
        };
        world.change("a", Some(shoot("a", "flat", "north", Some("north"))));
        check(&world);
        world.change("a", Some(shoot("a", "flat", "south", Some("north"))));
        check(&world);
        assert!(
            seeds
                .iter()
                .all(|seed| !world.needs.lock()[&seed.name_any()].needs.is_empty())
        );
        world.change("a", Some(shoot("a", "flat", "south", Some("south"))));
        check(&world);
        assert!(world.needs.lock()["north"].needs.is_empty());
        world.change("a", None);
        check(&world);
    }

    #[test]
    fn changed_registration_or_seed_is_applied_to_all_shoots() {
        let mut world = World::default();
        let north = seed("north", "local");
        for name in ["a", "b"] {
            world.change(name, Some(shoot(name, "flat", "north", None)));
        }
        let audit = automatic("audit");
        let mut going = audit.clone();
        going.metadata.deletion_timestamp = object(json!("2026-01-01T00:00:00Z"));
        for registrations in [
            vec![],
            vec![audit.clone()],
            vec![audit, automatic("mesh")],
            vec![going],
            vec![],
        ] {
            assert_eq!(world.check(&north, &registrations), 2);
            assert_eq!(world.check(&north, &registrations), 0);
        }
        let mut reported = (*north).clone();
        reported.status = object(json!({"conditions": []}));
        assert_eq!(
            world.check(&Arc::new(reported), &[]),
            0,
            "a status is nothing that Shoots need"
        );
        assert_eq!(world.check(&seed("north", "other"), &[]), 2);
    }

    fn key(name: &str) -> ObjectKey {
        ObjectKey::namespaced("garden-dev", name)
    }

    fn types(all: &[&str]) -> Option<BTreeSet<KindType>> {
        Some(all.iter().map(|type_| KindType::new("Network", type_)).collect())
    }

    fn needing(needs: &Needs, type_: &str) -> Vec<String> {
        let wanted = KindType::new("Network", type_);
        needs.needing(&wanted).map(|key| key.name.clone()).collect()
    }

    #[test]
    fn type_is_needed_until_its_last_shoot_changes_or_goes() {
        let mut needs = Needs::default();
        needs.put(key("a"), types(&["flat", "deep"]));
        needs.put(key("b"), types(&["flat", "deep"]));
        needs.put(key("c"), types(&["flat"]));
        assert_eq!(needs.groups.len(), 2, "equal needs are held once");
        assert_eq!(needing(&needs, "deep"), ["a", "b"]);
        needs.put(key("a"), types(&["flat"]));
        assert_eq!(needing(&needs, "deep"), ["b"]);
        needs.put(key("b"), None);
        assert_eq!(needs.types(), BTreeSet::from([&KindType::new("Network", "flat")]));
        needs.put(key("a"), None);
        needs.put(key("c"), None);
        assert!(needs.is_empty() && needs.types().is_empty());
    }
}
