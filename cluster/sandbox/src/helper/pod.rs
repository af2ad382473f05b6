//! The helper of a pod: holds its user, network, UTS and IPC namespaces and hands out sockets of its network, until the
//! parent is gone. Never sends a byte over the network itself.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};

use nix::sched::CloneFlags;
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use super::{Done, errno, namespaces, netlink, nftables};
use crate::wire::{During, FromPod, NeedSocket, StartPod, Step, receive_blocking, send_blocking};

/// The port at which redirected connections and DNS queries arrive. No program needs it: nothing listens on
/// `tcpmux`, and it lies outside the ports that the kernel gives to clients.
pub(crate) const REDIRECT_PORT: u16 = 1;

pub(super) fn run(socket: &OwnedFd) -> i32 {
    let start = match receive_blocking::<StartPod>(socket) {
        Ok(Some((start, _))) => start,
        Ok(None) => return 0,
        Err(_) => return 2,
    };
    let sent = match set_up(&start) {
        Ok(sockets) => {
            let sockets: Vec<_> = sockets.iter().map(AsFd::as_fd).collect();
            send_blocking(socket, &FromPod::Ready, &sockets)
        }
        Err(error) => {
            send_blocking(socket, &FromPod::Failed(error.into()), &[]).ok();
            return 1;
        }
    };
    if sent.is_err() {
        return 1;
    }
    while let Ok(Some((NeedSocket { id }, _))) = receive_blocking(socket) {
        if give_socket(socket, id).is_err() {
            return 1;
        }
    }
    0
}

fn set_up(start: &StartPod) -> Done<Vec<OwnedFd>> {
    namespaces::become_root_in_new(CloneFlags::empty()).during(Step::UserNamespace)?;
    namespaces::leave_for(CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWUTS | CloneFlags::CLONE_NEWIPC)
        .during(Step::NetworkNamespace)?;
    rustix::system::sethostname(start.hostname.as_bytes()).about(Step::NetworkNamespace, &start.hostname)?;
    netlink::set_up_loopback(start.address).during(Step::Loopback)?;
    // Containers have no rights over the pod's network, and still may listen on port 80.
    fs::write("/proc/sys/net/ipv4/ip_unprivileged_port_start", "0").during(Step::Loopback)?;
    nftables::redirect(start, REDIRECT_PORT).during(Step::Redirect)?;
    let place = SocketAddrV4::new(Ipv4Addr::LOCALHOST, REDIRECT_PORT);
    let mut sockets = vec![OwnedFd::from(TcpListener::bind(place).during(Step::Listen)?)];
    if start.dns.is_some() {
        sockets.push(OwnedFd::from(UdpSocket::bind(place).during(Step::Listen)?));
    }
    Ok(sockets)
}

/// A socket belongs to the network in which it was made, whoever connects it.
fn give_socket(socket: &OwnedFd, id: u64) -> io::Result<()> {
    match rustix::net::socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None) {
        Ok(made) => send_blocking(socket, &FromPod::Socket { id }, &[made.as_fd()]),
        Err(error) => {
            let errno = errno(&error.into());
            send_blocking(socket, &FromPod::NoSocket { id, errno }, &[])
        }
    }
}
