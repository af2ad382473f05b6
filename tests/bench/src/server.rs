//! A server of the product as a process of its own: started on a folder, reached by the kubeconfig that it writes there.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use base_secrets::SecretText;
use http::Method;
use tests_conformance::{Call, Endpoint};

use crate::load::Target;

/// Between two looks at whether the server answers.
const LOOK: Duration = Duration::from_millis(1);
/// Far beyond what any of them takes.
const GIVE_UP: Duration = Duration::from_secs(60);

/// How a server is started.
#[derive(Clone, Debug)]
pub(crate) struct Start<'a> {
    /// The measured program.
    pub(crate) program: &'a Path,
    /// Its subcommand and flags, without the folder.
    pub(crate) arguments: &'a [&'a str],
    /// The file in the folder by which its administrator gets in.
    pub(crate) kubeconfig: &'static str,
}

/// A running server; the process is killed and its folder removed when this is dropped.
pub(crate) struct Server {
    pub(crate) target: Target,
    /// When the process was started.
    pub(crate) begun: Instant,
    /// From there to the first `/readyz` that answers with success.
    pub(crate) ready_after: Duration,
    // Dropped in this order: no process is left that writes into a removed folder.
    process: Process,
    folder: Folder,
}

struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        // It may never have been made.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Server {
    /// Starts one on an empty folder and waits until it is ready.
    pub(crate) async fn start(start: &Start<'_>) -> Result<Self, String> {
        let path = std::env::temp_dir().join(format!("orangery-bench-{}", std::process::id()));
        Self::start_on(Folder(path), start).await
    }

    /// Kills it and starts it on the same folder.
    pub(crate) async fn restart(self, start: &Start<'_>) -> Result<Self, String> {
        let Self { process, folder, .. } = self;
        drop(process);
        // Until the new process has written its own, nothing is to be tried at the address of the old one.
        let kubeconfig = folder.0.join(start.kubeconfig);
        std::fs::remove_file(&kubeconfig)
            .map_err(|error| format!("cannot remove {}: {error}", kubeconfig.display()))?;
        Self::start_on(folder, start).await
    }

    /// A file of its folder.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.0.join(name)
    }

    /// What its files hold, in bytes.
    pub(crate) fn folder_bytes(&self) -> Result<u64, String> {
        bytes_below(&self.folder.0).map_err(|error| format!("cannot read {}: {error}", self.folder.0.display()))
    }

    async fn start_on(folder: Folder, start: &Start<'_>) -> Result<Self, String> {
        let begun = Instant::now();
        let mut command = Command::new(start.program);
        command.args(start.arguments).arg("--data-dir").arg(&folder.0);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let child = child.map_err(|error| format!("cannot start {}: {error}", start.program.display()))?;
        let mut process = Process(child);
        let kubeconfig = folder.0.join(start.kubeconfig);
        let endpoint = loop {
            if let Some(endpoint) = reach(&kubeconfig).await {
                break endpoint;
            }
            match process.0.try_wait() {
                Ok(None) if begun.elapsed() < GIVE_UP => tokio::time::sleep(LOOK).await,
                Ok(None) => return Err(format!("orangery is not ready after {GIVE_UP:?}")),
                Ok(Some(status)) => return Err(format!("orangery ended early ({status})")),
                Err(error) => return Err(format!("cannot look at the process: {error}")),
            }
        };
        Ok(Self {
            ready_after: begun.elapsed(),
            begun,
            target: Target {
                endpoint,
                processes: vec![process.0.id()],
            },
            process,
            folder,
        })
    }
}

fn bytes_below(folder: &Path) -> std::io::Result<u64> {
    let mut sum = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        sum += if metadata.is_dir() {
            bytes_below(&entry.path())?
        } else {
            metadata.len()
        };
    }
    Ok(sum)
}

async fn reach(kubeconfig: &Path) -> Option<Endpoint> {
    let text = std::fs::read_to_string(kubeconfig).ok()?;
    let endpoint = Endpoint::new("ours", SecretText::new(text)).ok()?;
    let ready = endpoint
        .connect()
        .await
        .ok()?
        .send(&Call::new(Method::GET, "/readyz"))
        .await
        .ok()?;
    ready.status.is_success().then_some(endpoint)
}
