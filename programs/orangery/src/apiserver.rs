//! `orangery apiserver`: a bare Kubernetes for a person or a test. Writes its kubeconfig, prints in one line where it is,
//! and runs until it is stopped.

use std::net::SocketAddr;
use std::sync::Arc;

use api_meta::Fault;
use cluster_bare::KubeletAccess;
use cluster_node::ImageCatalogue;
use cluster_programs::{AtAddress, ImageFile};
use landscape_data_folder::audit_file::{self, Audit};
use landscape_data_folder::on_etcd::{EtcdSettings, read_pem};
use landscape_data_folder::server_state::{self, Owner, Place, ServerState};
use landscape_images::programs;
use landscape_terminal::Console;

use crate::{cli, envtest_assets, serve};

/// The API server's name in its state.
const NAME: &str = "kubernetes";

/// How a certificate begins in PEM.
const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----";

/// Runs the command until `stop` is done.
///
/// # Errors
/// A data folder that cannot be used or is a landscape's, a port that is taken.
pub(crate) async fn run(
    arguments: &cli::Apiserver,
    stop: impl Future<Output = ()>,
    console: &Console,
) -> Result<(), Fault> {
    if let Some(folder) = &arguments.envtest_assets {
        return envtest_assets::write(folder, console);
    }
    let cli::Apiserver {
        data_dir,
        memory,
        port,
        etcd,
        ..
    } = arguments;
    let claimed = server_state::claim(Owner::Kubernetes, "apiserver", data_dir, *port).await?;
    let address = claimed
        .listener
        .local_addr()
        .map_err(|error| Fault::bug(format!("a port that is open has no address: {error}")))?;
    let audit = audit(arguments)?;
    let etcd = EtcdSettings::from(etcd);
    let place = Place {
        owner: Owner::Kubernetes,
        name: NAME,
        data_dir,
        memory: *memory,
        etcd: &etcd,
    };
    let state = ServerState::open(&place).await?;
    let mut builder = state
        .cluster(claimed.listener, &etcd)
        .kubelets(kubelets(&arguments.kubelets)?);
    if arguments.node {
        let catalogue = catalogue(arguments, address, console).await?;
        builder = builder
            .node(catalogue, state.volumes.clone())
            .node_name(&arguments.node_name);
    }
    if let Some(audit) = &audit {
        builder = builder.audit(audit.policy.clone(), Arc::new(audit.file.clone()));
    }
    let ended = run_on(builder, &place, &state, stop, console).await;
    state.close().await;
    if let Some(audit) = audit {
        audit.file.flush();
    }
    ended
}

/// What the node runs: programs of this machine where `--images` names them, and simulates all else. `address`: where
/// the API server listens.
async fn catalogue(
    arguments: &cli::Apiserver,
    address: SocketAddr,
    console: &Console,
) -> Result<ImageCatalogue, Fault> {
    let catalogue = ImageCatalogue::new().simulating();
    let Some(file) = &arguments.images else {
        return Ok(catalogue);
    };
    let file = ImageFile::read(file)?;
    if let Some(shared) = programs::shared_with_machine().await {
        console.print(&shared);
    }
    let servers = Arc::new(AtAddress(address));
    let programs = programs::programs(&file, &arguments.data_dir, NAME, servers)?;
    Ok(programs.add_to(catalogue))
}

/// The audit log and its policy, if flags enable it.
fn audit(arguments: &cli::Apiserver) -> Result<Option<Audit>, Fault> {
    arguments.audit.settings().as_ref().map(audit_file::open).transpose()
}

/// How kubelets are accessed. Errors: a file that cannot be read.
fn kubelets(flags: &cli::Kubelets) -> Result<KubeletAccess, Fault> {
    let certificate = read_pem(
        "--kubelet-client-certificate",
        flags.kubelet_client_certificate.as_ref(),
    )?;
    let key = read_pem("--kubelet-client-key", flags.kubelet_client_key.as_ref())?;
    let of_authority = "--kubelet-certificate-authority";
    let authorities = read_pem(of_authority, flags.kubelet_certificate_authority.as_ref())?;
    if authorities.as_ref().is_some_and(|pem| !pem.contains(CERTIFICATE)) {
        let path = flags.kubelet_certificate_authority.clone().unwrap_or_default();
        let fault = Fault::user(format!("{} of {of_authority} holds no certificate", path.display()));
        return Err(fault.hint(format!(
            "name a PEM file with the authority's certificate with {of_authority}"
        )));
    }
    Ok(KubeletAccess {
        identity: certificate.zip(key.map(String::into_bytes)),
        authorities,
        preferred: flags.kubelet_preferred_address_types.clone(),
    })
}

async fn run_on(
    builder: cluster_bare::Builder,
    place: &Place<'_>,
    state: &ServerState,
    stop: impl Future<Output = ()>,
    console: &Console,
) -> Result<(), Fault> {
    let cluster = builder.start().await?;
    state.watch_etcd(&cluster);
    serve::serve(cluster, place, "admin", stop, console).await
}
