//! Rules of Shoots that need the cloud profile (gardener/gardener v1.150 plugin/pkg/shoot/validator). On updates, what
//! did not change is not validated again: profiles move on under running shoots.

use std::collections::BTreeSet;

use api_core::v1beta1::{AvailabilityZone, CloudProfileSpec, Region, Shoot, VersionClassification, Worker};
use jiff::Timestamp;

use crate::capabilities::runs_on;
use crate::shoot_defaults::image_classification;
use crate::shoot_runtimes::validate_runtimes;
use crate::shoot_workers::pools_by_name;
use crate::{FieldError, Path, versions};

/// The kind and name of the shoot's cloud profile, whichever field names it.
pub fn cloud_profile_name(shoot: &Shoot) -> Option<(&str, &str)> {
    match &shoot.spec.cloud_profile {
        Some(reference) => Some((reference.kind.as_str(), reference.name.as_str())),
        None => shoot
            .spec
            .cloud_profile_name
            .as_deref()
            .map(|name| ("CloudProfile", name)),
    }
}

/// Everything of the shoot that its cloud profile does not offer at `now`. `old` is the shoot before an update.
pub fn validate_shoot_against(
    shoot: &Shoot,
    profile: &CloudProfileSpec,
    old: Option<&Shoot>,
    now: Timestamp,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let (spec, path) = (&shoot.spec, Path::new("spec"));
    if spec.provider.type_ != profile.type_ {
        errors.push(path.child("provider.type").invalid(
            &spec.provider.type_,
            format!("must be the type of the cloud profile; set \"{}\"", profile.type_),
        ));
    }
    let region = profile.regions.iter().find(|region| region.name == spec.region);
    if region.is_none() && old.is_none_or(|old| old.spec.region != spec.region) {
        let names: Vec<&str> = profile.regions.iter().map(|region| region.name.as_str()).collect();
        errors.push(path.child("region").not_supported(&spec.region, &names));
    }
    if old.is_none_or(|old| old.spec.kubernetes.version != spec.kubernetes.version) {
        validate_version(&mut errors, &path.child("kubernetes.version"), shoot, profile, now);
    }
    let pools_before = pools_by_name(old.map_or(&[], |old| &old.spec.provider.workers));
    for (index, pool) in spec.provider.workers.iter().enumerate() {
        let before = pools_before.get(pool.name.as_str()).copied();
        validate_pool(
            &mut errors,
            &path.child("provider.workers").index(index),
            pool,
            before,
            profile,
            region,
            now,
        );
    }
    if old.is_none_or(|old| old.spec.access_restrictions != spec.access_restrictions) {
        let offer: Vec<&str> = region
            .iter()
            .flat_map(|region| &region.access_restrictions)
            .map(|restriction| restriction.name.as_str())
            .collect();
        for (index, restriction) in spec.access_restrictions.iter().enumerate() {
            if region.is_some() && !offer.contains(&restriction.name.as_str()) {
                let path = path.child("accessRestrictions").index(index);
                errors.push(path.not_supported(&restriction.name, &offer));
            }
        }
    }
    let limit = profile.limits.as_ref().and_then(|limits| limits.max_nodes_total);
    if let Some(limit) = limit {
        for (index, pool) in spec
            .provider
            .workers
            .iter()
            .enumerate()
            .filter(|(_, pool)| pool.maximum > limit)
        {
            let path = path.child("provider.workers").index(index).child("maximum");
            errors.push(path.invalid(
                pool.maximum,
                format!("the cloud profile allows {limit} nodes at most; lower it"),
            ));
        }
    }
    errors
}

/// The error for a Kubernetes version that is only the beginning of one and that the profile could not complete.
pub fn unresolved_version(shoot: &Shoot, profile: &CloudProfileSpec, now: Timestamp) -> Option<FieldError> {
    let version = shoot.spec.kubernetes.version.as_deref()?;
    let mut errors = Vec::new();
    if !versions::is_full(version) {
        validate_version(&mut errors, &Path::new("spec.kubernetes.version"), shoot, profile, now);
    }
    errors.pop()
}

fn validate_version(
    errors: &mut Vec<FieldError>,
    path: &Path,
    shoot: &Shoot,
    profile: &CloudProfileSpec,
    now: Timestamp,
) {
    let version = shoot.spec.kubernetes.version.as_deref().unwrap_or_default();
    let usable = |classification: VersionClassification| {
        !matches!(
            classification,
            VersionClassification::Expired | VersionClassification::Unavailable
        )
    };
    let offer: Vec<&str> = profile
        .kubernetes
        .versions
        .iter()
        .filter(|offered| usable(versions::classification(offered, now)))
        .map(|offered| offered.version.as_str())
        .collect();
    if !offer.contains(&version) {
        errors.push(path.not_supported(version, &offer));
    }
}

fn validate_pool(
    errors: &mut Vec<FieldError>,
    path: &Path,
    pool: &Worker,
    before: Option<&Worker>,
    profile: &CloudProfileSpec,
    region: Option<&Region>,
    now: Timestamp,
) {
    if before.is_none_or(|before| before.machine.type_ != pool.machine.type_) {
        let offer: Vec<&str> = profile
            .machine_types
            .iter()
            .filter(|offered| offered.usable != Some(false))
            .map(|offered| offered.name.as_str())
            .collect();
        if !offer.contains(&pool.machine.type_.as_str()) {
            errors.push(path.child("machine.type").not_supported(&pool.machine.type_, &offer));
        }
    }
    if before.is_none_or(|before| before.machine.image != pool.machine.image) {
        validate_image(errors, &path.child("machine.image"), pool, profile, now);
    }
    validate_runtimes(errors, path, pool, before, profile);
    let zones_before: BTreeSet<&String> = before.iter().flat_map(|before| &before.zones).collect();
    let zones = region.iter().flat_map(|region| &region.zones);
    let zones: Vec<&str> = zones.map(|zone| zone.name.as_str()).collect();
    for (index, zone) in pool.zones.iter().enumerate() {
        if !zones_before.contains(zone) && region.is_some() && !zones.contains(&zone.as_str()) {
            let path = path.child("zones").index(index);
            errors.push(match region.filter(|region| region.zones.is_empty()) {
                Some(Region { name, .. }) => {
                    path.invalid(zone, format!("region {name:?} has no zones; leave zones out"))
                }
                None => path.not_supported(zone, &zones),
            });
        }
    }
    validate_zones_and_volume(errors, path, pool, before, profile, region);
}

/// The pool's volume type is offered, and neither it nor the machine type is missing in one of the pool's zones.
fn validate_zones_and_volume(
    errors: &mut Vec<FieldError>,
    path: &Path,
    pool: &Worker,
    before: Option<&Worker>,
    profile: &CloudProfileSpec,
    region: Option<&Region>,
) {
    let zones = region.iter().flat_map(|region| &region.zones);
    let zones: Vec<_> = zones.filter(|zone| pool.zones.contains(&zone.name)).collect();
    let without = |lacking: fn(&AvailabilityZone) -> &Vec<String>, name: &str| {
        let zone = zones
            .iter()
            .find(|zone| lacking(zone).iter().any(|lacked| lacked == name));
        zone.map(|zone| {
            format!(
                "zone {:?} does not have it; take another type or other zones",
                zone.name
            )
        })
    };
    let place = |pool: &Worker| (pool.machine.type_.clone(), pool.zones.clone());
    if before.is_none_or(|before| place(before) != place(pool))
        && let Some(words) = without(|zone| &zone.unavailable_machine_types, &pool.machine.type_)
    {
        errors.push(path.child("machine.type").invalid(&pool.machine.type_, words));
    }
    let type_of = |pool: &Worker| pool.volume.as_ref().and_then(|volume| volume.type_.clone());
    let place = |pool: &Worker| (type_of(pool), pool.zones.clone());
    let Some(volume) = type_of(pool).filter(|_| before.is_none_or(|before| place(before) != place(pool))) else {
        return;
    };
    let offer = profile
        .volume_types
        .iter()
        .filter(|offered| offered.usable != Some(false));
    let offer: Vec<&str> = offer.map(|offered| offered.name.as_str()).collect();
    let path = path.child("volume.type");
    if !offer.contains(&volume.as_str()) {
        errors.push(path.not_supported(&volume, &offer));
    } else if let Some(words) = without(|zone| &zone.unavailable_volume_types, &volume) {
        errors.push(path.invalid(&volume, words));
    }
}

fn validate_image(
    errors: &mut Vec<FieldError>,
    path: &Path,
    pool: &Worker,
    profile: &CloudProfileSpec,
    now: Timestamp,
) {
    let Some(image) = &pool.machine.image else { return };
    let names: Vec<&str> = profile
        .machine_images
        .iter()
        .map(|offered| offered.name.as_str())
        .collect();
    let Some(offered) = profile.machine_images.iter().find(|offered| offered.name == image.name) else {
        errors.push(path.child("name").not_supported(&image.name, &names));
        return;
    };
    let architecture = pool.machine.architecture.as_deref().unwrap_or("amd64");
    let offer: Vec<&str> = offered
        .versions
        .iter()
        .filter(|version| {
            let classification = image_classification(version, now);
            !matches!(
                classification,
                VersionClassification::Expired | VersionClassification::Unavailable
            )
        })
        .filter(|version| runs_on(version, architecture))
        .map(|version| version.version.as_str())
        .collect();
    let version = image.version.as_deref().unwrap_or_default();
    if !offer.contains(&version) {
        errors.push(path.child("version").not_supported(version, &offer));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::shoot::tests::shoot;
    use api_core::v1beta1::MachineType;

    fn profile() -> CloudProfileSpec {
        serde_json::from_value(json!({"type": "local", "regions": [{"name": "r1", "zones": [{"name": "z1"}]}],
            "kubernetes": {"versions": [{"version": "1.35.1"}, {"version": "1.33.0", "expirationDate": "1970-01-01T00:00:00Z"}]},
            "machineTypes": [{"name": "small", "cpu": "1", "gpu": "0", "memory": "1Gi"}],
            "machineImages": [{"name": "linux", "versions": [{"version": "1.0.0", "architectures": ["amd64"]}]}],
            "limits": {"maxNodesTotal": 2}}))
        .unwrap()
    }

    #[test]
    fn what_the_profile_does_not_offer_is_named_with_what_it_does() {
        type Change = fn(&mut Shoot);
        let cases: [(&str, Change); 9] = [
            ("spec.provider.type: Invalid value: \"other\"", |s| {
                s.spec.provider.type_ = "other".into()
            }),
            (
                "spec.region: Unsupported value: \"r2\": supported values: \"r1\"",
                |s| s.spec.region = "r2".into(),
            ),
            (
                "spec.kubernetes.version: Unsupported value: \"1.33.0\": supported values: \"1.35.1\"",
                |s| {
                    s.spec.kubernetes.version = Some("1.33.0".into());
                },
            ),
            (
                "spec.provider.workers[0].machine.type: Unsupported value: \"big\"",
                |s| {
                    s.spec.provider.workers[0].machine.type_ = "big".into();
                },
            ),
            (
                "spec.provider.workers[0].machine.image.version: Unsupported value: \"1.0.0\"",
                |s| {
                    s.spec.provider.workers[0].machine.architecture = Some("arm64".into());
                },
            ),
            (
                "spec.provider.workers[0].machine.image.name: Unsupported value: \"bsd\"",
                |s| {
                    s.spec.provider.workers[0].machine.image.as_mut().unwrap().name = "bsd".into();
                },
            ),
            ("spec.provider.workers[0].zones[0]: Unsupported value: \"z9\"", |s| {
                s.spec.provider.workers[0].zones = vec!["z9".into()];
            }),
            (
                "spec.provider.workers[0].volume.type: Unsupported value: \"fast\"",
                |s| {
                    s.spec.provider.workers[0].volume =
                        serde_json::from_value(json!({"type": "fast", "size": "1Gi"})).unwrap();
                },
            ),
            ("spec.provider.workers[0].maximum: Invalid value: 3", |s| {
                s.spec.provider.workers[0].maximum = 3
            }),
        ];
        let now = Timestamp::from_second(1).unwrap();
        assert_eq!(validate_shoot_against(&shoot(), &profile(), None, now), []);
        for (expected, change) in cases {
            let mut bad = shoot();
            change(&mut bad);
            let found = validate_shoot_against(&bad, &profile(), None, now);
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].to_string().starts_with(expected), "{}", found[0]);
        }
    }

    #[test]
    fn what_a_zone_or_a_region_lacks_is_refused() {
        let mut profile = profile();
        profile.limits = None;
        let large = MachineType {
            name: "large".into(),
            ..profile.machine_types[0].clone()
        };
        profile.machine_types.push(large);
        profile.regions = serde_json::from_value(json!([{"name": "r1", "zones": [{"name": "z1",
            "unavailableMachineTypes": ["small"], "unavailableVolumeTypes": ["fast"]}],
            "accessRestrictions": [{"name": "eu"}]}]))
        .unwrap();
        profile.volume_types = serde_json::from_value(
            json!([{"name": "fast", "class": "c"}, {"name": "dead", "class": "c", "usable": false}]),
        )
        .unwrap();
        let now = Timestamp::from_second(1).unwrap();
        let paths = |change: fn(&mut Shoot)| -> Vec<String> {
            let mut shoot = shoot();
            change(&mut shoot);
            let found = validate_shoot_against(&shoot, &profile, None, now);
            found.into_iter().map(|error| error.path).collect()
        };
        assert_eq!(paths(|_| {}), [""; 0]);
        assert_eq!(
            paths(|shoot| shoot.spec.provider.workers[0].zones = vec!["z1".into()]),
            ["spec.provider.workers[0].machine.type"]
        );
        let dead = |shoot: &mut Shoot| {
            shoot.spec.provider.workers[0].volume =
                serde_json::from_value(json!({"type": "dead", "size": "1Gi"})).unwrap();
        };
        assert_eq!(paths(dead), ["spec.provider.workers[0].volume.type"]);
        let without_fast = |shoot: &mut Shoot| {
            let pool = &mut shoot.spec.provider.workers[0];
            pool.volume = serde_json::from_value(json!({"type": "fast", "size": "1Gi"})).unwrap();
            pool.machine.type_ = "large".into();
            pool.zones = vec!["z1".into()];
        };
        assert_eq!(paths(without_fast), ["spec.provider.workers[0].volume.type"]);
        let restricted = |shoot: &mut Shoot| {
            shoot.spec.access_restrictions = serde_json::from_value(json!([{"name": "eu"}, {"name": "moon"}])).unwrap();
        };
        assert_eq!(paths(restricted), ["spec.accessRestrictions[1]"]);
    }

    #[test]
    fn a_running_shoot_keeps_what_the_profile_no_longer_offers() {
        let now = Timestamp::from_second(1).unwrap();
        let mut bare = profile();
        bare.kubernetes.versions.clear();
        bare.machine_types.clear();
        bare.machine_images.clear();
        bare.regions.clear();
        assert_eq!(validate_shoot_against(&shoot(), &bare, Some(&shoot()), now), []);
    }
}
