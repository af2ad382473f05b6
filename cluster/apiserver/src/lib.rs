//! Kubernetes API semantics over a store, as a tower service.
//!
//! [`ApiServer`](crate) is a value: any number of them live in one process. Every request, in process or over TLS,
//! goes authenticate, authorize, route, admit, store. Nothing here opens a socket, blocks a thread, reads the
//! machine's clock or knows a provider.

mod identity;
pub mod kind;
mod resource;
mod status;

pub use identity::User;
pub use kind::Kind;
pub use resource::ResourceInfo;
pub use status::{Cause, Details, Status};
