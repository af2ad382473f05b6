//! Validation rules in CEL (`x-kubernetes-validations`).
//! This file never evaluates a rule with side effects and never lets an expression run without a bound.

/// The compiled rules of one tree.
#[derive(Debug)]
pub(crate) struct Rules;
