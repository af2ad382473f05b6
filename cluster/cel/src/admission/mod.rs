//! Expressions of admission policies and webhooks, over named values. What the names stand for is given.

pub(crate) mod evaluation;
pub(crate) mod expression;
