//! A proxy on loopback as a company has one: it wants a password, opens tunnels (`CONNECT`, RFC 9110, 9.3.6), and alone knows where a
//! name leads, which is to one place here.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use crate::Outcome;

/// Most bytes of the head of a request.
const HEAD_BYTES_MAX: u64 = 16 << 10;

/// The proxy, which runs as long as the process.
pub struct Proxy {
    address: SocketAddr,
    requested: Arc<Mutex<Vec<String>>>,
}

impl Proxy {
    /// Who may use it.
    pub const USER: &str = "clerk";
    /// With which password.
    pub const PASSWORD: &str = "may-go-out";
    /// Both as they are shown: base64.
    const SHOWN: &str = "Y2xlcms6bWF5LWdvLW91dA==";

    /// Starts one whose tunnels all lead to `target`.
    ///
    /// # Errors
    /// The machine has no port for it.
    pub fn start(target: SocketAddr) -> Outcome<Self> {
        let failed = |error: io::Error| format!("cannot start a proxy: {error}");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed)?;
        let proxy = Self {
            address: listener.local_addr().map_err(failed)?,
            requested: Arc::default(),
        };
        let requested = Arc::clone(&proxy.requested);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let requested = Arc::clone(&requested);
                // Whoever goes in the middle has seen what there was to see.
                thread::spawn(move || drop(serve(client, target, &requested)));
            }
        });
        Ok(proxy)
    }

    /// Host and port.
    #[must_use]
    pub fn host(&self) -> String {
        self.address.to_string()
    }

    /// With user and password, as `HTTPS_PROXY` names it.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}:{}@{}", Self::USER, Self::PASSWORD, self.address)
    }

    /// Which hosts were requested so far, those it refused as well.
    #[must_use]
    pub fn requested(&self) -> Vec<String> {
        self.requested.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn serve(mut client: TcpStream, target: SocketAddr, requested: &Mutex<Vec<String>>) -> io::Result<()> {
    let mut head = String::new();
    let mut reader = BufReader::new(client.try_clone()?).take(HEAD_BYTES_MAX);
    while reader.read_line(&mut head)? > 2 {}
    let host = head.strip_prefix("CONNECT ").and_then(|rest| rest.split(' ').next());
    let Some(host) = host else {
        return client.write_all(b"HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\n\r\n");
    };
    requested
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(host.to_owned());
    let shown = format!("proxy-authorization: basic {}\r\n", Proxy::SHOWN);
    if !head.to_ascii_lowercase().contains(&shown.to_ascii_lowercase()) {
        let refusal =
            "HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n";
        return client.write_all(refusal.as_bytes());
    }
    let server = TcpStream::connect(target)?;
    client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")?;
    let (up, down) = (copy(client.try_clone()?, server.try_clone()?), copy(server, client));
    let _ = (up.join(), down.join());
    Ok(())
}

fn copy(mut from: TcpStream, mut to: TcpStream) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        let _ = io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Write);
    })
}
