//! Reports at an installation why no operator will install it: its registration names no ControllerDeployment, or one
//! that is not there, or one of a type that no operator serves. It writes the condition Valid alone, only where no
//! other writer has set it, and removes only what it has written itself.

use std::sync::Arc;
use std::time::Duration;

use api_core::v1beta1::{ControllerDeployment, ControllerInstallation, ControllerRegistration};
use api_meta::conditions::installation::{HEALTHY, INSTALLED, PROGRESSING, VALID};
use api_meta::names::DEPLOYMENT_TYPE_HELM;
use api_meta::{Condition, ConditionStatus, Fault};
use base_client::patch_status_if_changed;
use base_controller::{Cache, Change, Controller, EventType, Next, ObjectKey};
use jiff::Timestamp;
use kube::{Resource, ResourceExt};
use tokio_util::sync::CancellationToken;

use super::plan::registration_of;
use crate::context::Context;

/// Reasons of Valid: by them we know again what we have written.
const DEPLOYMENT_NOT_FOUND: &str = "ControllerDeploymentNotFound";
const NO_DEPLOYMENT: &str = "NoDeployment";
const NO_OPERATOR: &str = "NoOperator";
const OURS: [&str; 3] = [DEPLOYMENT_NOT_FOUND, NO_DEPLOYMENT, NO_OPERATOR];

/// How long an operator has for its first word: one that is just being started takes seconds, and a person who has forgotten
/// it should not wait longer.
const OPERATOR_PATIENCE: Duration = Duration::from_secs(60);

/// Maintains the reports of installations that no operator installs.
pub(crate) async fn run_standing(context: Context, stop: CancellationToken) {
    let caches = context.caches.clone();
    Controller::new("installation-standing", caches.installations.clone())
        .watches(&caches.registrations, installations_of(&caches.installations))
        .watches(
            &caches.deployments,
            installations_with(&caches.installations, &caches.registrations),
        )
        .run(stop, move |installation| {
            let context = context.clone();
            async move { reconcile(&context, &installation).await }
        })
        .await;
}

/// The installations of a registration.
fn installations_of(
    installations: &Cache<ControllerInstallation>,
) -> impl Fn(&Change<ControllerRegistration>) -> Vec<ObjectKey> + Send + Sync + 'static {
    let installations = installations.clone();
    move |change| keys(&installations, |name| name == change.object.name_any())
}

/// The installations of the registrations that name a deployment.
fn installations_with(
    installations: &Cache<ControllerInstallation>,
    registrations: &Cache<ControllerRegistration>,
) -> impl Fn(&Change<ControllerDeployment>) -> Vec<ObjectKey> + Send + Sync + 'static {
    let (installations, registrations) = (installations.clone(), registrations.clone());
    move |change| {
        let deployment = change.object.name_any();
        let names: Vec<String> = registrations
            .list()
            .iter()
            .filter(|registration| deployment_of(registration) == Some(deployment.as_str()))
            .map(|registration| registration.name_any())
            .collect();
        keys(&installations, |name| names.iter().any(|one| one == name))
    }
}

/// Those whose registration has such a name.
fn keys(installations: &Cache<ControllerInstallation>, wanted: impl Fn(&str) -> bool) -> Vec<ObjectKey> {
    installations
        .list()
        .iter()
        .filter(|installation| wanted(registration_of(installation)))
        .map(|installation| ObjectKey::of(&**installation))
        .collect()
}

fn deployment_of(registration: &ControllerRegistration) -> Option<&str> {
    let deployment = registration.spec.deployment.as_ref()?;
    Some(deployment.deployment_refs.first()?.name.as_str())
}

async fn reconcile(context: &Context, installation: &Arc<ControllerInstallation>) -> Result<Next, Fault> {
    let (caches, now) = (&context.caches, context.clock.now());
    caches.registrations.ready().await;
    caches.deployments.ready().await;
    let Some(registration) = caches
        .registrations
        .get(&ObjectKey::cluster(registration_of(installation)))
    else {
        return Ok(Next::Change);
    };
    let deployment = deployment_of(&registration).and_then(|name| caches.deployments.get(&ObjectKey::cluster(name)));
    let finding = finding(installation, &registration, deployment.as_deref(), now);
    let after = reported(installation, finding.problem(), now);
    let api = context.cluster::<ControllerInstallation>();
    let written = patch_status_if_changed(&api, &**installation, &after).await?;
    if let (Some(_), Finding::Problem(problem)) = (written, &finding) {
        let recorder = &context.recorder;
        let message = &problem.message;
        recorder
            .record(&**installation, EventType::Warning, problem.reason, message)
            .await;
        recorder
            .record(&*registration, EventType::Warning, problem.reason, message)
            .await;
    }
    Ok(match finding {
        Finding::Early(remaining) => Next::After(remaining),
        Finding::Problem(_) | Finding::Nothing => Next::Change,
    })
}

/// What is wrong with an installation, as in its condition Valid.
#[derive(Debug, PartialEq)]
struct Problem {
    status: ConditionStatus,
    reason: &'static str,
    message: String,
}

#[derive(Debug, PartialEq)]
enum Finding {
    /// An operator installs it, or reports on it.
    Nothing,
    /// Its operator still has so long for its first word.
    Early(Duration),
    Problem(Problem),
}

impl Finding {
    fn problem(&self) -> Option<&Problem> {
        match self {
            Self::Problem(problem) => Some(problem),
            Self::Nothing | Self::Early(_) => None,
        }
    }
}

fn finding(
    installation: &ControllerInstallation,
    registration: &ControllerRegistration,
    deployment: Option<&ControllerDeployment>,
    now: Timestamp,
) -> Finding {
    if installation.meta().deletion_timestamp.is_some() || has_word_of_others(installation) {
        return Finding::Nothing;
    }
    let name = registration.name_any();
    match (deployment_of(registration), deployment) {
        (None, _) => Finding::Problem(Problem {
            status: ConditionStatus::False,
            reason: NO_DEPLOYMENT,
            message: format!(
                "ControllerRegistration {name} does not say what installs it: name a ControllerDeployment in its \
                 spec.deployment.deploymentRefs"
            ),
        }),
        (Some(wanted), None) => Finding::Problem(Problem {
            status: ConditionStatus::False,
            reason: DEPLOYMENT_NOT_FOUND,
            message: format!(
                "ControllerDeployment {wanted}, which ControllerRegistration {name} names, does not exist: create it, or \
                 name another in spec.deployment.deploymentRefs"
            ),
        }),
        (Some(_), Some(deployment)) if deployment.type_ == DEPLOYMENT_TYPE_HELM => Finding::Nothing,
        (Some(_), Some(deployment)) => without_operator(installation, deployment, now),
    }
}

/// Whether another writer has reported on it; gardenlet reports of every installation whether extension objects need
/// it.
fn has_word_of_others(installation: &ControllerInstallation) -> bool {
    let conditions = installation
        .status
        .as_ref()
        .map_or(&[][..], |status| &status.conditions);
    conditions.iter().any(|condition| {
        [VALID, INSTALLED, HEALTHY, PROGRESSING].contains(&condition.type_.as_str()) && !is_ours(condition)
    })
}

fn is_ours(condition: &Condition) -> bool {
    condition.type_ == VALID && OURS.contains(&condition.reason.as_str())
}

fn without_operator(
    installation: &ControllerInstallation,
    deployment: &ControllerDeployment,
    now: Timestamp,
) -> Finding {
    let created = installation.meta().creation_timestamp.as_ref();
    let age = created.map_or(Duration::ZERO, |created| {
        Duration::try_from(now.duration_since(created.0)).unwrap_or_default()
    });
    match OPERATOR_PATIENCE
        .checked_sub(age)
        .filter(|remaining| !remaining.is_zero())
    {
        Some(remaining) => Finding::Early(remaining),
        None => Finding::Problem(Problem {
            status: ConditionStatus::Unknown,
            reason: NO_OPERATOR,
            message: format!(
                "no operator has taken it up: ControllerDeployment {} has type {:?}, which an operator has to serve; start \
                 the operator of this type, or give the deployment type {DEPLOYMENT_TYPE_HELM:?} and a chart",
                deployment.name_any(),
                deployment.type_
            ),
        }),
    }
}

/// The installation with the report, or without the previous one. A condition Valid of another writer stays.
fn reported(before: &ControllerInstallation, problem: Option<&Problem>, now: Timestamp) -> ControllerInstallation {
    let mut after = before.clone();
    let Some(problem) = problem else {
        if let Some(status) = &mut after.status {
            status.conditions.retain(|condition| !is_ours(condition));
        }
        return after;
    };
    let condition = Condition::new(VALID, problem.status.clone(), problem.reason, &problem.message, now);
    condition.put_into(&mut after.status.get_or_insert_default().conditions);
    after
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::*;

    const CREATED: &str = "2026-01-01T00:00:00Z";

    fn object<T: DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    fn installation(conditions: &[(&str, &str, &str)]) -> ControllerInstallation {
        let conditions: Vec<Value> = conditions
            .iter()
            .map(|(type_, status, reason)| json!({"type": type_, "status": status, "reason": reason}))
            .collect();
        object(json!({"metadata": {"name": "moon-abcde", "creationTimestamp": CREATED},
            "spec": {"registrationRef": {"name": "moon"}}, "status": {"conditions": conditions}}))
    }

    fn registration(references: Value) -> ControllerRegistration {
        object(json!({"metadata": {"name": "moon"}, "spec": {"deployment": {"deploymentRefs": references}}}))
    }

    fn deployment(type_: &str) -> ControllerDeployment {
        object(json!({"metadata": {"name": "lander"}, "type": type_, "providerConfig": {}}))
    }

    fn after(seconds: i64) -> Timestamp {
        CREATED.parse::<Timestamp>().unwrap() + jiff::SignedDuration::from_secs(seconds)
    }

    fn reason(finding: &Finding) -> Option<&'static str> {
        finding.problem().map(|problem| problem.reason)
    }

    #[test]
    fn a_missing_deployment_and_a_registration_without_one_are_reported_at_once() {
        let named = registration(json!([{"name": "lander"}]));
        let missing = finding(&installation(&[]), &named, None, after(0));
        assert_eq!(reason(&missing), Some(DEPLOYMENT_NOT_FOUND));
        let none = finding(&installation(&[]), &registration(json!([])), None, after(0));
        assert_eq!(reason(&none), Some(NO_DEPLOYMENT));
        let there = finding(&installation(&[]), &named, Some(&deployment("helm")), after(3600));
        assert_eq!(there, Finding::Nothing, "gardenlet speaks of charts");
    }

    #[test]
    fn an_unserved_type_is_reported_after_a_minute() {
        let named = registration(json!([{"name": "lander"}]));
        // That extension objects need it is no word of an operator.
        let silent = installation(&[("Required", "True", "ExtensionObjectsExist")]);
        let at = |seconds| finding(&silent, &named, Some(&deployment("rocket")), after(seconds));
        assert_eq!(at(20), Finding::Early(Duration::from_secs(40)));
        let problem = at(60);
        assert_eq!(reason(&problem), Some(NO_OPERATOR));
        assert!(problem.problem().unwrap().message.contains("\"rocket\""));
        let answered = installation(&[("Installed", "False", "InstallationPending")]);
        let found = finding(&answered, &named, Some(&deployment("rocket")), after(60));
        assert_eq!(found, Finding::Nothing);
    }

    #[test]
    fn only_conditions_of_our_own_are_taken_away() {
        let problem = Problem {
            status: ConditionStatus::False,
            reason: NO_DEPLOYMENT,
            message: "m".to_owned(),
        };
        let blank = installation(&[("Required", "True", "ExtensionObjectsExist")]);
        let text = reported(&blank, Some(&problem), after(1));
        assert_eq!(reported(&text, Some(&problem), after(2)), text, "reported once");
        assert_eq!(reported(&text, None, after(3)), blank);
        let of_others = installation(&[("Valid", "False", "ChartCannotBeRendered")]);
        assert_eq!(reported(&of_others, None, after(3)), of_others);
    }

    #[test]
    fn the_word_of_another_writer_ends_ours_and_stays() {
        let both = installation(&[
            ("Valid", "Unknown", NO_OPERATOR),
            ("Installed", "True", "InstallationSuccessful"),
        ]);
        let named = registration(json!([{"name": "lander"}]));
        let found = finding(&both, &named, Some(&deployment("rocket")), after(90));
        assert_eq!(found, Finding::Nothing);
        let left = reported(&both, found.problem(), after(90)).status.unwrap().conditions;
        assert_eq!(left.len(), 1);
        assert_eq!(left[0].type_, "Installed");
        let installed = installation(&[("Valid", "True", "RegistrationValid")]);
        assert_eq!(
            finding(&installed, &named, None, after(90)),
            Finding::Nothing,
            "it is not overwritten"
        );
    }
}
