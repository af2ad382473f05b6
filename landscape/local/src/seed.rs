//! One seed's side of the landscape: its API server, the controllers and the node that every cluster has, its
//! gardenlet, and the operator that installs extensions which live in this process.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use api_core::v1beta1::Seed;
use api_extensions::{DeletionProtection, ExtensionKind};
use api_meta::{Fault, annotations, labels};
use base_client::Connector;
use cluster_apiserver::Protection;
use cluster_controllers::Options;
use cluster_front::Front;
use cluster_node::{ImageCatalogue, NodeOptions, PodAddresses, Volumes};
use cluster_programs::ImageFile;
use control_plane_confinement::BUILTIN_OPERATOR_USER_PREFIX;
use control_plane_gardenlet::{Addressing, Clients, Config, GardenAccess, Images, NodeAccess};
use futures::FutureExt;
use ipnet::IpNet;
use kube::Client;
use landscape_data_folder::server_data::ServerData;
use landscape_images::programs::{self, InLandscape};
use landscape_images::{ApiServerStarted, Host, Machines, NodePrograms, tunnel};
use tokio_util::sync::CancellationToken;

use super::api::{Api, ApiSettings};
use super::settings::SeedSettings;
use super::{Audits, Parts, Settings, bootstrap, network_labels, state};

/// Registry part of image names: nothing is pulled, the catalogue knows names alone.
const REPOSITORY: &str = "orangery.dev";

pub(super) async fn start_api(
    settings: &Settings,
    seed: &SeedSettings,
    data: &ServerData,
    front: &Front,
    url: &str,
) -> Result<Api, Fault> {
    Api::start(ApiSettings {
        name: &state::of_seed(seed),
        data,
        url,
        kinds: Vec::new(),
        services: Some(IpNet::V4(seed.networks.services)),
        protection: Some(protection()),
        gatekeeper: None,
        front,
        clock: &settings.clock,
        entropy: &settings.entropy,
        audit_records: settings.audit_records,
    })
    .await
}

/// What carries the state of Shoots goes when its gardenlet confirms it, and not when a user deletes it by mistake.
fn protection() -> Protection {
    let protected = ExtensionKind::ALL
        .iter()
        .filter(|kind| kind.protection() == DeletionProtection::Confirmation);
    Protection {
        annotation: annotations::CONFIRMATION_DELETION.to_owned(),
        label: labels::DELETION_PROTECTED.to_owned(),
        kinds: protected
            .map(|kind| (ExtensionKind::GROUP.to_owned(), kind.plural().to_owned()))
            .collect(),
    }
}

/// What the parts of one seed are started with.
pub(super) struct Surroundings<'a> {
    pub(super) settings: &'a Settings,
    pub(super) seed: &'a SeedSettings,
    pub(super) volumes: &'a Volumes,
    pub(super) front: &'a Front,
    pub(super) garden: &'a Api,
    pub(super) api: &'a Api,
    pub(super) audits: &'a Audits,
    pub(super) parts: &'a Parts,
}

impl Surroundings<'_> {
    /// Runs a part of this seed until the landscape stops.
    fn spawn<F>(&self, part: &str, start: impl Fn(CancellationToken) -> F + Send + 'static)
    where
        F: Future<Output = Result<(), Fault>> + Send,
    {
        self.parts.spawn(format!("{part} of seed {}", self.seed.name), start);
    }
}

/// Starts the seed's parts, each with kubeconfigs of its own.
pub(super) fn start_parts(around: &Surroundings<'_>) -> Result<(), Fault> {
    start_cluster(around)?;
    start_gardenlet(around)?;
    let operator = "orangery:builtin-operator";
    let in_garden = format!("{BUILTIN_OPERATOR_USER_PREFIX}{}", around.seed.name);
    let of_garden = around.front.client(&around.garden.kubeconfig(&in_garden, &[])?)?;
    let of_seed = around.front.client(&around.api.kubeconfig(operator, &[])?)?;
    let (seed, clock) = (around.seed.name.clone(), around.settings.clock.clone());
    around.spawn("builtin-operator", move |stop| {
        let (of_garden, of_seed) = (of_garden.clone(), of_seed.clone());
        control_plane_builtin_operator::run(of_garden, of_seed, seed.clone(), clock.clone(), stop).map(Ok)
    });
    Ok(())
}

/// What makes an API server a cluster: controllers, a scheduler and a node.
fn start_cluster(around: &Surroundings<'_>) -> Result<(), Fault> {
    let Surroundings {
        settings,
        seed,
        volumes,
        front,
        garden: _,
        api,
        audits,
        parts: _,
    } = *around;
    let (clock, entropy) = (&settings.clock, &settings.entropy);
    let client = |user: &str| -> Result<Client, Fault> { front.client(&api.kubeconfig(user, &[])?) };
    let options = Options {
        signer: Some(api.client_authority()),
        root_ca: Some(api.authority_pem()),
        ..Options::all(clock.clone(), entropy.clone())
    };
    let of_part = client("system:kube-controller-manager")?;
    around.spawn("kube-controller-manager", move |stop| {
        cluster_controllers::run(of_part.clone(), options.clone(), stop).map(Ok)
    });
    let (of_part, clock_of_part) = (client("system:kube-scheduler")?, clock.clone());
    around.spawn("kube-scheduler", move |stop| {
        cluster_controllers::scheduler::run(of_part.clone(), clock_of_part.clone(), stop).map(Ok)
    });
    let audits = audits.clone();
    let keep: ApiServerStarted = Arc::new(move |server| audits.add(server));
    let host = Host {
        // Each Shoot leaves its record behind, so that it can be read after the Shoot.
        api_server_started: (settings.audit_records > 0).then_some(keep),
        audit_records: settings.audit_records,
        // Without programs no API server dials one.
        machines: settings.images.as_ref().map(|_| Machines::default()),
        node_programs: tunnelled(settings).map(|file| NodePrograms {
            file: file.clone(),
            data_dir: settings.data_dir.clone(),
            url: api.url().to_owned(),
        }),
        network: api.pods(),
        ..Host::new(front.clone())
    };
    host.network.suggest(network_labels::suggestion());
    let name = format!("seed-{}-0", seed.name);
    let catalogue = images(around, &host)?;
    let node = NodeOptions {
        network: host.network.clone(),
        volumes: volumes.clone(),
        services: api.nodes(),
        pod_addresses: PodAddresses::whole(IpNet::V4(seed.networks.pods)),
        // As many as it has addresses for: its pods are futures, and what they need is this process's alone.
        pods: u32::MAX,
        addresses: vec![IpAddr::V4(Ipv4Addr::LOCALHOST)],
        ..NodeOptions::new(
            name.clone(),
            api.kubeconfig(&format!("system:node:{name}"), &["system:nodes"])?,
            Arc::new(front.clone()),
            Arc::new(catalogue),
            clock.clone(),
            entropy.clone(),
        )
    };
    around.spawn("node", move |stop| cluster_node::run(node.clone(), stop));
    Ok(())
}

/// What containers of the seed's node can be.
fn images(around: &Surroundings<'_>, host: &Host) -> Result<ImageCatalogue, Fault> {
    let (settings, api) = (around.settings, around.api);
    let own = landscape_images::catalogue(host.clone());
    let Some(file) = &settings.images else {
        return Ok(own);
    };
    let servers = InLandscape::new(around.front.clone(), api.server_name(), api.url());
    let servers = match (&host.machines, node_access(settings)) {
        (Some(machines), NodeAccess::Direct) => servers.with_machines(machines.clone()),
        // The tunnel is the only way from API servers to machines.
        _ => servers,
    };
    let programs = programs::programs(file, &settings.data_dir, &around.seed.name, Arc::new(servers))?;
    Ok(programs.add_to(own))
}

/// How API servers of Shoots reach nodes.
fn node_access(settings: &Settings) -> NodeAccess {
    settings.node_access.unwrap_or(match tunnelled(settings) {
        Some(_) => NodeAccess::Tunnel,
        None => NodeAccess::Direct,
    })
}

/// The image file, if it has the programs of a tunnel.
fn tunnelled(settings: &Settings) -> Option<&ImageFile> {
    settings.images.as_ref().filter(|file| tunnel::is_mapped(file))
}

fn start_gardenlet(around: &Surroundings<'_>) -> Result<(), Fault> {
    let Surroundings {
        settings,
        seed,
        front,
        garden,
        api,
        ..
    } = *around;
    let object: Seed = serde_json::from_value(bootstrap::seed_object(seed))
        .map_err(|error| Fault::bug(format!("the Seed of the landscape is no Seed: {error}")))?;
    let user = format!("gardener.cloud:system:seed:{}", seed.name);
    let garden_client = front.client(&garden.kubeconfig(&user, &["gardener.cloud:system:seeds"])?)?;
    let client = front.client(&api.kubeconfig("gardener.cloud:system:gardenlet", &[])?)?;
    let shoots: Arc<dyn Connector> = Arc::new(front.clone());
    let images = Images::new(REPOSITORY, &format!("v{}", env!("CARGO_PKG_VERSION")));
    let addressing = Addressing::Shared {
        url: api.url().to_owned(),
        address: IpAddr::V4(Ipv4Addr::LOCALHOST),
    };
    // Pods of this process's nodes come to the front as everybody does.
    let garden_access = GardenAccess {
        server: garden.address(),
        ca_pem: garden.authority_pem(),
        tls_server_name: Some(garden.server_name().to_owned()),
    };
    let config = Config {
        node_access: node_access(settings),
        garden_access: Some(garden_access),
        feed: settings.feed.clone(),
        task_layer: settings.task_layer.clone(),
        ..Config::new(object, images, addressing)
    };
    let (clock, entropy) = (settings.clock.clone(), settings.entropy.clone());
    around.spawn("gardenlet", move |stop| {
        let clients = Clients {
            garden: garden_client.clone(),
            seed: client.clone(),
            shoots: shoots.clone(),
        };
        control_plane_gardenlet::run(clients, config.clone(), clock.clone(), entropy.clone(), stop)
    });
    Ok(())
}
