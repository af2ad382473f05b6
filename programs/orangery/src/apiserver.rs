//! `orangery apiserver`: a bare Kubernetes for a person or a test. Writes its kubeconfig, says in one line where it is,
//! and runs until it is told to stop.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use api_meta::Fault;
use base_clock::{Clock, Entropy};
use cluster_apiserver::AuditPolicy;
use cluster_bare::Cluster;
use cluster_node::{ImageCatalogue, Volumes};
use cluster_store::FileStore;

use crate::audit_file::{self, AuditFile};
use crate::kept::{self, Kept, VOLUMES};
use crate::live::Console;
use crate::{cli, data_folder, envtest, kubeconfig, landscape, up};

/// The folder of the state, in the data folder. Not the one of a landscape, so that neither takes the other for its own.
const STATE: &str = "apiserver";
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
    let state = State::open(arguments).await?;
    let Kept { store, keys } = state.kept.clone();
    let mut builder = Cluster::builder()
        .listener(listener)
        .store(store)
        .keys(cluster_bare::Keys {
            authority: keys.authority,
            clients: keys.clients,
            tokens: keys.tokens,
        });
    if arguments.node {
        builder = builder.node(ImageCatalogue::new().simulating(), state.volumes.clone());
    }
    let audit = audit(arguments)?;
    if let Some((policy, file)) = &audit {
        builder = builder.audit(policy.clone(), Arc::new(file.clone()));
    }
    let ended = run_on(builder, arguments, stop, console).await;
    state.close().await;
    if let Some((_, file)) = audit {
        file.flush();
    }
    ended
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

async fn run_on(
    builder: cluster_bare::Builder,
    arguments: &cli::Apiserver,
    stop: impl Future<Output = ()>,
    console: &Console,
) -> Result<(), Fault> {
    let cluster = builder.start().await?;
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
    let kept = if arguments.memory { "in memory alone" } else { "kept" };
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
            });
        }
        let folder = state_of(&arguments.data_dir);
        data_folder::make("the state's folder", &folder)?;
        kept::check(&folder)?;
        let kept = kept::open(&folder, NAME, &clock, &entropy, &mut files).await?;
        kept.keys.check(NAME, &clock)?;
        let path = folder.join(VOLUMES);
        let volumes =
            Volumes::in_folder(&path).map_err(|error| data_folder::unusable("open the volumes in", &path, &error))?;
        Ok(Self { kept, volumes, files })
    }

    async fn close(self) {
        for store in &self.files {
            if let Err(error) = store.close().await {
                tracing::warn!("not closed in order: {error}");
            }
        }
    }
}

fn state_of(data_dir: &Path) -> PathBuf {
    data_dir.join(STATE)
}

/// A landscape's folder stays a landscape's: who named it here has mistaken it for another.
fn refuse_landscape(data_dir: &Path) -> Result<(), Fault> {
    refuse(&data_dir.join(up::STATE), data_dir, "a landscape of `orangery up`")
}

/// The other way round, for `up`.
pub(crate) fn refuse_folder(data_dir: &Path) -> Result<(), Fault> {
    refuse(
        &state_of(data_dir),
        data_dir,
        "the Kubernetes of an `orangery apiserver`",
    )
}

fn refuse(state: &Path, data_dir: &Path, what: &str) -> Result<(), Fault> {
    if !kept::is_in(state) {
        return Ok(());
    }
    let why = format!("the data folder {} holds {what}", data_dir.display());
    Err(Fault::user(why).hint("name another folder with --data-dir"))
}
