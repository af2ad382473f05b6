//! Writes of the seed controller.

use std::collections::BTreeMap;

use api_core::v1beta1::Seed;
use api_extensions::Extension;
use api_meta::{Fault, labels, names};
use base_client::{apply as apply_object, create_or_get, delete};
use components_seed::ResourceManagerObjects;
use control_plane_shoot_flow::ExtensionVerb;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Api, Client, ResourceExt};

use super::plan::Plan;
use crate::config::Config;
use crate::context::{Context, MANAGER};
use crate::extension::{delete_confirmed, write_request};

/// Registers our Seed in the garden, or brings its spec up to date.
///
/// # Errors
/// What the garden returns.
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
    apply_resource_manager(context, &plan.resource_manager, plan.resource_manager_runs).await?;
    for name in &plan.obsolete_secrets {
        delete(&context.in_seed::<Secret>(names::GARDEN_NAMESPACE), name).await?;
    }
    if let Some(bucket) = &plan.bucket {
        apply_object(&Api::all(context.garden.clone()), bucket, MANAGER).await?;
    }
    let extensions = context.in_seed::<Extension>(names::GARDEN_NAMESPACE);
    for wanted in &plan.extensions.request {
        write_request(context, &extensions, ExtensionVerb::Reconcile, wanted.clone()).await?;
    }
    delete_extensions(context, &plan.extensions.delete).await
}

/// Requests the deletion of the seed's own Extensions of these names.
///
/// # Errors
/// What the seed returns.
pub(super) async fn delete_extensions(context: &Context, names: &[String]) -> Result<(), Fault> {
    let extensions = context.in_seed::<Extension>(names::GARDEN_NAMESPACE);
    for name in names {
        delete_confirmed(context, &extensions, name).await?;
    }
    Ok(())
}

/// Its rights come before its program: whatever call is the last before a crash, the next turn goes on from there.
/// Its webhooks are applied once it runs: nothing answers them before.
async fn apply_resource_manager(context: &Context, objects: &ResourceManagerObjects, runs: bool) -> Result<(), Fault> {
    let ResourceManagerObjects {
        service_account,
        cluster_role,
        cluster_role_binding,
        config_map,
        deployment,
        service,
        webhooks,
    } = objects;
    let seed = || context.seed.clone();
    let inside = names::GARDEN_NAMESPACE;
    apply_object(&context.in_seed(inside), service_account, MANAGER).await?;
    apply_object(&Api::all(seed()), cluster_role, MANAGER).await?;
    apply_object(&Api::all(seed()), cluster_role_binding, MANAGER).await?;
    apply_object(&context.in_seed(inside), service, MANAGER).await?;
    apply_object(&context.in_seed(inside), config_map, MANAGER).await?;
    apply_object(&context.in_seed(inside), deployment, MANAGER).await?;
    if runs {
        apply_object(&Api::all(seed()), webhooks, MANAGER).await?;
    }
    Ok(())
}
