//! Types of expressions, where they are declared, and the names and functions that have them. It checks nothing.

pub(crate) mod declared;
pub(crate) mod escapes;
pub(crate) mod scope;
pub(crate) mod signatures;
pub(crate) mod types;
