//! The three controllers put together, with what they share. Only objects whose MachineClass names the driver's
//! provider concern them: a seed may have several.

use std::sync::Arc;

use api_machine::{ClassSpec, Machine, MachineClass, MachineDeployment, MachineSet};
use api_meta::Fault;
use base_client::Connector;
use base_clock::{Clock, Entropy};
use base_controller::{Cache, Change, Controller, MirrorChange, Next, ObjectKey, Recorder};
use base_telemetry::Metrics;
use extensions_sdk::Setup;
use futures::StreamExt;
use jiff::Timestamp;
use kube::runtime::watcher;
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tokio_util::sync::CancellationToken;

use crate::deployment::Deployments;
use crate::driver::Driver;
use crate::left_alone::is_left_alone;
use crate::machine::{Drains, class_key, is_forced, node_name};
use crate::names::TRY_AGAIN_ANNOTATION;
use crate::set::Sets;
use crate::target::Targets;
use crate::turns::Turns;

/// Machines worked on at the same time: upstream's default for a shoot, here for all of a process.
const MACHINE_CONCURRENCY: usize = 50;

/// What the controllers need beside a driver.
#[derive(Clone)]
pub struct Surroundings {
    /// The seed.
    pub client: kube::Client,
    /// Connects to shoots by their access Secret's kubeconfig.
    pub connector: Arc<dyn Connector>,
    /// What time it is.
    pub clock: Clock,
    /// Random numbers, for names.
    pub entropy: Entropy,
    /// Where reconciles are counted.
    pub metrics: Metrics,
    /// Done once the process is to end.
    pub stop: CancellationToken,
}

impl Surroundings {
    /// Those of a program.
    #[must_use]
    pub fn of(setup: &Setup) -> Self {
        Self {
            client: setup.client.clone(),
            connector: setup.connector.clone(),
            clock: setup.clock.clone(),
            entropy: setup.entropy.clone(),
            metrics: setup.metrics.clone(),
            stop: setup.stop.clone(),
        }
    }
}

/// What the controllers share.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) client: kube::Client,
    pub(crate) driver: Arc<dyn Driver>,
    pub(crate) targets: Arc<Targets>,
    pub(crate) recorder: Recorder,
    pub(crate) clock: Clock,
    pub(crate) entropy: Entropy,
    pub(crate) turns: Turns,
    /// When these controllers began.
    pub(crate) began: Timestamp,
}

/// The controllers of machine deployments, sets and machines, and the caches they keep.
pub struct Machines {
    shared: Shared,
    deployments: Cache<MachineDeployment>,
    sets: Cache<MachineSet>,
    machines: Cache<Machine>,
    classes: Cache<MachineClass>,
    node_changes: mpsc::UnboundedReceiver<MirrorChange>,
    drains: Drains,
    pod_changes: mpsc::UnboundedReceiver<ObjectKey>,
    metrics: Metrics,
    stop: CancellationToken,
}

impl Machines {
    /// Puts the controllers of machines of `driver` together and begins to fill the caches. Must be called within a tokio
    /// runtime.
    pub fn new(driver: Arc<dyn Driver>, surroundings: Surroundings) -> Self {
        let Surroundings {
            client,
            connector,
            clock,
            entropy,
            metrics,
            stop,
        } = surroundings;
        let machines = start_cache(&client, &stop);
        let (targets, node_changes) = Targets::new(client.clone(), connector, &machines, stop.clone());
        let (drains, pod_changes) = Drains::new(&machines, stop.clone());
        let recorder = Recorder::new(client.clone(), "machine-controller-manager", clock.clone());
        Self {
            deployments: start_cache(&client, &stop),
            sets: start_cache(&client, &stop),
            machines,
            classes: start_cache(&client, &stop),
            shared: Shared {
                client,
                driver,
                targets: Arc::new(targets),
                recorder,
                began: clock.now(),
                clock,
                entropy,
                turns: Turns::default(),
            },
            node_changes,
            drains,
            pod_changes,
            metrics,
            stop,
        }
    }

    /// The driver's provider.
    pub(crate) fn provider(&self) -> &str {
        self.shared.driver.provider()
    }

    /// All MachineDeployments, for callers that wait for them.
    pub fn deployments(&self) -> Cache<MachineDeployment> {
        self.deployments.clone()
    }

    /// All MachineSets. One goes after the last of its machines.
    pub fn sets(&self) -> Cache<MachineSet> {
        self.sets.clone()
    }

    /// All Machines.
    pub fn machines(&self) -> Cache<Machine> {
        self.machines.clone()
    }

    /// All MachineClasses.
    pub(crate) fn classes(&self) -> Cache<MachineClass> {
        self.classes.clone()
    }

    /// The turns of the controllers.
    pub(crate) fn turns(&self) -> Turns {
        self.shared.turns.clone()
    }

    /// Runs until stopped.
    pub async fn run(self) {
        let Self {
            mut shared,
            deployments,
            sets,
            machines,
            classes,
            node_changes,
            drains,
            pod_changes,
            metrics,
            stop,
        } = self;
        let ready = async {
            classes.ready().await;
            machines.ready().await;
            sets.ready().await;
            shared.targets.secrets().ready().await;
        };
        if stop.run_until_cancelled(ready).await.is_none() {
            return;
        }
        // A replica may have waited for long until it leads.
        shared.began = shared.clock.now();
        let driver = shared.driver.clone();
        let deployment_controller = Controller::new("machine deployments", deployments.clone())
            .only(of_provider(&classes, &driver))
            .owns(&sets)
            .watches(&classes, in_namespace(&deployments))
            .metrics(&metrics);
        let set_controller = Controller::new("machine sets", sets.clone())
            .only(of_provider(&classes, &driver))
            .owns(&machines)
            .watches(&classes, in_namespace(&sets))
            .metrics(&metrics);
        let machine_controller = machine_controller(&shared, &machines, &classes, &metrics)
            .called_by(by_nodes(&machines, node_changes))
            .called_by(UnboundedReceiverStream::new(pod_changes).boxed());
        let turns = shared.turns.clone();
        let set_parts = Arc::new(Sets {
            shared: shared.clone(),
            machines: machines.clone(),
        });
        let deployment_parts = Arc::new(Deployments {
            shared: shared.clone(),
            sets,
        });
        let machine_parts = Arc::new(crate::machine::Machines {
            shared,
            classes: classes.clone(),
            drains,
        });
        let allowed = Allowed { classes, driver, turns };
        let (of_deployments, of_sets, of_machines) = (allowed.clone(), allowed.clone(), allowed);
        tokio::join!(
            deployment_controller.run(stop.clone(), move |object| {
                of_deployments
                    .clone()
                    .turn(object, deployment_parts.clone(), Deployments::reconcile)
            }),
            set_controller.run(stop.clone(), move |object| {
                of_sets.clone().turn(object, set_parts.clone(), Sets::reconcile)
            }),
            machine_controller.run(stop.clone(), move |object| {
                of_machines
                    .clone()
                    .turn(object, machine_parts.clone(), crate::machine::Machines::reconcile)
            }),
        );
    }
}

fn machine_controller(
    shared: &Shared,
    machines: &Cache<Machine>,
    classes: &Cache<MachineClass>,
    metrics: &Metrics,
) -> Controller<Machine> {
    let secrets = shared.targets.secrets();
    Controller::new("machines", machines.clone())
        .only(of_provider(classes, &shared.driver))
        .news(|old, new| is_forced(new) && !is_forced(old) || is_called(old, new))
        .watches(classes, in_namespace(machines))
        .watches(secrets, in_namespace(machines))
        .called_by(shared.driver.changes())
        .concurrency(MACHINE_CONCURRENCY)
        .metrics(metrics)
}

/// Objects that are made by a class.
trait OfClass: Resource {
    fn class(&self) -> Option<ClassSpec>;
}

impl OfClass for MachineDeployment {
    fn class(&self) -> Option<ClassSpec> {
        self.spec.template.spec.as_ref()?.class.clone()
    }
}

impl OfClass for MachineSet {
    fn class(&self) -> Option<ClassSpec> {
        self.spec.template.as_ref()?.spec.as_ref()?.class.clone()
    }
}

impl OfClass for Machine {
    fn class(&self) -> Option<ClassSpec> {
        self.spec.class.clone()
    }
}

/// Begins turns, of objects that are not left alone.
#[derive(Clone)]
struct Allowed {
    classes: Cache<MachineClass>,
    driver: Arc<dyn Driver>,
    turns: Turns,
}

impl Allowed {
    /// One turn of an object. Whether it is left alone is looked at once more when the turn is counted: whoever has written that
    /// waits for the turns that began before.
    async fn turn<K, P, F>(
        self,
        object: Arc<K>,
        parts: Arc<P>,
        reconcile: fn(Arc<P>, Arc<K>) -> F,
    ) -> Result<Next, Fault>
    where
        K: OfClass,
        F: Future<Output = Result<Next, Fault>>,
    {
        let namespace = object.meta().namespace.as_deref().unwrap_or_default();
        let _turn = self.turns.begin(namespace);
        match is_of_provider(&self.classes, &*self.driver, &*object) {
            true => reconcile(parts, object.clone()).await,
            false => Ok(Next::Change),
        }
    }
}

/// Whether the Worker has called for another try.
fn is_called(old: &Machine, new: &Machine) -> bool {
    let call = |machine: &Machine| machine.annotations().get(TRY_AGAIN_ANNOTATION).cloned();
    call(old) != call(new)
}

fn start_cache<K>(client: &kube::Client, stop: &CancellationToken) -> Cache<K>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug + Send + Sync + 'static,
{
    Cache::start(Api::all(client.clone()), watcher::Config::default(), stop.clone())
}

/// Whether an object's class is of the driver's provider, and its machines are not to be left alone.
fn of_provider<K: OfClass>(
    classes: &Cache<MachineClass>,
    driver: &Arc<dyn Driver>,
) -> impl Fn(&K) -> bool + Send + Sync + use<K> {
    let (classes, driver) = (classes.clone(), driver.clone());
    move |object| is_of_provider(&classes, &*driver, object)
}

fn is_of_provider<K: OfClass>(classes: &Cache<MachineClass>, driver: &dyn Driver, object: &K) -> bool {
    let key = class_key(object.meta().namespace.as_deref(), object.class().as_ref());
    let class = classes.get(&key);
    class.is_some_and(|class| class.provider.as_deref() == Some(driver.provider()) && !is_left_alone(&class))
}

/// All objects of the namespace in which something else has changed.
fn in_namespace<R, K>(objects: &Cache<K>) -> impl Fn(&Change<R>) -> Vec<ObjectKey> + Send + Sync + 'static
where
    R: Resource,
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug + Send + Sync + 'static,
{
    let objects = objects.clone();
    move |change| {
        let namespace = change.object.meta().namespace.as_deref().unwrap_or_default();
        objects
            .list_in(namespace)
            .iter()
            .map(|object| ObjectKey::of(&**object))
            .collect()
    }
}

/// The machines whose node has changed; all of the namespace when its nodes were listed again.
fn by_nodes(
    machines: &Cache<Machine>,
    changes: mpsc::UnboundedReceiver<MirrorChange>,
) -> futures::stream::BoxStream<'static, ObjectKey> {
    let machines = machines.clone();
    let keys = move |change: MirrorChange| {
        let concerned: Vec<ObjectKey> = machines
            .list_in(&change.namespace)
            .iter()
            .filter(|machine| change.name.is_none() || node_name(machine) == change.name.as_deref())
            .map(|machine| ObjectKey::of(&**machine))
            .collect();
        futures::stream::iter(concerned)
    };
    UnboundedReceiverStream::new(changes).flat_map(keys).boxed()
}
