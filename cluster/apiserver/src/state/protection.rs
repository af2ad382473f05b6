//! Which deletions need a confirmation, and how that is given. Data only: `admission/confirmation` checks it.

/// What needs a confirmation, and how that is given.
#[derive(Clone, Debug)]
pub struct Protection {
    /// The annotation that confirms, with a value that means true.
    pub annotation: String,
    /// The label whose value `true` protects a CustomResourceDefinition.
    pub label: String,
    /// Groups and plurals of kinds whose objects are protected.
    pub kinds: Vec<(String, String)>,
}
