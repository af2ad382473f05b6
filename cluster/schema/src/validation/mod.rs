//! Objects validated by their tree. It changes no object.

pub(crate) mod embedded_objects;
pub(crate) mod list_items;
pub(crate) mod rules;
pub(crate) mod validate;
