//! Follows one Shoot's operation as plain lines: what runs, how far it is, how it ended. It only watches.

use std::time::Duration;

use api_core::v1beta1::Shoot;
use api_meta::{Fault, LastOperationState};
use base_client::{WaitState, wait_until};
use base_clock::Clock;
use kube::Api;

/// How an operation ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// `Succeeded` at 100 %.
    Succeeded,
    /// Given up until the Shoot changes; the errors, a line each.
    Failed(Vec<String>),
}

/// Watches the Shoot `name` until its operation has ended, and gives each new line to `print`.
///
/// # Errors
/// The garden no longer answers, or `timeout` is up.
pub async fn follow(
    shoots: &Api<Shoot>,
    name: &str,
    timeout: Duration,
    clock: &Clock,
    mut print: impl FnMut(&str),
) -> Result<Ended, Fault> {
    let started = clock.now();
    let mut last_line = String::new();
    let ended = wait_until(shoots, name, timeout, |shoot| {
        let line = shoot.map_or_else(|| "waiting for the Shoot to appear".to_owned(), describe);
        if line != last_line {
            let seconds = clock.now().duration_since(started).as_secs_f64();
            print(&format!("{seconds:7.2} s  {line}"));
            last_line = line;
        }
        match shoot.and_then(ended) {
            Some(ended) => WaitState::Done(ended),
            None => WaitState::NotYet(last_line.clone()),
        }
    })
    .await?;
    Ok(ended)
}

fn describe(shoot: &Shoot) -> String {
    let Some(status) = &shoot.status else {
        return "waiting for a seed".to_owned();
    };
    let Some(operation) = &status.last_operation else {
        return "waiting for its gardenlet".to_owned();
    };
    let mut line = format!(
        "{:3} %  {} {}: {}",
        operation.progress, operation.type_, operation.state, operation.description
    );
    for error in &status.last_errors {
        line += &format!("\n             {}", error.description);
    }
    line
}

/// How the Shoot's operation has ended, if it has.
pub(crate) fn ended(shoot: &Shoot) -> Option<Ended> {
    let status = shoot.status.as_ref()?;
    let operation = status.last_operation.as_ref()?;
    if status.observed_generation != shoot.metadata.generation {
        return None;
    }
    match operation.state {
        LastOperationState::Succeeded => Some(Ended::Succeeded),
        LastOperationState::Failed => Some(Ended::Failed(
            status
                .last_errors
                .iter()
                .map(|error| error.description.clone())
                .collect(),
        )),
        _ => None,
    }
}
