//! One request to a resource, with everything its handler needs. It never outlives the request.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use cluster_access::{Attributes, User};
use cluster_fields::FieldError;
use cluster_store::{Entry, Key, Range, Store, StoreError};
use http::HeaderMap;
use jiff::Timestamp;
use tokio::sync::MutexGuard;
use tokio::time::Instant;

use crate::access::authorization::check;
use crate::kinds::kind::{Call, Operation};
use crate::kinds::registry::{Role, Served};
use crate::state::server_state::ServerState;
use crate::storage::errors::store_status;
use crate::wire::negotiation::{self, Expected, GoType, Shape};
use crate::wire::path::Target;
use crate::wire::query::Query;
use crate::wire::status::Status;

/// A request to a resource, authenticated and authorized.
pub(crate) struct Context {
    pub(crate) server: Arc<ServerState>,
    pub(crate) served: Arc<Served>,
    pub(crate) user: Arc<User>,
    pub(crate) target: Target,
    pub(crate) query: Query,
    pub(crate) headers: HeaderMap,
    pub(crate) now: Timestamp,
    /// When the caller stops waiting for answers of other servers.
    pub(crate) deadline: Instant,
    /// Annotations of the audit record.
    pub(crate) annotations: Mutex<BTreeMap<String, String>>,
}

impl Context {
    /// The version the client speaks.
    pub(crate) fn version(&self) -> &str {
        &self.target.version
    }

    /// Adds an annotation to the audit record. The first value of a key stays, as in kube-apiserver.
    pub(crate) fn annotate(&self, key: String, value: String) {
        let mut annotations = self.annotations.lock().unwrap_or_else(PoisonError::into_inner);
        annotations.entry(key).or_insert(value);
    }

    pub(crate) fn take_annotations(&self) -> BTreeMap<String, String> {
        std::mem::take(&mut self.annotations.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether the version has the subresource `status`.
    pub(crate) fn has_status(&self) -> bool {
        self.served.info().has_status(self.version())
    }

    /// The version in which a write is prepared and validated: that of the request for a custom resource, the hub
    /// otherwise.
    pub(crate) fn working_version(&self) -> &str {
        match self.served.role {
            Role::Custom => self.version(),
            _ => &self.served.storage_version,
        }
    }

    /// The shape that the client wants its answer in. Errors: 406 when nothing that it accepts can be made.
    pub(crate) fn shape(&self, expected: Expected) -> Result<Shape, Status> {
        let info = self.served.info();
        let of = match self.served.role {
            Role::Custom => GoType::Unstructured,
            _ => GoType::Of {
                group: &info.group,
                kind: &info.kind,
            },
        };
        negotiation::shape(&self.headers, of, expected)
    }

    pub(crate) fn subresource(&self) -> Option<&str> {
        self.target.subresource.as_deref()
    }

    /// The namespace of the object; none for cluster-scoped kinds (namespaces among them).
    pub(crate) fn namespace(&self) -> Option<&str> {
        if self.served.info().namespaced {
            self.target.namespace.as_deref()
        } else {
            None
        }
    }

    /// The object's name; only called where the route has one.
    pub(crate) fn name(&self) -> &str {
        self.target.name.as_deref().unwrap_or_default()
    }

    pub(crate) fn key(&self, name: &str) -> Key {
        Key {
            resource: self.served.store_name.clone(),
            namespace: self.namespace().map(Arc::from),
            name: name.into(),
        }
    }

    /// What a list or watch of this path covers.
    pub(crate) fn range(&self) -> Range {
        Range {
            resource: self.served.store_name.clone(),
            namespace: self.namespace().map(Arc::from),
            name: self.target.name.as_deref().map(Arc::from),
        }
    }

    /// Waits until no other write is validated against other objects, if the kind requires that for this one
    /// (`Kind::exclusive`). To be held until the write is stored through [`ExclusiveWrite::store`].
    pub(crate) async fn begin_exclusive_write(&self, call: &Call<'_>) -> Result<ExclusiveWrite<'_>, Status> {
        let store = self.server.store.of(&self.served.store_name);
        if !self.served.kind.exclusive(call) {
            return Ok(ExclusiveWrite {
                _held: None,
                store: store.clone(),
            });
        }
        let held = self.server.exclusive_writes.lock().await;
        // Other processes may write there as well.
        let view = store.turn().await.map_err(store_status)?;
        Ok(ExclusiveWrite {
            _held: Some(held),
            store: view.unwrap_or_else(|| store.clone()),
        })
    }

    pub(crate) fn call<'a>(&'a self, operation: Operation, name: &'a str, dry_run: bool) -> Call<'a> {
        Call {
            operation,
            version: self.version(),
            subresource: self.subresource(),
            namespace: self.namespace(),
            name,
            user: &self.user,
            now: self.now,
            dry_run,
        }
    }

    /// 403 for a request of another verb that would create its object, where the user may not create it.
    pub(crate) async fn check_create(&self) -> Result<(), Status> {
        let target = self.target.resource_target();
        let attributes = Attributes::resource(&self.user, "create", target);
        check(&self.server.access, &attributes, &self.query).await
    }

    /// The newest state of an object of the request's resource.
    pub(crate) async fn current(&self, name: &str) -> Result<Entry, Status> {
        let found = self.server.store.get(&self.key(name)).await;
        found
            .map_err(|error| self.store_status(name, error))?
            .ok_or_else(|| self.not_found(name))
    }

    /// The manager for managedFields.
    pub(crate) fn manager(&self) -> String {
        manager(&self.query, &self.headers)
    }

    pub(crate) fn not_found(&self, name: &str) -> Status {
        Status::not_found(self.served.group(), self.served.plural(), name)
    }

    pub(crate) fn modified(&self, name: &str) -> Status {
        Status::modified(self.served.group(), self.served.plural(), name)
    }

    /// 409 for a write of an object with another uid than the stored one, in the words of kube-apiserver's store.
    pub(crate) fn another_uid(&self, given: &str, stored: &str) -> Status {
        let (group, plural) = (self.served.group(), self.served.plural());
        let namespace = self
            .namespace()
            .map(|namespace| format!("{namespace}/"))
            .unwrap_or_default();
        // A dry run has keys without the root.
        let root = if self.query.dry_run() { "" } else { "/registry" };
        let why = format!(
            "StorageError: invalid object, Code: 4, Key: {root}/{}/{namespace}{}, ResourceVersion: 0, AdditionalErrorMsg: \
             Precondition failed: UID in precondition: {given}, UID in object meta: {stored}",
            self.folder(),
            self.name()
        );
        Status::conflict(group, plural, self.name(), &why)
    }

    /// Where kube-apiserver stores objects of this kind
    /// (kubernetes/kubernetes v1.35 pkg/kubeapiserver/default_storage_factory_builder.go).
    fn folder(&self) -> String {
        let (group, plural) = (self.served.group(), self.served.plural());
        match (group, plural) {
            ("", "endpoints") => "services/endpoints".to_owned(),
            ("", "nodes") => "minions".to_owned(),
            ("", "replicationcontrollers") => "controllers".to_owned(),
            ("", "services") => "services/specs".to_owned(),
            ("networking.k8s.io", "ingresses") => "ingress".to_owned(),
            _ if self.served.role == Role::Custom || self.served.role == Role::CustomResourceDefinition => {
                format!("{group}/{plural}")
            }
            _ => plural.to_owned(),
        }
    }

    /// 422 for an update that does not say which version it replaces.
    pub(crate) fn version_required(&self, name: &str) -> Status {
        let why = "must be specified for an update";
        let error = FieldError::invalid("metadata.resourceVersion", 0, why);
        Status::invalid(self.served.group(), self.served.plural(), name, &[error])
    }

    /// What a refusal of the store means to the client.
    pub(crate) fn store_status(&self, name: &str, error: StoreError) -> Status {
        match error {
            StoreError::Missing { .. } => self.not_found(name),
            StoreError::Conflict { .. } => self.modified(name),
            StoreError::Exists { current } => {
                let status = Status::already_exists(self.served.group(), self.served.plural(), name);
                match current.object.meta().deletion_timestamp.is_some() {
                    true => status.led_by("object is being deleted: "),
                    false => status,
                }
            }
            other => store_status(other),
        }
    }
}

/// The right to write what was validated against other objects. A kind that needs no such right gets the store alone.
pub(crate) struct ExclusiveWrite<'a> {
    _held: Option<MutexGuard<'a, ()>>,
    /// Refuses with [`StoreError::Overtaken`] a write that another process was faster than.
    pub(crate) store: Arc<dyn Store>,
}

/// The manager for managedFields: the parameter, else the first word of the user agent
/// (kubernetes/kubernetes v1.35 staging/src/k8s.io/apiserver/pkg/endpoints/handlers/create.go, managerOrUserAgent).
pub(crate) fn manager(query: &Query, headers: &http::HeaderMap) -> String {
    let named = query
        .get("fieldManager")
        .filter(|manager| !manager.is_empty())
        .map(str::to_owned);
    named.unwrap_or_else(|| {
        let agent = headers
            .get(http::header::USER_AGENT)
            .and_then(|agent| agent.to_str().ok());
        let word = agent.unwrap_or_default().split('/').next().unwrap_or_default();
        let word: String = word.chars().filter(|c| !c.is_control()).take(128).collect();
        if word.is_empty() { "unknown".to_owned() } else { word }
    })
}
