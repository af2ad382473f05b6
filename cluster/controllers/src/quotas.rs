//! How much of each ResourceQuota is used: counted when what it limits changes and when something in its namespace has gone.
//! The API server itself counts what is created, and refuses what exceeds a quota; here the numbers are only corrected.
//! After kubernetes v1.35 `pkg/controller/resourcequota`, for numbers of objects alone.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api_meta::Fault;
use base_client::patch_status_if_changed;
use k8s_openapi::api::core::v1::{Pod, ResourceQuota, ResourceQuotaStatus, Service};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::{Api, ResourceExt};
use tokio_util::sync::CancellationToken;

use crate::Context;

/// How often usage is recounted while there are quotas: no event reports a create that failed after it was counted.
const RECOUNT: Duration = Duration::from_secs(300);
/// How soon a quota is counted again that could not be written.
const RETRY: Duration = Duration::from_secs(5);
const COUNT: &str = "count/";

pub(crate) async fn run(context: Context, stop: CancellationToken) {
    context.inventory.start();
    stop.run_until_cancelled(recount(context)).await;
}

async fn recount(context: Context) {
    let quotas = context.caches.quotas();
    let mut changes = quotas.subscribe();
    quotas.ready().await;
    let mut all = true;
    loop {
        let (complete, emptied) = {
            let mut graph = context.inventory.graph();
            (graph.is_complete(), graph.take_namespaces_with_deletions())
        };
        let mut pause = RECOUNT;
        if complete {
            for quota in quotas.list() {
                if (all || is_due(&quota, &emptied))
                    && let Err(fault) = count(&context, &quota).await
                {
                    tracing::debug!(controller = "resourcequota", class = %fault.class, "{}", fault.chain());
                    pause = RETRY;
                }
            }
            all = false;
        }
        let some = !quotas.list().is_empty();
        tokio::select! {
            biased;
            _ = changes.next() => {}
            () = context.inventory.objects_gone() => {}
            () = tokio::time::sleep(pause), if some && complete => all = true,
        }
    }
}

/// Whether its limits are new, or something may have gone that it counts.
fn is_due(quota: &ResourceQuota, emptied: &BTreeSet<String>) -> bool {
    let wanted = quota.spec.as_ref().and_then(|spec| spec.hard.as_ref());
    let wanted: Option<BTreeMap<_, _>> = wanted.map(|hard| hard.iter().filter(|(name, _)| is_number(name)).collect());
    let known = quota.status.as_ref().and_then(|status| status.hard.as_ref());
    let known: Option<BTreeMap<_, _>> = known.map(|hard| hard.iter().collect());
    wanted.unwrap_or_default() != known.unwrap_or_default()
        || quota.namespace().is_some_and(|namespace| emptied.contains(&namespace))
}

/// Whether it is a number of objects.
fn is_number(name: &str) -> bool {
    name.starts_with(COUNT)
        || matches!(
            name,
            "configmaps"
                | "persistentvolumeclaims"
                | "pods"
                | "replicationcontrollers"
                | "resourcequotas"
                | "secrets"
                | "services"
                | "services.loadbalancers"
                | "services.nodeports"
        )
}

async fn count(context: &Context, quota: &ResourceQuota) -> Result<(), Fault> {
    let namespace = quota.namespace().unwrap_or_default();
    let hard = quota
        .spec
        .as_ref()
        .and_then(|spec| spec.hard.clone())
        .unwrap_or_default();
    let hard: BTreeMap<String, Quantity> = hard.into_iter().filter(|(name, _)| is_number(name)).collect();
    let scopes = scopes(quota);
    let mut numbers: BTreeMap<String, usize> = BTreeMap::new();
    for item in context.inventory.graph().in_namespace(&namespace) {
        *numbers.entry(item.kind.to_string()).or_default() += 1;
    }
    let mut used = BTreeMap::new();
    for name in hard.keys() {
        let number = match name.as_str() {
            "pods" | "count/pods" => pods(context, &namespace, name == "pods", &scopes).await,
            // Scopes are of pods.
            _ if !scopes.is_empty() => 0,
            "services.nodeports" | "services.loadbalancers" => services(context, &namespace, name).await,
            name => {
                let kind = name.strip_prefix(COUNT).unwrap_or(name);
                numbers.get(kind).copied().unwrap_or_default()
            }
        };
        used.insert(name.clone(), Quantity(number.to_string()));
    }
    let mut counted = quota.clone();
    counted.status = Some(ResourceQuotaStatus {
        hard: Some(hard),
        used: Some(used),
    });
    let api: Api<ResourceQuota> = Api::namespaced(context.client.clone(), &namespace);
    patch_status_if_changed(&api, quota, &counted).await.map(|_| ())
}

fn scopes(quota: &ResourceQuota) -> Vec<String> {
    let Some(spec) = &quota.spec else { return Vec::new() };
    let selected = spec
        .scope_selector
        .iter()
        .flat_map(|selector| &selector.match_expressions);
    let selected = selected.flatten().map(|requirement| requirement.scope_name.clone());
    spec.scopes.iter().flatten().cloned().chain(selected).collect()
}

/// Pods in scope; with `alive`, those that have ended do not count.
async fn pods(context: &Context, namespace: &str, alive: bool, scopes: &[String]) -> usize {
    let pods = context.caches.pods();
    pods.ready().await;
    let counts = |pod: &Pod| {
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        let class = pod.status.as_ref().and_then(|status| status.qos_class.as_deref());
        let spec = pod.spec.as_ref();
        let ends = spec.is_some_and(|spec| spec.active_deadline_seconds.is_some());
        !(alive && matches!(phase, Some("Failed" | "Succeeded")))
            && scopes.iter().all(|scope| match scope.as_str() {
                "Terminating" => ends,
                "NotTerminating" => !ends,
                "BestEffort" => class == Some("BestEffort"),
                "NotBestEffort" => class != Some("BestEffort"),
                "PriorityClass" => spec.is_some_and(|spec| spec.priority_class_name.is_some()),
                _ => false,
            })
    };
    pods.list_in(namespace).iter().filter(|pod| counts(pod)).count()
}

async fn services(context: &Context, namespace: &str, name: &str) -> usize {
    let services = context.caches.services();
    services.ready().await;
    let counts = |service: &Service| {
        let Some(spec) = &service.spec else { return 0 };
        let type_ = spec.type_.as_deref().unwrap_or_default();
        let ports = spec.ports.as_deref().unwrap_or_default();
        let off = spec.allocate_load_balancer_node_ports == Some(false);
        match (name, type_) {
            ("services.loadbalancers", "LoadBalancer") => 1,
            ("services.nodeports", "LoadBalancer") if off => ports
                .iter()
                .filter(|port| port.node_port.is_some_and(|port| port != 0))
                .count(),
            ("services.nodeports", "NodePort" | "LoadBalancer") => ports.len(),
            _ => 0,
        }
    };
    services.list_in(namespace).iter().map(|service| counts(service)).sum()
}
