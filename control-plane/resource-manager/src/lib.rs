//! gardener-resource-manager: applies what ManagedResources of one class ask for, takes back what they no longer ask
//! for, and reports whether it runs (semantics of gardener/gardener v1.150 pkg/resourcemanager/controller/managedresource).
//!
//! It reads ManagedResources and their Secrets in the *source* cluster and writes objects in the *target*, by
//! server-side apply: fields that others set stay theirs. Values of keys that end in `.br` are decompressed. Beside
//! that it fills Secrets with tokens of the target, deletes Secrets and ConfigMaps that nothing refers to any more, makes
//! network policies for Services and approves certificates of kubelets, each only where [`Options`] enable it.
//!
//! What it refuses: an object that belongs to another ManagedResource which still wants it (upstream takes it over, and
//! the two overwrite each other), a kind that the target does not serve, an object that is given twice, and what server-side
//! apply refuses though an update takes it: fields that the kind does not have, ports that are given twice. Labels and
//! annotations that others add where `forceOverwriteLabels` or `forceOverwriteAnnotations` is set are removed at the
//! next turn, whatever calls for it; those of Kubernetes' own controllers stay. Of upstream's kinds with a health it
//! leaves out those of custom resources: Prometheus, Alertmanager, VerticalPodAutoscaler, Certificate, Issuer.
//!
//! What another writer changes or deletes in the target is applied again, and a target that comes back without its data
//! gets everything: upstream leaves both to its regular resync, here watches report it.

mod apply;
mod care;
mod collect;
mod decode;
mod drift;
mod health;
mod identity;
mod kinds;
mod kubelet_certificates;
mod merge;
mod naming;
mod network_policies;
mod owner;
mod plan;
mod prepare;
mod reconcile;
mod release;
mod remove;
mod report;
mod waits;
mod webhooks;

use std::sync::Arc;

use api_config::{NetworkPolicy, ResourceManagerConfiguration};
use api_meta::Fault;
use api_resources::ManagedResource;
use base_clock::Clock;
use base_controller::{Cache, Change, Controller, Next, ObjectKey, changed_by_others};
use futures::StreamExt;
use futures::stream::{BoxStream, select};
use k8s_openapi::api::core::v1::Secret;
use kube::runtime::watcher;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use crate::care::{All, Drift, Targets};
use crate::drift::Drifts;
use crate::identity::Identity;
use crate::kinds::Kinds;
use crate::waits::Waits;

pub use network_policies::{IngressController, NetworkPolicies};
pub use webhooks::webhooks;

/// Which ManagedResources are acted on, and under which identity.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options {
    /// Namespace of the source in which ManagedResources are looked for; none means all.
    pub namespace: Option<String>,
    /// Class of the ManagedResources: none for those of a shoot, `seed` for a seed's own.
    pub class: Option<String>,
    /// Stands before the origin on every applied object, so that two sources of one target distinguish theirs; may be
    /// empty.
    pub cluster_id: String,
    /// Whether Secrets and ConfigMaps of the target that nothing refers to any more are deleted.
    pub garbage_collection: bool,
    /// Class of the Secrets that are filled with tokens of the target; none means that none are.
    pub token_requestor: Option<String>,
    /// Whether network policies are made for Services of the target, and where; none means that none are.
    pub network_policies: Option<NetworkPolicies>,
    /// Namespace of the source with the machines of the target's nodes, whose kubelets' certificates are approved; none means
    /// that none are.
    pub machine_namespace: Option<String>,
}

impl From<ResourceManagerConfiguration> for Options {
    fn from(configuration: ResourceManagerConfiguration) -> Self {
        let policies = |settings: NetworkPolicy| NetworkPolicies {
            namespace_selectors: settings.namespace_selectors,
            ingress_controller: settings.ingress_controller.map(|ingress| IngressController {
                namespace: ingress.namespace,
                pod_labels: ingress.pod_labels,
            }),
        };
        Self {
            namespace: configuration.namespace,
            class: configuration.class,
            cluster_id: configuration.cluster_id,
            garbage_collection: configuration.garbage_collection,
            token_requestor: configuration.token_requestor,
            network_policies: configuration.network_policies.map(policies),
            machine_namespace: configuration.machine_namespace,
        }
    }
}

/// The label that a pod needs to connect to a port of a Service under the policies that are made here, `alias` standing
/// for the Service's namespace when that is not the pod's.
#[must_use]
pub fn network_policy_label(alias: Option<&str>, service: &str, protocol: &str, port: &str) -> String {
    network_policies::label_for(alias, service, protocol, port)
}

/// What reconciles work with.
pub(crate) struct Context {
    pub(crate) source: Client,
    pub(crate) target: Client,
    pub(crate) options: Options,
    pub(crate) clock: Clock,
    pub(crate) resources: Cache<ManagedResource>,
    pub(crate) secrets: Cache<Secret>,
    pub(crate) kinds: Kinds,
    pub(crate) targets: Arc<Targets>,
    pub(crate) drifts: Drifts,
    pub(crate) waits: Waits,
    pub(crate) identity: Arc<Identity>,
    /// Cancelled once this is to end.
    pub(crate) stop: CancellationToken,
}

/// Runs until `stop`.
pub async fn run(source: Client, target: Client, options: Options, clock: Clock, stop: CancellationToken) {
    let resources: Cache<ManagedResource> =
        Cache::start(scoped(&source, &options), watcher::Config::default(), stop.clone());
    let secrets: Cache<Secret> = Cache::start(scoped(&source, &options), watcher::Config::default(), stop.clone());
    let collecting = collecting(&target, &options, &clock, &stop);
    let requesting = requesting(&source, &target, &options, &clock, &stop);
    let closing = closing(&target, &options, &clock, &stop);
    let approving = approving((&source, &target), &options, &clock, &stop);
    let targets = Arc::new(Targets::start(&target, &stop));
    let identity = Identity::start(&target, &stop);
    let (drifts, drifted) = Drifts::new(target.clone(), options.cluster_id.clone(), stop.clone());
    let (waits, gone) = Waits::new(stop.clone());
    let context = Arc::new(Context {
        source,
        kinds: Kinds::new(target.clone()),
        target,
        options,
        clock,
        resources: resources.clone(),
        secrets,
        targets,
        drifts,
        waits,
        identity,
        stop: stop.clone(),
    });
    let called = select(drifted, gone).boxed();
    let applying = applying(&resources, &context, called, stop.clone());
    let caring = caring(&resources, &context, stop);
    // Each on the heap: together they are larger than a future on the stack should be.
    tokio::join!(
        Box::pin(applying),
        Box::pin(caring),
        Box::pin(requesting),
        Box::pin(collecting),
        Box::pin(closing),
        Box::pin(approving)
    );
}

/// Deletes what nothing refers to any more, if that is asked for.
fn collecting(
    target: &Client,
    options: &Options,
    clock: &Clock,
    stop: &CancellationToken,
) -> impl Future<Output = ()> + use<> {
    let (wanted, stop) = (options.garbage_collection, stop.clone());
    let (target, clock) = (target.clone(), clock.clone());
    async move {
        if wanted {
            stop.run_until_cancelled(collect::run(target, clock)).await;
        }
    }
}

/// Fills Secrets with tokens of the target, if that is asked for.
fn requesting(
    source: &Client,
    target: &Client,
    options: &Options,
    clock: &Clock,
    stop: &CancellationToken,
) -> impl Future<Output = ()> + use<> {
    let requestor = options.token_requestor.clone().map(|class| {
        let options = base_token_requestor::Options {
            namespace: options.namespace.clone(),
            class,
            account_namespace: None,
            ca_bundle: None,
        };
        base_token_requestor::run(source.clone(), target.clone(), options, clock.clone(), stop.clone())
    });
    async move {
        if let Some(requestor) = requestor {
            requestor.await;
        }
    }
}

/// Makes network policies for Services, if that is asked for.
fn closing(
    target: &Client,
    options: &Options,
    clock: &Clock,
    stop: &CancellationToken,
) -> impl Future<Output = ()> + use<> {
    let policies = options.network_policies.clone();
    let policies =
        policies.map(|policies| network_policies::run(target.clone(), policies, clock.clone(), stop.clone()));
    async move {
        if let Some(policies) = policies {
            policies.await;
        }
    }
}

/// Approves certificates of kubelets, if the options name the namespace of their machines.
fn approving(
    (source, target): (&Client, &Client),
    options: &Options,
    clock: &Clock,
    stop: &CancellationToken,
) -> impl Future<Output = ()> + use<> {
    let approver = options.machine_namespace.clone().map(|namespace| {
        let (source, target) = (source.clone(), target.clone());
        kubelet_certificates::run(source, target, namespace, clock.clone(), stop.clone())
    });
    async move {
        if let Some(approver) = approver {
            approver.await;
        }
    }
}

async fn applying(
    resources: &Cache<ManagedResource>,
    context: &Arc<Context>,
    called: BoxStream<'static, ObjectKey>,
    stop: CancellationToken,
) {
    let users = resources.clone();
    let class = context.options.class.clone();
    let mut controller = Controller::new("resource-manager", resources.clone())
        // One whose class has changed keeps our finalizer until its objects are gone from our target.
        .only(move |resource| {
            let class = class.as_deref();
            naming::is_of_class(resource, class) || naming::is_held(resource, class)
        })
        .watches(&context.secrets, move |change| users_of(&users, change));
    controller = context.targets.call(controller, &context.options.cluster_id, Drift);
    controller = context.identity.call(controller).called_by(called);
    if stop.run_until_cancelled(context.secrets.ready()).await.is_none() {
        return;
    }
    let context = context.clone();
    controller
        .run(stop, move |resource| apply_one(resource, context.clone()))
        .await;
}

async fn apply_one(resource: Arc<ManagedResource>, context: Arc<Context>) -> Result<Next, Fault> {
    reconcile::reconcile(&resource, &context).await
}

async fn caring(resources: &Cache<ManagedResource>, context: &Arc<Context>, stop: CancellationToken) {
    let class = context.options.class.clone();
    let mut controller = Controller::new("resource-health", resources.clone())
        .only(move |resource| naming::is_of_class(resource, class.as_deref()))
        // The other controller writes into the status what there is to look after.
        .when(|_, _| true);
    controller = context.targets.call(controller, &context.options.cluster_id, All);
    controller = context.targets.call_by_pods(controller, &context.options.cluster_id);
    if stop.run_until_cancelled(context.targets.ready()).await.is_none() {
        return;
    }
    let context = context.clone();
    controller
        .run(stop, move |resource| care_for_one(resource, context.clone()))
        .await;
}

async fn care_for_one(resource: Arc<ManagedResource>, context: Arc<Context>) -> Result<Next, Fault> {
    care::care(&resource, &context).await
}

/// Whether another writer changed an applied object, beyond its status.
fn drifted<K: Resource>(old: Option<&K>, new: Option<&K>) -> bool {
    match (old, new) {
        (Some(_), Some(new)) => changed_by_others(old, new),
        // A new one is our own doing.
        (None, Some(_)) => false,
        (_, None) => true,
    }
}

fn users_of(resources: &Cache<ManagedResource>, change: &Change<Secret>) -> Vec<ObjectKey> {
    let secret = ObjectKey::of(&*change.object);
    let Some(namespace) = &secret.namespace else {
        return Vec::new();
    };
    let refers = |resource: &ManagedResource| {
        resource
            .spec
            .secret_refs
            .iter()
            .any(|reference| reference.name == secret.name)
    };
    resources
        .list_in(namespace)
        .iter()
        .filter(|resource| refers(resource))
        .map(|resource| ObjectKey::of(&**resource))
        .collect()
}

fn scoped<K>(client: &Client, options: &Options) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope> + DeserializeOwned,
{
    match &options.namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    }
}
