//! Objects changed by their tree. It validates nothing.

pub(crate) mod default;
pub(crate) mod prune;
