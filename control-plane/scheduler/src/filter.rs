//! Whether one seed fits one shoot, and if not, why. Pure.

use std::collections::BTreeMap;

use api_core::v1beta1::{CloudProfileSpec, ExposureClass, FailureToleranceType, Seed, SeedSelector, Shoot, Toleration};
use api_meta::conditions::seed as conditions;
use api_meta::{Condition, ConditionStatus, SeedMismatch, SelectorOwner};
use api_rules::{default_shoot_networks, is_workerless, overlaps, validate_node_ranges};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::{Selector, SelectorExt};

/// Zones a seed needs for control planes that survive the failure of one: etcd needs three members.
const ZONES_FOR_ZONE_TOLERANCE: usize = 3;
/// Key of the number of shoots in `status.allocatable`.
const SHOOTS: &str = "shoots";

/// Why `seed` does not fit, or nothing if it does. Regions are not looked at: that is the strategy's business.
pub(crate) fn rejection(
    shoot: &Shoot,
    seed: &Seed,
    profile: &CloudProfileSpec,
    exposure_class: Option<&ExposureClass>,
    shoots_there: usize,
) -> Option<SeedMismatch> {
    unready(seed)
        .or_else(|| unselected(shoot, seed, profile, exposure_class))
        .or_else(|| untolerated(shoot, seed))
        .or_else(|| overlapping(shoot, seed))
        .or_else(|| too_small(shoot, seed))
        .or_else(|| unsuitable(shoot, seed, shoots_there))
}

fn unready(seed: &Seed) -> Option<SeedMismatch> {
    if seed.metadata.deletion_timestamp.is_some() {
        return Some(SeedMismatch::Deleting);
    }
    let scheduling = seed
        .spec
        .settings
        .as_ref()
        .and_then(|settings| settings.scheduling.as_ref());
    if scheduling.is_some_and(|scheduling| !scheduling.visible) {
        return Some(SeedMismatch::Invisible);
    }
    let known = seed.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let mut needed = vec![conditions::GARDENLET_READY];
    if seed.spec.backup.is_some() {
        needed.push(conditions::BACKUP_BUCKETS_READY);
    }
    needed.into_iter().find_map(|type_| {
        let condition = type_.to_owned();
        match Condition::find(known, type_) {
            Some(found) if found.status == ConditionStatus::True => None,
            Some(found) => Some(SeedMismatch::ConditionNotTrue {
                condition,
                status: found.status.clone(),
                message: found.message.clone(),
            }),
            None => Some(SeedMismatch::ConditionMissing { condition }),
        }
    })
}

fn unselected(
    shoot: &Shoot,
    seed: &Seed,
    profile: &CloudProfileSpec,
    exposure_class: Option<&ExposureClass>,
) -> Option<SeedMismatch> {
    let type_ = &seed.spec.provider.type_;
    let allowed = profile
        .seed_selector
        .as_ref()
        .map_or(&[][..], |selector| &selector.provider_types);
    let fits = if allowed.is_empty() {
        *type_ == shoot.spec.provider.type_
    } else {
        allowed.iter().any(|allowed| allowed == "*" || allowed == type_)
    };
    if !fits {
        return Some(SeedMismatch::ProviderType {
            seed: type_.clone(),
            shoot: shoot.spec.provider.type_.clone(),
            allowed: allowed.to_vec(),
        });
    }
    let scheduling = exposure_class.and_then(|class| class.scheduling.as_ref());
    let selectors = [
        (SelectorOwner::CloudProfile, profile.seed_selector.as_ref()),
        (SelectorOwner::Shoot, shoot.spec.seed_selector.as_ref()),
        (
            SelectorOwner::ExposureClass,
            scheduling.and_then(|scheduling| scheduling.seed_selector.as_ref()),
        ),
    ];
    let labels = seed.metadata.labels.clone().unwrap_or_default();
    selectors
        .into_iter()
        .find_map(|(of, selector)| match selects(selector?, &labels) {
            Ok(true) => None,
            Ok(false) => Some(SeedMismatch::Selector { of }),
            Err(error) => Some(SeedMismatch::SelectorInvalid {
                of,
                error: error.to_string(),
            }),
        })
}

fn selects(
    selector: &SeedSelector,
    labels: &BTreeMap<String, String>,
) -> Result<bool, kube::core::ParseExpressionError> {
    let selector = LabelSelector {
        match_labels: Some(selector.match_labels.clone()),
        match_expressions: Some(selector.match_expressions.clone()),
    };
    Ok(Selector::try_from(selector)?.matches(labels))
}

fn untolerated(shoot: &Shoot, seed: &Seed) -> Option<SeedMismatch> {
    let tolerates = |key: &str, value: Option<&str>| {
        shoot.spec.tolerations.iter().any(
            |Toleration {
                 key: tolerated,
                 value: of,
             }| { tolerated == key && of.as_deref().is_none_or(|of| Some(of) == value) },
        )
    };
    seed.spec
        .taints
        .iter()
        .find(|taint| !tolerates(&taint.key, taint.value.as_deref()))
        .map(|taint| SeedMismatch::Taint { key: taint.key.clone() })
}

fn overlapping(shoot: &Shoot, seed: &Seed) -> Option<SeedMismatch> {
    let shoot = completed(shoot, seed);
    let workerless = is_workerless(&shoot);
    let networking = shoot.spec.networking.unwrap_or_default();
    let theirs = &seed.spec.networks;
    let of_seed = [
        ("nodes", theirs.nodes.as_deref()),
        ("pods", Some(theirs.pods.as_str())),
        ("services", Some(theirs.services.as_str())),
    ];
    let of_shoot = [
        ("services", networking.services.as_deref()),
        ("pods", networking.pods.as_deref().filter(|_| !workerless)),
        ("nodes", networking.nodes.as_deref().filter(|_| !workerless)),
    ];
    for (ours, network) in of_shoot {
        for (theirs, other) in of_seed {
            if let (Some(network), Some(other)) = (network, other)
                && overlaps(network, other)
            {
                return Some(SeedMismatch::NetworkOverlap {
                    seed: theirs.to_owned(),
                    seed_range: other.to_owned(),
                    shoot: ours.to_owned(),
                    shoot_range: network.to_owned(),
                });
            }
        }
    }
    None
}

/// The shoot with the networks that the seed would give it.
fn completed(shoot: &Shoot, seed: &Seed) -> Shoot {
    let mut shoot = shoot.clone();
    default_shoot_networks(&mut shoot, Some(seed));
    shoot
}

/// The pod network that the seed would give to the shoot has no room for its nodes.
fn too_small(shoot: &Shoot, seed: &Seed) -> Option<SeedMismatch> {
    let left_out = |shoot: &Shoot| shoot.spec.networking.as_ref().is_none_or(|all| all.pods.is_none());
    let completed = completed(shoot, seed);
    (left_out(shoot) && !left_out(&completed))
        .then(|| validate_node_ranges(&completed).into_iter().next())
        .flatten()
        .map(|error| SeedMismatch::PodNetworkTooSmall {
            error: error.to_string(),
        })
}

fn unsuitable(shoot: &Shoot, seed: &Seed, shoots_there: usize) -> Option<SeedMismatch> {
    let tolerance = shoot
        .spec
        .control_plane
        .as_ref()
        .and_then(|control_plane| control_plane.high_availability.as_ref());
    let zonal = tolerance.is_some_and(|ha| ha.failure_tolerance.type_ == FailureToleranceType::Zone);
    if zonal && seed.spec.provider.zones.len() < ZONES_FOR_ZONE_TOLERANCE {
        return Some(SeedMismatch::TooFewZones {
            needed: ZONES_FOR_ZONE_TOLERANCE,
        });
    }
    let missing = shoot.spec.access_restrictions.iter().find(|wanted| {
        !seed
            .spec
            .access_restrictions
            .iter()
            .any(|offered| offered.name == wanted.name)
    });
    if let Some(missing) = missing {
        return Some(SeedMismatch::AccessRestriction {
            name: missing.name.clone(),
        });
    }
    let room = seed.status.as_ref().and_then(|status| status.allocatable.get(SHOOTS));
    let room = room.and_then(|room| room.0.parse::<usize>().ok());
    room.filter(|room| shoots_there >= *room)
        .map(|room| SeedMismatch::Full {
            shoots: shoots_there,
            room,
        })
}
