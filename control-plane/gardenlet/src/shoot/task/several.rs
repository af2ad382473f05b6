//! What is alike for the extension kinds of which a shoot may have several objects: each is worked on to its end, and the
//! faults of all that failed are reported.

use std::time::Duration;

use api_meta::Fault;
use base_client::list;
use k8s_openapi::NamespaceResourceScope;
use kube::{Resource, ResourceExt};
use tokio::time::Instant;

use super::super::given::Requests;
use super::super::operation::{Operation, left};
use super::single::requested;
use crate::extension::{Kind, delete_confirmed, wait_deleted, wait_ready};
use crate::outcome::all;

/// Requests all that is `desired`; returns the requests by name.
pub(super) async fn request<K>(op: &Operation, desired: Vec<K>) -> Result<Requests, Fault>
where
    K: Kind + Resource<Scope = NamespaceResourceScope>,
{
    let api = &op.here::<K>();
    let one = |desired| async move { Ok(requested(&op.request(api, desired).await?)) };
    let written = all(desired.into_iter().map(one)).await?;
    Ok(written.into_iter().flatten().collect())
}

/// Waits until the extension of one object has done what was requested; returns the object then.
pub(super) async fn wait<K: Kind>(
    op: &Operation,
    name: &str,
    requests: &Requests,
    timeout: Duration,
) -> Result<K, Fault> {
    let cache = op.context.seed_caches.of();
    wait_ready(cache, &op.key(name), requests.get(name), timeout, &op.waiting).await
}

/// The names of the objects that are there.
pub(super) async fn present<K>(op: &Operation) -> Result<Vec<String>, Fault>
where
    K: Kind + Resource<Scope = NamespaceResourceScope>,
{
    let present = list(&op.here::<K>(), "").await?;
    Ok(present.iter().map(ResourceExt::name_any).collect())
}

/// Requests the deletion of the objects of these names.
pub(super) async fn delete<K>(op: &Operation, names: Vec<String>) -> Result<(), Fault>
where
    K: Kind + Resource<Scope = NamespaceResourceScope>,
{
    let api = &op.here::<K>();
    let one = |name: String| async move { delete_confirmed(&op.context, api, &name).await };
    all(names.into_iter().map(one)).await.map(drop)
}

/// Waits until the objects of these names are gone. Each has at most the time that `timeout` has for its name.
pub(super) async fn wait_gone<K>(
    op: &Operation,
    names: Vec<String>,
    until: Option<Instant>,
    timeout: impl Fn(&str) -> Duration,
) -> Result<(), Fault>
where
    K: Kind + Resource<Scope = NamespaceResourceScope>,
{
    let api = &op.here::<K>();
    let one = |name: String| {
        let timeout = timeout(&name).min(left(until));
        async move { wait_deleted(api, &op.key(&name), timeout, &op.waiting).await }
    };
    all(names.into_iter().map(one)).await.map(drop)
}
