//! Picks the seed of a shoot (gardener/gardener v1.150 pkg/scheduler). It only binds: it never moves a shoot, never
//! changes a seed, and reaches neither. A shoot that fits nowhere waits, with one reason per seed, for a change.

mod apply;
mod filter;
mod observe;
mod plan;
mod report;

use api_core::v1beta1::{CloudProfile, ExposureClass, NamespacedCloudProfile, Seed, Shoot};
use api_meta::Fault;
use base_clock::Clock;
use base_controller::{Cache, Change, Controller, Index, Next, ObjectKey, Recorder};
use kube::runtime::watcher;
use kube::{Api, Client, Resource};
use tokio_util::sync::CancellationToken;

pub use observe::Seen;
pub use plan::{Decision, Strategy, plan};

/// The value of `spec.schedulerName` that this scheduler answers to.
pub const SCHEDULER_NAME: &str = "default-scheduler";

/// The one value of the index of Shoots that wait for a seed.
const PENDING: &str = "pending";

/// Schedules shoots until `stop`, into seeds of their own region. `client` reaches the garden as the scheduler's user.
pub async fn run(client: Client, clock: Clock, stop: CancellationToken) {
    run_with(client, clock, Strategy::default(), stop).await;
}

/// Like [`run`], comparing regions as `strategy` says.
pub async fn run_with(client: Client, clock: Clock, strategy: Strategy, stop: CancellationToken) {
    let context = Context::start(client, clock, strategy, &stop);
    let caches = context.caches.clone();
    let pending = caches.pending.clone();
    let controller = Controller::new("scheduler", caches.shoots.clone())
        .only(is_ours)
        .watches(&caches.seeds, all_pending(&pending))
        .watches(&caches.profiles, all_pending(&pending))
        .watches(&caches.namespaced_profiles, all_pending(&pending))
        .watches(&caches.exposure_classes, all_pending(&pending))
        .watches(&caches.shoots, room_made(&pending));
    controller
        .run(stop, move |shoot| {
            let context = context.clone();
            async move { context.reconcile(&shoot).await }
        })
        .await;
}

/// Whether this scheduler has to find a seed for the shoot.
fn is_ours(shoot: &Shoot) -> bool {
    shoot.spec.seed_name.is_none()
        && shoot.metadata.deletion_timestamp.is_none()
        && shoot
            .spec
            .scheduler_name
            .as_deref()
            .is_none_or(|name| name == SCHEDULER_NAME)
}

/// A change of anything the decision depends on calls for every shoot without seed.
fn all_pending<R: Resource>(pending: &Index<Shoot>) -> impl Fn(&Change<R>) -> Vec<ObjectKey> + Send + Sync + 'static {
    let pending = pending.clone();
    move |_| pending.keys(PENDING)
}

/// A shoot that leaves a seed may make room there.
fn room_made(pending: &Index<Shoot>) -> impl Fn(&Change<Shoot>) -> Vec<ObjectKey> + Send + Sync + 'static {
    let pending = pending.clone();
    move |change| {
        let seed = |shoot: &Shoot| shoot.spec.seed_name.clone();
        let before = change.old.as_deref().unwrap_or(&change.object);
        let left = seed(before).is_some() && change.new().and_then(seed) != seed(before);
        if left { pending.keys(PENDING) } else { Vec::new() }
    }
}

/// Caches of everything the decision depends on.
#[derive(Clone)]
pub(crate) struct Caches {
    pub(crate) shoots: Cache<Shoot>,
    /// Those that have a seed, by its name.
    pub(crate) by_seed: Index<Shoot>,
    /// Those that wait for a seed from this scheduler, by [`PENDING`].
    pub(crate) pending: Index<Shoot>,
    pub(crate) seeds: Cache<Seed>,
    pub(crate) profiles: Cache<CloudProfile>,
    pub(crate) namespaced_profiles: Cache<NamespacedCloudProfile>,
    pub(crate) exposure_classes: Cache<ExposureClass>,
}

/// What every reconcile needs.
#[derive(Clone)]
pub(crate) struct Context {
    pub(crate) client: Client,
    pub(crate) clock: Clock,
    pub(crate) strategy: Strategy,
    pub(crate) caches: Caches,
    pub(crate) recorder: Recorder,
}

impl Context {
    fn start(client: Client, clock: Clock, strategy: Strategy, stop: &CancellationToken) -> Self {
        fn start_cache<K>(client: &Client, stop: &CancellationToken) -> Cache<K>
        where
            K: Resource<DynamicType = ()>
                + Clone
                + serde::de::DeserializeOwned
                + std::fmt::Debug
                + Send
                + Sync
                + 'static,
        {
            Cache::start(Api::all(client.clone()), watcher::Config::default(), stop.clone())
        }
        let shoots: Cache<Shoot> = start_cache(&client, stop);
        let caches = Caches {
            by_seed: shoots.index(|shoot| shoot.spec.seed_name.clone()),
            pending: shoots.index(|shoot| is_ours(shoot).then(|| PENDING.to_owned())),
            shoots,
            seeds: start_cache(&client, stop),
            profiles: start_cache(&client, stop),
            namespaced_profiles: start_cache(&client, stop),
            exposure_classes: start_cache(&client, stop),
        };
        let recorder = Recorder::new(client.clone(), "gardener-scheduler", clock.clone());
        Self {
            client,
            clock,
            strategy,
            caches,
            recorder,
        }
    }

    async fn reconcile(&self, shoot: &Shoot) -> Result<Next, Fault> {
        let seen = observe::observe(shoot, &self.caches).await;
        let decision = plan(shoot, &seen, self.strategy);
        let done = apply::apply(shoot, decision, self).await?;
        report::report(shoot, &done, self).await
    }
}
