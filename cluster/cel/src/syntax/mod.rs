//! From the text of an expression to its tree. It knows no types and no functions.

pub(crate) mod faults;
pub(crate) mod literal;
pub(crate) mod macros;
pub(crate) mod nodes;
pub(crate) mod parse;
pub(crate) mod reserved;
pub(crate) mod tokens;
pub(crate) mod work;
