//! POST of a new object.

use http::StatusCode;
use kube::client::Body;

use crate::objects::incoming::{self, Source};
use crate::requests::read;
use crate::state::context::Context;
use crate::state::pending_write::Write;
use crate::wire::answer::Answer;
use crate::wire::decode::{encoding, read_body};
use crate::wire::negotiation::Expected;
use crate::wire::status::Status;

pub(crate) async fn create(context: &Context, body: Body) -> Result<Answer, Status> {
    let shape = context.shape(Expected::Object)?;
    context.query.check("CreateOptions", Vec::new())?;
    let validation = context.query.field_validation();
    let encoding = encoding(&context.headers)?;
    let decoded = incoming::decode_object(context, &read_body(body).await?, encoding)?;
    let problems = decoded.problems();
    let incoming = incoming::accept(context, decoded.value, problems, validation, Source::Body)?;
    let mut write = Write::new(context);
    write.warnings = incoming.warnings;
    let entry = write.create(incoming.object).await?;
    Ok(read::answer(context, StatusCode::CREATED, &entry, shape)
        .await?
        .warn(write.warnings))
}
