//! What may change an object before it is prepared: the kind's own admission, then webhooks in order, and again those with
//! `reinvocationPolicy: IfNeeded` when something has changed after them. It stores nothing.
//! (kubernetes/kubernetes v1.35 staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/mutating)

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::admission::attributes::{AdmissionAttributes, AdmissionOperation};
use crate::admission::selection::{NamespaceLabels, is_exempt, namespace_labels};
use crate::admission::webhook_calls::{Concerned, concerned};
use crate::admission::{json_patch, pod_admission};
use crate::configuration::admission_hooks::Hooks;
use crate::kinds::kind::Call;
use crate::kinds::resource::{Form, ScalePaths};
use crate::kinds::{conversion, metadata};
use crate::objects::incoming::{self, Source};
use crate::objects::retained_fields::keep_stored;
use crate::objects::scale_view;
use crate::state::context::Context;
use crate::state::pending_write::Write;
use crate::state::reader::Reader;
use crate::wire::query::FieldValidation;
use crate::wire::status::Status;

/// What the server gives to a new object only after it was admitted.
const STAMPS: [&str; 3] = ["creationTimestamp", "generation", "uid"];
/// What keys of audit annotations begin with.
const MUTATION: &str = "mutation.webhook.admission.k8s.io/";
const FAILED_OPEN: &str = "failed-open.mutation.webhook.admission.k8s.io/";

/// The form in which admission sees an object.
pub(crate) enum View<'a> {
    Whole,
    Scale(&'a ScalePaths),
}

impl<'a> View<'a> {
    /// None for subresources whose bodies are admitted separately.
    pub(crate) fn of(context: &'a Context) -> Option<Self> {
        let Some(name) = context.subresource() else {
            return Some(Self::Whole);
        };
        let part = context.served.info().find_subresource(name, context.version())?;
        match &part.form {
            Form::Part => Some(Self::Whole),
            Form::Scale(paths) => Some(Self::Scale(paths)),
            _ => None,
        }
    }

    pub(crate) fn show(&self, object: &Value) -> Value {
        match self {
            Self::Whole => object.clone(),
            Self::Scale(paths) => scale_view::view(object, paths),
        }
    }

    pub(crate) fn attributes(&self, attributes: AdmissionAttributes<'a>) -> AdmissionAttributes<'a> {
        match self {
            Self::Whole => attributes,
            Self::Scale(_) => attributes.of_body(("autoscaling", "v1", "Scale")),
        }
    }
}

impl Write<'_> {
    /// Lets the server, the kind and mutating webhooks change the object.
    pub(crate) async fn run_mutating_admission(
        &mut self,
        call: &Call<'_>,
        object: &mut Value,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        self.run_built_in_mutation(call, object, old).await?;
        let context = self.context;
        let Some(hooks) = context.server.admission.hooks() else {
            return Ok(());
        };
        let Some(view) = View::of(context) else { return Ok(()) };
        let name = if self.generated { "" } else { call.name };
        let attributes = view.attributes(AdmissionAttributes::write(
            context,
            AdmissionOperation::of(old),
            name,
            self.dry_run,
        ));
        if is_exempt(&attributes) || !hooks.may_change(&attributes) {
            return Ok(());
        }
        let shown = old.map(|old| view.show(old));
        let mut rounds = Rounds::new(&hooks, &attributes, shown.as_ref());
        let generated = self.generated.then_some(call.name);
        let stamps = old.is_none().then(|| take_stamps(object, generated));
        let mut sent = view.show(object);
        let outcome = rounds.run(&view, &mut sent, false).await;
        if self.take_warnings(&mut rounds, outcome)? {
            write_back(&view, object, sent, stamps.as_ref())?;
            self.run_built_in_mutation(call, object, old).await?;
            let _ = stamps.as_ref().map(|_| take_stamps(object, generated));
            let mut sent = view.show(object);
            rounds.note_change(&sent);
            let outcome = rounds.run(&view, &mut sent, true).await;
            if self.take_warnings(&mut rounds, outcome)? {
                write_back(&view, object, sent, None)?;
            }
        }
        if let Some(stamps) = stamps {
            put_stamps(object, stamps)?;
        }
        old.map_or(Ok(()), |old| keep_stored(context, object, old))
    }

    /// Keeps the warnings of a round in the order in which they were given.
    fn take_warnings(&mut self, rounds: &mut Rounds<'_, '_>, outcome: Result<bool, Status>) -> Result<bool, Status> {
        self.warnings.append(&mut rounds.warnings);
        outcome.map_err(|mut status| {
            self.warnings.extend(status.take_warnings());
            status
        })
    }

    /// What the server itself and the kind do.
    async fn run_built_in_mutation(
        &mut self,
        call: &Call<'_>,
        object: &mut Value,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        let context = self.context;
        let reader = Reader::new(&context.server);
        let warnings = context.served.kind.admit(*call, object, old, &reader).await?;
        self.warnings.extend(warnings);
        pod_admission::admit(context, object, old).await
    }
}

/// Removes the stamps from the object, and its name if that is still the generated one. Returns what it removed.
fn take_stamps(object: &mut Value, generated: Option<&str>) -> Map<String, Value> {
    let mut stamps = Map::new();
    if let Ok(metadata) = metadata::of_mut(object) {
        let named = |name: &&str| metadata.get("name").is_some_and(|own| own == name);
        let name = generated.filter(named).map(|_| "name");
        for field in STAMPS.into_iter().chain(name) {
            if let Some(value) = metadata.remove(field) {
                stamps.insert(field.to_owned(), value);
            }
        }
    }
    stamps
}

/// Puts the stamps back. A name that a webhook has set stays.
fn put_stamps(object: &mut Value, stamps: Map<String, Value>) -> Result<(), Status> {
    let metadata = metadata::of_mut(object)?;
    for (field, value) in stamps {
        if field != "name" || metadata.get("name").and_then(Value::as_str).is_none_or(str::is_empty) {
            metadata.insert(field, value);
        }
    }
    Ok(())
}

fn write_back(
    view: &View<'_>,
    object: &mut Value,
    sent: Value,
    stamps: Option<&Map<String, Value>>,
) -> Result<(), Status> {
    match view {
        View::Whole => *object = sent,
        View::Scale(paths) => {
            let replicas = scale_view::replicas_of(&sent)?;
            scale_view::set(object, &paths.spec_replicas, Value::from(replicas));
        }
    }
    stamps.map_or(Ok(()), |stamps| put_stamps(object, stamps.clone()))
}

/// The webhooks of one request.
pub(crate) struct Rounds<'h, 'a> {
    hooks: &'h Hooks,
    attributes: &'h AdmissionAttributes<'a>,
    old: Option<&'h Value>,
    /// Those with reinvocation that were called since the last change.
    seen: BTreeSet<&'h (String, usize)>,
    /// Those to call again in the second round.
    due: BTreeSet<&'h (String, usize)>,
    /// The object after the last round.
    last: Value,
    pub(crate) warnings: Vec<String>,
}

impl<'h, 'a> Rounds<'h, 'a> {
    pub(crate) fn new(hooks: &'h Hooks, attributes: &'h AdmissionAttributes<'a>, old: Option<&'h Value>) -> Self {
        Self {
            hooks,
            attributes,
            old,
            seen: BTreeSet::new(),
            due: BTreeSet::new(),
            last: Value::Null,
            warnings: Vec::new(),
        }
    }

    /// Something that is no webhook may have changed the object.
    fn note_change(&mut self, object: &Value) {
        if *object != self.last {
            self.due.append(&mut self.seen);
        }
    }

    /// Calls all of them, or `again` those that are due. True: one has changed the object.
    async fn run(&mut self, view: &View<'_>, object: &mut Value, again: bool) -> Result<bool, Status> {
        let (found, mut labels) = concerned(&self.hooks.mutating, self.attributes, Some(object)).await;
        let mut changed_any = false;
        for it in found {
            if !it
                .hook
                .wants(self.attributes, it.version, (Some(object), self.old), &labels)
                .await?
                || again && !self.due.contains(&it.hook.key)
            {
                continue;
            }
            let changed = self.call_hook(it, view, object, again).await?;
            if changed {
                self.due.append(&mut self.seen);
                changed_any = true;
                labels = self.labels_after(object, labels).await;
            }
            if it.hook.again {
                self.seen.insert(&it.hook.key);
            }
        }
        self.last = object.clone();
        Ok(changed_any)
    }

    async fn labels_after(&self, object: &Value, labels: NamespaceLabels) -> NamespaceLabels {
        match self.attributes.is_of_namespaces() {
            true => namespace_labels(self.attributes, Some(object)).await,
            false => labels,
        }
    }

    async fn call_hook(
        &mut self,
        it: Concerned<'h, 'a>,
        view: &View<'_>,
        object: &mut Value,
        again: bool,
    ) -> Result<bool, Status> {
        let context = self.attributes.context;
        let place = format!("round_{}_index_{}", u8::from(again), it.index);
        let allowed = it
            .hook
            .call(self.attributes, it.version, (Some(object), self.old))
            .await?;
        let Some(allowed) = allowed else {
            context.annotate(format!("{FAILED_OPEN}{place}"), it.hook.name.clone());
            return Ok(false);
        };
        self.warnings.extend(allowed.warnings);
        let before = object.clone();
        if let Some(patch) = allowed.patch {
            *object = patched(self.attributes, view, object, it.version, &patch).await?;
        }
        let changed = *object != before;
        let note = json!({"configuration": it.hook.configuration, "webhook": it.hook.name, "mutated": changed});
        context.annotate(format!("{MUTATION}{place}"), note.to_string());
        Ok(changed)
    }

    /// Calls all of them for a deletion, which none of them can change.
    pub(crate) async fn run_deletion(&mut self) -> Result<(), Status> {
        let (found, labels) = concerned(&self.hooks.mutating, self.attributes, None).await;
        for it in found {
            if !it
                .hook
                .wants(self.attributes, it.version, (None, self.old), &labels)
                .await?
            {
                continue;
            }
            let allowed = it.hook.call(self.attributes, it.version, (None, self.old)).await?;
            let allowed = allowed.unwrap_or_default();
            self.warnings.extend(allowed.warnings);
            if allowed.patch.is_some() {
                let why = "attempted to modify the object, which is not supported for this operation";
                return Err(Status::internal(format!("admission webhook {:?} {why}", it.hook.name)));
            }
        }
        Ok(())
    }
}

/// The object after a patch that was made for `version`, converted back and pruned.
async fn patched(
    attributes: &AdmissionAttributes<'_>,
    view: &View<'_>,
    object: &Value,
    version: &str,
    patch: &Value,
) -> Result<Value, Status> {
    let context = attributes.context;
    let shown = attributes.in_version(object, version).await?;
    let mut patched = json_patch::apply(&shown, patch)?;
    if matches!(view, View::Scale(_)) {
        return Ok(patched);
    }
    let own = context.version();
    patched = conversion::convert_value(&context.server.network, &context.served, patched, own).await?;
    let accepted = incoming::accept(
        context,
        patched,
        Vec::new(),
        FieldValidation::Ignore,
        Source::Operated(patch),
    );
    accepted
        .map(|accepted| accepted.object)
        .map_err(|status| Status::internal(status.message()))
}
