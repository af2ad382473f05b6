//! The flow that leaves nothing of a cluster. The order is that of gardener/gardener v1.150
//! `pkg/gardenlet/controller/shoot/shoot/flow_delete.go`: the API server is brought up once more so that what lives in
//! the shoot can be cleaned, machines go before the control plane, the infrastructure after it.

use std::time::Duration;

use base_flow::{Flow, FlowBuilder, FlowError, sync_point};

use crate::reconcile::{
    CLOUD_TIMEOUT, DNS_TIMEOUT, EXTENSION_TIMEOUT, ROLLOUT_TIMEOUT, WORKERLESS, connect, wait, write,
};
use crate::{DeletionFacts, ExtensionTimeouts, ShootFacts, ShootTask as Task};

/// Users' finalizers and load balancers take their time (upstream: 10 min).
const CLEAN_TIMEOUT: Duration = Duration::from_secs(600);

const READY_FOR_CLEANUP: &str = "syncPointReadyForCleanup";
const CLEANED_KUBERNETES_RESOURCES: &str = "syncPointCleanedKubernetesResources";
const CLEANED: &str = "syncPointCleaned";
const CONTROL_PLANE_DOWN: &str = "syncPointControlPlaneDown";

const NAMESPACE_GONE: &str = "namespace gone or terminating";
const NOTHING_TO_CLEAN: &str = "no shoot API to clean up";

pub(crate) fn flow(facts: &ShootFacts, there: &DeletionFacts) -> Result<Flow<Task>, FlowError> {
    let mut flow = Flow::builder("Shoot cluster deletion");
    foundation(&mut flow, facts, there);
    bring_up(&mut flow, facts, there);
    connect_and_clean(&mut flow, there);
    machines(&mut flow, facts, there);
    managed_resources_and_extensions(&mut flow, &facts.extension_timeouts);
    control_plane(&mut flow, facts);
    rest(&mut flow, there);
    flow.build()
}

fn foundation(flow: &mut FlowBuilder<Task>, facts: &ShootFacts, there: &DeletionFacts) {
    write(flow, Task::DeployNamespaceForDeletion).skip_if(!there.namespace_active, NAMESPACE_GONE);
    write(flow, Task::EnsureClusterIdentity).after([Task::DeployNamespaceForDeletion]);
    write(flow, Task::DeployCloudProviderSecret)
        .after([Task::DeployNamespaceForDeletion])
        .skip_if(facts.workerless, WORKERLESS)
        .skip_if(!facts.has_credentials, "no credentials")
        .skip_if(!there.namespace_active, NAMESPACE_GONE);
    write(flow, Task::DeployApiServerService)
        .after([Task::DeployNamespaceForDeletion, Task::EnsureClusterIdentity])
        .skip_if(!there.shoot_cleanup, NOTHING_TO_CLEAN);
    wait(flow, Task::WaitApiServerServiceForDeletion, ROLLOUT_TIMEOUT)
        .after([Task::DeployApiServerService])
        .skip_if(!there.shoot_cleanup, NOTHING_TO_CLEAN);
    write(flow, Task::InitializeSecrets)
        .after([Task::DeployNamespaceForDeletion])
        .skip_if(!there.namespace_active, NAMESPACE_GONE);
    write(flow, Task::EnsureAdvertisedAddresses)
        .after([Task::InitializeSecrets, Task::WaitApiServerServiceForDeletion])
        .skip_if(!there.namespace_active, NAMESPACE_GONE);
    write(flow, Task::DeployReferencedResources)
        .after([Task::DeployNamespaceForDeletion])
        .skip_if(!there.namespace_active, NAMESPACE_GONE);
    wait(flow, Task::DeployInternalDnsRecord, DNS_TIMEOUT)
        .after([Task::DeployReferencedResources, Task::WaitApiServerServiceForDeletion])
        .skip_if(!facts.has_internal_domain, "no internal domain")
        .skip_if(!there.shoot_cleanup, NOTHING_TO_CLEAN);
}

fn bring_up(flow: &mut FlowBuilder<Task>, facts: &ShootFacts, there: &DeletionFacts) {
    let nothing = !there.shoot_cleanup;
    let no_redeploy = !there.control_plane_needed;
    write(flow, Task::DeployEtcdForDeletion)
        .after([Task::InitializeSecrets, Task::DeployCloudProviderSecret])
        .skip_if(nothing, NOTHING_TO_CLEAN);
    wait(flow, Task::WaitEtcdForDeletion, ROLLOUT_TIMEOUT)
        .after([Task::DeployEtcdForDeletion])
        .skip_if(nothing, NOTHING_TO_CLEAN);
    write(flow, Task::DeployApiServer)
        .after([
            Task::InitializeSecrets,
            Task::DeployEtcdForDeletion,
            Task::WaitEtcdForDeletion,
            Task::WaitApiServerServiceForDeletion,
        ])
        .skip_if(nothing, NOTHING_TO_CLEAN);
    wait(flow, Task::WaitApiServerForDeletion, ROLLOUT_TIMEOUT)
        .after([Task::DeployApiServer])
        .skip_if(nothing, NOTHING_TO_CLEAN);
    write(flow, Task::DeployResourceManager)
        .after([Task::WaitApiServerForDeletion])
        .skip_if(nothing, NOTHING_TO_CLEAN);
    wait(flow, Task::WaitResourceManager, ROLLOUT_TIMEOUT)
        .after([Task::DeployResourceManager])
        .skip_if(nothing, NOTHING_TO_CLEAN);
    write(flow, Task::RedeployControlPlane)
        .after([Task::WaitResourceManager])
        .skip_if(facts.workerless, WORKERLESS)
        .skip_if(nothing, NOTHING_TO_CLEAN)
        .skip_if(no_redeploy, "no control plane redeploy needed");
    wait(flow, Task::WaitRedeployedControlPlane, EXTENSION_TIMEOUT)
        .after([Task::RedeployControlPlane])
        .skip_if(facts.workerless, WORKERLESS)
        .skip_if(nothing, NOTHING_TO_CLEAN)
        .skip_if(no_redeploy, "no control plane redeploy needed");
}

fn connect_and_clean(flow: &mut FlowBuilder<Task>, there: &DeletionFacts) {
    let nothing = !there.shoot_cleanup;
    connect(flow, Task::DeployShootAccess)
        .after([Task::InitializeSecrets, Task::WaitResourceManager])
        .skip_if(nothing, NOTHING_TO_CLEAN);
    connect(flow, Task::InitializeShootConnection)
        .after([
            Task::DeployCloudProviderSecret,
            Task::WaitApiServerForDeletion,
            Task::DeployInternalDnsRecord,
            Task::DeployShootAccess,
        ])
        .skip_if(nothing, NOTHING_TO_CLEAN);
    write(flow, Task::DeployControllerManager)
        .after([
            Task::InitializeSecrets,
            Task::DeployCloudProviderSecret,
            Task::WaitRedeployedControlPlane,
            Task::InitializeShootConnection,
        ])
        .skip_if(nothing, NOTHING_TO_CLEAN);
    wait(flow, Task::CleanWebhooks, CLEAN_TIMEOUT)
        .after([Task::InitializeShootConnection, Task::DeployResourceManager])
        .skip_if(nothing, NOTHING_TO_CLEAN);
    wait(flow, Task::WaitControllerManagerActive, ROLLOUT_TIMEOUT)
        .after([
            Task::InitializeShootConnection,
            Task::CleanWebhooks,
            Task::DeployControllerManager,
        ])
        .skip_if(nothing, NOTHING_TO_CLEAN);
    wait(flow, Task::CleanExtendedApis, CLEAN_TIMEOUT)
        .after([Task::InitializeShootConnection, Task::WaitControllerManagerActive])
        .skip_if(nothing, NOTHING_TO_CLEAN);
    flow.sync_point(
        READY_FOR_CLEANUP,
        [
            Task::InitializeShootConnection,
            Task::CleanExtendedApis,
            Task::WaitRedeployedControlPlane,
            Task::DeployControllerManager,
            Task::WaitControllerManagerActive,
        ],
    );
    wait(flow, Task::CleanKubernetesResources, CLEAN_TIMEOUT)
        .after([sync_point(READY_FOR_CLEANUP)])
        .skip_if(nothing, NOTHING_TO_CLEAN);
    flow.sync_point(
        CLEANED_KUBERNETES_RESOURCES,
        [
            Task::CleanWebhooks,
            Task::CleanExtendedApis,
            Task::CleanKubernetesResources,
        ],
    );
}

fn machines(flow: &mut FlowBuilder<Task>, facts: &ShootFacts, there: &DeletionFacts) {
    write(flow, Task::DestroyNetwork)
        .after([sync_point(CLEANED_KUBERNETES_RESOURCES)])
        .skip_if(facts.workerless, WORKERLESS);
    wait(flow, Task::WaitNetworkDestroyed, EXTENSION_TIMEOUT)
        .after([Task::DestroyNetwork])
        .skip_if(facts.workerless, WORKERLESS);
    // Rights in a shoot whose API is gone could neither be given nor ever be taken back, and its nodes went before it.
    write(flow, Task::DeployMachineControllers)
        .after([sync_point(CLEANED_KUBERNETES_RESOURCES)])
        .skip_if(facts.workerless, WORKERLESS)
        .skip_if(!there.namespace_active, NAMESPACE_GONE)
        .skip_if(!there.shoot_cleanup, NOTHING_TO_CLEAN);
    write(flow, Task::DestroyWorkers)
        .after([Task::DeployMachineControllers])
        .skip_if(facts.workerless, WORKERLESS);
    wait(flow, Task::WaitWorkersDestroyed, CLOUD_TIMEOUT)
        .after([Task::DestroyWorkers])
        .skip_if(facts.workerless, WORKERLESS);
    write(flow, Task::DeleteMachineControllers)
        .after([Task::WaitWorkersDestroyed])
        .skip_if(facts.workerless, WORKERLESS);
    write(flow, Task::DeleteOsConfigs)
        .after([Task::WaitWorkersDestroyed])
        .skip_if(facts.workerless, WORKERLESS);
    wait(flow, Task::WaitOsConfigsDeleted, EXTENSION_TIMEOUT)
        .after([Task::DeleteOsConfigs])
        .skip_if(facts.workerless, WORKERLESS);
}

fn managed_resources_and_extensions(flow: &mut FlowBuilder<Task>, timeouts: &ExtensionTimeouts) {
    write(flow, Task::DeleteManagedResources).after([
        sync_point(CLEANED_KUBERNETES_RESOURCES),
        Task::WaitWorkersDestroyed.into(),
    ]);
    wait(flow, Task::WaitManagedResourcesDeleted, CLEAN_TIMEOUT).after([Task::DeleteManagedResources]);
    write(flow, Task::DeleteExtensionsBeforeApiServer).after([
        Task::CleanKubernetesResources,
        Task::WaitOsConfigsDeleted,
        Task::WaitManagedResourcesDeleted,
    ]);
    let timeout = timeouts.deleted_before_api_server;
    wait(flow, Task::WaitExtensionsBeforeApiServerDeleted, timeout).after([Task::DeleteExtensionsBeforeApiServer]);
    write(flow, Task::DeleteStaleExtensions).after([Task::CleanKubernetesResources, Task::WaitManagedResourcesDeleted]);
    wait(flow, Task::WaitStaleExtensionsDeleted, EXTENSION_TIMEOUT).after([Task::DeleteStaleExtensions]);
    flow.sync_point(
        CLEANED,
        [
            sync_point(CLEANED_KUBERNETES_RESOURCES),
            Task::DeleteOsConfigs.into(),
            Task::WaitWorkersDestroyed.into(),
            Task::WaitManagedResourcesDeleted.into(),
            Task::DestroyNetwork.into(),
            Task::WaitNetworkDestroyed.into(),
            Task::WaitExtensionsBeforeApiServerDeleted.into(),
            Task::WaitStaleExtensionsDeleted.into(),
        ],
    );
}

fn control_plane(flow: &mut FlowBuilder<Task>, facts: &ShootFacts) {
    write(flow, Task::DestroyControlPlane)
        .after([sync_point(CLEANED)])
        .skip_if(facts.workerless, WORKERLESS);
    wait(flow, Task::WaitControlPlaneDestroyed, EXTENSION_TIMEOUT)
        .after([Task::DestroyControlPlane])
        .skip_if(facts.workerless, WORKERLESS);
    wait(flow, Task::WaitShootManagedResourcesDeleted, CLEAN_TIMEOUT).after([Task::WaitControlPlaneDestroyed]);
    write(flow, Task::DeleteApiServer).after([
        sync_point(CLEANED),
        Task::WaitControlPlaneDestroyed.into(),
        Task::WaitShootManagedResourcesDeleted.into(),
    ]);
    wait(flow, Task::WaitApiServerDeleted, ROLLOUT_TIMEOUT).after([Task::DeleteApiServer]);
    write(flow, Task::DeleteExtensionsAfterApiServer).after([Task::WaitApiServerDeleted]);
    let timeout = facts.extension_timeouts.deleted_after_api_server;
    wait(flow, Task::WaitExtensionsAfterApiServerDeleted, timeout).after([Task::DeleteExtensionsAfterApiServer]);
    wait(flow, Task::WaitAllExtensionsDeleted, timeout).after([Task::WaitApiServerDeleted]);
    write(flow, Task::DestroyApiServerService).after([Task::WaitApiServerDeleted]);
    write(flow, Task::DestroyResourceManager).after([Task::WaitApiServerDeleted]);
    write(flow, Task::DestroyInfrastructure)
        .after([sync_point(CLEANED), Task::WaitControlPlaneDestroyed.into()])
        .skip_if(facts.workerless, WORKERLESS);
    wait(flow, Task::WaitInfrastructureDestroyed, CLOUD_TIMEOUT)
        .after([Task::DestroyInfrastructure])
        .skip_if(facts.workerless, WORKERLESS);
}

fn rest(flow: &mut FlowBuilder<Task>, there: &DeletionFacts) {
    wait(flow, Task::DestroyExternalDnsRecord, DNS_TIMEOUT)
        .after([sync_point(CLEANED), Task::WaitApiServerDeleted.into()])
        .skip_if(!there.namespace_active, NAMESPACE_GONE);
    flow.sync_point(
        CONTROL_PLANE_DOWN,
        [
            Task::WaitApiServerDeleted,
            Task::WaitControlPlaneDestroyed,
            Task::WaitExtensionsAfterApiServerDeleted,
            Task::WaitAllExtensionsDeleted,
            Task::DestroyExternalDnsRecord,
            Task::WaitInfrastructureDestroyed,
        ],
    );
    wait(flow, Task::DestroyInternalDnsRecord, DNS_TIMEOUT)
        .after([sync_point(CONTROL_PLANE_DOWN)])
        .skip_if(!there.namespace_active, NAMESPACE_GONE);
    write(flow, Task::DeleteReferencedResources).after([sync_point(CONTROL_PLANE_DOWN)]);
    write(flow, Task::DestroyEtcd).after([sync_point(CONTROL_PLANE_DOWN)]);
    wait(flow, Task::WaitEtcdDestroyed, ROLLOUT_TIMEOUT)
        .after([sync_point(CONTROL_PLANE_DOWN), Task::DestroyEtcd.into()]);
    write(flow, Task::DeleteNamespace).after([
        sync_point(CONTROL_PLANE_DOWN),
        Task::DestroyInternalDnsRecord.into(),
        Task::DeleteReferencedResources.into(),
        Task::WaitEtcdDestroyed.into(),
    ]);
    wait(flow, Task::WaitNamespaceDeleted, CLEAN_TIMEOUT).after([Task::DeleteNamespace]);
}
