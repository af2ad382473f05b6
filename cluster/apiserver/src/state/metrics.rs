//! `/metrics`: counts and times of requests and what is open now, in Prometheus' text format under kube-apiserver's names. It
//! measures nothing by itself.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::StatusCode;

use crate::wire::metrics_text::{BOUNDS_MS, describe, family, histogram};
use crate::wire::path::{RequestInfo, Target};

/// Counts by verb and code, times by verb; all of them from small closed sets. Long-running requests by their labels.
#[derive(Default)]
pub(crate) struct Metrics {
    counts: Mutex<Counts>,
    long_running: Arc<Mutex<BTreeMap<String, u64>>>,
}

/// A request that lasts as long as its client wants; counted until this is dropped.
pub(crate) struct LongRunning {
    all: Arc<Mutex<BTreeMap<String, u64>>>,
    labels: String,
}

impl Drop for LongRunning {
    fn drop(&mut self) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = all.get_mut(&self.labels) {
            *count -= 1;
            if *count == 0 {
                all.remove(&self.labels);
            }
        }
    }
}

#[derive(Default)]
struct Counts {
    requests: BTreeMap<(&'static str, u16), u64>,
    times: BTreeMap<&'static str, Times>,
}

#[derive(Default)]
struct Times {
    /// How many took as long as that bound or less, but longer than the one before.
    within: [u64; BOUNDS_MS.len()],
    count: u64,
    sum: Duration,
}

/// What is open now, and what became of audit events.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Now {
    pub(crate) reading: usize,
    pub(crate) changing: usize,
    /// Events that were reported and that were lost, if any are reported at all.
    pub(crate) audit: Option<(u64, u64)>,
}

impl Metrics {
    /// Counts a request that took so long; a watch only until its answer began.
    pub(crate) fn count(&self, verb: &'static str, code: StatusCode, took: Duration) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.requests.entry((verb, code.as_u16())).or_default() += 1;
        if verb == "watch" {
            return;
        }
        let times = counts.times.entry(verb).or_default();
        times.count += 1;
        times.sum += took;
        let bound = BOUNDS_MS.iter().position(|bound| took <= Duration::from_millis(*bound));
        if let Some(count) = bound.and_then(|bound| times.within.get_mut(bound)) {
            *count += 1;
        }
    }

    /// Counts a long-running request, if this is one.
    pub(crate) fn begin_long_running(&self, info: &RequestInfo) -> Option<LongRunning> {
        let target = info.target.as_ref().filter(|_| info.is_long_running())?;
        let labels = long_running_labels(info, target);
        let mut all = self.long_running.lock().unwrap_or_else(PoisonError::into_inner);
        *all.entry(labels.clone()).or_default() += 1;
        Some(LongRunning {
            all: self.long_running.clone(),
            labels,
        })
    }

    pub(crate) fn show(&self, now: Now) -> String {
        let mut text = String::new();
        self.show_requests(&mut text);
        let inflight = [("mutating", now.changing), ("readOnly", now.reading)];
        let inflight = inflight.map(|(kind, count)| (format!("request_kind=\"{kind}\""), count as u64));
        family(
            &mut text,
            ("apiserver_current_inflight_requests", "gauge"),
            "Requests in flight that hold a seat, by kind.",
            inflight,
        );
        let long_running = self.long_running.lock().unwrap_or_else(PoisonError::into_inner).clone();
        family(
            &mut text,
            ("apiserver_longrunning_requests", "gauge"),
            "Gauge of all active long-running apiserver requests.",
            long_running,
        );
        if let Some((reported, lost)) = now.audit {
            family(
                &mut text,
                ("apiserver_audit_event_total", "counter"),
                "Audit events that were sent to the log.",
                [(String::new(), reported)],
            );
            family(
                &mut text,
                ("apiserver_audit_error_total", "counter"),
                "Audit events that the log could not take.",
                [("plugin=\"log\"".to_owned(), lost)],
            );
        }
        text
    }

    fn show_requests(&self, text: &mut String) {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let requests = counts.requests.iter().map(|((verb, code), count)| {
            let verb = verb.to_ascii_uppercase();
            (format!("code=\"{code}\",verb=\"{verb}\""), *count)
        });
        family(
            text,
            ("apiserver_request_total", "counter"),
            "Counter of apiserver requests broken out for each verb and HTTP response code.",
            requests,
        );
        let name = "apiserver_request_duration_seconds";
        describe(
            text,
            (name, "histogram"),
            "Response latency distribution in seconds for each verb.",
        );
        for (verb, times) in &counts.times {
            let verb = verb.to_ascii_uppercase();
            let labels = format!("verb=\"{verb}\"");
            histogram(text, name, &labels, times.within, (times.count, times.sum));
        }
    }
}

/// (kubernetes/kubernetes v1.35 staging/src/k8s.io/apiserver/pkg/endpoints/metrics/metrics.go, RecordLongRunning)
fn long_running_labels(info: &RequestInfo, target: &Target) -> String {
    let scope = match (&target.name, &target.namespace) {
        (Some(_), _) => "resource",
        (None, Some(_)) => "namespace",
        (None, None) => "cluster",
    };
    let subresource = target.subresource.as_deref().unwrap_or_default();
    let verb = match (info.verb, subresource) {
        ("watch", _) => "WATCH",
        (_, "log") => "GET",
        _ => "CONNECT",
    };
    let Target {
        group,
        version,
        resource,
        ..
    } = target;
    let mut labels = String::from("component=\"apiserver\"");
    for (label, value) in [
        ("group", group.as_str()),
        ("resource", resource),
        ("scope", scope),
        ("subresource", subresource),
        ("verb", verb),
        ("version", version),
    ] {
        let _ = write!(labels, ",{label}=\"{}\"", value.replace(['\\', '"', '\n'], "_"));
    }
    labels
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_reported_by_their_bounds_and_add_up() {
        let metrics = Metrics::default();
        for millis in [5, 6, 70_000] {
            metrics.count("get", StatusCode::OK, Duration::from_millis(millis));
        }
        metrics.count("watch", StatusCode::OK, Duration::from_secs(1));
        let info = RequestInfo {
            verb: "watch",
            target: Some(Target {
                version: "v1".to_owned(),
                resource: "pods".to_owned(),
                ..Target::default()
            }),
            ..RequestInfo::default()
        };
        let ended = metrics.begin_long_running(&info);
        let _watches = metrics.begin_long_running(&info);
        drop(ended);
        let text = metrics.show(Now {
            reading: 2,
            audit: Some((3, 1)),
            ..Now::default()
        });
        for line in [
            "apiserver_request_total{code=\"200\",verb=\"GET\"} 3",
            "apiserver_request_total{code=\"200\",verb=\"WATCH\"} 1",
            "apiserver_request_duration_seconds_bucket{verb=\"GET\",le=\"0.005\"} 1",
            "apiserver_request_duration_seconds_bucket{verb=\"GET\",le=\"0.025\"} 2",
            "apiserver_request_duration_seconds_bucket{verb=\"GET\",le=\"60\"} 2",
            "apiserver_request_duration_seconds_bucket{verb=\"GET\",le=\"+Inf\"} 3",
            "apiserver_request_duration_seconds_sum{verb=\"GET\"} 70.011",
            "apiserver_current_inflight_requests{request_kind=\"readOnly\"} 2",
            "apiserver_longrunning_requests{component=\"apiserver\",group=\"\",resource=\"pods\",scope=\"cluster\",\
             subresource=\"\",verb=\"WATCH\",version=\"v1\"} 1",
            "apiserver_audit_event_total 3",
            "apiserver_audit_error_total{plugin=\"log\"} 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
    }
}
