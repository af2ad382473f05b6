//! Every task of every flow of a shoot. The order of the variants is the order in which running tasks and errors are
//! shown; a task's name is its identity towards users.

use base_flow::Name;

macro_rules! tasks {
    ($($variant:ident = $name:literal,)+) => {
        /// One task. What it does is its name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum ShootTask {
            $(#[doc = $name] $variant,)+
        }

        impl ShootTask {
            /// Every task of every flow.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];
        }

        impl Name for ShootTask {
            fn name(&self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }
    };
}

tasks! {
    // What both flows begin with.
    DeployNamespace = "Deploying control plane namespace",
    DeployNamespaceForDeletion = "Deploying Shoot namespace in Seed",
    EnsureClusterIdentity = "Ensuring Shoot cluster identity",
    DeployCloudProviderSecret = "Deploying cloud provider account secret",
    InitializeSecrets = "Initializing secrets management",
    DeployReferencedResources = "Deploying referenced resources",
    DeployInfrastructure = "Deploying Shoot infrastructure",
    WaitInfrastructure = "Waiting until Shoot infrastructure has been reconciled",
    DeployApiServerService = "Deploying Kubernetes API server service in the Seed cluster",
    WaitApiServerService = "Waiting until Kubernetes API server service in the Seed cluster has reported readiness",
    WaitApiServerServiceForDeletion = "Waiting until Kubernetes API LoadBalancer in the Seed cluster has reported readiness",
    EnsureAdvertisedAddresses = "Ensuring advertised addresses for the Shoot",
    DeployInternalDnsRecord = "Deploying internal domain DNS record",
    DeployExternalDnsRecord = "Deploying external domain DNS record",
    DeployBackupEntry = "Deploying BackupEntry for ETCD data",
    WaitBackupEntry = "Waiting until the BackupEntry for ETCD data has been reconciled",
    DeployEtcd = "Deploying main and events ETCDs",
    WaitEtcd = "Waiting until main and event ETCDs have been reconciled",
    DeployEtcdForDeletion = "Deploying main and events etcd",
    WaitEtcdForDeletion = "Waiting until main and event etcd report readiness",
    DeployExtensionsBeforeApiServer = "Deploying extension resources before kube-apiserver",
    WaitExtensionsBeforeApiServer = "Waiting until extension resources handled before kube-apiserver are ready",
    DeployApiServer = "Deploying Kubernetes API server",
    WaitApiServer = "Waiting until Kubernetes API server rolled out",
    WaitApiServerForDeletion = "Waiting until Kubernetes API server reports readiness",
    DeployResourceManager = "Deploying gardener-resource-manager",
    WaitResourceManager = "Waiting until gardener-resource-manager reports readiness",
    DeployShootAccess = "Deploying Gardener shoot access resources",
    InitializeShootConnection = "Initializing connection to Shoot",
    // Reconcile.
    DeployControlPlane = "Deploying shoot control plane components",
    WaitControlPlane = "Waiting until shoot control plane has been reconciled",
    DeployShootNamespaces = "Deploying shoot namespaces system component",
    WaitShootNamespaces = "Waiting until shoot namespaces have been reconciled",
    DeployScheduler = "Deploying Kubernetes scheduler",
    DeployControllerManager = "Deploying Kubernetes controller manager",
    WaitControllerManager = "Waiting until kube-controller-manager reports readiness",
    DeployExtensionsAfterApiServer = "Deploying extension resources after kube-apiserver",
    WaitExtensionsAfterApiServer = "Waiting until extension resources handled after kube-apiserver are ready",
    DeployOsConfigs = "Deploying OperatingSystemConfig resources for worker pools",
    WaitOsConfigs = "Waiting until OperatingSystemConfig for worker pools have been reconciled",
    DeleteStaleOsConfigs = "Delete stale OperatingSystemConfig resources",
    WaitStaleOsConfigs = "Waiting until stale OperatingSystemConfig resources are deleted",
    DeployShootSystem = "Deploying shoot system resources",
    WaitShootSystem = "Waiting until shoot system resources have been applied",
    DeployShootClusterIdentity = "Deploying shoot cluster identity",
    DeployNetwork = "Deploying shoot network plugin",
    WaitNetwork = "Waiting until shoot network plugin has been reconciled",
    DeployNodeAgent = "Deploying managed resources for the gardener-node-agent",
    DeployMachineControllers = "Deploying machine-controller-manager",
    ConfigureWorkers = "Configuring worker pools",
    WaitMachineDeployments = "Waiting until worker resource status is updated with latest machine deployments",
    DeployExtensionsAfterWorkers = "Deploying extension resources after workers",
    WaitExtensionsAfterWorkers = "Waiting until extension resources handled after workers are ready",
    WaitWorkers = "Waiting until worker pools have been reconciled",
    DeleteStaleExtensions = "Deleting stale extension resources",
    WaitStaleExtensions = "Waiting until stale extension resources are deleted",
    // Delete.
    RedeployControlPlane = "Deploying Shoot control plane",
    WaitRedeployedControlPlane = "Waiting until Shoot control plane has been reconciled",
    CleanWebhooks = "Cleaning up webhooks",
    WaitControllerManagerActive = "Waiting until kube-controller-manager is active",
    CleanExtendedApis = "Cleaning extended API groups",
    CleanKubernetesResources = "Cleaning Kubernetes resources",
    DestroyNetwork = "Destroying shoot network plugin",
    WaitNetworkDestroyed = "Waiting until shoot network plugin has been destroyed",
    DestroyWorkers = "Destroying shoot workers",
    WaitWorkersDestroyed = "Waiting until shoot worker nodes have been terminated",
    DeleteMachineControllers = "Deleting machine-controller-manager",
    DeleteOsConfigs = "Deleting operating system config resources",
    WaitOsConfigsDeleted = "Waiting until all operating system config resources are deleted",
    DeleteManagedResources = "Deleting managed resources",
    WaitManagedResourcesDeleted = "Waiting until managed resources have been deleted",
    DeleteExtensionsBeforeApiServer = "Deleting extension resources before kube-apiserver",
    WaitExtensionsBeforeApiServerDeleted = "Waiting until extension resources that should be handled before kube-apiserver have been deleted",
    WaitStaleExtensionsDeleted = "Waiting until all stale extension resources have been deleted",
    DestroyControlPlane = "Destroying shoot control plane",
    WaitControlPlaneDestroyed = "Waiting until shoot control plane has been destroyed",
    WaitShootManagedResourcesDeleted = "Waiting until shoot managed resources have been deleted",
    DeleteApiServer = "Deleting Kubernetes API server",
    WaitApiServerDeleted = "Waiting until Kubernetes API server has been deleted",
    DeleteExtensionsAfterApiServer = "Deleting extension resources after kube-apiserver",
    WaitExtensionsAfterApiServerDeleted = "Waiting until extension resources that should be handled after kube-apiserver have been deleted",
    WaitAllExtensionsDeleted = "Waiting until all extension resources have been deleted",
    DestroyApiServerService = "Destroying Kubernetes API server service",
    DestroyResourceManager = "Destroying gardener-resource-manager",
    DestroyInfrastructure = "Destroying shoot infrastructure",
    WaitInfrastructureDestroyed = "Waiting until shoot infrastructure has been deleted",
    DestroyExternalDnsRecord = "Destroying external domain DNS record",
    DestroyInternalDnsRecord = "Destroying internal domain DNS record",
    DeleteReferencedResources = "Deleting referenced resources",
    DestroyEtcd = "Destroying main and events etcd",
    WaitEtcdDestroyed = "Waiting until main and event etcd have been destroyed",
    DeleteNamespace = "Deleting shoot namespace in Seed",
    WaitNamespaceDeleted = "Waiting until shoot namespace in Seed has been deleted",
}
