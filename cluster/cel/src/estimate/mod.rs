//! The most that an expression can cost, from its tree and the bounds of its schema. It runs nothing.

pub(crate) mod cost;
pub(crate) mod cost_calls;
pub(crate) mod range;
pub(crate) mod sizes;
