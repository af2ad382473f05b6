//! Pods whose node is gone: no node will ever report on them again, so they are deleted at once.
//! After kubernetes v1.35 `pkg/controller/podgc`.

use std::sync::Arc;

use api_meta::Fault;
use base_client::{fault_of, get, is_missing};
use base_controller::{Controller, Next, ObjectKey};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, Preconditions};
use kube::{Api, ResourceExt};
use tokio_util::sync::CancellationToken;

use crate::Context;

pub(crate) async fn run(context: Context, stop: CancellationToken) {
    let (pods, nodes) = (context.caches.pods(), context.caches.nodes());
    if stop.run_until_cancelled(nodes.ready()).await.is_none() {
        return;
    }
    let all = pods.clone();
    let controller = Controller::new("podgc", pods)
        .when(|old, new| old.is_none_or(|old| node_of(old) != node_of(new)))
        .only(|pod| node_of(pod).is_some())
        .watches(&nodes, move |change| {
            if !change.deleted {
                return Vec::new();
            }
            let name = change.object.name_any();
            let is_here = |pod: &&Arc<Pod>| node_of(pod) == Some(name.as_str());
            all.list()
                .iter()
                .filter(is_here)
                .map(|pod| ObjectKey::of(&**pod))
                .collect()
        });
    controller.run(stop, move |pod| reconcile(pod, context.clone())).await;
}

fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref().filter(|name| !name.is_empty())
}

async fn reconcile(pod: Arc<Pod>, context: Context) -> Result<Next, Fault> {
    let Some(node) = node_of(&pod) else {
        return Ok(Next::Change);
    };
    if context.caches.nodes().get(&ObjectKey::cluster(node)).is_some() {
        return Ok(Next::Change);
    }
    // The cache of nodes may be behind the one of pods: only the API server knows.
    if get(&Api::<Node>::all(context.client.clone()), node).await?.is_some() {
        return Ok(Next::Change);
    }
    let key = ObjectKey::of(&*pod);
    let api: Api<Pod> = Api::namespaced(context.client.clone(), key.namespace.as_deref().unwrap_or_default());
    let preconditions = Some(Preconditions {
        uid: pod.uid(),
        resource_version: None,
    });
    let params = DeleteParams {
        grace_period_seconds: Some(0),
        preconditions,
        ..DeleteParams::default()
    };
    match api.delete(&key.name, &params).await {
        Ok(_) => Ok(Next::Change),
        Err(error) if is_missing(&error) => Ok(Next::Change),
        Err(error) => Err(fault_of(error, &format!("delete Pod {key} of a node that is gone"))),
    }
}
