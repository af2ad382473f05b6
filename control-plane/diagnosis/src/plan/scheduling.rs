//! A Shoot without seed: what the scheduler has reported of it as data, and one thing to do about the seed that is nearest to
//! fitting. A status without such data, as an earlier version has written it, is shown as it is.

use api_meta::{FaultClass, ObjectName, SeedMismatch, SelectorOwner, UnfitSeeds, Unscheduled};

use super::{Blocker, Cause, Located, status};
use crate::facts::Facts;

/// Who schedules a Shoot that names no scheduler.
const DEFAULT_SCHEDULER: &str = "default-scheduler";

pub(super) fn not_scheduled(facts: &Facts) -> Blocker {
    let shoot = &facts.shoot;
    let scheduler = shoot.spec.scheduler_name.as_deref().unwrap_or(DEFAULT_SCHEDULER);
    let last = status(facts).last_operation;
    let why = facts.report().and_then(|report| report.unscheduled);
    let (message, details, to_do) = match (&why, &last) {
        (Some(why), _) => (why.summary(), why.details(), to_do(why)),
        (None, Some(last)) => (
            last.description.clone(),
            Vec::new(),
            "do what the reason requires; a change of the Shoot or of a Seed calls the scheduler".to_owned(),
        ),
        (None, None) => (
            "the scheduler has not reported anything about it yet".to_owned(),
            Vec::new(),
            format!("look whether the scheduler {scheduler:?} runs"),
        ),
    };
    let missing = match why {
        Some(Unscheduled::Missing(object)) => Some(object),
        _ => None,
    };
    let created = shoot.metadata.creation_timestamp.as_ref().map(|time| time.0);
    Blocker {
        message: format!("it has no seed: {message}"),
        details,
        class: last.is_some().then_some(FaultClass::Dependency.as_str()),
        since: last.map_or(created, |last| Some(last.last_update_time.0)),
        next_try: "at once when the Shoot, its CloudProfile or a Seed changes".to_owned(),
        to_do,
        objects: std::iter::once(facts.itself())
            .chain(missing)
            .map(Located::in_garden)
            .collect(),
        ..Blocker::new(Cause::NotScheduled, format!("scheduler {scheduler:?}"))
    }
}

fn to_do(why: &Unscheduled) -> String {
    match why {
        Unscheduled::Missing(ObjectName { kind, name, .. }) => {
            format!("create {kind} {name}, or name one that exists in the Shoot")
        }
        Unscheduled::NoneFits(UnfitSeeds { seeds: 0, .. }) => "add a Seed, by starting its gardenlet".to_owned(),
        Unscheduled::NoneFits(unfit) => match unfit.reasons.first() {
            None => "change the Shoot or a Seed, or add a Seed".to_owned(),
            Some(nearest) => {
                let seed = nearest.seeds.first().map_or("", String::as_str);
                format!("{}, or add a Seed that fits", mend(&nearest.reason, seed))
            }
        },
    }
}

/// What makes one seed fit, as far as this reason goes.
fn mend(reason: &SeedMismatch, name: &str) -> String {
    match reason {
        SeedMismatch::Region { seed, .. } => format!("create the Shoot in region {seed:?}"),
        SeedMismatch::Full { .. } => {
            format!("delete a Shoot of Seed {name}, or let its gardenlet take more (status.allocatable)")
        }
        SeedMismatch::AccessRestriction { name: missing } => {
            format!("take access restriction {missing:?} from the Shoot")
        }
        SeedMismatch::TooFewZones { .. } => {
            format!("ask for failure tolerance node in the Shoot, or give Seed {name} more zones")
        }
        SeedMismatch::PodNetworkTooSmall { .. } => {
            "set spec.networking.pods of the Shoot to a network with room for its nodes".to_owned()
        }
        SeedMismatch::NetworkOverlap { shoot, .. } => {
            format!("set spec.networking.{shoot} of the Shoot to a network that Seed {name} does not use")
        }
        SeedMismatch::Taint { key } => format!("add a toleration for {key:?} to spec.tolerations of the Shoot"),
        SeedMismatch::Selector { of } | SeedMismatch::SelectorInvalid { of, .. } => {
            let field = match of {
                SelectorOwner::CloudProfile => "spec.seedSelector of the cloud profile",
                SelectorOwner::Shoot => "spec.seedSelector of the Shoot",
                SelectorOwner::ExposureClass => "scheduling.seedSelector of the exposure class",
            };
            format!("change {field} so that it matches the labels of Seed {name}")
        }
        SeedMismatch::ProviderType { seed, .. } => {
            format!("add {seed:?} to spec.seedSelector.providerTypes of the cloud profile")
        }
        SeedMismatch::ConditionNotTrue { condition, .. } | SeedMismatch::ConditionMissing { condition } => {
            format!("bring condition {condition} of Seed {name} to True: look at the log of its gardenlet")
        }
        SeedMismatch::Invisible => format!("set spec.settings.scheduling.visible of Seed {name} to true"),
        SeedMismatch::Deleting => format!("wait until Seed {name} is gone"),
    }
}
