//! Which kinds are served right now. Readers take a snapshot; a change (a CRD comes or goes) replaces it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use bytes::Bytes;
use cluster_schema::Schema;
use cluster_store::Revision;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::kinds::conversion_webhook::Converter;
use crate::kinds::custom::CustomKind;
use crate::kinds::event_cache::EventCaches;
use crate::kinds::kind::Kind;
use crate::kinds::resource::{ResourceInfo, Version};
use crate::kinds::review_kinds::Review;
use crate::wire::path::Target;
use crate::wire::status::Status;
use crate::wire::version_order::version_priority;

pub(crate) const DELETE_COLLECTION: &str = "deletecollection";
/// Verbs of a stored resource.
const VERBS: [&str; 8] = [
    "create",
    "delete",
    DELETE_COLLECTION,
    "get",
    "list",
    "patch",
    "update",
    "watch",
];

/// The same of a custom resource, in the order in which they are listed.
const CUSTOM_VERBS: [&str; 8] = [
    "delete",
    DELETE_COLLECTION,
    "get",
    "list",
    "patch",
    "create",
    "update",
    "watch",
];

/// Which kinds the server treats otherwise than by their [`Kind`] alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Ordinary,
    Namespace,
    Pod,
    Service,
    ServiceAccount,
    CustomResourceDefinition,
    CertificateSigningRequest,
    /// A custom resource.
    Custom,
}

/// The time that a kind is served: writes of its CRD do not end it, the CRD's deletion does.
#[derive(Default)]
pub(crate) struct ServedPeriod {
    /// The CRD's; empty for a kind that the server was built with.
    pub(crate) uid: String,
    gone: CancellationToken,
    /// Set before `gone`.
    gone_at: OnceLock<Revision>,
    cleaned_up: AtomicBool,
    /// No object of the kind may be created any more.
    closing: AtomicBool,
}

impl ServedPeriod {
    pub(crate) fn of(uid: &str) -> Self {
        Self {
            uid: uid.to_owned(),
            ..Self::default()
        }
    }

    fn end(&self, at: Revision) {
        // The first call counts: no object of this kind is written after either revision.
        let _ = self.gone_at.set(at);
        self.gone.cancel();
    }

    pub(crate) async fn ended(&self) {
        self.gone.cancelled().await;
    }

    /// Whether a write at that revision is no longer this kind's.
    pub(crate) fn is_over_at(&self, revision: Revision) -> bool {
        self.gone_at.get().is_some_and(|at| revision > *at)
    }

    /// The kind's definition is being deleted.
    pub(crate) fn close(&self) {
        self.closing.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Relaxed)
    }

    /// True for the first caller, who has to remove the instances.
    pub(crate) fn begin_clean_up(&self) -> bool {
        !self.cleaned_up.swap(true, Ordering::Relaxed)
    }
}

/// A kind and what is derived from it once.
pub(crate) struct Served {
    pub(crate) kind: Arc<dyn Kind>,
    pub(crate) role: Role,
    /// As in the store's keys.
    pub(crate) store_name: Arc<str>,
    pub(crate) storage_version: String,
    /// `{"apiVersion":"apps/v1",` per version: what most objects begin with.
    heads: BTreeMap<String, Bytes>,
    pub(crate) period: Arc<ServedPeriod>,
    /// The revision at which the kind got the fields it has: what was stored before may have others.
    pub(crate) as_of: Revision,
    /// The kind, if it comes from a definition.
    pub(crate) custom: Option<Arc<CustomKind>>,
    /// Shared by the watches of the kind.
    pub(crate) event_caches: EventCaches,
}

impl Served {
    pub(crate) fn new(kind: Arc<dyn Kind>, role: Role) -> Self {
        let name = kind.resource().store_name();
        Self::stored_as(&name, kind, role)
    }

    /// A kind whose objects lie under another's name in the store.
    pub(crate) fn stored_as(store_name: &str, kind: Arc<dyn Kind>, role: Role) -> Self {
        let info = kind.resource();
        let heads = info
            .versions
            .iter()
            .map(|version| {
                let api_version = Value::String(info.api_version(&version.name));
                (
                    version.name.to_string(),
                    Bytes::from(format!("{{\"apiVersion\":{api_version},")),
                )
            })
            .collect();
        let storage_version = info.storage_version().to_owned();
        Self {
            role,
            store_name: store_name.into(),
            storage_version,
            heads,
            kind,
            period: Arc::default(),
            as_of: Revision(0),
            custom: None,
            event_caches: EventCaches::default(),
        }
    }

    /// The same kind, where all that was stored before a revision may have another format.
    pub(crate) fn since(self, as_of: Revision) -> Self {
        Self { as_of, ..self }
    }

    /// A kind that has its fields since a revision.
    pub(crate) fn custom(kind: Arc<CustomKind>, period: Arc<ServedPeriod>, as_of: Revision) -> Self {
        Self {
            period,
            as_of,
            custom: Some(kind.clone()),
            ..Self::new(kind, Role::Custom)
        }
    }

    pub(crate) fn info(&self) -> &ResourceInfo {
        self.kind.resource()
    }

    pub(crate) fn group(&self) -> &str {
        &self.info().group
    }

    pub(crate) fn plural(&self) -> &str {
        &self.info().plural
    }

    /// The version of that name, if clients may use it.
    pub(crate) fn version(&self, name: &str) -> Option<&Version> {
        self.info()
            .versions
            .iter()
            .find(|version| version.served && version.name == name)
    }

    /// What can be done with its objects. Namespaces go one by one (kubernetes/kubernetes v1.35
    /// pkg/registry/core/namespace/storage).
    pub(crate) fn verbs(&self) -> Vec<&'static str> {
        let supported = |verb: &&str| self.role != Role::Namespace || *verb != DELETE_COLLECTION;
        let all = match self.role {
            Role::Custom => CUSTOM_VERBS,
            _ => VERBS,
        };
        // Objects of a kind that is being deleted are not created or changed any more.
        let closing = self.period.is_closing();
        let open = |verb: &&str| !closing || !matches!(*verb, "create" | "patch" | "update");
        all.into_iter().filter(supported).filter(open).collect()
    }

    /// The webhook that converts between its versions, where there is one.
    pub(crate) fn converter(&self) -> Option<&Converter> {
        self.custom.as_deref()?.converter()
    }

    pub(crate) fn hub_schema(&self) -> Option<Schema> {
        self.kind.schema(&self.storage_version)
    }

    /// What a canonical object of that version begins with.
    pub(crate) fn head(&self, version: &str) -> Option<&Bytes> {
        self.heads.get(version)
    }
}

/// All kinds at one moment.
#[derive(Default)]
pub(crate) struct Kinds {
    /// Group, then plural.
    groups: BTreeMap<String, BTreeMap<String, Arc<Served>>>,
    /// Whether the server answers no reviews and has no core group: one in front of it does.
    without_reviews: bool,
    pub(crate) documents: Documents,
}

/// Discovery and OpenAPI answers, made at the first request and dropped with the snapshot.
#[derive(Default)]
pub(crate) struct Documents {
    pub(crate) aggregated_core: OnceLock<Bytes>,
    pub(crate) aggregated_groups: OnceLock<Bytes>,
    pub(crate) openapi_index: OnceLock<Bytes>,
    pub(crate) openapi: std::sync::Mutex<BTreeMap<String, Bytes>>,
}

impl Kinds {
    pub(crate) fn find(&self, group: &str, plural: &str) -> Option<&Arc<Served>> {
        self.groups.get(group)?.get(plural)
    }

    /// The 404 for a path that leads nowhere: a `Status` in groups that the server was built with, for all other paths a line
    /// of text.
    pub(crate) fn nowhere(&self, group: &str) -> Status {
        let kinds = self.groups.get(group);
        let built_in = kinds.is_some_and(|kinds| kinds.values().any(|served| served.role != Role::Custom));
        if built_in || self.reviews().iter().any(|review| review.group() == group) {
            Status::no_such_resource()
        } else {
            Status::no_such_page()
        }
    }

    /// Whether there is a core group.
    pub(crate) fn has_core(&self) -> bool {
        !self.without_reviews
    }

    /// The reviews that are answered.
    pub(crate) fn reviews(&self) -> &'static [Review] {
        if self.without_reviews { &[] } else { &Review::ALL }
    }

    /// The review at a path.
    pub(crate) fn find_review(&self, target: &Target) -> Option<Review> {
        let fits = |review: &Review| {
            review.group() == target.group && target.version == "v1" && review.resource() == target.resource
        };
        self.reviews().iter().copied().find(fits)
    }

    /// The kinds of a group.
    pub(crate) fn of_group(&self, group: &str) -> impl Iterator<Item = &Arc<Served>> {
        self.groups.get(group).into_iter().flat_map(BTreeMap::values)
    }

    /// Groups with at least one kind, core first, others by name.
    pub(crate) fn groups(&self) -> impl Iterator<Item = (&str, &BTreeMap<String, Arc<Served>>)> {
        self.groups
            .iter()
            .filter(|(_, kinds)| !kinds.is_empty())
            .map(|(group, kinds)| (group.as_str(), kinds))
    }

    /// Served versions of a group, newest and stablest first.
    pub(crate) fn versions(&self, group: &str) -> Vec<String> {
        let kinds = self.groups.get(group).into_iter().flat_map(BTreeMap::values);
        let mut versions: Vec<String> = Vec::new();
        for version in kinds
            .flat_map(|served| &served.info().versions)
            .filter(|version| version.served)
        {
            if !versions.iter().any(|known| *known == version.name) {
                versions.push(version.name.to_string());
            }
        }
        versions.sort_by_key(|version| std::cmp::Reverse(version_priority(version)));
        versions
    }

    fn clone_groups(&self) -> BTreeMap<String, BTreeMap<String, Arc<Served>>> {
        self.groups.clone()
    }
}

/// The current snapshot.
#[derive(Default)]
pub(crate) struct Registry(RwLock<Arc<Kinds>>);

impl Registry {
    pub(crate) fn snapshot(&self) -> Arc<Kinds> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Leaves reviews to another server.
    pub(crate) fn without_reviews(&self) {
        let mut current = self.0.write().unwrap_or_else(PoisonError::into_inner);
        *current = Arc::new(Kinds {
            groups: current.clone_groups(),
            without_reviews: true,
            documents: Documents::default(),
        });
    }

    /// Adds or replaces a kind.
    pub(crate) fn put(&self, served: Arc<Served>) {
        self.change(|groups| {
            let (group, plural) = (served.group().to_owned(), served.plural().to_owned());
            groups.entry(group).or_default().insert(plural, served);
        });
    }

    /// Adds or replaces several at once.
    pub(crate) fn put_all(&self, all: impl Iterator<Item = Arc<Served>>) {
        self.change(|groups| {
            for served in all {
                let (group, plural) = (served.group().to_owned(), served.plural().to_owned());
                groups.entry(group).or_default().insert(plural, served);
            }
        });
    }

    /// Takes a kind away, as of a revision: its watches end there.
    pub(crate) fn remove(&self, group: &str, plural: &str, at: Revision) {
        self.change(|groups| {
            let kinds = groups.get_mut(group);
            if let Some(removed) = kinds.and_then(|kinds| kinds.remove(plural)) {
                removed.period.end(at);
            }
        });
    }

    fn change(&self, change: impl FnOnce(&mut BTreeMap<String, BTreeMap<String, Arc<Served>>>)) {
        let mut current = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let mut groups = current.clone_groups();
        change(&mut groups);
        *current = Arc::new(Kinds {
            groups,
            without_reviews: current.without_reviews,
            documents: Documents::default(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_sort_stable_before_beta_before_alpha_before_anything() {
        let mut versions = [
            "foo1", "v1", "v1alpha2", "v10", "v2", "v1beta1", "v11beta2", "v1beta2", "foo10",
        ];
        versions.sort_by_key(|version| std::cmp::Reverse(version_priority(version)));
        assert_eq!(
            versions,
            [
                "v10", "v2", "v1", "v11beta2", "v1beta2", "v1beta1", "v1alpha2", "foo1", "foo10"
            ]
        );
    }
}
