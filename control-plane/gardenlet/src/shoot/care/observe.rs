//! What is seen of a shoot: its control plane, what runs in it, its nodes, and what its extensions report. It reads caches;
//! only a shoot whose nodes are not cached yet is connected to.

use std::collections::BTreeMap;
use std::fmt::Debug;

use api_core::v1beta1 as core;
use api_meta::{Fault, conditions, labels};
use api_resources::ManagedResource;
use base_controller::{Cache, ObjectKey};
use base_secrets::{Credential, lookup};
use components_hosted::NodeAccess;
use components_hosted::secrets::wanted_secrets;
use control_plane_readiness::{not_applied, unhealthy};
use k8s_openapi::api::core::v1::{Node, Secret};
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;

use super::extensions::{self, Report};
use super::webhooks::problem;
use crate::context::{Context, technical_id};
use crate::shoot::inside::InsideOne;
use crate::shoot::observe::{has_tunnel, observe_surroundings};
use crate::shoot::operation::kubeconfig_of;
use crate::shoot::task;

/// What is seen of a shoot.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) workerless: bool,
    pub(super) node_access: NodeAccess,
    pub(super) nodes_min: i32,
    /// The Deployments and StatefulSets that are there, and why they do not run as they should.
    pub(super) workloads: BTreeMap<String, Option<String>>,
    /// What its extensions report.
    pub(super) reports: Vec<Report>,
    pub(super) resources: Vec<Managed>,
    pub(super) inside: Inside,
}

/// What is seen inside of a shoot; `Err`: it cannot be seen, and why.
#[derive(Debug)]
pub(super) struct Inside {
    /// Nodes with whether they are ready; nothing for a workerless shoot.
    pub(super) nodes: Option<Result<Vec<(String, bool)>, String>>,
    /// A webhook that may keep it from waking up, as a reason and a sentence.
    pub(super) webhooks: Result<Option<(&'static str, String)>, String>,
}

impl Inside {
    fn unseen(workerless: bool, why: &str) -> Self {
        Self {
            nodes: (!workerless).then(|| Err(why.to_owned())),
            webhooks: Err(why.to_owned()),
        }
    }
}

/// What is seen of a ManagedResource.
#[derive(Debug)]
pub(super) struct Managed {
    pub(super) name: String,
    /// Whether it counts for the control plane, and not for what runs in the shoot.
    pub(super) is_control_plane: bool,
    pub(super) trouble: Option<String>,
}

/// One with a class is applied to the seed, where the control plane runs; a label overrides it (gardener/gardener
/// v1.150 pkg/gardenlet/controller/shoot/care/health.go).
fn is_control_plane(resource: &ManagedResource) -> bool {
    match resource.labels().get(labels::CARE_CONDITION_TYPE) {
        Some(type_) => type_ == conditions::shoot::CONTROL_PLANE_HEALTHY,
        None => !resource.spec.class.as_deref().unwrap_or_default().is_empty(),
    }
}

pub(super) async fn observe(context: &Context, shoot: &core::Shoot) -> Seen {
    let namespace = technical_id(shoot).unwrap_or_default();
    let caches = &context.seed_caches;
    let workers = &shoot.spec.provider.workers;
    let deployments = caches.deployments.list_in(&namespace);
    let sets = caches.stateful_sets.list_in(&namespace);
    let deployments = deployments
        .iter()
        .map(|one| (one.name_any(), task::deployment_not_rolled_out(one)));
    let sets = sets.iter().map(|one| (one.name_any(), task::set_not_rolled_out(one)));
    Seen {
        workerless: workers.is_empty(),
        // Before a shoot's next reconciliation it has no tunnel, and misses none.
        node_access: match has_tunnel(context, &namespace) {
            true => context.config.node_access,
            false => NodeAccess::Direct,
        },
        nodes_min: workers.iter().map(|worker| worker.minimum).sum(),
        workloads: deployments.chain(sets).collect(),
        reports: extensions::reports(context, &namespace),
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
        inside: match context.inside.get(&namespace) {
            Some(inside) => look_inside(&inside),
            None => match open(context, shoot, &namespace).await {
                Ok(inside) => look_inside(&inside),
                Err(fault) => Inside::unseen(workers.is_empty(), &fault.chain()),
            },
        },
    }
}

/// What is seen through the caches of the shoot's own objects.
fn look_inside(inside: &InsideOne) -> Inside {
    Inside {
        nodes: inside.nodes.as_ref().map(nodes),
        webhooks: webhooks(inside),
    }
}

fn nodes(cache: &Cache<Node>) -> Result<Vec<(String, bool)>, String> {
    readable(cache, "the nodes have not been listed yet")?;
    let ready = |node: &Node| {
        let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
        conditions
            .into_iter()
            .flatten()
            .any(|condition| condition.type_ == "Ready" && condition.status == "True")
    };
    let nodes = cache.list();
    Ok(nodes.iter().map(|node| (node.name_any(), ready(node))).collect())
}

fn webhooks(inside: &InsideOne) -> Result<Option<(&'static str, String)>, String> {
    let InsideOne {
        validating, mutating, ..
    } = inside;
    readable(validating, "the webhooks have not been listed yet")?;
    readable(mutating, "the webhooks have not been listed yet")?;
    Ok(problem(&validating.list(), &mutating.list()))
}

fn readable<K>(cache: &Cache<K>, not_yet: &str) -> Result<(), String>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    match cache.error() {
        Some(error) => Err(error),
        None if cache.is_ready() => Ok(()),
        None => Err(not_yet.to_owned()),
    }
}

/// After our own restart no connection exists yet: its kubeconfig is in the shoot's namespace.
async fn open(context: &Context, shoot: &core::Shoot, namespace: &str) -> Result<InsideOne, Fault> {
    let validated = observe_surroundings(context, shoot).await?.validated;
    let api: Api<Secret> = context.in_seed(namespace);
    let selector = format!("{}={}", labels::MANAGED_BY, labels::MANAGED_BY_SECRETS_MANAGER);
    let existing = base_client::list(&api, &selector).await?;
    let found = lookup(
        &wanted_secrets(&validated.hosted(&context.config)),
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
    context
        .inside
        .open(namespace, validated.workerless, &client)?
        .ok_or_else(gone)
}

#[cfg(test)]
mod tests {
    use super::*;

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
