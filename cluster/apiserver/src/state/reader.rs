//! Read access to the store for admission, in hub versions. It never writes.

use std::sync::Arc;

use cluster_access::{Attributes, ResourceTarget, User};
use cluster_store::{Key, Page, Range};
use futures::future::BoxFuture;
use serde_json::Value;

use crate::access::authorization;
use crate::kinds::other_objects::{Extract, Extracted, Objects};
use crate::state::server_state::ServerState;
use crate::storage::errors::store_status;
use crate::storage::stores::store_name;
use crate::wire::query::Query;
use crate::wire::status::Status;

/// The objects of one server.
pub(crate) struct Reader(Arc<ServerState>);

impl Reader {
    pub(crate) fn new(server: &Arc<ServerState>) -> Self {
        Self(server.clone())
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
            Ok(entry.map(|entry| self.0.parsed.value(&entry)))
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
            Ok(listing.entries.iter().map(|entry| self.0.parsed.value(entry)).collect())
        })
    }

    fn find<'a>(
        &'a self,
        group: &'a str,
        resource: &'a str,
        extract: &'a Extract,
        test: &'a (dyn Fn(&Extracted<'_>) -> bool + Send + Sync),
    ) -> BoxFuture<'a, Result<Option<Arc<Value>>, Status>> {
        Box::pin(async move {
            let resource = store_name(group, resource);
            let range = Range::all(resource.as_str());
            let listing = self.0.store.list(&range, Page::default()).await.map_err(store_status)?;
            let found = self.0.extracts.find(&resource, extract, listing.entries, test);
            Ok(found.map(|entry| self.0.parsed.value(&entry)))
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
            let decision = authorization::decide(&self.0.access, &attributes, &Query::default()).await?;
            Ok(decision.is_allowed())
        })
    }
}
