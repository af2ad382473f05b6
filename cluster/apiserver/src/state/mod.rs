//! What all requests of a server share, and one request with all that its handler needs. It decides nothing.

pub(crate) mod applied;
pub(crate) mod context;
pub(crate) mod extracts;
pub(crate) mod metrics;
pub(crate) mod parsed_objects;
pub(crate) mod pending_write;
pub(crate) mod protection;
pub(crate) mod reader;
pub(crate) mod readiness;
pub(crate) mod relay_limit;
pub(crate) mod server_state;
