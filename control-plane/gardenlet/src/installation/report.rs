//! Conditions and events of ControllerInstallations, and what the conditions are about as data, in one write. Several
//! controllers write conditions there: each puts its own among those of the others.

use api_core::v1beta1::ControllerInstallation;
use api_meta::{
    Condition, ConditionStatus, Fault, FaultClass, ObjectName, OperationReport, Subject, Wait,
    conditions::installation as reason, names,
};
use base_client::{patch_status_if_changed, read_again};
use base_controller::EventType;
use kube::{Api, ResourceExt};

use super::problem::Problem;
use crate::context::Context;

/// How often conditions are put into a fresh copy while others write; the next turn tries again anyway.
const ATTEMPTS_MAX: usize = 5;

/// What stands in the conditions once the chart has been rendered and its objects handed over. Whether they are applied
/// is for the care controller to find out.
pub(crate) async fn installed(context: &Context, installation: &ControllerInstallation) -> Result<(), Fault> {
    let mut all = vec![valid(context)];
    let known = conditions(installation);
    let installed = Condition::find(known, reason::INSTALLED);
    let reason = installed.map(|condition| condition.reason.as_str());
    let about = match installed {
        Some(installed) if installed.status == ConditionStatus::True => About::Nothing,
        _ => About::object(managed_resource(installation)),
    };
    if reason.is_none_or(|reason| reason.is_empty() || is_ours(reason)) {
        all.push(pending(
            context,
            &format!(
                "Installation of ManagedResource {:?} is still pending.",
                installation.name_any()
            ),
        ));
    }
    write(context, installation, all, &about).await.map(drop)
}

/// Message of Valid=True for a chart: no operator writes it (gardener/gardener v1.150 has the same).
const CHART_RENDERED: &str = "chart could be rendered successfully.";

fn valid(context: &Context) -> Condition {
    let (status, now) = (ConditionStatus::True, context.clock.now());
    Condition::new(reason::VALID, status, reason::REGISTRATION_VALID, CHART_RENDERED, now)
}

/// Whether Valid is as this controller writes it for a chart that has been rendered, or for one that is gone.
pub(crate) fn has_own_valid(installation: &ControllerInstallation) -> bool {
    Condition::find(conditions(installation), reason::VALID)
        .is_some_and(|valid| valid.message == CHART_RENDERED || valid.reason == reason::DEPLOYMENT_GONE)
}

/// Installed=False: not yet.
fn pending(context: &Context, message: &str) -> Condition {
    let now = context.clock.now();
    Condition::new(
        reason::INSTALLED,
        ConditionStatus::False,
        reason::INSTALLATION_PENDING,
        message,
        now,
    )
}

/// Whether Installed has a reason that only this controller gives, and takes back.
pub(crate) fn is_ours(reason: &str) -> bool {
    [
        reason::INSTALLATION_FAILED,
        reason::DELETION_FAILED,
        reason::DELETION_PENDING,
    ]
    .contains(&reason)
}

/// Reports why an installation cannot go on, with an event when that is new.
pub(crate) async fn problem(
    context: &Context,
    installation: &ControllerInstallation,
    problem: &Problem,
) -> Result<(), Fault> {
    let mut all = vec![problem.condition(context.clock.now())];
    if problem.reason == reason::INSTALLATION_FAILED {
        // Only what has been rendered can fail to be installed.
        all.push(valid(context));
    }
    // What is not decided yet is no reason to warn: a new seed has no identity for a moment.
    let about = About::Failed(Box::new(problem.data()));
    if write(context, installation, all, &about).await? && !problem.is_undecided() {
        let message = problem.message();
        context
            .events
            .record(installation, EventType::Warning, problem.reason, &message)
            .await;
    }
    Ok(())
}

/// Reports that the seed does not take what the chart needs. What may pass is not reported of what is installed already.
pub(crate) async fn refused(
    context: &Context,
    installation: &ControllerInstallation,
    fault: &Fault,
) -> Result<(), Fault> {
    let installed = Condition::find(conditions(installation), reason::INSTALLED);
    let is_installed = installed.is_some_and(|installed| installed.status == ConditionStatus::True);
    if fault.class == FaultClass::Transient && is_installed {
        return Ok(());
    }
    let mut copy = Fault::new(fault.class, fault.chain()).hint(fault.hint.clone());
    copy.object.clone_from(&fault.object);
    copy.webhook.clone_from(&fault.webhook);
    problem(
        context,
        installation,
        &Problem::not_installed(reason::INSTALLATION_FAILED, copy),
    )
    .await
}

/// What the conditions Valid and Installed are about, as data.
#[derive(Debug)]
pub(crate) enum About {
    /// What was reported before.
    Same,
    /// Nothing: they are as they should be.
    Nothing,
    /// An object of the seed that is waited for.
    Object(Box<ObjectName>),
    /// What has failed.
    Failed(Box<api_meta::Problem>),
}

impl About {
    pub(crate) fn object(object: ObjectName) -> Self {
        Self::Object(Box::new(object))
    }

    /// Puts it into the annotations of an installation whose conditions are those to be written. `before`: as it was read.
    fn put_into(&self, before: &ControllerInstallation, after: &mut ControllerInstallation) {
        let mut report = OperationReport::default();
        let now = conditions(after);
        match self {
            Self::Same => {
                let annotations = before.metadata.annotations.as_ref();
                match OperationReport::about_conditions(annotations, conditions(before), &reason::REPORTED) {
                    Some(same) => report = same,
                    None => return,
                }
            }
            Self::Nothing => {}
            Self::Object(object) => {
                if let Some(installed) = Condition::find(now, reason::INSTALLED) {
                    report.waits.push(Wait {
                        task: String::new(),
                        subject: Subject::Object((**object).clone()),
                        reason: installed.message.clone(),
                        since: installed.last_transition_time.0,
                    });
                }
            }
            Self::Failed(problem) => report.errors.push((**problem).clone()),
        }
        let mut annotations = after.metadata.annotations.clone();
        report.put_beside_conditions(&mut annotations, now, &reason::REPORTED);
        after.metadata.annotations = annotations;
    }
}

/// The ManagedResource of an installation's chart.
pub(crate) fn managed_resource(installation: &ControllerInstallation) -> ObjectName {
    ObjectName::new(
        "ManagedResource",
        Some(names::GARDEN_NAMESPACE),
        installation.name_any(),
    )
}

/// Puts `ours` among the conditions, and what they are about beside them. Returns whether that changed a condition.
pub(crate) async fn write(
    context: &Context,
    installation: &ControllerInstallation,
    ours: Vec<Condition>,
    about: &About,
) -> Result<bool, Fault> {
    let api: Api<ControllerInstallation> = Api::all(context.garden.clone());
    let mut before = installation.clone();
    for attempt in 1.. {
        let mut after = before.clone();
        let conditions = &mut after.status.get_or_insert_default().conditions;
        let mut changed = false;
        for condition in ours.clone() {
            changed |= condition.put_into(conditions);
        }
        about.put_into(&before, &mut after);
        if !changed && after.metadata.annotations == before.metadata.annotations {
            return Ok(false);
        }
        match patch_status_if_changed(&api, &before, &after).await {
            Ok(_) => return Ok(changed),
            Err(fault) if fault.class == FaultClass::Transient && attempt < ATTEMPTS_MAX => {
                let Some(fresh) = read_again(&api, installation).await? else {
                    return Ok(false);
                };
                before = fresh;
            }
            Err(fault) => return Err(fault),
        }
    }
    Ok(false)
}

/// The conditions of an installation.
pub(crate) fn conditions(installation: &ControllerInstallation) -> &[Condition] {
    installation
        .status
        .as_ref()
        .map(|status| status.conditions.as_slice())
        .unwrap_or_default()
}
