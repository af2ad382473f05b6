//! POST to a subresource that the kind itself implements.

use http::StatusCode;
use kube::client::Body;

use crate::kinds::resource::{Action, ActionCall, TokenIssuer};
use crate::state::context::Context;
use crate::state::reader::Reader;
use crate::wire::answer::Answer;
use crate::wire::decode::{decode, encoding, read_body};
use crate::wire::status::Status;

pub(crate) async fn run(context: &Context, action: &dyn Action, body: Body) -> Result<Answer, Status> {
    let body = decode(&read_body(body).await?, encoding(&context.headers)?)?.value;
    let entry = context.current(context.name()).await?;
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
