//! What is measured: the embedded API server as a process of its own, and real Kubernetes. Both speak JSON over TLS on
//! loopback to an administrator with a certificate.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use base_secrets::SecretText;
use http::Method;
use tests_conformance::real::{Options, Real};
use tests_conformance::{Call, Endpoint};

use crate::process::{beside_this, processor_seconds};

/// Between two looks at whether the server answers.
const LOOK: Duration = Duration::from_millis(1);
/// Far beyond what any of them takes.
const GIVE_UP: Duration = Duration::from_secs(60);

/// What can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    /// `orangery apiserver --memory`
    Memory,
    /// `orangery apiserver`: every write is on the disk before its answer
    Folder,
    /// kube-apiserver with etcd in memory that does not wait for a disk
    Real,
    /// kube-apiserver with etcd on the disk, as it is run in earnest
    RealDurable,
}

impl Which {
    /// Ours beside the real one that promises as much.
    pub(crate) const PAIRS: [(Which, Which); 2] = [(Which::Memory, Which::Real), (Which::Folder, Which::RealDurable)];

    /// How it is named in results.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Which::Memory => "ours in memory",
            Which::Folder => "ours in a folder",
            Which::Real => "kube-apiserver, etcd in memory",
            Which::RealDurable => "kube-apiserver, etcd on disk",
        }
    }
}

/// A running server.
pub(crate) struct Subject {
    pub(crate) endpoint: Endpoint,
    /// From the start of its first process to the first `/readyz` that says ok.
    pub(crate) ready_after: Duration,
    processes: Vec<u32>,
    _running: Running,
}

enum Running {
    Ours { _process: Process },
    Real { _programs: Box<Real> },
}

struct Process {
    child: Child,
    folder: PathBuf,
}

impl Drop for Process {
    fn drop(&mut self) {
        // The process may have ended already; the folder may never have been made.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Subject {
    /// Starts it and waits until it is ready.
    pub(crate) async fn start(which: Which) -> Result<Self, String> {
        let begun = Instant::now();
        match which {
            Which::Memory | Which::Folder => Self::start_ours(which, begun).await,
            Which::Real | Which::RealDurable => {
                let options = Options {
                    durable: which == Which::RealDurable,
                    ..Options::default()
                };
                let real = Real::start(options).await?;
                let processes = real.processes()?.into_iter().map(|(_, number)| number);
                Ok(Self {
                    endpoint: real.endpoint.clone(),
                    ready_after: begun.elapsed(),
                    processes: processes.collect(),
                    _running: Running::Real {
                        _programs: Box::new(real),
                    },
                })
            }
        }
    }

    async fn start_ours(which: Which, begun: Instant) -> Result<Self, String> {
        let binary = beside_this("orangery")?;
        let folder = std::env::temp_dir().join(format!("orangery-bench-api-{}", std::process::id()));
        let mut command = Command::new(&binary);
        command.args(["apiserver", "--port", "0", "--data-dir"]).arg(&folder);
        if which == Which::Memory {
            command.arg("--memory");
        }
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let child = child.map_err(|error| format!("cannot start {}: {error}", binary.display()))?;
        let mut process = Process { child, folder };
        let kubeconfig = process.folder.join("admin.kubeconfig");
        let endpoint = loop {
            if let Some(endpoint) = reach(&kubeconfig).await {
                break endpoint;
            }
            match process.child.try_wait() {
                Ok(None) if begun.elapsed() < GIVE_UP => tokio::time::sleep(LOOK).await,
                Ok(None) => return Err(format!("orangery apiserver is not ready after {GIVE_UP:?}")),
                Ok(Some(status)) => return Err(format!("orangery apiserver ended early ({status})")),
                Err(error) => return Err(format!("cannot look at the process: {error}")),
            }
        };
        Ok(Self {
            endpoint,
            ready_after: begun.elapsed(),
            processes: vec![process.child.id()],
            _running: Running::Ours { _process: process },
        })
    }

    /// Seconds that processors have worked for all of its processes since they began.
    pub(crate) fn processor_seconds(&self) -> f64 {
        self.processes.iter().map(|number| processor_seconds(*number)).sum()
    }

    /// What all of its processes hold in memory now, in megabytes.
    pub(crate) fn megabytes(&self) -> f64 {
        self.processes.iter().map(|number| megabytes(*number)).sum()
    }
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

/// What cannot be read makes the result no number, so that nobody takes it for one.
fn megabytes(process: u32) -> f64 {
    crate::process::megabytes(process, "VmRSS").unwrap_or(f64::NAN)
}
