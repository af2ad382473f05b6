//! What runs in the seed for a Shoot: its control plane, what is applied inside it, its machines.

use std::time::Duration;

use api_meta::{Condition, ConditionStatus, FaultClass, Seen, conditions::shoot::EVERY_NODE_READY};
use jiff::Timestamp;

use super::extension::sentence;
use super::{Blocker, Cause, has_succeeded, next_try, status, webhook};
use crate::facts::{Facts, Machine, Resource, Workload, conditions};

/// What has changed within this time may only need some more of it.
const YOUNG: Duration = Duration::from_secs(10);
/// Reasons of a pod that is on its way.
const ON_ITS_WAY: [&str; 3] = ["ContainerCreating", "PodInitializing", "ContainersNotReady"];

pub(super) fn blockers(facts: &Facts) -> Vec<Blocker> {
    let Some(seed) = facts.in_seed.present() else {
        return Vec::new();
    };
    let workloads = seed.workloads.present().map_or(&[][..], Vec::as_slice);
    let of_workloads = workloads.iter().filter_map(|workload| of_workload(facts, workload));
    let resources = seed.resources.present().map_or(&[][..], Vec::as_slice);
    let of_resources = resources.iter().filter_map(|resource| of_resource(facts, resource));
    let machines = match &seed.machines {
        Seen::Present(machines) => machines.as_slice(),
        Seen::Absent | Seen::Unknown(_) => &[],
    };
    of_workloads
        .chain(of_resources)
        .chain(of_machines(facts, machines))
        .collect()
}

/// Whether something that began then, or with the last word of the operation, has not had its time yet.
fn is_young(facts: &Facts, since: Option<Timestamp>) -> bool {
    let last = || status(facts).last_operation.map(|last| last.last_update_time.0);
    let age = |at| Duration::try_from(facts.now.duration_since(at)).unwrap_or_default();
    !has_succeeded(facts) && since.or_else(last).is_some_and(|at| age(at) < YOUNG)
}

fn at_work(blocker: Blocker) -> Blocker {
    Blocker {
        cause: Cause::AtWork,
        class: None,
        next_try: "at once when it is ready".to_owned(),
        to_do: "nothing: it is at work".to_owned(),
        ..blocker
    }
}

fn of_workload(facts: &Facts, workload: &Workload) -> Option<Blocker> {
    let trouble = workload.trouble.as_ref()?;
    let pod = workload.pods.iter().find(|pod| pod.trouble.is_some());
    let reason = pod.and_then(|pod| pod.trouble.as_ref());
    let on_its_way = reason.is_none_or(|(reason, _)| reason.is_empty() || ON_ITS_WAY.contains(&reason.as_str()));
    let since = pod.and_then(|pod| pod.since);
    let message = match reason {
        Some((reason, message)) => format!("{trouble}: {}", sentence(reason, message)),
        None => trouble.clone(),
    };
    let pod = pod.map(|pod| workload.pod(pod));
    let blocker = Blocker {
        message,
        to_do: match (&pod, reason.map(|(reason, _)| reason.as_str())) {
            (_, Some("ImageNotInCatalogue")) => {
                "use a version whose image the seed's node knows; the message names the image".to_owned()
            }
            (Some(pod), _) => format!("look at the events and the log of {pod} in the seed"),
            (None, _) => format!("look at the events of {} in the seed", workload.object),
        },
        objects: std::iter::once(workload.object.clone())
            .chain(pod)
            .map(|object| facts.in_its_seed(object))
            .collect(),
        class: Some(FaultClass::Dependency.as_str()),
        since,
        next_try: "at once when the pod runs".to_owned(),
        ..Blocker::new(
            Cause::PodNotRunning,
            "the seed's node and the control plane's images".to_owned(),
        )
    };
    Some(match on_its_way && is_young(facts, since) {
        true => at_work(blocker),
        false => blocker,
    })
}

fn of_resource(facts: &Facts, resource: &Resource) -> Option<Blocker> {
    // While everything goes, what is still applied is no trouble.
    if facts.shoot.metadata.deletion_timestamp.is_some() && resource.deleting.is_none() {
        return None;
    }
    let blocker = Blocker {
        message: resource.trouble.clone(),
        class: Some(FaultClass::Dependency.as_str()),
        since: resource.since.or(resource.deleting),
        next_try: "by gardener-resource-manager; the moment is not recorded".to_owned(),
        to_do: match &resource.webhook {
            Some(failure) => webhook::to_do(failure, facts.webhooks()),
            None => format!(
                "look at the conditions of {} in the seed: they name the object",
                resource.object
            ),
        },
        objects: vec![facts.in_its_seed(resource.object.clone())],
        ..match &resource.webhook {
            Some(failure) => Blocker::new(Cause::WebhookRefused, webhook::who(failure, facts.webhooks())),
            None => Blocker::new(Cause::ResourceNotHealthy, who_applies(resource.class.as_deref())),
        }
    };
    Some(match is_young(facts, blocker.since) {
        true => at_work(blocker),
        false => blocker,
    })
}

/// Each class of ManagedResources has an instance of its own.
pub(super) fn who_applies(class: Option<&str>) -> String {
    match class {
        None | Some("shoot") => "gardener-resource-manager of the Shoot".to_owned(),
        Some("seed") => "gardener-resource-manager of the seed".to_owned(),
        Some(other) => format!("the gardener-resource-manager of class {other:?}"),
    }
}

fn of_machines(facts: &Facts, machines: &[Machine]) -> Option<Blocker> {
    let ready = Condition::find(conditions(&facts.shoot), EVERY_NODE_READY);
    let unready = ready.is_some_and(|ready| ready.status == ConditionStatus::False);
    if machines.is_empty() || facts.shoot.metadata.deletion_timestamp.is_some() || has_succeeded(facts) && !unready {
        return None;
    }
    // Its name is not read from the text: where the text has it, it is not written twice.
    let details = machines
        .iter()
        .map(|Machine { object, report, .. }| match report.as_str() {
            "" => format!("Machine {}: nothing has been reported of it", object.name),
            report if report.contains(&object.name) => report.to_owned(),
            report => format!("Machine {}: {report}", object.name),
        });
    let refused = machines.iter().any(|machine| machine.is_refused);
    let since = machines.iter().filter_map(|machine| machine.since).min();
    let count = machines.len();
    let blocker = Blocker {
        message: match refused {
            true => "machines cannot join: the Shoot's API server refuses their bootstrap token".to_owned(),
            false if count == 1 => "a machine has not joined".to_owned(),
            false => format!("{count} machines have not joined"),
        },
        details: details.collect(),
        class: Some(FaultClass::Dependency.as_str()),
        since,
        next_try: next_try(facts),
        to_do: match refused {
            true => "have the Shoot reconciled (gardener.cloud/operation=reconcile): it renews the token".to_owned(),
            false => "look at the pod or the cloud's console of the first machine".to_owned(),
        },
        objects: machines
            .iter()
            .map(|machine| facts.in_its_seed(machine.object.clone()))
            .collect(),
        ..Blocker::new(
            if refused {
                Cause::BootstrapTokenMissing
            } else {
                Cause::NodesMissing
            },
            "the machine controllers of the Worker's extension".to_owned(),
        )
    };
    Some(match !refused && is_young(facts, since) {
        true => at_work(blocker),
        false => blocker,
    })
}
