//! Admission of bodies of subresources that are not of the resource's kind: bindings, evictions, token requests, and the options
//! of connections.

use serde_json::{Value, json};

use crate::admission::attributes::{AdmissionAttributes, AdmissionOperation};
use crate::admission::json_patch;
use crate::admission::outcome::with_warnings;
use crate::admission::selection::is_exempt;
use crate::admission::validating::validate;
use crate::admission::webhook_calls::concerned;
use crate::configuration::admission_hooks::Hooks;
use crate::kinds::metadata;
use crate::state::context::Context;
use crate::wire::status::Status;

/// Lets webhooks change and refuse the body of a POST to a subresource. `kind`: group, version and kind of the body. Returns
/// warnings for the client.
pub(crate) async fn review_body(
    context: &Context,
    kind: (&str, &str, &str),
    body: &mut Value,
    dry_run: bool,
) -> Result<Vec<String>, Status> {
    let Some(hooks) = context.server.admission.hooks() else {
        return Ok(Vec::new());
    };
    if let (Some(namespace), Ok(metadata)) = (context.namespace(), metadata::of_mut(body)) {
        metadata.insert("namespace".to_owned(), json!(namespace));
    }
    let attributes =
        AdmissionAttributes::write(context, AdmissionOperation::Create, context.name(), dry_run).of_body(kind);
    review(&hooks, &attributes, kind, body).await
}

/// Lets webhooks change and refuse a connection to a subresource. `options` are those of the request, of that group, version
/// and kind. Returns warnings for the client.
pub(crate) async fn review_connection(
    context: &Context,
    kind: (&str, &str, &str),
    options: &mut Value,
) -> Result<Vec<String>, Status> {
    let Some(hooks) = context.server.admission.hooks() else {
        return Ok(Vec::new());
    };
    let attributes = AdmissionAttributes::new(context, AdmissionOperation::Connect, context.name(), false, Value::Null)
        .of_body(kind);
    review(&hooks, &attributes, kind, options).await
}

async fn review(
    hooks: &Hooks,
    attributes: &AdmissionAttributes<'_>,
    (group, version, name): (&str, &str, &str),
    body: &mut Value,
) -> Result<Vec<String>, Status> {
    if is_exempt(attributes) {
        return Ok(Vec::new());
    }
    if let Some(fields) = body.as_object_mut() {
        let api_version = if group.is_empty() {
            version.to_owned()
        } else {
            format!("{group}/{version}")
        };
        fields.insert("apiVersion".to_owned(), json!(api_version));
        fields.insert("kind".to_owned(), json!(name));
    }
    let mut warnings = Vec::new();
    let outcome = async {
        let (found, labels) = concerned(&hooks.mutating, attributes, Some(body)).await;
        for it in found {
            if !it
                .hook
                .wants(attributes, it.version, (Some(body), None), &labels)
                .await?
            {
                continue;
            }
            let allowed = it.hook.call(attributes, it.version, (Some(body), None)).await?;
            let allowed = allowed.unwrap_or_default();
            warnings.extend(allowed.warnings);
            if let Some(patch) = allowed.patch {
                *body = json_patch::apply(body, &patch)?;
            }
        }
        validate(hooks, attributes, (Some(body), None), &mut warnings).await
    };
    let outcome = outcome.await;
    with_warnings(outcome, warnings)
}
