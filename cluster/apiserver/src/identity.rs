//! Who asks. (Stands here until cluster-access brings the same type.)

use std::collections::BTreeMap;

/// An authenticated user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// The user's name.
    pub name: String,
    /// The user's uid; may be empty.
    pub uid: String,
    /// The groups the user is in.
    pub groups: Vec<String>,
    /// What authenticators add.
    pub extra: BTreeMap<String, Vec<String>>,
}
