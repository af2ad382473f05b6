//! What every write goes through between decoding and the store: metadata, managed fields, admission, strategy,
//! validation. The verbs in other files decide what is written; this file decides whether and how.
//!
//! The order for creates and updates alike:
//! 1. mutating admission: the kind, the server, webhooks, and the first two again where webhooks changed something
//!    (`run_mutating_admission`);
//! 2. the strategy of the kind (`Kind::prepare`), addresses of Services, then validation;
//! 3. all that may refuse the prepared object (`admit_prepared`);
//! 4. quota (`count_in_quotas`), last, so that a write that admission refuses uses nothing up; then the store, whose refusals
//!    the quota controller corrects.
//!
//! Deletions have an order of their own, in `requests/delete`.

use std::sync::Arc;

use cluster_store::{Entry, Key, Object, Revision, StoreError};
use serde_json::Value;

use crate::admission::{escalation, gatekeeping, namespace_lifecycle, node_restriction, signing_rights};
use crate::controllers::definition_conditions;
use crate::kinds::kind::{Call, Operation, Review};
use crate::kinds::registry::Role;
use crate::kinds::{conversion, definition, metadata, namespaces, strategies};
use crate::objects::retained_fields::keep_stored;
use crate::requests::{address_allocation, ineffective_kinds, managed_fields, new_object};
use crate::state::context::{Context, ExclusiveWrite};
use crate::state::pending_write::Write;
use crate::state::reader::Reader;
use crate::wire::status::Status;

/// How often a write is tried: another process was faster with one that depends on the same objects, or another writer changed
/// the object of a patch.
pub(crate) const WRITE_ATTEMPTS_MAX: usize = 64;
/// How often a name is generated again when it is taken, as in kube-apiserver.
const NAME_TRIES_MAX: usize = 8;

/// The result of a write.
#[derive(Clone, Debug)]
pub(crate) enum Written {
    /// The object is stored in this state. Revision 0: it was a dry run of a create.
    Stored(Entry),
    /// The write took the last finalizer away; this was the last state, at the version before it went.
    Removed(Entry),
}

impl Written {
    pub(crate) fn entry(&self) -> &Entry {
        match self {
            Self::Stored(entry) | Self::Removed(entry) => entry,
        }
    }
}

/// Why a write did not happen.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// Another writer wrote in between; reading again may help.
    Stale,
    /// Another process wrote in between something that this depends on; validating again helps.
    Overtaken,
    Status(Status),
}

impl From<Status> for Refusal {
    fn from(status: Status) -> Self {
        Self::Status(status)
    }
}

impl<'a> Write<'a> {
    fn working(&self, object: Value) -> Result<Value, Status> {
        let context = self.context;
        if context.version() == context.working_version() {
            Ok(object)
        } else {
            context.served.kind.convert(object, context.working_version())
        }
    }

    /// Creates an object given in the client's version. A refusal has all warnings that were given before it.
    pub(crate) async fn create(&mut self, object: Value) -> Result<Entry, Status> {
        let outcome = self.create_object(object).await;
        outcome.map_err(|status| status.warned(std::mem::take(&mut self.warnings)))
    }

    async fn create_object(&mut self, mut object: Value) -> Result<Entry, Status> {
        let context = self.context;
        if context.served.period.is_closing() {
            let why = "create not allowed while custom resource definition is terminating";
            let served = &context.served;
            let name = metadata::text(&object, "name");
            return Err(Status::forbidden(served.group(), served.plural(), name, why));
        }
        new_object::prepare_metadata(context, &mut object)?;
        let mut status = None;
        if let Some(fields) = object.as_object_mut().filter(|_| context.has_status()) {
            status = fields
                .remove("status")
                .filter(|_| strategies::keeps_status(context.served.group(), context.served.plural()));
        }
        self.track(None, &mut object);
        if let Some(status) = status {
            object["status"] = status;
        }
        let mut object = self.working(object)?;
        new_object::add_finalizers(context, &mut object)?;
        namespace_lifecycle::check_open(context, metadata::text(&object, "name")).await?;
        let base = metadata::text(&object, "generateName").to_owned();
        let generate = metadata::text(&object, "name").is_empty() && !base.is_empty();
        self.generated = generate;
        for attempt in 1.. {
            let mut object = object.clone();
            if generate {
                let name = metadata::generated_name(&base, &context.server.entropy.suffix(metadata::GENERATED_SUFFIX));
                metadata::of_mut(&mut object)?.insert("name".to_owned(), Value::String(name));
            }
            match self.create_named(object).await {
                Ok(entry) => return Ok(entry),
                Err(Refusal::Status(status))
                    if generate && attempt < NAME_TRIES_MAX && status.reason() == "AlreadyExists" => {}
                Err(Refusal::Status(status)) => return Err(status),
                Err(Refusal::Overtaken | Refusal::Stale) if attempt < WRITE_ATTEMPTS_MAX => {}
                Err(Refusal::Overtaken | Refusal::Stale) => return Err(overtaken()),
            }
        }
        Err(Status::internal("no free name was found"))
    }

    async fn create_named(&mut self, mut object: Value) -> Result<Entry, Refusal> {
        let context = self.context;
        let kind = &context.served.kind;
        let name = metadata::text(&object, "name").to_owned();
        let call = context.call(Operation::Create, &name, self.dry_run);
        self.run_mutating_admission(&call, &mut object, None).await?;
        let name = metadata::text(&object, "name").to_owned();
        let call = context.call(Operation::Create, &name, self.dry_run);
        let typed = context.served.role != Role::Custom
            && !strategies::keeps_status(context.served.group(), context.served.plural());
        if context.has_status() && typed {
            new_object::reset_status(&mut object);
        }
        kind.prepare(&call, &mut object, None);
        let _address = address_allocation::prepare(context, &mut object, None).await?;
        if let Some(schema) = context
            .served
            .hub_schema()
            .filter(|_| context.served.role != Role::Custom)
        {
            schema.normalize_as_stored(&mut object);
        }
        let found = self.validate(&call, &object, None);
        let info = context.served.info();
        if strategies::validates_metadata_last(&info.group, &info.kind) {
            self.refuse(&name, found.clone())?;
        }
        let mut errors = metadata::validate(&**kind, &object);
        errors.extend(found);
        self.refuse(&name, errors)?;
        let exclusive = self.admit_prepared(call, &object, None).await?;
        self.warnings
            .extend(ineffective_kinds::warning(&info.group, &info.kind, &object));
        if context.served.role == Role::CustomResourceDefinition {
            definition::begin_status(&mut object);
            self.warnings.extend(definition::warnings(&object, None));
        }
        self.drop_applied_nulls(&mut object);
        let stored = self.count_and_encode(&call, object, None).await?;
        let key = context.key(&name);
        if self.dry_run {
            return Ok(self.create_dry(key, stored).await?);
        }
        let entry = exclusive.store.create(key, stored).await;
        let entry = entry.map_err(|error| self.refusal(&name, error))?;
        self.observe_write(&entry).await?;
        Ok(entry)
    }

    /// Calls all that may refuse an object that is prepared and validated, in this order: rights that it would grant, rights to
    /// approve and sign, the restriction of nodes, gatekeepers, names of built-in kinds, validating policies, validating
    /// webhooks, and the kind itself. The write holds what is returned until it is stored.
    async fn admit_prepared(
        &mut self,
        call: Call<'_>,
        object: &Value,
        old: Option<&Value>,
    ) -> Result<ExclusiveWrite<'a>, Status> {
        let context = self.context;
        escalation::check(context, object, old)?;
        signing_rights::check(context, object, old)?;
        node_restriction::restrict(context, Some(object), old)?;
        gatekeeping::admit(context, call.name, Some(object), old).await?;
        if old.is_none() {
            definition_conditions::refuse_built_in_names(context, object)?;
        }
        self.run_validating_admission(&call, object, old).await?;
        // Webhooks may take long, so no other write waits for them.
        let exclusive = context.begin_exclusive_write(&call).await?;
        let review = Review {
            call,
            object: Some(object),
            old,
            objects: &Reader::new(&context.server),
        };
        self.warnings.extend(context.served.kind.review(review).await?);
        Ok(exclusive)
    }

    /// Applies to the server what follows from a write.
    async fn observe_write(&self, entry: &Entry) -> Result<(), Status> {
        let context = self.context;
        if context.served.role == Role::CustomResourceDefinition && context.subresource().is_none() {
            let established = definition_conditions::establish(&context.server, &entry.key).await;
            return established.map_err(|error| context.store_status(&entry.key.name, error));
        }
        context.server.observe_own_write(&context.served, entry, false);
        Ok(())
    }

    async fn create_dry(&self, key: Key, object: Object) -> Result<Entry, Status> {
        let there = self.context.server.store.get(&key).await;
        match there.map_err(|error| self.context.store_status(&key.name, error))? {
            Some(current) => Err(self.context.store_status(&key.name, StoreError::Exists { current })),
            None => Ok(Entry {
                key,
                revision: Revision(0),
                object: Arc::new(object),
            }),
        }
    }

    /// Replaces `live` by an object given in the client's version. A refusal has all warnings that were given before it.
    pub(crate) async fn replace(&mut self, live: &Entry, object: Value) -> Result<Written, Refusal> {
        match self.replace_object(live, object).await {
            Err(Refusal::Status(status)) => Err(status.warned(std::mem::take(&mut self.warnings)).into()),
            outcome => outcome,
        }
    }

    async fn replace_object(&mut self, live: &Entry, object: Value) -> Result<Written, Refusal> {
        let context = self.context;
        let (kind, name) = (&context.served.kind, &*live.key.name);
        let mut object = self.working(object)?;
        let old = conversion::entry_as_value(
            &context.server.network,
            &context.served,
            context.working_version(),
            live,
        )
        .await?;
        self.check_version(live, &object)?;
        let unstated = managed_fields::unstated(&object);
        keep_stored(context, &mut object, &old)?;
        let call = context.call(Operation::Update, name, self.dry_run);
        self.track_change(&call, &old, &mut object, &unstated).await?;
        self.run_mutating_admission(&call, &mut object, Some(&old)).await?;
        kind.prepare(&call, &mut object, Some(&old));
        let _address = address_allocation::prepare(context, &mut object, Some(&old)).await?;
        let as_sent = is_removable(context, &object).then(|| object.clone());
        if let Some(schema) = context.served.hub_schema().filter(|schema| schema.is_of_go()) {
            schema.normalize_as_stored(&mut object);
            managed_fields::keep_times(&mut object, &old);
        }
        self.raise_generation(&call, &mut object, &old)?;
        let mut errors = metadata::validate(&**kind, &object);
        errors.extend(self.validate(&call, &object, Some(&old)));
        self.refuse_update(name, metadata::validate_update(&object, &old), errors)?;
        let exclusive = self.admit_prepared(call, &object, Some(&old)).await?;
        if context.served.role == Role::CustomResourceDefinition {
            self.warnings.extend(definition::warnings(&object, Some(&old)));
        }
        if is_removable(context, &object) {
            self.count_in_quotas(&call, &object, Some(&old)).await?;
            return self.remove(&exclusive, live, last_state(object, as_sent)?).await;
        }
        let has_dropped_nulls = self.drop_applied_nulls(&mut object);
        let stored = self.count_and_encode(&call, object, Some(&old)).await?;
        if stored.bytes() == live.object.bytes() && !has_dropped_nulls {
            if context.served.role == Role::CustomResourceDefinition && !self.dry_run {
                // The write before may have been interrupted before its effects were applied.
                self.observe_write(live).await?;
            }
            return Ok(Written::Stored(live.clone()));
        }
        if self.dry_run {
            return Ok(Written::Stored(Entry {
                object: Arc::new(stored),
                ..live.clone()
            }));
        }
        let entry = exclusive.store.update(&live.key, live.revision, stored).await;
        let entry = entry.map_err(|error| self.refusal(name, error))?;
        self.observe_write(&entry).await?;
        Ok(Written::Stored(entry))
    }

    async fn remove(&self, exclusive: &ExclusiveWrite<'_>, live: &Entry, last: Object) -> Result<Written, Refusal> {
        let last = Entry {
            object: Arc::new(last),
            ..live.clone()
        };
        if self.dry_run {
            return Ok(Written::Removed(last));
        }
        let context = self.context;
        let gone = exclusive.store.delete(&live.key, live.revision).await;
        let gone = gone.map_err(|error| self.refusal(&live.key.name, error))?;
        context.server.observe_own_write(&context.served, &gone, true);
        Ok(Written::Removed(last))
    }

    fn refusal(&self, name: &str, error: StoreError) -> Refusal {
        match error {
            StoreError::Conflict { .. } => Refusal::Stale,
            StoreError::Overtaken => Refusal::Overtaken,
            error => Refusal::Status(self.context.store_status(name, error)),
        }
    }

    /// A resourceVersion in the body is a precondition.
    fn check_version(&self, live: &Entry, object: &Value) -> Result<(), Refusal> {
        let context = self.context;
        let given = metadata::text(object, "resourceVersion");
        if given.is_empty() {
            if context.served.kind.updates_unconditionally() {
                return Ok(());
            }
            return Err(context.version_required(&live.key.name).into());
        }
        check_number(object)?;
        if given == live.revision.to_string() {
            Ok(())
        } else {
            Err(context.modified(&live.key.name).into())
        }
    }

    fn raise_generation(&self, call: &Call<'_>, object: &mut Value, old: &Value) -> Result<(), Status> {
        let kind = &self.context.served.kind;
        if !kind.has_generation() {
            return Ok(());
        }
        let raise = call.subresource != Some("status") && kind.changes_generation(call, object, old);
        let generation = metadata::number(old, "generation").saturating_add(i64::from(raise));
        metadata::of_mut(object)?.insert("generation".to_owned(), Value::from(generation.max(1)));
        Ok(())
    }

    /// Drops nulls from an applied custom resource, which were valid only because their fields have no schema. Real Kubernetes
    /// stores them, and drops them when it reads the object from its store. True: there were some.
    /// (apiextensions-apiserver v0.35 `pkg/apiserver/customresource_handler.go`, the decoder of its store.)
    fn drop_applied_nulls(&self, object: &mut Value) -> bool {
        let is_applied = self.manager.is_none() && self.context.served.role == Role::Custom;
        if !is_applied || !has_null(object) {
            return false;
        }
        let Some(schema) = self.context.served.kind.schema(self.context.working_version()) else {
            return false;
        };
        let before = object.clone();
        schema.normalize(object);
        before != *object
    }

    /// Counts the object in quotas, and encodes it for the store. A webhook converts it before it is counted.
    async fn count_and_encode(&self, call: &Call<'_>, object: Value, old: Option<&Value>) -> Result<Object, Status> {
        if self.context.served.converter().is_some() {
            let stored = self.object(object.clone()).await?;
            self.count_in_quotas(call, &object, old).await?;
            return Ok(stored);
        }
        self.count_in_quotas(call, &object, old).await?;
        self.object(object).await
    }

    async fn object(&self, mut object: Value) -> Result<Object, Status> {
        let metadata = metadata::of_mut(&mut object)?;
        metadata::normalize(metadata);
        let (served, version) = (&self.context.served, self.context.working_version());
        if version != served.storage_version {
            // A webhook gets no resourceVersion, which is not stored either.
            metadata.remove("resourceVersion");
            object = conversion::convert_value(
                &self.context.server.network,
                &self.context.served,
                object,
                &served.storage_version,
            )
            .await?;
            served.kind.refresh(&served.storage_version, &mut object);
        }
        Object::from_value(object).map_err(|error| Status::bad_request(error.to_string()))
    }
}

/// The last state of an object that is removed. It is not stored again, so only its metadata are normalized.
fn last_state(mut object: Value, as_sent: Option<Value>) -> Result<Object, Status> {
    metadata::normalize(metadata::of_mut(&mut object)?);
    let last = match as_sent {
        Some(mut as_sent) => {
            as_sent["metadata"] = object["metadata"].take();
            as_sent
        }
        None => object,
    };
    Object::from_value(last).map_err(|error| Status::bad_request(error.to_string()))
}

/// 409 for a write that was overtaken too often.
pub(crate) fn overtaken() -> Status {
    Status::new(
        http::StatusCode::CONFLICT,
        "Conflict",
        format!(
            "other servers of this API were faster {WRITE_ATTEMPTS_MAX} times with writes that this one depends on; try \
             it again"
        ),
    )
}

fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.iter().any(has_null),
        Value::Object(fields) => fields.values().any(has_null),
        _ => false,
    }
}

/// A resourceVersion has to be a number.
pub(crate) fn check_number(object: &Value) -> Result<(), Status> {
    let given = metadata::text(object, "resourceVersion");
    match given.bytes().all(|byte| byte.is_ascii_digit()) {
        true => Ok(()),
        false => Err(Status::failed(format!(
            "strconv.ParseUint: parsing {given:?}: invalid syntax"
        ))),
    }
}

/// Whether the object is being deleted and nothing is left to wait for.
fn is_removable(context: &Context, object: &Value) -> bool {
    metadata::is_deleting(object)
        && metadata::finalizers(object).is_empty()
        && match context.served.role {
            Role::Namespace => namespaces::is_finalized(object),
            Role::Pod => metadata::number(object, "deletionGracePeriodSeconds") == 0,
            _ => true,
        }
}
