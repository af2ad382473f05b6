//! Why a Shoot has no seed, as data: the scheduler writes it into the report beside the status, and the sentences are made
//! from it here. It is bounded whatever the number of seeds: those with the same reason are one entry, and what is left out
//! is counted.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::operation_report::cut_to;
use crate::{ConditionStatus, ObjectName};

/// Reasons that are listed: a reader looks at the first few, and the value stays within what an annotation has room for.
const REASONS_MAX: usize = 16;
/// Seeds that are named with one reason.
const NAMES_MAX: usize = 8;
/// Length of a text within a reason: messages of conditions and validation.
const TEXT_BYTES_MAX: usize = 384;

/// Why the scheduler has found no seed. Prints as one sentence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Unscheduled {
    /// What the Shoot names and the decision needs does not exist.
    Missing(ObjectName),
    /// No seed fits; also where there are none.
    NoneFits(UnfitSeeds),
}

/// All seeds, by the reason for which they do not fit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UnfitSeeds {
    /// How many seeds there are.
    pub seeds: usize,
    /// The reasons, those of the seeds that are nearest to fitting first.
    pub reasons: Vec<UnfitFor>,
    /// How many seeds have other reasons than those listed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub left_out: usize,
}

/// Seeds that do not fit for the same reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UnfitFor {
    /// The reason.
    pub reason: SeedMismatch,
    /// The first of these seeds by name.
    pub seeds: Vec<String>,
    /// How many more there are.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more: usize,
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// Why one seed does not fit a Shoot. The scheduler looks in the opposite order and stops at the first: the earlier a reason
/// stands here, the nearer its seed is to fitting. Prints as a predicate: "is being deleted".
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "class", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum SeedMismatch {
    /// Its region is not the Shoot's.
    Region {
        /// The seed's.
        seed: String,
        /// The Shoot's.
        shoot: String,
    },
    /// It has as many Shoots as it takes.
    Full {
        /// How many are there.
        shoots: usize,
        /// How many it takes.
        room: usize,
    },
    /// It does not offer an access restriction that the Shoot asks for.
    AccessRestriction {
        /// The restriction's name.
        name: String,
    },
    /// It has too few zones for a control plane that survives the failure of one.
    TooFewZones {
        /// How many are needed.
        needed: usize,
    },
    /// The pod network that it would give has no room for the Shoot's nodes.
    PodNetworkTooSmall {
        /// The error of its validation.
        error: String,
    },
    /// A network of its own overlaps with one of the Shoot.
    NetworkOverlap {
        /// Which of the seed's: `nodes`, `pods` or `services`.
        seed: String,
        /// Its range.
        seed_range: String,
        /// Which of the Shoot's.
        shoot: String,
        /// Its range.
        shoot_range: String,
    },
    /// It has a taint that the Shoot does not tolerate.
    Taint {
        /// The taint's key.
        key: String,
    },
    /// A seed selector does not match its labels.
    Selector {
        /// Whose selector it is.
        of: SelectorOwner,
    },
    /// A seed selector cannot be read.
    SelectorInvalid {
        /// Whose selector it is.
        of: SelectorOwner,
        /// What is wrong.
        error: String,
    },
    /// Its provider type is not one that the Shoot's cloud profile allows.
    ProviderType {
        /// The seed's.
        seed: String,
        /// The Shoot's.
        shoot: String,
        /// What the cloud profile allows; empty where it names none, and then the Shoot's type alone is.
        allowed: Vec<String>,
    },
    /// A condition that it needs does not hold.
    ConditionNotTrue {
        /// The condition's type.
        condition: String,
        /// Its status.
        status: ConditionStatus,
        /// Its message.
        message: String,
    },
    /// A condition that it needs has not been reported.
    ConditionMissing {
        /// The condition's type.
        condition: String,
    },
    /// Its settings hide it from the scheduler.
    Invisible,
    /// It is being deleted.
    Deleting,
}

/// Whose seed selector it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SelectorOwner {
    /// The cloud profile's.
    CloudProfile,
    /// The Shoot's own.
    Shoot,
    /// The exposure class's.
    ExposureClass,
}

impl fmt::Display for SelectorOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::CloudProfile => "the cloud profile",
            Self::Shoot => "the shoot",
            Self::ExposureClass => "the exposure class",
        })
    }
}

impl Unscheduled {
    /// No seed fits: the reason of each, by its name.
    #[must_use]
    pub fn none_fits(mismatches: BTreeMap<String, SeedMismatch>) -> Self {
        let seeds = mismatches.len();
        let mut by_reason: BTreeMap<SeedMismatch, Vec<String>> = BTreeMap::new();
        for (seed, mut reason) in mismatches {
            reason.limit();
            by_reason.entry(reason).or_default().push(seed);
        }
        let left_out = by_reason.values().skip(REASONS_MAX).map(Vec::len).sum();
        let reasons = by_reason.into_iter().take(REASONS_MAX).map(|(reason, mut seeds)| {
            let more = seeds.len().saturating_sub(NAMES_MAX);
            seeds.truncate(NAMES_MAX);
            UnfitFor { reason, seeds, more }
        });
        Self::NoneFits(UnfitSeeds {
            seeds,
            reasons: reasons.collect(),
            left_out,
        })
    }

    /// Without the reasons.
    #[must_use]
    pub fn summary(&self) -> String {
        match self {
            Self::Missing(ObjectName { kind, name, .. }) => format!("{kind} {name:?} does not exist"),
            Self::NoneFits(UnfitSeeds { seeds: 0, .. }) => "there are no seeds".to_owned(),
            Self::NoneFits(UnfitSeeds { seeds, .. }) => format!("0 of {seeds} seeds fit"),
        }
    }

    /// The reasons, a sentence each.
    #[must_use]
    pub fn details(&self) -> Vec<String> {
        let Self::NoneFits(unfit) = self else {
            return Vec::new();
        };
        let mut all: Vec<String> = unfit.reasons.iter().map(ToString::to_string).collect();
        match unfit.left_out {
            0 => {}
            1 => all.push("1 more seed does not fit for another reason".to_owned()),
            more => all.push(format!("{more} more seeds do not fit for other reasons")),
        }
        all
    }
}

impl fmt::Display for Unscheduled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.summary())?;
        match self.details() {
            none if none.is_empty() => Ok(()),
            details => write!(f, ": {}", details.join("; ")),
        }
    }
}

impl fmt::Display for UnfitFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = &self.reason;
        match (self.seeds.as_slice(), self.more) {
            ([only], 0) => write!(f, "{only} {reason}"),
            ([before @ .., last], 0) => write!(f, "each of {} and {last} {reason}", before.join(", ")),
            (named, more) => write!(f, "each of {} and {more} more {reason}", named.join(", ")),
        }
    }
}

impl fmt::Display for SeedMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Region { seed, shoot } => write!(f, "is in region {seed:?}, not {shoot:?}"),
            Self::Full { shoots, room } => write!(f, "is full: {shoots} of {room} shoots"),
            Self::AccessRestriction { name } => write!(f, "does not support access restriction {name:?}"),
            Self::TooFewZones { needed } => {
                write!(f, "has fewer than {needed} zones, which failure tolerance zone needs")
            }
            Self::PodNetworkTooSmall { error } => write!(
                f,
                "gives a pod network that is too small (networks.shootDefaults.pods): {error}"
            ),
            Self::NetworkOverlap {
                seed,
                seed_range,
                shoot,
                shoot_range,
            } => write!(
                f,
                "has network {seed} {seed_range}, which overlaps with the shoot's {shoot} {shoot_range}"
            ),
            Self::Taint { key } => write!(f, "has taint {key:?}, which the shoot does not tolerate"),
            Self::Selector { of } => write!(f, "does not match the seed selector of {of}"),
            Self::SelectorInvalid { of, error } => {
                write!(f, "cannot be matched: the seed selector of {of} is invalid: {error}")
            }
            Self::ProviderType { seed, shoot, allowed } if allowed.is_empty() => write!(
                f,
                "has provider type {seed:?}, not {shoot:?}; for seeds of other types set seedSelector.providerTypes of the \
                 cloud profile, [\"*\"] allows all"
            ),
            Self::ProviderType { seed, allowed, .. } => write!(
                f,
                "has provider type {seed:?}, but seedSelector.providerTypes of the cloud profile allows only {}; add \
                 {seed:?} or \"*\"",
                allowed.join(", ")
            ),
            Self::ConditionNotTrue {
                condition,
                status,
                message,
            } => write!(f, "has condition {condition}={status}: {message}"),
            Self::ConditionMissing { condition } => write!(f, "does not report condition {condition} yet"),
            Self::Invisible => f.write_str("is not visible to the scheduler"),
            Self::Deleting => f.write_str("is being deleted"),
        }
    }
}

impl SeedMismatch {
    /// Cuts the texts that others write and no validation bounds.
    fn limit(&mut self) {
        match self {
            Self::PodNetworkTooSmall { error: text }
            | Self::SelectorInvalid { error: text, .. }
            | Self::ConditionNotTrue { message: text, .. } => cut_to(text, TEXT_BYTES_MAX),
            Self::ProviderType { allowed, .. } => allowed.truncate(NAMES_MAX),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full(seeds: impl Iterator<Item = usize>, room: usize) -> impl Iterator<Item = (String, SeedMismatch)> {
        seeds.map(move |seed| (format!("seed-{seed:03}"), SeedMismatch::Full { shoots: room, room }))
    }

    #[test]
    fn seeds_with_one_reason_are_one_entry_and_the_rest_is_counted() {
        let one = Unscheduled::none_fits(full(0..1, 3).collect());
        assert_eq!(one.to_string(), "0 of 1 seeds fit: seed-000 is full: 3 of 3 shoots");
        let three = Unscheduled::none_fits(
            full(0..3, 3)
                .chain([("x".to_owned(), SeedMismatch::Deleting)])
                .collect(),
        );
        assert_eq!(
            three.to_string(),
            "0 of 4 seeds fit: each of seed-000, seed-001 and seed-002 is full: 3 of 3 shoots; x is being deleted"
        );
        let many = Unscheduled::none_fits(full(0..300, 3).collect());
        assert_eq!(
            many.details(),
            [
                "each of seed-000, seed-001, seed-002, seed-003, seed-004, seed-005, seed-006, seed-007 and 292 more is \
                 full: 3 of 3 shoots"
            ]
        );
        assert_eq!(
            Unscheduled::none_fits(BTreeMap::new()).to_string(),
            "there are no seeds"
        );
    }

    #[test]
    fn hundreds_of_seeds_with_a_reason_each_stay_within_an_annotation() {
        let message = "\u{65e5}".repeat(5000);
        let of = |seed: usize| SeedMismatch::ConditionNotTrue {
            condition: "GardenletReady".to_owned(),
            status: ConditionStatus::Unknown,
            message: format!("{seed}{message}"),
        };
        let all = (0..500).map(|seed| ("s".repeat(250) + &seed.to_string(), of(seed)));
        let unscheduled = Unscheduled::none_fits(all.collect());
        let Unscheduled::NoneFits(unfit) = &unscheduled else {
            panic!("{unscheduled:?}")
        };
        assert_eq!(
            (unfit.seeds, unfit.reasons.len(), unfit.left_out),
            (500, REASONS_MAX, 484)
        );
        let text = unscheduled.to_string();
        assert!(text.ends_with("484 more seeds do not fit for other reasons"), "{text}");
        let json = serde_json::to_string(&unscheduled).unwrap();
        assert!(
            json.len() < 16 * 1024 && text.len() < 16 * 1024,
            "{} {}",
            json.len(),
            text.len()
        );
        assert_eq!(serde_json::from_str::<Unscheduled>(&json).unwrap(), unscheduled);
    }

    #[test]
    fn the_seed_nearest_to_fitting_stands_first() {
        let mismatches = [
            ("a", SeedMismatch::Deleting),
            ("b", SeedMismatch::Taint { key: "k".to_owned() }),
            ("c", SeedMismatch::Full { shoots: 1, room: 1 }),
        ];
        let mismatches = mismatches.map(|(seed, reason)| (seed.to_owned(), reason));
        let details = Unscheduled::none_fits(mismatches.into()).details();
        let first: Vec<_> = details.iter().map(|text| &text[..1]).collect();
        assert_eq!(first, ["c", "b", "a"]);
    }
}
