//! What the seed has of a Shoot, and where its extensions run. Reads only.

use std::collections::BTreeMap;

use api_core::v1beta1::{ControllerInstallation, Seed};
use api_extensions::{ExtensionKind, ExtensionObject, ForKind, Owner};
use api_machine::MachinePhase;
use api_meta::conditions::managed_resource::{self, RESOURCES_APPLIED, RESOURCES_PROGRESSING};
use api_meta::conditions::{ACTION_REQUIRED, BOOTSTRAP_TOKEN_REFUSED};
use api_meta::{Condition, ConditionStatus, Fault, ObjectName, Seen, WebhookFailure, names};
use api_resources::ManagedResource;
use base_client::{api_in, list};
use control_plane_readiness::{
    deployment_not_rolled_out, not_applied, reported, set_not_rolled_out, unhealthy, webhooks,
};
use futures::FutureExt;
use futures::future::BoxFuture;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{ConfigMap, Event, Namespace, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};
use kube::{Api, Client, ResourceExt};

use super::{pods, renewed, seen};
use crate::facts::{Controller, ExtensionFact, InSeed, Installed, Machine, Refusal, Resource, Workload};

/// The Deployment that applies ManagedResources of class `seed`.
const RESOURCE_MANAGER: &str = "gardener-resource-manager";

pub(super) async fn observe(
    client: &Client,
    namespace: &str,
    seed: Option<&Seed>,
    installations: Option<&Vec<ControllerInstallation>>,
) -> Seen<InSeed> {
    if let Err(why) = same_seed(client, seed).await {
        return Seen::Unknown(why);
    }
    let (extensions, workloads, resources, machines, refusals, webhooks, labels) = futures::join!(
        extensions(client, namespace, seed),
        workloads(client, namespace),
        resources(client, namespace),
        machines(client, namespace),
        refusals(client, namespace),
        webhooks(client),
        labels(client, namespace),
    );
    let mut controllers = Vec::new();
    for installation in installations.into_iter().flatten() {
        let place = installation.spec.seed_ref.as_ref().and_then(|seed| seed.name.as_ref());
        if place == seed.and_then(|seed| seed.metadata.name.as_ref()) {
            controllers.push(controller(client, &installation.name_any()).await);
        }
    }
    Seen::Present(InSeed {
        extensions: seen(extensions),
        workloads: seen(workloads),
        resources: seen(resources),
        machines: seen(machines),
        controllers,
        refusals: seen(refusals),
        webhooks: seen(webhooks),
        labels,
    })
}

/// A kubeconfig of another seed would show nothing of the Shoot and seem to say that nothing is there.
async fn same_seed(client: &Client, seed: Option<&Seed>) -> Result<(), String> {
    let known = seed.and_then(|seed| seed.status.as_ref()?.cluster_identity.clone());
    let Some(known) = known else { return Ok(()) };
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), "kube-system");
    match base_client::observe(&api, names::CLUSTER_IDENTITY).await {
        Seen::Present(map) => match map.data.unwrap_or_default().get(names::CLUSTER_IDENTITY) {
            Some(identity) if *identity != known => Err(format!(
                "the seed's kubeconfig reaches cluster {identity:?}, and the Shoot's seed is {known:?}"
            )),
            _ => Ok(()),
        },
        Seen::Absent => Ok(()),
        Seen::Unknown(why) => Err(why),
    }
}

/// The kinds whose trouble is shown first: what others wait for, and what a person looks at first. Other kinds follow.
const FIRST: [ExtensionKind; 9] = [
    ExtensionKind::Infrastructure,
    ExtensionKind::ControlPlane,
    ExtensionKind::Worker,
    ExtensionKind::Network,
    ExtensionKind::DNSRecord,
    ExtensionKind::OperatingSystemConfig,
    ExtensionKind::Extension,
    ExtensionKind::ContainerRuntime,
    ExtensionKind::Bastion,
];

/// The extension objects of the Shoot, and those of its seed that they rest on. Of every kind.
async fn extensions(client: &Client, namespace: &str, seed: Option<&Seed>) -> Result<Vec<ExtensionFact>, Fault> {
    let seed = seed.and_then(|seed| seed.metadata.uid.as_deref());
    let mut all = Vec::new();
    for kind in ExtensionKind::ALL {
        let read = OfKind {
            client,
            namespace,
            seed,
        };
        all.extend(kind.with(read).await?);
    }
    let rank = |fact: &ExtensionFact| FIRST.iter().position(|kind| kind.kind() == fact.id.kind);
    all.sort_by_key(|fact| rank(fact).unwrap_or(FIRST.len()));
    Ok(all)
}

/// Reads the objects of one kind.
struct OfKind<'a> {
    client: &'a Client,
    namespace: &'a str,
    /// The name of the seed's own objects.
    seed: Option<&'a str>,
}

impl<'a> ForKind for OfKind<'a> {
    type Output = BoxFuture<'a, Result<Vec<ExtensionFact>, Fault>>;

    fn call<K: ExtensionObject>(self) -> Self::Output {
        async move {
            let objects: Vec<K> = list(&api_in(self.client, self.namespace), "").await?;
            let concerned = objects.iter().filter(|object| match K::ROW.owner() {
                Owner::Shoot => K::ROW.is_of_shoot(object.meta(), self.namespace),
                Owner::Seed => object
                    .meta()
                    .name
                    .as_deref()
                    .is_some_and(|name| self.seed == Some(name)),
            });
            Ok(concerned.map(fact).collect())
        }
        .boxed()
    }
}

fn fact<K: ExtensionObject>(object: &K) -> ExtensionFact {
    let metadata = kube::Resource::meta(object);
    ExtensionFact {
        id: name_of(object),
        reported: reported(object),
        deleting: at(metadata.deletion_timestamp.as_ref()),
        finalizers: metadata.finalizers.clone().unwrap_or_default(),
        created: at(metadata.creation_timestamp.as_ref()),
        labels: metadata.labels.clone().unwrap_or_default(),
    }
}

async fn labels(client: &Client, namespace: &str) -> BTreeMap<String, String> {
    let api: Api<Namespace> = Api::all(client.clone());
    let found = base_client::observe(&api, namespace).await;
    let labels = found.present().and_then(|found| found.metadata.labels.clone());
    labels.unwrap_or_default()
}

fn name_of<K: kube::Resource<DynamicType = ()>>(object: &K) -> ObjectName {
    let metadata = object.meta();
    ObjectName::new(
        K::kind(&()),
        metadata.namespace.as_deref(),
        metadata.name.clone().unwrap_or_default(),
    )
}

fn at(time: Option<&Time>) -> Option<Timestamp> {
    time.map(|time| time.0)
}

async fn workloads(client: &Client, namespace: &str) -> Result<Vec<Workload>, Fault> {
    let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let pods: Vec<Pod> = list(&api, "").await?;
    let facts = pods::facts(&api, &pods).await;
    let deployments: Vec<Deployment> = list(&Api::namespaced(client.clone(), namespace), "").await?;
    let sets: Vec<StatefulSet> = list(&Api::namespaced(client.clone(), namespace), "").await?;
    let workload = |object: ObjectName, selector: Option<&LabelSelector>, wanted, trouble| Workload {
        object,
        wanted,
        trouble,
        pods: pods
            .iter()
            .filter(|pod| selector.is_some_and(|selector| selects(selector, pod.labels())))
            .filter_map(|pod| facts.get(&pod.name_any()).cloned())
            .collect(),
    };
    let of_deployment = |one: &Deployment| {
        let spec = one.spec.as_ref();
        let wanted = spec.and_then(|spec| spec.replicas).unwrap_or(1);
        let selector = spec.map(|spec| &spec.selector);
        workload(name_of(one), selector, wanted, deployment_not_rolled_out(one))
    };
    let of_set = |one: &StatefulSet| {
        let spec = one.spec.as_ref();
        let wanted = spec.and_then(|spec| spec.replicas).unwrap_or(1);
        let selector = spec.map(|spec| &spec.selector);
        workload(name_of(one), selector, wanted, set_not_rolled_out(one))
    };
    Ok(deployments
        .iter()
        .map(of_deployment)
        .chain(sets.iter().map(of_set))
        .collect())
}

/// By labels alone: what control planes and extensions are selected by.
fn selects(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> bool {
    let wanted = selector.match_labels.iter().flatten();
    selector.match_labels.is_some() && wanted.clone().all(|(key, value)| labels.get(key) == Some(value))
}

async fn resources(client: &Client, namespace: &str) -> Result<Vec<Resource>, Fault> {
    let all: Vec<ManagedResource> = list(&Api::namespaced(client.clone(), namespace), "").await?;
    Ok(all
        .iter()
        .filter_map(|resource| {
            let conditions = resource.status.as_ref().map_or(&[][..], |status| &status.conditions);
            let bad = |condition: &&Condition| {
                condition.status != ConditionStatus::True && condition.type_ != RESOURCES_PROGRESSING
            };
            let deleting = at(resource.metadata.deletion_timestamp.as_ref());
            let trouble = match deleting {
                Some(_) => Some(deletion(conditions)),
                None => not_applied(resource).or_else(|| unhealthy(resource)),
            };
            let trouble = trouble?;
            Some(Resource {
                object: name_of(resource),
                class: resource.spec.class.clone(),
                webhook: WebhookFailure::in_message(&trouble),
                trouble,
                since: conditions.iter().find(bad).map(|bad| bad.last_transition_time.0),
                deleting,
            })
        })
        .collect())
}

/// What is known of a deletion: the manager names the objects that are left.
fn deletion(conditions: &[Condition]) -> String {
    let applied = Condition::find(conditions, RESOURCES_APPLIED);
    let applied = applied.filter(|one| managed_resource::is_deletion(&one.reason));
    match applied {
        Some(Condition { reason, message, .. }) => format!("{reason}: {message}"),
        None => "gardener-resource-manager has not deleted its objects yet".to_owned(),
    }
}

async fn machines(client: &Client, namespace: &str) -> Result<Vec<Machine>, Fault> {
    let all: Vec<api_machine::Machine> = list(&Api::namespaced(client.clone(), namespace), "").await?;
    Ok(all
        .iter()
        .filter_map(|machine| {
            let status = machine.status.clone().unwrap_or_default();
            let phase = status.current_status.and_then(|current| current.phase);
            let last = status.last_operation.unwrap_or_default();
            (phase != Some(MachinePhase::Running)).then(|| Machine {
                object: name_of(machine),
                report: last.description.unwrap_or_default(),
                is_refused: status
                    .conditions
                    .iter()
                    .any(|one| one.type_ == ACTION_REQUIRED && one.reason.as_deref() == Some(BOOTSTRAP_TOKEN_REFUSED)),
                since: at(last.last_update_time.as_ref()),
            })
        })
        .collect())
}

/// What webhooks have refused, as far as whoever asked has said so.
async fn refusals(client: &Client, namespace: &str) -> Result<Vec<Refusal>, Fault> {
    let all: Vec<Event> = list(&Api::namespaced(client.clone(), namespace), "").await?;
    let refusal = |event: Event| {
        let message = event.message?;
        let about = event.involved_object;
        Some(Refusal {
            object: ObjectName::new(about.kind?, about.namespace.as_deref(), about.name?),
            webhook: WebhookFailure::in_message(&message)?,
            message,
            at: at(event.last_timestamp.as_ref()),
        })
    };
    Ok(all.into_iter().filter_map(refusal).collect())
}

/// What the seed has of a ControllerInstallation.
pub(super) async fn installed(client: &Client, seed: Option<&Seed>, installation: &str) -> Seen<Installed> {
    if let Err(why) = same_seed(client, seed).await {
        return Seen::Unknown(why);
    }
    let (resources, managers, controller, webhooks) = futures::join!(
        resources(client, names::GARDEN_NAMESPACE),
        workloads(client, names::GARDEN_NAMESPACE),
        controller(client, installation),
        webhooks(client),
    );
    let resource = resources.map(|all| all.into_iter().find(|one| one.object.name == installation));
    let manager = managers.map(|all| all.into_iter().find(|one| one.object.name == RESOURCE_MANAGER));
    Seen::Present(Installed {
        resource: Seen::from_read(resource),
        resource_manager: Seen::from_read(manager),
        controller,
        webhooks: seen(webhooks),
    })
}

async fn controller(client: &Client, installation: &str) -> Controller {
    let namespace = names::extension_namespace(installation);
    Controller {
        workloads: seen(workloads(client, &namespace).await),
        heartbeat: renewed(client, &namespace, Some(names::HEARTBEAT_LEASE)).await,
        installation: installation.to_owned(),
        namespace,
    }
}
