//! The Machine controller: makes a machine by its driver, watches its node join, reports its phase, and
//! takes it down: drain, driver, Node object, finalizer, in that order. It never makes a replacement: that is the
//! MachineSet's.

mod drain;
mod marks;
mod plan;

use std::sync::Arc;
use std::time::Duration;

use api_machine::{
    CurrentStatus, LastOperation, Machine, MachineClass, MachineOperationType, MachinePhase, MachineState,
};
use api_meta::conditions::{ACTION_REQUIRED, ERROR_REPORTED};
use api_meta::{Fault, FaultClass, Seen};
use base_client::{add_finalizer, delete, patch_changed, patch_status_if_changed, read_again, remove_finalizer};
use base_controller::{Cache, EventType, Next, ObjectKey};
use k8s_openapi::api::core::v1::{Node, NodeCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{Api, ResourceExt};

use crate::driver::MachineRequest;
use crate::machines::Shared;
use crate::names::{FINALIZER, FORCE_DELETION_LABEL, NODE_LABEL};
use crate::target::Target;
use drain::Drained;
use plan::{Verdict, View, evaluate, failing};

pub(crate) use drain::Drains;

/// The Machine controller's parts.
pub(crate) struct Machines {
    pub(crate) shared: Shared,
    pub(crate) classes: Cache<MachineClass>,
    pub(crate) drains: Drains,
}

/// The node a machine has, or will have.
pub(crate) fn node_name(machine: &Machine) -> Option<&str> {
    machine.metadata.labels.as_ref()?.get(NODE_LABEL).map(String::as_str)
}

/// The class a machine is made by.
pub(crate) fn class_key(namespace: Option<&str>, class: Option<&api_machine::ClassSpec>) -> ObjectKey {
    let name = class.and_then(|class| class.name.clone()).unwrap_or_default();
    ObjectKey::namespaced(namespace.unwrap_or_default(), name)
}

/// Whether its deletion is forced.
pub(crate) fn is_forced(machine: &Machine) -> bool {
    machine
        .labels()
        .get(FORCE_DELETION_LABEL)
        .is_some_and(|value| value.eq_ignore_ascii_case("true"))
}

impl Machines {
    /// One turn for one machine. An error stands in its status until a turn reports something else.
    pub(crate) async fn reconcile(self: Arc<Self>, known: Arc<Machine>) -> Result<Next, Fault> {
        let ended = self.turn(&known).await;
        if let Err(fault) = &ended
            && let Err(unwritten) = self.report_fault(&known, fault).await
        {
            tracing::debug!(
                machine = known.name_any(),
                "its fault is not written: {}",
                unwritten.chain()
            );
        }
        ended
    }

    async fn turn(&self, known: &Machine) -> Result<Next, Fault> {
        let namespace = known.namespace().unwrap_or_default();
        let api: Api<Machine> = Api::namespaced(self.shared.client.clone(), &namespace);
        let class = self
            .classes
            .get(&class_key(Some(&namespace), known.spec.class.as_ref()));
        let class =
            class.ok_or_else(|| Fault::dependency(format!("the MachineClass of {} is missing", known.name_any())))?;
        if known.metadata.deletion_timestamp.is_some() {
            return self.take_down(&api, known.clone(), &class).await;
        }
        let machine = self.make(&api, known.clone(), &class).await?;
        let request = MachineRequest {
            machine: &machine,
            class: &class,
        };
        let driver = Seen::from_read(self.shared.driver.status(request).await.map(Some));
        let (target, node) = self.look(&namespace, node_name(&machine));
        if let (Some(target), Seen::Present(node)) = (&target, &node) {
            self.mark_node(target, node, &machine).await?;
        }
        let now = self.shared.clock.now();
        let Some(verdict) = evaluate(&View {
            machine: &machine,
            driver: &driver,
            node: &node,
            now,
            began: self.shared.began,
        }) else {
            return Ok(Next::Change);
        };
        self.report(&api, &machine, &verdict, node.present().map(|node| &**node))
            .await?;
        Ok(verdict.look_again.map_or(Next::Change, Next::After))
    }

    /// Makes the machine if it has not been made, and returns it with its provider id and node label.
    async fn make(&self, api: &Api<Machine>, known: Machine, class: &MachineClass) -> Result<Machine, Fault> {
        if known.spec.provider_id.is_some() && node_name(&known).is_some() {
            return Ok(known);
        }
        let mut machine = add_finalizer(api, known, FINALIZER).await?;
        // The error of the attempt before must not be taken for one of this, which may take minutes.
        if is_failed(&machine)
            && let Some(written) = self.report(api, &machine, &making(&machine), None).await?
        {
            machine = written;
        }
        let request = MachineRequest {
            machine: &machine,
            class,
        };
        let created = self.shared.driver.create(request).await?;
        let mut after = machine.clone();
        after.spec.provider_id = Some(created.provider_id);
        after.labels_mut().insert(NODE_LABEL.to_owned(), created.node_name);
        Ok(patch_changed(api, &machine, &after).await?.unwrap_or(after))
    }

    /// The shoot's cluster and the machine's node in it, as far as they can be seen.
    fn look(&self, namespace: &str, node: Option<&str>) -> (Option<Target>, Seen<Arc<Node>>) {
        match (self.shared.targets.get(namespace), node) {
            (Ok(target), Some(node)) => {
                let seen = target.node(node);
                (Some(target), seen)
            }
            (Ok(target), None) => (Some(target), Seen::Absent),
            (Err(fault), _) => (None, Seen::Unknown(fault.to_string())),
        }
    }

    /// Lets the node have the template's labels, annotations and taints.
    async fn mark_node(&self, target: &Target, node: &Node, machine: &Machine) -> Result<(), Fault> {
        let mut after = node.clone();
        marks::mark(&mut after, machine.spec.node_template.as_ref());
        let nodes: Api<Node> = Api::all(target.client.clone());
        match patch_changed(&nodes, node, &after).await {
            // The node's own writes are frequent; its next change calls again.
            Err(fault) if fault.class == FaultClass::Transient => Ok(()),
            Err(fault) => Err(fault),
            Ok(_) => Ok(()),
        }
    }

    /// Writes down what went wrong. The turn may have written the machine itself, so it is read again.
    async fn report_fault(&self, known: &Machine, fault: &Fault) -> Result<(), Fault> {
        let api: Api<Machine> = Api::namespaced(self.shared.client.clone(), &known.namespace().unwrap_or_default());
        let Some(machine) = read_again(&api, known).await? else {
            return Ok(());
        };
        match failing(&machine, fault) {
            Some(verdict) => self.report(&api, &machine, &verdict, None).await.map(drop),
            None => Ok(()),
        }
    }

    /// Writes phase, last operation and the node's conditions, and returns the machine as it is then; none if they do not differ
    /// from what is there.
    async fn report(
        &self,
        api: &Api<Machine>,
        machine: &Machine,
        verdict: &Verdict,
        node: Option<&Node>,
    ) -> Result<Option<Machine>, Fault> {
        let mut after = machine.clone();
        let now = Time(self.shared.clock.now());
        let status = after.status.get_or_insert_default();
        if let Some(node) = node.and_then(|node| node.status.as_ref()) {
            // Heartbeat times change with every beat of the kubelet and would make every beat a write.
            status.conditions = node.conditions.clone().unwrap_or_default();
            status
                .conditions
                .iter_mut()
                .for_each(|condition| condition.last_heartbeat_time = None);
            status.addresses = node.addresses.clone().unwrap_or_default();
        }
        status.conditions.retain(|condition| condition.type_ != ACTION_REQUIRED);
        status.conditions.extend(action_required(verdict));
        let current = status.current_status.get_or_insert_default();
        let moved = current.phase.as_ref() != Some(&verdict.phase);
        if moved {
            *current = CurrentStatus {
                phase: Some(verdict.phase.clone()),
                timeout_active: Some(verdict.look_again.is_some()),
                last_update_time: Some(now.clone()),
                ..current.clone()
            };
        }
        let last = status.last_operation.get_or_insert_default();
        let code = verdict.code.map(str::to_owned);
        if moved || last.description.as_ref() != Some(&verdict.description) || last.error_code != code {
            *last = LastOperation {
                description: Some(verdict.description.clone()),
                error_code: code,
                last_update_time: Some(now),
                state: Some(verdict.state.clone()),
                type_: Some(verdict.operation.clone()),
            };
        }
        let written = patch_status_if_changed(api, machine, &after).await?;
        if moved && verdict.phase == MachinePhase::Failed {
            self.shared
                .recorder
                .record(machine, EventType::Warning, "MachineFailed", &verdict.description)
                .await;
        }
        Ok(written)
    }

    async fn take_down(&self, api: &Api<Machine>, machine: Machine, class: &MachineClass) -> Result<Next, Fault> {
        if !base_client::has_finalizer(&machine, FINALIZER) {
            return Ok(Next::Change);
        }
        // The cache may lack the finalizer's or the provider id's last change; deleting is done on what is.
        let Some(machine) = read_again(api, &machine).await? else {
            return Ok(Next::Change);
        };
        // A fault of the try before stays until this one ends otherwise.
        if plan::phase_of(&machine).0 != Some(&MachinePhase::Terminating) {
            self.report(api, &machine, &terminating(&machine), None).await?;
        }
        let forced = is_forced(&machine);
        let namespace = machine.namespace().unwrap_or_default();
        let (target, node) = self.look(&namespace, node_name(&machine));
        if !forced && let Some(pause) = self.drain(target.as_ref(), &node, &machine).await {
            return Ok(Next::After(pause));
        }
        self.shared
            .driver
            .delete(MachineRequest {
                machine: &machine,
                class,
            })
            .await?;
        self.drains.close(&ObjectKey::of(&machine));
        match (&target, node_name(&machine)) {
            (Some(target), Some(node)) => {
                let deleted = delete(&Api::<Node>::all(target.client.clone()), node).await;
                if let Err(fault) = deleted
                    && !forced
                {
                    return Err(fault);
                }
            }
            (None, Some(_)) if !forced => {
                return Err(Fault::dependency(format!(
                    "the Node of {} cannot be deleted: {}",
                    machine.name_any(),
                    node.unknown().unwrap_or("its cluster cannot be reached")
                )));
            }
            _ => {}
        }
        remove_finalizer(api, machine, FINALIZER).await.map(|_| Next::Change)
    }

    /// Takes one step to empty the node, and returns when to look again at the latest; none when there is nothing to empty any
    /// more, or the machine's drain time is up. A node that is not known is not taken for an empty one.
    async fn drain(&self, target: Option<&Target>, node: &Seen<Arc<Node>>, machine: &Machine) -> Option<Duration> {
        node_name(machine)?;
        let key = ObjectKey::of(machine);
        let (reason, pause) = match (target, node) {
            (_, Seen::Absent) => return None,
            // A dead kubelet ends no pods: waiting for it would only be waiting for the time-out.
            (_, Seen::Present(node)) if plan::health_of(node).is_err() && !self.drains.is_open(&key) => return None,
            (Some(target), Seen::Present(node)) => match self.drains.step(&key, &target.client, node).await {
                Drained::Empty => return None,
                Drained::NotYet { reason, pause } => (reason, pause),
            },
            _ => {
                let why = node.unknown().unwrap_or("its cluster cannot be reached");
                (format!("its node is not known: {why}"), drain::EVICTION_PAUSE)
            }
        };
        let left = plan::drain_time_left(machine, self.shared.began, self.shared.clock.now());
        if left.is_zero() {
            let text = format!("deleted without being empty: {reason}");
            let recorder = &self.shared.recorder;
            recorder
                .record(machine, EventType::Warning, "DrainIncomplete", &text)
                .await;
            return None;
        }
        tracing::debug!(machine = %key, "not empty yet: {reason}");
        Some(pause.min(left))
    }
}

/// Whether the last operation on it has failed.
pub(crate) fn is_failed(machine: &Machine) -> bool {
    let last = machine
        .status
        .as_ref()
        .and_then(|status| status.last_operation.as_ref());
    last.is_some_and(|last| last.state == Some(MachineState::Failed))
}

/// The hint, for programs that report why a machine is missing: the description is for people.
fn action_required(verdict: &Verdict) -> Option<NodeCondition> {
    (!verdict.to_do.is_empty()).then(|| NodeCondition {
        type_: ACTION_REQUIRED.to_owned(),
        status: "True".to_owned(),
        reason: Some(verdict.reason.to_owned()),
        message: Some(verdict.to_do.clone()),
        ..NodeCondition::default()
    })
}

/// A machine is tried again that could not be made.
fn making(machine: &Machine) -> Verdict {
    Verdict {
        phase: plan::phase_of(machine).0.cloned().unwrap_or(MachinePhase::Pending),
        operation: MachineOperationType::Create,
        description: format!("Machine {} is being made", machine.name_any()),
        ..terminating(machine)
    }
}

fn terminating(machine: &Machine) -> Verdict {
    Verdict {
        phase: MachinePhase::Terminating,
        operation: MachineOperationType::Delete,
        state: MachineState::Processing,
        description: format!("Machine {} is being removed", machine.name_any()),
        code: None,
        to_do: String::new(),
        reason: ERROR_REPORTED,
        look_again: None,
    }
}
