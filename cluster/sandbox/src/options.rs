//! What a caller states about pods, containers and commands, and how they end. Values only.

use std::ffi::OsString;
use std::net::Ipv4Addr;
use std::path::PathBuf;

/// A pod's place in the network.
#[derive(Clone, Debug)]
pub struct PodOptions {
    /// The name that `hostname` prints, at most 64 bytes.
    pub hostname: String,
    /// The pod's own address; programs of other pods reach it through the caller alone.
    pub address: Ipv4Addr,
    /// The address of the DNS server: datagrams to its port 53 arrive at [`Pod::dns`](crate::Pod::dns).
    pub dns: Option<Ipv4Addr>,
    /// A port of 127.0.0.1 that leads out of the pod: connections to it arrive at [`Pod::accept`](crate::Pod::accept) too,
    /// whether or not a program of the pod listens there ([`Pod::connect_loopback`](crate::Pod::connect_loopback) shows).
    pub redirected_loopback_port: Option<u16>,
}

/// A program and what it finds: the host's files, but for `/tmp`, `/run` and `/dev`, which are the container's own. A
/// program that lies there needs a mount.
#[derive(Clone, Debug, Default)]
pub struct ContainerOptions {
    /// The program, an absolute path in the container, and its arguments.
    pub command: Vec<OsString>,
    /// The whole environment: nothing is inherited.
    pub env: Vec<(OsString, OsString)>,
    /// A folder in the container; must exist there.
    pub working_dir: PathBuf,
    /// Folders and single files of the host at paths of the container, which need not exist on the host.
    pub mounts: Vec<Mount>,
    /// Folders of the host that are shown empty.
    pub hidden: Vec<PathBuf>,
    /// Limits of the program and of everything that it starts.
    pub limits: Limits,
}

/// A folder or a file of the host at a path of the container.
///
/// A path inside another mount, if it is missing there, is created in that mount's source, as container engines do.
/// A single file stays the file that it was when the container started, whatever is renamed over it.
#[derive(Clone, Debug)]
pub struct Mount {
    /// A folder or file of the host; links are followed.
    pub source: PathBuf,
    /// The part of the source that is mounted; empty for all of it. Programs may have written it: a link in it is followed
    /// within the source, and one that leads out of the source is an error.
    pub sub_path: PathBuf,
    /// An absolute path in the container.
    pub path: PathBuf,
    /// Whether the program may write to it.
    pub writable: bool,
}

/// Limits per process (`setrlimit`). `None` inherits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Limits {
    /// Open files of one process.
    pub open_files: Option<u64>,
    /// Bytes of private writable memory of one process (`RLIMIT_DATA`). Runtimes that reserve memory ahead count in full.
    pub memory: Option<u64>,
    /// Bytes of one file.
    pub file_size: Option<u64>,
    /// Processes and threads of the container. The kernel does not apply it to root of the host.
    pub processes: Option<u64>,
}

/// A further command in a running container.
#[derive(Clone, Debug, Default)]
pub struct ExecOptions {
    /// The program and its arguments. Without `/` it is looked for along the `PATH` of `env`.
    pub command: Vec<OsString>,
    /// The whole environment; `None` is the container's.
    pub env: Option<Vec<(OsString, OsString)>>,
    /// A folder in the container; `None` is the container's.
    pub working_dir: Option<PathBuf>,
    /// Its three streams are a terminal of its own, which controls it: see [`Exec::terminal`](crate::Exec::terminal).
    pub terminal: bool,
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Ended {
    /// By itself, with this code.
    Exited(i32),
    /// By this signal.
    Signaled(i32),
}

impl Ended {
    /// The exit code as shells and kubelets show it: 128 and the signal's number for an end by a signal.
    #[must_use]
    pub const fn code(self) -> i32 {
        match self {
            Self::Exited(code) => code,
            Self::Signaled(signal) => 128 + signal,
        }
    }
}

/// A signal, by its number on Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signal(pub i32);

impl Signal {
    /// Hang-up; many programs read their configuration again.
    pub const HUP: Self = Self(1);
    /// Interrupt, as Ctrl-C sends it.
    pub const INT: Self = Self(2);
    /// Quit.
    pub const QUIT: Self = Self(3);
    /// Ends any program.
    pub const KILL: Self = Self(9);
    /// For the program's own use.
    pub const USR1: Self = Self(10);
    /// For the program's own use.
    pub const USR2: Self = Self(12);
    /// Requests the end of a program.
    pub const TERM: Self = Self(15);
}

/// Why pods cannot have namespaces here: one sentence with one thing to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Missing(pub(crate) String);
