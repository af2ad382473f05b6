//! What the node reports to the API about a pod: its status, and that it has stopped. It writes only what this node owns.

use base_client::is_missing;
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::slot::Slot;
use super::sources::Sources;
use super::status::{View, phase, status};
use super::{PodRunner, Why};
use crate::follow::Pause;
use crate::shown::{Runs, ShownContainer, ShownPod};

impl PodRunner {
    /// Writes the status if it has changed. A failure is tried again after a pause.
    pub(super) async fn report(&mut self) {
        // The status of a pod that is gone is not reported, and a node that stops leaves the last status standing.
        if self.ending.as_ref().is_some_and(|ending| ending.why != Why::Deleted) {
            return;
        }
        let mut view = View {
            pod: &self.pod,
            slots: &self.slots,
            pod_ip: self.ip(),
            host_ips: &self.host.addresses,
            started: self.started,
            now: self.host.clock.now(),
            mounted: self.mounted,
            expired: self.expired,
        };
        let is_over = matches!(phase(&view), "Succeeded" | "Failed") && !self.slots.iter().any(Slot::is_running);
        if is_over {
            // What ran there is still known by the address that it had.
            let reported = self.reported.as_ref().and_then(|status| status.pod_ip.as_deref());
            view.pod_ip = view.pod_ip.or_else(|| reported?.parse().ok());
        }
        let status = status(&view, self.reported.as_ref());
        self.show(&status);
        if self.reported.as_ref() != Some(&status) && !self.write(status).await {
            return;
        }
        if is_over {
            // A client that reads the status as it is now does not mistake the next pod of this address for it; before the
            // status was written, any client would.
            self.address = None;
            self.over = true;
        }
    }

    /// Shows the pod to callers of the node.
    fn show(&self, status: &PodStatus) {
        let init = status.init_container_statuses.iter().flatten();
        let statuses = init.chain(status.container_statuses.iter().flatten());
        let statuses = statuses.chain(status.ephemeral_container_statuses.iter().flatten());
        // Slots and statuses have one order.
        let containers = self.slots.iter().zip(statuses).map(|(slot, status)| ShownContainer {
            status: status.clone(),
            log: slot.log.clone(),
            previous: slot.previous.clone(),
            runs: match &slot.run {
                None => Runs::Nothing,
                Some(run) if run.traits.commands => Runs::Program(run.commands.clone()),
                Some(_) => Runs::Task,
            },
        });
        let meta = &self.pod.metadata;
        let pod = ShownPod {
            uid: meta.uid.clone().unwrap_or_default(),
            pod: self.pod.clone(),
            status: status.clone(),
            containers: containers.collect(),
        };
        let namespace = meta.namespace.as_deref().unwrap_or_default();
        self.host.shown.put(namespace, &self.name(), pod);
    }

    /// Writes the status; false when it is not known to be written yet.
    async fn write(&mut self, status: PodStatus) -> bool {
        if self.report_again.is_some_and(|again| again > Instant::now()) {
            return false;
        }
        let patch = Patch::Strategic(patch(&self.pod, &status));
        match self
            .pods()
            .patch_status(&self.name(), &PatchParams::default(), &patch)
            .await
        {
            Ok(_) => {
                self.reported = Some(status);
                self.report_again = None;
                self.report_pauses = Pause::default();
                true
            }
            // The watch will report it.
            Err(error) if is_missing(&error) => {
                self.reported = Some(status);
                true
            }
            Err(error) => {
                tracing::debug!(pod = %self.id(), %error, "status was not reported, trying again");
                self.report_again = self.report_pauses.next().map(|pause| Instant::now() + pause);
                false
            }
        }
    }

    /// Waits for the deletion of a pod whose containers are over, confirms it, and waits until the pod is gone.
    /// Returns whether it is: the node may stop before. One that is deleted when the node stops is confirmed once.
    pub(super) async fn finish_deletion(&mut self) -> bool {
        self.sources = Sources::none();
        let mut pauses = Pause::default();
        loop {
            let deleting = self
                .updates
                .wait_for(|pod| pod.as_ref().is_none_or(|pod| pod.metadata.deletion_timestamp.is_some()));
            let stop = self.stop.clone();
            let gone = tokio::select! {
                biased;
                seen = deleting => seen.map_or(true, |pod| pod.is_none()),
                () = stop.cancelled() => return false,
            };
            if gone || confirm_deletion(self.host.client.clone(), &self.pod).await {
                break;
            }
            let pause = tokio::time::sleep(pauses.next().unwrap_or_default());
            if stop.run_until_cancelled(pause).await.is_none() {
                return false;
            }
        }
        let stop = self.stop.clone();
        tokio::select! {
            biased;
            () = stop.cancelled() => false,
            _ = self.updates.wait_for(Option::is_none) => true,
        }
    }

    fn pods(&self) -> Api<Pod> {
        pods_beside(self.host.client.clone(), &self.pod)
    }

    pub(super) fn name(&self) -> String {
        self.pod.metadata.name.clone().unwrap_or_default()
    }

    pub(super) fn id(&self) -> String {
        id(&self.pod)
    }
}

/// As the kubelet names a pod in messages.
fn id(pod: &Pod) -> String {
    let meta = &pod.metadata;
    let text = |part: &Option<String>| part.clone().unwrap_or_default();
    format!("{}_{}({})", text(&meta.name), text(&meta.namespace), text(&meta.uid))
}

/// The last step of a graceful deletion; true when the API needs no more from us.
pub(crate) async fn confirm_deletion(client: kube::Client, pod: &Pod) -> bool {
    let now = DeleteParams {
        grace_period_seconds: Some(0),
        preconditions: Some(Preconditions {
            uid: pod.metadata.uid.clone(),
            resource_version: None,
        }),
        ..DeleteParams::default()
    };
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    match pods_beside(client, pod).delete(name, &now).await {
        Ok(_) => true,
        // Not there, or another pod of this name is.
        Err(kube::Error::Api(status)) if status.code == 404 || status.code == 409 => true,
        Err(error) => {
            tracing::debug!(pod = %id(pod), %error, "deletion was not confirmed");
            false
        }
    }
}

/// The pods of a pod's namespace.
fn pods_beside(client: kube::Client, pod: &Pod) -> Api<Pod> {
    Api::namespaced(client, pod.metadata.namespace.as_deref().unwrap_or_default())
}

/// A strategic merge patch, as the kubelet's: other writers' conditions stay. The uid keeps it from hitting a pod that
/// took the name; what a condition no longer has is removed.
fn patch(pod: &Pod, status: &PodStatus) -> Value {
    let mut patch = json!({"metadata": {"uid": pod.metadata.uid}, "status": status});
    let conditions = patch.pointer_mut("/status/conditions").and_then(Value::as_array_mut);
    for condition in conditions.into_iter().flatten().filter_map(Value::as_object_mut) {
        condition.entry("reason").or_insert(Value::Null);
        condition.entry("message").or_insert(Value::Null);
    }
    patch
}
