//! POST below an object, done by the kind itself.

use http::StatusCode;
use kube::client::Body;

use crate::answer::Answer;
use crate::context::Context;
use crate::decode::{decode, encoding, read_body};
use crate::objects::Reader;
use crate::read;
use crate::resource::{Action, ActionCall, TokenIssuer};
use crate::status::Status;

pub(crate) async fn run(context: &Context, action: &dyn Action, body: Body) -> Result<Answer, Status> {
    let body = decode(&read_body(body).await?, encoding(&context.headers)?)?.value;
    let entry = read::current(context, context.name()).await?;
    let object = entry.object.value(entry.revision);
    let reader = Reader::new(&context.server);
    let call = ActionCall {
        user: &context.user,
        version: context.version(),
        namespace: context.namespace(),
        name: context.name(),
        object: &object,
        body,
        now: context.now,
        dry_run: context.query.dry_run(),
        objects: &reader,
        tokens: TokenIssuer {
            tokens: context.server.access.tokens.as_deref(),
            entropy: &context.server.entropy,
        },
    };
    Ok(Answer::value(StatusCode::CREATED, &action.run(call).await?))
}
