//! The flow that leaves nothing of a cluster. The order is that of gardener/gardener v1.150
//! `pkg/gardenlet/controller/shoot/shoot/flow_delete.go`: the API server is brought up again so that what lives in
//! the shoot can be cleaned, machines go before the control plane, the infrastructure after it.

use base_flow::Flow;
use components_hosted::{ComponentId, Place, component};

use crate::draft::{Draft, sync_point};
use crate::facts::{Goal, ShootFacts, Tunnel};
use crate::single::Single;
use crate::slots::ShootFlowError;
use crate::step::{Kind, Point, ShootTask, deployed, destroyed, gone, ready};
use crate::times::{CLEAN_TIMEOUT, CLOUD_TIMEOUT, DNS_TIMEOUT, EXTENSION_TIMEOUT, ROLLOUT_TIMEOUT};

const READY_FOR_CLEANUP: &str = "syncPointReadyForCleanup";
const CLEANED_KUBERNETES_RESOURCES: &str = "syncPointCleanedKubernetesResources";
const CLEANED: &str = "syncPointCleaned";
const CONTROL_PLANE_DOWN: &str = "syncPointControlPlaneDown";

pub(crate) fn flow(facts: &ShootFacts, goal: &Goal) -> Result<Flow<ShootTask>, ShootFlowError> {
    let mut flow = Draft::new("Shoot cluster deletion", facts, goal);
    foundation(&mut flow);
    bring_up(&mut flow);
    connect_and_clean(&mut flow);
    machines(&mut flow);
    managed_resources_and_extensions(&mut flow);
    control_plane(&mut flow);
    rest(&mut flow);
    flow.build()
}

fn foundation(flow: &mut Draft<'_>) {
    flow.write(Single::DeployNamespace);
    flow.write(Single::EnsureClusterIdentity)
        .after([Single::DeployNamespace]);
    flow.write(Single::DeployCloudProviderSecret)
        .after([Single::DeployNamespace]);
    flow.write(Single::DeployApiServerService)
        .after([Single::DeployNamespace, Single::EnsureClusterIdentity]);
    flow.wait(Single::WaitApiServerService, ROLLOUT_TIMEOUT)
        .after([Single::DeployApiServerService]);
    flow.write(Single::InitializeSecrets).after([Single::DeployNamespace]);
    flow.write(Single::EnsureAdvertisedAddresses)
        .after([Single::InitializeSecrets, Single::WaitApiServerService]);
    flow.write(Single::DeployReferencedResources)
        .after([Single::DeployNamespace]);
    flow.wait(deployed(Kind::InternalDnsRecord), DNS_TIMEOUT)
        .after([Single::DeployReferencedResources, Single::WaitApiServerService]);
}

fn bring_up(flow: &mut Draft<'_>) {
    flow.deploy(ComponentId::EtcdMain)
        .after([Single::InitializeSecrets, Single::DeployCloudProviderSecret]);
    flow.ready(ComponentId::EtcdMain, ROLLOUT_TIMEOUT)
        .after([deployed(ComponentId::EtcdMain)]);
    flow.deploy(ComponentId::ApiServer).after([
        Single::InitializeSecrets.into(),
        deployed(ComponentId::EtcdMain),
        ready(ComponentId::EtcdMain),
        Single::WaitApiServerService.into(),
    ]);
    flow.ready(ComponentId::ApiServer, ROLLOUT_TIMEOUT)
        .after([deployed(ComponentId::ApiServer)]);
    flow.deploy(ComponentId::ResourceManager)
        .after([ready(ComponentId::ApiServer)]);
    flow.ready(ComponentId::ResourceManager, ROLLOUT_TIMEOUT)
        .after([deployed(ComponentId::ResourceManager)]);
    flow.deploy(Kind::ControlPlane)
        .after([ready(ComponentId::ResourceManager)]);
    flow.ready(Kind::ControlPlane, EXTENSION_TIMEOUT)
        .after([deployed(Kind::ControlPlane)]);
}

fn connect_and_clean(flow: &mut Draft<'_>) {
    flow.connect(Single::DeployShootAccess)
        .after([Single::InitializeSecrets.into(), ready(ComponentId::ResourceManager)]);
    flow.connect(Single::InitializeShootConnection).after([
        Single::DeployCloudProviderSecret.into(),
        ready(ComponentId::ApiServer),
        deployed(Kind::InternalDnsRecord),
        Single::DeployShootAccess.into(),
    ]);
    flow.deploy(ComponentId::ControllerManager).after([
        Single::InitializeSecrets.into(),
        Single::DeployCloudProviderSecret.into(),
        ready(Kind::ControlPlane),
        Single::InitializeShootConnection.into(),
    ]);
    flow.wait(Single::CleanWebhooks, CLEAN_TIMEOUT).after([
        Single::InitializeShootConnection.into(),
        deployed(ComponentId::ResourceManager),
    ]);
    flow.ready(ComponentId::ControllerManager, ROLLOUT_TIMEOUT).after([
        Single::InitializeShootConnection.into(),
        Single::CleanWebhooks.into(),
        deployed(ComponentId::ControllerManager),
    ]);
    flow.wait(Single::CleanExtendedApis, CLEAN_TIMEOUT).after([
        Single::InitializeShootConnection.into(),
        ready(ComponentId::ControllerManager),
    ]);
    flow.sync_point(
        READY_FOR_CLEANUP,
        [
            Single::InitializeShootConnection.into(),
            Single::CleanExtendedApis.into(),
            ready(Kind::ControlPlane).into(),
            deployed(ComponentId::ControllerManager).into(),
            ready(ComponentId::ControllerManager).into(),
        ],
    );
    flow.wait(Single::CleanKubernetesResources, CLEAN_TIMEOUT)
        .after([sync_point(READY_FOR_CLEANUP)]);
    flow.sync_point(
        CLEANED_KUBERNETES_RESOURCES,
        [
            Single::CleanWebhooks.into(),
            Single::CleanExtendedApis.into(),
            Single::CleanKubernetesResources.into(),
        ],
    );
}

fn machines(flow: &mut Draft<'_>) {
    flow.destroy(Kind::Network)
        .after([sync_point(CLEANED_KUBERNETES_RESOURCES)]);
    flow.gone(Kind::Network, EXTENSION_TIMEOUT)
        .after([destroyed(Kind::Network)]);
    flow.deploy(ComponentId::MachineControllerManager)
        .after([sync_point(CLEANED_KUBERNETES_RESOURCES)]);
    flow.destroy(Kind::Worker)
        .after([deployed(ComponentId::MachineControllerManager)]);
    flow.gone(Kind::Worker, CLOUD_TIMEOUT).after([destroyed(Kind::Worker)]);
    flow.destroy(ComponentId::MachineControllerManager)
        .after([gone(Kind::Worker)]);
    flow.destroy(Kind::OperatingSystemConfig).after([gone(Kind::Worker)]);
    flow.gone(Kind::OperatingSystemConfig, EXTENSION_TIMEOUT)
        .after([destroyed(Kind::OperatingSystemConfig)]);
}

fn managed_resources_and_extensions(flow: &mut Draft<'_>) {
    flow.write(Single::DeleteManagedResources)
        .after([sync_point(CLEANED_KUBERNETES_RESOURCES), gone(Kind::Worker).into()]);
    flow.wait(Single::WaitManagedResourcesDeleted, CLEAN_TIMEOUT)
        .after([Single::DeleteManagedResources]);
    let timeout = flow.facts().extension_timeouts.deleted_before_api_server;
    flow.destroy(Point::BeforeApiServer).after([
        Single::CleanKubernetesResources.into(),
        gone(Kind::OperatingSystemConfig),
        Single::WaitManagedResourcesDeleted.into(),
    ]);
    flow.gone(Point::BeforeApiServer, timeout)
        .after([destroyed(Point::BeforeApiServer)]);
    flow.write(Single::DeleteStaleExtensions)
        .after([Single::CleanKubernetesResources, Single::WaitManagedResourcesDeleted]);
    flow.wait(Single::WaitStaleExtensions, EXTENSION_TIMEOUT)
        .after([Single::DeleteStaleExtensions]);
    flow.destroy(Kind::ContainerRuntime).after([
        Single::InitializeShootConnection.into(),
        sync_point(CLEANED_KUBERNETES_RESOURCES),
    ]);
    flow.gone(Kind::ContainerRuntime, EXTENSION_TIMEOUT)
        .after([destroyed(Kind::ContainerRuntime)]);
    flow.sync_point(
        CLEANED,
        [
            sync_point(CLEANED_KUBERNETES_RESOURCES),
            destroyed(Kind::OperatingSystemConfig).into(),
            gone(Kind::Worker).into(),
            Single::WaitManagedResourcesDeleted.into(),
            destroyed(Kind::Network).into(),
            gone(Kind::Network).into(),
            gone(Point::BeforeApiServer).into(),
            Single::WaitStaleExtensions.into(),
            gone(Kind::ContainerRuntime).into(),
        ],
    );
}

fn control_plane(flow: &mut Draft<'_>) {
    flow.destroy(Kind::ControlPlane).after([sync_point(CLEANED)]);
    flow.gone(Kind::ControlPlane, EXTENSION_TIMEOUT)
        .after([destroyed(Kind::ControlPlane)]);
    flow.wait(Single::WaitShootManagedResourcesDeleted, CLEAN_TIMEOUT)
        .after([gone(Kind::ControlPlane)]);
    flow.destroy(ComponentId::ApiServer).after([
        sync_point(CLEANED),
        gone(Kind::ControlPlane).into(),
        Single::WaitShootManagedResourcesDeleted.into(),
    ]);
    flow.gone(ComponentId::ApiServer, ROLLOUT_TIMEOUT)
        .after([destroyed(ComponentId::ApiServer)]);
    let timeout = flow.facts().extension_timeouts.deleted_after_api_server;
    flow.destroy(Point::AfterApiServer)
        .after([gone(ComponentId::ApiServer)]);
    flow.gone(Point::AfterApiServer, timeout)
        .after([destroyed(Point::AfterApiServer)]);
    flow.wait(Single::WaitAllExtensionsDeleted, timeout)
        .after([gone(ComponentId::ApiServer)]);
    flow.write(Single::DestroyApiServerService)
        .after([gone(ComponentId::ApiServer)]);
    flow.destroy(ComponentId::ResourceManager)
        .after([gone(ComponentId::ApiServer)]);
    // Upstream leaves these to the namespace, which ends them all the same; here each component is deleted as it was
    // brought, so that one that outlives the namespace's end cannot be forgotten.
    for id in ComponentId::with_steps() {
        let exists = id != ComponentId::VpnSeedServer || flow.facts().tunnel != Tunnel::None;
        if exists && matches!(component(id).place(), Place::ControlPlane { .. }) {
            flow.destroy(id).after([gone(ComponentId::ApiServer)]);
        }
    }
    flow.destroy(Kind::Infrastructure)
        .after([sync_point(CLEANED), gone(Kind::ControlPlane).into()]);
    flow.gone(Kind::Infrastructure, CLOUD_TIMEOUT)
        .after([destroyed(Kind::Infrastructure)]);
}

fn rest(flow: &mut Draft<'_>) {
    flow.wait(destroyed(Kind::ExternalDnsRecord), DNS_TIMEOUT)
        .after([sync_point(CLEANED), gone(ComponentId::ApiServer).into()]);
    flow.sync_point(
        CONTROL_PLANE_DOWN,
        [
            gone(ComponentId::ApiServer).into(),
            gone(Kind::ControlPlane).into(),
            gone(Point::AfterApiServer).into(),
            Single::WaitAllExtensionsDeleted.into(),
            destroyed(Kind::ExternalDnsRecord).into(),
            gone(Kind::Infrastructure).into(),
        ],
    );
    flow.wait(destroyed(Kind::InternalDnsRecord), DNS_TIMEOUT)
        .after([sync_point(CONTROL_PLANE_DOWN)]);
    flow.write(Single::DeleteReferencedResources)
        .after([sync_point(CONTROL_PLANE_DOWN)]);
    flow.destroy(ComponentId::EtcdMain)
        .after([sync_point(CONTROL_PLANE_DOWN)]);
    flow.gone(ComponentId::EtcdMain, ROLLOUT_TIMEOUT)
        .after([sync_point(CONTROL_PLANE_DOWN), destroyed(ComponentId::EtcdMain).into()]);
    flow.write(Single::DeleteNamespace).after([
        sync_point(CONTROL_PLANE_DOWN),
        destroyed(Kind::InternalDnsRecord).into(),
        Single::DeleteReferencedResources.into(),
        gone(ComponentId::EtcdMain).into(),
    ]);
    flow.wait(Single::WaitNamespaceDeleted, CLEAN_TIMEOUT)
        .after([Single::DeleteNamespace]);
}
