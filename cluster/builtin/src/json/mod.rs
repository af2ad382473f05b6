//! Objects as JSON. It knows no kind.

pub(crate) mod fields;
