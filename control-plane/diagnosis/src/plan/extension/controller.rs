//! Whether a controller runs that acts on an extension object.

use std::time::Duration;

use api_meta::Seen;
use api_rules::KindType;
use kube::ResourceExt;

use crate::facts::{Controller, ExtensionFact, Facts, InSeed, Workload};

/// A heartbeat is renewed every 30 s: one that is older than three of them has stopped.
const HEARTBEAT_STALE_AFTER: Duration = Duration::from_secs(90);

/// Who acts on an object.
pub(super) struct Controls {
    /// Registration and installation.
    pub(super) names: String,
    /// Whether it runs; nothing where that is not known.
    pub(super) runs: Option<bool>,
    /// Whether its heartbeat is fresh, wherever it runs.
    pub(super) is_alive: bool,
    /// The same as a sentence.
    pub(super) standing: String,
    /// What to do when it does not answer.
    pub(super) to_do: String,
}

/// The installation that serves an object, and how it stands.
pub(super) fn controls(facts: &Facts, seed: &InSeed, object: &ExtensionFact) -> Option<Controls> {
    let wanted = KindType::new(&object.id.kind, &object.reported.type_);
    let registration = facts.registrations.present()?.iter().find(|one| {
        let mut resources = one.spec.resources.iter();
        resources.any(|resource| wanted.matches(resource) && resource.primary != Some(false))
    })?;
    let home = facts.seed_name();
    let installation = facts.installations.present()?.iter().find(|one| {
        one.spec.registration_ref.name == registration.metadata.name
            && one.spec.seed_ref.as_ref().and_then(|seed| seed.name.as_deref()) == home
    })?;
    let name = installation.name_any();
    let place = seed.controllers.iter().find(|one| one.installation == name)?;
    let (runs, standing, to_do) = standing(facts, place);
    Some(Controls {
        names: format!("registration {}, installation {name}", registration.name_any()),
        runs,
        is_alive: heartbeat_age(facts, place).is_some_and(|age| age < HEARTBEAT_STALE_AFTER),
        standing,
        to_do,
    })
}

fn heartbeat_age(facts: &Facts, place: &Controller) -> Option<Duration> {
    let at = place.heartbeat.present()?;
    Some(Duration::try_from(facts.now.duration_since(*at)).unwrap_or_default())
}

fn standing(facts: &Facts, place: &Controller) -> (Option<bool>, String, String) {
    let namespace = &place.namespace;
    let look = format!("look at what runs in namespace {namespace} of the seed");
    let workloads = match &place.workloads {
        Seen::Present(workloads) => workloads.as_slice(),
        Seen::Absent => &[],
        Seen::Unknown(why) => return (None, format!("whether its pods run cannot be seen: {why}"), look),
    };
    let beat = heartbeat_age(facts, place);
    let alive = beat.is_some_and(|age| age < HEARTBEAT_STALE_AFTER);
    let heard = match beat {
        Some(age) => format!("its last heartbeat is {} s old", age.as_secs()),
        None => "it has never sent a heartbeat".to_owned(),
    };
    if let Some((workload, why)) = workloads.iter().find_map(|one| Some((one, failing(one)?))) {
        let standing = format!("{} does not run: {why}; {heard}", workload.object);
        return (
            Some(false),
            standing,
            format!("fix what keeps {} from running", workload.object),
        );
    }
    if let Some(workload) = workloads.iter().find(|one| one.wanted > 0) {
        let pod = workload
            .pods
            .first()
            .map_or_else(|| workload.object.clone(), |pod| workload.pod(pod));
        let standing = format!("{pod} runs; {heard}");
        return (
            Some(true),
            standing,
            format!("look at the log of {pod}: it runs and does not answer"),
        );
    }
    // Whoever runs it elsewhere renews its heartbeat.
    let runs = if alive { None } else { Some(false) };
    match workloads.first() {
        Some(none) => {
            let to_do = format!(
                "let {} run a pod, or start the extension as a process of its own",
                none.object
            );
            (runs, format!("{} wants 0 pods; {heard}", none.object), to_do)
        }
        None => (
            runs,
            format!("nothing runs in namespace {namespace} of the seed; {heard}"),
            look,
        ),
    }
}

/// Why a workload that wants pods has none that serve.
fn failing(workload: &Workload) -> Option<String> {
    let trouble = workload.trouble.as_ref().filter(|_| workload.wanted > 0)?;
    let of_pod = workload.pods.iter().find_map(|pod| {
        let (reason, message) = pod.trouble.as_ref()?;
        Some(format!("{}: {}", workload.pod(pod), sentence(reason, message)))
    });
    Some(of_pod.unwrap_or_else(|| trouble.clone()))
}

/// A reason with its message, where it has one.
pub(in crate::plan) fn sentence(reason: &str, message: &str) -> String {
    match (reason, message) {
        (reason, "") => reason.to_owned(),
        ("", message) => message.to_owned(),
        (reason, message) => format!("{reason}: {message}"),
    }
}
