//! One implementation of the server's `Kind` for every kind that has a Rust type: schema from the type, rules from
//! `api/rules`, admission from a list of plug-ins. It holds no rule of its own.

use std::sync::Arc;

use cluster_apiserver::fields::FieldError;
use cluster_apiserver::kind::{Call, Column, Guard, Operation, Review, SelectableField};
use cluster_apiserver::schema::Schema;
use cluster_apiserver::{Kind, ResourceInfo, Status};
use futures::future::BoxFuture;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::admission::Plugin;
use crate::convert::{bounded, decode, encode_over, field_errors};

type RuleErrors = Vec<api_rules::FieldError>;

/// The rules of `api/rules` for a type.
pub(crate) struct Rules<T> {
    pub(crate) default: fn(&mut T),
    pub(crate) validate: fn(&T) -> RuleErrors,
    pub(crate) validate_update: fn(&T, &T) -> RuleErrors,
    pub(crate) validate_status: fn(&T, &T) -> RuleErrors,
    /// What of a status depends on the time at which it is written.
    pub(crate) validate_status_at: fn(&T, Timestamp) -> RuleErrors,
    /// By name of the part.
    pub(crate) validate_part: fn(&str, &T, &T) -> RuleErrors,
}

impl<T> Default for Rules<T> {
    fn default() -> Self {
        Self {
            default: |_| {},
            validate: |_| Vec::new(),
            validate_update: |_, _| Vec::new(),
            validate_status: |_, _| Vec::new(),
            validate_status_at: |_, _| Vec::new(),
            validate_part: |_, _, _| Vec::new(),
        }
    }
}

/// What the server itself decides about a kind's objects.
#[derive(Clone, Copy)]
pub(crate) struct Strategy {
    pub(crate) changes_generation: fn(&Call<'_>, &mut Value, &Value) -> bool,
    pub(crate) refuse_name: fn(&str) -> Option<String>,
    pub(crate) finalizers: &'static [&'static str],
    /// Sets what no client chooses, after plug-ins and before validation.
    pub(crate) prepare: fn(&Call<'_>, &mut Value, Option<&Value>),
    /// Whether objects carry a generation.
    pub(crate) has_generation: bool,
    /// Whether an update needs no resourceVersion.
    pub(crate) updates_unconditionally: bool,
}

impl Default for Strategy {
    fn default() -> Self {
        Self {
            changes_generation: |_, object, old| cluster_apiserver::kind::spec_differs(object, old),
            refuse_name: cluster_apiserver::fields::names::dns_subdomain,
            finalizers: &[],
            prepare: |_, _, _| {},
            has_generation: true,
            updates_unconditionally: true,
        }
    }
}

/// How a kind prints: its columns and the cell of each.
#[derive(Clone, Default)]
pub(crate) struct Print {
    pub(crate) columns: Vec<Column>,
    pub(crate) cells: Vec<fn(&Value) -> Value>,
}

/// A kind with the type `T` and one version.
pub(crate) struct Typed<T> {
    pub(crate) info: ResourceInfo,
    pub(crate) schema: Option<Schema>,
    pub(crate) openapi: Option<Value>,
    pub(crate) rules: Rules<T>,
    pub(crate) strategy: Strategy,
    pub(crate) print: Print,
    pub(crate) fields: Vec<SelectableField>,
    pub(crate) plugins: Vec<Arc<dyn Plugin>>,
    pub(crate) guards: Vec<Arc<dyn Guard>>,
}

impl<T: JsonSchema + api_meta::Kind> Typed<T> {
    pub(crate) fn new(info: ResourceInfo) -> Self {
        let schema = schema_of::<T>();
        Self {
            info,
            openapi: schema.as_ref().map(Schema::to_openapi),
            schema,
            rules: Rules::default(),
            strategy: Strategy::default(),
            print: Print::default(),
            fields: Vec::new(),
            plugins: Vec::new(),
            guards: Vec::new(),
        }
    }
}

/// The tree of a type. `None` only for a type whose schema is larger than any published one, which a test rules out.
pub(crate) fn schema_of<T: JsonSchema>() -> Option<Schema> {
    Schema::from_root_schema(&schemars::schema_for!(T)).ok()
}

impl<T> Typed<T> {
    pub(crate) fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }
}

impl<T: DeserializeOwned + Serialize + Send + Sync + 'static> Kind for Typed<T> {
    fn resource(&self) -> &ResourceInfo {
        &self.info
    }

    fn schema(&self, _version: &str) -> Option<Schema> {
        self.schema.clone()
    }

    fn openapi(&self, _version: &str) -> Option<Value> {
        self.openapi.clone()
    }

    fn accept(&self, _version: &str, object: &mut Value) {
        api_rules::accept_old_spellings(&self.info.kind, object);
    }

    fn default(&self, _version: &str, object: &mut Value) {
        // An object that cannot be read stays as it is: validation names the field.
        if let Ok(mut typed) = decode::<T>(object) {
            (self.rules.default)(&mut typed);
            encode_over(&typed, object);
        }
    }

    fn admit<'a>(
        &'a self,
        call: Call<'a>,
        object: &'a mut Value,
        old: Option<&'a Value>,
        objects: &'a dyn cluster_apiserver::kind::Objects,
    ) -> BoxFuture<'a, Result<Vec<String>, Status>> {
        Box::pin(async move {
            if call.operation != Operation::Delete {
                // What a Go program could not decode is answered as it would.
                T::deserialize(&*object)
                    .map_err(|error| Status::bad_request(format!("the object cannot be read: {error}")))?;
            }
            let mut warnings = Vec::new();
            for plugin in &self.plugins {
                warnings.extend(plugin.admit(call, object, old, objects).await?);
            }
            Ok(warnings)
        })
    }

    fn prepare(&self, call: &Call<'_>, object: &mut Value, old: Option<&Value>) {
        (self.strategy.prepare)(call, object, old);
    }

    fn has_generation(&self) -> bool {
        self.strategy.has_generation
    }

    fn updates_unconditionally(&self) -> bool {
        self.strategy.updates_unconditionally
    }

    fn validate(&self, call: &Call<'_>, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = validate_object(&self.rules, call, object, old);
        // The server has reported already what is wrong with the name.
        if self.refuse_name(call.name).is_some() {
            errors.retain(|error| error.path != "metadata.name");
        }
        bounded(&errors)
    }

    fn review<'a>(&'a self, review: Review<'a>) -> BoxFuture<'a, Result<Vec<String>, Status>> {
        Box::pin(async move {
            let mut warnings = Vec::new();
            for plugin in &self.plugins {
                warnings.extend(plugin.review(review).await?);
            }
            Ok(warnings)
        })
    }

    /// Plug-ins look at other objects; status writes of controllers do not concern them.
    fn exclusive(&self, call: &Call<'_>) -> bool {
        !self.plugins.is_empty() && call.subresource != Some("status")
    }

    fn changes_generation(&self, call: &Call<'_>, object: &mut Value, old: &Value) -> bool {
        (self.strategy.changes_generation)(call, object, old)
    }

    fn selectable_fields(&self) -> &[SelectableField] {
        &self.fields
    }

    fn columns(&self, _version: &str) -> Option<Vec<Column>> {
        Some(self.print.columns.clone())
    }

    fn cells(&self, _version: &str, object: &Value) -> Option<Vec<Value>> {
        Some(self.print.cells.iter().map(|cell| cell(object)).collect())
    }

    fn refuse_name(&self, name: &str) -> Option<String> {
        (self.strategy.refuse_name)(name)
    }

    fn initial_finalizers(&self) -> &[&'static str] {
        self.strategy.finalizers
    }

    /// Gardener's strategies for `status` keep the spec alone, so that all metadata travels with it (gardener/gardener v1.150
    /// pkg/apiserver/registry/core/shoot/strategy.go, `shootStatusStrategy`). Here it is no more than what reports.
    fn annotations_of_status(&self) -> Option<&str> {
        Some(api_meta::annotations::STATUS_PREFIX)
    }

    fn guards(&self) -> Vec<Arc<dyn Guard>> {
        self.guards.clone()
    }
}

/// The rules that apply to this write.
pub(crate) fn validate_object<T: DeserializeOwned>(
    rules: &Rules<T>,
    call: &Call<'_>,
    object: &Value,
    old: Option<&Value>,
) -> Vec<FieldError> {
    let typed = match decode::<T>(object) {
        Ok(typed) => typed,
        Err(error) => return vec![error],
    };
    let old = match old.map(decode::<T>).transpose() {
        Ok(old) => old,
        Err(error) => return vec![error],
    };
    let errors = match (call.operation, call.subresource, &old) {
        (Operation::Delete, _, _) => Vec::new(),
        (_, _, None) => (rules.validate)(&typed),
        (_, None, Some(old)) => (rules.validate_update)(&typed, old),
        (_, Some("status"), Some(old)) => {
            let mut errors = (rules.validate_status)(&typed, old);
            errors.extend((rules.validate_status_at)(&typed, call.now));
            errors
        }
        (_, Some(part), Some(old)) => (rules.validate_part)(part, &typed, old),
    };
    field_errors(errors)
}
