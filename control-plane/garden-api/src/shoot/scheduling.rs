//! A Shoot against the seed that it is on or shall be on (gardener/gardener v1.150 plugin/pkg/shoot/validator,
//! `validateScheduling` and pkg/utils/validation/cidr). It never chooses a seed.

use api_core::v1beta1::{Seed, Shoot};
use cluster_apiserver::Status;
use cluster_apiserver::fields::FieldError;
use cluster_apiserver::kind::Review;

use crate::convert::CORE;

/// Zones that a control plane needs which survives the loss of one.
const ZONES_MIN: usize = 3;

/// Refuses another seed that is named anywhere but through the part `binding`.
pub(super) fn check_seed_change(review: &Review<'_>, shoot: &Shoot, old: &Shoot) -> Result<(), Status> {
    let (now, before) = (name_of(shoot), name_of(old));
    let why = match (before, now) {
        _ if before == now => return Ok(()),
        (Some(before), None) => format!("spec.seedName: the Shoot is on {before:?} and stays there; keep {before:?}"),
        _ if review.call.subresource == Some("binding") => return Ok(()),
        (before, Some(now)) => format!(
            "spec.seedName: cannot be changed from {:?} to {now:?} here; use the subresource binding",
            before.unwrap_or_default()
        ),
        (None, None) => return Ok(()),
    };
    Err(Status::forbidden(CORE, "shoots", review.call.name, &why))
}

fn name_of(shoot: &Shoot) -> Option<&str> {
    shoot.spec.seed_name.as_deref().filter(|name| !name.is_empty())
}

/// Why the shoot cannot be on the seed. `new`: it was not there before.
pub(super) fn against_seed(shoot: &Shoot, seed: &Seed, new: bool) -> Option<String> {
    let name = seed.metadata.name.as_deref().unwrap_or_default();
    if new && seed.metadata.deletion_timestamp.is_some() {
        return Some(format!(
            "cannot schedule onto seed {name:?}, which is being deleted; choose another"
        ));
    }
    if new
        && let Some(taint) = seed
            .spec
            .taints
            .iter()
            .find(|taint| !is_tolerated(shoot, &taint.key, taint.value.as_deref()))
    {
        let key = &taint.key;
        return Some(format!(
            "seed {name:?} has taint {key:?}, which the Shoot does not tolerate; choose another"
        ));
    }
    let offers = |wanted: &str| {
        seed.spec
            .access_restrictions
            .iter()
            .any(|offered| offered.name == wanted)
    };
    let mut wanted = shoot
        .spec
        .access_restrictions
        .iter()
        .map(|restriction| restriction.name.as_str());
    if new && let Some(missing) = wanted.find(|wanted| !offers(wanted)) {
        return Some(format!(
            "seed {name:?} does not offer access restriction {missing:?}; choose another"
        ));
    }
    let zones = seed.spec.provider.zones.len();
    (survives_zones(shoot) && zones < ZONES_MIN).then(|| {
        format!("seed {name:?} has {zones} zones, failure tolerance \"zone\" needs at least {ZONES_MIN}; choose another seed or \"node\"")
    })
}

fn is_tolerated(shoot: &Shoot, key: &str, value: Option<&str>) -> bool {
    let mut tolerations = shoot.spec.tolerations.iter();
    tolerations.any(|toleration| {
        toleration.key == key
            && toleration
                .value
                .as_deref()
                .is_none_or(|tolerated| Some(tolerated) == value)
    })
}

fn survives_zones(shoot: &Shoot) -> bool {
    let availability = shoot
        .spec
        .control_plane
        .as_ref()
        .and_then(|part| part.high_availability.as_ref());
    availability.is_some_and(|availability| availability.failure_tolerance.type_.as_str() == "zone")
}

/// IPv6 networks must not overlap with the seed's; IPv4 networks are translated, so they may.
pub(super) fn networks_against_seed(shoot: &Shoot, seed: &Seed) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let Some(networking) = &shoot.spec.networking else {
        return errors;
    };
    let name = seed.metadata.name.as_deref().unwrap_or_default();
    let theirs = [
        ("nodes", seed.spec.networks.nodes.as_deref()),
        ("pods", Some(seed.spec.networks.pods.as_str())),
        ("services", Some(seed.spec.networks.services.as_str())),
    ];
    let own = [
        ("spec.networking.nodes", &networking.nodes),
        ("spec.networking.pods", &networking.pods),
        ("spec.networking.services", &networking.services),
    ];
    for (path, own) in own {
        for (which, theirs) in theirs {
            if let (Some(own), Some(theirs)) = (own, theirs)
                && own.contains(':')
                && api_rules::overlaps(own, theirs)
            {
                let words = format!(
                    "shoot network must not overlap with the {which} network {theirs} of seed {name:?}; choose another range"
                );
                errors.push(FieldError::invalid(path, own.as_str(), words));
            }
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn seed(spec: Value) -> Seed {
        serde_json::from_value(json!({"metadata": {"name": "x"}, "spec": spec})).unwrap()
    }

    fn shoot(spec: Value) -> Shoot {
        serde_json::from_value(json!({ "spec": spec })).unwrap()
    }

    #[test]
    fn a_seed_takes_no_shoot_that_does_not_fit() {
        let guarded = seed(json!({"taints": [{"key": "guarded", "value": "a"}]}));
        let refused = |shoot: &Shoot, seed: &Seed| against_seed(shoot, seed, true);
        assert!(refused(&shoot(json!({})), &guarded).is_some_and(|why| why.contains("guarded")));
        assert_eq!(
            refused(&shoot(json!({"tolerations": [{"key": "guarded"}]})), &guarded),
            None
        );
        let other = shoot(json!({"tolerations": [{"key": "guarded", "value": "b"}]}));
        assert!(refused(&other, &guarded).is_some());
        assert_eq!(against_seed(&other, &guarded, false), None, "it is there already");
        let restricted = shoot(json!({"accessRestrictions": [{"name": "eu"}]}));
        assert!(refused(&restricted, &seed(json!({}))).is_some());
        assert_eq!(
            refused(&restricted, &seed(json!({"accessRestrictions": [{"name": "eu"}]}))),
            None
        );
        let zonal = shoot(json!({"controlPlane": {"highAvailability": {"failureTolerance": {"type": "zone"}}}}));
        assert!(refused(&zonal, &seed(json!({"provider": {"zones": ["a", "b"]}}))).is_some());
        assert_eq!(
            refused(&zonal, &seed(json!({"provider": {"zones": ["a", "b", "c"]}}))),
            None
        );
        let mut leaving = seed(json!({}));
        leaving.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
        assert!(refused(&shoot(json!({})), &leaving).is_some());
    }

    #[test]
    fn only_ipv6_networks_must_differ_from_the_seeds() {
        let seed = seed(json!({"networks": {"pods": "10.2.0.0/16", "services": "fd00::/108"}}));
        let paths = |networking: Value| -> Vec<String> {
            let shoot = shoot(json!({ "networking": networking }));
            networks_against_seed(&shoot, &seed)
                .into_iter()
                .map(|error| error.path)
                .collect()
        };
        assert_eq!(paths(json!({"pods": "10.2.0.0/17"})), [""; 0]);
        assert_eq!(paths(json!({"services": "fd00::/112"})), ["spec.networking.services"]);
    }
}
