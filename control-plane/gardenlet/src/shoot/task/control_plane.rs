//! The provider's part of the control plane (kind ControlPlane), and our own Deployments beside the API server.

use api_extensions::{ControlPlane, ControlPlaneSpec, Infrastructure};
use api_meta::Fault;
use base_client::{apply, delete, get};
use components_hosted::{
    CONTROLLER_MANAGER, ControllerManagerSettings, RESOURCE_MANAGER, ResourceManagerSettings, SCHEDULER,
    SchedulerSettings,
};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use tokio::time::Instant;

use super::super::operation::Operation;
use super::api_server::wait_deployment;
use super::infrastructure::cloud_credentials;
use super::{secrets, shoot_access};
use crate::context::MANAGER;
use crate::extension::ask;

/// Asks for the provider's part, with the infrastructure's answer byte for byte.
pub(crate) async fn deploy(op: &Operation) -> Result<(), Fault> {
    let desired = ControlPlane {
        metadata: ObjectMeta {
            name: Some(op.shoot.name.clone()),
            namespace: Some(op.namespace().to_owned()),
            ..ObjectMeta::default()
        },
        spec: ControlPlaneSpec {
            type_: op.shoot.provider.clone(),
            provider_config: op.shoot.spec.provider.control_plane_config.clone(),
            infrastructure_provider_status: op.results().infrastructure_status.clone(),
            region: op.shoot.region.clone(),
            secret_ref: cloud_credentials(op),
            ..ControlPlaneSpec::default()
        },
        status: None,
    };
    op.remember(&ask(&op.context, &op.here::<ControlPlane>(), desired).await?);
    Ok(())
}

/// As [`deploy`], in a deletion, where nobody has waited for the infrastructure.
pub(crate) async fn redeploy(op: &Operation) -> Result<(), Fault> {
    let infrastructure = get(&op.here::<Infrastructure>(), &op.shoot.name).await?;
    let answer = infrastructure.and_then(|infrastructure| infrastructure.status?.provider_status);
    op.results().infrastructure_status = answer;
    deploy(op).await
}

/// Applies gardener-resource-manager, which needs its rights in the shoot to become ready.
pub(crate) async fn deploy_resource_manager(op: &Operation) -> Result<(), Fault> {
    shoot_access::deploy(op).await?;
    let objects = components_hosted::resource_manager(&ResourceManagerSettings {
        namespace: op.namespace().to_owned(),
        image: op.context.config.images.own(RESOURCE_MANAGER),
        replicas: 1,
        kubeconfig: secrets::deploy_kubeconfig(op, &secrets::RESOURCE_MANAGER).await?,
    });
    apply(&op.here::<ServiceAccount>(), &objects.service_account, MANAGER).await?;
    apply(&op.here::<Role>(), &objects.role, MANAGER).await?;
    apply(&op.here::<RoleBinding>(), &objects.role_binding, MANAGER).await?;
    apply_deployment(op, &objects.deployment).await
}

async fn apply_deployment(op: &Operation, deployment: &Deployment) -> Result<(), Fault> {
    let written = apply(&op.here::<Deployment>(), deployment, MANAGER).await?;
    op.remember_generation(&written);
    Ok(())
}

/// Waits until it is rolled out.
pub(crate) async fn wait_resource_manager(op: &Operation, until: Option<Instant>) -> Result<(), Fault> {
    wait_deployment(op, RESOURCE_MANAGER, until).await
}

/// Takes it away with its rights in the seed.
pub(crate) async fn destroy_resource_manager(op: &Operation) -> Result<(), Fault> {
    delete(&op.here::<Deployment>(), RESOURCE_MANAGER).await?;
    delete(&op.here::<RoleBinding>(), RESOURCE_MANAGER).await?;
    delete(&op.here::<Role>(), RESOURCE_MANAGER).await?;
    delete(&op.here::<ServiceAccount>(), RESOURCE_MANAGER).await
}

/// Applies kube-scheduler.
pub(crate) async fn deploy_scheduler(op: &Operation) -> Result<(), Fault> {
    let deployment = components_hosted::scheduler(&SchedulerSettings {
        namespace: op.namespace().to_owned(),
        image: op.context.config.images.kubernetes(SCHEDULER, &op.shoot.version),
        replicas: 1,
        kubeconfig: secrets::deploy_kubeconfig(op, &secrets::SCHEDULER).await?,
    });
    apply_deployment(op, &deployment).await
}

/// Applies kube-controller-manager.
pub(crate) async fn deploy_controller_manager(op: &Operation) -> Result<(), Fault> {
    let own = op.shoot.spec.kubernetes.kube_controller_manager.as_ref();
    let deployment = components_hosted::controller_manager(&ControllerManagerSettings {
        namespace: op.namespace().to_owned(),
        image: op
            .context
            .config
            .images
            .kubernetes(CONTROLLER_MANAGER, &op.shoot.version),
        replicas: 1,
        kubeconfig: secrets::deploy_kubeconfig(op, &secrets::CONTROLLER_MANAGER).await?,
        authority: op.mounted_bundle(secrets::CA)?,
        client_authority: op.mounted(secrets::CA_CLIENT)?,
        kubelet_authority: op.mounted(secrets::CA_KUBELET)?,
        service_account_key: op.mounted(secrets::SERVICE_ACCOUNT_KEY)?,
        pod_networks: op.shoot.pods.clone(),
        service_networks: op.shoot.services.clone(),
        node_mask_size: own
            .and_then(|own| own.node_cidr_mask_size)
            .and_then(|size| u8::try_from(size).ok()),
    });
    apply_deployment(op, &deployment).await
}

/// Waits until it is rolled out.
pub(crate) async fn wait_controller_manager(op: &Operation, until: Option<Instant>) -> Result<(), Fault> {
    wait_deployment(op, CONTROLLER_MANAGER, until).await
}
