//! One pod on this node, as one task: it waits for the pod's sources, starts its containers, restarts them, reports,
//! and ends them when the pod is deleted. What to report and when to restart is decided in `status` and `slot`.

mod containers;
mod environment;
mod handler;
mod health;
mod hook;
mod mounts;
mod probe;
mod report;
mod resources;
mod slot;
pub(crate) mod sources;
mod start;
mod status;
mod stop;
mod tls;
mod volumes;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub(crate) use report::confirm_deletion;
pub(crate) use resources::bytes;

use crate::context::{ContainerEvent, EVENTS_WAITING_MAX};
use crate::events::{EventType, Recorder};
use crate::files::Content;
use crate::follow::Pause;
use crate::network::PodAddress;
use crate::node::Host;
use crate::{EXIT_KILLED, Exit, Found, PodValues};
use containers::{ephemeral, slots};
use environment::Facts;
use health::Answer;
use hook::PostStartEnded;
use slot::Slot;
use sources::Sources;
use volumes::Wanted;

/// The time to stop of a pod that vanished from the API without a deletion this node could follow; the kubelet's minimum.
const GONE_GRACE: Duration = Duration::from_secs(2);
/// The time to stop of containers when their node stops; a little less than the node waits for its pods.
const NODE_STOP_GRACE: Duration = Duration::from_secs(4);
/// The grace period of pods that name none (kubernetes/api v1.35 core/v1/types.go).
const GRACE_SECONDS: i64 = 30;

/// Runs a pod from its binding to this node until it is gone, or the node stops.
pub(crate) async fn run(
    host: Arc<Host>,
    pod: Arc<Pod>,
    address: Option<PodAddress>,
    updates: watch::Receiver<Option<Arc<Pod>>>,
    stop: CancellationToken,
) {
    let finished = is_finished(&pod);
    let mut runner = Box::new(PodRunner::new(host, Arc::clone(&pod), address, updates, stop));
    if finished {
        if runner.finish_deletion().await {
            runner.forget();
        }
        return;
    }
    runner.follow_sources();
    runner.update(Some(pod)).await;
    loop {
        runner.advance().await;
        runner.report().await;
        if runner.is_over() {
            break;
        }
        let woken = runner.wait().await;
        runner.handle(woken).await;
    }
    let gone = match runner.ending.as_ref().map(|ending| ending.why) {
        Some(Why::Deleted) => runner.finish_deletion().await,
        Some(Why::Gone) => true,
        Some(Why::NodeStops) | None => false,
    };
    if gone {
        runner.forget();
    }
}

/// Whether nothing of the pod will ever run again.
pub(crate) fn is_finished(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

/// The address that the pod had when it was last reported.
pub(crate) fn reported_address(pod: &Pod) -> Option<IpAddr> {
    pod.status.as_ref()?.pod_ip.as_deref()?.parse().ok()
}

/// Whether the pod needs an address of its own.
pub(crate) fn has_own_address(pod: &Pod) -> bool {
    pod.spec.as_ref().and_then(|spec| spec.host_network) != Some(true)
}

/// Why a pod's containers end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    /// The pod is being deleted; this node confirms that it has stopped.
    Deleted,
    /// The pod is gone.
    Gone,
    /// The node stops; the pod stays as it is for others to see.
    NodeStops,
}

struct Ending {
    why: Why,
    deadline: Instant,
}

/// Why the task was woken.
enum Woken {
    Sources,
    Ended(Result<(Id, (usize, Exit)), JoinError>),
    Answered(Answer),
    PostStartEnded(PostStartEnded),
    Event(ContainerEvent),
    ReadyChanged,
    Freed,
    Due,
    Updated(Option<Arc<Pod>>),
    Stopped,
}

/// A volume that is there.
struct Mounted {
    content: Content,
    writable: bool,
}

/// A pod on this node, as its one task runs it: what is known of it, its containers, and what was reported.
struct PodRunner {
    host: Arc<Host>,
    /// As the API has it.
    pod: Arc<Pod>,
    /// With the service account's volume; its spec is the one that counts.
    effective: Pod,
    updates: watch::Receiver<Option<Arc<Pod>>>,
    stop: CancellationToken,
    address: Option<PodAddress>,
    freed: Arc<Notify>,
    /// What its volumes and its containers need, except the ephemeral ones: nothing starts before all of it was read.
    wanted: Wanted,
    sources: Sources,
    volumes: BTreeMap<String, Mounted>,
    mounted: bool,
    /// Nothing of it will run again, and its status reports that.
    over: bool,
    mount_failure: String,
    changes: watch::Sender<u64>,
    slots: Vec<Slot>,
    tasks: JoinSet<(usize, Exit)>,
    /// Answers of probes.
    probing: JoinSet<Answer>,
    /// What runs before containers are stopped.
    hooks: JoinSet<()>,
    /// What runs when containers have started.
    post_starts: JoinSet<PostStartEnded>,
    /// Runs of containers so far.
    runs: u64,
    /// It has run for longer than it may.
    expired: bool,
    ready_changed: Arc<Notify>,
    /// What its containers share.
    values: PodValues,
    /// Events of its containers, and where they come from.
    events: (mpsc::Sender<ContainerEvent>, mpsc::Receiver<ContainerEvent>),
    /// When due work was last looked for: later moments are still to come, even if they have passed meanwhile.
    due_checked_at: Instant,
    recorder: Recorder,
    reported_simulated: bool,
    started: Timestamp,
    reported: Option<PodStatus>,
    report_again: Option<Instant>,
    report_pauses: Pause,
    ending: Option<Ending>,
}

impl PodRunner {
    fn new(
        host: Arc<Host>,
        pod: Arc<Pod>,
        address: Option<PodAddress>,
        updates: watch::Receiver<Option<Arc<Pod>>>,
        stop: CancellationToken,
    ) -> Self {
        let effective = volumes::with_service_account(&pod, |container| {
            let image = container.image.as_deref().unwrap_or_default();
            matches!(host.catalogue.find(image), Found::Known(_))
        });
        let wanted = volumes::wanted(&effective);
        PodRunner {
            sources: Sources::none(),
            slots: slots(&effective),
            recorder: Recorder::new(&host, &pod),
            started: pod
                .status
                .as_ref()
                .and_then(|status| status.start_time.as_ref())
                .map_or_else(|| host.clock.now(), |time| time.0),
            reported: pod.status.clone(),
            freed: host.range.freed(),
            host,
            pod,
            effective,
            updates,
            stop,
            address,
            wanted,
            volumes: BTreeMap::new(),
            mounted: false,
            over: false,
            mount_failure: String::new(),
            changes: watch::Sender::new(0),
            tasks: JoinSet::new(),
            probing: JoinSet::new(),
            hooks: JoinSet::new(),
            post_starts: JoinSet::new(),
            runs: 0,
            expired: false,
            ready_changed: Arc::default(),
            values: PodValues::default(),
            events: mpsc::channel(EVENTS_WAITING_MAX),
            due_checked_at: Instant::now(),
            reported_simulated: false,
            report_again: None,
            report_pauses: Pause::default(),
            ending: None,
        }
    }

    /// The pod's address: its own, or its node's where it uses the node's network.
    fn ip(&self) -> Option<IpAddr> {
        self.address.as_ref().map(|address| address.ip).or_else(|| {
            let spec = self.effective.spec.as_ref()?;
            self.host
                .addresses
                .first()
                .copied()
                .filter(|_| spec.host_network == Some(true))
        })
    }

    /// Whether it waits for one of its node's addresses. A pod that could not begin with one does not: what is given
    /// back is offered to one pod only.
    fn lacks_address(&self) -> bool {
        let could_use_one = !self.over && self.sources.found.has_read(&self.wanted);
        could_use_one && self.address.is_none() && !self.mounted && has_own_address(&self.effective)
    }

    fn facts(&self, pod_ip: IpAddr) -> Facts<'_> {
        Facts {
            pod_ip,
            host_ip: self.host.addresses.first().copied(),
            node_name: &self.host.name,
            capacity: &self.host.capacity,
        }
    }

    /// Starts whatever can start now.
    async fn advance(&mut self) {
        let now = Instant::now();
        self.due_checked_at = now;
        self.kill_due(now);
        self.expire().await;
        if self.ending.is_some() || self.expired {
            return;
        }
        self.run_probes(now);
        if self.over || !self.sources.found.has_read(&self.wanted) || !self.mount().await {
            return;
        }
        // They start even where an init container does not let the others, and what they wait for holds up no other.
        for index in 0..self.slots.len() {
            let slot = &self.slots[index];
            let could_start = || self.sources.found.has_read(&volumes::wanted_by(&slot.container));
            if slot.ephemeral && slot.is_due(now) && could_start() {
                self.start(index).await;
            }
        }
        let init = self.slots.iter().filter(|slot| slot.init).count();
        for index in 0..init {
            if !self.slots[index].lets_next_start() && self.slots[index].is_due(now) {
                self.start(index).await;
            }
            if !self.slots[index].lets_next_start() {
                return;
            }
        }
        for index in init..self.slots.len() {
            if self.slots[index].is_main() && self.slots[index].is_due(now) {
                self.start(index).await;
            }
            if self.slots[index].is_in_post_start() {
                return;
            }
        }
    }

    /// Waits for the next thing to do. Branches are tried in order, so that a run can be repeated exactly.
    async fn wait(&mut self) -> Woken {
        let due = self.next_due();
        let stopping = self.ending.is_some();
        let lacks_address = self.lacks_address();
        let PodRunner {
            sources,
            tasks,
            probing,
            post_starts,
            events,
            ready_changed,
            updates,
            stop,
            freed,
            ..
        } = self;
        tokio::select! {
            biased;
            changed = updates.changed() => Woken::Updated(match changed {
                Ok(()) => updates.borrow_and_update().clone(),
                Err(_) => None,
            }),
            () = stop.cancelled(), if !stopping => Woken::Stopped,
            Some(ended) = tasks.join_next_with_id() => Woken::Ended(ended),
            Some(Ok(ended)) = post_starts.join_next() => Woken::PostStartEnded(ended),
            Some(Ok(answer)) = probing.join_next() => Woken::Answered(answer),
            Some(event) = events.1.recv() => Woken::Event(event),
            () = ready_changed.notified() => Woken::ReadyChanged,
            () = freed.notified(), if lacks_address && !stopping => Woken::Freed,
            () = sources.changed(), if !stopping => Woken::Sources,
            () = tokio::time::sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => Woken::Due,
        }
    }

    /// The next moment at which something happens by itself.
    fn next_due(&self) -> Option<Instant> {
        let stopping = self.ending.is_some() || self.expired;
        let slots = self.slots.iter().filter(|slot| slot.is_running() || !stopping);
        slots
            .filter_map(Slot::due_at)
            .chain(self.expires_at().filter(|_| !stopping && !self.over))
            .chain(self.report_again)
            .filter(|due| *due > self.due_checked_at)
            .min()
    }

    /// Handles what has woken the task.
    async fn handle(&mut self, woken: Woken) {
        match woken {
            Woken::Updated(pod) => self.update(pod).await,
            Woken::Stopped => self.end(Why::NodeStops, NODE_STOP_GRACE).await,
            Woken::Ended(Ok((_, (index, exit)))) => self.ended(index, exit).await,
            Woken::Answered(answer) => self.answered(answer).await,
            Woken::PostStartEnded(ended) => self.post_start_ended(ended).await,
            Woken::Event(event) => {
                let container = Some(event.container.as_str());
                self.record(event.event_type, event.reason, container, &event.message)
                    .await;
            }
            Woken::Ended(Err(error)) => {
                let id = error.id();
                let is_it = |slot: &Slot| {
                    slot.run
                        .as_ref()
                        .and_then(|run| run.task.as_ref())
                        .is_some_and(|task| task.id() == id)
                };
                if let Some(index) = self.slots.iter().position(is_it) {
                    let message = "container did not stop within its grace period".to_owned();
                    self.ended(
                        index,
                        Exit {
                            code: EXIT_KILLED,
                            message,
                        },
                    )
                    .await;
                }
            }
            Woken::Sources if self.mounted => {
                self.refresh();
            }
            Woken::Sources | Woken::ReadyChanged | Woken::Freed | Woken::Due => {}
        }
    }

    async fn update(&mut self, pod: Option<Arc<Pod>>) {
        let Some(pod) = pod else {
            self.end(Why::Gone, GONE_GRACE).await;
            return;
        };
        self.pod = pod;
        if let Some(address) = &self.address {
            address.belongs_to(&self.pod);
        }
        let meta = &self.pod.metadata;
        if meta.deletion_timestamp.is_none() {
            self.add_ephemeral();
            return;
        }
        let seconds = meta
            .deletion_grace_period_seconds
            .or_else(|| self.pod.spec.as_ref()?.termination_grace_period_seconds)
            .unwrap_or(GRACE_SECONDS);
        let grace = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
        self.end(Why::Deleted, grace).await;
    }

    /// Adds the ephemeral containers that are new in the pod, and follows what they refer to.
    fn add_ephemeral(&mut self) {
        let added: Vec<Slot> = ephemeral(&self.pod)
            .filter(|slot| !self.slots.iter().any(|own| own.container.name == slot.container.name))
            .collect();
        if added.is_empty() {
            return;
        }
        self.slots.extend(added);
        if let (Some(effective), Some(spec)) = (&mut self.effective.spec, &self.pod.spec) {
            effective.ephemeral_containers.clone_from(&spec.ephemeral_containers);
        }
        if !self.over {
            self.follow_sources();
        }
    }

    /// Follows what the pod refers to, as far as that is not followed yet.
    fn follow_sources(&mut self) {
        self.sources.follow(&self.host, &self.effective, &self.wanted);
        for slot in self.slots.iter().filter(|slot| slot.ephemeral && !slot.is_over()) {
            let wanted = volumes::wanted_by(&slot.container);
            self.sources.follow(&self.host, &self.effective, &wanted);
        }
    }

    async fn ended(&mut self, index: usize, exit: Exit) {
        self.note_end(index, exit).await;
        self.stop_sidecars().await;
    }

    /// Notes that a container has ended, and whether it runs again.
    async fn note_end(&mut self, index: usize, exit: Exit) {
        let again = self.ending.is_none() && !self.expired && !(self.slots[index].sidecar && self.mains_are_over());
        let now = self.host.clock.now();
        let id = self.id();
        let slot = &mut self.slots[index];
        if let Some(network) = slot.run.as_ref().and_then(|run| run.network.as_ref()) {
            network.close();
        }
        let name = slot.container.name.clone();
        if exit.code != 0 {
            tracing::info!(pod = %id, container = %name, code = exit.code, message = %exit.message, "container ended");
        }
        if slot.end(exit, again, now, &id).is_some_and(|pause| !pause.is_zero()) {
            let message = format!("Back-off restarting failed container {name} in pod {id}");
            self.record(EventType::Warning, "BackOff", Some(&name), &message).await;
        }
    }

    /// Drops what was stored for the pod beside its containers.
    fn forget(&self) {
        let uid = self.pod.metadata.uid.as_deref().unwrap_or_default();
        self.host.volumes.forget_pod(&self.host.name, uid);
        let namespace = self.pod.metadata.namespace.as_deref().unwrap_or_default();
        self.host.shown.remove(namespace, &self.name(), uid);
    }

    fn is_over(&self) -> bool {
        self.ending.is_some() && self.slots.iter().all(|slot| !slot.is_running())
    }

    async fn record(&mut self, event_type: EventType, reason: &str, container: Option<&str>, message: &str) {
        self.recorder
            .record(&self.host, event_type, reason, container, message)
            .await;
    }
}
