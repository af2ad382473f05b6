//! Makes network policies for Services: what their ports and annotations open is opened for pods that request it by a
//! label, in both directions, beside a policy that denies everything (gardener/gardener v1.150
//! pkg/resourcemanager/controller/networkpolicy). It writes no other policies and deletes none but its own.

mod desired;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use api_meta::Fault;
use api_meta::labels::network as marks;
use base_client::{apply, delete};
use base_clock::Clock;
use base_controller::{Cache, Change, Controller, EventType, Index, Next, ObjectKey, Recorder};
use k8s_openapi::api::core::v1::{Namespace, Pod, Service};
use k8s_openapi::api::networking::v1::{Ingress, NetworkPolicy};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::PartialObjectMeta;
use kube::core::{Selector, SelectorExt};
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt};
use tokio_util::sync::CancellationToken;

pub(crate) use desired::label_for;
use desired::{Desired, Surroundings, desired, namespace_selectors, selectors_text};

/// Field manager of the policies.
const MANAGER: &str = "gardener-resource-manager";

/// Settings of the controller.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NetworkPolicies {
    /// The namespaces whose Services get policies, each selector by itself; none means all.
    pub namespace_selectors: Vec<LabelSelector>,
    /// The pods through which Ingresses are reached, if there are any.
    pub ingress_controller: Option<IngressController>,
}

/// The pods of an ingress controller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IngressController {
    /// Their namespace.
    pub namespace: String,
    /// Their labels.
    pub pod_labels: BTreeMap<String, String>,
}

struct Context {
    client: Client,
    handled: Vec<Selector>,
    ingress_controller: Option<IngressController>,
    events: Recorder,
    caches: Caches,
    requested: Arc<Requested>,
}

#[derive(Clone)]
struct Caches {
    services: Cache<Service>,
    /// Those that select namespaces, by the text of their selectors: most have the same.
    selecting: Index<Service>,
    policies: Cache<NetworkPolicy>,
    /// By the Service that they were made for.
    of_services: Index<NetworkPolicy>,
    namespaces: Cache<Namespace>,
    /// By each of their labels, as `key=value`.
    labelled: Index<Namespace>,
    pods: Cache<PartialObjectMeta<Pod>>,
    ingresses: Option<Cache<Ingress>>,
}

/// Runs until `stop`.
pub(crate) async fn run(client: Client, options: NetworkPolicies, clock: Clock, stop: CancellationToken) {
    let handled = options.namespace_selectors.into_iter().map(Selector::try_from);
    let handled: Vec<Selector> = match handled.collect() {
        Ok(handled) => handled,
        Err(error) => {
            tracing::error!(%error, "no network policies are made: a namespace selector cannot be read");
            return;
        }
    };
    let caches = Caches::start(&client, options.ingress_controller.is_some(), &stop);
    let context = Arc::new(Context {
        events: Recorder::new(client.clone(), "networkpolicy-controller", clock),
        client,
        handled,
        ingress_controller: options.ingress_controller,
        requested: Arc::default(),
        caches: caches.clone(),
    });
    let making = making(&context);
    let clearing = clearing(&context);
    if stop.run_until_cancelled(caches.ready()).await.is_none() {
        return;
    }
    let (first, second) = (context.clone(), context);
    tokio::join!(
        making.run(stop.clone(), move |service| reconcile(service, first.clone())),
        clearing.run(stop, move |policy| clear(policy, second.clone())),
    );
}

impl Caches {
    fn start(client: &Client, with_ingresses: bool, stop: &CancellationToken) -> Self {
        let all = watcher::Config::default;
        let ours = all().labels(&format!("{},{}", marks::SERVICE_NAME, marks::SERVICE_NAMESPACE));
        let services: Cache<Service> = Cache::start(Api::all(client.clone()), all(), stop.clone());
        let policies: Cache<NetworkPolicy> = Cache::start(Api::all(client.clone()), ours, stop.clone());
        let namespaces: Cache<Namespace> = Cache::start(Api::all(client.clone()), all(), stop.clone());
        Caches {
            selecting: services.index(|service| selectors_text(service).map(str::to_owned)),
            services,
            of_services: policies.index(|policy| service_of(policy).map(|service| service.to_string())),
            policies,
            labelled: namespaces.index(|namespace| {
                let labels = namespace.labels().iter();
                labels.map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>()
            }),
            namespaces,
            pods: Cache::start(Api::all(client.clone()), all(), stop.clone()),
            ingresses: with_ingresses.then(|| Cache::start(Api::all(client.clone()), all(), stop.clone())),
        }
    }

    async fn ready(&self) {
        self.services.ready().await;
        self.policies.ready().await;
        self.namespaces.ready().await;
        self.pods.ready().await;
        if let Some(ingresses) = &self.ingresses {
            ingresses.ready().await;
        }
    }

    /// The Services whose policies depend on a namespace that has, or had, these labels: its own, and those of others that
    /// select it. A seed of many Shoots has many of the latter, of which a change of a Shoot's namespace concerns none.
    fn concerned(&self, namespace: &str, labels: &[&BTreeMap<String, String>]) -> Vec<ObjectKey> {
        let selects = |selector: LabelSelector| {
            let selector = Selector::try_from(selector).ok();
            selector.is_some_and(|selector| labels.iter().any(|labels| selector.matches(labels)))
        };
        let own = self.services.list_in(namespace).into_iter();
        let mut concerned: BTreeSet<ObjectKey> = own.map(|service| ObjectKey::of(&*service)).collect();
        for text in self.selecting.counts().keys() {
            let of_one = self.selecting.get(text);
            let selectors = of_one.and_then(|service| namespace_selectors(&service).ok());
            if selectors.unwrap_or_default().into_iter().any(selects) {
                concerned.extend(self.selecting.keys(text));
            }
        }
        concerned.into_iter().collect()
    }

    /// The namespaces that may match the selector: those with one of the labels that it demands, or all.
    fn candidates(&self, selector: &LabelSelector) -> Vec<Arc<Namespace>> {
        let label = selector.match_labels.iter().flatten().next();
        match label {
            Some((key, value)) => self.labelled.list(&format!("{key}={value}")),
            None => self.namespaces.list(),
        }
    }

    /// The same for a namespace as it is known.
    fn concerned_now(&self, namespace: &str) -> Vec<ObjectKey> {
        let known = self.namespaces.get(&ObjectKey::cluster(namespace));
        let labels: Vec<&BTreeMap<String, String>> = known.iter().map(|namespace| namespace.labels()).collect();
        self.concerned(namespace, &labels)
    }
}

/// The controller that makes policies.
fn making(context: &Arc<Context>) -> Controller<Service> {
    let caches = &context.caches;
    let (of_namespaces, of_pods, requested) = (caches.clone(), caches.clone(), context.requested.clone());
    let controller = Controller::new("networkpolicy", caches.services.clone())
        .when(|old, new| old.is_none_or(|old| differs(old, new)))
        .watches(&caches.policies, |change| {
            service_of(&change.object).into_iter().collect()
        })
        .watches(&caches.namespaces, move |change| {
            let same = change.old.as_ref().is_some_and(|old| {
                let going = |namespace: &Namespace| namespace.metadata.deletion_timestamp.is_some();
                old.labels() == change.object.labels() && going(old) == going(&change.object)
            });
            match same && !change.deleted {
                true => Vec::new(),
                false => {
                    let both = change.old.iter().chain([&change.object]);
                    let labels: Vec<&BTreeMap<String, String>> = both.map(|namespace| namespace.labels()).collect();
                    of_namespaces.concerned(&change.object.name_any(), &labels)
                }
            }
        })
        .watches(&caches.pods, move |change| {
            let namespace = change.object.namespace().unwrap_or_default();
            match requested.take(change) {
                true => of_pods.concerned_now(&namespace),
                false => Vec::new(),
            }
        });
    match &caches.ingresses {
        Some(ingresses) => {
            let services = caches.services.clone();
            controller.watches(ingresses, move |change| {
                let namespace = change.object.namespace().unwrap_or_default();
                let services = services.list_in(&namespace);
                services.iter().map(|service| ObjectKey::of(&**service)).collect()
            })
        }
        None => controller,
    }
}

/// The controller that deletes policies of Services that are gone.
fn clearing(context: &Arc<Context>) -> Controller<NetworkPolicy> {
    let policies = context.caches.of_services.clone();
    Controller::new("networkpolicy-clearing", context.caches.policies.clone()).watches(
        &context.caches.services,
        move |change| {
            if !change.deleted {
                return Vec::new();
            }
            let key = ObjectKey::of(&*change.object);
            policies.keys(&key.to_string())
        },
    )
}

fn differs(old: &Service, new: &Service) -> bool {
    let ours = |service: &Service| -> BTreeMap<String, String> {
        let notes = service.annotations().iter();
        notes
            .filter(|(key, _)| key.starts_with(marks::PREFIX))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect()
    };
    let spec = |service: &Service| {
        service
            .spec
            .as_ref()
            .map(|spec| (spec.selector.clone(), spec.ports.clone()))
    };
    let going = |service: &Service| service.metadata.deletion_timestamp.is_some();
    going(old) != going(new) || spec(old) != spec(new) || ours(old) != ours(new)
}

/// The Service that a policy was made for.
fn service_of(policy: &NetworkPolicy) -> Option<ObjectKey> {
    let labels = policy.labels();
    Some(ObjectKey::namespaced(
        labels.get(marks::SERVICE_NAMESPACE)?,
        labels.get(marks::SERVICE_NAME)?,
    ))
}

async fn reconcile(service: Arc<Service>, context: Arc<Context>) -> Result<Next, Fault> {
    let key = ObjectKey::of(&*service);
    let wanted = match context.is_handled(&service) {
        true => context.desired(&service)?,
        false => Desired::default(),
    };
    let names: BTreeSet<ObjectKey> = wanted.policies.iter().map(ObjectKey::of).collect();
    for policy in &wanted.policies {
        if !context.is_there(policy) {
            let namespace = policy.namespace().unwrap_or_default();
            apply(&Api::namespaced(context.client.clone(), &namespace), policy, MANAGER).await?;
        }
    }
    for policy in context.caches.of_services.list(&key.to_string()) {
        if !names.contains(&ObjectKey::of(&*policy)) {
            context.delete(&policy).await?;
        }
    }
    for (long, short) in &wanted.shortened {
        let message = format!(
            "Usual pod label selector has at least one key exceeding 63 characters and had to be mutated - consider \
             shortening the namespace name or the service name ({long} was mutated to {short})"
        );
        context
            .events
            .record(&*service, EventType::Warning, "PodLabelSelectorKey(s)TooLong", &message)
            .await;
    }
    Ok(Next::Change)
}

async fn clear(policy: Arc<NetworkPolicy>, context: Arc<Context>) -> Result<Next, Fault> {
    let gone = service_of(&policy).is_some_and(|service| context.caches.services.get(&service).is_none());
    if gone {
        context.delete(&policy).await?;
    }
    Ok(Next::Change)
}

impl Context {
    fn is_handled(&self, service: &Service) -> bool {
        let namespace = service.namespace().unwrap_or_default();
        let Some(namespace) = self.caches.namespaces.get(&ObjectKey::cluster(namespace)) else {
            return false;
        };
        // A namespace that goes takes everything with it.
        namespace.metadata.deletion_timestamp.is_none()
            && service.metadata.deletion_timestamp.is_none()
            && (self.handled.is_empty() || self.handled.iter().any(|selector| selector.matches(namespace.labels())))
    }

    fn desired(&self, service: &Service) -> Result<Desired, Fault> {
        let own = service.namespace().unwrap_or_default();
        let unreadable = |error: &dyn std::error::Error| {
            Fault::user(error.to_string()).hint("correct the annotation of the Service, or remove it")
        };
        let mut namespaces = BTreeSet::from([own.clone()]);
        for selector in namespace_selectors(service).map_err(|error| unreadable(&error))? {
            let candidates = self.caches.candidates(&selector);
            let selector = Selector::try_from(selector).map_err(|error| unreadable(&error))?;
            let stays = |namespace: &&Arc<Namespace>| namespace.metadata.deletion_timestamp.is_none();
            let selected = candidates.iter().filter(stays);
            namespaces.extend(
                selected
                    .filter(|namespace| selector.matches(namespace.labels()))
                    .map(|namespace| namespace.name_any()),
            );
        }
        let label_keys = namespaces
            .iter()
            .map(|namespace| (namespace.clone(), self.label_keys(namespace)))
            .collect();
        let ingresses = self.caches.ingresses.as_ref().map(|ingresses| ingresses.list_in(&own));
        let ingresses: Vec<Ingress> = ingresses
            .into_iter()
            .flatten()
            .map(|ingress| (*ingress).clone())
            .collect();
        let around = Surroundings {
            namespaces: &namespaces,
            label_keys: &label_keys,
            ingresses: &ingresses,
            ingress_controller: self.ingress_controller.as_ref(),
        };
        desired(service, &around).map_err(|error| unreadable(&error))
    }

    /// The keys of labels by which the pods of a namespace request connections.
    fn label_keys(&self, namespace: &str) -> BTreeSet<String> {
        let pods = self.caches.pods.list_in(namespace);
        pods.iter().flat_map(|pod| keys_of(pod)).collect()
    }

    /// Whether a policy is there as it is wanted.
    fn is_there(&self, wanted: &NetworkPolicy) -> bool {
        let present = self.caches.policies.get(&ObjectKey::of(wanted));
        present.is_some_and(|present| {
            let has = |there: &BTreeMap<String, String>, all: &BTreeMap<String, String>| {
                all.iter().all(|(key, value)| there.get(key) == Some(value))
            };
            present.spec == wanted.spec
                && has(present.labels(), wanted.labels())
                && has(present.annotations(), wanted.annotations())
        })
    }

    async fn delete(&self, policy: &NetworkPolicy) -> Result<(), Fault> {
        let namespace = policy.namespace().unwrap_or_default();
        let policies: Api<NetworkPolicy> = Api::namespaced(self.client.clone(), &namespace);
        delete(&policies, &policy.name_any()).await
    }
}

fn keys_of(pod: &PartialObjectMeta<Pod>) -> BTreeSet<String> {
    let prefix = format!("{}to-", marks::PREFIX);
    let keys = pod.labels().keys().filter(|key| key.starts_with(&prefix));
    keys.cloned().collect()
}

/// How many pods of each namespace carry which of those keys, so that only the first and the last one of a key call for
/// the Services.
#[derive(Default)]
struct Requested(Mutex<BTreeMap<(String, String), usize>>);

impl Requested {
    /// Takes a change of a pod; true when its namespace has a key more, or less, than before.
    fn take(&self, change: &Change<PartialObjectMeta<Pod>>) -> bool {
        let namespace = change.object.namespace().unwrap_or_default();
        let old = change.old.as_deref().map(keys_of).unwrap_or_default();
        let new = change.new().map(keys_of).unwrap_or_default();
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut changed = false;
        for key in new.difference(&old) {
            let count = counts.entry((namespace.clone(), key.clone())).or_default();
            *count += 1;
            changed |= *count == 1;
        }
        for key in old.difference(&new) {
            let place = (namespace.clone(), key.clone());
            // A pod that existed before counting began is not among them.
            let count = counts.entry(place.clone()).or_insert(1);
            *count = count.saturating_sub(1);
            if *count == 0 {
                counts.remove(&place);
                changed = true;
            }
        }
        changed
    }
}
