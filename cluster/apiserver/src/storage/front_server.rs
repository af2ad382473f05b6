//! The API server in front of this one, as a store of all objects that this server does not serve itself: namespaces, Secrets,
//! what configures admission, quotas. It is read with a client of this server's own, and never written except for the status
//! of quotas.
//!
//! Namespaces, quotas and what configures admission are followed by watches; everything else is read when it is needed. What a
//! watch has not reported yet is read as well, so that a namespace that was created a moment ago is found.
//! (kubernetes/kubernetes v1.35 staging/src/k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle)

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use cluster_store::{Changes, Entry, Key, Listing, Object, Page, Range, Revision, Store, StoreError};
use http::{Method, Request};
use kube::{Client, Error};
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::storage::front_paths::{self, Place};
use crate::storage::resource_names::{self, QUOTAS};
use crate::wire::status::Status;

/// As in the store's keys.
const NAMESPACES: &str = "namespaces";
/// How long an answer of the server in front is waited for, as with reviews of access.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long a write waits for the first lists of all mirrors
/// (kubernetes/kubernetes v1.35 staging/src/k8s.io/apiserver/pkg/admission/initializer, WaitForReady).
const READY_TIMEOUT: Duration = Duration::from_secs(10);
/// Objects in one page of a list, as client-go requests them.
const PAGE: usize = 500;

/// The server in front.
pub(crate) struct InFront {
    pub(crate) client: Client,
    pub(crate) mirrors: BTreeMap<Arc<str>, Mirror>,
    /// How many mirrors still wait for their first list.
    pub(crate) pending: watch::Sender<usize>,
}

/// The objects of one resource, as a watch reports them.
pub(crate) struct Mirror {
    pub(crate) place: Place,
    pub(crate) objects: RwLock<BTreeMap<Key, Entry>>,
}

impl Mirror {
    fn get(&self, key: &Key) -> Option<Entry> {
        self.objects
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(key)
            .cloned()
    }

    fn list(&self, range: &Range) -> Vec<Entry> {
        let objects = self.objects.read().unwrap_or_else(PoisonError::into_inner);
        let in_range = objects.iter().filter(|(key, _)| range.contains(key));
        in_range.map(|(_, entry)| entry.clone()).collect()
    }
}

impl InFront {
    pub(crate) fn new(client: Client) -> Self {
        let hooks =
            resource_names::ADMISSION_CONFIGURATION.map(|resource| format!("{}/{resource}", resource_names::ADMISSION));
        let followed = [NAMESPACES, QUOTAS].map(str::to_owned).into_iter().chain(hooks);
        let mirrors: BTreeMap<Arc<str>, Mirror> = followed
            .filter_map(|resource| {
                let place = Place::built_in(&resource)?;
                let objects = RwLock::default();
                Some((resource.into(), Mirror { place, objects }))
            })
            .collect();
        Self {
            client,
            pending: watch::Sender::new(mirrors.len()),
            mirrors,
        }
    }

    /// Whether every mirror has had its first list.
    pub(crate) fn is_synced(&self) -> bool {
        *self.pending.borrow() == 0
    }

    /// Waits until they have. Errors: it takes too long; a write that went on would bypass webhooks and policies.
    pub(crate) async fn synced(&self) -> Result<(), Status> {
        if self.is_synced() {
            return Ok(());
        }
        let mut pending = self.pending.subscribe();
        let synced = timeout(READY_TIMEOUT, pending.wait_for(|pending| *pending == 0)).await;
        match synced {
            Ok(Ok(_)) => Ok(()),
            _ => Err(Status::unavailable(
                "not yet ready to handle request: namespaces and admission configuration of the API server in front are not \
                 known yet",
            )
            .retry_after(1)),
        }
    }

    /// The place of a kind, as a policy names the kind of its parameters. None: there is no such kind. Errors: there
    /// is no answer.
    pub(crate) async fn place_of_kind(&self, group: &str, version: &str, kind: &str) -> Result<Option<Place>, String> {
        let path = match group {
            "" => format!("/api/{version}"),
            group => format!("/apis/{group}/{version}"),
        };
        let Some(list) = self.read(&path).await.map_err(|error| error.to_string())? else {
            return Ok(None);
        };
        let resources = list["resources"].as_array().cloned().unwrap_or_default();
        let is_of_kind = |one: &&Value| one["kind"] == kind && !one["name"].as_str().unwrap_or("/").contains('/');
        Ok(resources.iter().find(is_of_kind).map(|one| Place {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
            plural: one["name"].as_str().unwrap_or_default().to_owned(),
            namespaced: one["namespaced"] == true,
        }))
    }

    /// One object of a place.
    pub(crate) async fn object(
        &self,
        place: &Place,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Option<Entry>, StoreError> {
        let Some(path) = place.path(namespace, Some(name)) else {
            return Ok(None);
        };
        match self.read(&path).await? {
            Some(object) => place.entry(object).map(Some),
            None => Ok(None),
        }
    }

    /// The newest state of an object, whatever a watch has reported.
    pub(crate) async fn get_now(&self, key: &Key) -> Result<Option<Entry>, StoreError> {
        let place = built_in_place(&key.resource)?;
        self.object(&place, key.namespace.as_deref(), &key.name).await
    }

    /// All objects of a place, of one namespace or of all.
    pub(crate) async fn objects(&self, place: &Place, namespace: Option<&str>) -> Result<Listing, StoreError> {
        let Some(path) = place.path(namespace, None) else {
            let namespace = namespace.unwrap_or_default();
            return Err(StoreError::Malformed(format!(
                "{namespace:?} is no name of a namespace"
            )));
        };
        let mut entries = Vec::new();
        let mut next = String::new();
        loop {
            let page = format!("{path}?limit={PAGE}&continue={next}");
            let mut page = match self.read(&page).await? {
                Some(page) => page,
                None if next.is_empty() => Value::Null,
                None => {
                    return Err(StoreError::Unavailable(format!(
                        "the API server in front stopped serving {path} in the middle of a list"
                    )));
                }
            };
            let items = page["items"].as_array_mut().map(std::mem::take).unwrap_or_default();
            for item in items {
                entries.push(place.entry(item)?);
            }
            next = front_paths::segment(page["metadata"]["continue"].as_str().unwrap_or_default());
            if next.is_empty() {
                let revision = front_paths::revision(&page);
                entries.sort_by(|one: &Entry, other| one.key.cmp(&other.key));
                return Ok(Listing {
                    entries,
                    revision,
                    remaining: 0,
                });
            }
        }
    }

    /// Reads a path. None: nothing is there.
    async fn read(&self, path: &str) -> Result<Option<Value>, StoreError> {
        match self.send(Method::GET, path, Bytes::new()).await {
            Ok(value) => Ok(Some(value)),
            Err(Failed::Answered(404, _)) => Ok(None),
            Err(failed) => Err(failed.into_store_error(path)),
        }
    }

    async fn send(&self, method: Method, path: &str, body: Bytes) -> Result<Value, Failed> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(http::header::CONTENT_TYPE, "application/json")
            .header(http::header::ACCEPT, "application/json")
            .body(body.to_vec())
            .map_err(|error| Failed::Unanswered(error.to_string()))?;
        match timeout(TIMEOUT, self.client.request::<Value>(request)).await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(Error::Api(status))) => Err(Failed::Answered(status.code, status.message)),
            Ok(Err(error)) => Err(Failed::Unanswered(error.to_string())),
            Err(_) => Err(Failed::Unanswered(format!("no answer within {} s", TIMEOUT.as_secs()))),
        }
    }

    /// Writes the status of a quota; nothing else is written.
    async fn write_quota_status(&self, key: &Key, expected: Revision, object: &Object) -> Result<Entry, StoreError> {
        let place = Place::built_in(QUOTAS);
        let path = place
            .as_ref()
            .and_then(|place| place.path(key.namespace.as_deref(), Some(&key.name)));
        let (Some(place), Some(path)) = (place, path) else {
            return Err(StoreError::Missing { key: key.clone() });
        };
        let mut value = object.value(expected);
        if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
            // The server in front keeps track of field owners itself.
            metadata.remove("managedFields");
        }
        let path = format!("{path}/status");
        match self.send(Method::PUT, &path, value.to_string().into()).await {
            Ok(written) => place.entry(written),
            Err(Failed::Answered(409, _)) => match self.object(&place, key.namespace.as_deref(), &key.name).await? {
                Some(current) => Err(StoreError::Conflict { expected, current }),
                None => Err(StoreError::Missing { key: key.clone() }),
            },
            Err(Failed::Answered(404, _)) => Err(StoreError::Missing { key: key.clone() }),
            Err(failed) => Err(failed.into_store_error(&path)),
        }
    }
}

/// Why a request to the server in front failed.
enum Failed {
    /// With a code and a reason.
    Answered(u16, String),
    /// There is no answer.
    Unanswered(String),
}

impl Failed {
    fn into_store_error(self, path: &str) -> StoreError {
        StoreError::Unavailable(match self {
            Self::Answered(code, why) => format!("the API server in front answers {code} to {path}: {why}"),
            Self::Unanswered(why) => format!("the API server in front does not answer to {path}: {why}"),
        })
    }
}

/// The place of a resource of Kubernetes' own: no other is read by its name alone.
fn built_in_place(resource: &str) -> Result<Place, StoreError> {
    Place::built_in(resource).ok_or_else(|| StoreError::Unavailable(format!("{resource} is not known to be anywhere")))
}

fn not_here(resource: &str) -> StoreError {
    StoreError::Unavailable(format!(
        "{resource} belongs to the API server in front and is not written here"
    ))
}

#[async_trait]
impl Store for InFront {
    async fn get(&self, key: &Key) -> Result<Option<Entry>, StoreError> {
        // An object that is being deleted may have been recreated, and an unknown one created just now.
        let known = self.mirrors.get(&key.resource).and_then(|mirror| mirror.get(key));
        if let Some(entry) = known.filter(|entry| entry.object.meta().deletion_timestamp.is_none()) {
            return Ok(Some(entry));
        }
        self.get_now(key).await
    }

    async fn list(&self, range: &Range, page: Page) -> Result<Listing, StoreError> {
        if page.after.is_some() || page.at.is_some() {
            return Err(not_here(&range.resource));
        }
        let mirror = self.mirrors.get(&range.resource).filter(|_| self.is_synced());
        let known_here = mirror.map(|mirror| mirror.list(range));
        // The counters of a quota change with every write.
        let current = known_here.filter(|entries| &*range.resource != QUOTAS || entries.is_empty());
        let mut listing = match current {
            Some(entries) => Listing {
                entries,
                revision: Revision(0),
                remaining: 0,
            },
            None => {
                self.objects(&built_in_place(&range.resource)?, range.namespace.as_deref())
                    .await?
            }
        };
        listing.entries.retain(|entry| range.contains(&entry.key));
        if let Some(limit) = page.limit.filter(|limit| listing.entries.len() > limit.get()) {
            listing.remaining = listing.entries.len() - limit.get();
            listing.entries.truncate(limit.get());
        }
        Ok(listing)
    }

    async fn create(&self, key: Key, _: Object) -> Result<Entry, StoreError> {
        Err(not_here(&key.resource))
    }

    async fn update(&self, key: &Key, expected: Revision, object: Object) -> Result<Entry, StoreError> {
        match &*key.resource {
            QUOTAS => self.write_quota_status(key, expected, &object).await,
            other => Err(not_here(other)),
        }
    }

    async fn delete(&self, key: &Key, _: Revision) -> Result<Entry, StoreError> {
        Err(not_here(&key.resource))
    }

    async fn watch(&self, range: &Range, _: Revision) -> Result<Changes, StoreError> {
        Err(not_here(&range.resource))
    }

    async fn revision(&self) -> Result<Revision, StoreError> {
        Err(not_here("a revision"))
    }
}
