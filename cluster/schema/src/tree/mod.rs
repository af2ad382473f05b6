//! The field tree as data. It never looks at an object.

pub(crate) mod go_struct;
pub(crate) mod object_meta;
pub(crate) mod old_items;
pub(crate) mod schema;
