//! What must be in a cluster before anything else of a gardenlet runs: kinds, namespace `garden`, priorities. Written at
//! every start; what is there already is written over only where it is ours.

use std::collections::BTreeMap;
use std::time::Duration;

use api_meta::{Fault, labels, names};
use base_client::{WaitState, apply, delete, list, wait_until};
use components_seed::{is_stand_in, priority_classes, stand_ins};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Api, Client, ResourceExt};

use crate::context::MANAGER;

/// A new kind is served within moments; longer means that the API server is in trouble.
const ESTABLISHED_TIMEOUT: Duration = Duration::from_secs(30);

/// The kinds that a seed has, beside those of its Kubernetes and stand-ins of other programs' kinds: what a gardenlet
/// defines in it and works with.
pub fn kinds_of_seed() -> Vec<CustomResourceDefinition> {
    [api_extensions::crds(), api_resources::crds(), api_machine::crds()].concat()
}

/// Makes a cluster fit to be a seed.
///
/// # Errors
/// What its API server says; dependency if a kind is not served in time.
pub(crate) async fn prepare_cluster(seed: &Client) -> Result<(), Fault> {
    let definitions: Api<CustomResourceDefinition> = Api::all(seed.clone());
    let kinds = kinds_of_seed();
    for kind in &kinds {
        apply(&definitions, kind, MANAGER).await?;
    }
    apply_stand_ins(&definitions).await?;
    for kind in &kinds {
        wait_until(&definitions, &kind.name_any(), ESTABLISHED_TIMEOUT, established).await?;
    }
    let namespace = Namespace {
        metadata: ObjectMeta {
            name: Some(names::GARDEN_NAMESPACE.to_owned()),
            labels: Some(BTreeMap::from([(
                labels::ROLE.to_owned(),
                names::GARDEN_NAMESPACE.to_owned(),
            )])),
            ..ObjectMeta::default()
        },
        ..Namespace::default()
    };
    apply(&Api::all(seed.clone()), &namespace, MANAGER).await?;
    apply_priorities(&Api::all(seed.clone())).await
}

/// Writes the stand-ins where nothing else defines their kinds. No client here uses them, so nothing waits until
/// they are served.
async fn apply_stand_ins(definitions: &Api<CustomResourceDefinition>) -> Result<(), Fault> {
    let present = list(definitions, "").await?;
    let of_others: Vec<String> = present
        .iter()
        .filter(|definition| !is_stand_in(definition))
        .map(ResourceExt::name_any)
        .collect();
    for definition in stand_ins() {
        if !of_others.contains(&definition.name_any()) {
            apply(definitions, &definition, MANAGER).await?;
        }
    }
    Ok(())
}

/// Writes the priorities. The value of one never changes: one with another value, as older versions wrote them, is
/// replaced. Pods that run keep the priority that they were created with.
async fn apply_priorities(classes: &Api<PriorityClass>) -> Result<(), Fault> {
    let present = list(classes, "").await?;
    for class in priority_classes() {
        let name = class.name_any();
        let replaced = |there: &PriorityClass| there.name_any() == name && there.value != class.value;
        if present.iter().any(replaced) {
            delete(classes, &name).await?;
        }
        apply(classes, &class, MANAGER).await?;
    }
    Ok(())
}

fn established(kind: Option<&CustomResourceDefinition>) -> WaitState<()> {
    let conditions = kind.and_then(|kind| kind.status.as_ref()?.conditions.as_ref());
    let is = conditions
        .into_iter()
        .flatten()
        .any(|one| one.type_ == "Established" && one.status == "True");
    if is {
        WaitState::Done(())
    } else {
        WaitState::NotYet("the kind is not established yet".to_owned())
    }
}
