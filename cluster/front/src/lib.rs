//! One TLS port for all API servers of a process, chosen by the server name of the TLS handshake; and the same
//! servers reached in process, by the same kubeconfigs, without a socket.
//!
//! The front never authenticates: it proves that a client holds the key of the certificate it shows and hands the
//! chain on as [`cluster_access::PeerCertificates`]; whether its authority is trusted is the API server's part.
//!
//! A connection that requests a name that is not registered, or none, reaches the server of [`ANY_NAME`] where there
//! is one. Else it is answered with a TCP reset: to its client it looks as if nothing listened there, which is what a
//! stopped API server looks like.
//!
//! A server may also be a program that speaks TLS itself ([`Front::register_program`]): its connections are handed on as they
//! come, by the same names at the same port.
//!
//! A connection that came in elsewhere, such as one that a pod's program made to a Service, is handed over with the name of its
//! server ([`Front::serve_stream`]): clients that dial an address send no server name. A Service whose name in its cluster,
//! `NAME.NAMESPACE.svc`, is one that [`Front::has`] knows, leads there.

mod body;
mod connect;
mod cut;
mod head;
mod hello;
mod over_tls;
mod program;
mod registry;
mod serve;
mod takeover;
mod timeouts;
mod tls;
mod traffic;

pub use body::{REQUEST_BODIES_BYTES_MAX, REQUEST_BODY_BYTES_MAX};
pub use hello::Begun;
pub use program::RegisteredProgram;
pub use registry::{ANY_NAME, Front, NameTaken, NotRegistered, RegisteredServer, Registration};
pub use serve::{CONNECTIONS_MAX, HEADER_BYTES_MAX, STREAMS_PER_CONNECTION_MAX};
pub use timeouts::Timeouts;
pub use tls::CertificateError;
