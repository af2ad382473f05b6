//! The Cluster object: what extensions know about a shoot (contract E.5).

use api_core::v1beta1 as core;
use api_extensions::{Cluster, ClusterSpec};
use api_meta::{Fault, RawJson, annotations};
use base_client::{apply, fault_of};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde::Serialize;
use serde_json::json;

use crate::context::{Context, MANAGER};

/// Writes the Cluster with these three objects, complete but for their managed fields.
///
/// # Errors
/// What the API server returns.
pub(crate) async fn sync(
    context: &Context,
    name: &str,
    shoot: &core::Shoot,
    seed: &core::Seed,
    cloud_profile: &core::CloudProfile,
) -> Result<(), Fault> {
    let (mut shoot, mut seed, mut cloud_profile) = (shoot.clone(), seed.clone(), cloud_profile.clone());
    // Extensions rely on these, and a Shoot that was last written long ago may lack them.
    api_rules::default_shoot_kubernetes(&mut shoot);
    shoot.metadata.managed_fields = None;
    // How gardenlet gets on is none of the extensions' business, and would be another Cluster with every step.
    if let Some(notes) = &mut shoot.metadata.annotations {
        notes.retain(|name, _| !name.starts_with(annotations::STATUS_PREFIX));
    }
    seed.metadata.managed_fields = None;
    cloud_profile.metadata.managed_fields = None;
    let cluster = Cluster {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        spec: ClusterSpec {
            cloud_profile: raw(&cloud_profile)?,
            seed: Some(raw(&seed)?),
            shoot: raw(&shoot)?,
        },
    };
    apply(&Api::all(context.seed.clone()), &cluster, MANAGER)
        .await
        .map(drop)
}

/// Names the Secret of the namespace that holds the generic token kubeconfig, for extensions. Not part of what [`sync`]
/// applies, so that a Cluster written before the Secret is known keeps the name from before.
///
/// # Errors
/// What the API server returns.
pub(crate) async fn name_generic_kubeconfig(context: &Context, cluster: &str, secret: &str) -> Result<(), Fault> {
    let note = json!({"metadata": {"annotations": {annotations::GENERIC_TOKEN_KUBECONFIG_SECRET_NAME: secret}}});
    Api::<Cluster>::all(context.seed.clone())
        .patch(cluster, &PatchParams::default(), &Patch::Merge(note))
        .await
        .map(drop)
        .map_err(|error| {
            fault_of(
                error,
                &format!("name the generic token kubeconfig on Cluster {cluster}"),
            )
        })
}

fn raw<T: Serialize>(object: &T) -> Result<RawJson, Fault> {
    RawJson::of(object)
        .map_err(|error| Fault::bug(error).hint("report it: an object of ours cannot be written as JSON"))
}
