//! Handles for objects of any kind, whether they live in namespaces or not. It makes no request.

use api_meta::{ByScope, ObjectScope};
use kube::core::{ClusterResourceScope, NamespaceResourceScope};
use kube::{Api, Client, Resource};

/// A handle for the objects of a kind in a namespace; for a kind that is cluster-scoped, for all of them.
pub fn api_in<K>(client: &Client, namespace: &str) -> Api<K>
where
    K: Resource<DynamicType = ()>,
    K::Scope: ObjectScope,
{
    <K::Scope as ObjectScope>::choose(ApiIn { client, namespace })
}

struct ApiIn<'a> {
    client: &'a Client,
    namespace: &'a str,
}

impl<K: Resource<DynamicType = ()>> ByScope<K> for ApiIn<'_> {
    type Output = Api<K>;

    fn namespaced(self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), self.namespace)
    }

    fn cluster(self) -> Api<K>
    where
        K: Resource<Scope = ClusterResourceScope>,
    {
        Api::all(self.client.clone())
    }
}
