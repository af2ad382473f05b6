//! What is alike for the extension kinds of which a shoot has one object, named like itself.

use api_meta::Fault;
use k8s_openapi::NamespaceResourceScope;
use kube::{Resource, ResourceExt};
use tokio::time::Instant;

use super::super::given::Requests;
use super::super::operation::{Operation, left};
use super::several;
use crate::extension::{Kind, Request, delete_confirmed, wait_deleted};

/// Requests `desired`; returns the request by name.
pub(super) async fn request<K>(op: &Operation, desired: K) -> Result<Requests, Fault>
where
    K: Kind + Resource<Scope = NamespaceResourceScope>,
{
    let written = op.request(&op.here::<K>(), desired).await?;
    Ok(requested(&written).into_iter().collect())
}

/// The request on an object as it was written or found, by its name.
pub(super) fn requested<K: Kind>(object: &K) -> Option<(String, Request)> {
    Some((object.name_any(), Request::of(object)?))
}

/// Waits until its extension has done what was requested; returns the object then.
pub(super) async fn wait<K: Kind>(op: &Operation, requests: &Requests, until: Option<Instant>) -> Result<K, Fault> {
    several::wait(op, &op.shoot.name, requests, left(until)).await
}

/// Requests its deletion.
pub(super) async fn destroy<K>(op: &Operation) -> Result<(), Fault>
where
    K: Kind + Resource<Scope = NamespaceResourceScope>,
{
    delete_confirmed(&op.context, &op.here::<K>(), &op.shoot.name).await
}

/// Waits until it is gone.
pub(super) async fn wait_destroyed<K>(op: &Operation, until: Option<Instant>) -> Result<(), Fault>
where
    K: Kind + Resource<Scope = NamespaceResourceScope>,
{
    wait_deleted(&op.here::<K>(), &op.key(&op.shoot.name), left(until), &op.waiting).await
}
