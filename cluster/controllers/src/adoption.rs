//! What a controller adopts: all that its selector selects and that has no owner, and an ownerless object under the name
//! that it wants to create. It never takes anything from another owner.
//! After kubernetes v1.35 `pkg/controller/controller_ref_manager.go`.

use std::fmt::Debug;
use std::sync::Arc;

use api_meta::Fault;
use base_client::{get, patch_changed};
use base_controller::Cache;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::{Selector, SelectorExt};
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::pods::{REVISION, controller_of, owner_reference};
use crate::seen::seen_with_controller;

/// Makes `owner` the controller of all that its selector selects in its namespace and has no controller, and waits until
/// the cache shows it. An owner that is being deleted adopts nothing: what it leaves behind is to stay.
pub(crate) async fn claim<K, O>(
    client: &Client,
    cache: &Cache<K>,
    owner: &O,
    selector: &LabelSelector,
) -> Result<(), Fault>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Serialize
        + DeserializeOwned
        + Debug
        + Send
        + Sync
        + 'static,
    O: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug,
{
    let namespace = owner.namespace().unwrap_or_default();
    let selector = Selector::try_from(selector.clone())
        .map_err(|error| Fault::user(format!("{} {namespace}/{}: {error}", O::kind(&()), owner.name_any())))?;
    let is_free = |object: &Arc<K>| {
        controller_of(object.meta()).is_none()
            && object.meta().deletion_timestamp.is_none()
            && selector.matches(object.labels())
    };
    let free: Vec<Arc<K>> = cache.list_in(&namespace).into_iter().filter(is_free).collect();
    if selector.selects_all() || free.is_empty() {
        return Ok(());
    }
    // The cache may not show yet that the owner is being deleted and leaves these behind.
    let owners: Api<O> = Api::namespaced(client.clone(), &namespace);
    let now = get(&owners, &owner.name_any()).await?;
    let stays = |now: &O| now.meta().uid == owner.meta().uid && now.meta().deletion_timestamp.is_none();
    if !now.as_ref().is_some_and(stays) {
        return Ok(());
    }
    let api: Api<K> = Api::namespaced(client.clone(), &namespace);
    for there in free {
        let mut adopted = (*there).clone();
        adopted.owner_references_mut().push(owner_reference(owner));
        patch_changed(&api, &*there, &adopted).await?;
        seen_with_controller(cache, &*there).await?;
    }
    Ok(())
}

/// What has the name already.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// What the owner has made, or has just adopted.
    Ours,
    /// Another owner's, or nothing that the owner would make; names whose or what.
    Other(String),
}

/// Looks at what is there in the place of `wanted`, and makes `owner` its controller if it has none and carries all of
/// `wanted`'s labels, of whatever revision it is: its owner brings it up to date. It is written only as it was read: what
/// takes its name meanwhile is left alone.
pub(crate) async fn adopt<K, O>(client: &Client, owner: &O, wanted: &K) -> Result<Found, Fault>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Serialize + DeserializeOwned + Debug,
    O: Resource<DynamicType = ()>,
{
    let namespace = wanted.namespace().unwrap_or_default();
    let api: Api<K> = Api::namespaced(client.clone(), &namespace);
    let (kind, name) = (K::kind(&()), wanted.name_any());
    let Some(there) = get(&api, &name).await? else {
        let gone = format!("{kind} {namespace}/{name} was there and has gone while it was looked at");
        return Err(Fault::transient(gone).hint("it is created when this is tried again, which happens by itself"));
    };
    if let Some(controller) = controller_of(there.meta()) {
        return Ok(if Some(&controller.uid) == owner.meta().uid.as_ref() {
            Found::Ours
        } else {
            Found::Other(format!("it belongs to {} {}", controller.kind, controller.name))
        });
    }
    if there.meta().deletion_timestamp.is_some() {
        return Err(Fault::transient(format!("{kind} {namespace}/{name} is being deleted"))
            .hint("another is created when it has gone; it is tried again by itself"));
    }
    let missing = wanted
        .labels()
        .iter()
        .find(|(key, value)| *key != REVISION && there.labels().get(*key) != Some(*value));
    if let Some((key, value)) = missing {
        return Ok(Found::Other(format!("it has no label {key}={value}")));
    }
    let mut adopted = there.clone();
    adopted.owner_references_mut().push(owner_reference(owner));
    patch_changed(&api, &there, &adopted).await?;
    Ok(Found::Ours)
}
