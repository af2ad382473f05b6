//! The status of the shoot, for its owner: `lastOperation`, `lastErrors` and what else gardenlet reports there.
//! Writes only what changed, on top of what others have written meanwhile.

use std::sync::{Arc, Mutex, PoisonError};

use api_core::v1beta1 as core;
use api_meta::{
    ErrorCode, Fault, FaultClass, LastError, LastOperation, LastOperationState, LastOperationType, OperationReport,
    Problem, Retry, Wait,
};
use base_client::{patch_changed, patch_status_if_changed, read_again};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::{Api, ResourceExt};

use crate::context::Context;
use crate::outcome;

/// How often a write is tried on a fresh copy when others write the same shoot; the next reconcile tries again anyway.
const ATTEMPTS_MAX: usize = 5;

/// The Shoot in the garden, as it is known. One writer at a time; who only reads waits for no writer, and so for no garden
/// that is slow. It never hands out the spec: each write brings the newest, and an operation works on the one that it began
/// with.
pub(crate) struct ShootStatusWriter {
    api: Api<core::Shoot>,
    known: Mutex<Arc<core::Shoot>>,
    /// Held during a write.
    writing: tokio::sync::Mutex<()>,
}

/// A Shoot without its spec.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    /// Its metadata.
    pub metadata: ObjectMeta,
    /// Its status.
    pub status: core::ShootStatus,
}

impl Known {
    fn of(shoot: &core::Shoot) -> Self {
        Self {
            metadata: shoot.metadata.clone(),
            status: shoot.status.clone().unwrap_or_default(),
        }
    }

    /// The Shoot with the spec that is being worked on. Its generation is the one that was taken up: what was requested
    /// since is not in this spec.
    #[must_use]
    pub(crate) fn with(self, spec: core::ShootSpec) -> core::Shoot {
        let Self { mut metadata, status } = self;
        metadata.generation = status.observed_generation.or(metadata.generation);
        core::Shoot {
            metadata,
            spec,
            status: Some(status),
        }
    }

    /// The Shoot as events name it.
    #[must_use]
    pub(crate) fn named(self) -> core::Shoot {
        core::Shoot {
            metadata: self.metadata,
            ..core::Shoot::default()
        }
    }
}

impl ShootStatusWriter {
    /// Begins with the shoot as it was read.
    #[must_use]
    pub(crate) fn new(context: &Context, shoot: core::Shoot) -> Self {
        Self::of(context.in_garden(&shoot.namespace().unwrap_or_default()), shoot)
    }

    fn of(api: Api<core::Shoot>, shoot: core::Shoot) -> Self {
        Self {
            api,
            known: Mutex::new(Arc::new(shoot)),
            writing: tokio::sync::Mutex::default(),
        }
    }

    /// The shoot as it is known.
    pub(crate) fn known(&self) -> Known {
        Known::of(&self.newest())
    }

    fn newest(&self) -> Arc<core::Shoot> {
        Arc::clone(&self.known.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn learn(&self, shoot: core::Shoot) {
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(shoot);
    }

    /// Changes the status. `edit` may run several times, each on a fresh copy.
    ///
    /// # Errors
    /// What the API server returns; dependency when the shoot is gone, also when another has taken its name.
    pub(crate) async fn update(&self, edit: impl Fn(&mut core::ShootStatus) + Send + Sync) -> Result<Known, Fault> {
        // What is reported belongs to the status as it is then, also where that is about another generation.
        self.report(|status, _| edit(status)).await
    }

    /// Changes the status and the report that stands beside it, in one write. `edit` may run several times, each on a fresh
    /// copy; it is given the report that is about the status as it was, an empty one if there is none.
    ///
    /// # Errors
    /// As [`ShootStatusWriter::update`].
    pub(crate) async fn report(
        &self,
        edit: impl Fn(&mut core::ShootStatus, &mut OperationReport) + Send + Sync,
    ) -> Result<Known, Fault> {
        let write = |shoot: &mut core::Shoot| {
            let status = shoot.status.get_or_insert_default();
            let annotations = &mut shoot.metadata.annotations;
            let (generation, last) = (status.observed_generation, status.last_operation.as_ref());
            let mut report = OperationReport::current(annotations.as_ref(), generation, last).unwrap_or_default();
            edit(status, &mut report);
            report.put(annotations, status.observed_generation, status.last_operation.as_ref());
        };
        self.write(write, true).await
    }

    /// Removes the annotations that still request what was `done`. Those of a generation that is not taken up yet may
    /// request more with the same value.
    ///
    /// # Errors
    /// As [`ShootStatusWriter::update`].
    pub(crate) async fn consume_annotations(&self, done: &[(&str, String)]) -> Result<Known, Fault> {
        let take = |shoot: &mut core::Shoot| {
            let taken_up = shoot.status.as_ref().and_then(|status| status.observed_generation);
            if shoot.metadata.generation != taken_up {
                return;
            }
            if let Some(annotations) = &mut shoot.metadata.annotations {
                annotations.retain(|key, value| !done.iter().any(|(name, request)| key == name && value == request));
            }
        };
        self.write(take, false).await
    }

    /// Writes the nodes' network into the spec, where it has none yet.
    ///
    /// # Errors
    /// As [`ShootStatusWriter::update`].
    pub(crate) async fn settle_nodes(&self, network: &str) -> Result<Known, Fault> {
        let set = |shoot: &mut core::Shoot| {
            if let Some(networking) = &mut shoot.spec.networking {
                networking.nodes.get_or_insert_with(|| network.to_owned());
            }
        };
        self.write(set, false).await
    }

    async fn write(&self, edit: impl Fn(&mut core::Shoot) + Send + Sync, status: bool) -> Result<Known, Fault> {
        let _turn = self.writing.lock().await;
        for attempt in 1.. {
            let known = self.newest();
            let mut after = core::Shoot::clone(&known);
            edit(&mut after);
            let written = if status {
                patch_status_if_changed(&self.api, &known, &after).await
            } else {
                patch_changed(&self.api, &known, &after).await
            };
            match written {
                Ok(Some(fresh)) => self.learn(fresh),
                Ok(None) => {}
                Err(fault) if fault.class == FaultClass::Transient && attempt < ATTEMPTS_MAX => {
                    let gone = || Fault::dependency(format!("Shoot {} is gone", known.name_any()));
                    self.learn(read_again(&self.api, &known).await?.ok_or_else(gone)?);
                    continue;
                }
                Err(fault) => return Err(fault),
            }
            break;
        }
        Ok(self.known())
    }
}

/// What a shoot's operation is called in its descriptions.
fn noun(type_: &LastOperationType) -> &'static str {
    match type_ {
        LastOperationType::Create => "Creation",
        LastOperationType::Delete => "Deletion",
        LastOperationType::Migrate => "Preparation for migration",
        LastOperationType::Restore => "Restoration",
        _ => "Reconciliation",
    }
}

/// At the start of an operation (contract F.2). Errors of the attempt before stay until their tasks have succeeded.
pub(crate) fn started(
    status: &mut core::ShootStatus,
    report: &mut OperationReport,
    type_: &LastOperationType,
    shoot: &core::Shoot,
    technical_id: &str,
    gardener: &core::Gardener,
    now: Timestamp,
) {
    taken_up(status, shoot, gardener, now);
    let description = match type_ {
        LastOperationType::Delete => "Deletion of Shoot cluster in progress.".to_owned(),
        type_ => format!("{} of Shoot cluster initialized.", noun(type_)),
    };
    status.last_operation = Some(operation(type_, LastOperationState::Processing, 0, description, now));
    *report = OperationReport {
        errors: std::mem::take(&mut report.errors),
        ..OperationReport::default()
    };
    status.technical_id = technical_id.to_owned();
    status.uid = shoot.metadata.uid.clone().unwrap_or_default();
    // Where the control plane lives stays as it is: what only names another seed has moved nothing.
    let is_new = status.seed_name.as_deref().unwrap_or_default().is_empty();
    if is_new && *type_ != LastOperationType::Delete {
        status.seed_name.clone_from(&shoot.spec.seed_name);
    }
}

/// Marks a generation as observed, whatever the result: clients that wait for `observedGeneration` see it.
pub(crate) fn taken_up(status: &mut core::ShootStatus, shoot: &core::Shoot, gardener: &core::Gardener, now: Timestamp) {
    let new_cycle = status.retry_cycle_start_time.is_none()
        || status.observed_generation != shoot.metadata.generation
        || status.gardener.version != gardener.version;
    if new_cycle {
        status.retry_cycle_start_time = Some(Time(now));
    }
    status.observed_generation = shoot.metadata.generation;
    status.gardener = gardener.clone();
}

/// Takes back the errors of tasks that have succeeded since.
pub(crate) fn cleaned(status: &mut core::ShootStatus, report: &mut OperationReport, tasks: &[String]) {
    report.clear(tasks);
    status
        .last_errors
        .retain(|error| error.task_id.as_ref().is_none_or(|task| !tasks.contains(task)));
}

/// How far a run is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Step {
    /// In percent.
    pub percent: i32,
    /// The progress in words.
    pub description: String,
    /// The tasks that run.
    pub running: Vec<String>,
    /// What has been waited for long.
    pub waits: Vec<Wait>,
    /// Tasks that failed last time and have succeeded now.
    pub succeeded: Vec<String>,
}

/// While it runs.
pub(crate) fn progressed(status: &mut core::ShootStatus, report: &mut OperationReport, step: &Step, now: Timestamp) {
    cleaned(status, report, &step.succeeded);
    report.running.clone_from(&step.running);
    report.waits.clone_from(&step.waits);
    let description = report.progress_sentence(&step.description);
    if let Some(last) = &mut status.last_operation
        && (last.progress != step.percent || last.description != description)
    {
        last.progress = step.percent;
        last.description = description;
        last.last_update_time = Time(now);
    }
}

/// After success. The generation observed is the one that was begun with (and what gardenlet itself has added to it):
/// what was requested meanwhile is still to be done. `asleep`: the cluster is hibernated now.
pub(crate) fn succeeded(
    status: &mut core::ShootStatus,
    report: &mut OperationReport,
    type_: &LastOperationType,
    asleep: bool,
    now: Timestamp,
) {
    let done = match type_ {
        LastOperationType::Create | LastOperationType::Reconcile => "reconciled",
        LastOperationType::Delete => "deleted",
        LastOperationType::Restore => "restored",
        _ => "prepared for migration",
    };
    let description = format!("Shoot cluster has been successfully {done}.");
    status.last_operation = Some(operation(type_, LastOperationState::Succeeded, 100, description, now));
    status.last_errors = Vec::new();
    *report = OperationReport::default();
    status.retry_cycle_start_time = None;
    status.hibernated = asleep;
}

/// An error on its way into the status.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The task's name.
    pub task: String,
    /// What went wrong.
    pub fault: Fault,
}

/// Whether trying again by itself cannot help with one of them.
#[must_use]
pub(crate) fn is_for_good(failures: &[Failure]) -> bool {
    failures.iter().any(|failure| !failure.fault.retryable())
}

/// Failures as data, with the codes that the status reports.
#[must_use]
pub(crate) fn failed_with(failures: &[Failure], next_try: Option<Retry>) -> OperationReport {
    let problem = |failure: &Failure| Problem::of(Some(&failure.task), &failure.fault, codes(&failure.fault));
    OperationReport {
        errors: failures.iter().map(problem).collect(),
        next_try,
        ..OperationReport::default()
    }
}

/// After failure: one entry per task; `Failed` without a next try.
pub(crate) fn failed(
    status: &mut core::ShootStatus,
    type_: &LastOperationType,
    progress: i32,
    report: &OperationReport,
    now: Timestamp,
) {
    let state = match report.next_try {
        None => LastOperationState::Failed,
        Some(_) => LastOperationState::Error,
    };
    let description = report.failure_sentence();
    status.last_operation = Some(operation(type_, state, progress, description, now));
    let described = |problem: &Problem| LastError {
        description: problem.sentence(),
        task_id: problem.task.clone(),
        codes: problem.codes.clone(),
        last_update_time: Some(Time(now)),
    };
    status.last_errors = report.errors.iter().map(described).collect();
}

/// The fault's codes; a missing right has one even if none was set. It is tried again all the same, because the class
/// decides that: it may be granted at any moment.
fn codes(fault: &Fault) -> Vec<ErrorCode> {
    match outcome::codes(fault) {
        none if none.is_empty() && fault.class == FaultClass::Access => vec![ErrorCode::InfraUnauthorized],
        codes => codes,
    }
}

fn operation(
    type_: &LastOperationType,
    state: LastOperationState,
    progress: i32,
    description: String,
    now: Timestamp,
) -> LastOperation {
    LastOperation {
        description,
        last_update_time: Time(now),
        progress,
        state,
        type_: type_.clone(),
    }
}

/// One fault for all failures: retried as soon as the most hopeful of them.
#[must_use]
pub(crate) fn summary(failures: &[Failure]) -> Fault {
    let class = FaultClass::most_hopeful(failures.iter().map(|failure| failure.fault.class));
    let texts: Vec<String> = failures
        .iter()
        .map(|failure| format!("{}: {}", failure.task, failure.fault.chain()))
        .collect();
    Fault::new(class.unwrap_or(FaultClass::Bug), texts.join("; ")).hint("look at status.lastErrors of the shoot")
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
    use kube::api::PostParams;
    use kube::runtime::wait::{await_condition, conditions::is_crd_established};

    use super::*;

    fn now() -> Timestamp {
        "2026-01-01T00:00:00Z".parse().unwrap()
    }

    fn failure(task: &str, fault: Fault) -> Failure {
        Failure {
            task: task.into(),
            fault,
        }
    }

    fn after(failures: &[Failure]) -> core::ShootStatus {
        let mut status = core::ShootStatus::default();
        let class = summary(failures).class;
        let retry = (!is_for_good(failures)).then(|| Retry { at: now(), class });
        let report = failed_with(failures, retry);
        failed(&mut status, &LastOperationType::Create, 40, &report, now());
        status
    }

    #[test]
    fn what_may_pass_is_an_error_and_what_will_not_is_failed() {
        let status = after(&[failure("Wait", Fault::dependency("slow").hint("wait"))]);
        let last = status.last_operation.unwrap();
        assert_eq!((last.state, last.progress), (LastOperationState::Error, 40));
        assert_eq!(
            last.description,
            "task \"Wait\" failed: slow. Operation will be retried. Next try at 2026-01-01T00:00:00Z or sooner (dependency)."
        );
        assert_eq!(status.last_errors[0].description, "slow (to do: wait)");

        let both = [
            failure("A", Fault::transient("conflict")),
            failure("B", Fault::dependency("no rights").code(ErrorCode::InfraUnauthorized)),
        ];
        let status = after(&both);
        assert_eq!(status.last_operation.unwrap().state, LastOperationState::Failed);
        assert_eq!(status.last_errors.len(), 2);
        assert_eq!(status.last_errors[1].codes, [ErrorCode::InfraUnauthorized]);
    }

    #[test]
    fn rate_limits_back_off_instead_of_ending_it() {
        let status = after(&[failure(
            "A",
            Fault::transient("slow down").code(ErrorCode::InfraRateLimitsExceeded),
        )]);
        assert_eq!(status.last_operation.unwrap().state, LastOperationState::Error);
    }

    #[test]
    fn an_error_goes_as_soon_as_its_task_succeeds() {
        let failures = [failure("A", Fault::transient("x")), failure("B", Fault::transient("y"))];
        let (mut status, mut report) = (after(&failures), failed_with(&failures, None));
        let step = Step {
            percent: 10,
            description: "B".to_owned(),
            succeeded: vec!["A".to_owned()],
            ..Step::default()
        };
        progressed(&mut status, &mut report, &step, now());
        let known: Vec<_> = report.errors.iter().filter_map(|error| error.task.clone()).collect();
        assert_eq!(known, ["B"]);
        let left: Vec<_> = status
            .last_errors
            .iter()
            .filter_map(|error| error.task_id.clone())
            .collect();
        assert_eq!(left, ["B"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_report_is_never_written_to_another_shoot_of_the_same_name() {
        let garden = tests_kit::embedded().await;
        let names =
            serde_json::json!({"kind": "Shoot", "plural": "shoots", "singular": "shoot", "listKind": "ShootList"});
        let schema = serde_json::json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let definition = serde_json::from_value(serde_json::json!({
            "metadata": {"name": "shoots.core.gardener.cloud"},
            "spec": {"group": "core.gardener.cloud", "scope": "Namespaced", "names": names, "versions": [{
                "name": "v1beta1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": schema},
            }]},
        }));
        let definitions: Api<CustomResourceDefinition> = Api::all(garden.admin());
        let definition = definitions
            .create(&PostParams::default(), &definition.unwrap())
            .await
            .unwrap();
        await_condition(definitions, &definition.name_any(), is_crd_established())
            .await
            .unwrap();
        let api: Api<core::Shoot> = Api::namespaced(garden.admin(), "default");
        let mut shoot = core::Shoot::default();
        shoot.metadata.name = Some("b".into());
        let make = || async { api.create(&PostParams::default(), &shoot).await.unwrap() };
        let first = make().await;
        let writer = ShootStatusWriter::of(api.clone(), first.clone());
        let tell = |status: &mut core::ShootStatus| status.uid = "first".into();
        writer.update(tell).await.unwrap();
        base_client::delete(&api, "b").await.unwrap();
        let second = make().await;
        assert_ne!(first.metadata.uid, second.metadata.uid);
        let fault = writer
            .update(|status| status.technical_id = "shoot--first".into())
            .await
            .unwrap_err();
        assert_eq!(fault.to_string(), "Shoot b is gone");
        let left = api.get("b").await.unwrap();
        assert_eq!(left.status.unwrap_or_default().technical_id, "");
    }

    #[test]
    fn the_most_hopeful_failure_decides_when_to_try_again() {
        let all = vec![
            failure("A", Fault::user("x")),
            failure("B", Fault::transient("y")),
            failure("C", Fault::access("z")),
        ];
        assert_eq!(summary(&all).class, FaultClass::Transient);
    }

    #[test]
    fn the_seed_of_a_control_plane_is_written_once() {
        let mut shoot = core::Shoot::default();
        let mut status = core::ShootStatus::default();
        let mut reported = Vec::new();
        for seed in ["south", "north"] {
            shoot.spec.seed_name = Some(seed.into());
            let (type_, gardener) = (LastOperationType::Reconcile, core::Gardener::default());
            let mut report = OperationReport::default();
            started(
                &mut status,
                &mut report,
                &type_,
                &shoot,
                "shoot--a--b",
                &gardener,
                now(),
            );
            reported.extend(status.seed_name.clone());
        }
        assert_eq!(reported, ["south", "south"], "only a migration moves a control plane");
    }

    #[test]
    fn a_new_generation_begins_a_new_retry_cycle_and_a_retry_does_not() {
        let mut shoot = core::Shoot::default();
        shoot.metadata.generation = Some(1);
        let gardener = core::Gardener {
            version: "1".into(),
            ..core::Gardener::default()
        };
        let mut status = core::ShootStatus::default();
        let start = |status: &mut core::ShootStatus, shoot: &core::Shoot, second| {
            started(
                status,
                &mut OperationReport::default(),
                &LastOperationType::Create,
                shoot,
                "shoot--a--b",
                &gardener,
                Timestamp::from_second(second).unwrap(),
            );
        };
        start(&mut status, &shoot, 1);
        start(&mut status, &shoot, 2);
        assert_eq!(
            status.retry_cycle_start_time,
            Some(Time(Timestamp::from_second(1).unwrap()))
        );
        shoot.metadata.generation = Some(2);
        start(&mut status, &shoot, 3);
        assert_eq!(
            status.retry_cycle_start_time,
            Some(Time(Timestamp::from_second(3).unwrap()))
        );
        assert_eq!(status.observed_generation, Some(2));
    }
}
