//! The store's backend on etcd: objects as JSON under the keys that kube-apiserver gives them, revisions that are etcd's,
//! watches answered from memory.
//!
//! Every write is one transaction of etcd. A resource that is listed or watched is mirrored in memory, from the history
//! that etcd still has and then by one watch, so etcd has a watch per resource and not one per watcher. A list requests
//! etcd's newest revision and waits until memory has reached it; the newest state of one object is read from etcd itself.
//! So what is read is never older than what was written before, by this server or by another.
//!
//! It needs an etcd that reports the progress of its watches correctly, as kube-apiserver's lists from memory do: 3.4.31,
//! 3.5.13 or later. What is under the prefix and no object of this store (kube-apiserver stores built-in kinds in a
//! binary form) is logged and left alone, so give each server a prefix of its own.
//!
//! It never repeats a write whose outcome it does not know, and reads no object's content.

mod client;
mod compact;
mod hub;
mod layout;
mod leases;
mod newest;
mod options;
mod repeater;
mod store;
mod wire;

pub use options::{EtcdError, EtcdIdentity, EtcdOptions, EtcdTls};
pub use store::EtcdStore;
