//! The wait until the machines of a Worker have joined, with what the status shows meanwhile. It ends early for machines that no
//! retry can make.

use std::convert::Infallible;
use std::time::Duration;

use api_extensions::Worker;
use api_machine::{Machine, MachineDeployment};
use api_meta::{ErrorCode, Fault, FaultClass, without_hint};
use base_client::Judgement;
use base_controller::Cache;
use extensions_sdk::Context;

use super::fleet::Fleet;
use super::plan::Planned;
use super::readiness::{Missing, Wanted, failure, missing};

/// How long machines may take to join before the Worker reports an error and tries on (upstream's value).
const JOIN_TIMEOUT: Duration = Duration::from_secs(5 * 60);
/// How long a reason stands before the status shows it: most waits are over sooner and need no write.
const SAY_AFTER: Duration = Duration::from_secs(2);
/// How long a machine may fail for want of something before the wait ends: an error of an earlier operation still stands until
/// the machine is tried again, for which a new class is a reason.
const FAILED_AFTER: Duration = Duration::from_secs(10);

/// What is waited for, and where to look if it does not come.
pub(super) struct Joining<'a> {
    fleet: &'a Fleet,
    namespace: &'a str,
    wanted: Vec<Wanted<'a>>,
    where_to_look: &'a str,
}

impl<'a> Joining<'a> {
    /// For the deployments of `planned`, written as of `generations`.
    pub(super) fn new(
        fleet: &'a Fleet,
        namespace: &'a str,
        planned: &'a [Planned],
        generations: &[i64],
        where_to_look: &'a str,
    ) -> Self {
        let wanted = planned.iter().zip(generations).map(|(plan, generation)| Wanted {
            name: plan.name(),
            class: plan.class_name(),
            generation: *generation,
        });
        Self {
            fleet,
            namespace,
            wanted: wanted.collect(),
            where_to_look,
        }
    }

    /// Waits until all machines have joined, and shows in the status of `object` what it waits for.
    ///
    /// # Errors
    /// A machine cannot be made, with the code of the reason; machines had their time; the operation became pointless.
    pub(super) async fn wait(&self, context: &Context, object: &Worker) -> Result<(), Fault> {
        tokio::select! {
            biased;
            joined = context.unless_obsolete(self.joined()) => joined,
            fault = self.failed(context) => Err(fault),
            never = self.say(context, object) => match never {},
        }
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
        failure(&self.wanted, &machines)
    }

    async fn joined(&self) -> Result<(), Fault> {
        let check = |_: &Cache<MachineDeployment>| match self.missing() {
            None => Judgement::Done(()),
            Some(Missing { reason, .. }) => Judgement::NotYet(reason),
        };
        let deployments = &self.fleet.deployments;
        let joined = deployments.wait_in(self.namespace, "machines to join", JOIN_TIMEOUT, check);
        joined.await.map_err(|waited| {
            // The deployment's own change is the last of a chain; the machines' reason may be newer than it.
            let missing = self.missing().unwrap_or_else(|| Missing::because(waited.to_string()));
            match Fault::from(waited) {
                fault if fault.class == FaultClass::Dependency => self.not_joined(&missing),
                fault => fault,
            }
        })
    }

    /// Waits until a machine has failed for a while for want of what a person has to give.
    async fn failed(&self, context: &Context) -> Fault {
        let mut changes = self.fleet.machines.subscribe_in(self.namespace);
        loop {
            if self.failure().is_some() {
                tokio::time::sleep(FAILED_AFTER).await;
                if let Some((missing, code)) = self.failure() {
                    return self.cannot_be_made(context, &missing, code);
                }
            }
            changes.next().await;
        }
    }

    async fn say(&self, context: &Context, object: &Worker) -> Infallible {
        let mut changes = self.fleet.machines.subscribe_in(self.namespace);
        let mut message = None;
        loop {
            tokio::time::sleep(SAY_AFTER).await;
            let reason = self.missing().map(|missing| missing.reason);
            if let Some(text) = &reason
                && reason != message
            {
                if let Err(fault) = context.say(object, &format!("Waiting: {text}")).await {
                    tracing::debug!("{fault}");
                }
                message = reason;
            }
            changes.next().await;
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
