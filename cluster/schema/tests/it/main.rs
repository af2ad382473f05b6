//! Field trees as their users see them: pruning, defaulting, validation, CEL rules, hostile schemas, and the defaults
//! and rules of built-in kinds. Nothing here needs the internet.

mod builtin;
mod crd;
mod expressions;
mod hostile;
mod rust_types;
