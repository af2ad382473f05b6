//! Writes that are waited for until the cache shows them, and the owners of writes that it has not shown: a controller that
//! counts in a cache that is behind creates everything twice.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api_meta::Fault;
use base_client::{WaitState, fault_of, is_exists, is_missing, is_namespace_terminating, list};
use base_controller::{Cache, ObjectKey};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, PostParams, Preconditions};
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Context;
use crate::pods::{controller_of, managed_by};

/// How long a controller waits to see its own write in its cache: beyond this the watch is broken.
const SEEN_TIMEOUT: Duration = Duration::from_secs(5);
/// Owners remembered: those that are deleted meanwhile are never looked up again.
const OWNERS_MAX: usize = 10_000;

/// The owners, by uid, whose last write to their pods the cache is not known to show.
#[derive(Clone, Default)]
pub(crate) struct UnseenWrites(Arc<Mutex<BTreeSet<String>>>);

impl UnseenWrites {
    pub(crate) fn add<O: Resource>(&self, owner: &O) {
        let mut owners = self.lock();
        if owners.len() >= OWNERS_MAX {
            owners.pop_first();
        }
        owners.extend(owner.meta().uid.clone());
    }

    fn has<O: Resource>(&self, owner: &O) -> bool {
        owner.meta().uid.as_ref().is_some_and(|uid| self.lock().contains(uid))
    }

    fn remove<O: Resource>(&self, owner: &O) {
        if let Some(uid) = &owner.meta().uid {
            self.lock().remove(uid);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The pods that `owner` manages, to plan from. While the cache's watch fails, or a write of the owner's was not seen,
/// the API server is read as well: a cache that shows anything else is a transient fault.
pub(crate) async fn pods_of<O>(context: &Context, owner: &O) -> Result<Vec<Arc<Pod>>, Fault>
where
    O: Resource<DynamicType = ()>,
{
    let cache = context.caches.pods();
    let trouble = cache.error();
    if trouble.is_none() && !context.unseen_writes.has(owner) {
        return Ok(managed_by(&cache, owner));
    }
    let namespace = owner.meta().namespace.clone().unwrap_or_default();
    let there = list(&Api::<Pod>::namespaced(context.client.clone(), &namespace), "").await?;
    let is_managed = |pod: &&Pod| {
        let controller = controller_of(&pod.metadata);
        controller.is_some_and(|controller| Some(&controller.uid) == owner.meta().uid.as_ref())
    };
    let cached = managed_by(&cache, owner);
    let shown = presence(cached.iter().map(|pod| &**pod));
    if shown != presence(there.iter().filter(is_managed)) {
        let why = trouble.unwrap_or_else(|| "its watch is late".to_owned());
        let fault = format!("what is known of the pods in namespace {namespace} is old: {why}");
        return Err(
            Fault::transient(fault).hint("nothing is planned before it is up to date; it is tried again by itself")
        );
    }
    context.unseen_writes.remove(owner);
    Ok(cached)
}

/// Which pods there are, and which of them are being deleted.
fn presence<'a>(pods: impl Iterator<Item = &'a Pod>) -> BTreeMap<Option<&'a str>, bool> {
    let presence = pods.map(|pod| (pod.metadata.uid.as_deref(), pod.metadata.deletion_timestamp.is_some()));
    presence.collect()
}

/// What has become of an object that was to be created.
#[derive(Debug)]
pub(crate) enum Made<K> {
    /// It was, and the cache shows it.
    Created(K),
    /// One of that name is there already, whoever made it.
    Exists,
    /// Its namespace is being deleted, and the owner with it.
    NamespaceGoes,
}

/// Creates an object and waits until the cache shows it. A cache that does not show it in time is a transient fault.
pub(crate) async fn create_seen<K>(client: &Client, cache: &Cache<K>, object: &K) -> Result<Made<K>, Fault>
where
    K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + Serialize
        + DeserializeOwned
        + Debug
        + Send
        + Sync
        + 'static,
{
    let namespace = object.namespace().unwrap_or_default();
    let api: Api<K> = Api::namespaced(client.clone(), &namespace);
    let created = match api.create(&PostParams::default(), object).await {
        Ok(created) => created,
        Err(error) if is_exists(&error) && object.meta().name.is_some() => return Ok(Made::Exists),
        Err(error) if is_namespace_terminating(&error) => return Ok(Made::NamespaceGoes),
        Err(error) => {
            let name = object
                .meta()
                .name
                .clone()
                .or_else(|| object.meta().generate_name.clone())
                .unwrap_or_default();
            return Err(fault_of(error, &format!("create {} {namespace}/{name}", K::kind(&()))));
        }
    };
    let key = ObjectKey::of(&created);
    let seen = cache.wait_until(&key, SEEN_TIMEOUT, |object| match object {
        Some(_) => WaitState::Done(()),
        None => WaitState::NotYet("not seen yet".to_owned()),
    });
    seen.await.map_err(|_| unseen("created", K::kind(&()).as_ref(), &key))?;
    Ok(Made::Created(created))
}

/// Deletes a pod and waits until the cache shows that it is being deleted. Another pod of that name is left alone.
pub(crate) async fn delete_seen(client: &Client, cache: &Cache<Pod>, pod: &Pod) -> Result<(), Fault> {
    let key = ObjectKey::of(pod);
    let api: Api<Pod> = Api::namespaced(client.clone(), key.namespace.as_deref().unwrap_or_default());
    let uid = pod.metadata.uid.clone();
    let preconditions = Some(Preconditions {
        uid: uid.clone(),
        resource_version: None,
    });
    let params = DeleteParams {
        preconditions,
        ..DeleteParams::default()
    };
    match api.delete(&key.name, &params).await {
        Ok(_) => {}
        Err(error) if is_missing(&error) => {}
        Err(error) => return Err(fault_of(error, &format!("delete Pod {key}"))),
    }
    let seen = cache.wait_until(&key, SEEN_TIMEOUT, |now| match now {
        Some(now) if now.metadata.uid == uid && now.metadata.deletion_timestamp.is_none() => {
            WaitState::NotYet("not seen yet".to_owned())
        }
        _ => WaitState::Done(()),
    });
    seen.await.map_err(|_| unseen("deleted", "Pod", &key))
}

/// Waits until the cache shows that an object has a controller, or that it has gone.
pub(crate) async fn seen_with_controller<K>(cache: &Cache<K>, object: &K) -> Result<(), Fault>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    let key = ObjectKey::of(object);
    let seen = cache.wait_until(&key, SEEN_TIMEOUT, |now| match now {
        Some(now) if controller_of(now.meta()).is_none() => WaitState::NotYet("not seen yet".to_owned()),
        _ => WaitState::Done(()),
    });
    seen.await.map_err(|_| unseen("adopted", K::kind(&()).as_ref(), &key))
}

fn unseen(done: &str, kind: &str, key: &ObjectKey) -> Fault {
    Fault::transient(format!(
        "{kind} {key} was {done}, and the watch has not shown it for {} s",
        SEEN_TIMEOUT.as_secs()
    ))
    .hint("nothing is planned before the watch has caught up; it is tried again by itself")
}
