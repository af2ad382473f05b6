//! `/metrics`: request counts and open watches in Prometheus' text form. It measures nothing by itself.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Mutex, PoisonError};

use http::StatusCode;

/// Request counts by verb and code; both come from small closed sets.
#[derive(Default)]
pub(crate) struct Metrics(Mutex<BTreeMap<(&'static str, u16), u64>>);

impl Metrics {
    pub(crate) fn count(&self, verb: &'static str, code: StatusCode) {
        *self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .entry((verb, code.as_u16()))
            .or_default() += 1;
    }

    pub(crate) fn show(&self, watches: usize) -> String {
        let mut text = String::from(
            "# HELP apiserver_request_total Counter of apiserver requests broken out for each verb and HTTP response code.\n\
             # TYPE apiserver_request_total counter\n",
        );
        for ((verb, code), count) in self.0.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let verb = verb.to_ascii_uppercase();
            let _ = writeln!(
                text,
                "apiserver_request_total{{code=\"{code}\",verb=\"{verb}\"}} {count}"
            );
        }
        text.push_str(
            "# HELP apiserver_longrunning_requests Gauge of all active long-running apiserver requests.\n\
             # TYPE apiserver_longrunning_requests gauge\n",
        );
        let _ = writeln!(text, "apiserver_longrunning_requests{{verb=\"WATCH\"}} {watches}");
        text
    }
}
