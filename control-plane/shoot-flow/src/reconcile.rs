//! The flow that reconciles a cluster, hibernates it or wakes it up. The order is that of gardener/gardener
//! v1.150 `pkg/gardenlet/controller/shoot/shoot/flow_reconcile.go`; every `after` below is an edge there, unless a
//! comment says otherwise.

use base_flow::Flow;
use components_hosted::{ComponentId, Place, component};

use crate::draft::{Before, Draft, group};
use crate::facts::{Goal, ShootFacts, Tunnel};
use crate::single::Single;
use crate::slots::ShootFlowError;
use crate::step::{Kind, Managed, Point, ShootTask, deployed, destroyed, ready};
use crate::times::{CLOUD_TIMEOUT, DNS_TIMEOUT, EXTENSION_TIMEOUT, HIBERNATE_TIMEOUT, ROLLOUT_TIMEOUT};

const NAMESPACES: &str = "namespaces";
const CLOUD_PROVIDER_SECRET: &str = "cloud-provider-secret";
const SECRETS: &str = "secrets";
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

pub(crate) fn flow(facts: &ShootFacts, goal: &Goal) -> Result<Flow<ShootTask>, ShootFlowError> {
    let mut flow = Draft::new("Shoot cluster reconciliation", facts, goal);
    groups_of_the_seed(&mut flow);
    groups_of_the_shoot(&mut flow);
    foundation(&mut flow);
    addresses(&mut flow);
    etcd(&mut flow);
    api_server(&mut flow);
    control_plane(&mut flow);
    tunnel(&mut flow);
    nodes_setup(&mut flow);
    workers(&mut flow);
    hibernation(&mut flow);
    leftovers(&mut flow);
    flow.build()
}

fn groups_of_the_seed(flow: &mut Draft<'_>) {
    flow.group(NAMESPACES);
    flow.group(CLOUD_PROVIDER_SECRET).after([group(NAMESPACES)]);
    flow.group(SECRETS).after([group(NAMESPACES)]);
    flow.group(INFRASTRUCTURE).after([
        group(SECRETS),
        group(CLOUD_PROVIDER_SECRET),
        Single::DeployReferencedResources.into(),
    ]);
    flow.group(ETCD).after([
        group(SECRETS),
        group(CLOUD_PROVIDER_SECRET),
        Single::WaitBackupEntry.into(),
    ]);
    flow.group(RESOURCE_MANAGER)
        .after([group(NAMESPACES), group(SECRETS), ready(ComponentId::ApiServer).into()]);
    flow.group(CONTROL_PLANE).after([
        group(SECRETS),
        group(CLOUD_PROVIDER_SECRET),
        group(RESOURCE_MANAGER),
        group(INFRASTRUCTURE),
        Single::DeployReferencedResources.into(),
    ]);
}

fn groups_of_the_shoot(flow: &mut Draft<'_>) {
    flow.group(SHOOT_NAMESPACES).after([group(RESOURCE_MANAGER)]);
    flow.group(OS_CONFIG).after([
        group(SECRETS),
        group(CLOUD_PROVIDER_SECRET),
        group(RESOURCE_MANAGER),
        group(INFRASTRUCTURE),
        group(CONTROL_PLANE),
        Single::DeployReferencedResources.into(),
        ready(Point::AfterApiServer).into(),
    ]);
    flow.group(SHOOT_SYSTEM).after([
        group(RESOURCE_MANAGER),
        group(OS_CONFIG),
        group(CONTROL_PLANE),
        Single::DeployReferencedResources.into(),
        ready(Point::AfterApiServer).into(),
        Single::InitializeShootConnection.into(),
    ]);
    flow.group(NETWORK).after([
        group(INFRASTRUCTURE),
        group(RESOURCE_MANAGER),
        group(SHOOT_NAMESPACES),
        group(CONTROL_PLANE),
        ready(Point::AfterApiServer).into(),
        Single::InitializeShootConnection.into(),
        Single::EnsureClusterIdentity.into(),
        deployed(ComponentId::Scheduler).into(),
    ]);
    flow.group(MACHINE_CONTROLLERS).after([
        group(SECRETS),
        group(CLOUD_PROVIDER_SECRET),
        group(RESOURCE_MANAGER),
        group(INFRASTRUCTURE),
        group(OS_CONFIG),
        Single::InitializeShootConnection.into(),
    ]);
    flow.group(WORKER).after([
        group(SECRETS),
        group(CLOUD_PROVIDER_SECRET),
        group(RESOURCE_MANAGER),
        group(INFRASTRUCTURE),
        group(MACHINE_CONTROLLERS),
        group(SHOOT_SYSTEM),
        group(OS_CONFIG),
        deployed(Managed::NodeAgent).into(),
    ]);
}

fn foundation(flow: &mut Draft<'_>) {
    flow.write(Single::DeployNamespace).in_group(NAMESPACES);
    flow.write(Single::EnsureClusterIdentity).after([group(NAMESPACES)]);
    flow.write(Single::DeployCloudProviderSecret)
        .in_group(CLOUD_PROVIDER_SECRET);
    flow.write(Single::InitializeSecrets).in_group(SECRETS);
    flow.write(Single::DeployReferencedResources).after([group(NAMESPACES)]);
    flow.deploy(Kind::Infrastructure).in_group(INFRASTRUCTURE);
    flow.ready(Kind::Infrastructure, CLOUD_TIMEOUT)
        .in_group(INFRASTRUCTURE)
        .after([deployed(Kind::Infrastructure)]);
}

fn addresses(flow: &mut Draft<'_>) {
    let nodes_unknown = !flow.facts().nodes_cidr_known;
    flow.write(Single::DeployApiServerService)
        .after([group(NAMESPACES), group(SECRETS), Single::EnsureClusterIdentity.into()])
        .after_if(nodes_unknown, [group(INFRASTRUCTURE)]);
    flow.wait(Single::WaitApiServerService, ROLLOUT_TIMEOUT)
        .after([Single::DeployApiServerService]);
    flow.write(Single::EnsureAdvertisedAddresses)
        .after([group(SECRETS), Single::WaitApiServerService.into()]);
    for record in [Kind::InternalDnsRecord, Kind::ExternalDnsRecord] {
        flow.wait(deployed(record), DNS_TIMEOUT)
            .after([Single::DeployReferencedResources, Single::WaitApiServerService]);
    }
}

fn etcd(flow: &mut Draft<'_>) {
    flow.write(Single::DeployBackupEntry).after([group(NAMESPACES)]);
    flow.wait(Single::WaitBackupEntry, CLOUD_TIMEOUT)
        .after([Single::DeployBackupEntry]);
    flow.deploy(ComponentId::EtcdMain).in_group(ETCD);
    flow.ready(ComponentId::EtcdMain, ROLLOUT_TIMEOUT)
        .in_group(ETCD)
        .after([deployed(ComponentId::EtcdMain)]);
}

/// The extensions that an API server finds when it comes up. A hibernating cluster has them handled once it is gone.
fn extensions_before_api_server(flow: &mut Draft<'_>, before: &[Before]) {
    let timeout = flow.facts().extension_timeouts.before_api_server;
    flow.deploy(Point::BeforeApiServer).after(before.iter().copied());
    flow.ready(Point::BeforeApiServer, timeout)
        .after([deployed(Point::BeforeApiServer)]);
}

fn api_server(flow: &mut Draft<'_>) {
    let (hibernates, nodes_unknown) = (flow.hibernates(), !flow.facts().nodes_cidr_known);
    if !hibernates {
        extensions_before_api_server(
            flow,
            &[
                group(SECRETS),
                group(CLOUD_PROVIDER_SECRET),
                group(INFRASTRUCTURE),
                Single::DeployReferencedResources.into(),
            ],
        );
    }
    flow.deploy(ComponentId::ApiServer)
        .after([group(SECRETS), group(ETCD), Single::WaitApiServerService.into()])
        .after_if(!hibernates, [ready(Point::BeforeApiServer)])
        .after_if(nodes_unknown, [group(INFRASTRUCTURE)]);
    flow.ready(ComponentId::ApiServer, ROLLOUT_TIMEOUT)
        .after([deployed(ComponentId::ApiServer)]);
    flow.deploy(ComponentId::ResourceManager).in_group(RESOURCE_MANAGER);
    flow.ready(ComponentId::ResourceManager, ROLLOUT_TIMEOUT)
        .in_group(RESOURCE_MANAGER)
        .after([deployed(ComponentId::ResourceManager)]);
    flow.connect(Single::DeployShootAccess)
        .after([group(SECRETS), group(RESOURCE_MANAGER)]);
    flow.connect(Single::InitializeShootConnection)
        .after([deployed(Kind::InternalDnsRecord), Single::DeployShootAccess.into()]);
}

fn control_plane(flow: &mut Draft<'_>) {
    flow.deploy(Kind::ControlPlane).in_group(CONTROL_PLANE);
    flow.ready(Kind::ControlPlane, EXTENSION_TIMEOUT)
        .in_group(CONTROL_PLANE)
        .after([deployed(Kind::ControlPlane)]);
    flow.deploy(Managed::ShootNamespaces).in_group(SHOOT_NAMESPACES);
    flow.ready(Managed::ShootNamespaces, EXTENSION_TIMEOUT)
        .in_group(SHOOT_NAMESPACES)
        .after([deployed(Managed::ShootNamespaces)]);
    for id in ComponentId::with_steps() {
        let Place::ControlPlane {
            waits,
            needs_cloud_credentials,
        } = component(id).place()
        else {
            continue;
        };
        if id == ComponentId::VpnSeedServer && flow.facts().tunnel != Tunnel::Wanted {
            continue;
        }
        flow.deploy(id)
            .after([group(SECRETS)])
            .after_if(needs_cloud_credentials, [group(CLOUD_PROVIDER_SECRET)])
            .after([group(RESOURCE_MANAGER)]);
        if waits {
            flow.ready(id, ROLLOUT_TIMEOUT).after([deployed(id)]);
        }
    }
    let timeout = flow.facts().extension_timeouts.after_api_server;
    flow.deploy(Point::AfterApiServer)
        .after([Single::DeployReferencedResources, Single::InitializeShootConnection]);
    flow.ready(Point::AfterApiServer, timeout)
        .after([deployed(Point::AfterApiServer)]);
}

/// The tunnel's end in the shoot, or the end of a tunnel: the API server that used it is replaced first.
fn tunnel(flow: &mut Draft<'_>) {
    match flow.facts().tunnel {
        Tunnel::None => {}
        Tunnel::Wanted => {
            flow.deploy(Managed::VpnShoot).after([
                group(CONTROL_PLANE),
                ready(Point::AfterApiServer).into(),
                group(RESOURCE_MANAGER),
                deployed(ComponentId::Scheduler).into(),
                deployed(ComponentId::VpnSeedServer).into(),
                group(SHOOT_NAMESPACES),
            ]);
            // It is ready once it runs on a node and is connected.
            flow.ready(Managed::VpnShoot, ROLLOUT_TIMEOUT)
                .after([deployed(Managed::VpnShoot), ready(Kind::Worker)]);
        }
        Tunnel::Leftover => {
            flow.destroy(ComponentId::VpnSeedServer)
                .after([ready(ComponentId::ApiServer)]);
            // It goes last: as long as it is there, an operation that was cut off is found to have left something.
            flow.destroy(Managed::VpnShoot)
                .after([group(RESOURCE_MANAGER), destroyed(ComponentId::VpnSeedServer).into()]);
            flow.gone(Managed::VpnShoot, EXTENSION_TIMEOUT)
                .after([destroyed(Managed::VpnShoot)]);
        }
    }
}

fn nodes_setup(flow: &mut Draft<'_>) {
    flow.deploy(Kind::OperatingSystemConfig).in_group(OS_CONFIG);
    flow.ready(Kind::OperatingSystemConfig, EXTENSION_TIMEOUT)
        .in_group(OS_CONFIG)
        .after([deployed(Kind::OperatingSystemConfig)]);
    flow.write(Single::DeleteStaleOsConfigs)
        .in_group(OS_CONFIG)
        .after([deployed(Kind::OperatingSystemConfig)]);
    flow.wait(Single::WaitStaleOsConfigs, EXTENSION_TIMEOUT)
        .in_group(OS_CONFIG)
        .after([Single::DeleteStaleOsConfigs]);
    flow.deploy(Managed::ShootSystem).in_group(SHOOT_SYSTEM);
    // Not upstream's task, which has the nodes of a Shoot to wait for in most cases: the rights of the Shoot's user are
    // among these resources, and a Shoot without workers is up before they are applied. Nothing waits for it.
    flow.ready(Managed::ShootSystem, EXTENSION_TIMEOUT)
        .after([deployed(Managed::ShootSystem)]);
    flow.deploy(Managed::ClusterIdentity).after([
        group(RESOURCE_MANAGER),
        group(OS_CONFIG),
        Single::EnsureClusterIdentity.into(),
    ]);
    flow.deploy(Kind::Network).in_group(NETWORK);
    flow.ready(Kind::Network, EXTENSION_TIMEOUT)
        .in_group(NETWORK)
        .after([deployed(Kind::Network)]);
    flow.deploy(Managed::NodeAgent).after([
        group(RESOURCE_MANAGER),
        group(OS_CONFIG),
        Single::EnsureClusterIdentity.into(),
    ]);
}

fn workers(flow: &mut Draft<'_>) {
    for id in ComponentId::with_steps() {
        if component(id).place() == Place::Machines {
            flow.deploy(id).in_group(MACHINE_CONTROLLERS);
        }
    }
    flow.deploy(Kind::Worker).in_group(WORKER);
    flow.wait(Single::WaitMachineDeployments, CLOUD_TIMEOUT)
        .in_group(WORKER)
        .after([deployed(Kind::Worker)]);
    let timeout = flow.facts().extension_timeouts.after_workers;
    flow.deploy(Point::AfterWorkers)
        .in_group(WORKER)
        .after([Single::WaitMachineDeployments]);
    flow.ready(Point::AfterWorkers, timeout)
        .in_group(WORKER)
        .after([deployed(Point::AfterWorkers)]);
    // The second is not upstream's edge: without kube-controller-manager no node's certificate is signed, and to wait for
    // nodes would end in a second error that hides the first.
    flow.ready(Kind::Worker, CLOUD_TIMEOUT).in_group(WORKER).after([
        Single::WaitMachineDeployments.into(),
        ready(ComponentId::ControllerManager),
    ]);
}

/// The control plane goes last, and after it what extensions have before it otherwise.
fn hibernation(flow: &mut Draft<'_>) {
    if !flow.hibernates() {
        return;
    }
    flow.write(Single::ScaleDownMachineControllers).after([group(WORKER)]);
    let tunnelled = flow.facts().tunnel == Tunnel::Wanted;
    // The machine controllers are not upstream's edge there: what still works on machines must not lose the API.
    let asleep = flow.wait(Single::HibernateControlPlane, HIBERNATE_TIMEOUT).after([
        Single::InitializeShootConnection.into(),
        group(WORKER),
        group(NETWORK),
        ready(Point::AfterApiServer).into(),
        ready(ComponentId::ControllerManager).into(),
        Single::ScaleDownMachineControllers.into(),
        Single::DeleteStaleExtensions.into(),
        ready(Kind::ContainerRuntime).into(),
        Single::DeleteStaleContainerRuntimes.into(),
    ]);
    // Written later, it would be as big as it was before.
    asleep.after_if(tunnelled, [deployed(ComponentId::VpnSeedServer)]);
    extensions_before_api_server(flow, &[Single::HibernateControlPlane.into()]);
    for record in [Kind::ExternalDnsRecord, Kind::InternalDnsRecord] {
        flow.wait(crate::step::destroyed(record), DNS_TIMEOUT)
            .after([Single::HibernateControlPlane]);
    }
}

fn leftovers(flow: &mut Draft<'_>) {
    flow.write(Single::DeleteStaleExtensions)
        .after([Single::InitializeShootConnection]);
    flow.wait(Single::WaitStaleExtensions, EXTENSION_TIMEOUT)
        .after([Single::DeleteStaleExtensions]);
    flow.deploy(Kind::ContainerRuntime)
        .after([Single::DeployReferencedResources, Single::InitializeShootConnection]);
    flow.ready(Kind::ContainerRuntime, EXTENSION_TIMEOUT)
        .after([deployed(Kind::ContainerRuntime)]);
    flow.write(Single::DeleteStaleContainerRuntimes)
        .after([Single::InitializeShootConnection]);
    flow.wait(Single::WaitStaleContainerRuntimes, EXTENSION_TIMEOUT)
        .after([Single::DeleteStaleContainerRuntimes]);
    flow.write(Single::RestartControlPlanePods)
        .after([deployed(ComponentId::ControllerManager), ready(Kind::ControlPlane)]);
}
