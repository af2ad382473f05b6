//! The wait until the machines of a Worker have joined. It ends early for machines that no retry can make.

use std::collections::BTreeMap;
use std::time::Duration;

use api_machine::{Machine, MachineDeployment};
use api_meta::{ErrorCode, Fault, without_hint};
use base_client::{WaitState, Waited};
use base_controller::Cache;
use extensions_sdk::Context;
use tokio::time::Instant;

use super::fleet::Fleet;
use super::readiness::{Failure, Missing, Wanted, failures, has_recovered, missing};
use super::waiting::{Deployed, Waiting, again};

/// How long machines may take to join before the Worker reports an error and tries on (upstream's value).
const JOIN_TIMEOUT: Duration = Duration::from_secs(5 * 60);
/// How long a machine may fail for want of something before the wait ends: what it lacks may just come.
const FAILED_AFTER: Duration = Duration::from_secs(10);

/// What is waited for, and where to look if it does not come.
pub(super) struct Joining<'a> {
    fleet: &'a Fleet,
    namespace: &'a str,
    wanted: Vec<Wanted<'a>>,
    deployed: &'a Deployed,
    where_to_look: &'a str,
}

impl<'a> Joining<'a> {
    /// For what is `deployed`.
    pub(super) fn new(fleet: &'a Fleet, namespace: &'a str, deployed: &'a Deployed, where_to_look: &'a str) -> Self {
        let pairs = deployed.planned.iter().zip(&deployed.generations);
        let wanted = pairs.map(|(plan, generation)| Wanted {
            name: plan.name(),
            class: plan.class_name(),
            generation: *generation,
        });
        Self {
            fleet,
            namespace,
            wanted: wanted.collect(),
            deployed,
            where_to_look,
        }
    }

    /// Fine once all machines have joined.
    ///
    /// # Errors
    /// They have not, and the operation is to be called again; a machine cannot be made, with the code of the reason; machines
    /// had their time; the operation became pointless.
    pub(super) async fn wait(&self, context: &Context, waiting: &Waiting) -> Result<(), Fault> {
        let joined = self.joined(waiting.moment(context));
        let Some(missing) = context.unless_obsolete(joined).await? else {
            return Ok(());
        };
        let mut waiting = waiting.clone();
        let failing = self.failing(&mut waiting.failing_since);
        if let Some((time, failure)) = failing.iter().max_by_key(|(time, _)| *time)
            && *time >= FAILED_AFTER
        {
            return Err(self.cannot_be_made(context, &failure.missing, failure.code.clone()));
        }
        let left = JOIN_TIMEOUT.saturating_sub(waiting.since.elapsed());
        if left.is_zero() {
            return Err(self.not_joined(&missing));
        }
        let until_failed = failing.iter().map(|(time, _)| FAILED_AFTER.saturating_sub(*time)).min();
        let left = until_failed.map_or(left, |time| left.min(time));
        Err(again(context, left, &missing.reason, &waiting))
    }

    /// The first reason why machines are missing.
    fn missing(&self) -> Option<Missing> {
        let deployments = self.fleet.deployments.list_in(self.namespace);
        let machines = self.fleet.machines.list_in(self.namespace);
        let deployments: Vec<&MachineDeployment> = deployments.iter().map(|deployment| &**deployment).collect();
        let machines: Vec<&Machine> = machines.iter().map(|machine| &**machine).collect();
        missing(&self.wanted, &deployments, &machines)
    }

    /// The machines that fail now, and for how long; `since` has those that have failed and not recovered.
    fn failing(&self, since: &mut BTreeMap<String, Instant>) -> Vec<(Duration, Failure)> {
        let machines = self.fleet.machines.list_in(self.namespace);
        let machines: Vec<&Machine> = machines.iter().map(|machine| &**machine).collect();
        timed(since, &machines, failures(&self.wanted, &machines, self.deployed.at))
    }

    /// What is missing after `moment`, if anything.
    async fn joined(&self, moment: Duration) -> Result<Option<Missing>, Fault> {
        let check = |_: &Cache<MachineDeployment>| match self.missing() {
            None => WaitState::Done(()),
            Some(Missing { reason, .. }) => WaitState::NotYet(reason),
        };
        let deployments = &self.fleet.deployments;
        match deployments
            .wait_in(self.namespace, "machines to join", moment, check)
            .await
        {
            Ok(()) => Ok(None),
            Err(Waited::Failed(fault)) => Err(fault),
            // The deployment's own change is the last of a chain; the machines' reason may be newer than it.
            Err(waited @ Waited::TimedOut { .. }) => Ok(Some(
                self.missing().unwrap_or_else(|| Missing::because(waited.to_string())),
            )),
        }
    }

    /// The fault of machines that had their time; a machine's own hint is the better one.
    fn not_joined(&self, missing: &Missing) -> Fault {
        let minutes = JOIN_TIMEOUT.as_secs() / 60;
        let (reason, hint) = self.reason_and_hint(missing);
        Fault::dependency(format!("machines have not joined within {minutes} minutes: {reason}")).hint(hint)
    }

    /// The fault of a machine that cannot be made: with the codes that the provider's table finds in its text, else with `code`.
    fn cannot_be_made(&self, context: &Context, missing: &Missing, code: ErrorCode) -> Fault {
        let (reason, hint) = self.reason_and_hint(missing);
        let mut fault = context.classify(Fault::dependency(format!("machines cannot be made: {reason}")).hint(hint));
        if fault.codes.is_empty() {
            fault.class = code.class();
            fault = fault.code(code);
        }
        fault
    }

    fn reason_and_hint<'m>(&self, missing: &'m Missing) -> (&'m str, String) {
        match without_hint(&missing.reason, &missing.to_do) {
            Some(reason) => (reason, missing.to_do.clone()),
            None => (missing.reason.as_str(), format!("look at {}", self.where_to_look)),
        }
    }
}

/// The failures and for how long they last; `since` has each machine from its first failure until it has recovered.
fn timed(
    since: &mut BTreeMap<String, Instant>,
    machines: &[&Machine],
    failures: Vec<Failure>,
) -> Vec<(Duration, Failure)> {
    since.retain(|machine, _| !has_recovered(machines, machine));
    let timed = failures.into_iter().map(|failure| {
        let since = since.entry(failure.machine.clone()).or_insert_with(Instant::now);
        (since.elapsed(), failure)
    });
    timed.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A machine of this state, and its failure if it fails.
    fn machine(name: &str, provider_id: Option<&str>, state: &str) -> (Machine, Option<Failure>) {
        let machine = serde_json::from_value(json!({
            "metadata": {"name": name}, "spec": {"providerID": provider_id},
            "status": {"lastOperation": {"state": state}},
        }));
        let failure = (state == "Failed").then(|| Failure {
            machine: name.to_owned(),
            missing: Missing::because("quota".to_owned()),
            code: ErrorCode::InfraQuotaExceeded,
        });
        (machine.unwrap(), failure)
    }

    #[tokio::test(start_paused = true)]
    async fn time_of_a_failure_continues_over_attempts_until_the_machine_is_created() {
        let mut since = BTreeMap::new();
        let mut look = |seen: &[(Machine, Option<Failure>)]| -> Vec<(String, u64)> {
            let machines: Vec<&Machine> = seen.iter().map(|(machine, _)| machine).collect();
            let failures = seen.iter().filter_map(|(_, failure)| failure.clone()).collect();
            let timed = timed(&mut since, &machines, failures);
            let seconds = timed
                .into_iter()
                .map(|(time, failure)| (failure.machine, time.as_secs()));
            seconds.collect()
        };
        let expected = |all: &[(&str, u64)]| -> Vec<(String, u64)> {
            all.iter().map(|(name, time)| ((*name).to_owned(), *time)).collect()
        };
        let advance = |seconds| tokio::time::advance(Duration::from_secs(seconds));
        let failing = || machine("a", None, "Failed");
        assert_eq!(look(&[failing()]), expected(&[("a", 0)]));
        advance(4).await;
        assert_eq!(look(&[machine("a", None, "Processing")]), [], "it is tried again");
        advance(3).await;
        assert_eq!(
            look(&[failing(), machine("b", None, "Failed")]),
            expected(&[("a", 7), ("b", 0)])
        );
        advance(2).await;
        assert_eq!(
            look(&[machine("a", Some("id"), "Processing"), machine("b", None, "Failed")]),
            expected(&[("b", 2)])
        );
        advance(60).await;
        assert_eq!(look(&[failing()]), expected(&[("a", 0)]), "it had been made meanwhile");
    }
}
