//! A port that leads to one of several others, as a Service's address does: to the next one that takes connections.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// The port, until it is dropped.
pub struct Balancer {
    port: u16,
    task: JoinHandle<()>,
}

impl Balancer {
    /// Opens a free port of loopback that leads to these.
    ///
    /// # Panics
    /// No port is free.
    pub async fn start(ports: Vec<u16>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (ports, next) = (Arc::new(ports), Arc::new(AtomicUsize::new(0)));
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(carry(stream, ports.clone(), next.fetch_add(1, Ordering::Relaxed)));
            }
        });
        Self { port, task }
    }

    /// Its number.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn carry(mut near: TcpStream, ports: Arc<Vec<u16>>, first: usize) {
    for turn in 0..ports.len() {
        let port = ports[(first + turn) % ports.len()];
        if let Ok(mut far) = TcpStream::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await {
            // Either side may break off at any moment.
            let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
            return;
        }
    }
}
