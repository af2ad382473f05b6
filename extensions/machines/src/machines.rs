//! The three controllers put together, with what they share. Only objects whose MachineClass names the driver's
//! provider concern them: a seed may have several.

use std::sync::Arc;

use api_machine::{Machine, MachineClass, MachineDeployment, MachineSet};
use base_client::Connector;
use base_clock::{Clock, Entropy};
use base_controller::{Cache, Change, Controller, MirrorChange, ObjectKey, Recorder};
use base_telemetry::Metrics;
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
use crate::machine::{class_key, is_forced, node_name};
use crate::names::TRY_AGAIN_ANNOTATION;
use crate::set::Sets;
use crate::target::Targets;

/// Machines worked on at the same time: upstream's default for a shoot, here for all of a process.
const MACHINE_CONCURRENCY: usize = 50;

/// What the controllers are given.
pub struct Options {
    /// The seed.
    pub client: kube::Client,
    /// Connects to shoots by their access Secret's kubeconfig.
    pub connector: Arc<dyn Connector>,
    /// Makes and removes machines.
    pub driver: Arc<dyn Driver>,
    /// What time it is.
    pub clock: Clock,
    /// Random numbers, for names.
    pub entropy: Entropy,
    /// Where reconciles are counted.
    pub metrics: Metrics,
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
    /// When these controllers began.
    pub(crate) began: Timestamp,
}

/// The controllers of machine deployments, sets and machines, and the mirrors they keep.
pub struct Machines {
    shared: Shared,
    deployments: Cache<MachineDeployment>,
    sets: Cache<MachineSet>,
    machines: Cache<Machine>,
    classes: Cache<MachineClass>,
    node_changes: mpsc::UnboundedReceiver<MirrorChange>,
    metrics: Metrics,
    stop: CancellationToken,
}

impl Machines {
    /// Puts the controllers together and begins to fill the mirrors. Must be called within a tokio runtime.
    pub fn new(options: Options, stop: CancellationToken) -> Self {
        let Options {
            client,
            connector,
            driver,
            clock,
            entropy,
            metrics,
        } = options;
        let machines = mirror(&client, &stop);
        let (targets, node_changes) = Targets::new(client.clone(), connector, &machines, stop.clone());
        let recorder = Recorder::new(client.clone(), "machine-controller-manager", clock.clone());
        Self {
            deployments: mirror(&client, &stop),
            sets: mirror(&client, &stop),
            machines,
            classes: mirror(&client, &stop),
            shared: Shared {
                client,
                driver,
                targets: Arc::new(targets),
                recorder,
                began: clock.now(),
                clock,
                entropy,
            },
            node_changes,
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

    /// Runs until stopped.
    pub async fn run(self) {
        let Self {
            shared,
            deployments,
            sets,
            machines,
            classes,
            node_changes,
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
        let driver = shared.driver.clone();
        let deployment_controller = Controller::new("machine deployments", deployments.clone())
            .only(of_provider(&classes, driver.clone(), |d: &MachineDeployment| {
                d.spec.template.spec.as_ref().and_then(|spec| spec.class.clone())
            }))
            .owns(&sets)
            .watches(&classes, in_namespace(&deployments))
            .metrics(&metrics);
        let set_controller = Controller::new("machine sets", sets.clone())
            .only(of_provider(&classes, driver.clone(), |s: &MachineSet| {
                s.spec
                    .template
                    .as_ref()
                    .and_then(|template| template.spec.as_ref())
                    .and_then(|spec| spec.class.clone())
            }))
            .owns(&machines)
            .watches(&classes, in_namespace(&sets))
            .metrics(&metrics);
        let machine_controller = Controller::new("machines", machines.clone())
            .only(of_provider(&classes, driver.clone(), |m: &Machine| {
                m.spec.class.clone()
            }))
            .news(|old, new| is_forced(new) && !is_forced(old) || is_called(old, new))
            .watches(&classes, in_namespace(&machines))
            .watches(shared.targets.secrets(), in_namespace(&machines))
            .called_by(driver.changes())
            .called_by(by_nodes(&machines, node_changes))
            .concurrency(MACHINE_CONCURRENCY)
            .metrics(&metrics);
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
            machines,
            classes,
        });
        tokio::join!(
            deployment_controller.run(stop.clone(), move |object| deployment_parts.clone().reconcile(object)),
            set_controller.run(stop.clone(), move |object| set_parts.clone().reconcile(object)),
            machine_controller.run(stop.clone(), move |object| machine_parts.clone().reconcile(object)),
        );
    }
}

/// Whether the Worker has called for another try.
fn is_called(old: &Machine, new: &Machine) -> bool {
    let call = |machine: &Machine| machine.annotations().get(TRY_AGAIN_ANNOTATION).cloned();
    call(old) != call(new)
}

fn mirror<K>(client: &kube::Client, stop: &CancellationToken) -> Cache<K>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug + Send + Sync + 'static,
{
    Cache::start(Api::all(client.clone()), watcher::Config::default(), stop.clone())
}

/// Whether an object's class is of the driver's provider, and its machines are not to be left alone.
fn of_provider<K: Resource>(
    classes: &Cache<MachineClass>,
    driver: Arc<dyn Driver>,
    class: impl Fn(&K) -> Option<api_machine::ClassSpec> + Send + Sync + 'static,
) -> impl Fn(&K) -> bool + Send + Sync + 'static {
    let classes = classes.clone();
    move |object| {
        let key = class_key(object.meta().namespace.as_deref(), class(object).as_ref());
        classes
            .get(&key)
            .is_some_and(|class| class.provider.as_deref() == Some(driver.provider()) && !is_left_alone(&class))
    }
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
