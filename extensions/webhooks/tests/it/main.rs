//! Webhooks of extensions against an API server in this process that calls them over TLS on loopback. In real time, as sockets are
//! part of it.
#![expect(clippy::unwrap_used, reason = "a test ends at what it did not expect")]

mod ensured;
mod example;
mod registered;
mod replicas;
mod rotation;
mod shoots;
mod world;
