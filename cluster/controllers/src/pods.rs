//! Pods as the workload controllers see them: made from templates, counted, checked, created and deleted. Decides
//! nothing about how many there should be.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use api_meta::{Fault, FaultClass};
use base_controller::{Cache, EventType};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::{Resource, ResourceExt};
use serde::de::DeserializeOwned;

use crate::Context;
use crate::adoption::{Found, adopt};
use crate::seen::{Made, create_seen, delete_seen};

/// Pods created or deleted by one reconcile, as upstream's `BurstReplicas`: a set of thousands must not hold up others.
pub(crate) const BURST_MAX: usize = 500;
/// The label with the template that a pod of a StatefulSet or DaemonSet was made from.
pub(crate) const REVISION: &str = "controller-revision-hash";

/// The owner that manages an object.
pub(crate) fn controller_of(meta: &ObjectMeta) -> Option<&OwnerReference> {
    meta.owner_references
        .iter()
        .flatten()
        .find(|owner| owner.controller == Some(true))
}

/// The objects in the namespace of `owner` that it manages.
pub(crate) fn managed_by<K, O>(cache: &Cache<K>, owner: &O) -> Vec<Arc<K>>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    O: Resource<DynamicType = ()>,
{
    let (Some(uid), Some(namespace)) = (owner.meta().uid.as_ref(), owner.meta().namespace.as_ref()) else {
        return Vec::new();
    };
    let is_managed = |object: &Arc<K>| controller_of(object.meta()).is_some_and(|owner| owner.uid == *uid);
    cache.list_in(namespace).into_iter().filter(is_managed).collect()
}

/// A reference that makes `owner` the manager of the object that carries it.
pub(crate) fn owner_reference<O: Resource<DynamicType = ()>>(owner: &O) -> OwnerReference {
    OwnerReference {
        api_version: O::api_version(&()).into_owned(),
        kind: O::kind(&()).into_owned(),
        name: owner.name_any(),
        uid: owner.meta().uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// A pod from a template, managed by `owner`. It has no name yet, only a prefix.
pub(crate) fn from_template<O: Resource<DynamicType = ()>>(template: &PodTemplateSpec, owner: &O) -> Pod {
    let meta = template.metadata.clone().unwrap_or_default();
    Pod {
        metadata: ObjectMeta {
            generate_name: Some(format!("{}-", owner.name_any())),
            namespace: owner.meta().namespace.clone(),
            labels: meta.labels,
            annotations: meta.annotations,
            finalizers: meta.finalizers,
            owner_references: Some(vec![owner_reference(owner)]),
            ..ObjectMeta::default()
        },
        spec: template.spec.clone(),
        status: None,
    }
}

/// The phase; pods without a reported one are pending.
pub(crate) fn phase(pod: &Pod) -> &str {
    pod.status
        .as_ref()
        .and_then(|status| status.phase.as_deref())
        .unwrap_or("Pending")
}

/// Whether the pod has ended for good.
pub(crate) fn is_finished(pod: &Pod) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

/// Whether the pod counts: neither finished nor being deleted.
pub(crate) fn is_active(pod: &Pod) -> bool {
    !is_finished(pod) && pod.metadata.deletion_timestamp.is_none()
}

/// Since when the pod has been ready; none when it is not.
pub(crate) fn ready_since(pod: &Pod) -> Option<Timestamp> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let ready = conditions
        .iter()
        .find(|condition| condition.type_ == "Ready" && condition.status == "True")?;
    Some(
        ready
            .last_transition_time
            .as_ref()
            .map_or(Timestamp::UNIX_EPOCH, |time| time.0),
    )
}

/// Whether the pod is ready.
pub(crate) fn is_ready(pod: &Pod) -> bool {
    ready_since(pod).is_some()
}

/// How many of the pods are ready, how many have been for long enough, and when the next one will have been.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Readiness {
    pub(crate) ready: i32,
    pub(crate) available: i32,
    pub(crate) next_available: Option<Duration>,
}

impl Readiness {
    pub(crate) fn of<'a>(
        pods: impl IntoIterator<Item = &'a Arc<Pod>>,
        seconds_ready_min: i32,
        now: Timestamp,
    ) -> Readiness {
        let needed = Duration::from_secs(u64::try_from(seconds_ready_min).unwrap_or(0));
        let mut readiness = Readiness::default();
        for since in pods.into_iter().filter_map(|pod| ready_since(pod)) {
            readiness.ready += 1;
            let elapsed = Duration::try_from(now.duration_since(since)).unwrap_or(Duration::ZERO);
            match needed.checked_sub(elapsed).filter(|rest| !rest.is_zero()) {
                None => readiness.available += 1,
                Some(rest) => {
                    readiness.next_available = Some(readiness.next_available.map_or(rest, |next| next.min(rest)));
                }
            }
        }
        readiness
    }
}

/// A short hash of what pods are made from: the same template always has the same.
pub(crate) fn template_hash(template: &PodTemplateSpec, collisions: i32) -> String {
    /// As Kubernetes' names: no vowels, nothing that looks alike.
    const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
    let text = serde_json::to_value(template)
        .map(|value| value.to_string())
        .unwrap_or_default();
    // FNV-1a, 64 bits folded to 32: not a defence, only a name.
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in text.bytes().chain(collisions.to_le_bytes()) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    let mut rest = (hash >> 32) ^ (hash & 0xffff_ffff);
    let mut name = String::new();
    for _ in 0..8 {
        let index = usize::try_from(rest % 27).unwrap_or(0);
        name.push(char::from(ALPHABET[index]));
        rest /= 27;
    }
    name
}

/// Adds labels to those of a template's pods.
pub(crate) fn add_labels<const N: usize>(labels: &mut Option<BTreeMap<String, String>>, more: [(&str, String); N]) {
    let labels = labels.get_or_insert_default();
    labels.extend(more.into_iter().map(|(key, value)| (key.to_owned(), value)));
}

/// Creates a pod for its owner, or adopts the ownerless one of its name. Records that in an event of the owner, or why it
/// failed. False when the namespace is being deleted: no other pod can be created in it either.
pub(crate) async fn create_pod<O>(context: &Context, owner: &O, pod: &Pod) -> Result<bool, Fault>
where
    O: Resource<DynamicType = ()>,
{
    let made = match create_seen(&context.client, &context.caches.pods(), pod).await {
        Ok(Made::Exists) => take_over(context, owner, pod).await.map(|()| Made::Exists),
        made => made,
    };
    match made {
        Ok(Made::Created(created)) => {
            let message = format!("Created pod: {}", created.name_any());
            context
                .events
                .record(owner, EventType::Normal, "SuccessfulCreate", &message)
                .await;
            Ok(true)
        }
        Ok(Made::Exists) => Ok(true),
        Ok(Made::NamespaceGoes) => Ok(false),
        Err(fault) => {
            // It may be there all the same.
            context.unseen_writes.add(owner);
            if fault.class != FaultClass::Transient {
                let message = format!("Error creating: {fault}");
                context
                    .events
                    .record(owner, EventType::Warning, "FailedCreate", &message)
                    .await;
            }
            Err(fault)
        }
    }
}

async fn take_over<O>(context: &Context, owner: &O, pod: &Pod) -> Result<(), Fault>
where
    O: Resource<DynamicType = ()>,
{
    match adopt(&context.client, owner, pod).await? {
        Found::Ours => Ok(()),
        Found::Other(why) => {
            let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
            let taken = format!("create Pod {namespace}/{name}: another pod has this name: {why}");
            Err(Fault::dependency(taken).hint("delete that pod, or give its owner another name"))
        }
    }
}

/// Deletes a pod for its owner and records that in an event of the owner.
pub(crate) async fn delete_pod<O>(context: &Context, owner: &O, pod: &Pod) -> Result<(), Fault>
where
    O: Resource<DynamicType = ()>,
{
    let deleted = delete_seen(&context.client, &context.caches.pods(), pod).await;
    deleted.inspect_err(|_| context.unseen_writes.add(owner))?;
    let message = format!("Deleted pod: {}", pod.name_any());
    context
        .events
        .record(owner, EventType::Normal, "SuccessfulDelete", &message)
        .await;
    Ok(())
}
