//! Where a server keeps its objects, metered, and the API server in front as a store. It knows no kind.

pub(crate) mod errors;
pub(crate) mod format;
pub(crate) mod front_paths;
pub(crate) mod front_server;
pub(crate) mod metered;
pub(crate) mod resource_names;
pub(crate) mod service_addresses;
pub(crate) mod stores;
