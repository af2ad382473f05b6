//! EndpointSlices and Endpoints of Services with a selector: where the pods behind them answer. Services without a
//! selector belong to whoever writes their slices. After kubernetes v1.35 `pkg/controller/endpointslice`.

mod addresses;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api_meta::Fault;
use base_client::{delete, patch_changed};
use base_controller::{Change, Controller, Next, ObjectKey};
use k8s_openapi::api::core::v1::{Endpoints, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::{Api, ResourceExt};
use tokio_util::sync::CancellationToken;

use crate::Context;
use crate::seen::{Made, create_seen};
use addresses::{SERVICE, endpoints_of, is_ours, slices_of};

pub(crate) async fn run(context: Context, stop: CancellationToken) {
    let (services, pods) = (context.caches.services(), context.caches.pods());
    let (slices, endpoints) = (context.caches.slices(), context.caches.endpoints());
    let ready = async { tokio::join!(pods.ready(), slices.ready(), endpoints.ready()) };
    if stop.run_until_cancelled(ready).await.is_none() {
        return;
    }
    let all = services.clone();
    let controller = Controller::new("endpointslice", services)
        // A Service has a generation nowhere; its status is written by load balancers only.
        .when(|old, new| old.is_none_or(|old| old.spec != new.spec || old.metadata.labels != new.metadata.labels))
        .watches(&pods, move |change| {
            services_of(&all.list_in(&change.object.namespace().unwrap_or_default()), change)
        })
        .watches(&slices, |change| {
            let namespace = change.object.namespace().unwrap_or_default();
            let states = [Some(&change.object), change.old.as_ref()].into_iter().flatten();
            let services: BTreeSet<&String> = states.filter_map(|slice| slice.labels().get(SERVICE)).collect();
            services
                .into_iter()
                .map(|name| ObjectKey::namespaced(&namespace, name))
                .collect()
        })
        // They have their Service's name.
        .watches(&endpoints, |change| vec![ObjectKey::of(&*change.object)]);
    controller
        .run(stop, move |service| reconcile(service, context.clone()))
        .await;
}

fn selects(service: &Service, labels: &BTreeMap<String, String>) -> bool {
    let selector = service.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    selector.is_some_and(|selector| {
        !selector.is_empty() && selector.iter().all(|(key, value)| labels.get(key) == Some(value))
    })
}

/// The Services that a change of a pod concerns: those that select it now or did before.
fn services_of(services: &[Arc<Service>], change: &Change<Pod>) -> Vec<ObjectKey> {
    let relevant_state = |pod: &Pod| {
        let status = pod.status.as_ref();
        let conditions = status.and_then(|status| status.conditions.clone()).unwrap_or_default();
        let conditions: Vec<_> = conditions.into_iter().map(|c| (c.type_, c.status)).collect();
        let ips = status.map(|status| (status.pod_ip.clone(), status.phase.clone()));
        (
            pod.labels().clone(),
            conditions,
            ips,
            pod.metadata.deletion_timestamp.clone(),
            pod.metadata.uid.clone(),
        )
    };
    if !change.deleted && change.old.as_deref().map(relevant_state) == Some(relevant_state(&change.object)) {
        return Vec::new();
    }
    let labels: Vec<_> = [Some(&change.object), change.old.as_ref()]
        .into_iter()
        .flatten()
        .map(|pod| pod.labels())
        .collect();
    let concerned = services
        .iter()
        .filter(|service| labels.iter().any(|labels| selects(service, labels)));
    concerned.map(|service| ObjectKey::of(&**service)).collect()
}

async fn reconcile(service: Arc<Service>, context: Context) -> Result<Next, Fault> {
    let spec = service.spec.clone().unwrap_or_default();
    let is_external = spec.type_.as_deref() == Some("ExternalName");
    if service.metadata.deletion_timestamp.is_some() || is_external || spec.selector.is_none_or(|it| it.is_empty()) {
        return Ok(Next::Change);
    }
    let namespace = service.namespace().unwrap_or_default();
    let mut pods = context.caches.pods().list_in(&namespace);
    pods.retain(|pod| selects(&service, pod.labels()));
    let there = context.caches.slices().list_in(&namespace);
    let wanted = slices_of(&service, &pods, &there);
    write_slices(&context, &namespace, &wanted).await?;
    // Last, so that no address is missing meanwhile.
    let api: Api<EndpointSlice> = Api::namespaced(context.client.clone(), &namespace);
    for slice in there.iter().filter(|slice| is_ours(&service, slice)) {
        if !wanted.iter().any(|wanted| wanted.metadata.name == slice.metadata.name) {
            delete(&api, &slice.name_any()).await?;
        }
    }
    write_endpoints(&context, &namespace, endpoints_of(&service, &pods)).await?;
    Ok(Next::Change)
}

async fn write_slices(context: &Context, namespace: &str, wanted: &[EndpointSlice]) -> Result<(), Fault> {
    let cache = context.caches.slices();
    let api: Api<EndpointSlice> = Api::namespaced(context.client.clone(), namespace);
    for slice in wanted {
        match cache.get(&ObjectKey::of(slice)) {
            None => match create_seen(&context.client, &cache, slice).await? {
                Made::Created(_) | Made::NamespaceGoes => {}
                // Its name was free in the cache. No event of another writer's slice calls for this Service again.
                Made::Exists => return Err(name_taken(namespace, slice)),
            },
            Some(before) => {
                let mut after = EndpointSlice {
                    metadata: before.metadata.clone(),
                    ..slice.clone()
                };
                after.labels_mut().extend(slice.labels().clone());
                patch_changed(&api, &*before, &after).await?;
            }
        }
    }
    Ok(())
}

fn name_taken(namespace: &str, slice: &EndpointSlice) -> Fault {
    let taken = format!(
        "create EndpointSlice {namespace}/{}: one of this name is there, and the watch has not shown it yet",
        slice.name_any()
    );
    Fault::transient(taken).hint("it is tried again by itself, and succeeds once the watch shows what is there")
}

async fn write_endpoints(context: &Context, namespace: &str, wanted: Endpoints) -> Result<(), Fault> {
    let cache = context.caches.endpoints();
    match cache.get(&ObjectKey::of(&wanted)) {
        None => create_seen(&context.client, &cache, &wanted).await.map(drop),
        Some(before) => {
            let api: Api<Endpoints> = Api::namespaced(context.client.clone(), namespace);
            let labels = wanted.labels().clone();
            let mut after = Endpoints {
                metadata: before.metadata.clone(),
                ..wanted
            };
            after.labels_mut().extend(labels);
            patch_changed(&api, &*before, &after).await.map(drop)
        }
    }
}
