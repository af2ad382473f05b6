//! A request that is sent on, as what sends it and what rewrites places see it.

use http::request::Parts;

/// What is carried, beside the body.
#[derive(Clone, Copy)]
pub(crate) struct Forwarded<'a> {
    pub(crate) parts: &'a Parts,
    /// The path of the request, decoded.
    pub(crate) path: &'a str,
    /// The path that is asked for there; empty where there is none.
    pub(crate) behind: &'a str,
    /// The query that is sent there, as it is written.
    pub(crate) query: Option<&'a str>,
    /// Whether the request is this server's own, and not a client's.
    pub(crate) is_of_server: bool,
}
