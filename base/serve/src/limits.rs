//! What clients of an HTTPS port may take: connections, bytes and time. It enforces nothing itself.

use std::time::Duration;

/// Limits of one port. The default fits a server of webhooks, whose clients are API servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at a time, at least one; more wait in the listener's queue.
    pub connections_max: usize,
    /// From an accepted connection to an encrypted one.
    pub handshake: Duration,
    /// Size of a request's line and headers together, in bytes.
    pub head_bytes_max: usize,
    /// From the handshake to the end of the first request's head.
    pub first_request: Duration,
    /// How long a connection is kept between requests. Longer than clients keep theirs, so that no request is sent to a
    /// connection that is being closed here.
    pub idle: Duration,
    /// Size of one request's body, in bytes.
    pub body_bytes_max: usize,
    /// Size of the bodies of all requests under way, in bytes. It is at least as large as one body, and less than 4 GiB.
    pub bodies_bytes_max: usize,
    /// From a request's head to the end of its body.
    pub body: Duration,
    /// How long a client may leave bytes of an answer unread.
    pub stalled: Duration,
    /// After the stop: how long requests under way may take to end before they are cut.
    pub grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            // API servers have one connection per pending request; a few servers have a few hundred.
            connections_max: 1024,
            // Longer than any honest client needs.
            handshake: Duration::from_secs(10),
            // Names, a token, tracing headers many times over.
            head_bytes_max: 64 << 10,
            // About that of controller-runtime's server, which is what clients know.
            first_request: Duration::from_secs(30),
            // Go's clients close after 90 s.
            idle: Duration::from_secs(120),
            // An object before and after a change, and 2 MiB around them.
            body_bytes_max: base_client::REVIEW_BYTES_MAX,
            // As much as a pod of an extension is given: most reviews have a few KiB.
            bodies_bytes_max: 128 << 20,
            // As long as API servers wait for a webhook at most (30 s).
            body: Duration::from_secs(30),
            stalled: Duration::from_secs(30),
            // Less than the 30 s that a pod is given.
            grace: Duration::from_secs(15),
        }
    }
}
