//! PUT of an object or of a subresource.

use cluster_store::Revision;
use http::StatusCode;
use kube::client::Body;
use serde_json::Value;

use crate::kinds::metadata;
use crate::objects::incoming::{self, Incoming, Source};
use crate::requests::path_match::check_matches_path;
use crate::requests::read;
use crate::requests::write::{Refusal, WRITE_ATTEMPTS_MAX, check_number, overtaken};
use crate::state::context::Context;
use crate::state::pending_write::Write;
use crate::wire::answer::Answer;
use crate::wire::decode::{encoding, read_body};
use crate::wire::negotiation::{Expected, Shape};
use crate::wire::path;
use crate::wire::status::Status;

/// How often an update without resourceVersion is tried again when others write in between.
const TRIES_MAX: usize = 16;

pub(crate) async fn update(context: &Context, body: Body) -> Result<Answer, Status> {
    let shape = context.shape(Expected::Object)?;
    context.query.check("UpdateOptions", Vec::new())?;
    let validation = context.query.field_validation();
    let encoding = encoding(&context.headers)?;
    let decoded = incoming::decode_object(context, &read_body(body).await?, encoding)?;
    let problems = decoded.problems();
    let incoming = incoming::accept(context, decoded.value, problems, validation, Source::Body)?;
    let warnings = incoming.warnings.clone();
    put(context, incoming, shape)
        .await
        .map_err(|status| status.warned_once(warnings))
}

async fn put(context: &Context, incoming: Incoming, shape: Shape) -> Result<Answer, Status> {
    let mut object = incoming.object;
    let name = context.name();
    check_matches_path(context, &object)?;
    path::check_name(name)?;
    if let Some(namespace) = context.namespace() {
        metadata::of_mut(&mut object)?.insert("namespace".to_owned(), Value::String(namespace.to_owned()));
    }
    let unconditional = metadata::text(&object, "resourceVersion").is_empty();
    for attempt in 1.. {
        let live = context.server.store.get(&context.key(name)).await;
        let live = live.map_err(|error| context.store_status(name, error))?;
        let mut write = Write::new(context);
        write.warnings.clone_from(&incoming.warnings);
        let Some(live) = live else {
            if context.subresource().is_none() && context.served.kind.creates_on_update() {
                check_uid(context, &object, "")?;
                check_number(&object)?;
                context.check_create().await?;
                // It replaces nothing, so the version to replace is dropped; but a dry run returns it.
                let dropped = metadata::of_mut(&mut object)?.remove("resourceVersion");
                let mut entry = write.create(object).await?;
                if write.dry_run
                    && let Some(version) = dropped.and_then(|version| version.as_str()?.parse().ok())
                {
                    entry.revision = Revision(version);
                }
                return Ok(read::answer(context, StatusCode::CREATED, &entry, shape)
                    .await?
                    .warn(write.warnings));
            }
            return Err(context.not_found(name));
        };
        check_uid(context, &object, &live.object.meta().uid)?;
        match write.replace(&live, object.clone()).await {
            Ok(written) => {
                return Ok(read::answer(context, StatusCode::OK, written.entry(), shape)
                    .await?
                    .warn(write.warnings));
            }
            Err(Refusal::Overtaken) if attempt < WRITE_ATTEMPTS_MAX => {}
            Err(Refusal::Overtaken) => return Err(overtaken()),
            Err(Refusal::Stale) if unconditional && attempt < TRIES_MAX => {}
            Err(Refusal::Stale) => break,
            Err(Refusal::Status(status)) => return Err(status),
        }
    }
    Err(context.modified(name))
}

/// What is stored must have the uid that the body names, if it names one.
fn check_uid(context: &Context, object: &Value, stored: &str) -> Result<(), Status> {
    match metadata::text(object, "uid") {
        "" => Ok(()),
        given if given == stored => Ok(()),
        given => Err(context.another_uid(given, stored)),
    }
}
