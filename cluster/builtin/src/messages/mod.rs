//! How errors show objects: as kube-apiserver prints its internal types, and as differences between two of them.

pub(crate) mod internal_types;
pub(crate) mod unified_diff;
