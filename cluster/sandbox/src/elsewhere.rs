//! The same names on systems without namespaces: nothing starts, and the reason is stated.

use std::io;
use std::net::SocketAddrV4;
use std::path::Path;

use tokio::net::{TcpStream, UdpSocket};
use tokio::process::{ChildStderr, ChildStdout};

use crate::{ContainerOptions, Ended, ExecOptions, Missing, PodOptions, Signal};

const REASON: &str = "namespaces exist on Linux only: run programs without them, on ports of their own";

/// Returns: no process is a helper here.
pub fn run_if_helper() {}

/// Why pods cannot have namespaces here.
///
/// # Errors
/// Always.
pub fn available() -> Result<(), Missing> {
    Err(Missing(REASON.to_owned()))
}

/// Why pods cannot have namespaces here.
///
/// # Errors
/// Always.
pub fn available_with(_program: &Path) -> Result<(), Missing> {
    available()
}

/// Never made on this system.
#[derive(Debug)]
pub enum Pod {}

/// Never made on this system.
#[derive(Debug)]
pub enum Container {}

/// Never made on this system.
#[derive(Debug)]
pub enum Exec {}

/// Never made on this system.
#[derive(Debug)]
pub struct Terminal {
    /// What it shows.
    pub screen: tokio::net::unix::pipe::Receiver,
    /// What is typed.
    pub keyboard: tokio::net::unix::pipe::Sender,
    /// How large it is.
    pub size: TerminalSize,
}

/// Never made on this system.
#[derive(Clone, Copy, Debug)]
pub enum TerminalSize {}

#[expect(missing_docs, reason = "documented where it exists")]
impl TerminalSize {
    pub fn set(&self, _columns: u16, _rows: u16) -> io::Result<()> {
        match *self {}
    }
}

#[expect(missing_docs, reason = "documented where it exists")]
impl Pod {
    pub async fn start(_program: &Path, _options: PodOptions) -> io::Result<Self> {
        Err(io::Error::new(io::ErrorKind::Unsupported, REASON))
    }

    pub async fn connect(&self, _port: u16) -> io::Result<TcpStream> {
        match *self {}
    }

    pub async fn connect_from(&self, _source: Option<std::net::Ipv4Addr>, _port: u16) -> io::Result<TcpStream> {
        match *self {}
    }

    pub async fn connect_loopback(&self, _port: u16) -> io::Result<TcpStream> {
        match *self {}
    }

    pub async fn accept(&self) -> io::Result<(TcpStream, SocketAddrV4)> {
        match *self {}
    }

    pub fn dns(&self) -> Option<&UdpSocket> {
        match *self {}
    }

    pub fn listening(&self) -> io::Result<Vec<u16>> {
        match *self {}
    }

    pub async fn start_container(&self, _options: ContainerOptions) -> io::Result<Container> {
        match *self {}
    }
}

#[expect(missing_docs, reason = "documented where it exists")]
impl Container {
    pub fn output(&mut self) -> Option<(ChildStdout, ChildStderr)> {
        match *self {}
    }

    pub fn first_process(&self) -> u32 {
        match *self {}
    }

    pub fn signal(&self, _signal: Signal) -> io::Result<()> {
        match *self {}
    }

    pub fn kill(&self) {
        match *self {}
    }

    pub async fn wait(&self) -> Ended {
        match *self {}
    }

    pub async fn exec(&self, _options: ExecOptions) -> io::Result<Exec> {
        match *self {}
    }
}

#[expect(missing_docs, reason = "documented where it exists")]
impl Exec {
    pub fn terminal(&mut self) -> Option<Terminal> {
        match *self {}
    }

    pub fn input(&mut self) -> Option<tokio::net::unix::pipe::Sender> {
        match *self {}
    }

    pub fn output(&mut self) -> Option<(ChildStdout, ChildStderr)> {
        match *self {}
    }

    pub fn kill(&self) {
        match *self {}
    }

    pub async fn wait(&self) -> Ended {
        match *self {}
    }
}
