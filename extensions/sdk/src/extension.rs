//! An extension put together: any number of actuators and observers with one client, one cache of the Clusters
//! and one cache per kind, and a heartbeat. It never installs CRDs and never registers itself in the garden.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use api_extensions::{Cluster, ExtensionObject};
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
use crate::caches::Caches;
use crate::codes::CodeTable;
use crate::observe::Secondary;
use crate::reconcile::Primary;
use crate::registration::Registration;
use crate::rest::Rests;
use crate::shared::{Shared, lets_go_on};
use crate::watches::Due;

/// How often the heartbeat is renewed (gardener/gardener v1.150 extensions/pkg/controller/heartbeat).
pub const HEARTBEAT_PERIOD: Duration = Duration::from_secs(30);

type Run = BoxFuture<'static, ()>;

/// An extension being put together; [`Extension::run`] starts it.
pub struct Extension {
    name: String,
    shared: Shared,
    metrics: Option<Metrics>,
    caches: Caches,
    runs: Vec<Run>,
}

impl Extension {
    /// An extension called `name` that acts in the seed of `client` until `stop`. Must be called within a tokio
    /// runtime: caches begin to fill at once.
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
        let caches = Caches::new(client.clone(), stop.clone());
        let shared = Shared {
            client,
            clock,
            entropy,
            recorder,
            clusters,
            codes: Arc::new(OnceLock::new()),
            stop,
        };
        Self {
            name,
            shared,
            metrics: None,
            caches,
            runs: Vec::new(),
        }
    }

    /// Counts reconciles in `metrics`. Call it before adding actuators.
    #[must_use]
    pub fn metrics(mut self, metrics: &Metrics) -> Self {
        self.metrics = Some(metrics.clone());
        self
    }

    /// Adds well-known error codes to the faults of actuators and observers that have none, by their texts, and takes over
    /// the class of the first code. Faults about objects of Kubernetes get none: what the seed's API server refuses is not
    /// what the cloud refuses. The first table counts, whenever it is set.
    #[must_use]
    pub fn codes(self, table: CodeTable) -> Self {
        if self.shared.codes.set(table).is_err() {
            tracing::error!(extension = self.name, "a second table of error codes is ignored");
        }
        self
    }

    /// The shared cache of all objects of a kind, for an actuator's own use too.
    pub fn cache<K: ExtensionObject>(&mut self) -> Cache<K> {
        self.caches.of(watcher::Config::default())
    }

    /// The shared cache of the Clusters.
    pub fn clusters(&self) -> Cache<Cluster> {
        self.shared.clusters.clone()
    }

    /// Adds a primary: it does the work and owns the status.
    #[must_use]
    pub fn actuator<K: ExtensionObject>(
        mut self,
        registration: Registration<K>,
        actuator: Arc<dyn Actuator<K>>,
    ) -> Self {
        let cache = self.cache::<K>();
        let suffix = registration
            .finalizer_suffix
            .as_deref()
            .unwrap_or(K::ROW.finalizer_suffix());
        let finalizer = format!("{}{suffix}", api_meta::finalizers::EXTENSION_PREFIX);
        let exists = || {
            let (registration, objects) = (registration.clone(), cache.clone());
            move |key: &ObjectKey| {
                // Before the first list has been read, any may exist.
                !objects.is_ready() || objects.get(key).is_some_and(|object| registration.selects(&object))
            }
        };
        let due = Arc::new(Due::new(exists()));
        let rests = Arc::new(Rests::new(exists()));
        let primary = Arc::new(Primary {
            shared: self.shared.clone(),
            cache: cache.clone(),
            actuator,
            finalizer,
            timeout: registration.timeout,
            secrets: registration.secrets(&mut self.caches),
            due: due.clone(),
            rests: rests.clone(),
        });
        let controller = self.controller(K::ROW.noun(), &registration, &cache, (&due, &rests));
        let stop = self.shared.stop.clone();
        self.runs.push(Box::pin(
            controller.run(stop, move |object| primary.clone().reconcile(object)),
        ));
        self
    }

    /// Adds a secondary: it only adds conditions to what another extension is primary for.
    #[must_use]
    pub fn secondary<K: ExtensionObject>(
        mut self,
        registration: Registration<K>,
        observer: Arc<dyn Observer<K>>,
    ) -> Self {
        let cache = self.cache::<K>();
        let secondary = Arc::new(Secondary {
            shared: self.shared.clone(),
            observer,
        });
        // It looks whenever it is called: no mark is needed.
        let (due, rests) = (
            Arc::new(Due::new(|_| false)),
            Arc::new(Rests::new(|_: &ObjectKey| false)),
        );
        let what = format!("{} observer", K::ROW.noun());
        let controller = self
            .controller(&what, &registration, &cache, (&due, &rests))
            .when(|old, new| old.is_none_or(|old: &K| old.meta().resource_version != new.meta().resource_version));
        let stop = self.shared.stop.clone();
        self.runs.push(Box::pin(
            controller.run(stop, move |object| secondary.clone().observe(object)),
        ));
        self
    }

    fn controller<K: ExtensionObject>(
        &mut self,
        what: &str,
        registration: &Registration<K>,
        cache: &Cache<K>,
        marks: (&Arc<Due>, &Arc<Rests>),
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
        let controller = registration.watch(controller, &mut self.caches, cache, marks);
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
