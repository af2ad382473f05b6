//! How a connection begins: the ClientHello of TLS, with every byte that was read of it, so that the connection can be served
//! here or handed on as it came. It answers nothing.

use std::fmt;
use std::io;

use rustls::server::{Accepted, Acceptor};
use tokio::io::{AsyncRead, AsyncReadExt};

/// The longest beginning of a TLS connection that is read: several times that of any client.
const HELLO_BYTES_MAX: usize = 64 << 10;

/// The beginning of a connection.
pub struct Begun {
    /// Every byte that was read.
    pub bytes: Vec<u8>,
    /// The server that its client named, if it began as TLS and named one.
    pub server_name: Option<String>,
    pub(crate) hello: Hello,
}

/// What a connection began with.
pub(crate) enum Hello {
    /// A whole ClientHello.
    Whole(Box<Accepted>),
    /// Something else, with the alert that TLS answers it by.
    Broken { why: String, alert: Vec<u8> },
}

impl fmt::Debug for Begun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Begun")
            .field("bytes", &self.bytes.len())
            .field("server_name", &self.server_name)
            .finish_non_exhaustive()
    }
}

impl Begun {
    /// Reads a connection until its ClientHello is whole, or cannot become whole any more: it begins otherwise, has ended, or is
    /// longer than any client's.
    ///
    /// # Errors
    /// The connection cannot be read.
    pub async fn read(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Self> {
        let mut acceptor = Acceptor::default();
        let mut bytes = Vec::new();
        while bytes.len() < HELLO_BYTES_MAX {
            let before = bytes.len();
            if stream.read_buf(&mut bytes).await? == 0 {
                return Ok(Self::broken(bytes, "it ended", Vec::new()));
            }
            let mut unread = &bytes[before..];
            while !unread.is_empty() {
                if let Err(error) = acceptor.read_tls(&mut unread) {
                    return Ok(Self::broken(bytes, &error.to_string(), Vec::new()));
                }
                match acceptor.accept() {
                    Ok(Some(accepted)) => return Ok(Self::whole(bytes, accepted)),
                    Ok(None) => {}
                    Err((error, mut alert)) => {
                        let mut answer = Vec::new();
                        // Into memory, where nothing fails.
                        let _ = alert.write_all(&mut answer);
                        return Ok(Self::broken(bytes, &error.to_string(), answer));
                    }
                }
            }
        }
        Ok(Self::broken(bytes, "it is too long", Vec::new()))
    }

    fn whole(bytes: Vec<u8>, accepted: Accepted) -> Self {
        Self {
            bytes,
            server_name: accepted.client_hello().server_name().map(str::to_owned),
            hello: Hello::Whole(Box::new(accepted)),
        }
    }

    fn broken(bytes: Vec<u8>, why: &str, alert: Vec<u8>) -> Self {
        Self {
            bytes,
            server_name: None,
            hello: Hello::Broken {
                why: why.to_owned(),
                alert,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustls::pki_types::ServerName;
    use rustls::{ClientConfig, ClientConnection, RootCertStore};
    use tokio::io::AsyncWriteExt;

    use super::*;

    /// What a client sends first.
    fn hello(server: &str) -> Vec<u8> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth();
        let name = ServerName::try_from(server.to_owned()).unwrap();
        let mut client = ClientConnection::new(Arc::new(config), name).unwrap();
        let mut bytes = Vec::new();
        client.write_tls(&mut bytes).unwrap();
        bytes
    }

    /// Reads what arrives in pieces.
    async fn read(bytes: &[u8], pieces: usize) -> Begun {
        let (mut near, mut far) = tokio::io::duplex(pieces);
        let reading = async move {
            let read = Begun::read(&mut far).await;
            // Once the name is known, or known not to come, nothing is read any more, and the writer must not wait.
            drop(far);
            read
        };
        let writing = async move {
            let written = near.write_all(bytes).await;
            drop(near);
            written
        };
        let (read, _) = tokio::join!(reading, writing);
        read.unwrap()
    }

    #[tokio::test]
    async fn the_server_name_is_read_from_pieces_and_every_byte_is_returned() {
        for pieces in [1, 7, 100_000] {
            let bytes = hello("kube-apiserver.ns.svc");
            let begun = read(&bytes, pieces).await;
            assert_eq!(begun.server_name.as_deref(), Some("kube-apiserver.ns.svc"));
            assert_eq!(begun.bytes, bytes);
        }
    }

    #[tokio::test]
    async fn beginning_without_a_server_name_is_returned_as_it_is() {
        for bytes in [
            hello("127.0.0.1"),
            b"GET / HTTP/1.1\r\n\r\n".to_vec(),
            Vec::new(),
            vec![22; 9],
        ] {
            let begun = read(&bytes, 100_000).await;
            assert_eq!((begun.server_name, &begun.bytes), (None, &bytes));
        }
        let begun = read(&vec![22; HELLO_BYTES_MAX * 2], 1000).await;
        assert!(begun.server_name.is_none() && begun.bytes.len() <= HELLO_BYTES_MAX + 1000);
    }

    #[tokio::test]
    async fn beginning_that_is_no_tls_is_answered_by_an_alert() {
        let begun = read(b"GET / HTTP/1.1\r\n\r\n", 100_000).await;
        let Hello::Broken { alert, .. } = begun.hello else {
            panic!("it is no ClientHello")
        };
        assert!(!alert.is_empty());
    }
}
