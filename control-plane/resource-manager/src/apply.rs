//! Applies objects to the target. Never deletes one, unless it cannot be updated and requests that, or is immutable.

use std::time::Duration;

use api_meta::{Fault, FaultClass};
use api_resources::{ManagedResource, ObjectReference};
use base_client::{fault_of, is_missing};
use base_controller::ObjectKey;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, Preconditions, PropagationPolicy};
use kube::core::DynamicObject;
use kube::runtime::wait::{await_condition, conditions::is_crd_established};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::Context;
use crate::decode::Desired;
use crate::drift::Writing;
use crate::kinds::Served;
use crate::merge::{differs_in_replicas, merge};
use crate::naming::{DESCRIPTION, MANAGED_BY, MANAGED_BY_GARDENER, MANAGER, is_true, listed, origin, shown, wish};
use crate::owner::refuse_others;
use crate::plan::same_kind;
use crate::prepare::{prepare, surplus};

/// How long a CustomResourceDefinition may take to be served before the objects of its kind are tried anyway.
const ESTABLISHED_TIMEOUT: Duration = Duration::from_secs(10);

/// What came of it.
#[derive(Debug, Default)]
pub(crate) struct Applied {
    /// Applied, or tried: whatever may be in the target now.
    pub(crate) references: Vec<ObjectReference>,
    /// What could not be applied, and why.
    pub(crate) failed: Vec<(ObjectReference, Fault)>,
}

/// The fault of all that failed: its class is the one that can be acted on soonest. None where nothing did.
pub(crate) fn fault_of_all(failed: &[(ObjectReference, Fault)]) -> Option<Fault> {
    let class = failed
        .iter()
        .map(|(_, fault)| fault.class)
        .max_by_key(|class| urgency(*class))?;
    let hint = failed
        .iter()
        .map(|(_, fault)| &fault.hint)
        .find(|hint| !hint.is_empty());
    let hint = hint.cloned().unwrap_or_default();
    let texts = failed
        .iter()
        .map(|(reference, fault)| format!("{}: {}", shown(reference), fault.chain()));
    Some(Fault::new(class, listed(texts, "; ")).hint(hint))
}

/// Which class decides when several objects failed: the one that is tried again soonest.
fn urgency(class: FaultClass) -> u8 {
    match class {
        FaultClass::Bug | FaultClass::User => 0,
        FaultClass::Quota | FaultClass::Access => 1,
        FaultClass::Dependency => 2,
        FaultClass::Transient => 3,
    }
}

/// What became of one object.
enum Tried {
    Applied,
    /// It may be in the target nevertheless.
    Failed(Fault),
    /// It is another's.
    Refused(Fault),
}

/// Applies all, each on its own: one that fails holds back none of the others. `before` is what was applied before.
pub(crate) async fn apply_all(
    desired: &[Desired],
    before: &[ObjectReference],
    resource: &ManagedResource,
    context: &Context,
) -> Applied {
    let mut applied = Applied::default();
    for object in desired {
        let (reference, tried) = apply_one(object, before, resource, context).await;
        match tried {
            Tried::Applied => applied.references.push(reference),
            Tried::Failed(fault) => {
                applied.references.push(reference.clone());
                applied.failed.push((reference, fault));
            }
            Tried::Refused(fault) => applied.failed.push((reference, fault)),
        }
    }
    applied
}

async fn apply_one(
    object: &Desired,
    before: &[ObjectReference],
    resource: &ManagedResource,
    context: &Context,
) -> (ObjectReference, Tried) {
    let mut reference = reference(object, object.namespace.clone(), resource);
    let served = match context.kinds.find(&object.api_version, &object.kind).await {
        Ok(Some(served)) => served,
        Ok(None) => {
            let text = format!("the target serves no kind {} of {}", object.kind, object.api_version);
            let fault = Fault::dependency(text).hint("install the CustomResourceDefinition of the named kind");
            return (reference, Tried::Failed(fault));
        }
        Err(fault) => return (reference, Tried::Failed(fault)),
    };
    reference.namespace = served.namespace(object.namespace.as_deref());
    let api = context.kinds.api(&served, reference.namespace.as_deref());
    let live = match api.get_opt(&object.name).await {
        Ok(live) => live,
        Err(error) => {
            // Not the object is missing, but its resource.
            if is_missing(&error) {
                context.kinds.forget(&object.api_version, &object.kind);
            }
            return (reference, Tried::Failed(fault_of(error, "read it")));
        }
    };
    if let Some(live) = &live
        && let Err(fault) = refuse_others(live, object, before, resource, context)
    {
        return (reference, Tried::Refused(fault));
    }
    let sent = send(object, live, reference.namespace.as_deref(), &served, resource, context).await;
    (reference, sent.map_or_else(Tried::Failed, |()| Tried::Applied))
}

async fn send(
    object: &Desired,
    live: Option<DynamicObject>,
    namespace: Option<&str>,
    served: &Served,
    resource: &ManagedResource,
    context: &Context,
) -> Result<(), Fault> {
    let api = context.kinds.api(served, namespace);
    let origin = origin(&context.options.cluster_id, resource);
    let mut value = prepare(object, namespace, &origin, &resource.spec.inject_labels);
    let key = ObjectKey {
        namespace: namespace.map(str::to_owned),
        name: object.name.clone(),
    };
    if let Some(live) = &live {
        if object.is_ignored() {
            return leave(&api, live, context.drifts.writing(&served.resource, key)).await;
        }
        let is_scaled = differs_in_replicas(&value, live) && is_scaled(object, namespace, resource, context).await?;
        merge(&mut value, object, live, is_scaled);
    }
    let writing = context.drifts.writing(&served.resource, key);
    let params = PatchParams::apply(MANAGER).force();
    match api.patch(&object.name, &params, &Patch::Apply(&value)).await {
        Ok(_) if object.kind == "CustomResourceDefinition" => {
            let definitions: Api<CustomResourceDefinition> = Api::all(context.target.clone());
            let served = await_condition(definitions, &object.name, is_crd_established());
            // If it takes longer, its objects fail with a reason and are tried again.
            let _ = tokio::time::timeout(ESTABLISHED_TIMEOUT, served).await;
            Ok(())
        }
        Ok(live) => {
            let live = strip(&api, live, &value, resource).await?;
            writing.wrote(&live);
            Ok(())
        }
        Err(error) => {
            if is_missing(&error) {
                context.kinds.forget(&object.api_version, &object.kind);
            }
            let is_invalid = matches!(&error, kube::Error::Api(status) if status.code == 422);
            let refusal = fault_of(without_values(error), "apply it");
            match live.filter(|_| is_invalid && may_replace(object, &refusal.chain())) {
                Some(live) => replace(object, &live, &refusal, &api).await,
                None => Err(refusal),
            }
        }
    }
}

/// Takes the values out of what the API server answers to an object whose fields have other types than their schema: it
/// quotes them, and the message goes into the status and the log. Path and wanted type stay.
fn without_values(mut error: kube::Error) -> kube::Error {
    if let kube::Error::Api(status) = &mut error {
        status.message = hide_values(&status.message);
    }
    error
}

fn hide_values(message: &str) -> String {
    /// How structured-merge-diff (v6 typed/validate.go, value/scalar.go) begins to quote a value.
    const QUOTE: &str = ", got &";
    /// Message of errors without a value.
    const OTHERS: [&str; 2] = [": field not declared in schema", ": duplicate entries for key "];
    if !message.contains(QUOTE) {
        return message.to_owned();
    }
    // A value may have several lines; each further error begins with the path of its field.
    let is_error = |line: &&str| {
        let names_difference = line.contains(": expected ") || OTHERS.iter().any(|other| line.contains(other));
        line.starts_with("  .") && names_difference
    };
    let (first, rest) = message.split_once('\n').unwrap_or((message, ""));
    let lines = std::iter::once(first).chain(rest.lines().filter(is_error));
    let hidden = lines.map(|line| match line.split_once(QUOTE) {
        Some((before, _)) => format!("{before}, got a value of another type"),
        None => line.to_owned(),
    });
    hidden.collect::<Vec<_>>().join("\n")
}

/// Leaves an object as it is that is ignored once it exists, but for a description that no longer holds.
async fn leave(api: &Api<DynamicObject>, live: &DynamicObject, writing: Writing<'_>) -> Result<(), Fault> {
    if !live.annotations().contains_key(DESCRIPTION) {
        writing.wrote(live);
        return Ok(());
    }
    let patch = json!({"metadata": {"annotations": {DESCRIPTION: null}}});
    let patched = api
        .patch(&live.name_any(), &PatchParams::default(), &Patch::Merge(patch))
        .await;
    writing.wrote(&patched.map_err(|error| fault_of(error, "take off its description"))?);
    Ok(())
}

/// Whether a HorizontalPodAutoscaler sets the replicas of the object.
async fn is_scaled(
    object: &Desired,
    namespace: Option<&str>,
    resource: &ManagedResource,
    context: &Context,
) -> Result<bool, Fault> {
    let scalers: Api<HorizontalPodAutoscaler> = Api::namespaced(context.target.clone(), namespace.unwrap_or("default"));
    let scalers = scalers.list(&ListParams::default()).await;
    let scalers = scalers.map_err(|error| fault_of(error, "see whether it is scaled by another"))?;
    Ok(scalers
        .items
        .iter()
        .filter_map(|scaler| scaler.spec.as_ref())
        .any(|spec| {
            let target = &spec.scale_target_ref;
            let version = target.api_version.as_deref().unwrap_or_default();
            let group = version.split_once('/').map(|(group, _)| group).unwrap_or_default();
            target.name == object.name
                && same_kind(
                    (&object.group, &object.kind),
                    (group, &target.kind),
                    &resource.spec.equivalences,
                )
        }))
}

/// Takes off the labels and annotations that must not be there; the object as it is then.
async fn strip(
    api: &Api<DynamicObject>,
    live: DynamicObject,
    value: &Value,
    resource: &ManagedResource,
) -> Result<DynamicObject, Fault> {
    let (metadata, spec) = (&live.metadata, &resource.spec);
    let nothing = Value::Null;
    let wanted = |field: &str| value["metadata"].get(field).unwrap_or(&nothing);
    let labels = surplus(
        metadata.labels.as_ref(),
        wanted("labels"),
        spec.force_overwrite_labels == Some(true),
    );
    let force = spec.force_overwrite_annotations == Some(true);
    let annotations = surplus(metadata.annotations.as_ref(), wanted("annotations"), force);
    if labels.is_empty() && annotations.is_empty() {
        return Ok(live);
    }
    let nulls = |keys: Vec<String>| Value::Object(keys.into_iter().map(|key| (key, Value::Null)).collect());
    let patch = json!({"metadata": {
        "resourceVersion": metadata.resource_version,
        "labels": nulls(labels),
        "annotations": nulls(annotations),
    }});
    let stripped = api
        .patch(&live.name_any(), &PatchParams::default(), &Patch::Merge(patch))
        .await;
    stripped.map_err(|error| fault_of(error, "take off what others have put on it"))
}

/// Whether an object that cannot be updated may be deleted: an annotation allows it, or the object is immutable.
fn may_replace(object: &Desired, refusal: &str) -> bool {
    let immutable = object.api_version == "v1"
        && matches!(object.kind.as_str(), "ConfigMap" | "Secret")
        && refusal.contains("field is immutable when `immutable` is set");
    immutable || is_true(Some(&object.annotations()), wish::DELETE_ON_INVALID_UPDATE)
}

/// Deletes an object whose update was refused as invalid; the next turn creates it. The fault repeats the refusal: if the
/// object is invalid in itself, that is the reason why it is gone.
async fn replace(
    object: &Desired,
    live: &DynamicObject,
    refusal: &Fault,
    api: &Api<DynamicObject>,
) -> Result<(), Fault> {
    let annotations = object.annotations();
    let propagation_policy = match annotations.get(wish::DELETION_PROPAGATION).map(String::as_str) {
        None | Some("Background") => PropagationPolicy::Background,
        Some("Foreground") => PropagationPolicy::Foreground,
        Some("Orphan") => PropagationPolicy::Orphan,
        Some(_) => {
            let text = format!(
                "annotation {} is not one of Background, Foreground, Orphan",
                wish::DELETION_PROPAGATION
            );
            return Err(Fault::user(text).hint("correct the named annotation"));
        }
    };
    let params = DeleteParams {
        propagation_policy: Some(propagation_policy),
        ..DeleteParams::default()
    };
    let params = params.preconditions(Preconditions {
        uid: live.uid(),
        resource_version: None,
    });
    match api.delete(&object.name, &params).await {
        Err(error) if !is_missing(&error) => Err(fault_of(error, "delete it after an invalid update")),
        _ => {
            let text = format!(
                "it was deleted to be recreated, as its update is invalid: {}",
                refusal.chain()
            );
            Err(Fault::transient(text))
        }
    }
}

/// The object as it is remembered, with the labels and annotations that it gets.
pub(crate) fn reference(object: &Desired, namespace: Option<String>, resource: &ManagedResource) -> ObjectReference {
    let managed = [(MANAGED_BY.to_owned(), MANAGED_BY_GARDENER.to_owned())];
    ObjectReference {
        api_version: Some(object.api_version.clone()),
        kind: Some(object.kind.clone()),
        namespace,
        name: Some(object.name.clone()),
        labels: (object.labels().into_iter())
            .chain(resource.spec.inject_labels.clone())
            .chain(managed)
            .collect(),
        annotations: object.annotations(),
        ..ObjectReference::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_cut_out_of_messages_and_paths_stay() {
        let plain = "Secret \"s\" is invalid: metadata.name: Invalid value: \"S\"";
        assert_eq!(hide_values(plain), plain);
        let one = "failed to create typed patch object (n/s; /v1, Kind=Secret): .data.password: expected string, got &value.valueUnstructured{Value:12345}";
        assert_eq!(
            hide_values(one),
            "failed to create typed patch object (n/s; /v1, Kind=Secret): .data.password: expected string, got a value of another type"
        );
        let many = "failed: errors:\n  .data: expected map, got &{secret\nmore, got it\n  .x: y\n}\n  .other: field not declared in schema";
        assert_eq!(
            hide_values(many),
            "failed: errors:\n  .data: expected map, got a value of another type\n  .other: field not declared in schema"
        );
    }
}
