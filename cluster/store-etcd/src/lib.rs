//! The store's body on etcd: objects as JSON under the keys that kube-apiserver gives them, revisions that are etcd's,
//! watches answered from memory.
//!
//! Every write is one transaction of etcd. A resource that is listed or watched is repeated in memory, from the history
//! that etcd still has and then by one watch, so etcd has a watch per resource and not one per watcher. A list asks etcd
//! how far it has come and waits until memory has come as far; the newest state of one object is read from etcd itself.
//! So what is read is never older than what was written before, by this server or by another.
//!
//! It needs an etcd that tells truly how far its watches have come, as kube-apiserver's lists from memory do: 3.4.31,
//! 3.5.13 or later. What stands under the prefix and is no object of this store (kube-apiserver keeps built-in kinds in a
//! binary form) is reported and left alone, so give each server a prefix of its own.
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
