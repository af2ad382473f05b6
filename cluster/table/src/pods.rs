//! Pods (printPod of printers.go): the one printer with logic worth the name.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::Builtin;
use crate::cell::{NONE, age, condition_is, deleting, flag, has, list, name, number, since, text, text_or, time};

pub(crate) fn printer(resource: &str) -> Option<Builtin> {
    (resource == "pods").then_some(Builtin {
        columns: &[
            ("Name", "string", 0),
            ("Ready", "string", 0),
            ("Status", "string", 0),
            ("Restarts", "string", 0),
            ("Age", "string", 0),
            ("IP", "string", 1),
            ("Node", "string", 1),
            ("Nominated Node", "string", 1),
            ("Readiness Gates", "string", 1),
        ],
        cells,
    })
}

/// `Completed` for pods that ended, so that clients may grey them out.
pub(crate) fn row_conditions(object: &Value) -> Vec<Value> {
    let ended = |reason: &str, message: &str| {
        vec![json!({"type": "Completed", "status": "True", "reason": reason, "message": message})]
    };
    if text(object, "/kind") != "Pod" {
        return Vec::new();
    }
    match text(object, "/status/phase") {
        "Succeeded" => ended("Succeeded", "The pod has completed successfully."),
        "Failed" => ended("Failed", "The pod failed."),
        _ => Vec::new(),
    }
}

fn cells(pod: &Value, now: Timestamp) -> Vec<Value> {
    let mut tally = Tally {
        reason: first_reason(pod).to_owned(),
        ..Tally::default()
    };
    let sidecars: BTreeSet<&str> = list(pod, "/spec/initContainers")
        .iter()
        .filter(|container| text(container, "/restartPolicy") == "Always")
        .map(|container| text(container, "/name"))
        .collect();
    let total = list(pod, "/spec/containers").len() + sidecars.len();
    let initialising = tally.init_containers(pod, &sidecars);
    if !initialising || condition_is(pod, "Initialized", "True") {
        tally.containers(pod);
    }
    if deleting(pod) && text(pod, "/status/reason") == "NodeLost" {
        "Unknown".clone_into(&mut tally.reason);
    } else if deleting(pod) && !matches!(text(pod, "/status/phase"), "Succeeded" | "Failed") {
        "Terminating".clone_into(&mut tally.reason);
    }
    let restarts = match tally.last_restart {
        Some(at) if tally.restarts != 0 => format!("{} ({} ago)", tally.restarts, since(Some(at), now)),
        _ => tally.restarts.to_string(),
    };
    let ip = list(pod, "/status/podIPs").first().map_or("", |ip| text(ip, "/ip"));
    vec![
        name(pod),
        json!(format!("{}/{total}", tally.ready)),
        json!(tally.reason),
        json!(restarts),
        age(pod, now),
        json!(if ip.is_empty() {
            text_or(pod, "/status/podIP", NONE)
        } else {
            ip
        }),
        json!(text_or(pod, "/spec/nodeName", NONE)),
        json!(text_or(pod, "/status/nominatedNodeName", NONE)),
        json!(readiness_gates(pod)),
    ]
}

fn first_reason(pod: &Value) -> &str {
    let gated = list(pod, "/status/conditions")
        .iter()
        .any(|condition| text(condition, "/type") == "PodScheduled" && text(condition, "/reason") == "SchedulingGated");
    if gated {
        "SchedulingGated"
    } else {
        text_or(pod, "/status/reason", text(pod, "/status/phase"))
    }
}

fn readiness_gates(pod: &Value) -> String {
    let gates = list(pod, "/spec/readinessGates");
    let open = gates
        .iter()
        .filter(|gate| condition_is(pod, text(gate, "/conditionType"), "True"))
        .count();
    if gates.is_empty() {
        NONE.to_owned()
    } else {
        format!("{open}/{}", gates.len())
    }
}

#[derive(Default)]
struct Tally {
    reason: String,
    restarts: i64,
    last_restart: Option<Timestamp>,
    ready: usize,
    sidecar_restarts: i64,
    sidecar_last_restart: Option<Timestamp>,
}

impl Tally {
    /// Counts init containers up to the first that is not done; true when there is one.
    fn init_containers(&mut self, pod: &Value, sidecars: &BTreeSet<&str>) -> bool {
        let total = list(pod, "/spec/initContainers").len();
        for (index, status) in list(pod, "/status/initContainerStatuses").iter().enumerate() {
            let last = time(status, "/lastState/terminated/finishedAt");
            self.restarts += number(status, "/restartCount");
            self.last_restart = self.last_restart.max(last);
            let sidecar = sidecars.contains(text(status, "/name"));
            if sidecar {
                self.sidecar_restarts += number(status, "/restartCount");
                self.sidecar_last_restart = self.sidecar_last_restart.max(last);
            }
            let terminated = has(status, "/state/terminated");
            let waiting = text(status, "/state/waiting/reason");
            if terminated && number(status, "/state/terminated/exitCode") == 0 {
                continue;
            }
            if sidecar && flag(status, "/started") {
                self.ready += usize::from(flag(status, "/ready"));
                continue;
            }
            self.reason = if terminated {
                format!("Init:{}", ended(status))
            } else if !waiting.is_empty() && waiting != "PodInitializing" {
                format!("Init:{waiting}")
            } else {
                format!("Init:{index}/{total}")
            };
            return true;
        }
        false
    }

    fn containers(&mut self, pod: &Value) {
        self.restarts = self.sidecar_restarts;
        self.last_restart = self.sidecar_last_restart;
        let mut running = false;
        for status in list(pod, "/status/containerStatuses").iter().rev() {
            self.restarts += number(status, "/restartCount");
            self.last_restart = self.last_restart.max(time(status, "/lastState/terminated/finishedAt"));
            let waiting = text(status, "/state/waiting/reason");
            if !waiting.is_empty() {
                waiting.clone_into(&mut self.reason);
            } else if has(status, "/state/terminated") {
                self.reason = ended(status);
            } else if flag(status, "/ready") && has(status, "/state/running") {
                running = true;
                self.ready += 1;
            }
        }
        // One container is done while another runs on.
        if self.reason == "Completed" && running {
            self.reason = if condition_is(pod, "Ready", "True") {
                "Running"
            } else {
                "NotReady"
            }
            .to_owned();
        }
    }
}

fn ended(status: &Value) -> String {
    let reason = text(status, "/state/terminated/reason");
    match number(status, "/state/terminated/signal") {
        _ if !reason.is_empty() => reason.to_owned(),
        0 => format!("ExitCode:{}", number(status, "/state/terminated/exitCode")),
        signal => format!("Signal:{signal}"),
    }
}
