//! The description of a field in a reference page.

/// A field of a configuration kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    /// Its path, with `[]` for the items of a list.
    pub path: String,
    /// What is allowed as its value.
    pub allowed: String,
    /// What stands when it is absent; empty for nothing.
    pub default: String,
    /// What it is for; empty for one that has no effect here.
    pub purpose: &'static str,
}

impl Described {
    /// Whether the field has an effect here.
    #[must_use]
    pub fn is_effective(&self) -> bool {
        !self.purpose.is_empty()
    }
}
