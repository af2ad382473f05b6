//! How long clients may take. A front has one set of these; tests with real connections shorten them.

use std::time::Duration;

/// The time-outs of clients. All are at least a few milliseconds; the default is what a public port needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// From accepted to encrypted.
    pub handshake: Duration,
    /// From the handshake to the end of the first request's headers, and of HTTP/1 from each answer to the next ones: a
    /// connection without requests is closed.
    pub headers: Duration,
    /// From a request's headers to the end of its body.
    pub body: Duration,
    /// For an answer whose size is known, from its beginning to its last piece. A slower client loses the connection.
    pub answer: Duration,
    /// The same for each piece of one that streams, such as a watch or a log that a person reads page by page.
    pub stream: Duration,
    /// How long an HTTP/2 connection stays open without requests.
    pub idle: Duration,
    /// How often an HTTP/2 client is pinged.
    pub ping_every: Duration,
    /// How long it may take to answer.
    pub ping_answer: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            // Longer than any honest client needs.
            handshake: Duration::from_secs(10),
            // About that of kube-apiserver (kubernetes/kubernetes v1.35
            // staging/src/k8s.io/apiserver/pkg/server/secure_serving.go).
            headers: Duration::from_secs(30),
            // kube-apiserver's time for a whole request (`--request-timeout`).
            body: Duration::from_secs(60),
            answer: Duration::from_secs(60),
            // As long as a person may look at one page.
            stream: Duration::from_secs(900),
            // As the same file has it.
            idle: Duration::from_secs(90),
            // As Go's clients do with the server (k8s.io/apimachinery v0.35 `pkg/util/net/http.go`).
            ping_every: Duration::from_secs(30),
            ping_answer: Duration::from_secs(15),
        }
    }
}

impl Timeouts {
    /// How often a connection is checked: a time-out is noticed at most a quarter of it later.
    pub(crate) fn check_every(&self) -> Duration {
        (self.answer.min(self.stream).min(self.idle) / 4).max(Duration::from_millis(1))
    }
}
