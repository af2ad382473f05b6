//! What a controller finds under the name that it wants to create: its own, nobody's, which it adopts, or another's.
//! It never takes anything from another owner. After kubernetes v1.35 `pkg/controller/controller_ref_manager.go`.

use std::fmt::Debug;

use api_meta::Fault;
use base_client::{get, patch_changed};
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::pods::{REVISION, controller_of, owner_reference};

/// What stands under the name.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// What the owner has made, or has just adopted.
    Ours,
    /// Another owner's, or nothing that the owner would make; says whose or what.
    Other(String),
}

/// Looks at what is there in the place of `wanted`, and makes `owner` its controller if it has none and carries all of
/// `wanted`'s labels, of whatever revision it is: its owner brings it up to date. It is written only as it was read: what
/// takes its name meanwhile is left alone.
pub(crate) async fn adopt<K, O>(client: &Client, owner: &O, wanted: &K) -> Result<Found, Fault>
where
    K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + Serialize
        + DeserializeOwned
        + Debug,
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
