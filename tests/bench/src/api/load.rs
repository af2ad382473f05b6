//! Sends many requests over many connections as fast as the server takes them. It reads answers whole and looks at nothing
//! but the status, so that as little as possible of the machine is taken from the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tests_conformance::Call;

use super::subject::Subject;

/// What a number of requests took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    pub(crate) requests: usize,
    pub(crate) time: Duration,
    /// Of the server's processes.
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
pub(crate) async fn send_all(subject: &Subject, calls: Vec<Call>, at_once: usize) -> Result<Taken, String> {
    let calls: Arc<[Call]> = calls.into();
    let mut connections = Vec::new();
    for _ in 0..at_once {
        connections.push(subject.endpoint.connect().await?);
    }
    let next = Arc::new(AtomicUsize::new(0));
    let (before, begun) = (subject.processor_seconds(), Instant::now());
    let mut tasks = tokio::task::JoinSet::new();
    for mut connection in connections {
        let (calls, next) = (calls.clone(), next.clone());
        tasks.spawn(async move {
            while let Some(call) = calls.get(next.fetch_add(1, Ordering::Relaxed)) {
                let answer = connection.send(call).await?;
                if !answer.status.is_success() {
                    let said = String::from_utf8_lossy(&answer.body);
                    return Err(format!("{} {}: {} {said}", call.method, call.path, answer.status));
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
        processor_seconds: subject.processor_seconds() - before,
    })
}
