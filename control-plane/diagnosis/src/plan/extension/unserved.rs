//! Kinds and types that no controller serves on the seed, and what keeps them from it.

use std::collections::BTreeMap;

use api_core::v1beta1::{ControllerInstallation, ControllerRegistration};
use api_meta::conditions::installation as of_installation;
use api_meta::{Condition, FaultClass};
use api_rules::{KindType, is_responsible, required_types_for_shoot};
use control_plane_readiness::{NotServed, Stage, not_served};
use jiff::Timestamp;
use kube::ResourceExt;

use super::{Trouble, kind_type, request_time};
use crate::facts::{ExtensionFact, Facts};
use crate::plan::{Blocker, Cause, Located, has_succeeded};

/// What to do about an installation whose conditions are all good.
const WAIT: &str = "wait a minute: its conditions have just changed";

/// Why no controller serves a kind and type.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Unserved {
    /// No registration names it.
    NotRegistered,
    /// The registration of this name does, and is being deleted.
    Leaving(String),
    /// It is registered, and gardenlet says this of its installation.
    NotInstalled {
        registration: String,
        installation: Option<String>,
        since: Option<Timestamp>,
        why: NotServed,
        to_do: String,
    },
}

/// Kinds and types that no controller serves: those of objects that wait for an answer, and those that the Shoot needs before
/// it can be worked on.
pub(super) fn unserved(facts: &Facts, troubled: &[(&ExtensionFact, Trouble)]) -> BTreeMap<KindType, Unserved> {
    let (Some(seed), Some(registrations), Some(installations)) = (
        facts.seed.present(),
        facts.registrations.present(),
        facts.installations.present(),
    ) else {
        return BTreeMap::new();
    };
    let wants_work = facts.shoot.metadata.deletion_timestamp.is_none() && !has_succeeded(facts);
    let needed = match wants_work {
        true => required_types_for_shoot(&facts.shoot, seed, registrations),
        false => Default::default(),
    };
    let installations: Vec<_> = installations.iter().collect();
    // Whoever has reported an error has answered.
    let waiting = troubled
        .iter()
        .filter(|(_, trouble)| matches!(trouble, Trouble::NotYet(_)));
    let of_objects = waiting.map(|(object, _)| kind_type(object));
    let name = seed.metadata.name.as_deref().unwrap_or_default();
    of_objects
        .chain(needed)
        .filter_map(|wanted| {
            let why = not_served(&wanted, registrations, &installations, name)?;
            let registration = registrations.iter().find(|one| is_responsible(one, &wanted));
            let unserved = match registration.filter(|_| why != NotServed::NotRegistered) {
                None => Unserved::NotRegistered,
                Some(leaving) if leaving.metadata.deletion_timestamp.is_some() => Unserved::Leaving(leaving.name_any()),
                Some(registration) => not_installed(registration, &installations, name, why),
            };
            Some((wanted, unserved))
        })
        .collect()
}

fn not_installed(
    registration: &ControllerRegistration,
    installations: &[&ControllerInstallation],
    seed: &str,
    why: NotServed,
) -> Unserved {
    let installation = installations.iter().find(|one| {
        one.spec.registration_ref.name == registration.metadata.name
            && one.spec.seed_ref.as_ref().and_then(|seed| seed.name.as_deref()) == Some(seed)
    });
    let status = installation.and_then(|one| one.status.as_ref());
    let conditions = status.map_or(&[][..], |status| &status.conditions);
    let condition = match &why {
        NotServed::Unfinished(Stage::Valid, _) => Condition::find(conditions, of_installation::VALID),
        NotServed::Unfinished(Stage::Installed, _) => Condition::find(conditions, of_installation::INSTALLED),
        NotServed::Unfinished(Stage::Healthy, _) => Condition::find(conditions, of_installation::HEALTHY),
        NotServed::NotRegistered | NotServed::NotInstalled => None,
    };
    Unserved::NotInstalled {
        registration: registration.name_any(),
        installation: installation.map(|one| one.name_any()),
        since: condition.map(|condition| condition.last_transition_time.0),
        why,
        to_do: match installation {
            Some(one) => crate::plan::installation::of_conditions(one).map_or_else(|| WAIT.to_owned(), |one| one.to_do),
            None => "look at the controller-manager of the garden: it makes ControllerInstallations".to_owned(),
        },
    }
}

/// One blocker per reason.
pub(super) fn of_unserved(
    facts: &Facts,
    unserved: &BTreeMap<KindType, Unserved>,
    troubled: &[(&ExtensionFact, Trouble)],
) -> Vec<Blocker> {
    let mut reasons: BTreeMap<&Unserved, Vec<&KindType>> = BTreeMap::new();
    for (wanted, why) in unserved {
        reasons.entry(why).or_default().push(wanted);
    }
    let blocker = |(why, wanted): (&Unserved, Vec<&KindType>)| {
        let types = wanted.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let concerned = troubled
            .iter()
            .filter(|(object, trouble)| matches!(trouble, Trouble::NotYet(_)) && wanted.contains(&&kind_type(object)));
        let reason = of_reason(why, &types);
        let objects = concerned
            .clone()
            .map(|(object, _)| facts.in_its_seed(object.id.clone()));
        Blocker {
            objects: reason.objects.iter().cloned().chain(objects).collect(),
            class: Some(FaultClass::Dependency.as_str()),
            since: reason
                .since
                .or(concerned.filter_map(|(object, _)| request_time(object)).min()),
            ..reason
        }
    };
    reasons.into_iter().map(blocker).collect()
}

fn of_reason(why: &Unserved, types: &str) -> Blocker {
    let registrar = "no controller: whoever registers extensions has to bring one".to_owned();
    let registered = Blocker {
        next_try: "at once when it is registered and installed".to_owned(),
        ..Blocker::new(Cause::NotRegistered, registrar)
    };
    match why {
        Unserved::NotRegistered => Blocker {
            message: format!("no ControllerRegistration is responsible for {types}"),
            to_do: format!("register {types} in a ControllerRegistration"),
            ..registered
        },
        Unserved::Leaving(name) => Blocker {
            message: format!("ControllerRegistration {name}, which is responsible for {types}, is being deleted"),
            to_do: format!("register {types} in another ControllerRegistration, once this one is gone"),
            ..registered
        },
        Unserved::NotInstalled {
            registration,
            installation,
            since,
            why,
            to_do,
        } => Blocker {
            message: format!("extension {registration} cannot be used on the seed: {why}"),
            details: vec![format!("needed for {types}")],
            objects: installation
                .iter()
                .map(|name| Located::of_garden("ControllerInstallation", name))
                .collect(),
            command: installation
                .as_ref()
                .map(|name| format!("orangery why controllerinstallation {name}")),
            since: *since,
            next_try: "at once when its ControllerInstallation changes".to_owned(),
            to_do: to_do.clone(),
            ..Blocker::new(
                Cause::NotInstalled,
                "whoever installs extensions on the seed".to_owned(),
            )
        },
    }
}
