//! A pod: its namespaces, the connections into it and out of it. What may be reached is its owner's decision.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket, TcpStream, UdpSocket};

use crate::container::Running;
use crate::helper::{self, REDIRECT_PORT, Role};
use crate::process::Process;
use crate::wire::{self, FromPod, NeedSocket, StartPod, StepError};
use crate::{Container, ContainerOptions, PodOptions};

/// Namespaces take milliseconds; a machine that swaps takes longer. After this the helper is stuck.
pub(crate) const START_TIMEOUT: Duration = Duration::from_secs(30);

/// One user, network, UTS and IPC namespace. Dropped, it ends with everything that runs in it.
#[derive(Debug)]
pub struct Pod {
    program: PathBuf,
    address: Ipv4Addr,
    redirected_loopback_port: Option<u16>,
    helper: Process,
    /// Held while a request is under way.
    requests: tokio::sync::Mutex<Requests>,
    outgoing: TcpListener,
    dns: Option<UdpSocket>,
    containers: Mutex<Vec<Weak<Running>>>,
}

#[derive(Debug, Default)]
struct Requests {
    reader: wire::Reader,
    last: u64,
}

impl Pod {
    /// Makes a pod's namespaces. `program` is an executable whose `main` begins with [`crate::run_if_helper`],
    /// normally `/proc/self/exe`.
    ///
    /// # Errors
    /// The helper cannot be started or one of its steps is refused, which the message names.
    pub async fn start(program: &Path, options: PodOptions) -> io::Result<Self> {
        tokio::time::timeout(START_TIMEOUT, Self::start_helper(program, options))
            .await
            .map_err(|_| io::Error::new(io::ErrorKind::TimedOut, "the pod's helper does not answer"))?
    }

    async fn start_helper(program: &Path, options: PodOptions) -> io::Result<Self> {
        check_program(program)?;
        let PodOptions {
            hostname,
            address,
            dns,
            redirected_loopback_port,
        } = options;
        let mut command = helper::command(program, Role::Pod);
        command.stdout(Stdio::null());
        let (helper, _) = Process::start(command).await?;
        let start = StartPod {
            hostname,
            address,
            dns,
            redirected_loopback_port,
        };
        wire::send(&helper.socket, &start, &[]).await?;
        let mut reader = wire::Reader::default();
        let mut files = match wire::receive(&helper.socket, &mut reader).await? {
            Some((FromPod::Ready, files)) => files.into_iter(),
            Some((FromPod::Failed(failure), _)) => return Err(StepError::from(failure).into()),
            Some(_) | None => return Err(silent()),
        };
        let outgoing = std::net::TcpListener::from(files.next().ok_or_else(silent)?);
        outgoing.set_nonblocking(true)?;
        let dns = files.next().map(udp_socket).transpose()?;
        Ok(Self {
            program: program.to_owned(),
            address,
            redirected_loopback_port,
            helper,
            requests: tokio::sync::Mutex::new(Requests { reader, last: 0 }),
            outgoing: TcpListener::from_std(outgoing)?,
            dns,
            containers: Mutex::default(),
        })
    }

    /// A connection to a port of the pod, from the pod's own address: at its address, then at 127.0.0.1.
    ///
    /// # Errors
    /// Nothing listens there, or the pod has ended.
    pub async fn connect(&self, port: u16) -> io::Result<TcpStream> {
        self.connect_from(None, port).await
    }

    /// As [`Pod::connect`]; the program sees `source` as the address of its peer. Any IPv4 address can be stated.
    ///
    /// # Errors
    /// Nothing listens there, or the pod has ended.
    pub async fn connect_from(&self, source: Option<Ipv4Addr>, port: u16) -> io::Result<TcpStream> {
        let socket = self.socket(source).await?;
        match socket.connect(SocketAddr::from((self.address, port))).await {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => self.connect_loopback(port).await,
            connected => connected,
        }
    }

    /// A connection to a port of the pod's 127.0.0.1, never one that leads out of the pod: at the redirected port its peer is
    /// the pod's own address.
    ///
    /// # Errors
    /// Nothing listens there, or the pod has ended.
    pub async fn connect_loopback(&self, port: u16) -> io::Result<TcpStream> {
        // From 127.0.0.1 the connection would be redirected to its own caller.
        let is_redirected = self.redirected_loopback_port == Some(port);
        let socket = self.socket(is_redirected.then_some(self.address)).await?;
        socket.connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await
    }

    /// A socket of the pod's network.
    async fn socket(&self, source: Option<Ipv4Addr>) -> io::Result<TcpSocket> {
        let socket = TcpSocket::from_std_stream(self.new_socket().await?.into());
        if let Some(source) = source {
            socket.bind(SocketAddr::from((source, 0)))?;
        }
        Ok(socket)
    }

    async fn new_socket(&self) -> io::Result<OwnedFd> {
        let mut requests = self.requests.lock().await;
        requests.last += 1;
        let wanted = requests.last;
        wire::send_now(&self.helper.socket, &NeedSocket { id: wanted })?;
        loop {
            // Answers to requests whose caller was dropped come first.
            match wire::receive(&self.helper.socket, &mut requests.reader).await? {
                Some((FromPod::Socket { id }, files)) if id == wanted => {
                    let socket = files.into_iter().next().ok_or_else(silent)?;
                    rustix::io::ioctl_fionbio(&socket, true)?;
                    return Ok(socket);
                }
                Some((FromPod::NoSocket { id, errno }, _)) if id == wanted => {
                    return Err(io::Error::from_raw_os_error(errno));
                }
                Some(_) => {}
                None => return Err(silent()),
            }
        }
    }

    /// The next connection that a program of the pod opened to an address that is not the pod's own, or to the redirected
    /// port of 127.0.0.1, and that address.
    ///
    /// # Errors
    /// This process has no more files.
    pub async fn accept(&self) -> io::Result<(TcpStream, SocketAddrV4)> {
        loop {
            let (stream, _) = self.outgoing.accept().await?;
            let is_redirected = |dialled: SocketAddrV4| {
                !dialled.ip().is_loopback() || Some(dialled.port()) == self.redirected_loopback_port
            };
            // Without an original destination, or with a local one, a program has dialled the listener itself.
            match rustix::net::sockopt::ip_original_dst(&stream) {
                Ok(dialled) if is_redirected(dialled) => return Ok((stream, dialled)),
                Ok(_) | Err(_) => drop(stream),
            }
        }
    }

    /// Queries to port 53 of the DNS address, if one was given. Answers go to the sender of the query.
    pub fn dns(&self) -> Option<&UdpSocket> {
        self.dns.as_ref()
    }

    /// TCP ports that programs of the pod listen on now, in order.
    ///
    /// # Errors
    /// The pod has ended.
    pub fn listening(&self) -> io::Result<Vec<u16>> {
        let mut ports = Vec::new();
        for table in ["tcp", "tcp6"] {
            let path = format!("/proc/{}/net/{table}", self.helper.id());
            match std::fs::read_to_string(path) {
                Ok(text) => ports.extend(text.lines().skip(1).filter_map(listening_port)),
                // A kernel without IPv6.
                Err(error) if table == "tcp6" && error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        ports.retain(|port| *port != REDIRECT_PORT);
        ports.sort_unstable();
        ports.dedup();
        Ok(ports)
    }

    /// Starts a program in the pod, with a root of its own.
    ///
    /// # Errors
    /// A mount, the working folder or the program cannot be had; the message names the step.
    pub async fn start_container(&self, options: ContainerOptions) -> io::Result<Container> {
        let container = Container::start(&self.program, self.helper.id(), options).await?;
        let mut containers = self.containers.lock().unwrap_or_else(PoisonError::into_inner);
        containers.retain(|container| container.strong_count() > 0);
        containers.push(Arc::downgrade(container.running()));
        Ok(container)
    }
}

impl Drop for Pod {
    fn drop(&mut self) {
        let containers = std::mem::take(self.containers.get_mut().unwrap_or_else(PoisonError::into_inner));
        for container in containers.iter().filter_map(Weak::upgrade) {
            container.kill();
        }
    }
}

fn check_program(program: &Path) -> io::Result<()> {
    if program == Path::new("/proc/self/exe") && !helper::is_ready() {
        return Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "this program cannot be its own helper: its main function must begin with run_if_helper",
        ));
    }
    Ok(())
}

pub(crate) fn silent() -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, "the helper ended without an answer")
}

fn udp_socket(file: OwnedFd) -> io::Result<UdpSocket> {
    let socket = std::net::UdpSocket::from(file);
    socket.set_nonblocking(true)?;
    UdpSocket::from_std(socket)
}

/// The port of a line of /proc/net/tcp, if it is of a socket that listens.
fn listening_port(line: &str) -> Option<u16> {
    const LISTEN: &str = "0A";
    let mut fields = line.split_whitespace().skip(1);
    let local = fields.next()?;
    let state = fields.nth(1)?;
    let (_, port) = local.rsplit_once(':')?;
    (state == LISTEN).then(|| u16::from_str_radix(port, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::listening_port;

    #[test]
    fn only_sockets_that_listen_have_a_port() {
        let line = "   0: 0100007F:0001 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1";
        assert_eq!(listening_port(line), Some(1));
        assert_eq!(listening_port(&line.replace(" 0A ", " 01 ")), None);
        assert_eq!(listening_port(""), None);
    }
}
