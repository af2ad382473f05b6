//! The memory backend for the suite, alone and behind a connection.

use std::sync::Arc;

use cluster_store::{Link, MemoryStore, Store};

use crate::suite::Backend;

/// The memory backend.
pub(crate) struct Memory;

impl Backend for Memory {
    fn fresh(&self) -> Arc<dyn Store> {
        Arc::new(MemoryStore::new())
    }
}

/// The memory backend behind a connection that is never cut.
pub(crate) struct Linked;

impl Backend for Linked {
    fn fresh(&self) -> Arc<dyn Store> {
        Arc::new(Link::new(Memory.fresh()))
    }
}
