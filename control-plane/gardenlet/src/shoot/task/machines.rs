//! What the machine controllers need, which live with the provider: a way into the shoot, and rights there.

use api_meta::Fault;
use base_client::delete as delete_object;
use components_hosted::shoot::machine_controller_access_objects;
use components_hosted::shoot_access_secret_name;
use k8s_openapi::api::core::v1::Secret;

use super::super::managed;
use super::super::operation::Operation;
use super::secrets::{MACHINE_CONTROLLERS, deploy_kubeconfig};

const MANAGED_RESOURCE: &str = "shoot-core-machine-controller-manager";

/// Applies both.
pub(crate) async fn deploy(op: &Operation) -> Result<(), Fault> {
    managed::deploy(
        op,
        MANAGED_RESOURCE,
        &machine_controller_access_objects(MACHINE_CONTROLLERS.user),
    )
    .await?;
    deploy_kubeconfig(op, &MACHINE_CONTROLLERS).await.map(drop)
}

/// Takes the way into the shoot away; the rights go with the other ManagedResources.
pub(crate) async fn delete(op: &Operation) -> Result<(), Fault> {
    delete_object(
        &op.here::<Secret>(),
        &shoot_access_secret_name(MACHINE_CONTROLLERS.component),
    )
    .await
}
