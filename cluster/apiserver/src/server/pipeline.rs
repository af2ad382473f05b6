//! The way of every request: parse, authenticate, authorize, route, record. It does not know what verbs do, except which may
//! change something: such a request runs to its end even if the client disconnects.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};

use base_client::ResponseBody;
use cluster_access::{Attributes, Decision, User, group, overlooked_token};
use futures::FutureExt;
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use kube::client::Body;
use tokio::time::Instant;

use crate::access::audit_event::Draft;
use crate::access::audit_log::AuditRecord;
use crate::access::authorization;
use crate::access::fairness::Seat;
use crate::kinds::registry::{Kinds, Role, Served};
use crate::relay::{aggregated, node_streams};
use crate::requests::route;
use crate::server::nonresource_paths;
use crate::state::context::Context;
use crate::state::server_state::ServerState;
use crate::wire::answer::Answer;
use crate::wire::decode::read_body;
use crate::wire::negotiation::{self, Writing};
use crate::wire::path::{self, RequestInfo, Target, bad_path};
use crate::wire::query::Query;
use crate::wire::status::Status;

/// Answers one request. Never fails and never panics: a refusal is an answer.
pub(crate) async fn serve(server: Arc<ServerState>, request: Request<Body>) -> Response<ResponseBody> {
    let head_only = request.method() == Method::HEAD;
    let mut trace = Trace::begin();
    let mut writing = Writing::default();
    let answer = match unless_it_panics(begin(&server, request, &mut trace, &mut writing)).await {
        Err(status) => finish(&server, trace, Err(status)),
        Ok(Begun::Answered(answer)) => finish(&server, trace, Ok(answer)),
        Ok(Begun::Reading(context, body)) => {
            let outcome = unless_it_panics(handle(&context, trace.info.verb, body)).await;
            finish(&server, trace, outcome)
        }
        Ok(Begun::Changing(context, body)) => change(server, trace, context, body).await,
    };
    answer.into_response(head_only, writing)
}

/// Strategies of other crates run below: a panic there must fail only its own request.
async fn unless_it_panics<T>(work: impl Future<Output = Result<T, Status>>) -> Result<T, Status> {
    let outcome = AssertUnwindSafe(work).catch_unwind().await;
    outcome.unwrap_or_else(|_| Err(Status::internal("the request's handler panicked")))
}

/// Runs a request that may change something on a task of the server. Its caller may be gone at any moment, and a write
/// that has reached the store happens all the same: then what follows from it (access rules, served kinds, the audit
/// record) must happen too, and what it holds (addresses) must be held until it is stored.
async fn change(server: Arc<ServerState>, trace: Trace, context: Context, body: Body) -> Answer {
    // A shutdown waits for requests that began before, and no request begins after it.
    let running = server.tasks.token();
    if server.stop.is_cancelled() {
        return finish(&server, trace, Err(shutting_down()));
    }
    let tasks = server.tasks.clone();
    let work = tasks.spawn(async move {
        let outcome = unless_it_panics(handle(&context, trace.info.verb, body)).await;
        let annotations = context.take_annotations();
        finish(&server, Trace { annotations, ..trace }, outcome)
    });
    drop(running);
    let gone = |_| Answer::failure(&Status::internal("the request's task was stopped with its runtime"));
    work.await.unwrap_or_else(gone)
}

async fn handle(context: &Context, verb: &str, body: Body) -> Result<Answer, Status> {
    let version = context.served.version(context.version());
    let warning = version.and_then(|version| version.deprecation_warning.clone());
    match route::dispatch(context, verb, body).await {
        Ok(answer) => Ok(answer.warn(warning)),
        Err(status) => Err(status.warned(warning)),
    }
}

fn finish(server: &ServerState, mut trace: Trace, outcome: Result<Answer, Status>) -> Answer {
    let mut answer = outcome.unwrap_or_else(|status| Answer::failure(&status));
    answer = answer.warn(trace.overlooked.map(str::to_owned));
    server
        .metrics
        .count(trace.info.verb, answer.code, trace.begun.elapsed());
    if let Some(draft) = trace.audit.take() {
        let clock = server.clock.clone();
        answer = draft.finish(answer, &trace.annotations, &trace.info, move || clock.now());
    }
    if let Some(counted) = server.metrics.begin_long_running(&trace.info) {
        answer = answer.holding(counted);
    }
    record(server, trace, answer.code);
    answer
}

fn shutting_down() -> Status {
    Status::unavailable("the server is shutting down").retry_after(1)
}

/// How far a request is before it reaches the handler of its verb.
enum Begun {
    /// Complete: the path is no resource, or the request was a review, or another server has answered.
    Answered(Answer),
    /// The rest only reads, and ends with its client.
    Reading(Context, Body),
    /// The rest may change something. The body has been read, because the client may disconnect.
    Changing(Context, Body),
}

/// What is known about a request by the time it is answered.
struct Trace {
    begun: Instant,
    user: Option<Arc<User>>,
    /// The caller, when it impersonates the user.
    impersonator: String,
    info: RequestInfo,
    annotations: BTreeMap<String, String>,
    /// The warning about a token that was not evaluated.
    overlooked: Option<&'static str>,
    /// The audit event, if events are configured.
    audit: Option<Draft>,
    /// Held until the request is answered.
    seat: Option<Seat>,
}

impl Trace {
    fn begin() -> Self {
        Self {
            begun: Instant::now(),
            user: None,
            impersonator: String::new(),
            info: RequestInfo::default(),
            annotations: BTreeMap::new(),
            overlooked: None,
            audit: None,
            seat: None,
        }
    }

    fn with_draft(&mut self, what: impl FnOnce(&mut Draft, &RequestInfo)) {
        if let Some(draft) = &mut self.audit {
            what(draft, &self.info);
        }
    }
}

async fn begin(
    server: &Arc<ServerState>,
    request: Request<Body>,
    trace: &mut Trace,
    writing: &mut Writing,
) -> Result<Begun, Status> {
    if server.stop.is_cancelled() {
        return Err(shutting_down());
    }
    let (parts, body) = request.into_parts();
    if let Some(auditing) = &server.auditing {
        trace.audit = Some(auditing.begin(&parts, server.clock.now(), || server.entropy.uid()));
    }
    let query = Query::parse(parts.uri.query());
    *writing = negotiation::writing(&parts.headers, &query);
    trace.info = RequestInfo::parse(&parts.method, parts.uri.path(), &query).map_err(bad_path)?;
    let user = identify(server, &parts, trace).await?;
    trace.seat = server.fairness.acquire_seat(&user, &trace.info).await?;
    authorize(server, &user, trace, &query).await?;
    if let Some(route) = server
        .aggregation
        .route(&trace.info.path)
        .filter(|_| !trace.info.has_gap)
    {
        let watch = trace.info.verb == "watch";
        let passed = Box::pin(aggregated::pass(server, &route, &user, watch, &parts, body));
        return passed.await.map(Begun::Answered);
    }
    let Some(target) = trace.info.target.clone() else {
        return nonresource_paths::answer(server, &trace.info, &parts, &query)
            .await
            .map(Begun::Answered);
    };
    let kinds = server.registry.snapshot();
    if let Some(review) = kinds.find_review(&target) {
        let answer = review.answer(server, &user, &target, trace.info.verb, &parts, body);
        return answer.await.map(Begun::Answered);
    }
    let served = find(&kinds, &trace.info, &target, parts.method == Method::HEAD)?;
    let connected = node_streams::is_connection(served, &target).then(|| parts.clone());
    let context = Context {
        deadline: Instant::now() + query.timeout(),
        server: server.clone(),
        served: served.clone(),
        user,
        target,
        query,
        headers: parts.headers,
        now: server.clock.now(),
        annotations: Mutex::default(),
    };
    if let Some(parts) = connected {
        let answer = Box::pin(node_streams::connected(&context, &trace.info, &parts, body));
        return answer.await.map(Begun::Answered);
    }
    if matches!(trace.info.verb, "get" | "list" | "watch") {
        return Ok(Begun::Reading(context, body));
    }
    if let Some(front) = &server.in_front {
        front.synced().await?;
    }
    let body = read_body(body).await?;
    trace.with_draft(|draft, _| draft.sent(&context.headers, &body));
    Ok(Begun::Changing(context, Body::from(body)))
}

/// The caller, or the user whom it impersonates.
async fn identify(server: &ServerState, parts: &Parts, trace: &mut Trace) -> Result<Arc<User>, Status> {
    trace.overlooked = overlooked_token(&parts.headers);
    let real = server.access.authenticate(parts).await?;
    // A user who was identified by something else needs no token.
    trace.overlooked = trace.overlooked.filter(|_| real.name == group::ANONYMOUS_USER);
    trace.user = Some(real.clone());
    trace.with_draft(|draft, info| draft.received(&real, info, server.clock.now()));
    let user = server.access.impersonate(real.clone(), parts).await?;
    if !Arc::ptr_eq(&real, &user) {
        trace.impersonator = real.name.clone();
        trace.user = Some(user.clone());
        trace.with_draft(|draft, _| draft.acts_as(&user));
    }
    Ok(user)
}

/// The kind that serves a path, if there is one and it takes the method.
fn find<'a>(kinds: &'a Kinds, info: &RequestInfo, target: &Target, head: bool) -> Result<&'a Arc<Served>, Status> {
    let nowhere = || kinds.nowhere(&target.group);
    let served = kinds.find(&target.group, &target.resource).filter(|_| !info.has_gap);
    let served = served.ok_or_else(nowhere)?;
    served.version(&target.version).ok_or_else(nowhere)?;
    let scoped = served.info().namespaced == target.namespace.is_some();
    let everywhere = served.info().namespaced && target.name.is_none() && target.namespace.is_none();
    let across = everywhere && matches!(info.verb, "list" | "watch");
    if !(scoped || across || is_namespace(served.plural(), target) || named_by_selector(info, target)) {
        let known = everywhere && served.role != Role::Custom;
        return Err(if known { Status::method_not_allowed() } else { nowhere() });
    }
    if info.has_bad_namespace {
        return Err(path::bad_namespace());
    }
    if head && served.role != Role::Custom && !node_streams::is_connection(served, target) {
        return Err(Status::method_not_allowed());
    }
    // The name of an update is compared with that in its body first.
    match target.name.as_deref().filter(|_| info.verb != "update") {
        Some(name) => path::check_name(name).map(|()| served),
        None => Ok(served),
    }
}

fn is_namespace(plural: &str, target: &Target) -> bool {
    plural == "namespaces" && target.group.is_empty()
}

/// `GET /api/v1/pods?fieldSelector=metadata.name=x` carries a name without naming an object in its path.
fn named_by_selector(info: &RequestInfo, target: &Target) -> bool {
    matches!(info.verb, "list" | "watch") && target.namespace.is_none() && target.subresource.is_none()
}

async fn authorize(server: &ServerState, user: &Arc<User>, trace: &mut Trace, query: &Query) -> Result<(), Status> {
    let info = &trace.info;
    let attributes = match &info.target {
        None => Attributes::path(user, info.verb, &info.path),
        Some(target) => Attributes::resource(user, info.verb, target.resource_target()),
    };
    let decision = authorization::decide(&server.access, &attributes, query).await?;
    trace.with_draft(|draft, _| match &decision {
        Decision::Allow(why) => draft.decided(true, why),
        Decision::Deny(why) => draft.decided(false, why),
    });
    authorization::forbidden(&attributes, &decision).map_or(Ok(()), Err)
}

fn record(server: &ServerState, trace: Trace, code: StatusCode) {
    server.audit.record(|| {
        let user = trace.user.map(|user| (*user).clone()).unwrap_or_default();
        let target = trace.info.target.unwrap_or_default();
        AuditRecord {
            user: user.name,
            groups: user.groups,
            impersonator: trace.impersonator,
            verb: trace.info.verb.to_owned(),
            group: target.group,
            resource: target.resource,
            subresource: target.subresource.unwrap_or_default(),
            namespace: target.namespace.unwrap_or_default(),
            name: target.name.unwrap_or_default(),
            path: trace.info.path,
            code: code.as_u16(),
            annotations: trace.annotations,
            at: server.clock.now(),
        }
    });
}
