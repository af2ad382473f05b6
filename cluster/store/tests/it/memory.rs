//! The memory body for the suite, alone and behind a connection.

use std::sync::Arc;

use cluster_store::{Link, MemoryStore, Store};

use crate::suite::Body;

/// The memory body.
pub(crate) struct Memory;

impl Body for Memory {
    fn fresh(&self) -> Arc<dyn Store> {
        Arc::new(MemoryStore::new())
    }
}

/// The memory body behind a connection that is never cut.
pub(crate) struct Linked;

impl Body for Linked {
    fn fresh(&self) -> Arc<dyn Store> {
        Arc::new(Link::new(Memory.fresh()))
    }
}
