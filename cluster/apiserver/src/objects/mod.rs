//! An object of a request on its way in: decoded, pruned, defaulted, with what an update may not change. It stores nothing.

pub(crate) mod incoming;
pub(crate) mod retained_fields;
pub(crate) mod scale_view;
mod type_checks;
pub(crate) mod unversioned;
