//! What is alike for the extension kinds of which a shoot has one object, named like itself.

use api_extensions::{ControlPlane, Infrastructure, Network, Worker};
use api_meta::Fault;
use base_controller::Cache;
use k8s_openapi::NamespaceResourceScope;
use kube::{Resource, ResourceExt};
use tokio::time::Instant;

use super::super::given::Requests;
use super::super::operation::{Operation, left};
use crate::context::SeedCaches;
use crate::extension::{Asked, Kind, ask, delete_confirmed, wait_deleted, wait_ready};

/// A kind of which a shoot has one object.
pub(super) trait Single: Kind + Resource<Scope = NamespaceResourceScope> {
    /// The mirror of all of them.
    fn mirror(caches: &SeedCaches) -> &Cache<Self>;
}

macro_rules! single {
    ($($kind:ty: $mirror:ident),+ $(,)?) => {
        $(impl Single for $kind {
            fn mirror(caches: &SeedCaches) -> &Cache<Self> {
                &caches.$mirror
            }
        })+
    };
}

single!(Infrastructure: infrastructures, ControlPlane: control_planes, Network: networks, Worker: workers);

/// Requests what `desired` says; what was requested, by name.
pub(super) async fn request<K>(op: &Operation, desired: K) -> Result<Requests, Fault>
where
    K: Kind + Resource<Scope = NamespaceResourceScope>,
{
    let written = ask(&op.context, &op.here::<K>(), desired).await?;
    Ok(requested(&written).into_iter().collect())
}

/// The request on an object as it was written or found, by its name.
pub(super) fn requested<K: Kind>(object: &K) -> Option<(String, Asked)> {
    Some((object.name_any(), Asked::of(object)?))
}

/// Waits until its extension has done what was requested; gives the object then.
pub(super) async fn wait<K: Single>(op: &Operation, requests: &Requests, until: Option<Instant>) -> Result<K, Fault> {
    let name = &op.shoot.name;
    let mirror = K::mirror(&op.context.seed_caches);
    wait_ready(mirror, &op.key(name), requests.get(name), left(until), &op.waiting).await
}

/// Asks for its deletion.
pub(super) async fn destroy<K: Single>(op: &Operation) -> Result<(), Fault> {
    delete_confirmed(&op.context, &op.here::<K>(), &op.shoot.name).await
}

/// Waits until it is gone.
pub(super) async fn wait_destroyed<K: Single>(op: &Operation, until: Option<Instant>) -> Result<(), Fault> {
    wait_deleted(&op.here::<K>(), &op.key(&op.shoot.name), left(until), &op.waiting).await
}
