//! GET of one object or of a part of it.

use bytes::Bytes;
use cluster_store::Entry;
use http::StatusCode;

use crate::answer::Answer;
use crate::context::Context;
use crate::negotiate::{Expected, Shape, shape};
use crate::status::Status;
use crate::{conversion, list, render, tables};

pub(crate) async fn get(context: &Context) -> Result<Answer, Status> {
    let shape = shape(context, Expected::Object)?;
    version_asked(context).await?;
    let entry = current(context, context.name()).await?;
    answer(context, StatusCode::OK, &entry, shape).await
}

/// A version that is asked for must be one, and no later than the newest: what is read is the newest.
async fn version_asked(context: &Context) -> Result<(), Status> {
    match context.query.version()? {
        None | Some(0) => Ok(()),
        Some(asked) => list::not_older_than(context, asked).await,
    }
}

/// The newest state of an object of the request's resource.
pub(crate) async fn current(context: &Context, name: &str) -> Result<Entry, Status> {
    let found = context.server.store.get(&context.key(name)).await;
    found
        .map_err(|error| context.store_status(name, error))?
        .ok_or_else(|| context.not_found(name))
}

/// One object in the shape asked for.
pub(crate) async fn answer(context: &Context, code: StatusCode, entry: &Entry, shape: Shape) -> Result<Answer, Status> {
    let shown;
    let entry = match context.served.converter() {
        None => entry,
        Some(_) => {
            shown = conversion::shown(&context.server, &context.served, context.version(), entry.clone()).await?;
            &shown
        }
    };
    let bytes = render::object(&context.served, context.version(), &entry.object, entry.revision)?;
    answer_bytes(context, code, bytes, shape)
}

/// Rendered bytes of one object in the shape asked for.
pub(crate) fn answer_bytes(context: &Context, code: StatusCode, bytes: Bytes, shape: Shape) -> Result<Answer, Status> {
    match shape {
        Shape::Object => Ok(Answer::json(code, bytes)),
        Shape::Metadata(meta) | Shape::MetadataList(meta) => Ok(Answer::json(code, render::metadata(&bytes, meta)?)),
        Shape::Table(meta) => Ok(Answer::json(code, tables::single(context, &bytes, meta)?)),
    }
}
