//! Jobs, as far as one-off tasks need them: parallelism, completions, backoff limit, deadline, expiry. Indexed
//! completion, suspension and failure policies are not there; a Job that uses them gets an event and stays as it is.
//! After kubernetes v1.35 `pkg/controller/job`.

use std::sync::Arc;
use std::time::Duration;

use api_meta::Fault;
use base_client::{fault_of, is_missing, patch_status_if_changed};
use base_controller::{Controller, EventType, Next};
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{Job, JobCondition, JobSpec, JobStatus};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::DeleteParams;
use kube::{Api, ResourceExt};
use tokio_util::sync::CancellationToken;

use crate::Context;
use crate::pods::{
    BURST_MAX, add_labels, create_pod, delete_pod, from_template, is_active, is_ready, managed_by, phase,
};
use crate::seen::pods_of;

/// Failed pods after which a Job counts as failed, unless it says otherwise.
const BACKOFF_LIMIT: i32 = 6;

/// The pause before a failed pod is replaced, and the longest, to which it doubles with each failure (upstream's
/// `DefaultJobPodFailureBackOff` and `MaxJobPodFailureBackOff`).
const BACKOFF_MIN: Duration = Duration::from_secs(10);
const BACKOFF_MAX: Duration = Duration::from_secs(600);

pub(crate) async fn run(context: Context, stop: CancellationToken) {
    let (jobs, pods) = (context.caches.jobs(), context.caches.pods());
    if stop.run_until_cancelled(pods.ready()).await.is_none() {
        return;
    }
    let controller = Controller::new("job", jobs).owns(&pods);
    controller.run(stop, move |job| reconcile(job, context.clone())).await;
}

async fn reconcile(job: Arc<Job>, context: Context) -> Result<Next, Fault> {
    let spec = job.spec.clone().unwrap_or_default();
    if job.metadata.deletion_timestamp.is_some() {
        return Ok(Next::Change);
    }
    if let Some(feature) = unsupported(&spec) {
        let message = format!("this cluster's job controller does not support {feature}");
        context
            .events
            .record(&*job, EventType::Warning, "NotSupported", &message)
            .await;
        return Ok(Next::Change);
    }
    let (cache, api) = (
        context.caches.pods(),
        Api::<Job>::namespaced(context.client.clone(), &job.namespace().unwrap_or_default()),
    );
    let pods = pods_of(&context, &*job).await?;
    let now = context.clock.now();
    let Plan {
        create,
        delete: surplus,
        outcome,
        next,
    } = plan(&job, &spec, &pods, now);
    if outcome == JobOutcome::Expired {
        // Without a propagation policy its pods would stay.
        return match api.delete(&job.name_any(), &DeleteParams::background()).await {
            Err(error) if !is_missing(&error) => Err(fault_of(error, "delete an expired Job")),
            _ => Ok(Next::Change),
        };
    }
    for pod in &surplus {
        delete_pod(&context, &*job, pod).await?;
    }
    for pod in &create {
        if !create_pod(&context, &*job, pod).await? {
            break;
        }
    }
    let after = report(&job, &managed_by(&cache, &*job), outcome, now);
    patch_status_if_changed(&api, &*job, &after).await?;
    Ok(next.map_or(Next::Change, Next::After))
}

fn unsupported(spec: &JobSpec) -> Option<&'static str> {
    if spec.completion_mode.as_deref() == Some("Indexed") {
        Some("completionMode Indexed")
    } else if spec.suspend == Some(true) {
        Some("suspend")
    } else if spec.pod_failure_policy.is_some() {
        Some("podFailurePolicy")
    } else {
        None
    }
}

/// What has become of a Job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum JobOutcome {
    Running,
    Complete,
    /// Too many pods failed, or it took too long: reason and message.
    Failed(&'static str, &'static str),
    /// Ended so long ago that it is to be deleted.
    Expired,
}

#[derive(Debug)]
struct Plan {
    create: Vec<Pod>,
    delete: Vec<Arc<Pod>>,
    outcome: JobOutcome,
    next: Option<Duration>,
}

fn count(pods: &[Arc<Pod>], is_it: impl Fn(&Pod) -> bool) -> i32 {
    i32::try_from(pods.iter().filter(|pod| is_it(pod)).count()).unwrap_or(i32::MAX)
}

fn ended(job: &Job) -> Option<&JobCondition> {
    let conditions = job.status.as_ref()?.conditions.as_ref()?;
    conditions
        .iter()
        .find(|condition| matches!(condition.type_.as_str(), "Complete" | "Failed") && condition.status == "True")
}

fn plan(job: &Job, spec: &JobSpec, pods: &[Arc<Pod>], now: Timestamp) -> Plan {
    let mut plan = Plan {
        create: Vec::new(),
        delete: Vec::new(),
        outcome: JobOutcome::Running,
        next: None,
    };
    if let Some(end) = ended(job) {
        (plan.outcome, plan.next) = after_end(end, spec, now);
        return plan;
    }
    let (succeeded, failed) = (
        count(pods, |pod| phase(pod) == "Succeeded"),
        count(pods, |pod| phase(pod) == "Failed"),
    );
    let active: Vec<Arc<Pod>> = pods.iter().filter(|pod| is_active(pod)).cloned().collect();
    let running = i32::try_from(active.len()).unwrap_or(i32::MAX);
    let parallelism = spec.parallelism.unwrap_or(1).max(0);
    let is_done = match spec.completions {
        Some(completions) => succeeded >= completions,
        // Without a number, one success ends it once the others have ended too.
        None => succeeded > 0 && running == 0,
    };
    let started = job
        .status
        .as_ref()
        .and_then(|status| status.start_time.as_ref())
        .map_or(now, |time| time.0);
    let left = spec
        .active_deadline_seconds
        .map(|deadline| rest(started, deadline, now));
    if is_done {
        plan.outcome = JobOutcome::Complete;
    } else if left == Some(None) {
        plan.outcome = JobOutcome::Failed("DeadlineExceeded", "Job was active longer than specified deadline");
    } else if failed > spec.backoff_limit.unwrap_or(BACKOFF_LIMIT) {
        plan.outcome = JobOutcome::Failed("BackoffLimitExceeded", "Job has reached the specified backoff limit");
    }
    if plan.outcome != JobOutcome::Running {
        plan.delete = active;
        plan.next = spec
            .ttl_seconds_after_finished
            .map(|ttl| Duration::from_secs(u64::try_from(ttl).unwrap_or(0)));
        return plan;
    }
    let wanted = match spec.completions {
        Some(completions) => parallelism.min(completions - succeeded),
        None if succeeded > 0 => running,
        None => parallelism,
    };
    let missing = usize::try_from(wanted - running).unwrap_or(0).min(BURST_MAX);
    let pause = backoff(pods, now).filter(|_| missing > 0);
    plan.next = [left.flatten(), pause].into_iter().flatten().min();
    if pause.is_none() {
        plan.create = vec![task(job, spec); missing];
    }
    let surplus = usize::try_from(running - wanted).unwrap_or(0);
    plan.delete = active.into_iter().rev().take(surplus).collect();
    plan
}

/// The outcome of a Job that has ended, and when it is to be deleted.
fn after_end(end: &JobCondition, spec: &JobSpec, now: Timestamp) -> (JobOutcome, Option<Duration>) {
    let at = end.last_transition_time.as_ref().map_or(now, |time| time.0);
    let outcome = match end.type_ == "Complete" {
        true => JobOutcome::Complete,
        false => JobOutcome::Failed("", ""),
    };
    match spec.ttl_seconds_after_finished.map(|ttl| rest(at, i64::from(ttl), now)) {
        None => (outcome, None),
        Some(None) => (JobOutcome::Expired, None),
        Some(left) => (outcome, left),
    }
}

/// What is left of the pause after the last failure; none when it is over. Failures before a success are forgotten.
fn backoff(pods: &[Arc<Pod>], now: Timestamp) -> Option<Duration> {
    let times = |is_it: &'static str| {
        pods.iter()
            .filter(move |pod| phase(pod) == is_it)
            .map(|pod| finished_at(pod))
    };
    let success = times("Succeeded").max();
    let failures = times("Failed").filter(|time| success.is_none_or(|success| *time > success));
    let last = failures.clone().max()?;
    let doublings = u32::try_from(failures.count() - 1).unwrap_or(u32::MAX);
    let pause = 2_u32
        .checked_pow(doublings)
        .and_then(|factor| BACKOFF_MIN.checked_mul(factor));
    let seconds = pause.map_or(BACKOFF_MAX, |pause| pause.min(BACKOFF_MAX)).as_secs();
    rest(last, i64::try_from(seconds).unwrap_or(i64::MAX), now)
}

/// When a pod ended: with the last of its containers, else when it was no longer ready, else when it was created (upstream's
/// `getFinishedTime`).
fn finished_at(pod: &Pod) -> Timestamp {
    let status = pod.status.as_ref();
    let containers = status.and_then(|status| status.container_statuses.as_ref());
    let ends = containers.into_iter().flatten().map(|container| {
        let terminated = container.state.as_ref()?.terminated.as_ref()?;
        terminated.finished_at.clone()
    });
    let last: Option<Vec<Time>> = ends.collect();
    let conditions = || status?.conditions.as_ref();
    let unready = || {
        let mut conditions = conditions().into_iter().flatten();
        let ready = conditions.find(|condition| condition.type_ == "Ready" && condition.status == "False");
        ready?.last_transition_time.clone()
    };
    last.and_then(|ends| ends.into_iter().max())
        .or_else(unready)
        .or_else(|| pod.metadata.creation_timestamp.clone())
        .map_or(Timestamp::UNIX_EPOCH, |time| time.0)
}

/// What is left of `seconds` since `from`; none when they are over.
fn rest(from: Timestamp, seconds: i64, now: Timestamp) -> Option<Duration> {
    let limit = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
    let elapsed = Duration::try_from(now.duration_since(from)).unwrap_or(Duration::ZERO);
    limit.checked_sub(elapsed).filter(|rest| !rest.is_zero())
}

fn task(job: &Job, spec: &JobSpec) -> Pod {
    let mut pod = from_template(&spec.template, job);
    let (name, uid) = (job.name_any(), job.uid().unwrap_or_default());
    add_labels(
        &mut pod.metadata.labels,
        [
            ("batch.kubernetes.io/job-name", name.clone()),
            ("batch.kubernetes.io/controller-uid", uid.clone()),
            ("job-name", name),
            ("controller-uid", uid),
        ],
    );
    pod
}

fn report(job: &Job, pods: &[Arc<Pod>], outcome: JobOutcome, now: Timestamp) -> Job {
    let before = job.status.clone().unwrap_or_default();
    if ended(job).is_some() {
        // Its pods may be cleaned up; what they did stays on record.
        return job.clone();
    }
    // Kubernetes keeps whole seconds.
    let time = Time(Timestamp::from_second(now.as_second()).unwrap_or(now));
    let some = |count: i32| (count > 0).then_some(count);
    let mut status = JobStatus {
        active: some(count(pods, is_active)),
        ready: Some(count(pods, |pod| is_active(pod) && is_ready(pod))),
        succeeded: some(count(pods, |pod| phase(pod) == "Succeeded")),
        failed: some(count(pods, |pod| phase(pod) == "Failed")),
        start_time: before.start_time.clone().or_else(|| Some(time.clone())),
        ..before
    };
    let end = match outcome {
        JobOutcome::Complete => Some((
            "Complete",
            "CompletionsReached",
            "Reached expected number of succeeded pods",
        )),
        JobOutcome::Failed(reason, message) => Some(("Failed", reason, message)),
        JobOutcome::Running | JobOutcome::Expired => None,
    };
    if let Some((type_, reason, message)) = end {
        status.completion_time = Some(time.clone()).filter(|_| type_ == "Complete");
        status.conditions.get_or_insert_default().push(JobCondition {
            type_: type_.to_owned(),
            status: "True".to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
            last_probe_time: Some(time.clone()),
            last_transition_time: Some(time),
        });
    }
    Job {
        status: Some(status),
        ..job.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn job(spec: Value) -> Job {
        let mut all = json!({"template": {"spec": {"containers": []}}});
        all.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        serde_json::from_value(json!({"metadata": {"name": "j", "namespace": "n", "uid": "u"}, "spec": all})).unwrap()
    }

    fn pods(phases: &[&str]) -> Vec<Arc<Pod>> {
        let pod = |phase: &&str| Arc::new(serde_json::from_value(json!({"status": {"phase": phase}})).unwrap());
        phases.iter().map(pod).collect()
    }

    #[test]
    fn jobs_run_to_their_completions_and_fail_beyond_their_backoff_limit() {
        // Long after the failures.
        let now = Timestamp::UNIX_EPOCH + BACKOFF_MAX;
        let check = |spec: Value, phases: &[&str]| {
            let job = job(spec);
            let plan = plan(&job, job.spec.as_ref().unwrap(), &pods(phases), now);
            (plan.create.len(), plan.delete.len(), plan.outcome)
        };
        let running = JobOutcome::Running;
        assert_eq!(check(json!({"completions": 3, "parallelism": 2}), &[]), (2, 0, running));
        assert_eq!(
            check(
                json!({"completions": 3, "parallelism": 2}),
                &["Succeeded", "Succeeded", "Running"]
            ),
            (0, 0, running)
        );
        assert_eq!(
            check(
                json!({"completions": 2, "parallelism": 2}),
                &["Succeeded", "Succeeded", "Running"]
            ),
            (0, 1, JobOutcome::Complete)
        );
        assert_eq!(
            check(json!({"parallelism": 1}), &["Succeeded"]),
            (0, 0, JobOutcome::Complete)
        );
        assert_eq!(
            check(json!({"completions": 1, "backoffLimit": 1}), &["Failed"]),
            (1, 0, running)
        );
        let (create, delete, outcome) = check(
            json!({"completions": 1, "backoffLimit": 1}),
            &["Failed", "Failed", "Running"],
        );
        assert_eq!(
            (
                create,
                delete,
                matches!(outcome, JobOutcome::Failed("BackoffLimitExceeded", _))
            ),
            (0, 1, true)
        );
        assert_eq!(
            check(json!({"completions": 2, "parallelism": 0}), &["Running"]),
            (0, 1, running)
        );
    }

    #[test]
    fn failed_pods_are_replaced_after_a_pause_that_doubles_until_a_success() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let ended = |phase: &str, second: i64| {
            let end =
                json!({"name": "c", "state": {"terminated": {"exitCode": 1, "finishedAt": at(second).to_string()}}});
            let status = json!({"phase": phase, "containerStatuses": [end]});
            Arc::new(serde_json::from_value::<Pod>(json!({ "status": status })).unwrap())
        };
        let failed = |seconds: &[i64]| {
            seconds
                .iter()
                .map(|second| ended("Failed", *second))
                .collect::<Vec<_>>()
        };
        let evicted = json!({"phase": "Failed", "conditions": [
            {"type": "Ready", "status": "False", "lastTransitionTime": at(100).to_string()}]});
        let evicted = Arc::new(serde_json::from_value(json!({ "status": evicted })).unwrap());
        for (pods, now, pause) in [
            (failed(&[100]), 100, Some(10)),
            (failed(&[100]), 109, Some(1)),
            (failed(&[100]), 110, None),
            (failed(&[100, 50]), 100, Some(20)),
            (failed(&[100, 50, 70]), 105, Some(35)),
            (failed(&[100; 7]), 100, Some(600)),
            (failed(&[100; 100]), 100, Some(600)),
            (vec![evicted], 100, Some(10)),
            (
                [failed(&[50, 100]), vec![ended("Succeeded", 60)]].concat(),
                100,
                Some(10),
            ),
            ([failed(&[50, 100]), vec![ended("Succeeded", 100)]].concat(), 100, None),
        ] {
            let job = job(json!({"completions": 3, "backoffLimit": 200}));
            let plan = plan(&job, job.spec.as_ref().unwrap(), &pods, at(now));
            let created = usize::from(pause.is_none());
            assert_eq!(
                (plan.create.len(), plan.next),
                (created, pause.map(Duration::from_secs)),
                "{pods:?} {now}"
            );
        }
        let job = job(json!({"activeDeadlineSeconds": 5}));
        let plan = plan(&job, job.spec.as_ref().unwrap(), &failed(&[100]), at(100));
        assert_eq!(plan.next, Some(Duration::from_secs(5)), "the deadline is earlier");
    }

    #[test]
    fn ended_jobs_keep_their_record_and_expire() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let job = job(json!({"completions": 1, "ttlSecondsAfterFinished": 10}));
        let done = report(&job, &pods(&["Succeeded"]), JobOutcome::Complete, at(100));
        assert_eq!(done.status.as_ref().unwrap().succeeded, Some(1));
        assert_eq!(report(&done, &[], JobOutcome::Complete, at(105)), done);
        let spec = done.spec.as_ref().unwrap();
        assert_eq!(plan(&done, spec, &[], at(105)).next, Some(Duration::from_secs(5)));
        assert_eq!(plan(&done, spec, &[], at(110)).outcome, JobOutcome::Expired);
    }
}
