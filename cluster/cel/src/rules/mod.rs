//! Validation rules of schemas. Which node of a tree has which rules is the caller's to know.

pub(crate) mod compile;
pub(crate) mod cost_limits;
pub(crate) mod evaluate;
pub(crate) mod rule;
