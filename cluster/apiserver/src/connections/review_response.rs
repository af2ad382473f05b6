//! Reads the reply of a webhook as a review of any kind: its type and its `response`, or, for a reply that is none, the error of
//! Go's client. It never looks into the response.

use http::header;
use serde_json::Value;

use crate::connections::webhook_client::Reply;
use crate::wire::decode::{Encoding, try_decode, undecodable};

/// The answer to a review.
pub(crate) struct Answered {
    /// Its group/version and kind.
    pub(crate) typed: (String, String),
    /// What stands under `response`.
    pub(crate) response: Option<Value>,
}

/// Reads the answer to a review of that kind. Errors: it is none.
pub(crate) fn read(reply: &Reply, group: &str, kind: &str) -> Result<Answered, String> {
    if !(200..=206).contains(&reply.code.as_u16()) {
        return Err(of_code(reply));
    }
    if reply.body.is_empty() {
        let media = reply
            .headers
            .get(header::CONTENT_TYPE)
            .and_then(|value| value.to_str().ok());
        return Err(format!(
            "0-length response with status code: {} and content type: {}",
            reply.code.as_u16(),
            media.unwrap_or_default()
        ));
    }
    let mut answer = try_decode(&reply.body, Encoding::Json)
        .map_err(|why| undecodable(Encoding::Json, &why))?
        .value;
    let text = |field: &str| answer.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let typed = (text("apiVersion"), text("kind"));
    if !(typed.1.is_empty() || typed.1 == kind) || !typed.0.is_empty() && !typed.0.starts_with(group) {
        return Err(format!(
            "no kind {:?} is registered for version {:?} in scheme \"pkg/runtime/scheme.go:111\"",
            typed.1, typed.0
        ));
    }
    let response = answer.get_mut("response").map(Value::take);
    Ok(Answered {
        typed,
        response: response.filter(|response| !response.is_null()),
    })
}

/// The error that client-go makes of an answer with an error code (client-go v0.35 rest/request.go,
/// apimachinery v0.35 pkg/api/errors/errors.go, NewGenericServerResponse).
fn of_code(reply: &Reply) -> String {
    let media = reply
        .headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    let is_text = media.is_none_or(|media| media.starts_with("text/"));
    let text = if is_text {
        String::from_utf8_lossy(&reply.body).trim().to_owned()
    } else {
        "unknown".to_owned()
    };
    match reply.code.as_u16() {
        400 => "the server rejected our request for an unknown reason".to_owned(),
        401 => "the server has asked for the client to provide credentials".to_owned(),
        403 => text,
        404 => "the server could not find the requested resource".to_owned(),
        405 => "the server does not allow this method on the requested resource".to_owned(),
        409 => "the server reported a conflict".to_owned(),
        422 => "the server rejected our request due to an error in our request".to_owned(),
        429 => "the server has received too many requests and has asked us to try again later".to_owned(),
        503 => "the server is currently unable to handle the request".to_owned(),
        504 => {
            "the server was unable to return a response in the time allotted, but may still be processing the request"
                .to_owned()
        }
        500.. => format!("an error on the server ({text:?}) has prevented the request from succeeding"),
        code => format!("the server responded with the status code {code} but did not return more information"),
    }
}
