//! Pods of extensions and control planes: whether they run, and the last words of a program that crashes. Reads only.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::LogParams;
use kube::{Api, ResourceExt};

use crate::facts::PodFact;

/// Logs that are read of one namespace: one tells as much as all the pods of a Deployment that crash alike.
const LOGS_READ_MAX: usize = 3;
/// What is shown of a log's last line, or of a termination message: their end.
const WORDS_CHARS_MAX: usize = 300;

/// The pods of a namespace by name.
pub(super) async fn facts(api: &Api<Pod>, pods: &[Pod]) -> BTreeMap<String, PodFact> {
    let (mut facts, mut read) = (BTreeMap::new(), 0);
    for pod in pods {
        let name = pod.name_any();
        let mut last_line = None;
        if let Some(container) = silent(pod).filter(|_| read < LOGS_READ_MAX) {
            read += 1;
            let params = LogParams {
                container: Some(container.name.clone()),
                tail_lines: Some(1),
                ..LogParams::default()
            };
            // A log is more than is needed: without it the exit code is shown.
            last_line = api.logs(&name, &params).await.ok();
        }
        let fact = PodFact {
            trouble: trouble(pod, last_line.as_deref()),
            since: changed(pod),
            name: name.clone(),
        };
        facts.insert(name, fact);
    }
    facts
}

fn changed(pod: &Pod) -> Option<Timestamp> {
    let at = |time: Option<&Time>| time.map(|time| time.0);
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let changed = conditions.filter_map(|condition| at(condition.last_transition_time.as_ref()));
    changed.max().or(at(pod.metadata.creation_timestamp.as_ref()))
}

fn unready(pod: &Pod) -> impl Iterator<Item = &ContainerStatus> {
    let statuses = pod
        .status
        .iter()
        .flat_map(|status| status.container_statuses.iter().flatten());
    statuses.filter(|one| !one.ready)
}

/// The exit code and the message with which a container has ended last.
fn ended(container: &ContainerStatus) -> Option<(i32, &str)> {
    let states = [container.state.as_ref(), container.last_state.as_ref()];
    let ended = states
        .into_iter()
        .flatten()
        .find_map(|state| state.terminated.as_ref())?;
    Some((ended.exit_code, ended.message.as_deref().unwrap_or_default().trim()))
}

/// A container that has ended without a message.
fn silent(pod: &Pod) -> Option<&ContainerStatus> {
    unready(pod).find(|container| ended(container).is_some_and(|(_, message)| message.is_empty()))
}

/// Why a pod does not run: its containers' own words before its conditions.
fn trouble(pod: &Pod, last_line: Option<&str>) -> Option<(String, String)> {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let status = pod.status.as_ref()?;
    for container in unready(pod) {
        let state = container.state.as_ref();
        let waiting = state.and_then(|state| state.waiting.as_ref());
        if let Some((code, message)) = ended(container) {
            let last = container.last_state.as_ref();
            let terminated = [state, last]
                .into_iter()
                .flatten()
                .find_map(|state| state.terminated.as_ref());
            let why = terminated.and_then(|ended| ended.reason.as_ref());
            // OOMKilled says more than CrashLoopBackOff, Error says less.
            let why = why.filter(|why| *why != "Error" || waiting.is_none());
            let reason = why
                .cloned()
                .or_else(|| waiting.and_then(|waiting| waiting.reason.clone()));
            let words = match (message, last_line.map(str::trim).unwrap_or_default()) {
                ("", "") => format!("exit code {code}"),
                ("", line) => format!("exit code {code}, its log ends with: {}", end(line)),
                (message, _) => end(message),
            };
            return Some((reason.unwrap_or_default(), words));
        }
        if let Some(waiting) = waiting {
            return Some((text(&waiting.reason), text(&waiting.message)));
        }
    }
    if status.reason.is_some() {
        return Some((text(&status.reason), text(&status.message)));
    }
    let mut conditions = status.conditions.iter().flatten();
    let bad =
        conditions.find(|one| one.status == "False" && ["PodScheduled", "Ready"].contains(&one.type_.as_str()))?;
    let reason = bad.reason.clone().unwrap_or_else(|| format!("{}=False", bad.type_));
    Some((reason, text(&bad.message)))
}

fn end(text: &str) -> String {
    let left_out = text.chars().count().saturating_sub(WORDS_CHARS_MAX);
    let shown: String = text.chars().skip(left_out).collect();
    if left_out == 0 { shown } else { format!("...{shown}") }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn crashing(terminated: Value) -> Pod {
        let status = json!({"containerStatuses": [{"name": "c", "image": "i", "imageID": "", "ready": false, "restartCount": 2,
            "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}},
            "lastState": {"terminated": terminated}}]});
        serde_json::from_value(json!({"metadata": {"name": "p"}, "status": status})).unwrap()
    }

    #[test]
    fn a_crash_is_reported_by_its_message_or_its_last_log_line() {
        let text = |terminated, line| {
            let (reason, words) = trouble(&crashing(terminated), line).unwrap();
            format!("{reason}: {words}")
        };
        let silent = || json!({"exitCode": 2, "reason": "Error"});
        let terminated = json!({"exitCode": 2, "reason": "Error", "message": "no config\n"});
        assert_eq!(text(terminated, Some("x")), "CrashLoopBackOff: no config");
        assert_eq!(
            text(silent(), Some("panic: no config\n")),
            "CrashLoopBackOff: exit code 2, its log ends with: panic: no config"
        );
        assert_eq!(text(silent(), None), "CrashLoopBackOff: exit code 2");
        let killed = json!({"exitCode": 137, "reason": "OOMKilled"});
        assert_eq!(text(killed, None), "OOMKilled: exit code 137");
        let long = json!({"exitCode": 1, "reason": "Error", "message": format!("{}end", "x".repeat(999))});
        assert!(text(long, None).starts_with("CrashLoopBackOff: ...xx"));
    }
}
