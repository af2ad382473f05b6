//! How a shoot is, beside what was done to it: its conditions. Everything is seen through mirrors; a condition is
//! written when it changes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api_core::v1beta1 as core;
use api_extensions::ControlPlane;
use api_meta::{Condition, ConditionStatus, Fault, LastOperationState, LastOperationType, conditions, labels};
use api_resources::ManagedResource;
use base_controller::{Cache, Change, Controller, MirrorChange, Next, ObjectKey};
use base_secrets::{Credential, lookup};
use components_hosted::secrets::wanted_secrets;
use components_hosted::{API_SERVER, ComponentId, HostedCluster, existing};
use futures::{FutureExt, StreamExt};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{Node, Secret};
use kube::{Api, Resource, ResourceExt};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::managed::not_applied;
use super::observe::observe_surroundings;
use super::operation::kubeconfig_of;
use super::report::ShootStatusWriter;
use super::task;
use crate::context::Context;

/// Pause before what could not be seen is looked at again: a restarted API server is back by then, and a shoot that
/// stays out of reach costs little.
const UNSEEN_PAUSE: Duration = Duration::from_secs(30);

/// Keeps the conditions of our seed's shoots true until `stop`. `nodes`: what has changed of their nodes.
pub(crate) async fn run(context: Arc<Context>, nodes: mpsc::UnboundedReceiver<MirrorChange>, stop: CancellationToken) {
    let caches = &context.seed_caches;
    let shoots = &context.garden_caches.shoots;
    let known = shoots.clone();
    let calls = futures::stream::unfold(nodes, |mut nodes| async { Some((nodes.recv().await?, nodes)) })
        .filter_map(move |change| std::future::ready(shoot_of(&known, &change.namespace)))
        .boxed();
    let seed = context.config.seed_name().to_owned();
    let controller = Controller::new("shoot-care", shoots.clone())
        .only(move |shoot| is_cared_for(shoot, &seed))
        .when(|old, new| old.is_none_or(|old| state_of(old) != state_of(new) || missing(new)))
        .watches(&caches.deployments, by_namespace::<Deployment>(shoots))
        .watches(&caches.stateful_sets, by_namespace::<StatefulSet>(shoots))
        .watches(&caches.managed_resources, by_namespace::<ManagedResource>(shoots))
        .watches(&caches.control_planes, by_namespace::<ControlPlane>(shoots))
        .called_by(calls);
    controller
        .run(stop, move |shoot| reconcile(context.clone(), shoot).boxed())
        .await;
}

/// Maps an object of a shoot's namespace to the shoot.
fn by_namespace<K>(shoots: &Cache<core::Shoot>) -> impl Fn(&Change<K>) -> Vec<ObjectKey> + Send + Sync + 'static
where
    K: Resource<DynamicType = ()>,
{
    let shoots = shoots.clone();
    move |change| {
        let namespace = change.object.meta().namespace.as_deref().unwrap_or_default();
        shoot_of(&shoots, namespace).into_iter().collect()
    }
}

/// The shoot whose namespace in the seed this is.
fn shoot_of(shoots: &Cache<core::Shoot>, namespace: &str) -> Option<ObjectKey> {
    let shoots = shoots.list();
    let found = shoots.iter().find(|shoot| technical_id(shoot) == namespace)?;
    Some(ObjectKey::of(&**found))
}

fn technical_id(shoot: &core::Shoot) -> String {
    shoot
        .status
        .as_ref()
        .map(|status| status.technical_id.clone())
        .unwrap_or_default()
}

fn state_of(shoot: &core::Shoot) -> Option<(LastOperationType, LastOperationState)> {
    let last = shoot.status.as_ref()?.last_operation.as_ref()?;
    Some((last.type_.clone(), last.state.clone()))
}

fn missing(shoot: &core::Shoot) -> bool {
    shoot.status.as_ref().is_none_or(|status| status.conditions.is_empty())
}

/// Not before it has been there once, and not when it is going.
fn is_cared_for(shoot: &core::Shoot, seed: &str) -> bool {
    let Some(status) = &shoot.status else { return false };
    let Some((type_, state)) = state_of(shoot) else {
        return false;
    };
    let being_made = type_ == LastOperationType::Create && state != LastOperationState::Succeeded;
    status.seed_name.as_deref() == Some(seed)
        && shoot.metadata.deletion_timestamp.is_none()
        && !status.technical_id.is_empty()
        && !being_made
}

async fn reconcile(context: Arc<Context>, shoot: Arc<core::Shoot>) -> Result<Next, Fault> {
    let now = context.clock.now();
    let wanted = match api_rules::is_in_hibernation(&shoot) {
        true => hibernated(shoot.spec.provider.workers.is_empty(), now),
        false => judge(&observe(&context, &shoot).await, now),
    };
    let known = shoot
        .status
        .as_ref()
        .map(|status| status.conditions.clone())
        .unwrap_or_default();
    let mut after = known.clone();
    for condition in wanted.clone() {
        condition.put_into(&mut after);
    }
    if after != known {
        let writer = ShootStatusWriter::new(&context, (*shoot).clone());
        writer
            .update(|status| {
                for condition in wanted.clone() {
                    condition.put_into(&mut status.conditions);
                }
            })
            .await?;
    }
    Ok(next_look(&wanted))
}

/// No change calls for what could not be seen: its mirror may never have been opened.
fn next_look(judged: &[Condition]) -> Next {
    match judged.iter().any(|one| one.status == ConditionStatus::Unknown) {
        true => Next::After(UNSEEN_PAUSE),
        false => Next::Change,
    }
}

/// What is seen of a shoot.
#[derive(Debug, Default)]
struct Seen {
    workerless: bool,
    nodes_min: i32,
    /// The Deployments and StatefulSets that are there, and why they do not run as they should.
    workloads: BTreeMap<String, Option<String>>,
    /// Conditions of the provider's ControlPlane.
    provider: Vec<Condition>,
    resources: Vec<Managed>,
    /// Nodes with whether they are ready; `Err`: they cannot be seen.
    nodes: Option<Result<Vec<(String, bool)>, String>>,
}

/// What is seen of a ManagedResource.
#[derive(Debug)]
struct Managed {
    name: String,
    /// Whether it counts for the control plane, and not for what runs in the shoot.
    is_control_plane: bool,
    trouble: Option<String>,
}

/// Trouble of those that count for the control plane, or of the others.
fn trouble_of(resources: &[Managed], is_control_plane: bool) -> impl Iterator<Item = String> {
    let of = resources
        .iter()
        .filter(move |one| one.is_control_plane == is_control_plane);
    of.filter_map(|one| Some(format!("ManagedResource {}: {}", one.name, one.trouble.as_ref()?)))
}

/// One with a class is applied to the seed, where the control plane runs; a label may say otherwise (gardener/gardener
/// v1.150 pkg/gardenlet/controller/shoot/care/health.go).
fn is_control_plane(resource: &ManagedResource) -> bool {
    match resource.labels().get(labels::CARE_CONDITION_TYPE) {
        Some(type_) => type_ == conditions::shoot::CONTROL_PLANE_HEALTHY,
        None => !resource.spec.class.as_deref().unwrap_or_default().is_empty(),
    }
}

async fn observe(context: &Context, shoot: &core::Shoot) -> Seen {
    let namespace = technical_id(shoot);
    let caches = &context.seed_caches;
    let workers = &shoot.spec.provider.workers;
    let key = ObjectKey::namespaced(&namespace, shoot.name_any());
    let deployments = caches.deployments.list_in(&namespace);
    let sets = caches.stateful_sets.list_in(&namespace);
    let deployments = deployments
        .iter()
        .map(|one| (one.name_any(), task::deployment_not_rolled_out(one)));
    let sets = sets.iter().map(|one| (one.name_any(), task::set_not_rolled_out(one)));
    let provider = caches.control_planes.get(&key).and_then(|found| found.status.clone());
    Seen {
        workerless: workers.is_empty(),
        nodes_min: workers.iter().map(|worker| worker.minimum).sum(),
        workloads: deployments.chain(sets).collect(),
        provider: provider.map(|status| status.conditions).unwrap_or_default(),
        resources: caches
            .managed_resources
            .list_in(&namespace)
            .iter()
            .map(|resource| Managed {
                name: resource.name_any(),
                is_control_plane: is_control_plane(resource),
                trouble: not_applied(resource).or_else(|| unhealthy(resource)),
            })
            .collect(),
        nodes: match workers.is_empty() {
            true => None,
            false => Some(nodes(context, shoot, &namespace).await),
        },
    }
}

/// Why what a ManagedResource has applied does not run well.
#[must_use]
pub fn unhealthy(resource: &ManagedResource) -> Option<String> {
    let status = resource.status.as_ref()?;
    let healthy = Condition::find(&status.conditions, conditions::managed_resource::RESOURCES_HEALTHY)?;
    (healthy.status == ConditionStatus::False).then(|| format!("{}: {}", healthy.reason, healthy.message))
}

async fn nodes(context: &Context, shoot: &core::Shoot, namespace: &str) -> Result<Vec<(String, bool)>, String> {
    let mirror = match context.nodes.get(namespace) {
        Some(mirror) => mirror.objects,
        None => open(context, shoot, namespace).await.map_err(|fault| fault.chain())?,
    };
    if let Some(error) = mirror.error() {
        return Err(error);
    }
    if !mirror.is_ready() {
        return Err("the nodes have not been listed yet".to_owned());
    }
    let ready = |node: &Node| {
        let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
        conditions
            .into_iter()
            .flatten()
            .any(|condition| condition.type_ == "Ready" && condition.status == "True")
    };
    Ok(mirror
        .list()
        .iter()
        .map(|node| (node.name_any(), ready(node)))
        .collect())
}

/// After our own restart nobody has connected yet: the way in is in the shoot's namespace.
async fn open(context: &Context, shoot: &core::Shoot, namespace: &str) -> Result<Cache<Node>, Fault> {
    let validated = observe_surroundings(context, shoot).await?.validated;
    let api: Api<Secret> = context.in_seed(namespace);
    let selector = format!("{}={}", labels::MANAGED_BY, labels::MANAGED_BY_SECRETS_MANAGER);
    let existing = base_client::list(&api, &selector).await?;
    let found = lookup(
        &wanted_secrets(&validated.hosted(&context.config.etcd_storage)),
        &existing,
        context.clock.now(),
    )?;
    let (Some(authority), Some(own)) = (found.get(task::secrets::CA), found.get(task::secrets::GARDENLET)) else {
        return Err(
            Fault::dependency(format!("namespace {namespace} has no certificate for gardenlet"))
                .hint("wait for the next reconcile of the shoot"),
        );
    };
    let credential = Credential::Certificate(Box::new(own.issued()?));
    let client = context
        .connector
        .client(&kubeconfig_of(context, &validated, authority, credential)?)?;
    let gone = || Fault::dependency(format!("Shoot {} is to go or lives elsewhere", ObjectKey::of(shoot)));
    let opened = context.nodes.open(namespace, None, || Ok(client))?;
    opened.map(|mirror| mirror.objects).ok_or_else(gone)
}

/// The conditions of a cluster that sleeps, or is on its way there or back: nothing of it is checked, and nothing is wrong
/// (gardener/gardener v1.150 pkg/gardenlet/controller/shoot/care/health.go `shootHibernatedConditions`).
fn hibernated(workerless: bool, now: Timestamp) -> Vec<Condition> {
    let every_node = (!workerless).then_some(conditions::shoot::EVERY_NODE_READY);
    let types = [
        conditions::shoot::API_SERVER_AVAILABLE,
        conditions::shoot::CONTROL_PLANE_HEALTHY,
        conditions::shoot::SYSTEM_COMPONENTS_HEALTHY,
    ];
    let not_checked = |type_| {
        let message = "Shoot cluster has been hibernated.";
        Condition::new(type_, ConditionStatus::True, "ConditionNotChecked", message, now)
    };
    types.into_iter().chain(every_node).map(not_checked).collect()
}

/// The conditions that follow.
fn judge(seen: &Seen, now: Timestamp) -> Vec<Condition> {
    use ConditionStatus::{False, True};
    let condition = |type_: &str, status: ConditionStatus, reason: &str, message: &str| {
        Condition::new(type_, status, reason, message, now)
    };
    let mut all = Vec::new();
    all.push(match seen.workloads.get(API_SERVER) {
        Some(None) => condition(
            conditions::shoot::API_SERVER_AVAILABLE,
            True,
            "DeploymentAvailable",
            "The API server is available.",
        ),
        Some(Some(why)) => condition(
            conditions::shoot::API_SERVER_AVAILABLE,
            False,
            "DeploymentUnavailable",
            why,
        ),
        None => condition(
            conditions::shoot::API_SERVER_AVAILABLE,
            False,
            "DeploymentMissing",
            "There is no API server.",
        ),
    });
    let trouble = control_plane_trouble(seen);
    all.push(match trouble.as_slice() {
        [] => condition(
            conditions::shoot::CONTROL_PLANE_HEALTHY,
            True,
            "ControlPlaneRunning",
            "All control plane components are healthy.",
        ),
        trouble => condition(
            conditions::shoot::CONTROL_PLANE_HEALTHY,
            False,
            "ControlPlaneUnhealthy",
            &trouble.join("; "),
        ),
    });
    let unapplied: Vec<String> = trouble_of(&seen.resources, false).collect();
    all.push(match unapplied.as_slice() {
        [] => condition(
            conditions::shoot::SYSTEM_COMPONENTS_HEALTHY,
            True,
            "SystemComponentsRunning",
            "All system components are healthy.",
        ),
        unapplied => condition(
            conditions::shoot::SYSTEM_COMPONENTS_HEALTHY,
            False,
            "SystemComponentsUnhealthy",
            &unapplied.join("; "),
        ),
    });
    all.extend(seen.nodes.as_ref().map(|nodes| judge_nodes(nodes, seen.nodes_min, now)));
    all
}

fn judge_nodes(nodes: &Result<Vec<(String, bool)>, String>, nodes_min: i32, now: Timestamp) -> Condition {
    use ConditionStatus::{False, True, Unknown};
    let condition = |status: ConditionStatus, reason: &str, message: &str| {
        Condition::new(conditions::shoot::EVERY_NODE_READY, status, reason, message, now)
    };
    let nodes = match nodes {
        Ok(nodes) => nodes,
        Err(why) => return condition(Unknown, conditions::reason::CHECK_ERROR, why),
    };
    let unready: Vec<&str> = nodes
        .iter()
        .filter(|(_, ready)| !ready)
        .map(|(name, _)| name.as_str())
        .collect();
    if !unready.is_empty() {
        return condition(
            False,
            "NodeUnhealthy",
            &format!("Nodes not ready: {}.", unready.join(", ")),
        );
    }
    if (nodes.len() as i64) < i64::from(nodes_min) {
        return condition(
            False,
            "MissingNodes",
            &format!("{} nodes of at least {nodes_min}.", nodes.len()),
        );
    }
    condition(True, "EveryNodeReady", "All nodes are ready.")
}

fn control_plane_trouble(seen: &Seen) -> Vec<String> {
    let cluster = HostedCluster {
        workerless: seen.workerless,
        ..HostedCluster::default()
    };
    let mut trouble: Vec<String> = existing(&cluster)
        .map(ComponentId::component)
        .filter(|component| {
            component
                .conditions()
                .contains(&conditions::shoot::CONTROL_PLANE_HEALTHY)
        })
        .filter_map(|component| {
            let (kind, name) = (component.workload().kind().name(), component.name());
            match seen.workloads.get(name) {
                Some(None) => None,
                Some(Some(why)) => Some(format!("{kind} {name}: {why}")),
                None => Some(format!("{kind} {name} is missing")),
            }
        })
        .collect();
    let bad = |condition: &&Condition| condition.status == ConditionStatus::False;
    trouble.extend(
        seen.provider
            .iter()
            .filter(bad)
            .map(|bad| format!("ControlPlane: {}: {}", bad.type_, bad.message)),
    );
    trouble.extend(trouble_of(&seen.resources, true));
    trouble
}

#[cfg(test)]
mod tests {
    use super::*;

    fn healthy() -> Seen {
        Seen {
            nodes_min: 1,
            workloads: ComponentId::ALL
                .iter()
                .map(|id| (id.component().name().to_owned(), None))
                .collect(),
            nodes: Some(Ok(vec![("n".into(), true)])),
            ..Seen::default()
        }
    }

    fn statuses(seen: &Seen) -> Vec<String> {
        judge(seen, Timestamp::UNIX_EPOCH)
            .iter()
            .map(|one| format!("{}={}", one.type_, one.status))
            .collect()
    }

    #[test]
    fn a_healthy_shoot_has_four_true_conditions_and_a_workerless_one_three() {
        assert_eq!(
            statuses(&healthy()),
            [
                "APIServerAvailable=True",
                "ControlPlaneHealthy=True",
                "SystemComponentsHealthy=True",
                "EveryNodeReady=True"
            ]
        );
        let mut workerless = Seen {
            workerless: true,
            nodes: None,
            ..healthy()
        };
        workerless.workloads.remove("kube-scheduler");
        assert_eq!(statuses(&workerless).len(), 3);
        assert!(statuses(&workerless).iter().all(|one| one.ends_with("True")));
    }

    #[test]
    fn a_hibernated_shoot_has_the_conditions_of_an_awake_one_unchecked() {
        let types = |all: Vec<Condition>| all.into_iter().map(|one| one.type_).collect::<Vec<_>>();
        let awake = judge(&healthy(), Timestamp::UNIX_EPOCH);
        let asleep = hibernated(false, Timestamp::UNIX_EPOCH);
        assert!(
            asleep
                .iter()
                .all(|one| one.reason == "ConditionNotChecked" && one.status == ConditionStatus::True)
        );
        assert_eq!(types(asleep), types(awake));
        assert_eq!(hibernated(true, Timestamp::UNIX_EPOCH).len(), 3);
    }

    #[test]
    fn what_is_wrong_is_said_where_it_belongs() {
        let mut seen = healthy();
        seen.workloads
            .insert(API_SERVER.into(), Some("0 of 1 pods are available".into()));
        let managed = |name: &str, is_control_plane| Managed {
            name: name.into(),
            is_control_plane,
            trouble: Some("ApplyFailed: x".into()),
        };
        seen.resources = vec![managed("system", false), managed("controllers", true)];
        seen.nodes = Some(Ok(vec![("n".into(), false), ("m".into(), true)]));
        let all = judge(&seen, Timestamp::UNIX_EPOCH);
        assert_eq!(
            all.iter().map(|one| one.message.as_str()).collect::<Vec<_>>(),
            [
                "0 of 1 pods are available",
                "Deployment kube-apiserver: 0 of 1 pods are available; ManagedResource controllers: ApplyFailed: x",
                "ManagedResource system: ApplyFailed: x",
                "Nodes not ready: n.",
            ]
        );
        seen.nodes = Some(Err("connection refused".into()));
        assert!(
            statuses(&seen).contains(&"EveryNodeReady=Unknown".to_owned()),
            "unseen is not unready"
        );
        let judged = judge(&seen, Timestamp::UNIX_EPOCH);
        assert_eq!(next_look(&judged), Next::After(UNSEEN_PAUSE), "nothing else would call");
        seen.nodes = Some(Ok(Vec::new()));
        assert_eq!(next_look(&judge(&seen, Timestamp::UNIX_EPOCH)), Next::Change);
        assert!(statuses(&seen).contains(&"EveryNodeReady=False".to_owned()));
    }

    #[test]
    fn class_or_label_decides_which_condition_a_managed_resource_counts_for() {
        let of = |class: Option<&str>, label: Option<&str>| {
            let mut resource = ManagedResource::default();
            resource.spec.class = class.map(str::to_owned);
            if let Some(label) = label {
                let label = (labels::CARE_CONDITION_TYPE.to_owned(), label.to_owned());
                resource.labels_mut().extend([label]);
            }
            is_control_plane(&resource)
        };
        assert_eq!([of(None, None), of(Some("seed"), None)], [false, true]);
        let labelled = [
            of(None, Some("ControlPlaneHealthy")),
            of(Some("seed"), Some("SystemComponentsHealthy")),
        ];
        assert_eq!(labelled, [true, false]);
    }
}
