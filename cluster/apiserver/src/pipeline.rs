//! The way of every request: parse, authenticate, authorize, route, record. It knows no verb's meaning.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use base_client::ResponseBody;
use cluster_access::{Attributes, ResourceTarget};
use futures::FutureExt;
use http::{Method, Request, Response, StatusCode};
use kube::client::Body;

use crate::answer::Answer;
use crate::audit::AuditRecord;
use crate::context::Context;
use crate::path::{PathError, RequestInfo, Target};
use crate::query::Query;
use crate::server::Inner;
use crate::status::Status;
use crate::{User, access, plain, route};

/// Answers one request. Never fails and never panics: a refusal is an answer.
pub(crate) async fn serve(server: Arc<Inner>, request: Request<Body>) -> Response<ResponseBody> {
    let head_only = request.method() == Method::HEAD;
    let mut trace = Trace::default();
    // Strategies of other crates run below: a panic there must cost its request alone.
    let outcome = AssertUnwindSafe(answer(&server, request, &mut trace))
        .catch_unwind()
        .await;
    let outcome = outcome.unwrap_or_else(|_| Err(Status::internal("the request's handler panicked")));
    let answer = outcome.unwrap_or_else(|status| Answer::failure(&status));
    server.metrics.count(trace.info.verb, answer.code);
    record(&server, trace, answer.code);
    answer.into_response(head_only)
}

/// What is known about a request by the time it is answered.
#[derive(Default)]
struct Trace {
    user: Option<Arc<User>>,
    info: RequestInfo,
}

async fn answer(server: &Arc<Inner>, request: Request<Body>, trace: &mut Trace) -> Result<Answer, Status> {
    if server.stop.is_cancelled() {
        return Err(Status::unavailable("the server is shutting down").retry_after(1));
    }
    let (parts, body) = request.into_parts();
    let query = Query::parse(parts.uri.query()).map_err(bad_path)?;
    trace.info = RequestInfo::parse(&parts.method, parts.uri.path(), &query).map_err(bad_path)?;
    let user = server.access.authenticate(&parts).await?;
    trace.user = Some(user.clone());
    authorize(server, &user, &trace.info)?;
    let Some(target) = trace.info.target.clone() else {
        return plain::answer(server, &trace.info, &parts, &query);
    };
    let kinds = server.registry.snapshot();
    if let Some(review) = crate::reviews::Review::find(&target) {
        return review
            .answer(server, &user, &target, trace.info.verb, &parts, body)
            .await;
    }
    let served = kinds
        .find(&target.group, &target.resource)
        .ok_or_else(Status::no_such_resource)?;
    let version = served.version(&target.version).ok_or_else(Status::no_such_resource)?;
    let warning = version.deprecation_warning.clone();
    let scoped = served.info().namespaced == target.namespace.is_some();
    let across = served.info().namespaced && target.name.is_none() && matches!(trace.info.verb, "list" | "watch");
    if !(scoped || across || is_namespace(served.plural(), &target) || named_by_selector(&trace.info, &target)) {
        return Err(Status::no_such_resource());
    }
    let context = Context {
        server: server.clone(),
        served: served.clone(),
        user,
        target,
        query,
        headers: parts.headers,
        now: server.clock.now(),
    };
    Ok(route::dispatch(&context, trace.info.verb, body).await?.warn(warning))
}

fn is_namespace(plural: &str, target: &Target) -> bool {
    plural == "namespaces" && target.group.is_empty()
}

/// `GET /api/v1/pods?fieldSelector=metadata.name=x` carries a name without naming an object in its path.
fn named_by_selector(info: &RequestInfo, target: &Target) -> bool {
    matches!(info.verb, "list" | "watch") && target.namespace.is_none() && target.subresource.is_none()
}

fn authorize(server: &Inner, user: &Arc<User>, info: &RequestInfo) -> Result<(), Status> {
    let attributes = match &info.target {
        None => Attributes::path(user, info.verb, &info.path),
        Some(target) => Attributes::resource(user, info.verb, resource_target(target)),
    };
    access::forbidden(&attributes, &server.access.authorize(&attributes)).map_or(Ok(()), Err)
}

pub(crate) fn resource_target(target: &Target) -> ResourceTarget {
    ResourceTarget {
        group: target.group.clone(),
        version: target.version.clone(),
        resource: target.resource.clone(),
        subresource: target.subresource.clone().unwrap_or_default(),
        namespace: target.namespace.clone().unwrap_or_default(),
        name: target.name.clone().unwrap_or_default(),
    }
}

fn bad_path(error: PathError) -> Status {
    match error {
        PathError::TooLong => Status::new(StatusCode::URI_TOO_LONG, "", "the request's path is too long"),
        PathError::Encoding => Status::bad_request("the request's path or query is not well encoded"),
        PathError::Proxy => Status::not_implemented("the legacy proxy path"),
    }
}

fn record(server: &Inner, trace: Trace, code: StatusCode) {
    server.audit.record(|| {
        let user = trace.user.map(|user| (*user).clone()).unwrap_or_default();
        let target = trace.info.target.unwrap_or_default();
        AuditRecord {
            user: user.name,
            groups: user.groups,
            verb: trace.info.verb.to_owned(),
            group: target.group,
            resource: target.resource,
            subresource: target.subresource.unwrap_or_default(),
            namespace: target.namespace.unwrap_or_default(),
            name: target.name.unwrap_or_default(),
            path: trace.info.path,
            code: code.as_u16(),
            at: server.clock.now(),
        }
    });
}
