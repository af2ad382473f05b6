//! Whether an expression is valid: its types, and its literals. It runs nothing.

pub(crate) mod check;
pub(crate) mod format_rules;
pub(crate) mod literal_rules;
