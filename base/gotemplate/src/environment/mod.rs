//! What is around an execution: its limits, what the caller's host provides, and the errors that it ends with.

pub(crate) mod error;
pub(crate) mod host;
pub(crate) mod limits;
