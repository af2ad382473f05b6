//! Which groups, versions and resources there are, in which order, and their schemas. It only reads.

pub(crate) mod documents;
pub(crate) mod openapi;
pub(crate) mod priority;
