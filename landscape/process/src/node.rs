//! A node of ours in a cluster that is elsewhere: the pods of control planes run in this process by the catalogue of images. API
//! servers that its pods start listen on one port of this machine; the cluster's own API server reaches the node on another. With
//! a kubeconfig for it, this process also makes the volumes that claims ask for.

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use api_meta::Fault;
use base_client::{Connector, Https};
use base_clock::{Clock, Entropy};
use base_secrets::{Authority, CertificateSpec, SecretError};
use cluster_controllers::{Name, Options};
use cluster_front::{ANY_NAME, Front, RegisteredServer, Registration};
use cluster_node::{Network, NodeOptions, NodeServices, PodAddresses, Volumes};
use cluster_programs::ImageFile;
use ipnet::IpNet;
use kube::config::Kubeconfig;
use landscape_data_folder::folder;
use landscape_data_folder::kubeconfig::read_with_files;
use landscape_data_folder::server_data::VOLUMES;
use landscape_data_folder::server_state::bind;
use landscape_images::programs::{self, InLandscape};
use landscape_images::{Host, catalogue};
use tokio_util::sync::CancellationToken;

use crate::gardenlet::authorities;

/// How long the certificate of the node's port is valid; another one is made at every start.
const VALIDITY: Duration = Duration::from_secs(365 * 24 * 3600);

/// What a node is started with.
#[derive(Clone, Debug)]
pub struct NodeSettings {
    /// Path of its kubeconfig.
    pub kubeconfig: PathBuf,
    /// Its name.
    pub name: String,
    /// Port on 127.0.0.1 for the API servers of its pods; 0 takes a free one.
    pub port: u16,
    /// Port on 127.0.0.1 for the cluster's API server; 0 takes a free one.
    pub kubelet_port: u16,
    /// File with the authority of client certificates at that port.
    pub client_ca_file: Option<PathBuf>,
    /// Range of its pods' addresses; none: what the cluster gives it.
    pub pod_cidr: Option<IpNet>,
    /// Images that are programs of this machine.
    pub images: Option<PathBuf>,
    /// Path of the kubeconfig of who makes volumes for claims.
    pub provisioner_kubeconfig: Option<PathBuf>,
    /// Folder for volumes.
    pub data_dir: PathBuf,
}

/// Runs a node until `stop` is done; `print` is called with where it listens.
///
/// # Errors
/// A kubeconfig that cannot be used, a port that is taken, a folder that another process uses, a registration that the
/// cluster refuses.
pub async fn run_node(
    settings: &NodeSettings,
    stop: impl Future<Output = ()>,
    print: impl FnOnce(&str),
) -> Result<(), Fault> {
    let NodeSettings { data_dir, name, .. } = settings;
    let kubeconfig = read_with_files(&settings.kubeconfig, "name the node's kubeconfig with --kubeconfig").await?;
    folder::make("the data folder", data_dir)?;
    let _owned = folder::take(data_dir, "node")?;
    let path = data_dir.join(VOLUMES);
    let volumes = Volumes::in_folder(&path).map_err(|error| folder::unusable("open the volumes in", &path, &error))?;

    let (clock, entropy) = (Clock::real(), Entropy::os());
    let ending = CancellationToken::new();
    let _ended = ending.clone().drop_guard();
    let listener = bind(settings.port).await?;
    let url = local_url(&listener)?;
    let front = Front::new(clock.clone());
    let serving = (front.clone(), ending.clone());
    tokio::spawn(async move { serving.0.serve(listener, serving.1).await });
    let kubelet = Kubelet::open(settings, &kubeconfig, &clock, &entropy, &ending).await?;

    let connector: Arc<dyn Connector> = Arc::new(Https::new("orangery-node").with_token_files());
    let network = Network::new();
    let host = Host {
        network: network.clone(),
        connector: connector.clone(),
        ..Host::new(front.clone())
    };
    let images = images(settings, host, &front, &url)?;
    let node = NodeOptions {
        addresses: vec![IpAddr::V4(Ipv4Addr::LOCALHOST)],
        services: kubelet.services.clone(),
        port: Some(kubelet.port),
        network,
        volumes,
        pod_addresses: settings.pod_cidr.map_or(PodAddresses::OfNode, PodAddresses::whole),
        ..NodeOptions::new(
            name,
            kubeconfig,
            connector,
            Arc::new(images),
            clock.clone(),
            entropy.clone(),
        )
    };
    if let Some(path) = &settings.provisioner_kubeconfig {
        provision(path, clock, entropy, ending.clone()).await?;
    }
    print(&format!(
        "node {name}: API servers of Shoots at {url}, the node itself at 127.0.0.1:{}",
        kubelet.port
    ));
    let stopping = ending.clone();
    let running = cluster_node::run(node, ending.clone());
    tokio::pin!(running);
    tokio::select! {
        ended = &mut running => ended.and(Err(Fault::bug("the node ended by itself"))),
        () = stop => {
            stopping.cancel();
            running.await
        }
    }
}

fn local_url(listener: &tokio::net::TcpListener) -> Result<String, Fault> {
    let address = listener
        .local_addr()
        .map_err(|error| Fault::bug(format!("a port that is open has no address: {error}")))?;
    Ok(format!("https://{address}"))
}

/// What the node's pods can be: the catalogue, and programs of this machine.
fn images(
    settings: &NodeSettings,
    host: Host,
    front: &Front,
    url: &str,
) -> Result<cluster_node::ImageCatalogue, Fault> {
    let images = catalogue(host);
    let Some(path) = &settings.images else {
        return Ok(images);
    };
    let file = ImageFile::read(path)?;
    // The cluster's own API server is not behind the front, so that no server name stands for it there.
    let servers = InLandscape::new(front.clone(), "", url);
    let programs = programs::programs(&file, &settings.data_dir, &settings.name, Arc::new(servers))?;
    Ok(programs.add_to(images))
}

/// The port at which the cluster's API server requests logs.
struct Kubelet {
    services: NodeServices,
    port: u16,
    _registration: Registration,
}

impl Kubelet {
    async fn open(
        settings: &NodeSettings,
        kubeconfig: &Kubeconfig,
        clock: &Clock,
        entropy: &Entropy,
        stop: &CancellationToken,
    ) -> Result<Self, Fault> {
        let name = &settings.name;
        let clients = match &settings.client_ca_file {
            Some(path) => std::fs::read_to_string(path).map_err(|error| {
                Fault::user(format!("cannot read {}: {error}", path.display()))
                    .hint("name a PEM file with the authority of client certificates with --client-ca-file")
            })?,
            None => authorities(kubeconfig),
        };
        let own = Https::new("orangery-node").with_token_files().client(kubeconfig)?;
        let services = NodeServices::default();
        let guarded = services.guarded(name, own, &clients, clock.clone())?;
        let authority = Authority::generate(name, clock, entropy).map_err(bug)?;
        let local = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let spec = CertificateSpec::server(name, vec![name.clone()], vec![local], VALIDITY);
        let issued = authority.issue(&spec, clock, entropy).map_err(bug)?;
        let server = RegisteredServer::new(guarded, &issued.certificate_pem(), issued.key_pem().expose())
            .map_err(|error| Fault::bug(error.to_string()))?;
        let front = Front::new(clock.clone());
        let registration = front
            .register([ANY_NAME], server)
            .map_err(|error| Fault::bug(error.to_string()))?;
        let listener = tokio::net::TcpListener::bind((local, settings.kubelet_port)).await;
        let listener = listener.map_err(|error| {
            Fault::user(format!("cannot listen on {local}:{}: {error}", settings.kubelet_port))
                .hint("end the process that uses the port, or choose another with --kubelet-port (0 takes a free one)")
        })?;
        let address = listener
            .local_addr()
            .map_err(|error| Fault::bug(format!("a port that is open has no address: {error}")))?;
        let stop = stop.clone();
        tokio::spawn(async move { front.serve(listener, stop).await });
        Ok(Self {
            services,
            port: address.port(),
            _registration: registration,
        })
    }
}

/// Makes volumes for claims until `stop`, as a seed's storage driver does.
async fn provision(path: &Path, clock: Clock, entropy: Entropy, stop: CancellationToken) -> Result<(), Fault> {
    let hint = "name the kubeconfig of who makes volumes with --provisioner-kubeconfig";
    let kubeconfig = read_with_files(path, hint).await?;
    let client = Https::new("orangery-provisioner")
        .with_token_files()
        .client(&kubeconfig)?;
    let options = Options {
        controllers: [Name::PersistentVolume].into(),
        ..Options::all(clock, entropy)
    };
    tokio::spawn(cluster_controllers::run(client, options, stop));
    Ok(())
}

fn bug(error: SecretError) -> Fault {
    Fault::bug(error.to_string())
}
