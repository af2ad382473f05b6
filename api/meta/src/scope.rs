//! Whether objects of a kind live in namespaces, as a type: code for all kinds chooses by it what differs between the
//! two. It decides nothing itself.

use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use kube_core::Resource;

/// Where objects of a kind live: in namespaces, or in the cluster as a whole.
pub trait ObjectScope: Sized {
    /// Takes the branch of this scope.
    fn choose<K: Resource<Scope = Self>, C: ByScope<K>>(choice: C) -> C::Output;
}

/// Something that is done in another way for kinds of either scope. The branches know the scope of the kind, which
/// constructors such as `kube::Api::namespaced` demand.
pub trait ByScope<K: Resource> {
    /// What both branches return.
    type Output;

    /// For a kind whose objects live in namespaces.
    fn namespaced(self) -> Self::Output
    where
        K: Resource<Scope = NamespaceResourceScope>;

    /// For a kind whose objects live in the cluster as a whole.
    fn cluster(self) -> Self::Output
    where
        K: Resource<Scope = ClusterResourceScope>;
}

impl ObjectScope for NamespaceResourceScope {
    fn choose<K: Resource<Scope = Self>, C: ByScope<K>>(choice: C) -> C::Output {
        choice.namespaced()
    }
}

impl ObjectScope for ClusterResourceScope {
    fn choose<K: Resource<Scope = Self>, C: ByScope<K>>(choice: C) -> C::Output {
        choice.cluster()
    }
}
