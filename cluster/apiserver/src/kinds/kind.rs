//! What a kind must implement so that this server can serve it. Built-in kinds, custom resources and the
//! kinds of other crates implement the same trait. It never stores anything.
//!
//! Objects travel as `serde_json::Value`. `accept`, `schema`, `default`, `columns` and `cells` see the version that the client
//! speaks, `refresh` the stored one. All else sees the working version (`Context::working_version`), or the hub on deletes: for
//! custom resources the version of the request, for other kinds the *hub*, which is the storage version. `convert` leads from one version to another.

use std::sync::Arc;

use cluster_access::User;
use cluster_fields::FieldError;
use cluster_schema::Schema;
use futures::future::BoxFuture;
use jiff::Timestamp;
use serde_json::Value;

use crate::wire::status::Status;

/// A column that `kubectl get` prints, found by a path as in a CRD's `additionalPrinterColumns`.
pub use cluster_table::CustomColumn as Column;

pub use crate::kinds::other_objects::{Extract, Extracted, Objects};
pub use crate::kinds::resource::{
    Action, ActionCall, Form, ResourceInfo, ScalePaths, Subresource, TokenIssuer, Version,
};

/// What is being done to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A new object.
    Create,
    /// A change of an object or of one of its parts.
    Update,
    /// A request to delete; the object may stay a while for its finalizers.
    Delete,
}

/// One write, as strategies and admission see it.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// What is done.
    pub operation: Operation,
    /// The version the client speaks.
    pub version: &'a str,
    /// The part that is written (`status`, `binding`); `None` for the object itself.
    pub subresource: Option<&'a str>,
    /// `None` for cluster-scoped kinds.
    pub namespace: Option<&'a str>,
    /// The object's name. A name for `generateName` is made before admission.
    pub name: &'a str,
    /// The caller.
    pub user: &'a User,
    /// Wall-clock time.
    pub now: Timestamp,
    /// Nothing will be stored.
    pub dry_run: bool,
}

/// One write, as validating admission sees it. `object` and `old` are in the working version; on delete, `old` is in the hub
/// version.
#[derive(Clone, Copy)]
pub struct Review<'a> {
    /// The write.
    pub call: Call<'a>,
    /// What will be stored; `None` on delete.
    pub object: Option<&'a Value>,
    /// What is stored; `None` on create.
    pub old: Option<&'a Value>,
    /// The other objects of this server.
    pub objects: &'a dyn Objects,
}

/// A field that `?fieldSelector=` may name, beside `metadata.name` and `metadata.namespace`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectableField {
    /// How clients call it: `spec.nodeName`.
    pub label: String,
    /// The way to it in the hub version (for a custom resource: in the version that declares it): `["spec", "nodeName"]`.
    /// Booleans and numbers compare by their JSON text.
    pub path: Vec<String>,
    /// What a missing field counts as: `""` mostly, `"false"` for `spec.unschedulable`.
    pub missing: &'static str,
}

impl SelectableField {
    /// A field whose label is its path with dots.
    pub fn new(label: &str) -> Self {
        Self {
            label: label.to_owned(),
            path: label.split('.').map(str::to_owned).collect(),
            missing: "",
        }
    }
}

/// A kind of object that this server serves.
pub trait Kind: Send + Sync + 'static {
    /// Names, versions, scope and subresources.
    fn resource(&self) -> &ResourceInfo;

    /// The fields of `version`: what is pruned, defaulted and validated before other methods of the kind
    /// are called, and how lists merge. `None` stores whatever comes. Called per request: cache the schema, clone it.
    fn schema(&self, version: &str) -> Option<Schema>;

    /// Rewrites older spellings of what a client sent, before unknown fields are dropped; `object` is in `version`.
    fn accept(&self, version: &str, object: &mut Value) {
        let _ = (version, object);
    }

    /// Defaults that a schema cannot say; `object` is in `version`. Runs on create and on update, after the
    /// schema's own defaults.
    fn default(&self, version: &str, object: &mut Value) {
        let _ = (version, object);
    }

    /// Changes the version of `object`, `apiVersion` included. Only called when the two differ. The default is
    /// the conversion `None` of custom resources: same fields, other `apiVersion`.
    fn convert(&self, object: Value, to: &str) -> Result<Value, Status> {
        let mut object = object;
        object["apiVersion"] = Value::String(self.resource().api_version(to));
        Ok(object)
    }

    /// Whether objects look the same in two versions but for their `apiVersion`.
    fn same_shape(&self, one: &str, other: &str) -> bool {
        one == other
    }

    /// Brings an object that was stored in `version` under an earlier definition of the kind into its present form.
    fn refresh(&self, version: &str, object: &mut Value) {
        let _ = (version, object);
    }

    /// Mutating admission, before `prepare`: may read other objects and change this one. Not called on delete.
    /// Returns warnings for the client.
    fn admit<'a>(
        &'a self,
        call: Call<'a>,
        object: &'a mut Value,
        old: Option<&'a Value>,
        objects: &'a dyn Objects,
    ) -> BoxFuture<'a, Result<Vec<String>, Status>> {
        let _ = (call, object, old, objects);
        Box::pin(async { Ok(Vec::new()) })
    }

    /// Sets the fields that no client may choose. When it is called, the server has already dealt with metadata,
    /// and with `status`: for kinds with a `status` subresource, writes of the object keep the stored status
    /// (none on create), and writes of `status` keep all else. Other parts ([`Form::Part`]) keep nothing by
    /// themselves: it is for `prepare` to copy from `old` what the part may not change.
    fn prepare(&self, call: &Call<'_>, object: &mut Value, old: Option<&Value>) {
        let _ = (call, object, old);
    }

    /// Errors beyond the schema's. `old` is `None` on create. Look at `call.subresource`.
    fn validate(&self, call: &Call<'_>, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let _ = (call, object, old);
        Vec::new()
    }

    /// Validating admission, the last word before the store; also called on delete. Returns warnings.
    fn review<'a>(&'a self, review: Review<'a>) -> BoxFuture<'a, Result<Vec<String>, Status>> {
        let _ = review;
        Box::pin(async { Ok(Vec::new()) })
    }

    /// Whether the outcome of [`Kind::review`] for this write depends on the state of other objects: no other such write of
    /// the same server is then reviewed until this one is stored. Two writes that are each valid alone may be invalid
    /// together.
    fn exclusive(&self, call: &Call<'_>) -> bool {
        let _ = call;
        false
    }

    /// Whether the write raises `metadata.generation`; called for writes of the object itself (not of `status`)
    /// and for other parts. The default: anything outside `metadata` and `status` differs. A deletion
    /// that begins always raises it.
    ///
    /// May remove what triggers it: an operation annotation that is used up by it.
    fn changes_generation(&self, call: &Call<'_>, object: &mut Value, old: &Value) -> bool {
        let _ = call;
        spec_differs(object, old)
    }

    /// Fields for field selectors.
    fn selectable_fields(&self) -> &[SelectableField] {
        &[]
    }

    /// Columns of `version` after NAME; `None` leaves them to the built-in tables (NAME and CREATED AT for
    /// kinds without one).
    fn columns(&self, version: &str) -> Option<Vec<Column>> {
        let _ = version;
        None
    }

    /// The cells of a row under [`Kind::columns`], after NAME, where paths are not enough; `object` is in
    /// `version`. Texts, numbers, booleans; for a column of type `date` the time in RFC 3339. `None`: the paths are used.
    fn cells(&self, version: &str, object: &Value) -> Option<Vec<Value>> {
        let _ = (version, object);
        None
    }

    /// Why `name` cannot be an object's name; `None` when it can. The default: a DNS subdomain.
    fn refuse_name(&self, name: &str) -> Option<String> {
        cluster_fields::names::dns_subdomain(name)
    }

    /// Whether objects carry `metadata.generation`.
    fn has_generation(&self) -> bool {
        true
    }

    /// Whether PUT may create an object that is missing.
    fn creates_on_update(&self) -> bool {
        false
    }

    /// Whether PUT needs no resourceVersion.
    fn updates_unconditionally(&self) -> bool {
        true
    }

    /// The JSON schema of `version` for `/openapi/v3`, where the kind has one beyond [`Kind::schema`]'s tree.
    fn openapi(&self, version: &str) -> Option<Value> {
        let _ = version;
        None
    }

    /// Finalizers of every new object of the kind (`gardener` on a Project).
    fn initial_finalizers(&self) -> &[&'static str] {
        &[]
    }

    /// The prefix of annotations that belong to the status: writes of the subresource `status` change these and no other
    /// metadata. None by default.
    fn annotations_of_status(&self) -> Option<&str> {
        None
    }

    /// What the kind validates on writes of built-in kinds (a Project on those of its Namespace).
    fn guards(&self) -> Vec<Arc<dyn Guard>> {
        Vec::new()
    }
}

/// Validating admission of built-in kinds, brought by another kind of the same server whose objects belong together
/// with theirs.
pub trait Guard: Send + Sync + 'static {
    /// Group (empty for core kinds) and plural of the built-in kind.
    fn resource(&self) -> (&str, &str);

    /// As [`Kind::review`]: the last word before the store, also called on delete. Returns warnings.
    fn review<'a>(&'a self, review: Review<'a>) -> BoxFuture<'a, Result<Vec<String>, Status>>;
}

/// Whether two objects differ outside `metadata` and `status` (and `apiVersion`, `kind`).
pub fn spec_differs(object: &Value, old: &Value) -> bool {
    let (Some(object), Some(old)) = (object.as_object(), old.as_object()) else {
        return object != old;
    };
    let counts = |key: &str| !matches!(key, "metadata" | "status" | "apiVersion" | "kind");
    let present = |map: &serde_json::Map<String, Value>| map.keys().filter(|key| counts(key)).count();
    present(object) != present(old)
        || object
            .iter()
            .any(|(key, value)| counts(key) && old.get(key) != Some(value))
}
