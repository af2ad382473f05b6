//! The Lease by which gardenlet knows that the extension is alive.

use std::time::Duration;

use api_meta::names::HEARTBEAT_LEASE;
use base_client::{WaitState, Waited, wait_until};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;

use crate::rule::Rule;
use crate::stage::{Stage, Stop};

/// Waits for a renewal later than the run's begin, as long as one may be old.
///
/// # Errors
/// An API server that refuses to show Leases.
pub(crate) async fn run(stage: &mut Stage) -> Result<(), Stop> {
    let Some(namespace) = stage.options.namespace.clone() else {
        let reason = "the extension's namespace was not given (--heartbeat)";
        stage.ledger.skipped(Rule::HeartbeatRenewed, reason);
        return Ok(());
    };
    stage.step("look at the heartbeat");
    let title = format!("Lease {namespace}/{HEARTBEAT_LEASE}");
    let (began, clock) = (stage.began, stage.options.clock.clone());
    let left = stage.options.heartbeat_age_max.saturating_sub(clock.since(began));
    let api: Api<Lease> = Api::namespaced(stage.client.clone(), &namespace);
    let mut seen: Option<Option<Timestamp>> = None;
    // A moment at least: it may just be there.
    let waited = wait_until(&api, HEARTBEAT_LEASE, left.max(Duration::from_secs(1)), |lease| {
        seen = lease.map(renewed);
        match seen.flatten() {
            Some(at) if at >= began => WaitState::Done(()),
            _ => WaitState::NotYet("it was not renewed".to_owned()),
        }
    })
    .await;
    let outcome = match waited {
        Ok(()) => Ok(()),
        Err(Waited::Failed(fault)) => return Err(fault.into()),
        Err(Waited::TimedOut { .. }) => Err(match seen {
            None => "it does not exist".to_owned(),
            Some(None) => "it has no renewTime".to_owned(),
            Some(Some(at)) => format!("it was renewed last at {at}, {} s ago", clock.since(at).as_secs()),
        }),
    };
    stage.checked(Rule::HeartbeatRenewed, &title, outcome);
    Ok(())
}

fn renewed(lease: &Lease) -> Option<Timestamp> {
    let renewed = lease.spec.as_ref()?.renew_time.as_ref()?;
    Some(renewed.0)
}
