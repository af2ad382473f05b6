//! Tables for kubectl. What a cell says is cluster-table's; here it is put together.

use bytes::Bytes;

use crate::context::Context;
use crate::list::Found;
use crate::registry::Served;
use crate::server::Inner;
use crate::status::Status;

/// One object as a table of one row.
pub(crate) fn single(_context: &Context, _bytes: &[u8]) -> Result<Bytes, Status> {
    Err(Status::not_implemented("tables"))
}

/// A list as a table.
pub(crate) fn list(_context: &Context, _found: &Found) -> Result<Bytes, Status> {
    Err(Status::not_implemented("tables"))
}

/// An object of a watch event as a table of one row; `header` says whether columns are described.
pub(crate) fn event(_server: &Inner, _served: &Served, _version: &str, _bytes: &[u8], _header: bool) -> Result<Bytes, Status> {
    Err(Status::not_implemented("tables"))
}
