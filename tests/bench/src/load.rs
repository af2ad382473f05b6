//! Sends many requests over many connections as fast as the server takes them. It reads answers whole and looks at nothing
//! but the status, so that as little as possible of the machine is taken from the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tests_conformance::{Call, Endpoint};

use crate::process::{megabytes, processor_seconds};

/// Where requests are sent, and whose work is counted.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) endpoint: Endpoint,
    /// The server's.
    pub(crate) processes: Vec<u32>,
}

impl Target {
    /// Seconds that processors have worked for all of its processes since they began.
    pub(crate) fn processor_seconds(&self) -> f64 {
        self.processes.iter().map(|number| processor_seconds(*number)).sum()
    }

    /// What all of its processes hold in memory now, in megabytes.
    pub(crate) fn megabytes(&self) -> f64 {
        self.figure("VmRSS")
    }

    /// The sum of the most that each of its processes has held in memory, in megabytes.
    pub(crate) fn peak_megabytes(&self) -> f64 {
        self.figure("VmHWM")
    }

    /// A value that cannot be read makes the result no number, so that it is not taken for a figure.
    fn figure(&self, name: &str) -> f64 {
        let each = self.processes.iter().map(|number| megabytes(*number, name));
        each.map(|size| size.unwrap_or(f64::NAN)).sum()
    }
}

/// What a number of requests took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    pub(crate) requests: usize,
    pub(crate) time: Duration,
    /// Processor time of the server's processes.
    pub(crate) processor_seconds: f64,
}

impl Taken {
    /// Requests that were answered in a second.
    pub(crate) fn per_second(&self) -> f64 {
        self.requests as f64 / self.time.as_secs_f64()
    }

    /// What one request cost the server's processors.
    pub(crate) fn milliseconds_each(&self) -> f64 {
        self.processor_seconds * 1e3 / self.requests as f64
    }
}

/// Sends the calls, `at_once` at a time; each must succeed.
pub(crate) async fn send_all(target: &Target, calls: Vec<Call>, at_once: usize) -> Result<Taken, String> {
    let calls: Arc<[Call]> = calls.into();
    let mut connections = Vec::new();
    for _ in 0..at_once {
        connections.push(target.endpoint.connect().await?);
    }
    let next = Arc::new(AtomicUsize::new(0));
    let (before, begun) = (target.processor_seconds(), Instant::now());
    let mut tasks = tokio::task::JoinSet::new();
    for mut connection in connections {
        let (calls, next) = (calls.clone(), next.clone());
        tasks.spawn(async move {
            while let Some(call) = calls.get(next.fetch_add(1, Ordering::Relaxed)) {
                let answer = connection.send(call).await?;
                if !answer.status.is_success() {
                    let body = String::from_utf8_lossy(&answer.body);
                    return Err(format!("{} {}: {} {body}", call.method, call.path, answer.status));
                }
            }
            Ok(())
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.map_err(|error| error.to_string())??;
    }
    Ok(Taken {
        requests: calls.len(),
        time: begun.elapsed(),
        processor_seconds: target.processor_seconds() - before,
    })
}
