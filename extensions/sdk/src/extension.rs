//! An extension put together: any number of actuators and observers with one client, one mirror of the Clusters
//! and one mirror per kind, and a heartbeat. It never installs CRDs and never registers itself in the garden.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api_extensions::{Cluster, ExtensionClass, ExtensionObject};
use api_meta::names::HEARTBEAT_LEASE;
use base_clock::{Clock, Entropy};
use base_controller::{Cache, Controller, ObjectKey, Recorder, heartbeat};
use base_telemetry::Metrics;
use futures::future::BoxFuture;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::runtime::watcher;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::actuator::{Actuator, Observer};
use crate::reconcile::{Primary, Secondary, Shared, lets_go_on};

/// How often the heartbeat is renewed (gardener/gardener v1.150 extensions/pkg/controller/heartbeat).
pub const HEARTBEAT_PERIOD: Duration = Duration::from_secs(30);

type Run = BoxFuture<'static, ()>;

/// Which objects a registration is for, and how.
#[derive(Clone, Debug)]
pub struct Registration {
    type_: String,
    class: ExtensionClass,
    finalizer_suffix: Option<String>,
    concurrency: usize,
}

/// Objects of one kind worked on at the same time: upstream's default.
const CONCURRENCY: usize = 5;

impl Registration {
    /// For objects of this type, compared without case, of class shoot.
    pub fn of_type(type_: impl Into<String>) -> Self {
        Self {
            type_: type_.into(),
            class: ExtensionClass::Shoot,
            finalizer_suffix: None,
            concurrency: CONCURRENCY,
        }
    }

    /// For objects of another class.
    #[must_use]
    pub fn class(mut self, class: ExtensionClass) -> Self {
        self.class = class;
        self
    }

    /// Another end of the finalizer `extensions.gardener.cloud/...`: needed where several extensions act on one
    /// kind in one namespace (Extension).
    #[must_use]
    pub fn finalizer_suffix(mut self, suffix: impl Into<String>) -> Self {
        self.finalizer_suffix = Some(suffix.into());
        self
    }

    /// How many objects are worked on at the same time.
    #[must_use]
    pub fn concurrency(mut self, concurrency: usize) -> Self {
        self.concurrency = concurrency;
        self
    }

    fn selects<K: ExtensionObject>(&self, object: &K) -> bool {
        object.type_().eq_ignore_ascii_case(&self.type_) && object.class() == self.class
    }
}

/// An extension being put together; [`Extension::run`] starts it.
pub struct Extension {
    name: String,
    shared: Shared,
    metrics: Option<Metrics>,
    caches: BTreeMap<TypeId, Box<dyn Any + Send + Sync>>,
    runs: Vec<Run>,
}

impl Extension {
    /// An extension called `name` that acts in the seed of `client` until `stop`. Must be called within a tokio
    /// runtime: mirrors begin to fill at once.
    pub fn builder(
        name: impl Into<String>,
        client: kube::Client,
        clock: Clock,
        entropy: Entropy,
        stop: CancellationToken,
    ) -> Self {
        let name = name.into();
        let recorder = Recorder::new(client.clone(), name.as_str(), clock.clone());
        let clusters = Cache::start(Api::all(client.clone()), watcher::Config::default(), stop.clone());
        let shared = Shared {
            client,
            clock,
            entropy,
            recorder,
            clusters,
            stop,
        };
        Self {
            name,
            shared,
            metrics: None,
            caches: BTreeMap::new(),
            runs: Vec::new(),
        }
    }

    /// Counts reconciles in `metrics`. Call it before adding actuators.
    #[must_use]
    pub fn metrics(mut self, metrics: &Metrics) -> Self {
        self.metrics = Some(metrics.clone());
        self
    }

    /// The shared mirror of all objects of a kind, for an actuator's own use too.
    pub fn cache<K: ExtensionObject>(&mut self) -> Cache<K> {
        let (client, stop) = (self.shared.client.clone(), self.shared.stop.clone());
        self.caches
            .entry(TypeId::of::<K>())
            .or_insert_with(|| Box::new(Cache::<K>::start(Api::all(client), watcher::Config::default(), stop)))
            .downcast_ref::<Cache<K>>()
            .cloned()
            .expect("the entry of a kind's TypeId is that kind's cache")
    }

    /// The shared mirror of the Clusters.
    pub fn clusters(&self) -> Cache<Cluster> {
        self.shared.clusters.clone()
    }

    /// Adds a primary: it does the work and owns the status.
    #[must_use]
    pub fn actuator<K: ExtensionObject>(mut self, registration: Registration, actuator: Arc<dyn Actuator<K>>) -> Self {
        let cache = self.cache::<K>();
        let suffix = registration
            .finalizer_suffix
            .as_deref()
            .unwrap_or(K::ROW.finalizer_suffix());
        let finalizer = format!("{}{suffix}", api_meta::finalizers::EXTENSION_PREFIX);
        let primary = Arc::new(Primary {
            shared: self.shared.clone(),
            cache: cache.clone(),
            actuator,
            finalizer,
        });
        let controller = self.controller(K::ROW.noun(), &registration, &cache);
        let stop = self.shared.stop.clone();
        self.runs.push(Box::pin(
            controller.run(stop, move |object| primary.clone().reconcile(object)),
        ));
        self
    }

    /// Adds a secondary: it only adds conditions to what another extension is primary for.
    #[must_use]
    pub fn secondary<K: ExtensionObject>(mut self, registration: Registration, observer: Arc<dyn Observer<K>>) -> Self {
        let cache = self.cache::<K>();
        let secondary = Arc::new(Secondary {
            shared: self.shared.clone(),
            observer,
        });
        let controller = self
            .controller(&format!("{} observer", K::ROW.noun()), &registration, &cache)
            .when(|old, new| old.is_none_or(|old: &K| old.meta().resource_version != new.meta().resource_version));
        let stop = self.shared.stop.clone();
        self.runs.push(Box::pin(
            controller.run(stop, move |object| secondary.clone().observe(object)),
        ));
        self
    }

    fn controller<K: ExtensionObject>(
        &self,
        what: &str,
        registration: &Registration,
        cache: &Cache<K>,
    ) -> Controller<K> {
        let (selection, objects) = (registration.clone(), cache.clone());
        let controller = Controller::new(format!("{} {what}", self.name), cache.clone())
            .only(move |object| selection.selects(object))
            .concurrency(registration.concurrency)
            .watches(&self.shared.clusters, move |change| match change.new() {
                Some(cluster) if lets_go_on(change.old.as_deref(), cluster) => {
                    let namespace = cluster.metadata.name.as_deref().unwrap_or_default();
                    objects
                        .list_in(namespace)
                        .iter()
                        .map(|object| ObjectKey::of(&**object))
                        .collect()
                }
                _ => Vec::new(),
            });
        match &self.metrics {
            Some(metrics) => controller.metrics(metrics),
            None => controller,
        }
    }

    /// Renews the heartbeat in `namespace`, the extension's own.
    #[must_use]
    pub fn heartbeat(mut self, namespace: &str) -> Self {
        let api: Api<Lease> = Api::namespaced(self.shared.client.clone(), namespace);
        let (name, clock, stop) = (self.name.clone(), self.shared.clock.clone(), self.shared.stop.clone());
        self.runs.push(Box::pin(async move {
            heartbeat(api, HEARTBEAT_LEASE, &name, HEARTBEAT_PERIOD, clock, stop).await;
        }));
        self
    }

    /// Adds a task of the extension's own, which must end when the extension is stopped.
    #[must_use]
    pub fn task(mut self, task: impl Future<Output = ()> + Send + 'static) -> Self {
        self.runs.push(Box::pin(task));
        self
    }

    /// Runs until stopped.
    pub async fn run(self) {
        // Without the Clusters every object would seem to belong to no shoot.
        if self
            .shared
            .stop
            .run_until_cancelled(self.shared.clusters.ready())
            .await
            .is_none()
        {
            return;
        }
        let mut tasks: JoinSet<()> = self.runs.into_iter().collect();
        while let Some(ended) = tasks.join_next().await {
            if let Err(error) = ended {
                tracing::error!(extension = self.name, "a task ended: {error}");
            }
        }
    }
}
