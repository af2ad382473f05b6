//! Builders that take everything one by one instead of a [`HostedCluster`] and what was [`Issued`]: for callers that are not
//! converted to the table of components yet. They make the same objects, without an inventory.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{Service, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};

use crate::component::{HostedCluster, Issued};
use crate::mount::Mounted;
use crate::secrets::{CA, CA_CLIENT, CA_ETCD, CA_FRONT_PROXY, CA_KUBELET, SERVICE_ACCOUNT_KEY};
use crate::{api_server as server, controller_manager as controllers, etcd as store, resource_manager as manager};

/// Why no builder here misses a Secret.
const ALL_GIVEN: &str = "the settings hold every Secret that the component mounts";

/// Settings of etcd.
#[derive(Clone, Debug)]
pub struct EtcdSettings {
    /// The shoot's namespace in the seed.
    pub namespace: String,
    /// Full image reference.
    pub image: String,
    /// Size of the volume, as a Kubernetes quantity.
    pub storage: String,
    /// Bundle of the authority that signed etcd's clients and server.
    pub authority: Mounted,
    /// The server's certificate.
    pub server: Mounted,
}

/// Everything that makes up etcd.
#[derive(Clone, Debug)]
pub struct EtcdObjects {
    /// The member.
    pub stateful_set: StatefulSet,
    /// For clients.
    pub client_service: Service,
    /// For members among each other; headless.
    pub peer_service: Service,
}

/// Settings of kube-apiserver.
#[derive(Clone, Debug)]
pub struct ApiServerSettings {
    /// The shoot's namespace in the seed.
    pub namespace: String,
    /// Full image reference.
    pub image: String,
    /// How many pods.
    pub replicas: i32,
    /// URL of the store.
    pub etcd_servers: String,
    /// Bundle of the authority of etcd.
    pub etcd_authority: Mounted,
    /// The certificate with which it is a client of etcd.
    pub etcd_client: Mounted,
    /// Bundle of the authority whose clients it knows.
    pub client_authority: Mounted,
    /// Bundle of the authority of its own certificate.
    pub authority: Mounted,
    /// Its own certificate.
    pub server: Mounted,
    /// The key that signs service account tokens.
    pub service_account_key: Mounted,
    /// All keys whose service account tokens it knows.
    pub service_account_keys: Mounted,
    /// Authority of the aggregation layer's clients.
    pub front_proxy_authority: Mounted,
    /// The certificate with which it is a client of aggregated API servers.
    pub aggregator_client: Mounted,
    /// `iss` of service account tokens.
    pub service_account_issuer: String,
    /// Networks of services, in CIDR form.
    pub service_networks: Vec<String>,
    /// The host under which clients outside the seed reach it.
    pub external_hostname: String,
}

/// Settings of kube-controller-manager.
#[derive(Clone, Debug)]
pub struct ControllerManagerSettings {
    /// The shoot's namespace in the seed; also the cluster's name.
    pub namespace: String,
    /// Full image reference.
    pub image: String,
    /// How many pods.
    pub replicas: i32,
    /// Its kubeconfig.
    pub kubeconfig: Mounted,
    /// Bundle of the authority of the API server, which service accounts get.
    pub authority: Mounted,
    /// The authority (certificate and key) that signs client certificates of nodes.
    pub client_authority: Mounted,
    /// The authority (certificate and key) that signs serving certificates of nodes.
    pub kubelet_authority: Mounted,
    /// The key that signs service account tokens.
    pub service_account_key: Mounted,
    /// Networks of pods, in CIDR form; empty for workerless shoots.
    pub pod_networks: Vec<String>,
    /// Networks of services, in CIDR form.
    pub service_networks: Vec<String>,
    /// Prefix length of a node's part of the pod network.
    pub node_mask_size: Option<u8>,
}

/// Settings of kube-scheduler.
#[derive(Clone, Debug)]
pub struct SchedulerSettings {
    /// The shoot's namespace in the seed.
    pub namespace: String,
    /// Full image reference.
    pub image: String,
    /// How many pods.
    pub replicas: i32,
    /// Its kubeconfig.
    pub kubeconfig: Mounted,
}

/// Settings of gardener-resource-manager.
#[derive(Clone, Debug)]
pub struct ResourceManagerSettings {
    /// The shoot's namespace in the seed.
    pub namespace: String,
    /// Full image reference.
    pub image: String,
    /// How many pods.
    pub replicas: i32,
    /// Its kubeconfig for the shoot.
    pub kubeconfig: Mounted,
}

/// Everything that makes up gardener-resource-manager.
#[derive(Clone, Debug)]
pub struct ResourceManagerObjects {
    /// Who it is in the seed.
    pub service_account: ServiceAccount,
    /// What it may do there.
    pub role: Role,
    /// Gives it the role.
    pub role_binding: RoleBinding,
    /// The program.
    pub deployment: Deployment,
}

fn named<const N: usize>(given: [(&str, &Mounted); N]) -> BTreeMap<String, Mounted> {
    given.map(|(name, mounted)| (name.to_owned(), mounted.clone())).into()
}

/// Builds etcd.
#[must_use]
pub fn etcd(settings: &EtcdSettings) -> EtcdObjects {
    let cluster = HostedCluster {
        namespace: settings.namespace.clone(),
        etcd_storage: settings.storage.clone(),
        ..HostedCluster::default()
    };
    let issued = Issued {
        image: settings.image.clone(),
        replicas: 1,
        secrets: named([(store::SERVER, &settings.server)]),
        bundles: named([(CA_ETCD, &settings.authority)]),
        kubeconfig: None,
    };
    EtcdObjects {
        stateful_set: store::stateful_set(&cluster, &issued).expect(ALL_GIVEN),
        client_service: store::client_service(&settings.namespace),
        peer_service: store::peer_service(&settings.namespace),
    }
}

/// The API server's Service, which exists before the Deployment does.
#[must_use]
pub fn api_server_service(namespace: &str) -> Service {
    server::service(namespace)
}

/// The API server's Deployment.
#[must_use]
pub fn api_server(settings: &ApiServerSettings) -> Deployment {
    let cluster = HostedCluster {
        namespace: settings.namespace.clone(),
        services: settings.service_networks.clone(),
        api_host: settings.external_hostname.clone(),
        ..HostedCluster::default()
    };
    let issued = Issued {
        image: settings.image.clone(),
        replicas: settings.replicas,
        secrets: named([
            (server::SERVER, &settings.server),
            (server::ETCD_CLIENT, &settings.etcd_client),
            (server::AGGREGATOR, &settings.aggregator_client),
            (SERVICE_ACCOUNT_KEY, &settings.service_account_key),
        ]),
        bundles: named([
            (CA, &settings.authority),
            (CA_CLIENT, &settings.client_authority),
            (CA_ETCD, &settings.etcd_authority),
            (CA_FRONT_PROXY, &settings.front_proxy_authority),
            (SERVICE_ACCOUNT_KEY, &settings.service_account_keys),
        ]),
        kubeconfig: None,
    };
    let mut deployment = server::deployment(&cluster, &issued).expect(ALL_GIVEN);
    set_flag(&mut deployment, "--etcd-servers=", &settings.etcd_servers);
    set_flag(
        &mut deployment,
        "--service-account-issuer=",
        &settings.service_account_issuer,
    );
    deployment
}

fn set_flag(deployment: &mut Deployment, flag: &str, value: &str) {
    let template = deployment.spec.as_mut().and_then(|spec| spec.template.spec.as_mut());
    let containers = template.into_iter().flat_map(|pod| &mut pod.containers);
    for arg in containers.flat_map(|container| container.args.iter_mut().flatten()) {
        if arg.starts_with(flag) {
            *arg = format!("{flag}{value}");
        }
    }
}

/// The controller manager's Deployment.
#[must_use]
pub fn controller_manager(settings: &ControllerManagerSettings) -> Deployment {
    let cluster = HostedCluster {
        namespace: settings.namespace.clone(),
        pods: settings.pod_networks.clone(),
        services: settings.service_networks.clone(),
        node_mask_size: settings.node_mask_size,
        ..HostedCluster::default()
    };
    let issued = Issued {
        image: settings.image.clone(),
        replicas: settings.replicas,
        secrets: named([
            (CA_CLIENT, &settings.client_authority),
            (CA_KUBELET, &settings.kubelet_authority),
            (SERVICE_ACCOUNT_KEY, &settings.service_account_key),
        ]),
        bundles: named([(CA, &settings.authority)]),
        kubeconfig: Some(settings.kubeconfig.clone()),
    };
    controllers::deployment(&cluster, &issued).expect(ALL_GIVEN)
}

/// The scheduler's Deployment.
#[must_use]
pub fn scheduler(settings: &SchedulerSettings) -> Deployment {
    let (cluster, issued) = with_kubeconfig(
        &settings.namespace,
        &settings.image,
        settings.replicas,
        &settings.kubeconfig,
    );
    crate::scheduler::deployment(&cluster, &issued).expect(ALL_GIVEN)
}

/// Builds gardener-resource-manager.
#[must_use]
pub fn resource_manager(settings: &ResourceManagerSettings) -> ResourceManagerObjects {
    let namespace = &settings.namespace;
    let (cluster, issued) = with_kubeconfig(namespace, &settings.image, settings.replicas, &settings.kubeconfig);
    ResourceManagerObjects {
        service_account: manager::service_account(namespace),
        role: manager::role(namespace),
        role_binding: manager::role_binding(namespace),
        deployment: manager::deployment(&cluster, &issued).expect(ALL_GIVEN),
    }
}

fn with_kubeconfig(namespace: &str, image: &str, replicas: i32, kubeconfig: &Mounted) -> (HostedCluster, Issued) {
    let cluster = HostedCluster {
        namespace: namespace.to_owned(),
        ..HostedCluster::default()
    };
    let issued = Issued {
        image: image.to_owned(),
        replicas,
        kubeconfig: Some(kubeconfig.clone()),
        ..Issued::default()
    };
    (cluster, issued)
}
