//! `serviceaccounts/token`: TokenRequest.
//! (kubernetes/kubernetes v1.35 pkg/registry/core/serviceaccount/storage/token.go)

use std::time::Duration;

use cluster_access::{BoundObject, TOKEN_VALIDITY_MAX, TOKEN_VALIDITY_MIN, TokenSpec};
use cluster_fields::FieldError;
use cluster_patch::{UpdateOptions, track_update};
use cluster_schema::Schema;
use cluster_store::Key;
use http::StatusCode;
use kube::client::Body;
use serde_json::{Value, json};

use crate::admission::{node_restriction, subresource_body};
use crate::kinds::metadata;
use crate::requests::path_match::check_namespace;
use crate::state::context::Context;
use crate::storage::errors::store_status;
use crate::wire::answer::{Answer, led_by_warnings};
use crate::wire::decode::{decode, encoding, read_body};
use crate::wire::status::Status;

const GROUP: &str = "authentication.k8s.io";
/// How long a token is valid when the request does not say.
const VALIDITY_DEFAULT: Duration = Duration::from_secs(3600);

pub(crate) async fn request(context: &Context, body: Body) -> Result<Answer, Status> {
    let mut request = decode(&read_body(body).await?, encoding(&context.headers)?)?.value;
    metadata::of_mut(&mut request)?;
    check_account_name(context, &request)?;
    let account = context.current(context.name()).await?;
    check_uid(context, &request, &account.object.meta().uid)?;
    let validity = validity(&request)?;
    note_manager(context, &mut request, validity);
    identify(context, &mut request, &account.object.meta().uid)?;
    let kind = (GROUP, "v1", "TokenRequest");
    let warnings = subresource_body::review_body(context, kind, &mut request, context.query.dry_run()).await?;
    let uid = account.object.meta().uid.clone();
    led_by_warnings(issue(context, request, uid, validity).await, warnings)
}

/// Answers a request that was admitted with a token for the account of this uid.
async fn issue(context: &Context, mut request: Value, uid: String, validity: Duration) -> Result<Answer, Status> {
    let Some(tokens) = &context.server.access.tokens else {
        return Err(Status::not_implemented("a TokenRequest without a signing key"));
    };
    let (bound, node) = bound(context, &request).await?;
    let spec = TokenSpec {
        namespace: context.namespace().unwrap_or_default().to_owned(),
        name: context.name().to_owned(),
        uid,
        audiences: audiences(&request),
        validity,
        bound,
        node,
    };
    let issued = tokens
        .issue(&spec, &context.server.entropy)
        .ok_or_else(|| Status::not_implemented("a TokenRequest without a signing key"))?;
    let shown = if spec.audiences.is_empty() {
        tokens.audiences().to_vec()
    } else {
        spec.audiences.clone()
    };
    let Some(fields) = request.as_object_mut() else {
        return Err(Status::bad_request("the body is not a JSON object"));
    };
    fields.insert("apiVersion".to_owned(), json!("authentication.k8s.io/v1"));
    fields.insert("kind".to_owned(), json!("TokenRequest"));
    let wanted = fields.entry("spec").or_insert_with(|| json!({}));
    if let Some(wanted) = wanted.as_object_mut() {
        wanted.insert("audiences".to_owned(), json!(shown));
        wanted.insert("expirationSeconds".to_owned(), json!(spec.validity.as_secs()));
        wanted.entry("boundObjectRef").or_insert(Value::Null);
    }
    let status = json!({"token": issued.token.expose(), "expirationTimestamp": metadata::timestamp(issued.expires)});
    fields.insert("status".to_owned(), status);
    Ok(Answer::value(StatusCode::CREATED, &request))
}

/// A request that names an account has to name that of the path.
fn check_account_name(context: &Context, request: &Value) -> Result<(), Status> {
    check_namespace(context, request)?;
    let name = metadata::text(request, "name");
    if name.is_empty() || name == context.name() {
        return Ok(());
    }
    let error = FieldError::invalid(
        "metadata.name",
        name,
        "must match the service account name if specified",
    );
    Err(Status::invalid(GROUP, "TokenRequest", context.name(), &[error]))
}

/// A request that names the uid of an account is not for another one that has got its name.
fn check_uid(context: &Context, request: &Value, uid: &str) -> Result<(), Status> {
    let given = metadata::text(request, "uid");
    if given.is_empty() || given == uid {
        return Ok(());
    }
    let why = format!("the UID in the token request ({given}) does not match the UID of the service account ({uid})");
    Err(Status::conflict(GROUP, "TokenRequest", context.name(), &why))
}

/// Gives a request the identity of its account, and an empty token.
fn identify(context: &Context, request: &mut Value, uid: &str) -> Result<(), Status> {
    let identity = [
        ("name", json!(context.name())),
        ("namespace", json!(context.namespace())),
        ("creationTimestamp", json!(metadata::timestamp(context.now))),
        ("uid", json!(uid)),
    ];
    metadata::of_mut(request)?.extend(identity.map(|(key, value)| (key.to_owned(), value)));
    if let Some(spec) = request.get_mut("spec").and_then(Value::as_object_mut) {
        spec.entry("boundObjectRef").or_insert(Value::Null);
    }
    request["status"] = json!({"token": "", "expirationTimestamp": null});
    Ok(())
}

/// Records the manager as if the request were stored, with its validity.
fn note_manager(context: &Context, request: &mut Value, validity: Duration) {
    let Some(fields) = request.as_object_mut() else { return };
    let spec = fields.entry("spec").or_insert_with(|| json!({}));
    if let Some(spec) = spec.as_object_mut() {
        spec.insert("expirationSeconds".to_owned(), json!(validity.as_secs()));
    }
    let options = UpdateOptions {
        manager: &context.manager(),
        subresource: "token",
        time: context.now,
        api_version: "authentication.k8s.io/v1",
    };
    let schema = cluster_builtin::schema(GROUP, "v1", "TokenRequest").unwrap_or_else(Schema::any);
    track_update(None, request, options, &schema);
}

fn audiences(request: &Value) -> Vec<String> {
    let list = request.pointer("/spec/audiences").and_then(Value::as_array);
    list.into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect()
}

fn validity(request: &Value) -> Result<Duration, Status> {
    let Some(seconds) = request.pointer("/spec/expirationSeconds").and_then(Value::as_i64) else {
        return Ok(VALIDITY_DEFAULT);
    };
    let refuse = |why: &str| {
        let error = FieldError::invalid("spec.expirationSeconds", seconds, why);
        Err(Status::invalid(GROUP, "TokenRequest", "", &[error]))
    };
    match u64::try_from(seconds).map(Duration::from_secs) {
        Ok(validity) if validity > TOKEN_VALIDITY_MAX => refuse("may not specify a duration larger than 2^32 seconds"),
        Ok(validity) if validity >= TOKEN_VALIDITY_MIN => Ok(validity),
        _ => refuse("may not specify a duration less than 10 minutes"),
    }
}

type Binding = (Option<BoundObject>, Option<(String, String)>);

/// The object to whose life the token is bound, and the node of a pod.
async fn bound(context: &Context, request: &Value) -> Result<Binding, Status> {
    let Some(wanted) = request
        .pointer("/spec/boundObjectRef")
        .filter(|wanted| wanted.is_object())
    else {
        node_restriction::restrict_token(context, &Value::Null, None)?;
        return Ok((None, None));
    };
    let text = |field: &str| wanted.get(field).and_then(Value::as_str).unwrap_or_default();
    let (kind, name) = (text("kind"), text("name"));
    let (resource, namespace) = match kind {
        "Pod" => ("pods", context.namespace()),
        "Secret" => ("secrets", context.namespace()),
        "Node" => ("nodes", None),
        other => {
            let version = text("apiVersion");
            let version = if version.contains('/') {
                version.to_owned()
            } else {
                format!("/{version}")
            };
            return Err(Status::bad_request(format!(
                "cannot bind token to object of type {version}, Kind={other}"
            )));
        }
    };
    if kind != "Pod" {
        node_restriction::restrict_token(context, wanted, None)?;
    }
    let get = async |key: Key| context.server.store.get(&key).await.map_err(store_status);
    let found = get(Key::new(resource, namespace, name)).await?;
    let found = found.ok_or_else(|| Status::not_found("", resource, name))?;
    let uid = found.object.meta().uid.clone();
    if !text("uid").is_empty() && text("uid") != uid {
        let why = format!(
            "the UID in the bound object reference ({}) does not match the UID in record. The object might have been deleted and then recreated",
            text("uid")
        );
        return Err(Status::conflict("", kind, name, &why));
    }
    let mut node = None;
    if kind == "Pod" {
        let pod = found.object.value(found.revision);
        node_restriction::restrict_token(context, wanted, Some(&pod))?;
        let account = pod
            .pointer("/spec/serviceAccountName")
            .and_then(Value::as_str)
            .unwrap_or("default");
        if account != context.name() {
            let why = format!(
                "cannot bind token for serviceaccount {:?} to pod running with different serviceaccount name.",
                context.name()
            );
            return Err(Status::bad_request(why));
        }
        if let Some(name) = pod.pointer("/spec/nodeName").and_then(Value::as_str) {
            let found = get(Key::new("nodes", None, name)).await?;
            node = found.map(|found| (name.to_owned(), found.object.meta().uid.clone()));
        }
    }
    Ok((
        Some(BoundObject {
            kind: kind.to_owned(),
            name: name.to_owned(),
            uid,
        }),
        node,
    ))
}
