//! Applies objects to the target. Never deletes one, but where it cannot be updated and asks for that, or is immutable.

use std::time::Duration;

use api_meta::{Fault, FaultClass};
use api_resources::{ManagedResource, ObjectReference};
use base_client::{fault_of, is_missing};
use base_controller::ObjectKey;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PropagationPolicy};
use kube::core::DynamicObject;
use kube::runtime::wait::{await_condition, conditions::is_crd_established};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::Context;
use crate::decode::Desired;
use crate::drift::Writing;
use crate::kinds::Served;
use crate::merge::{differs_in_replicas, merge};
use crate::naming::{DESCRIPTION, MANAGED_BY, MANAGED_BY_GARDENER, MANAGER, is_true, origin, shown, wish};
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

impl Applied {
    /// The fault of them all: its class is the one that can be acted on soonest.
    pub(crate) fn fault(self) -> Option<Fault> {
        let class = self
            .failed
            .iter()
            .map(|(_, fault)| fault.class)
            .max_by_key(|class| urgency(*class))?;
        let (texts, mut hints): (Vec<String>, Vec<String>) = self
            .failed
            .into_iter()
            .map(|(reference, fault)| (format!("{}: {}", shown(&reference), fault.chain()), fault.hint))
            .unzip();
        hints.retain(|hint| !hint.is_empty());
        Some(Fault::new(class, texts.join("; ")).hint(hints.into_iter().next().unwrap_or_default()))
    }
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

/// Applies all, each on its own: one that fails holds back none of the others.
pub(crate) async fn apply_all(desired: &[Desired], resource: &ManagedResource, context: &Context) -> Applied {
    let mut applied = Applied::default();
    for object in desired {
        let (reference, result) = apply_one(object, resource, context).await;
        if let Err(fault) = result {
            applied.failed.push((reference.clone(), fault));
        }
        applied.references.push(reference);
    }
    applied
}

async fn apply_one(
    object: &Desired,
    resource: &ManagedResource,
    context: &Context,
) -> (ObjectReference, Result<(), Fault>) {
    let mut reference = reference(object, object.namespace.clone(), resource);
    let served = match context.kinds.find(&object.api_version, &object.kind).await {
        Ok(Some(served)) => served,
        Ok(None) => {
            let text = format!("the target serves no kind {} of {}", object.kind, object.api_version);
            return (
                reference,
                Err(Fault::dependency(text).hint("install the CustomResourceDefinition of the named kind")),
            );
        }
        Err(fault) => return (reference, Err(fault)),
    };
    let namespace = served.namespace(object.namespace.as_deref());
    reference.namespace.clone_from(&namespace);
    let result = send(object, namespace.as_deref(), &served, resource, context).await;
    (reference, result)
}

async fn send(
    object: &Desired,
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
    let live = api.get_opt(&object.name).await;
    if let Some(live) = live.map_err(|error| fault_of(error, "read it"))? {
        refuse_others(&live, object, resource, context)?;
        if object.is_ignored() {
            return leave(&api, live, context.drifts.writing(&served.resource, key)).await;
        }
        let is_scaled = differs_in_replicas(&value, &live) && is_scaled(object, namespace, resource, context).await?;
        merge(&mut value, object, &live, is_scaled);
    }
    let writing = context.drifts.writing(&served.resource, key);
    let sent = api
        .patch(
            &object.name,
            &PatchParams::apply(MANAGER).force(),
            &Patch::Apply(&value),
        )
        .await;
    match sent {
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
            match &error {
                kube::Error::Api(status) if status.code == 422 && may_replace(object, &status.message) => {
                    replace(object, &value, &api).await
                }
                _ => Err(fault_of(error, "apply it")),
            }
        }
    }
}

/// Leaves an object as it is that is ignored once it exists, but for a description that no longer holds.
async fn leave(api: &Api<DynamicObject>, mut live: DynamicObject, writing: Writing<'_>) -> Result<(), Fault> {
    if live.annotations().contains_key(DESCRIPTION) {
        let patch = json!({"metadata": {"annotations": {DESCRIPTION: null}}});
        let patched = api
            .patch(&live.name_any(), &PatchParams::default(), &Patch::Merge(patch))
            .await;
        live = patched.map_err(|error| fault_of(error, "take off its description"))?;
    }
    writing.wrote(&live);
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

/// Whether an object that cannot be updated may be deleted: it says so, or it is immutable and has no other way.
fn may_replace(object: &Desired, refusal: &str) -> bool {
    let immutable = object.api_version == "v1"
        && matches!(object.kind.as_str(), "ConfigMap" | "Secret")
        && refusal.contains("field is immutable when `immutable` is set");
    immutable || is_true(Some(&object.annotations()), wish::DELETE_ON_INVALID_UPDATE)
}

/// Deletes an object that cannot be changed into what is wanted; the next turn creates it.
async fn replace(object: &Desired, value: &Value, api: &Api<DynamicObject>) -> Result<(), Fault> {
    let wish = value
        .pointer("/metadata/annotations")
        .and_then(|all| all.get(wish::DELETION_PROPAGATION));
    let propagation_policy = match wish.and_then(Value::as_str) {
        None => PropagationPolicy::Background,
        Some("Background") => PropagationPolicy::Background,
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
    if let Some(live) = api
        .get_opt(&object.name)
        .await
        .map_err(|error| fault_of(error, "read it"))?
    {
        let params = DeleteParams {
            propagation_policy: Some(propagation_policy),
            ..DeleteParams::default()
        };
        let params = params.preconditions(kube::api::Preconditions {
            uid: live.uid(),
            resource_version: None,
        });
        api.delete(&object.name, &params)
            .await
            .map_err(|error| fault_of(error, "delete it for an invalid update"))?;
    }
    Err(Fault::transient(
        "it was deleted because it cannot be updated, and is created anew",
    ))
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
