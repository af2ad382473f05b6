//! Subresources of pods that their node answers: the log of a container, exec and attach; and port forwarding, which this server
//! does itself for pods of its process. It finds container and node, forwards the request to the node here or to its kubelet
//! elsewhere, and passes the response or the connection to the client.
//! (kubernetes/kubernetes v1.35 pkg/registry/core/pod/strategy.go LogLocation and streamLocation, rest/log.go)

use base_client::{HttpService, ResponseBody, answer_apart, stream_body};
use bytes::Bytes;
use cluster_fields::FieldError;
use futures::StreamExt;
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::{Map, Value, json};

use crate::admission::subresource_body;
use crate::connections::kubelets::NodePlace;
use crate::kinds::registry::Served;
use crate::kinds::resource::{Connect, Form};
use crate::relay::{port_forward, proxy};
use crate::state::context::Context;
use crate::wire::answer::Answer;
use crate::wire::guarded_body::held;
use crate::wire::path::{RequestInfo, Target};
use crate::wire::query::{Query, encoded};
use crate::wire::status::Status;

/// How much of a node's refusal is read.
const REFUSAL_BYTES_MAX: usize = 10_000;
const TEXT: &str = "text/plain";

/// Whether a path leads to a connection rather than to an object: the server that answers gets all of the request.
pub(crate) fn is_connection(served: &Served, target: &Target) -> bool {
    let name = target.subresource.as_deref();
    let found = name.and_then(|name| served.info().find_subresource(name, &target.version));
    found.is_some_and(|found| {
        matches!(
            found.form,
            Form::Proxy(_) | Form::Connect(Connect::Exec | Connect::Attach | Connect::PortForward)
        )
    })
}

/// Answers a request for which [`is_connection`] holds.
pub(crate) async fn connected(
    context: &Context,
    info: &RequestInfo,
    parts: &Parts,
    body: Body,
) -> Result<Answer, Status> {
    if context.query.all("dryRun").next().is_some() {
        return Err(Status::bad_request("dryRun is not supported"));
    }
    let name = context.subresource().unwrap_or_default();
    let found = context.served.info().find_subresource(name, context.version());
    match found.map(|found| &found.form) {
        Some(Form::Proxy(proxied)) => proxy::answer(context, *proxied, &info.path, parts, body).await,
        Some(Form::Connect(connect)) if context.target.rest.is_empty() => match parts.method {
            Method::GET | Method::POST => stream(context, *connect, parts, body).await,
            _ => Err(Status::method_not_allowed()),
        },
        _ => Err(Status::no_such_resource()),
    }
}

/// The log of a container.
pub(crate) async fn log(context: &Context) -> Result<Answer, Status> {
    let query = log_query(context)?;
    let entry = context.current(context.name()).await?;
    let pod = entry.object.value(entry.revision);
    let container = container(&pod, context, context.query.get("container").unwrap_or_default())?;
    let Some(node) = node_of(&pod) else {
        // No node runs it yet, so there is no log.
        return Ok(Answer::typed(StatusCode::NO_CONTENT, TEXT, Bytes::new()));
    };
    let (namespace, name) = (context.namespace().unwrap_or_default(), context.name());
    let query = if query.is_empty() { query } else { format!("?{query}") };
    let path = format!("/containerLogs/{namespace}/{name}/{container}{query}");
    let response = match find(context, node).await? {
        Found::Here(service) => call(service, path).await?,
        Found::Elsewhere(place) => {
            let permit = context.server.relay_limit.acquire()?;
            let response = context
                .server
                .network
                .kubelets
                .get(&place, &path)
                .await
                .map_err(Status::failed)?;
            response.map(|body| held(body, permit))
        }
    };
    if !response.status().is_success() {
        let code = response.status();
        return Err(refusal(context, code, whole(response.into_body()).await));
    }
    // Clients that follow a log are disconnected when the server stops.
    let stop = context.server.stop.clone();
    let chunks = response
        .into_body()
        .into_data_stream()
        .take_until(stop.cancelled_owned());
    Ok(Answer::stream(TEXT, stream_body(chunks)))
}

/// Execs in a container, attaches to it, or forwards ports of a pod, by the pod's node.
async fn stream(context: &Context, connect: Connect, parts: &Parts, body: Body) -> Result<Answer, Status> {
    // A WebSocket begins with GET, and requires the rights of POST (AuthorizePodWebsocketUpgradeCreatePermission, on since 1.35).
    if parts.method == Method::GET {
        context.check_create().await?;
    }
    let mut options = options(&context.query, connect);
    let kind = ("", "v1", connect.options());
    let warnings = subresource_body::review_connection(context, kind, &mut options).await?;
    let entry = context.current(context.name()).await?;
    let pod = entry.object.value(entry.revision);
    let (namespace, name) = (context.namespace().unwrap_or_default(), context.name());
    let named = || container(&pod, context, options["container"].as_str().unwrap_or_default());
    let path = match connect {
        Connect::PortForward => format!("/portForward/{namespace}/{name}"),
        Connect::Attach => format!("/attach/{namespace}/{name}/{}", named()?),
        Connect::Exec | Connect::Log => format!("/exec/{namespace}/{name}/{}", named()?),
    };
    let node = node_of(&pod);
    let node = node.ok_or_else(|| Status::bad_request(format!("pod {name} does not have a host assigned")))?;
    match find(context, node).await? {
        Found::Elsewhere(place) => {
            let query = stream_query(&options);
            let relayed = proxy::to_kubelet(context, place, (&path, &query), parts, body);
            Ok(relayed.await?.warn(warnings))
        }
        Found::Here(service) => {
            if let (Connect::PortForward, Some(pod)) = (connect, forwarded(context, &pod)) {
                let permit = context.server.relay_limit.acquire()?;
                return Ok(port_forward::answer(pod, parts, permit)?.warn(warnings));
            }
            let path = format!("{path}?{}", stream_query(&options));
            let response = proxy::to_node(context, service, &path, parts, body).await?;
            let code = response.status();
            if code == StatusCode::SWITCHING_PROTOCOLS {
                return Ok(Answer::passed(response).warn(warnings));
            }
            Err(refusal(context, code, whole(response.into_body()).await).warned(warnings))
        }
    }
}

/// A pod of this process whose ports this server reaches itself.
fn forwarded(context: &Context, pod: &Value) -> Option<port_forward::Pod> {
    context.server.network.pods.as_ref()?;
    let text = |pointer: &str| pod.pointer(pointer).and_then(Value::as_str);
    Some(port_forward::Pod {
        server: context.server.clone(),
        name: context.name().to_owned(),
        uid: text("/metadata/uid").unwrap_or_default().to_owned(),
        ip: text("/status/podIP")?.parse().ok()?,
    })
}

/// The options of the request, as an object of Kubernetes.
fn options(query: &Query, connect: Connect) -> Value {
    let mut options = Map::new();
    if connect == Connect::PortForward {
        let ports: Vec<i64> = query.all("ports").filter_map(|port| port.parse().ok()).collect();
        if !ports.is_empty() {
            options.insert("ports".to_owned(), json!(ports));
        }
        return Value::Object(options);
    }
    for flag in ["stdin", "stdout", "stderr", "tty"] {
        if query.flag(flag) {
            options.insert(flag.to_owned(), json!(true));
        }
    }
    if let Some(container) = query.get("container").filter(|name| !name.is_empty()) {
        options.insert("container".to_owned(), json!(container));
    }
    if connect == Connect::Exec {
        let command: Vec<&str> = query.all("command").collect();
        options.insert("command".to_owned(), json!(command));
    }
    Value::Object(options)
}

/// The same as the query of a kubelet (kubernetes/kubernetes v1.35 pkg/registry/core/pod/strategy.go, streamParams).
fn stream_query(options: &Value) -> String {
    let mut pairs: Vec<(&str, String)> = Vec::new();
    let texts = |field: &str| options[field].as_array().cloned().unwrap_or_default();
    for command in texts("command") {
        pairs.push(("command", encoded(command.as_str().unwrap_or_default())));
    }
    for (field, parameter) in [("stderr", "error"), ("stdin", "input"), ("stdout", "output")] {
        if options[field] == true {
            pairs.push((parameter, "1".to_owned()));
        }
    }
    let ports: Vec<String> = texts("ports").iter().map(Value::to_string).collect();
    if !ports.is_empty() {
        pairs.push(("port", encoded(&ports.join(","))));
    }
    if options["tty"] == true {
        pairs.push(("tty", "1".to_owned()));
    }
    let pairs: Vec<String> = pairs.iter().map(|(key, value)| format!("{key}={value}")).collect();
    pairs.join("&")
}

/// The node that has the pod.
fn node_of(pod: &Value) -> Option<&str> {
    let node = pod.pointer("/spec/nodeName").and_then(Value::as_str);
    node.filter(|node| !node.is_empty())
}

/// The query of the request to the node.
fn log_query(context: &Context) -> Result<String, Status> {
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
    let mut pairs = Vec::new();
    let flag = |key: &str| query.flag(key).then(|| format!("{key}=true"));
    let number = |key: &str, value: Option<i64>| value.map(|value| format!("{key}={value}"));
    // In the order of their names, as Go writes them.
    pairs.extend(flag("follow"));
    pairs.extend(number("limitBytes", limit));
    pairs.extend(flag("previous"));
    pairs.extend(number("sinceSeconds", since));
    if let Some(time) = since_time {
        let time: jiff::Timestamp = time.parse().map_err(|_| {
            Status::bad_request(format!(
                "parsing time {time:?} as \"2006-01-02T15:04:05Z07:00\": cannot parse {time:?} as a time: give it as \
                 2026-01-31T12:00:00Z"
            ))
        })?;
        pairs.push(format!("sinceTime={}", encoded(&time.to_string())));
    }
    pairs.extend(number("tailLines", tail));
    pairs.extend(flag("timestamps"));
    Ok(pairs.join("&"))
}

/// The container of the request.
fn container<'a>(pod: &'a Value, context: &Context, named: &'a str) -> Result<&'a str, Status> {
    let names = |field: &str| {
        let list = pod.pointer(&format!("/spec/{field}")).and_then(Value::as_array);
        let list = list.into_iter().flatten();
        list.filter_map(|container| container.get("name")?.as_str())
            .collect::<Vec<_>>()
    };
    let main = names("containers");
    let all = [names("initContainers"), main.clone(), names("ephemeralContainers")].concat();
    let pod = context.name();
    match (named, main.as_slice()) {
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
    context.server.network.nodes.as_ref()?(node)
}

/// Calls a node of this process.
async fn call(service: HttpService, path: String) -> Result<Response<ResponseBody>, Status> {
    let request = Request::get(path).body(Body::empty()).map_err(Status::internal)?;
    answer_apart(service, request).await.map_err(Status::internal)
}

/// Where a node is: in this process or behind an address.
enum Found {
    Here(HttpService),
    Elsewhere(NodePlace),
}

async fn find(context: &Context, node: &str) -> Result<Found, Status> {
    if let Some(service) = running(context, node) {
        return Ok(Found::Here(service));
    }
    let place = context.server.network.kubelet(node).await?;
    // As upstream, which reports a missing node as a missing pod.
    place.map(Found::Elsewhere).ok_or_else(|| context.not_found(node))
}

/// The status for the client when a node refuses (kubernetes/kubernetes v1.35
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

/// The text of a refusal, as far as it is read.
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
