//! The machine that tests run on.

use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::time::Duration;

use base_clock::{Clock, Entropy};
use base_secrets::{Authority, CertificateSpec, Issued};

use crate::Outcome;

/// How long certificates are good: longer than any test.
const VALIDITY: Duration = Duration::from_secs(3600);

/// The variable that names another cache folder than the one below the home folder.
pub const CACHE_VARIABLE: &str = "ORANGERY_CACHE";

/// A port of loopback that had no listener a moment ago.
///
/// # Errors
/// No port is free.
pub fn free_port() -> Outcome<u16> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .and_then(|listener| listener.local_addr())
        .map(|address| address.port())
        .map_err(|error| format!("no port of loopback is free: {error}"))
}

/// Where `cargo xtask real` keeps what it prepared; `None` without a home folder.
#[must_use]
pub fn cache_folder() -> Option<PathBuf> {
    match std::env::var_os(CACHE_VARIABLE) {
        Some(cache) => Some(cache.into()),
        None => Some(std::env::home_dir()?.join(".cache/orangery")),
    }
}

/// A figure of a process' memory in KiB, as `/proc/PID/status` names it: `VmRSS`, `VmHWM`. `None` when the process has gone, or
/// where the system does not tell.
#[must_use]
pub fn memory_kib(process: u32, figure: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let of_line = |line: &str| {
        let value = line.strip_prefix(figure)?.strip_prefix(':')?;
        value.trim().strip_suffix(" kB")?.parse().ok()
    };
    status.lines().find_map(of_line)
}

/// Where `cargo xtask real kubernetes` leaves etcd and Kubernetes' servers.
///
/// # Errors
/// The place of the cache is not known.
pub fn folder_of_programs() -> Outcome<PathBuf> {
    let cache = cache_folder().ok_or_else(|| {
        format!("no home folder is known: set {CACHE_VARIABLE} to the folder of `cargo xtask real kubernetes`")
    })?;
    Ok(cache.join("real/kubernetes"))
}

/// An authority, and the certificates of a server on loopback and of a client.
pub(crate) struct Certificates {
    pub(crate) authority: Authority,
    pub(crate) server: Issued,
    pub(crate) client: Issued,
}

impl Certificates {
    /// New ones; the server is also called `host`.
    pub(crate) fn new(server: &str, host: &str, client: &str) -> Outcome<Self> {
        let (clock, entropy) = (Clock::real(), Entropy::os());
        let failed = |error: &dyn std::fmt::Display| format!("the certificates of {server} cannot be made: {error}");
        let authority = Authority::generate(server, &clock, &entropy).map_err(|error| failed(&error))?;
        let local = vec![IpAddr::V4(Ipv4Addr::LOCALHOST)];
        let names = vec!["localhost".to_owned(), host.to_owned()];
        let issue = |spec| authority.issue(&spec, &clock, &entropy).map_err(|error| failed(&error));
        Ok(Self {
            server: issue(CertificateSpec::server(server, names, local, VALIDITY))?,
            client: issue(CertificateSpec::client(client, &[], VALIDITY))?,
            authority,
        })
    }
}
