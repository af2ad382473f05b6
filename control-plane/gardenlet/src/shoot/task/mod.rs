//! Every task of a shoot's flow: one function each, in files by area. Each is idempotent: it may be repeated after any
//! crash, and does nothing where everything is as it should be.

mod api_server;
mod backup;
mod cleanup;
mod control_plane;
mod dns;
mod etcd;
mod extensions;
mod infrastructure;
mod machines;
mod namespace;
mod network;
pub(crate) mod os_config;
pub(crate) mod secrets;
mod shoot_access;
mod shoot_system;
mod single;
mod worker;

use api_extensions::{ControlPlane, Infrastructure, Network, Worker};
use api_meta::Fault;
use base_flow_run::TaskContext;
use control_plane_shoot_flow::ShootTask as Task;
use futures::future::BoxFuture;
use futures::{FutureExt, TryFutureExt};

pub use api_server::not_rolled_out;

use super::managed;
use super::operation::Operation;

/// Why etcd does not run in its present form.
#[must_use]
pub fn etcd_not_rolled_out(set: &k8s_openapi::api::apps::v1::StatefulSet) -> Option<String> {
    etcd::not_rolled_out(set, 0)
}

/// Does one try of one task.
pub(crate) fn execute<'a>(
    operation: &'a Operation,
    task: Task,
    context: TaskContext,
) -> BoxFuture<'a, Result<(), Fault>> {
    match is_deletion(task) {
        false => reconcile(operation, task, context),
        true => delete(operation, task, context),
    }
}

/// The tasks that only deletions have stand behind this one in the enum.
fn is_deletion(task: Task) -> bool {
    task >= Task::RedeployControlPlane
}

fn reconcile<'a>(op: &'a Operation, task: Task, context: TaskContext) -> BoxFuture<'a, Result<(), Fault>> {
    let until = context.deadline;
    match task {
        Task::DeployNamespace | Task::DeployNamespaceForDeletion => namespace::deploy(op).boxed(),
        Task::EnsureClusterIdentity => namespace::ensure_cluster_identity(op).boxed(),
        Task::DeployCloudProviderSecret => namespace::deploy_cloud_provider_secret(op).boxed(),
        Task::DeployReferencedResources => namespace::deploy_referenced_resources(op).boxed(),
        Task::InitializeSecrets => secrets::initialize(op).boxed(),
        Task::DeployInfrastructure => infrastructure::deploy(op).boxed(),
        Task::WaitInfrastructure => infrastructure::wait(op, until).boxed(),
        Task::DeployApiServerService => api_server::deploy_service(op).boxed(),
        Task::WaitApiServerService | Task::WaitApiServerServiceForDeletion => {
            api_server::wait_service(op, until).boxed()
        }
        Task::EnsureAdvertisedAddresses => api_server::ensure_advertised_addresses(op).boxed(),
        Task::DeployInternalDnsRecord => dns::deploy_internal(op, until).boxed(),
        Task::DeployExternalDnsRecord => dns::deploy_external(op, until).boxed(),
        Task::DeployBackupEntry => backup::deploy_entry(op).boxed(),
        Task::WaitBackupEntry => backup::wait_entry(op, until).boxed(),
        Task::DeployEtcd | Task::DeployEtcdForDeletion => etcd::deploy(op).boxed(),
        Task::WaitEtcd | Task::WaitEtcdForDeletion => etcd::wait(op, until).boxed(),
        Task::DeployExtensionsBeforeApiServer => extensions::deploy_before_api_server(op).boxed(),
        Task::WaitExtensionsBeforeApiServer => extensions::wait_before_api_server(op, until).boxed(),
        Task::DeployApiServer => api_server::deploy(op).boxed(),
        Task::WaitApiServer | Task::WaitApiServerForDeletion => api_server::wait(op, until).boxed(),
        Task::DeployResourceManager => control_plane::deploy_resource_manager(op).boxed(),
        Task::WaitResourceManager => control_plane::wait_resource_manager(op, until).boxed(),
        Task::DeployShootAccess => shoot_access::deploy(op).boxed(),
        Task::InitializeShootConnection => shoot_access::connect(op).boxed(),
        Task::DeployControlPlane => control_plane::deploy(op).boxed(),
        Task::WaitControlPlane => single::wait::<ControlPlane>(op, until).map_ok(drop).boxed(),
        Task::DeployShootNamespaces => shoot_system::deploy_namespaces(op).boxed(),
        Task::WaitShootNamespaces => shoot_system::wait_namespaces(op, until).boxed(),
        Task::DeployScheduler => control_plane::deploy_scheduler(op).boxed(),
        Task::DeployControllerManager => control_plane::deploy_controller_manager(op).boxed(),
        Task::WaitControllerManager => control_plane::wait_controller_manager(op, until).boxed(),
        Task::DeployExtensionsAfterApiServer => extensions::deploy_after_api_server(op).boxed(),
        Task::WaitExtensionsAfterApiServer => extensions::wait_after_api_server(op, until).boxed(),
        Task::DeployOsConfigs => os_config::deploy(op).boxed(),
        Task::WaitOsConfigs => os_config::wait(op, until).boxed(),
        Task::DeleteStaleOsConfigs => os_config::delete_stale(op).boxed(),
        Task::WaitStaleOsConfigs => os_config::wait_stale(op, until).boxed(),
        Task::DeployShootSystem => shoot_system::deploy(op).boxed(),
        Task::WaitShootSystem => shoot_system::wait(op, until).boxed(),
        Task::DeployShootClusterIdentity => shoot_system::deploy_cluster_identity(op).boxed(),
        Task::DeployNetwork => network::deploy(op).boxed(),
        Task::WaitNetwork => single::wait::<Network>(op, until).map_ok(drop).boxed(),
        Task::DeployNodeAgent => shoot_system::deploy_node_agent(op).boxed(),
        Task::DeployMachineControllers => machines::deploy(op).boxed(),
        Task::ConfigureWorkers => worker::deploy(op).boxed(),
        Task::WaitMachineDeployments => worker::wait_machine_deployments(op, until).boxed(),
        Task::DeployExtensionsAfterWorkers => extensions::deploy_after_workers(op).boxed(),
        Task::WaitExtensionsAfterWorkers => extensions::wait_after_workers(op, until).boxed(),
        Task::WaitWorkers => single::wait::<Worker>(op, until).map_ok(drop).boxed(),
        Task::DeleteStaleExtensions => extensions::delete_stale(op).boxed(),
        Task::WaitStaleExtensions => extensions::wait_stale(op, until).boxed(),
        other => unknown(other).boxed(),
    }
}

fn delete<'a>(op: &'a Operation, task: Task, context: TaskContext) -> BoxFuture<'a, Result<(), Fault>> {
    let until = context.deadline;
    match task {
        Task::RedeployControlPlane => control_plane::redeploy(op).boxed(),
        Task::WaitRedeployedControlPlane => single::wait::<ControlPlane>(op, until).map_ok(drop).boxed(),
        Task::CleanWebhooks => cleanup::webhooks(op, until).boxed(),
        Task::WaitControllerManagerActive => control_plane::wait_controller_manager(op, until).boxed(),
        Task::CleanExtendedApis => cleanup::extended_apis(op, until).boxed(),
        Task::CleanKubernetesResources => cleanup::kubernetes_resources(op, until).boxed(),
        Task::DestroyNetwork => single::destroy::<Network>(op).boxed(),
        Task::WaitNetworkDestroyed => single::wait_destroyed::<Network>(op, until).boxed(),
        Task::DestroyWorkers => single::destroy::<Worker>(op).boxed(),
        Task::WaitWorkersDestroyed => single::wait_destroyed::<Worker>(op, until).boxed(),
        Task::DeleteMachineControllers => machines::delete(op).boxed(),
        Task::DeleteOsConfigs => os_config::delete_all(op).boxed(),
        Task::WaitOsConfigsDeleted => os_config::wait_all_deleted(op, until).boxed(),
        Task::DeleteManagedResources => managed::delete_own(op).boxed(),
        Task::WaitManagedResourcesDeleted => managed::wait_gone(op, true, until).boxed(),
        Task::DeleteExtensionsBeforeApiServer => extensions::delete_before_api_server(op).boxed(),
        Task::WaitExtensionsBeforeApiServerDeleted => extensions::wait_before_api_server_deleted(op, until).boxed(),
        Task::WaitStaleExtensionsDeleted => extensions::wait_stale(op, until).boxed(),
        Task::DestroyControlPlane => single::destroy::<ControlPlane>(op).boxed(),
        Task::WaitControlPlaneDestroyed => single::wait_destroyed::<ControlPlane>(op, until).boxed(),
        Task::WaitShootManagedResourcesDeleted => managed::wait_gone(op, false, until).boxed(),
        Task::DeleteApiServer => api_server::delete_deployment(op).boxed(),
        Task::WaitApiServerDeleted => api_server::wait_deleted(op, until).boxed(),
        Task::DeleteExtensionsAfterApiServer => extensions::delete_after_api_server(op).boxed(),
        Task::WaitExtensionsAfterApiServerDeleted => extensions::wait_after_api_server_deleted(op, until).boxed(),
        Task::WaitAllExtensionsDeleted => extensions::wait_all_deleted(op, until).boxed(),
        Task::DestroyApiServerService => api_server::destroy_service(op).boxed(),
        Task::DestroyResourceManager => control_plane::destroy_resource_manager(op).boxed(),
        Task::DestroyInfrastructure => single::destroy::<Infrastructure>(op).boxed(),
        Task::WaitInfrastructureDestroyed => single::wait_destroyed::<Infrastructure>(op, until).boxed(),
        Task::DestroyExternalDnsRecord => dns::destroy_external(op, until).boxed(),
        Task::DestroyInternalDnsRecord => dns::destroy_internal(op, until).boxed(),
        Task::DeleteReferencedResources => namespace::delete_referenced_resources(op).boxed(),
        Task::DestroyEtcd => etcd::destroy(op).boxed(),
        Task::WaitEtcdDestroyed => etcd::wait_destroyed(op, until).boxed(),
        Task::DeleteNamespace => namespace::delete(op).boxed(),
        Task::WaitNamespaceDeleted => namespace::wait_deleted(op, until).boxed(),
        other => unknown(other).boxed(),
    }
}

async fn unknown(task: Task) -> Result<(), Fault> {
    Err(Fault::bug(format!("no function does the task {task:?}")))
}
