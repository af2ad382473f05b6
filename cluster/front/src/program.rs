//! API servers that are programs and speak TLS themselves, such as a real kube-apiserver in a pod with a network of its own. A
//! connection that names one is handed on as it came, handshake and all: no key of the program's is here, and what its client
//! proves reaches the program. Clients in process speak TLS with it over the same connections.

use std::io;
use std::sync::Arc;

use base_client::{Connection, Dialer};
use base_secrets::Certificate;
use rustls_pki_types::CertificateDer;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::time::{Instant, timeout_at};

use crate::registry::{Front, Server, Serves};
use crate::tls::{self, CertificateError};

/// A program to be registered.
pub struct RegisteredProgram {
    pub(crate) program: Program,
}

impl RegisteredProgram {
    /// `dialer` leads to the port on which it listens; `certificates` is the certificate that it shows, as PEM, whose
    /// authority distinguishes it from servers of others that have its name.
    ///
    /// # Errors
    /// [`CertificateError::Certificate`] when there is none.
    pub fn new(dialer: Dialer, certificates: &str) -> Result<Self, CertificateError> {
        let certificates = tls::chain_of(certificates)?;
        Ok(Self {
            program: Program { dialer, certificates },
        })
    }
}

/// A program that serves.
pub(crate) struct Program {
    dialer: Dialer,
    pub(crate) certificates: Vec<CertificateDer<'static>>,
}

impl Front {
    /// Connects to a program that is registered under a name: to the last one that takes the connection. So an instance that
    /// is starting is passed over for the one before it.
    ///
    /// # Errors
    /// None takes it.
    pub(crate) async fn dial(&self, name: &str) -> io::Result<(Arc<Server>, Connection)> {
        let refused = || {
            io::Error::new(
                io::ErrorKind::ConnectionRefused,
                format!("no program listens as {name}"),
            )
        };
        let mut failed = refused();
        for server in self.find_all(name).into_iter().rev() {
            let Serves::Program(program) = &server.serves else {
                continue;
            };
            match program.dialer.connect().await {
                Ok(connection) => return Ok((server, connection)),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    /// Proxies a connection to the program of a name until one of them ends it, or the program is removed.
    ///
    /// # Errors
    /// No program takes it by `deadline`. The stream is the caller's to close then.
    pub(crate) async fn proxy<S>(&self, name: &str, stream: &mut S, begun: Vec<u8>, deadline: Instant) -> io::Result<()>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let (server, mut connection) = timeout_at(deadline, self.dial(name)).await??;
        let _open = server.open.token();
        let (reader, writer) = tokio::io::split(stream);
        let mut stream = tokio::io::join(io::Cursor::new(begun).chain(reader), writer);
        tokio::select! {
            biased;
            () = server.cut.cancelled() => {}
            proxied = tokio::io::copy_bidirectional(&mut stream, &mut connection) => {
                if let Err(error) = proxied {
                    tracing::debug!(name, %error, "a connection to a program broke off");
                }
            }
        }
        Ok(())
    }
}

/// The id of the key that has signed a server's certificate: authorities may share a name.
pub(crate) fn authority_of(chain: &[CertificateDer<'_>]) -> Option<Vec<u8>> {
    Certificate::from_der(chain.first()?).ok()?.authority_key_id()
}
