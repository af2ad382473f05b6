//! `orangery apiserver`: a bare Kubernetes for a person or a test. Writes its kubeconfig, says in one line where it is,
//! and runs until it is told to stop.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use api_meta::Fault;
use base_clock::{Clock, Entropy};
use cluster_apiserver::AuditPolicy;
use cluster_bare::{Cluster, KubeletAccess};
use cluster_node::{ImageCatalogue, Volumes};
use cluster_programs::{AtAddress, ImageFile};
use cluster_store::FileStore;
use cluster_store_etcd::EtcdStore;

use crate::audit_file::{self, AuditFile};
use crate::kept::{self, Kept, VOLUMES};
use crate::live::Console;
use crate::{cli, data_folder, envtest, kubeconfig, landscape, on_etcd, program_images, up};

/// The folder of the state, in the data folder. Not the one of a landscape, so that neither takes the other for its own.
const STATE: &str = "apiserver";
/// The same of what keeps its objects in an etcd: keys, and the volumes of a node.
const STATE_ON_ETCD: &str = "apiserver-on-etcd";
/// The API server's name in it.
const NAME: &str = "kubernetes";
/// How long parts may take to end: twice what a node gives its pods.
const STOP_PATIENCE: Duration = Duration::from_secs(10);

/// Runs the command until `stop` is done.
///
/// # Errors
/// A data folder that cannot be used or is a landscape's, a port that is taken.
pub async fn run(arguments: &cli::Apiserver, stop: impl Future<Output = ()>, console: &Console) -> Result<(), Fault> {
    if let Some(folder) = &arguments.envtest_assets {
        return envtest::write_assets(folder, console);
    }
    let folder = &arguments.data_dir;
    // As `up`: where there is a folder, it tells who is in the way; where there is none, none is made in vain.
    let fresh = !folder.exists();
    let vacant = if fresh {
        Some(landscape::bind(arguments.port).await?)
    } else {
        None
    };
    data_folder::make("the data folder", folder)?;
    let _owned = data_folder::take(folder, "apiserver")?;
    refuse_landscape(folder)?;
    let listener = match vacant {
        Some(listener) => listener,
        None => landscape::bind(arguments.port).await?,
    };
    let address = listener
        .local_addr()
        .map_err(|error| Fault::bug(format!("a port that is open has no address: {error}")))?;
    let audit = audit(arguments)?;
    let state = State::open(arguments).await?;
    let Kept { store, keys } = state.kept.clone();
    let etcd = &arguments.etcd;
    let mut builder = Cluster::builder()
        .kubelets(kubelets(&arguments.kubelets)?)
        .listener(listener)
        .store(store)
        .keys(cluster_bare::Keys {
            authority: keys.authority,
            clients: keys.clients,
            tokens: keys.tokens,
        });
    if !etcd.etcd_servers.is_empty() {
        builder = builder.replicated(etcd.leader_elect);
    }
    if arguments.node {
        let catalogue = catalogue(arguments, address, console).await?;
        builder = builder
            .node(catalogue, state.volumes.clone())
            .node_name(&arguments.node_name);
    }
    if let Some((policy, file)) = &audit {
        builder = builder.audit(policy.clone(), Arc::new(file.clone()));
    }
    let ended = run_on(builder, arguments, &state, stop, console).await;
    state.close().await;
    if let Some((_, file)) = audit {
        file.flush();
    }
    ended
}

/// What the node runs: programs of this machine where they are asked for, and it pretends to run all else. `address`: where
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
    program_images::tell_isolation(console).await;
    let servers = Arc::new(AtAddress(address));
    let programs = program_images::programs(&file, &arguments.data_dir, NAME, servers)?;
    Ok(programs.add_to(catalogue))
}

/// The audit log and what belongs into it, if it is asked for.
fn audit(arguments: &cli::Apiserver) -> Result<Option<(AuditPolicy, AuditFile)>, Fault> {
    let (Some(log), Some(policy)) = (&arguments.audit_log_path, &arguments.audit_policy_file) else {
        return Ok(None);
    };
    let unusable =
        |path: &Path, why: &str| Fault::user(format!("the audit policy {} cannot be used: {why}", path.display()));
    let text = std::fs::read_to_string(policy).map_err(|error| unusable(policy, &error.to_string()))?;
    let read = AuditPolicy::read(&text).map_err(|why| unusable(policy, &why))?;
    let options = audit_file::Options {
        path: log.clone(),
        file_bytes_max: u64::from(arguments.audit_log_maxsize) << 20,
        kept_max: arguments.audit_log_maxbackup,
    };
    let file = AuditFile::open(options, Clock::real()).map_err(|error| {
        Fault::user(format!("the audit log {} cannot be written: {error}", log.display()))
            .hint("name a file in a folder that is there with --audit-log-path")
    })?;
    Ok(Some((read, file)))
}

/// How kubelets are asked. Errors: a file that cannot be read.
fn kubelets(flags: &cli::Kubelets) -> Result<KubeletAccess, Fault> {
    let certificate = on_etcd::read(
        "--kubelet-client-certificate",
        flags.kubelet_client_certificate.as_ref(),
    )?;
    let key = on_etcd::read("--kubelet-client-key", flags.kubelet_client_key.as_ref())?;
    Ok(KubeletAccess {
        identity: certificate.zip(key.map(String::into_bytes)),
        authorities: on_etcd::read(
            "--kubelet-certificate-authority",
            flags.kubelet_certificate_authority.as_ref(),
        )?,
        preferred: flags.kubelet_preferred_address_types.clone(),
    })
}

async fn run_on(
    builder: cluster_bare::Builder,
    arguments: &cli::Apiserver,
    state: &State,
    stop: impl Future<Output = ()>,
    console: &Console,
) -> Result<(), Fault> {
    let cluster = builder.start().await?;
    if let Some(etcd) = &state.etcd {
        let is_connected = etcd.is_connected();
        cluster.server().readiness().add("etcd", move || {
            let down = "the watches of etcd broke, and it is not reached again yet";
            is_connected().then_some(()).ok_or_else(|| down.to_owned())
        });
    }
    let path = kubeconfig::path(&arguments.data_dir, "admin");
    kubeconfig::write(&path, cluster.kubeconfig())?;
    console.say(&ready(&path, cluster.url(), arguments));
    stop.await;
    if tokio::time::timeout(STOP_PATIENCE, cluster.stop()).await.is_err() {
        tracing::warn!("not everything ended within {STOP_PATIENCE:?}");
    }
    Ok(())
}

/// Where it is, how to use it, how long it is there.
fn ready(path: &Path, url: &str, arguments: &cli::Apiserver) -> String {
    // Another terminal may stand in another folder.
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let kept = match (arguments.memory, arguments.etcd.etcd_servers.is_empty()) {
        (true, _) => "in memory alone",
        (false, true) => "kept",
        (false, false) => "kept in etcd",
    };
    format!(
        "ready: {url}, {kept}; export KUBECONFIG={}; Ctrl-C ends it",
        path.display()
    )
}

/// What outlives the process, or does not.
struct State {
    kept: Kept,
    volumes: Volumes,
    files: Vec<FileStore>,
    etcd: Option<Arc<EtcdStore>>,
}

impl State {
    async fn open(arguments: &cli::Apiserver) -> Result<Self, Fault> {
        let (clock, entropy) = (Clock::real(), Entropy::os());
        let mut files = Vec::new();
        if arguments.memory {
            return Ok(Self {
                kept: Kept::memory(NAME, &clock, &entropy)?,
                volumes: Volumes::new(),
                files,
                etcd: None,
            });
        }
        let is_on_etcd = !arguments.etcd.etcd_servers.is_empty();
        let folder = arguments.data_dir.join(if is_on_etcd { STATE_ON_ETCD } else { STATE });
        data_folder::make("the state's folder", &folder)?;
        kept::check(&folder)?;
        let (kept, etcd) = if is_on_etcd {
            let keys = kept::keys(&folder, NAME, VOLUMES, &clock, &entropy)?;
            let path = folder.join(NAME).join(kept::KEYS);
            let etcd = Arc::new(on_etcd::open(&arguments.etcd, &keys, &path).await?);
            let store = etcd.clone();
            (Kept { store, keys }, Some(etcd))
        } else {
            (
                kept::open(&folder, NAME, VOLUMES, &clock, &entropy, &mut files).await?,
                None,
            )
        };
        kept.keys.check(NAME, &clock)?;
        let path = folder.join(VOLUMES);
        let volumes =
            Volumes::in_folder(&path).map_err(|error| data_folder::unusable("open the volumes in", &path, &error))?;
        Ok(Self {
            kept,
            volumes,
            files,
            etcd,
        })
    }

    async fn close(self) {
        for store in &self.files {
            if let Err(error) = store.close().await {
                tracing::warn!("not closed in order: {error}");
            }
        }
    }
}

/// A landscape's folder stays a landscape's: who named it here has mistaken it for another.
fn refuse_landscape(data_dir: &Path) -> Result<(), Fault> {
    refuse(&data_dir.join(up::STATE), data_dir, "a landscape of `orangery up`")
}

/// The other way round, for `up`.
pub(crate) fn refuse_folder(data_dir: &Path) -> Result<(), Fault> {
    [STATE, STATE_ON_ETCD].iter().try_for_each(|state| {
        let what = "the Kubernetes of an `orangery apiserver`";
        refuse(&data_dir.join(state), data_dir, what)
    })
}

fn refuse(state: &Path, data_dir: &Path, what: &str) -> Result<(), Fault> {
    if !kept::is_in(state) {
        return Ok(());
    }
    let why = format!("the data folder {} holds {what}", data_dir.display());
    Err(Fault::user(why).hint("name another folder with --data-dir"))
}
