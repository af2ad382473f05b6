//! The trait by which kinds and admission plug-ins read other objects of a server. Where they come from is up to its
//! implementation, `state/reader`.

use std::sync::Arc;

use cluster_access::User;
use futures::future::BoxFuture;
use serde_json::Value;

use crate::wire::status::Status;

/// Read access to the other objects of this server, past authorization: for admission. All in hub versions.
pub trait Objects: Send + Sync {
    /// `group` is empty for core kinds, `resource` is the plural.
    fn get<'a>(
        &'a self,
        group: &'a str,
        resource: &'a str,
        namespace: Option<&'a str>,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Option<Arc<Value>>, Status>>;

    /// All objects of a resource, of one namespace or of all, in order of namespace and name.
    fn list<'a>(
        &'a self,
        group: &'a str,
        resource: &'a str,
        namespace: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Vec<Arc<Value>>, Status>>;

    /// The first object of a resource in all namespaces, in order of namespace and name, for whose texts `test` is true. A
    /// server extracts the texts of each state of an object once; this default lists and reads all objects each time.
    fn find<'a>(
        &'a self,
        group: &'a str,
        resource: &'a str,
        extract: &'a Extract,
        test: &'a (dyn Fn(&Extracted<'_>) -> bool + Send + Sync),
    ) -> BoxFuture<'a, Result<Option<Arc<Value>>, Status>> {
        Box::pin(async move {
            let text = |object: &Value, field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
            let all = self.list(group, resource, None).await?;
            Ok(all.into_iter().find(|object| {
                let (namespace, name) = (text(object, "namespace"), text(object, "name"));
                let extracted = Extracted {
                    namespace: Some(namespace.as_str()).filter(|namespace| !namespace.is_empty()),
                    name: &name,
                    texts: &(extract.read)(object),
                };
                test(&extracted)
            }))
        })
    }

    /// Whether `user` may do `verb`: for plug-ins that check custom verbs or access to referenced objects.
    fn allowed<'a>(
        &'a self,
        user: &'a User,
        verb: &'a str,
        group: &'a str,
        resource: &'a str,
        namespace: Option<&'a str>,
        name: &'a str,
    ) -> BoxFuture<'a, Result<bool, Status>>;
}

/// A few texts of every object of a resource, to search by.
#[derive(Clone, Copy, Debug)]
pub struct Extract {
    /// Unique among the extracts of a resource.
    pub name: &'static str,
    /// Reads the texts out of an object; depends on nothing else.
    pub read: fn(&Value) -> Vec<String>,
}

/// The texts of one object.
#[derive(Clone, Copy, Debug)]
pub struct Extracted<'a> {
    /// The object's namespace; none of a cluster-scoped kind.
    pub namespace: Option<&'a str>,
    /// The object's name.
    pub name: &'a str,
    /// What [`Extract::read`] gave.
    pub texts: &'a [String],
}
