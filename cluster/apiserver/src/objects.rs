//! Read access to the store for admission, in hub versions. It never writes.

use std::sync::Arc;

use cluster_access::{Attributes, ResourceTarget};
use cluster_store::{Key, Page, Range};
use futures::future::BoxFuture;
use serde_json::Value;

use crate::User;
use crate::access;
use crate::context::store_status;
use crate::kind::Objects;
use crate::query::Query;
use crate::server::Inner;
use crate::status::Status;

/// The objects of one server.
pub(crate) struct Reader(Arc<Inner>);

impl Reader {
    pub(crate) fn new(server: &Arc<Inner>) -> Self {
        Self(server.clone())
    }
}

fn store_name(group: &str, resource: &str) -> String {
    if group.is_empty() {
        resource.to_owned()
    } else {
        format!("{group}/{resource}")
    }
}

impl Objects for Reader {
    fn get<'a>(
        &'a self,
        group: &'a str,
        resource: &'a str,
        namespace: Option<&'a str>,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Option<Arc<Value>>, Status>> {
        Box::pin(async move {
            let key = Key::new(store_name(group, resource), namespace, name);
            let entry = self.0.store.get(&key).await.map_err(store_status)?;
            Ok(entry.map(|entry| Arc::new(entry.object.value(entry.revision))))
        })
    }

    fn list<'a>(
        &'a self,
        group: &'a str,
        resource: &'a str,
        namespace: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Vec<Arc<Value>>, Status>> {
        Box::pin(async move {
            let range = Range {
                resource: store_name(group, resource).into(),
                namespace: namespace.map(Arc::from),
                name: None,
            };
            let listing = self.0.store.list(&range, Page::default()).await.map_err(store_status)?;
            Ok(listing
                .entries
                .iter()
                .map(|entry| Arc::new(entry.object.value(entry.revision)))
                .collect())
        })
    }

    fn allowed<'a>(
        &'a self,
        user: &'a User,
        verb: &'a str,
        group: &'a str,
        resource: &'a str,
        namespace: Option<&'a str>,
        name: &'a str,
    ) -> BoxFuture<'a, Result<bool, Status>> {
        Box::pin(async move {
            let target = ResourceTarget {
                group: group.to_owned(),
                version: "*".to_owned(),
                resource: resource.to_owned(),
                subresource: String::new(),
                namespace: namespace.unwrap_or_default().to_owned(),
                name: name.to_owned(),
            };
            let attributes = Attributes::resource(&Arc::new(user.clone()), verb, target);
            let decision = access::decide(&self.0, &attributes, &Query::default()).await?;
            Ok(decision.is_allowed())
        })
    }
}
