//! The wait until the machines of a Worker have joined. It ends early for machines that no retry can make.

use std::time::Duration;

use api_machine::{Machine, MachineDeployment};
use api_meta::{ErrorCode, Fault, without_hint};
use base_client::{Judgement, Waited};
use base_controller::Cache;
use extensions_sdk::Context;
use tokio::time::Instant;

use super::fleet::Fleet;
use super::readiness::{Missing, Wanted, failure, missing};
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
        let failure = self.failure();
        if failure.is_some() {
            waiting.failing_since.get_or_insert_with(Instant::now);
        }
        let failed_for = waiting.failing_since.map(|since| since.elapsed());
        if failed_for.is_some_and(|time| time >= FAILED_AFTER)
            && let Some((missing, code)) = failure
        {
            return Err(self.cannot_be_made(context, &missing, code));
        }
        let left = JOIN_TIMEOUT.saturating_sub(waiting.since.elapsed());
        if left.is_zero() {
            return Err(self.not_joined(&missing));
        }
        let until_failed = failed_for.map_or(Duration::ZERO, |time| FAILED_AFTER.saturating_sub(time));
        let left = match until_failed.is_zero() {
            true => left,
            false => left.min(until_failed),
        };
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

    fn failure(&self) -> Option<(Missing, ErrorCode)> {
        let machines = self.fleet.machines.list_in(self.namespace);
        let machines: Vec<&Machine> = machines.iter().map(|machine| &**machine).collect();
        failure(&self.wanted, &machines, self.deployed.at)
    }

    /// What is missing after `moment`, if anything.
    async fn joined(&self, moment: Duration) -> Result<Option<Missing>, Fault> {
        let check = |_: &Cache<MachineDeployment>| match self.missing() {
            None => Judgement::Done(()),
            Some(Missing { reason, .. }) => Judgement::NotYet(reason),
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
