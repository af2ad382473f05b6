//! Limits on the size of schemas, each with its reason: they keep hostile schemas cheap.

/// Deepest field tree. Published CRDs stay below 40; each level costs stack in every walk.
pub const DEPTH_MAX: usize = 100;

/// Most nodes in one tree. The largest published CRDs have about 30 000.
pub const NODES_MAX: usize = 200_000;

/// Largest schema document in bytes, as it is stored: etcd's default limit for one object is 1.5 MB, the API server's
/// request limit 3 MB.
pub const SCHEMA_BYTES_MAX: usize = 3 * 1024 * 1024;
