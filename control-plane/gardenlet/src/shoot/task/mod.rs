//! Every step of a shoot's flow, in files by area. Each is idempotent: it may be repeated after any crash, and does nothing
//! where everything is as it should be. What a step reads and leaves goes through [`execute`]: the functions here take
//! values and return values.

mod api_server;
mod backup;
mod cleanup;
mod component;
mod container_runtime;
mod control_plane;
mod dns;
mod extensions;
mod hibernate;
mod infrastructure;
mod namespace;
mod network;
pub(crate) mod os_config;
pub(crate) mod secrets;
mod several;
mod shoot_access;
pub(crate) mod shoot_system;
mod single;
mod vpn;
mod worker;

use api_extensions::{ControlPlane, Infrastructure, Network, Worker};
use api_meta::Fault;
use base_flow_run::TaskContext;
use components_hosted::ComponentId;
use control_plane_shoot_flow::{Kind, Managed, Point, ShootTask, Single, Step, Verb, Way};
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::time::Instant;

use container_runtime::Which;
pub(crate) use control_plane_readiness::{deployment_not_rolled_out, set_not_rolled_out};
pub(crate) use infrastructure::is_requested;

use super::given::Given;
use super::managed;
use super::operation::Operation;
use crate::outcome::all;

/// Does one try of one task.
pub(crate) fn execute<'a>(
    operation: &'a Operation,
    task: ShootTask,
    context: TaskContext,
) -> BoxFuture<'a, Result<(), Fault>> {
    let (given, until) = (operation.slots.of(task), context.deadline);
    match task.step {
        Step::Single(single) => execute_single(operation, given, single, until),
        Step::Kind(kind, verb) => execute_kind(operation, given, (task.way, kind, verb), until),
        Step::Component(id, verb) => execute_component(operation, given, (id, verb), until).boxed(),
        Step::Extensions(point, verb) => execute_extensions(operation, given, (point, verb), until).boxed(),
        Step::Managed(managed, verb) => execute_managed(operation, given, (managed, verb), until).boxed(),
    }
}

type Tried<'a> = BoxFuture<'a, Result<(), Fault>>;

fn execute_single<'a>(op: &'a Operation, given: Given<'a>, single: Single, until: Option<Instant>) -> Tried<'a> {
    match single {
        Single::DeployNamespace => namespace::deploy(op).boxed(),
        Single::EnsureClusterIdentity => namespace::ensure_cluster_identity(op).boxed(),
        Single::DeployCloudProviderSecret => namespace::deploy_cloud_provider_secret(op).boxed(),
        Single::InitializeSecrets => async move { given.give_secrets(secrets::initialize(op).await?) }.boxed(),
        Single::DeployReferencedResources => namespace::deploy_referenced_resources(op).boxed(),
        Single::DeployApiServerService => api_server::deploy_service(op).boxed(),
        Single::WaitApiServerService => api_server::wait_service(op, until).boxed(),
        Single::EnsureAdvertisedAddresses => api_server::ensure_advertised_addresses(op).boxed(),
        Single::DeployBackupEntry => backup::deploy_entry(op).boxed(),
        Single::WaitBackupEntry => backup::wait_entry(op, until).boxed(),
        Single::DeployShootAccess => async move { shoot_access::deploy(op, &given.secrets()?).await }.boxed(),
        Single::InitializeShootConnection => {
            async move { given.give_connection(shoot_access::connect(op, &given.secrets()?).await?) }.boxed()
        }
        Single::DeleteStaleOsConfigs => async move { os_config::delete_stale(op, &given.pool_keys()?).await }.boxed(),
        Single::WaitStaleOsConfigs => {
            async move { os_config::wait_stale(op, &given.pool_keys()?, until).await }.boxed()
        }
        Single::WaitMachineDeployments => {
            async move { worker::wait_machine_deployments(op, &given.requests(Kind::Worker)?, until).await }.boxed()
        }
        Single::DeleteStaleExtensions => extensions::delete_stale(op).boxed(),
        Single::WaitStaleExtensions => extensions::wait_stale(op, until).boxed(),
        Single::DeleteStaleContainerRuntimes => container_runtime::delete(op, Which::Stale).boxed(),
        Single::WaitStaleContainerRuntimes => container_runtime::wait_gone(op, Which::Stale, until).boxed(),
        Single::RestartControlPlanePods => hibernate::restart_pods(op).boxed(),
        Single::ScaleDownMachineControllers => {
            component::scale_to_zero(op, ComponentId::MachineControllerManager, until).boxed()
        }
        Single::HibernateControlPlane => {
            async move { hibernate::control_plane(op, given.connection_if_any()?.as_ref(), until).await }.boxed()
        }
        Single::CleanWebhooks => async move { cleanup::webhooks(op, &given.connection()?, until).await }.boxed(),
        Single::CleanExtendedApis => {
            async move { cleanup::extended_apis(op, &given.connection()?, until).await }.boxed()
        }
        Single::CleanKubernetesResources => {
            async move { cleanup::kubernetes_resources(op, &given.connection()?, until).await }.boxed()
        }
        Single::DeleteManagedResources => managed::delete_own(op).boxed(),
        Single::WaitManagedResourcesDeleted => managed::wait_gone(op, true, until).boxed(),
        Single::WaitShootManagedResourcesDeleted => managed::wait_gone(op, false, until).boxed(),
        Single::WaitAllExtensionsDeleted => extensions::wait_all_deleted(op, until).boxed(),
        Single::DestroyApiServerService => api_server::destroy_service(op).boxed(),
        Single::DeleteReferencedResources => namespace::delete_referenced_resources(op).boxed(),
        Single::DeleteNamespace => namespace::delete(op).boxed(),
        Single::WaitNamespaceDeleted => namespace::wait_deleted(op, until).boxed(),
    }
}

fn execute_kind<'a>(
    op: &'a Operation,
    given: Given<'a>,
    (way, kind, verb): (Way, Kind, Verb),
    until: Option<Instant>,
) -> Tried<'a> {
    match verb {
        Verb::Deploy => deploy_kind(op, given, (way, kind), until).boxed(),
        Verb::Wait => wait_kind(op, given, kind, until).boxed(),
        Verb::Destroy => match kind {
            Kind::Infrastructure => single::destroy::<Infrastructure>(op).boxed(),
            Kind::InternalDnsRecord => dns::destroy(op, dns::INTERNAL, until).boxed(),
            Kind::ExternalDnsRecord => dns::destroy(op, dns::EXTERNAL, until).boxed(),
            Kind::ControlPlane => single::destroy::<ControlPlane>(op).boxed(),
            Kind::OperatingSystemConfig => os_config::delete_all(op).boxed(),
            Kind::Network => single::destroy::<Network>(op).boxed(),
            Kind::ContainerRuntime => container_runtime::delete(op, Which::All).boxed(),
            Kind::Worker => single::destroy::<Worker>(op).boxed(),
        },
        Verb::WaitDestroyed => match kind {
            Kind::Infrastructure => single::wait_destroyed::<Infrastructure>(op, until).boxed(),
            // Requested and waited for in one task.
            Kind::InternalDnsRecord => dns::destroy(op, dns::INTERNAL, until).boxed(),
            Kind::ExternalDnsRecord => dns::destroy(op, dns::EXTERNAL, until).boxed(),
            Kind::ControlPlane => single::wait_destroyed::<ControlPlane>(op, until).boxed(),
            Kind::OperatingSystemConfig => os_config::wait_all_deleted(op, until).boxed(),
            Kind::Network => single::wait_destroyed::<Network>(op, until).boxed(),
            Kind::ContainerRuntime => container_runtime::wait_gone(op, Which::All, until).boxed(),
            Kind::Worker => single::wait_destroyed::<Worker>(op, until).boxed(),
        },
    }
}

async fn deploy_kind(
    op: &Operation,
    given: Given<'_>,
    (way, kind): (Way, Kind),
    until: Option<Instant>,
) -> Result<(), Fault> {
    let requests = match kind {
        Kind::Infrastructure => infrastructure::deploy(op, &given.secrets()?).await?,
        Kind::InternalDnsRecord => return dns::deploy_internal(op, until).await,
        Kind::ExternalDnsRecord => return dns::deploy_external(op, until).await,
        // A deletion has not waited for the infrastructure.
        Kind::ControlPlane if way == Way::Delete => {
            control_plane::deploy(op, infrastructure::reported(op).await?).await?
        }
        Kind::ControlPlane => control_plane::deploy(op, given.infrastructure()?).await?,
        Kind::OperatingSystemConfig => {
            let (keys, requests) = os_config::deploy(op, &given.secrets()?, &given.connection()?).await?;
            given.give_pool_keys(keys)?;
            requests
        }
        Kind::Network => network::deploy(op).await?,
        Kind::ContainerRuntime => container_runtime::deploy(op).await?,
        Kind::Worker => worker::deploy(op, &given.secrets()?, given.infrastructure()?, &given.pools()?).await?,
    };
    given.give_requests(kind, requests)
}

async fn wait_kind(op: &Operation, given: Given<'_>, kind: Kind, until: Option<Instant>) -> Result<(), Fault> {
    match kind {
        Kind::Infrastructure => {
            let answer = infrastructure::wait(op, &given.requests(kind)?, until).await?;
            given.give_infrastructure(answer.provider_status.clone())?;
            let nodes = given.give_nodes(&answer.nodes)?;
            Box::pin(infrastructure::record_networks(op, answer, nodes)).await
        }
        // Written and waited for in one task.
        Kind::InternalDnsRecord => dns::deploy_internal(op, until).await,
        Kind::ExternalDnsRecord => dns::deploy_external(op, until).await,
        Kind::ControlPlane => single::wait::<ControlPlane>(op, &given.requests(kind)?, until)
            .await
            .map(drop),
        Kind::OperatingSystemConfig => {
            let pools = os_config::wait(op, given.pool_keys()?, &given.requests(kind)?, until).await?;
            given.give_pools(pools)
        }
        Kind::Network => single::wait::<Network>(op, &given.requests(kind)?, until)
            .await
            .map(drop),
        Kind::ContainerRuntime => container_runtime::wait(op, &given.requests(kind)?, until).await,
        Kind::Worker => single::wait::<Worker>(op, &given.requests(kind)?, until)
            .await
            .map(drop),
    }
}

async fn execute_component(
    op: &Operation,
    given: Given<'_>,
    (id, verb): (ComponentId, Verb),
    until: Option<Instant>,
) -> Result<(), Fault> {
    match verb {
        Verb::Deploy => {
            let secrets = given.secrets()?;
            let deploy = async |one| given.give_written(one, component::deploy(op, &secrets, one).await?);
            of_members(id, deploy).await
        }
        Verb::Wait => {
            of_members(id, async |one| {
                component::wait(op, one, given.written(one)?, until).await
            })
            .await?;
            match id {
                ComponentId::ApiServer => api_server::wait_ready(op, &given.secrets()?, until).await,
                _ => Ok(()),
            }
        }
        Verb::Destroy => of_members(id, async |one| component::destroy(op, one).await).await,
        Verb::WaitDestroyed => of_members(id, async |one| component::wait_destroyed(op, one, until).await).await,
    }
}

/// Works on all components that a step handles, at the same time: none is held back by another that fails.
async fn of_members<F>(id: ComponentId, work: impl Fn(ComponentId) -> F) -> Result<(), Fault>
where
    F: Future<Output = Result<(), Fault>>,
{
    all(id.members().map(work)).await.map(drop)
}

async fn execute_extensions(
    op: &Operation,
    given: Given<'_>,
    (point, verb): (Point, Verb),
    until: Option<Instant>,
) -> Result<(), Fault> {
    match verb {
        Verb::Deploy => given.give_requests_at(point, extensions::deploy(op, point).await?),
        Verb::Wait => extensions::wait(op, point, &given.requests_at(point)?, until).await,
        Verb::Destroy => extensions::destroy(op, point).await,
        Verb::WaitDestroyed => extensions::wait_destroyed(op, point, until).await,
    }
}

async fn execute_managed(
    op: &Operation,
    given: Given<'_>,
    (managed, verb): (Managed, Verb),
    until: Option<Instant>,
) -> Result<(), Fault> {
    let name = shoot_system::name(managed);
    match verb {
        Verb::Deploy => {
            let objects = shoot_system::objects(op, &given, managed).await?;
            given.give_applied(managed, managed::deploy(op, name, &objects).await?)
        }
        Verb::Wait => {
            let written = given.applied(managed)?;
            match managed {
                Managed::VpnShoot => vpn::wait(op, name, written, until).await,
                _ => managed::wait_applied(op, name, written, until).await,
            }
        }
        Verb::Destroy => managed::destroy(op, name).await,
        Verb::WaitDestroyed => managed::wait_destroyed(op, name, until).await,
    }
}
