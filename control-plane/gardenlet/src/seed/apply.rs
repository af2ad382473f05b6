//! Writes of the seed controller, and what must be there before anything else runs.

use std::collections::BTreeMap;
use std::time::Duration;

use api_core::v1beta1::Seed;
use api_meta::{Fault, labels, names};
use base_client::{Judgement, apply as apply_object, create_or_get, wait_until};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Api, Client, ResourceExt};

use super::plan::Plan;
use crate::config::Config;
use crate::context::{Context, MANAGER};

/// A new kind is served within moments; longer means that the API server is in trouble.
const ESTABLISHED_TIMEOUT: Duration = Duration::from_secs(30);

/// Priorities of control planes (gardener/gardener v1.150 `pkg/component/seed/system`).
const PRIORITIES: [(&str, i32); 5] = [
    ("gardener-system-500", 999_999_500),
    ("gardener-system-400", 999_999_400),
    ("gardener-system-300", 999_999_300),
    ("gardener-system-200", 999_999_200),
    ("gardener-system-100", 999_999_100),
];

/// The kinds that a seed has, beside those of its Kubernetes: what a gardenlet defines in it.
pub fn kinds_of_seed() -> Vec<CustomResourceDefinition> {
    [api_extensions::crds(), api_resources::crds(), api_machine::crds()].concat()
}

/// Makes a cluster fit to be a seed: kinds, namespace `garden`, priorities.
///
/// # Errors
/// What its API server says; dependency if a kind is not served in time.
pub(crate) async fn prepare_cluster(seed: &Client) -> Result<(), Fault> {
    let api: Api<CustomResourceDefinition> = Api::all(seed.clone());
    let kinds = kinds_of_seed();
    for kind in &kinds {
        apply_object(&api, kind, MANAGER).await?;
    }
    for kind in &kinds {
        wait_until(&api, &kind.name_any(), ESTABLISHED_TIMEOUT, established).await?;
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
    apply_object(&Api::all(seed.clone()), &namespace, MANAGER).await?;
    for (name, value) in PRIORITIES {
        let class = PriorityClass {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                ..ObjectMeta::default()
            },
            value,
            description: Some("for control planes of shoots".to_owned()),
            ..PriorityClass::default()
        };
        apply_object(&Api::all(seed.clone()), &class, MANAGER).await?;
    }
    Ok(())
}

fn established(kind: Option<&CustomResourceDefinition>) -> Judgement<()> {
    let conditions = kind.and_then(|kind| kind.status.as_ref()?.conditions.as_ref());
    let is = conditions
        .into_iter()
        .flatten()
        .any(|one| one.type_ == "Established" && one.status == "True");
    if is {
        Judgement::Done(())
    } else {
        Judgement::NotYet("the kind is not established yet".to_owned())
    }
}

/// Registers our Seed in the garden, or brings its spec up to date.
///
/// # Errors
/// What the garden says.
pub(crate) async fn register(garden: &Client, config: &Config) -> Result<Seed, Fault> {
    let mut seed = Seed {
        status: None,
        ..config.seed.clone()
    };
    let mark = format!("{}{}", labels::SEED_NAME_PREFIX, config.seed_name());
    seed.labels_mut().insert(mark, "true".to_owned());
    seed.labels_mut()
        .insert(labels::ROLE.to_owned(), labels::role::SEED.to_owned());
    apply_object(&Api::all(garden.clone()), &seed, MANAGER).await
}

/// Writes what is planned, but for the status.
pub(crate) async fn apply(context: &Context, plan: &Plan) -> Result<(), Fault> {
    if let Some(identity) = &plan.new_identity {
        let map = ConfigMap {
            metadata: ObjectMeta {
                name: Some(names::CLUSTER_IDENTITY.to_owned()),
                ..ObjectMeta::default()
            },
            data: Some(BTreeMap::from([
                (names::CLUSTER_IDENTITY.to_owned(), identity.clone()),
                ("origin".to_owned(), "seed".to_owned()),
            ])),
            immutable: Some(true),
            ..ConfigMap::default()
        };
        create_or_get(&context.in_seed::<ConfigMap>("kube-system"), &map).await?;
    }
    if let Some(bucket) = &plan.bucket {
        apply_object(&Api::all(context.garden.clone()), bucket, MANAGER).await?;
    }
    Ok(())
}
