//! Field trees as their users see them: pruning, defaulting, validation, rules in CEL, hostile schemas. Nothing here needs the
//! internet.

mod crd;
mod hostile;
mod rust_types;
