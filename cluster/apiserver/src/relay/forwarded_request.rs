//! A forwarded request, as `forwarding`, which sends it, and `rewriting` see it.

use http::request::Parts;

/// A forwarded request without its body.
#[derive(Clone, Copy)]
pub(crate) struct Forwarded<'a> {
    pub(crate) parts: &'a Parts,
    /// The path of the request, decoded.
    pub(crate) path: &'a str,
    /// The path to request from the target; may be empty.
    pub(crate) target_path: &'a str,
    /// The query to send to the target, encoded.
    pub(crate) query: Option<&'a str>,
    /// Whether the request is this server's own, and not a client's.
    pub(crate) is_of_server: bool,
}
