//! The flow that makes a cluster run as specified. The order is that of gardener/gardener v1.150
//! `pkg/gardenlet/controller/shoot/shoot/flow_reconcile.go`; every `after` below is an edge there, unless it says so.

use std::time::Duration;

use base_flow::{Backoff, Flow, FlowBuilder, FlowError, group};

use crate::{ShootFacts, ShootTask as Task};

/// Writing objects: API servers answer within milliseconds, and what they refuse for a moment (a namespace not yet
/// visible, a conflict) passes within seconds. 30 s is upstream's default for such tasks.
pub(crate) const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// Waits between tries: the first short because most faults pass at once, none beyond upstream's 5 s.
pub(crate) const WRITE_BACKOFF: Backoff = Backoff {
    first: Duration::from_millis(200),
    max: Duration::from_secs(5),
};
/// Clouds need minutes for networks and machines (upstream: Infrastructure and Worker, 10 min).
pub(crate) const CLOUD_TIMEOUT: Duration = Duration::from_secs(600);
/// Extensions that only deploy something (upstream: ControlPlane, Network, OperatingSystemConfig, Extension, 3 min).
pub(crate) const EXTENSION_TIMEOUT: Duration = Duration::from_secs(180);
/// A record is written by one call to a DNS service (upstream: 2 min).
pub(crate) const DNS_TIMEOUT: Duration = Duration::from_secs(120);
/// Our own Deployments and StatefulSets in the seed, image pulls and volumes included (upstream: 5 min).
pub(crate) const ROLLOUT_TIMEOUT: Duration = Duration::from_secs(300);
/// First talk to a new API server (upstream: 2 min).
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(120);

pub(crate) const NAMESPACES: &str = "namespaces";
pub(crate) const CLOUD_PROVIDER_SECRET: &str = "cloud-provider-secret";
pub(crate) const SECRETS: &str = "secrets";
const INFRASTRUCTURE: &str = "infrastructure";
const ETCD: &str = "etcd";
const RESOURCE_MANAGER: &str = "resource-manager";
const CONTROL_PLANE: &str = "control-plane";
const SHOOT_NAMESPACES: &str = "shoot-namespaces";
const OS_CONFIG: &str = "os-config";
const SHOOT_SYSTEM: &str = "shoot-system";
const NETWORK: &str = "network-and-system-components";
const MACHINE_CONTROLLERS: &str = "machine-controllers";
const WORKER: &str = "worker";

pub(crate) fn flow(facts: &ShootFacts) -> Result<Flow<Task>, FlowError> {
    let mut flow = Flow::builder("Shoot cluster reconciliation");
    groups(&mut flow);
    foundation(&mut flow, facts);
    addresses(&mut flow, facts);
    etcd(&mut flow, facts);
    api_server(&mut flow, facts);
    control_plane(&mut flow, facts);
    nodes_setup(&mut flow, facts);
    workers(&mut flow, facts);
    flow.build()
}

fn groups(flow: &mut FlowBuilder<Task>) {
    flow.group(NAMESPACES);
    flow.group(CLOUD_PROVIDER_SECRET).after([group(NAMESPACES)]);
    flow.group(SECRETS).after([group(NAMESPACES)]);
    flow.group(INFRASTRUCTURE).after([
        group(SECRETS),
        group(CLOUD_PROVIDER_SECRET),
        Task::DeployReferencedResources.into(),
    ]);
    flow.group(ETCD).after([
        group(SECRETS),
        group(CLOUD_PROVIDER_SECRET),
        Task::WaitBackupEntry.into(),
    ]);
    flow.group(RESOURCE_MANAGER)
        .after([group(NAMESPACES), group(SECRETS), Task::WaitApiServer.into()]);
    flow.group(CONTROL_PLANE).after([
        group(SECRETS),
        group(CLOUD_PROVIDER_SECRET),
        group(RESOURCE_MANAGER),
        group(INFRASTRUCTURE),
        Task::DeployReferencedResources.into(),
    ]);
    flow.group(SHOOT_NAMESPACES).after([group(RESOURCE_MANAGER)]);
    flow.group(OS_CONFIG).after([
        group(SECRETS),
        group(CLOUD_PROVIDER_SECRET),
        group(RESOURCE_MANAGER),
        group(INFRASTRUCTURE),
        group(CONTROL_PLANE),
        Task::DeployReferencedResources.into(),
        Task::WaitExtensionsAfterApiServer.into(),
    ]);
    flow.group(SHOOT_SYSTEM).after([
        group(RESOURCE_MANAGER),
        group(OS_CONFIG),
        group(CONTROL_PLANE),
        Task::DeployReferencedResources.into(),
        Task::WaitExtensionsAfterApiServer.into(),
        Task::InitializeShootConnection.into(),
    ]);
    flow.group(NETWORK).after([
        group(INFRASTRUCTURE),
        group(RESOURCE_MANAGER),
        group(SHOOT_NAMESPACES),
        group(CONTROL_PLANE),
        Task::WaitExtensionsAfterApiServer.into(),
        Task::InitializeShootConnection.into(),
        Task::EnsureClusterIdentity.into(),
        Task::DeployScheduler.into(),
    ]);
    flow.group(MACHINE_CONTROLLERS).after([
        group(SECRETS),
        group(CLOUD_PROVIDER_SECRET),
        group(RESOURCE_MANAGER),
        group(INFRASTRUCTURE),
        group(OS_CONFIG),
        Task::InitializeShootConnection.into(),
    ]);
    flow.group(WORKER).after([
        group(SECRETS),
        group(CLOUD_PROVIDER_SECRET),
        group(RESOURCE_MANAGER),
        group(INFRASTRUCTURE),
        group(MACHINE_CONTROLLERS),
        group(SHOOT_SYSTEM),
        group(OS_CONFIG),
        Task::DeployNodeAgent.into(),
    ]);
}

fn foundation(flow: &mut FlowBuilder<Task>, facts: &ShootFacts) {
    write(flow, Task::DeployNamespace).in_group(NAMESPACES);
    write(flow, Task::EnsureClusterIdentity).after([group(NAMESPACES)]);
    write(flow, Task::DeployCloudProviderSecret)
        .in_group(CLOUD_PROVIDER_SECRET)
        .skip_if(facts.workerless, WORKERLESS)
        .skip_if(!facts.has_credentials, "no credentials");
    write(flow, Task::InitializeSecrets).in_group(SECRETS);
    write(flow, Task::DeployReferencedResources).after([group(NAMESPACES)]);
    write(flow, Task::DeployInfrastructure)
        .in_group(INFRASTRUCTURE)
        .skip_if(facts.workerless, WORKERLESS);
    wait(flow, Task::WaitInfrastructure, CLOUD_TIMEOUT)
        .in_group(INFRASTRUCTURE)
        .after([Task::DeployInfrastructure])
        .skip_if(facts.workerless, WORKERLESS);
}

fn addresses(flow: &mut FlowBuilder<Task>, facts: &ShootFacts) {
    write(flow, Task::DeployApiServerService)
        .after([group(NAMESPACES), group(SECRETS), Task::EnsureClusterIdentity.into()])
        .after_if(!facts.nodes_cidr_known, [group(INFRASTRUCTURE)]);
    wait(flow, Task::WaitApiServerService, ROLLOUT_TIMEOUT).after([Task::DeployApiServerService]);
    write(flow, Task::EnsureAdvertisedAddresses).after([group(SECRETS), Task::WaitApiServerService.into()]);
    wait(flow, Task::DeployInternalDnsRecord, DNS_TIMEOUT)
        .after([Task::DeployReferencedResources, Task::WaitApiServerService])
        .skip_if(!facts.has_internal_domain, "no internal domain");
    wait(flow, Task::DeployExternalDnsRecord, DNS_TIMEOUT)
        .after([Task::DeployReferencedResources, Task::WaitApiServerService])
        .skip_if(!facts.has_external_domain, "no external domain");
}

fn etcd(flow: &mut FlowBuilder<Task>, facts: &ShootFacts) {
    write(flow, Task::DeployBackupEntry)
        .after([group(NAMESPACES)])
        .skip_if(!facts.has_backup, NO_BACKUP);
    wait(flow, Task::WaitBackupEntry, CLOUD_TIMEOUT)
        .after([Task::DeployBackupEntry])
        .skip_if(!facts.has_backup, NO_BACKUP)
        .skip_if(facts.skip_readiness, SKIP_READINESS);
    write(flow, Task::DeployEtcd).in_group(ETCD);
    wait(flow, Task::WaitEtcd, ROLLOUT_TIMEOUT)
        .in_group(ETCD)
        .after([Task::DeployEtcd])
        .skip_if(facts.skip_readiness, SKIP_READINESS);
}

fn api_server(flow: &mut FlowBuilder<Task>, facts: &ShootFacts) {
    write(flow, Task::DeployExtensionsBeforeApiServer).after([
        group(SECRETS),
        group(CLOUD_PROVIDER_SECRET),
        group(INFRASTRUCTURE),
        Task::DeployReferencedResources.into(),
    ]);
    wait(
        flow,
        Task::WaitExtensionsBeforeApiServer,
        facts.extension_timeouts.before_api_server,
    )
    .after([Task::DeployExtensionsBeforeApiServer])
    .skip_if(facts.skip_readiness, SKIP_READINESS);
    write(flow, Task::DeployApiServer)
        .after([
            group(SECRETS),
            group(ETCD),
            Task::WaitApiServerService.into(),
            Task::WaitExtensionsBeforeApiServer.into(),
        ])
        .after_if(!facts.nodes_cidr_known, [group(INFRASTRUCTURE)]);
    wait(flow, Task::WaitApiServer, ROLLOUT_TIMEOUT)
        .after([Task::DeployApiServer])
        .skip_if(facts.skip_readiness, SKIP_READINESS);
    write(flow, Task::DeployResourceManager).in_group(RESOURCE_MANAGER);
    wait(flow, Task::WaitResourceManager, ROLLOUT_TIMEOUT)
        .in_group(RESOURCE_MANAGER)
        .after([Task::DeployResourceManager])
        .skip_if(facts.skip_readiness, SKIP_READINESS);
    connect(flow, Task::DeployShootAccess).after([group(SECRETS), group(RESOURCE_MANAGER)]);
    connect(flow, Task::InitializeShootConnection).after([Task::DeployInternalDnsRecord, Task::DeployShootAccess]);
}

fn control_plane(flow: &mut FlowBuilder<Task>, facts: &ShootFacts) {
    write(flow, Task::DeployControlPlane)
        .in_group(CONTROL_PLANE)
        .skip_if(facts.workerless, WORKERLESS);
    wait(flow, Task::WaitControlPlane, EXTENSION_TIMEOUT)
        .in_group(CONTROL_PLANE)
        .after([Task::DeployControlPlane])
        .skip_if(facts.workerless, WORKERLESS)
        .skip_if(facts.skip_readiness, SKIP_READINESS);
    write(flow, Task::DeployShootNamespaces).in_group(SHOOT_NAMESPACES);
    wait(flow, Task::WaitShootNamespaces, EXTENSION_TIMEOUT)
        .in_group(SHOOT_NAMESPACES)
        .after([Task::DeployShootNamespaces])
        .skip_if(facts.skip_readiness, SKIP_READINESS);
    write(flow, Task::DeployScheduler)
        .after([group(SECRETS), group(RESOURCE_MANAGER)])
        .skip_if(facts.workerless, WORKERLESS);
    write(flow, Task::DeployControllerManager).after([
        group(SECRETS),
        group(CLOUD_PROVIDER_SECRET),
        group(RESOURCE_MANAGER),
    ]);
    wait(flow, Task::WaitControllerManager, ROLLOUT_TIMEOUT).after([Task::DeployControllerManager]);
    write(flow, Task::DeployExtensionsAfterApiServer)
        .after([Task::DeployReferencedResources, Task::InitializeShootConnection]);
    wait(
        flow,
        Task::WaitExtensionsAfterApiServer,
        facts.extension_timeouts.after_api_server,
    )
    .after([Task::DeployExtensionsAfterApiServer])
    .skip_if(facts.skip_readiness, SKIP_READINESS);
}

fn nodes_setup(flow: &mut FlowBuilder<Task>, facts: &ShootFacts) {
    write(flow, Task::DeployOsConfigs)
        .in_group(OS_CONFIG)
        .skip_if(facts.workerless, WORKERLESS);
    wait(flow, Task::WaitOsConfigs, EXTENSION_TIMEOUT)
        .in_group(OS_CONFIG)
        .after([Task::DeployOsConfigs])
        .skip_if(facts.workerless, WORKERLESS);
    write(flow, Task::DeleteStaleOsConfigs)
        .in_group(OS_CONFIG)
        .after([Task::DeployOsConfigs])
        .skip_if(facts.workerless, WORKERLESS);
    wait(flow, Task::WaitStaleOsConfigs, EXTENSION_TIMEOUT)
        .in_group(OS_CONFIG)
        .after([Task::DeleteStaleOsConfigs])
        .skip_if(facts.workerless, WORKERLESS)
        .skip_if(facts.skip_readiness, SKIP_READINESS);
    write(flow, Task::DeployShootSystem).in_group(SHOOT_SYSTEM);
    // Not upstream's task, which has the nodes of a Shoot to wait for in most cases: the rights of the Shoot's user are
    // among these resources, and a Shoot without workers is up before they are applied. Nothing waits for it.
    wait(flow, Task::WaitShootSystem, EXTENSION_TIMEOUT)
        .after([Task::DeployShootSystem])
        .skip_if(facts.skip_readiness, SKIP_READINESS);
    write(flow, Task::DeployShootClusterIdentity).after([
        group(RESOURCE_MANAGER),
        group(OS_CONFIG),
        Task::EnsureClusterIdentity.into(),
    ]);
    write(flow, Task::DeployNetwork)
        .in_group(NETWORK)
        .skip_if(facts.workerless, WORKERLESS);
    wait(flow, Task::WaitNetwork, EXTENSION_TIMEOUT)
        .in_group(NETWORK)
        .after([Task::DeployNetwork])
        .skip_if(facts.workerless, WORKERLESS)
        .skip_if(facts.skip_readiness, SKIP_READINESS);
    write(flow, Task::DeployNodeAgent)
        .after([
            group(RESOURCE_MANAGER),
            group(OS_CONFIG),
            Task::EnsureClusterIdentity.into(),
        ])
        .skip_if(facts.workerless, WORKERLESS);
}

fn workers(flow: &mut FlowBuilder<Task>, facts: &ShootFacts) {
    write(flow, Task::DeployMachineControllers)
        .in_group(MACHINE_CONTROLLERS)
        .skip_if(facts.workerless, WORKERLESS);
    write(flow, Task::ConfigureWorkers)
        .in_group(WORKER)
        .skip_if(facts.workerless, WORKERLESS);
    wait(flow, Task::WaitMachineDeployments, CLOUD_TIMEOUT)
        .in_group(WORKER)
        .after([Task::ConfigureWorkers])
        .skip_if(facts.workerless, WORKERLESS);
    write(flow, Task::DeployExtensionsAfterWorkers)
        .in_group(WORKER)
        .after([Task::WaitMachineDeployments])
        .skip_if(facts.workerless, WORKERLESS);
    wait(
        flow,
        Task::WaitExtensionsAfterWorkers,
        facts.extension_timeouts.after_workers,
    )
    .in_group(WORKER)
    .after([Task::DeployExtensionsAfterWorkers])
    .skip_if(facts.workerless, WORKERLESS)
    .skip_if(facts.skip_readiness, SKIP_READINESS);
    // Not upstream's edge: without kube-controller-manager no node's certificate is signed, and to wait for nodes would
    // end in a second error that hides the first.
    wait(flow, Task::WaitWorkers, CLOUD_TIMEOUT)
        .in_group(WORKER)
        .after([Task::WaitMachineDeployments, Task::WaitControllerManager])
        .skip_if(facts.workerless, WORKERLESS)
        .skip_if(facts.skip_readiness, SKIP_READINESS);
    write(flow, Task::DeleteStaleExtensions).after([Task::InitializeShootConnection]);
    wait(flow, Task::WaitStaleExtensions, EXTENSION_TIMEOUT)
        .after([Task::DeleteStaleExtensions])
        .skip_if(facts.skip_readiness, SKIP_READINESS);
}

pub(crate) const WORKERLESS: &str = "workerless";
const NO_BACKUP: &str = "the seed has no backup";
const SKIP_READINESS: &str = "readiness is not waited for";

/// A task that writes objects: tried again within [`WRITE_TIMEOUT`].
pub(crate) fn write(flow: &mut FlowBuilder<Task>, task: Task) -> base_flow::StepBuilder<'_, Task> {
    flow.task(task).timeout(WRITE_TIMEOUT).retry(WRITE_BACKOFF)
}

/// A task that talks to a shoot's API server, which may have come up this moment.
pub(crate) fn connect(flow: &mut FlowBuilder<Task>, task: Task) -> base_flow::StepBuilder<'_, Task> {
    flow.task(task).timeout(CONNECT_TIMEOUT).retry(WRITE_BACKOFF)
}

/// A task that watches until something holds; it says itself what it waited for when the time is up. A call that fails
/// meanwhile, as it can at any moment, is no reason to begin the whole flow anew.
pub(crate) fn wait(flow: &mut FlowBuilder<Task>, task: Task, timeout: Duration) -> base_flow::StepBuilder<'_, Task> {
    flow.task(task).timeout(timeout).retry(WRITE_BACKOFF).waits()
}
