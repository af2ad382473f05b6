//! Applies objects to the target. Never deletes one, but where the object itself asks for it on an invalid update.

use std::time::Duration;

use api_meta::{Fault, FaultClass};
use api_resources::{ManagedResource, ObjectReference};
use base_client::{fault_of, is_missing};
use base_controller::ObjectKey;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::runtime::wait::{await_condition, conditions::is_crd_established};
use kube::{Api, ResourceExt};

use crate::Context;
use crate::decode::Desired;
use crate::kinds::Served;
use crate::naming::{MANAGER, origin, shown, wish, wishes};
use crate::prepare::{prepare, preserve, preserves};

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
    let mut reference = reference(object, object.namespace.clone());
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
    let namespace = served
        .namespaced
        .then(|| object.namespace.clone().unwrap_or_else(|| "default".to_owned()));
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
    let mut value = prepare(&object.value, namespace, &origin, &resource.spec.inject_labels);
    if preserves(&value)
        && let Some(live) = api
            .get_opt(&object.name)
            .await
            .map_err(|error| fault_of(error, "read it"))?
    {
        preserve(&mut value, &live);
    }
    let key = ObjectKey {
        namespace: namespace.map(str::to_owned),
        name: object.name.clone(),
    };
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
            writing.wrote(&live);
            Ok(())
        }
        Err(error) => {
            if is_missing(&error) {
                context.kinds.forget(&object.api_version, &object.kind);
            }
            let invalid = matches!(&error, kube::Error::Api(status) if status.code == 422);
            if invalid && wishes_deletion(&value) {
                return replace(object, &api).await;
            }
            Err(fault_of(error, "apply it"))
        }
    }
}

fn wishes_deletion(value: &serde_json::Value) -> bool {
    serde_json::from_value(value.clone()).is_ok_and(|object| wishes(&object, wish::DELETE_ON_INVALID_UPDATE))
}

/// Deletes an object that cannot be changed into what is wanted, as it asks for; the next turn creates it.
async fn replace(object: &Desired, api: &Api<kube::core::DynamicObject>) -> Result<(), Fault> {
    if let Some(live) = api
        .get_opt(&object.name)
        .await
        .map_err(|error| fault_of(error, "read it"))?
    {
        let params = DeleteParams::background().preconditions(kube::api::Preconditions {
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

pub(crate) fn reference(object: &Desired, namespace: Option<String>) -> ObjectReference {
    ObjectReference {
        api_version: Some(object.api_version.clone()),
        kind: Some(object.kind.clone()),
        namespace,
        name: Some(object.name.clone()),
        ..ObjectReference::default()
    }
}
