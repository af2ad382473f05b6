//! Which seed, or why none. Pure: the same seeds and shoots always give the same answer.

use std::collections::BTreeMap;
use std::sync::Arc;

use api_core::v1beta1::{Seed, Shoot};
use api_meta::{ObjectName, SeedMismatch, Seen as Found, Unscheduled};
use api_rules::cloud_profile_name;

use crate::Seen;
use crate::filter::rejection;

/// How the shoot's region and the seeds' regions are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strategy {
    /// Only seeds of the shoot's region.
    #[default]
    SameRegion,
    /// Seeds of the region whose name is nearest (by edits), whatever the distance.
    MinimalDistance,
}

/// What to do with a shoot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It has a seed or is going: nothing.
    Nothing,
    /// Not everything is known yet; a change will call.
    Wait(String),
    /// Bind it to this seed.
    Bind {
        /// The seed's name.
        seed: String,
    },
    /// No seed fits, with the reason for each.
    Reject(Unscheduled),
}

/// Decides about one shoot.
pub fn plan(shoot: &Shoot, seen: &Seen, strategy: Strategy) -> Decision {
    if !crate::is_ours(shoot) {
        return Decision::Nothing;
    }
    let profile = match &seen.profile {
        Found::Present(profile) => profile,
        Found::Unknown(why) => return Decision::Wait(why.clone()),
        Found::Absent => {
            let (kind, name) = cloud_profile_name(shoot).unwrap_or(("CloudProfile", ""));
            let namespace = shoot.metadata.namespace.as_deref();
            return missing(kind, namespace.filter(|_| kind == "NamespacedCloudProfile"), name);
        }
    };
    if let Some(name) = &shoot.spec.exposure_class_name {
        match &seen.exposure_class {
            Found::Present(_) => {}
            Found::Absent => return missing("ExposureClass", None, name),
            Found::Unknown(why) => return Decision::Wait(why.clone()),
        }
    }
    let mut mismatches = BTreeMap::new();
    let mut fitting: Vec<&Arc<Seed>> = Vec::new();
    for seed in &seen.seeds {
        match rejection(
            shoot,
            seed,
            profile,
            seen.exposure_class.present(),
            shoots_on(seen, seed),
        ) {
            Some(mismatch) => drop(mismatches.insert(name_of(seed).to_owned(), mismatch)),
            None => fitting.push(seed),
        }
    }
    let nearest = nearest(&fitting, &shoot.spec.region, strategy);
    for seed in fitting
        .iter()
        .filter(|seed| Some(&seed.spec.provider.region) != nearest)
    {
        let mismatch = SeedMismatch::Region {
            seed: seed.spec.provider.region.clone(),
            shoot: shoot.spec.region.clone(),
        };
        mismatches.insert(name_of(seed).to_owned(), mismatch);
    }
    let best = fitting
        .into_iter()
        .filter(|seed| Some(&seed.spec.provider.region) == nearest)
        .min_by_key(|seed| (shoots_on(seen, seed), name_of(seed)));
    match best {
        Some(seed) => Decision::Bind {
            seed: name_of(seed).to_owned(),
        },
        None => Decision::Reject(Unscheduled::none_fits(mismatches)),
    }
}

fn missing(kind: &str, namespace: Option<&str>, name: &str) -> Decision {
    Decision::Reject(Unscheduled::Missing(ObjectName::new(kind, namespace, name)))
}

fn name_of(seed: &Seed) -> &str {
    seed.metadata.name.as_deref().unwrap_or_default()
}

fn shoots_on(seen: &Seen, seed: &Seed) -> usize {
    seen.shoots_per_seed.get(name_of(seed)).copied().unwrap_or_default()
}

/// The region to choose from, out of those of the seeds that fit.
fn nearest<'a>(fitting: &[&'a Arc<Seed>], wanted: &str, strategy: Strategy) -> Option<&'a String> {
    let regions = fitting.iter().map(|seed| &seed.spec.provider.region);
    match strategy {
        Strategy::SameRegion => regions.into_iter().find(|region| *region == wanted),
        Strategy::MinimalDistance => regions.min_by_key(|region| (distance(region, wanted), *region)),
    }
}

/// Number of characters to add, remove or change (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (line, letter) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = line + 1;
        for (column, other) in b.iter().enumerate() {
            let changed = diagonal + usize::from(letter != *other);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use api_meta::ConditionStatus;
    use serde_json::json;

    use super::*;

    fn seed(name: &str, change: fn(&mut Seed)) -> Arc<Seed> {
        let mut seed: Seed =
            serde_json::from_value(json!({"metadata": {"name": name, "labels": {"tier": "gold"}}, "spec": {
            "provider": {"type": "local", "region": "r1"},
            "networks": {"nodes": "10.1.0.0/16", "pods": "10.2.0.0/16", "services": "10.3.0.0/16"}},
            "status": {"conditions": [{"type": "GardenletReady", "status": "True"}]}}))
            .unwrap();
        change(&mut seed);
        Arc::new(seed)
    }

    fn shoot() -> Shoot {
        serde_json::from_value(json!({"metadata": {"name": "s", "namespace": "garden-dev"}, "spec": {
            "region": "r1", "cloudProfileName": "p",
            "provider": {"type": "local", "workers": [{"name": "a", "machine": {"type": "m"}}]}}}))
        .unwrap()
    }

    fn seen(seeds: Vec<Arc<Seed>>) -> Seen {
        let profile = serde_json::from_value(json!({"type": "local"})).unwrap();
        Seen {
            profile: Found::Present(profile),
            exposure_class: Found::Absent,
            seeds,
            shoots_per_seed: BTreeMap::new(),
        }
    }

    fn bind(seed: &str) -> Decision {
        Decision::Bind { seed: seed.to_owned() }
    }

    /// As the status describes it.
    fn refusal(shoot: &Shoot, seen: &Seen) -> String {
        match plan(shoot, seen, Strategy::SameRegion) {
            Decision::Reject(why) => why.to_string(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn each_unsuitable_seed_is_named_with_its_reason() {
        type Change = fn(&mut Seed);
        let cases: [(Change, &str); 12] = [
            (
                |s| s.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap(),
                "is being deleted",
            ),
            (
                |s| s.spec.settings = serde_json::from_value(json!({"scheduling": {"visible": false}})).unwrap(),
                "is not visible to the scheduler",
            ),
            (|s| s.status = None, "does not report condition GardenletReady yet"),
            (
                |s| s.status.as_mut().unwrap().conditions[0].status = ConditionStatus::Unknown,
                "has condition GardenletReady=Unknown: ",
            ),
            (
                |s| s.spec.backup = Some(Default::default()),
                "does not report condition BackupBucketsReady yet",
            ),
            (
                |s| s.spec.provider.type_ = "other".into(),
                "has provider type \"other\", not \"local\"; for seeds of other types set seedSelector.providerTypes of the cloud profile, [\"*\"] allows all",
            ),
            (
                |s| s.spec.provider.region = "r2".into(),
                "is in region \"r2\", not \"r1\"",
            ),
            (
                |s| s.spec.taints = serde_json::from_value(json!([{"key": "k"}])).unwrap(),
                "has taint \"k\", which the shoot does not tolerate",
            ),
            (
                |s| s.metadata.labels = None,
                "does not match the seed selector of the shoot",
            ),
            (
                |s| s.spec.networks.pods = "100.64.0.0/16".into(),
                "has network pods 100.64.0.0/16, which overlaps with the shoot's services 100.64.0.0/13",
            ),
            (
                |s| s.status.as_mut().unwrap().allocatable = serde_json::from_value(json!({"shoots": "2"})).unwrap(),
                "is full: 2 of 2 shoots",
            ),
            (
                |s| s.spec.networks.shoot_defaults = serde_json::from_value(json!({"pods": "10.9.0.0/25"})).unwrap(),
                "gives a pod network that is too small (networks.shootDefaults.pods): spec.networking.pods: Invalid value: \"10.9.0.0/25\": has room for 0 nodes, each with a /24 (kubernetes.kubeControllerManager.nodeCIDRMaskSize), but the worker pools may have 1; take a network of /24 or larger",
            ),
        ];
        let mut shoot = shoot();
        shoot.spec.seed_selector = serde_json::from_value(json!({"matchLabels": {"tier": "gold"}})).unwrap();
        for (change, reason) in cases {
            let mut seen = seen(vec![seed("odd", change)]);
            seen.shoots_per_seed.insert("odd".into(), 2);
            assert_eq!(refusal(&shoot, &seen), format!("0 of 1 seeds fit: odd {reason}"));
            seen.seeds.push(seed("good", |_| {}));
            assert_eq!(plan(&shoot, &seen, Strategy::SameRegion), bind("good"), "{reason}");
        }
    }

    #[test]
    fn the_emptiest_seed_is_taken_and_names_decide_between_equals() {
        let mut seen = seen(vec![seed("a", |_| {}), seed("b", |_| {}), seed("c", |_| {})]);
        assert_eq!(plan(&shoot(), &seen, Strategy::SameRegion), bind("a"));
        seen.shoots_per_seed.insert("a".into(), 1);
        assert_eq!(plan(&shoot(), &seen, Strategy::SameRegion), bind("b"));
    }

    #[test]
    fn provider_types_of_the_profile_replace_the_shoots_own() {
        let mut seen = seen(vec![seed("far", |s| s.spec.provider.type_ = "other".into())]);
        seen.profile =
            Found::Present(serde_json::from_value(json!({"seedSelector": {"providerTypes": ["other"]}})).unwrap());
        assert_eq!(plan(&shoot(), &seen, Strategy::SameRegion), bind("far"));
        seen.seeds = vec![seed("near", |_| {})];
        assert_eq!(
            refusal(&shoot(), &seen),
            "0 of 1 seeds fit: near has provider type \"local\", but seedSelector.providerTypes of the cloud profile \
             allows only other; add \"local\" or \"*\""
        );
        seen.profile =
            Found::Present(serde_json::from_value(json!({"seedSelector": {"providerTypes": ["*"]}})).unwrap());
        assert_eq!(plan(&shoot(), &seen, Strategy::SameRegion), bind("near"));
    }

    #[test]
    fn without_a_seed_nearby_the_nearest_region_is_taken_on_request() {
        let seen = seen(vec![
            seed("a", |s| s.spec.provider.region = "eu-west-1".into()),
            seed("b", |s| s.spec.provider.region = "us-east-1".into()),
        ]);
        let mut shoot = shoot();
        shoot.spec.region = "eu-west-2".into();
        assert!(matches!(plan(&shoot, &seen, Strategy::SameRegion), Decision::Reject(_)));
        assert_eq!(plan(&shoot, &seen, Strategy::MinimalDistance), bind("a"));
        assert_eq!(distance("kitten", "sitting"), 3);
    }

    #[test]
    fn what_is_missing_or_unknown_is_not_guessed() {
        let mut seen = seen(vec![seed("a", |_| {})]);
        seen.profile = Found::Absent;
        assert_eq!(refusal(&shoot(), &seen), "CloudProfile \"p\" does not exist");
        seen.profile = Found::Unknown("not merged".into());
        assert_eq!(
            plan(&shoot(), &seen, Strategy::SameRegion),
            Decision::Wait("not merged".into())
        );
        let mut bound = shoot();
        bound.spec.seed_name = Some("a".into());
        assert_eq!(plan(&bound, &seen, Strategy::SameRegion), Decision::Nothing);
        let mut elsewhere = shoot();
        elsewhere.spec.scheduler_name = Some("mine".into());
        assert_eq!(plan(&elsewhere, &seen, Strategy::SameRegion), Decision::Nothing);
    }
}
