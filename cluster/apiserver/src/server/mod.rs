//! The server as a value: built, served, shut down; and the way of a request through it.

pub(crate) mod api_server;
pub(crate) mod builder;
pub(crate) mod nonresource_paths;
pub(crate) mod pipeline;
