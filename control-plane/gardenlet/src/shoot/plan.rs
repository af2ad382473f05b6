//! What is to be done with a shoot now. Plain functions over what was observed.

use std::fmt;
use std::time::Duration;

use api_core::v1beta1 as core;
use api_meta::{Fault, LastOperationState, LastOperationType, annotations, finalizers};
use jiff::Timestamp;
use kube::ResourceExt;

use crate::outcome::create_or_reconcile;

/// What to do with a shoot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Not our seed's, or already gone for us.
    Leave,
    /// Nothing was ever made for it: only let it go.
    Release,
    /// Do not work on it, but let extensions see it as it is.
    OnlySync(OnHold),
    /// Nothing to do until then.
    Wait(Duration),
    /// Work on it.
    Run(LastOperationType),
}

/// Why a shoot is not worked on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnHold {
    /// An operator has stopped all reconciliations of the seed.
    EmergencyStop,
    /// An annotation asks to leave it alone.
    Ignored,
    /// Its last operation has been given up.
    Failed,
}

impl OnHold {
    /// What ends it, where the status does not name that.
    pub(crate) fn to_do(self) -> Option<&'static str> {
        match self {
            Self::EmergencyStop => Some("remove it from the Seed to go on"),
            Self::Ignored => Some("remove it to go on"),
            Self::Failed => None,
        }
    }
}

impl fmt::Display for OnHold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EmergencyStop => write!(f, "annotation {}=true of its Seed", annotations::SEED_EMERGENCY_STOP),
            Self::Ignored => write!(f, "annotation {}=true", annotations::SHOOT_IGNORE),
            Self::Failed => {
                f.write_str("the last operation failed for good; a change or the annotation retry starts it again")
            }
        }
    }
}

/// Decides.
///
/// # Errors
/// A user fault for a deletion that is not confirmed.
pub(crate) fn decide(
    shoot: &core::Shoot,
    seed: &core::Seed,
    version: &str,
    sync_period: Duration,
    now: Timestamp,
) -> Result<Decision, Fault> {
    let status = shoot.status.clone().unwrap_or_default();
    let home = status.seed_name.clone().or(shoot.spec.seed_name.clone());
    if home.is_none() || home != seed.metadata.name {
        return Ok(Decision::Leave);
    }
    let deleting = shoot.metadata.deletion_timestamp.is_some();
    if deleting && !base_client::has_finalizer(shoot, finalizers::GARDENER) {
        return Ok(Decision::Leave);
    }
    if seed
        .annotations()
        .get(annotations::SEED_EMERGENCY_STOP)
        .is_some_and(|value| value == "true")
    {
        return Ok(Decision::OnlySync(OnHold::EmergencyStop));
    }
    if shoot
        .annotations()
        .get(annotations::SHOOT_IGNORE)
        .is_some_and(|value| value == "true")
    {
        return Ok(Decision::OnlySync(OnHold::Ignored));
    }
    let observed = status.observed_generation == shoot.metadata.generation;
    let state = status.last_operation.as_ref().map(|last| last.state.clone());
    if state == Some(LastOperationState::Failed) && observed && status.gardener.version == version {
        return Ok(Decision::OnlySync(OnHold::Failed));
    }
    if deleting {
        if status.uid.is_empty() {
            return Ok(Decision::Release);
        }
        if shoot
            .annotations()
            .get(annotations::CONFIRMATION_DELETION)
            .is_none_or(|value| !annotations::is_true(value))
        {
            return Err(Fault::user(format!(
                "deletion is not confirmed: annotation {} is missing",
                annotations::CONFIRMATION_DELETION
            ))
            .hint("set the annotation to true, if the cluster is really to go"));
        }
        return Ok(Decision::Run(LastOperationType::Delete));
    }
    if observed && state == Some(LastOperationState::Succeeded) {
        let last = status
            .last_operation
            .as_ref()
            .map(|last| last.last_update_time.0)
            .unwrap_or(now);
        let age = Duration::try_from(now.duration_since(last)).unwrap_or_default();
        return Ok(match sync_period.checked_sub(age) {
            Some(left) if !left.is_zero() => Decision::Wait(left),
            _ => Decision::Run(LastOperationType::Reconcile),
        });
    }
    Ok(Decision::Run(operation_type(&status)))
}

fn operation_type(status: &core::ShootStatus) -> LastOperationType {
    match &status.last_operation {
        // Accepted by the API server, never worked on.
        Some(last) if last.state == LastOperationState::Pending && status.uid.is_empty() => LastOperationType::Create,
        last => create_or_reconcile(last.as_ref()),
    }
}

/// Whether what is known of the shoot now makes it pointless to go on with what was begun for `begun`: it is to be
/// deleted, or something else is wanted. A new generation alone is not enough: that gardenlet itself writes down the
/// nodes' network, or that the same is requested again, changes nothing.
#[must_use]
pub(crate) fn makes_pointless(begun: &core::Shoot, now: &core::Shoot) -> bool {
    if now.metadata.uid != begun.metadata.uid {
        return true;
    }
    if now.metadata.deletion_timestamp.is_some() != begun.metadata.deletion_timestamp.is_some() {
        return true;
    }
    let wanted = |shoot: &core::Shoot| {
        let mut spec = shoot.spec.clone();
        if let Some(networking) = &mut spec.networking {
            networking.nodes = None;
        }
        spec
    };
    now.metadata.generation != begun.metadata.generation && wanted(now) != wanted(begun)
}

#[cfg(test)]
mod tests {
    use api_meta::LastOperation;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn now() -> Timestamp {
        "2026-01-01T10:00:00Z".parse().unwrap()
    }

    fn seed() -> core::Seed {
        let mut seed = core::Seed::default();
        seed.metadata.name = Some("s".into());
        seed
    }

    fn shoot(state: Option<LastOperationState>) -> core::Shoot {
        let mut shoot = core::Shoot::default();
        shoot.metadata.generation = Some(2);
        shoot.metadata.finalizers = Some(vec![finalizers::GARDENER.into()]);
        shoot.spec.seed_name = Some("s".into());
        shoot.status = Some(core::ShootStatus {
            observed_generation: Some(2),
            uid: "u".into(),
            gardener: core::Gardener {
                version: "1".into(),
                ..core::Gardener::default()
            },
            last_operation: state.map(|state| LastOperation {
                state,
                type_: LastOperationType::Create,
                last_update_time: Time("2026-01-01T09:50:00Z".parse().unwrap()),
                ..LastOperation::default()
            }),
            ..core::ShootStatus::default()
        });
        shoot
    }

    fn decided(shoot: &core::Shoot) -> Decision {
        decide(shoot, &seed(), "1", HOUR, now()).unwrap()
    }

    fn deleted(mut shoot: core::Shoot) -> core::Shoot {
        shoot.metadata.deletion_timestamp = Some(Time(now()));
        shoot
    }

    #[test]
    fn the_status_decides_which_seed_a_shoot_lives_on() {
        let mut other = shoot(None);
        other.spec.seed_name = Some("t".into());
        assert_eq!(decided(&other), Decision::Leave);
        other.status.as_mut().unwrap().seed_name = Some("s".into());
        assert_eq!(
            decided(&other),
            Decision::Run(LastOperationType::Create),
            "moving away, still here"
        );
        assert_eq!(decided(&core::Shoot::default()), Decision::Leave);
    }

    #[test]
    fn a_shoot_is_created_until_it_succeeded_once_then_reconciled() {
        assert_eq!(decided(&shoot(None)), Decision::Run(LastOperationType::Create));
        assert_eq!(
            decided(&shoot(Some(LastOperationState::Error))),
            Decision::Run(LastOperationType::Create)
        );
        let mut changed = shoot(Some(LastOperationState::Succeeded));
        assert_eq!(decided(&changed), Decision::Wait(Duration::from_secs(50 * 60)));
        changed.metadata.generation = Some(3);
        assert_eq!(decided(&changed), Decision::Run(LastOperationType::Reconcile));
        let late = decide(
            &shoot(Some(LastOperationState::Succeeded)),
            &seed(),
            "1",
            Duration::from_secs(60),
            now(),
        );
        assert_eq!(late.unwrap(), Decision::Run(LastOperationType::Reconcile));
    }

    #[test]
    fn a_failed_shoot_rests_until_it_or_we_change() {
        let failed = shoot(Some(LastOperationState::Failed));
        assert!(matches!(decided(&failed), Decision::OnlySync(_)));
        assert!(
            matches!(decide(&failed, &seed(), "2", HOUR, now()), Ok(Decision::Run(_))),
            "a new version tries again"
        );
        let mut changed = failed;
        changed.metadata.generation = Some(3);
        assert!(matches!(decided(&changed), Decision::Run(_)));
    }

    #[test]
    fn deletion_wants_confirmation_and_what_never_was_is_only_released() {
        let fault = decide(&deleted(shoot(None)), &seed(), "1", HOUR, now()).unwrap_err();
        assert!(fault.to_string().contains(annotations::CONFIRMATION_DELETION));
        let mut never = deleted(shoot(None));
        never.status = None;
        assert_eq!(decided(&never), Decision::Release);
        let mut confirmed = deleted(shoot(None));
        confirmed
            .annotations_mut()
            .insert(annotations::CONFIRMATION_DELETION.into(), "true".into());
        assert_eq!(decided(&confirmed), Decision::Run(LastOperationType::Delete));
        confirmed.metadata.finalizers = None;
        assert_eq!(decided(&confirmed), Decision::Leave);
    }

    #[test]
    fn a_run_is_pointless_only_if_something_else_is_wanted() {
        let begun = shoot(None);
        let mut newer = begun.clone();
        newer.metadata.generation = Some(3);
        assert!(!makes_pointless(&begun, &newer), "the same is requested once more");
        newer.spec.networking = Some(core::Networking {
            nodes: Some("10.0.0.0/16".into()),
            ..core::Networking::default()
        });
        let mut begun_with_network = begun.clone();
        begun_with_network.spec.networking = Some(core::Networking::default());
        assert!(!makes_pointless(&begun_with_network, &newer), "our own write");
        newer.spec.region = "elsewhere".into();
        assert!(makes_pointless(&begun_with_network, &newer));
        assert!(makes_pointless(&begun, &deleted(begun.clone())));
    }
}
