//! Addresses as URLs write them, and which of them lead to the machine of this server itself. It opens no connection.

use std::net::IpAddr;

use base_client::{Dialer, HttpService};

/// A host as it is written before a port: an IPv6 address in brackets.
pub(crate) fn bracketed(host: &str) -> String {
    match host.contains(':') {
        true => format!("[{host}]"),
        false => host.to_owned(),
    }
}

/// Whether an address may be another machine's: not this machine itself, nor its link, where services of clouds give out
/// credentials (Go's `IP.IsGlobalUnicast`).
pub(crate) fn is_reachable(ip: IpAddr) -> bool {
    let ip = ip.to_canonical();
    let special = match ip {
        IpAddr::V4(ip) => ip.is_link_local() || ip.is_broadcast(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    !(ip.is_unspecified() || ip.is_loopback() || ip.is_multicast() || special)
}

/// What is behind the address and port of a pod.
pub enum PodPort {
    /// A server of this process.
    Http(HttpService),
    /// A program on a node of this process.
    Bytes(Dialer),
    /// A pod of this process that does not listen there.
    Closed,
    /// No pod of this process.
    Elsewhere,
}

/// Finds what is behind an address and port.
pub(crate) type Pods = Box<dyn Fn(IpAddr, u16) -> PodPort + Send + Sync>;
