//! What is measured: the embedded API server as a process of its own, and real Kubernetes. Both speak JSON over TLS on
//! loopback to an administrator with a certificate.

use std::path::Path;
use std::time::{Duration, Instant};

use tests_conformance::real::{Options, Real};

use crate::load::Target;
use crate::server::{Server, Start};

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
    pub(crate) target: Target,
    /// From the start of its first process to the first `/readyz` that says ok.
    pub(crate) ready_after: Duration,
    _running: Running,
}

enum Running {
    Ours { _server: Box<Server> },
    Real { _programs: Box<Real> },
}

impl Subject {
    /// Starts it, ours from `program`, and waits until it is ready.
    pub(crate) async fn start(which: Which, program: &Path) -> Result<Self, String> {
        match which {
            Which::Memory => Self::start_ours(program, &["apiserver", "--port", "0", "--memory"]).await,
            Which::Folder => Self::start_ours(program, &["apiserver", "--port", "0"]).await,
            Which::Real | Which::RealDurable => {
                let begun = Instant::now();
                let options = Options {
                    durable: which == Which::RealDurable,
                    ..Options::default()
                };
                let real = Real::start(options).await?;
                let processes = real.processes()?.into_iter().map(|(_, number)| number);
                Ok(Self {
                    ready_after: begun.elapsed(),
                    target: Target {
                        endpoint: real.endpoint.clone(),
                        processes: processes.collect(),
                    },
                    _running: Running::Real {
                        _programs: Box::new(real),
                    },
                })
            }
        }
    }

    async fn start_ours(program: &Path, arguments: &[&str]) -> Result<Self, String> {
        let start = Start {
            program,
            arguments,
            kubeconfig: "admin.kubeconfig",
        };
        let server = Server::start(&start).await?;
        Ok(Self {
            target: server.target.clone(),
            ready_after: server.ready_after,
            _running: Running::Ours {
                _server: Box::new(server),
            },
        })
    }
}
