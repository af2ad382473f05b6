//! Which built-in kinds there are.

use std::sync::OnceLock;

use serde::Deserialize;

/// What is known about a kind beside its fields.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct BuiltinKind {
    /// API group; empty for core.
    pub group: String,
    /// Version within the group.
    pub version: String,
    /// Name of the kind.
    pub kind: String,
    /// Plural, as in URLs.
    pub resource: String,
    /// Lives in namespaces.
    pub namespaced: bool,
    /// `status`, `scale`, ...
    pub subresources: Vec<String>,
    /// Verbs of the resource itself, sorted.
    pub verbs: Vec<String>,
}

/// Every built-in kind that the tables know, in order of group and resource.
pub fn kinds() -> &'static [BuiltinKind] {
    static KINDS: OnceLock<Vec<BuiltinKind>> = OnceLock::new();
    KINDS.get_or_init(|| {
        serde_json::from_slice(include_bytes!("../../data/kinds.json"))
            .expect("a committed table, read by a test of this crate")
    })
}
