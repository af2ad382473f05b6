//! Which steps are skipped, and why: one table for all flows, so that these hold nothing but the order.

use components_hosted::{ComponentId, HostedCluster, Place, component};

use crate::facts::{DeletionFacts, Goal, HibernationFacts, ShootFacts};
use crate::single::Only;
use crate::step::{Kind, Managed, Point, Step, Verb};

const WORKERLESS: &str = "workerless";
const NO_CREDENTIALS: &str = "no credentials";
const NO_BACKUP: &str = "the seed has no backup";
const NO_INTERNAL_DOMAIN: &str = "no internal domain";
const NO_EXTERNAL_DOMAIN: &str = "no external domain";
const SKIP_READINESS: &str = "readiness is not waited for";
const HIBERNATED: &str = "hibernated";
const AWAKE: &str = "awake";
const NOT_REQUESTED: &str = "no restart requested";
const NAMESPACE_GONE: &str = "namespace gone or terminating";
const NOTHING_TO_CLEAN: &str = "no shoot API to clean up";
const NO_REDEPLOY: &str = "no control plane redeploy needed";

/// Whether others stand on a component: the roll-out of etcd, API server and resource manager is waited for because of
/// these, and not where nothing runs afterwards.
fn is_base(id: ComponentId) -> bool {
    match component(id).place() {
        Place::Etcd | Place::ApiServer | Place::ResourceManager => true,
        Place::ControlPlane { .. } | Place::Machines => false,
    }
}

/// Whether a shoot without workers lacks a component.
fn is_for_workers(id: ComponentId) -> bool {
    let workerless = HostedCluster {
        workerless: true,
        ..HostedCluster::default()
    };
    !component(id).exists(&workerless)
}

/// Why a step is skipped on the way to a goal; `None`: it is not.
pub(crate) fn reason(facts: &ShootFacts, goal: &Goal, step: Step) -> Option<&'static str> {
    let of_goal = match goal {
        Goal::Hibernate(there) => reason_in_hibernation(there, step),
        Goal::Delete(there) => reason_in_deletion(there, step),
        Goal::Reconcile | Goal::Wake | Goal::Migrate | Goal::Restore | Goal::ForceDelete => {
            is_for_asleep(step).then_some(AWAKE)
        }
    };
    let skips_waits = facts.skip_readiness && !matches!(goal, Goal::Delete(_));
    reason_of_facts(facts, step)
        .or(of_goal)
        .or((skips_waits && waits_for_readiness(step)).then_some(SKIP_READINESS))
}

fn reason_of_facts(facts: &ShootFacts, step: Step) -> Option<&'static str> {
    let is_only = |only: Only| matches!(step, Step::Single(single) if single.is_only(only));
    let found = [
        (facts.workerless && needs_workers(step), WORKERLESS),
        (!facts.has_credentials && is_only(Only::Credentials), NO_CREDENTIALS),
        (!facts.has_backup && is_only(Only::Backup), NO_BACKUP),
        (
            !facts.has_internal_domain && step == Step::Kind(Kind::InternalDnsRecord, Verb::Deploy),
            NO_INTERNAL_DOMAIN,
        ),
        (
            !facts.has_external_domain && step == Step::Kind(Kind::ExternalDnsRecord, Verb::Deploy),
            NO_EXTERNAL_DOMAIN,
        ),
        (!facts.restart_requested && is_only(Only::Restart), NOT_REQUESTED),
    ];
    found.into_iter().find_map(|(holds, reason)| holds.then_some(reason))
}

fn reason_in_hibernation(there: &HibernationFacts, step: Step) -> Option<&'static str> {
    let skipped = is_for_awake(step) || !there.api_server_runs && needs_api_server(step);
    skipped.then_some(HIBERNATED)
}

fn reason_in_deletion(there: &DeletionFacts, step: Step) -> Option<&'static str> {
    let found = [
        (!there.namespace_active && needs_namespace(step), NAMESPACE_GONE),
        (!there.shoot_cleanup && needs_cleanup(step), NOTHING_TO_CLEAN),
        (
            !there.control_plane_needed && matches!(step, Step::Kind(Kind::ControlPlane, Verb::Deploy | Verb::Wait)),
            NO_REDEPLOY,
        ),
    ];
    found.into_iter().find_map(|(holds, reason)| holds.then_some(reason))
}

fn needs_workers(step: Step) -> bool {
    match step {
        Step::Kind(kind, _) => !matches!(kind, Kind::InternalDnsRecord | Kind::ExternalDnsRecord),
        Step::Component(id, _) => is_for_workers(id),
        Step::Extensions(point, _) => point == Point::AfterWorkers,
        Step::Managed(managed, _) => matches!(managed, Managed::NodeAgent | Managed::VpnShoot),
        Step::Single(single) => single.is_only(Only::Workers),
    }
}

/// Waits that the annotation `shoot.gardener.cloud/skip-readiness` leaves out: nothing after them needs more than what was
/// written.
fn waits_for_readiness(step: Step) -> bool {
    match step {
        Step::Kind(kind, Verb::Wait) => !matches!(kind, Kind::Infrastructure | Kind::OperatingSystemConfig),
        Step::Component(id, Verb::Wait) => is_base(id),
        Step::Extensions(_, Verb::Wait) | Step::Managed(_, Verb::Wait) => true,
        Step::Single(single) => single.is_only(Only::Readiness),
        Step::Kind(..) | Step::Component(..) | Step::Extensions(..) | Step::Managed(..) => false,
    }
}

/// What a hibernating cluster does not get (flows.md, "hibernated").
fn is_for_awake(step: Step) -> bool {
    match step {
        Step::Kind(kind, Verb::Deploy) => matches!(kind, Kind::InternalDnsRecord | Kind::ExternalDnsRecord),
        Step::Component(id, Verb::Wait) => is_base(id),
        Step::Managed(Managed::ShootNamespaces, verb) => verb == Verb::Wait,
        Step::Managed(..) => true,
        Step::Single(single) => single.is_only(Only::Awake),
        Step::Kind(..) | Step::Component(..) | Step::Extensions(..) => false,
    }
}

/// What works in the shoot, or has machines join it. A hibernated cluster has no API server for that.
fn needs_api_server(step: Step) -> bool {
    match step {
        Step::Kind(kind, _) => matches!(kind, Kind::OperatingSystemConfig | Kind::Worker),
        Step::Single(single) => single.is_only(Only::ApiServer),
        Step::Component(..) | Step::Extensions(..) | Step::Managed(..) => false,
    }
}

/// What only a hibernating cluster gets. A deletion removes DNS records in any case.
fn is_for_asleep(step: Step) -> bool {
    match step {
        Step::Single(single) => single.is_only(Only::Asleep),
        Step::Kind(Kind::InternalDnsRecord | Kind::ExternalDnsRecord, verb) => verb == Verb::Destroy,
        Step::Kind(..) | Step::Component(..) | Step::Extensions(..) | Step::Managed(..) => false,
    }
}

fn needs_namespace(step: Step) -> bool {
    match step {
        Step::Single(single) => single.is_only(Only::Namespace),
        Step::Kind(Kind::InternalDnsRecord | Kind::ExternalDnsRecord, verb) => verb == Verb::Destroy,
        Step::Component(id, verb) => (id, verb) == (ComponentId::MachineControllerManager, Verb::Deploy),
        Step::Kind(..) | Step::Extensions(..) | Step::Managed(..) => false,
    }
}

/// What is done in the shoot before it goes, or for that.
fn needs_cleanup(step: Step) -> bool {
    match step {
        Step::Single(single) => single.is_only(Only::Cleanup),
        Step::Kind(Kind::InternalDnsRecord | Kind::ControlPlane, verb) => matches!(verb, Verb::Deploy | Verb::Wait),
        // The rights in the shoot of those that delete machines could neither be given nor ever be taken back, and the nodes
        // went before the API.
        Step::Component(_, verb) => matches!(verb, Verb::Deploy | Verb::Wait),
        Step::Kind(..) | Step::Extensions(..) | Step::Managed(..) => false,
    }
}
