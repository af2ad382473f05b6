//! Logs are set up once per process, so this is a process of its own.
#![allow(clippy::unwrap_used, reason = "a test ends where its set-up fails")]

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use base_telemetry::{LogFormat, init_logs_to};

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn what_a_server_answered_is_never_logged() {
    let lines = Lines::default();
    let writer = lines.clone();
    init_logs_to(
        LogFormat::Text,
        "trace,kube_client::client=trace,kube_client::client::builder=debug",
        move || writer.clone(),
    )
    .unwrap();
    tracing::warn!(target: "kube_client::client", "{{\"kind\":\"Secret\",\"data\":\"aHVudGVyMg\"}}, invalid type");
    tracing::debug!(target: "kube_client::client::builder", "requesting");
    tracing::trace!("another");
    let logged = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    assert!(!logged.contains("aHVudGVyMg"), "{logged}");
    assert!(logged.contains("requesting") && logged.contains("another"), "{logged}");
}
