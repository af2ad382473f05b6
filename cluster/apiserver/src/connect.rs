//! Subresources of pods that their node answers: the log of a container; exec, attach and port forwarding, which no node in
//! a process can do. It finds the container and the node, asks the node, and hands on what that says.
//! (kubernetes/kubernetes v1.35 pkg/registry/core/pod/strategy.go LogLocation and streamLocation, rest/log.go)

use base_client::{HttpService, ResponseBody, answer_apart, stream_body};
use bytes::Bytes;
use cluster_schema::FieldError;
use cluster_store::Key;
use futures::StreamExt;
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::Value;

use crate::answer::Answer;
use crate::context::{Context, store_status};
use crate::read;
use crate::status::Status;

/// Finds the service of a node by the node's name.
pub(crate) type Nodes = Box<dyn Fn(&str) -> Option<HttpService> + Send + Sync>;

/// What of a node's refusal is read.
const REFUSAL_BYTES_MAX: usize = 10_000;
const TEXT: &str = "text/plain";

/// What is wanted of a pod's node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connect {
    /// What a container said.
    Log,
    /// A program in a container, or the one that runs there.
    Exec,
    /// A port of the pod.
    PortForward,
}

/// Answers a request to the subresource.
pub(crate) async fn answer(context: &Context, connect: Connect) -> Result<Answer, Status> {
    let question = match connect {
        Connect::Log => log_question(context)?,
        Connect::Exec | Connect::PortForward => String::new(),
    };
    let entry = read::current(context, context.name()).await?;
    let Some((node, path)) = place(context, connect, &entry.object.value(entry.revision), &question)? else {
        return Ok(Answer::typed(StatusCode::NO_CONTENT, TEXT, Bytes::new()));
    };
    let service = find(context, &node).await?;
    let request = Request::get(path).body(Body::empty()).map_err(Status::internal)?;
    let response = answer_apart(service, request).await.map_err(Status::internal)?;
    if !response.status().is_success() {
        let code = response.status();
        return Err(refusal(context, code, whole(response.into_body()).await));
    }
    // Who follows a log is let go when the server stops.
    let stop = context.server.stop.clone();
    let chunks = response
        .into_body()
        .into_data_stream()
        .take_until(stop.cancelled_owned());
    Ok(Answer::stream(TEXT, stream_body(chunks)))
}

/// The node to ask, and the path to ask it for. `None`: there is no node yet, and so nothing was said.
fn place(context: &Context, connect: Connect, pod: &Value, question: &str) -> Result<Option<(String, String)>, Status> {
    let (namespace, name) = (context.namespace().unwrap_or_default(), context.name());
    let path = match connect {
        Connect::Log => format!(
            "/containerLogs/{namespace}/{name}/{}?{question}",
            container(pod, context)?
        ),
        Connect::Exec => format!("/exec/{namespace}/{name}/{}", container(pod, context)?),
        Connect::PortForward => format!("/portForward/{namespace}/{name}"),
    };
    let node = pod.pointer("/spec/nodeName").and_then(Value::as_str);
    match node.filter(|node| !node.is_empty()) {
        Some(node) => Ok(Some((node.to_owned(), path))),
        None if connect == Connect::Log => Ok(None),
        None => Err(Status::bad_request(format!("pod {name} does not have a host assigned"))),
    }
}

/// The parameters that the node is asked with.
fn log_question(context: &Context) -> Result<String, Status> {
    let query = &context.query;
    let number = |key: &str| query.number(key);
    let (tail, limit, since) = (number("tailLines")?, number("limitBytes")?, number("sinceSeconds")?);
    let since_time = query.get("sinceTime").filter(|time| !time.is_empty());
    let mut errors = Vec::new();
    if let Some(tail) = tail.filter(|tail| *tail < 0) {
        let why = "must be greater than or equal to 0";
        errors.push(FieldError::invalid("tailLines", tail, why));
    }
    for (field, value) in [("limitBytes", limit), ("sinceSeconds", since)] {
        let both = field == "sinceSeconds" && since_time.is_some();
        if let Some(value) = value.filter(|value| *value < 1 && !both) {
            errors.push(FieldError::invalid(field, value, "must be greater than 0"));
        }
    }
    if since.is_some() && since_time.is_some() {
        let why = "at most one of `sinceTime` or `sinceSeconds` may be specified";
        errors.push(FieldError::forbidden("[]", why));
    }
    if !errors.is_empty() {
        return Err(Status::invalid("", "PodLogOptions", context.name(), &errors));
    }
    let mut question = Vec::new();
    for flag in ["follow", "previous", "timestamps"] {
        if query.flag(flag) {
            question.push(format!("{flag}=true"));
        }
    }
    for (key, value) in [("tailLines", tail), ("limitBytes", limit), ("sinceSeconds", since)] {
        question.extend(value.map(|value| format!("{key}={value}")));
    }
    if let Some(time) = since_time {
        let time: jiff::Timestamp = time.parse().map_err(|_| {
            Status::bad_request(format!(
                "parsing time {time:?} as \"2006-01-02T15:04:05Z07:00\": cannot parse {time:?} as a time: give it as \
                 2026-01-31T12:00:00Z"
            ))
        })?;
        question.push(format!("sinceTime={time}"));
    }
    Ok(question.join("&"))
}

/// The container that is meant.
fn container<'a>(pod: &'a Value, context: &'a Context) -> Result<&'a str, Status> {
    let names = |field: &str| {
        let list = pod.pointer(&format!("/spec/{field}")).and_then(Value::as_array);
        let list = list.into_iter().flatten();
        list.filter_map(|container| container.get("name")?.as_str())
            .collect::<Vec<_>>()
    };
    let main = names("containers");
    let all = [names("initContainers"), main.clone(), names("ephemeralContainers")].concat();
    let pod = context.name();
    match (context.query.get("container").unwrap_or_default(), main.as_slice()) {
        ("", [only]) => Ok(only),
        ("", _) => Err(Status::bad_request(format!(
            "a container name must be specified for pod {pod}, choose one of: [{}]",
            all.join(" ")
        ))),
        (named, _) if all.contains(&named) => Ok(named),
        (named, _) => Err(Status::bad_request(format!(
            "container {named} is not valid for pod {pod}"
        ))),
    }
}

/// The service of a node in this process.
fn running(context: &Context, node: &str) -> Option<HttpService> {
    context.server.nodes.as_ref()?(node)
}

async fn find(context: &Context, node: &str) -> Result<HttpService, Status> {
    if let Some(service) = running(context, node) {
        return Ok(service);
    }
    let key = Key::new("nodes", None, node);
    match context.server.store.get(&key).await.map_err(store_status)? {
        // As upstream says it, which looks for the node with the words for the pod.
        None => Err(context.not_found(node)),
        Some(_) => Err(Status::internal(format!(
            "node {node} cannot be asked: it does not run in the process of this API server"
        ))),
    }
}

/// What a node that refuses means to the client (kubernetes/kubernetes v1.35
/// staging/src/k8s.io/apiserver/pkg/registry/generic/rest/response_checker.go).
fn refusal(context: &Context, code: StatusCode, text: String) -> Status {
    let resource = format!("pods/{}", context.subresource().unwrap_or_default());
    match code {
        StatusCode::INTERNAL_SERVER_ERROR => Status::internal(text),
        StatusCode::BAD_REQUEST => Status::bad_request(text),
        StatusCode::NOT_FOUND => {
            let name = context.name();
            let message = format!("the server could not find the requested resource ( {resource} {name})");
            Status::new(code, "NotFound", message).about("", &resource, name)
        }
        StatusCode::NOT_IMPLEMENTED => Status::new(code, "NotImplemented", text),
        code => Status::new(code, "", text),
    }
}

/// What a refusal says, as far as it is read.
async fn whole(body: ResponseBody) -> String {
    let (mut chunks, mut text) = (body.into_data_stream(), Vec::new());
    while let Some(Ok(chunk)) = chunks.next().await {
        text.extend_from_slice(&chunk);
        if text.len() >= REFUSAL_BYTES_MAX {
            break;
        }
    }
    text.truncate(REFUSAL_BYTES_MAX);
    String::from_utf8_lossy(&text).into_owned()
}
