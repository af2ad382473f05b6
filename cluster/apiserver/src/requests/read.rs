//! GET of one object or of a subresource.

use bytes::Bytes;
use cluster_store::Entry;
use http::StatusCode;

use crate::kinds::{conversion, rendering};
use crate::requests::{list, tables};
use crate::state::context::Context;
use crate::wire::answer::Answer;
use crate::wire::negotiation::{Expected, Shape};
use crate::wire::status::Status;

pub(crate) async fn get(context: &Context) -> Result<Answer, Status> {
    let shape = context.shape(Expected::Object)?;
    check_requested_version(context).await?;
    let entry = context.current(context.name()).await?;
    answer(context, StatusCode::OK, &entry, shape).await
}

/// A requested version must be valid, and no later than the newest, which is the one that is read.
async fn check_requested_version(context: &Context) -> Result<(), Status> {
    match context.query.version()? {
        None | Some(0) => Ok(()),
        Some(requested) => list::not_older_than(context, requested).await,
    }
}

/// One object in the requested shape.
pub(crate) async fn answer(context: &Context, code: StatusCode, entry: &Entry, shape: Shape) -> Result<Answer, Status> {
    let shown;
    let entry = match context.served.converter() {
        None => entry,
        Some(_) => {
            shown = conversion::convert_entry(
                &context.server.network,
                &context.served,
                context.version(),
                entry.clone(),
            )
            .await?;
            &shown
        }
    };
    let bytes = rendering::object(&context.served, context.version(), &entry.object, entry.revision)?;
    answer_bytes(context, code, bytes, shape)
}

/// Rendered bytes of one object in the requested shape.
pub(crate) fn answer_bytes(context: &Context, code: StatusCode, bytes: Bytes, shape: Shape) -> Result<Answer, Status> {
    match shape {
        Shape::Object => Ok(Answer::json(code, bytes)),
        Shape::Metadata(meta) | Shape::MetadataList(meta) => Ok(Answer::json(code, rendering::metadata(&bytes, meta)?)),
        Shape::Table(meta) => Ok(Answer::json(code, tables::single(context, &bytes, meta)?)),
    }
}
