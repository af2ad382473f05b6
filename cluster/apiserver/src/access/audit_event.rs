//! Audit events: what a policy reports of a request, as lines of JSON in the format of kube-apiserver's log
//! (kubernetes/kubernetes v1.35 staging/src/k8s.io/apiserver/pkg/apis/audit/v1/types.go, pkg/audit/request.go). Where they
//! go is up to the sink; no request waits for it.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use cluster_access::{PeerAddress, User};
use http::request::Parts;
use http::{HeaderMap, StatusCode, header};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::access::audit_policy::{AuditDecision, AuditLevel, AuditPolicy, AuditStage};
use crate::wire::answer::Answer;
use crate::wire::decode::{Encoding, encoding, try_decode};
use crate::wire::path::{RequestInfo, Target};

/// Longest user agent that is reported, in bytes, as there.
const AGENT_BYTES_MAX: usize = 1024;
const FORWARDED_FOR: &str = "x-forwarded-for";
/// The client's id of its request; without one, it gets a new id.
const AUDIT_ID: &str = "audit-id";
/// What a `Status` contains, and the size of the largest one that is parsed.
const STATUS: &[u8] = br#""kind":"Status""#;
const STATUS_BYTES_MAX: usize = 64 << 10;
const DECISION: &str = "authorization.k8s.io/decision";
const REASON: &str = "authorization.k8s.io/reason";

/// Where events go.
pub trait AuditSink: Send + Sync + 'static {
    /// Takes one event, a line of JSON without its end. It must not wait: what cannot be taken at once is lost.
    fn write(&self, event: Vec<u8>);

    /// How many events were lost so far.
    fn lost(&self) -> u64;
}

/// A policy and where its events go.
pub(crate) struct Auditing {
    policy: AuditPolicy,
    sink: Arc<dyn AuditSink>,
    reported: AtomicU64,
}

/// What is to be reported of one request.
pub(crate) struct Draft {
    auditing: Arc<Auditing>,
    id: String,
    uri: String,
    agent: String,
    addresses: Vec<String>,
    received: Timestamp,
    /// None until the caller is known.
    decision: Option<AuditDecision>,
    verb: &'static str,
    user: Value,
    impersonated: Option<Value>,
    object: Option<Map<String, Value>>,
    sent: Option<Value>,
    annotations: BTreeMap<String, String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Event<'a> {
    kind: &'static str,
    api_version: &'static str,
    level: &'static str,
    #[serde(rename = "auditID")]
    id: &'a str,
    stage: &'static str,
    #[serde(rename = "requestURI")]
    uri: &'a str,
    verb: &'a str,
    user: &'a Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    impersonated_user: Option<&'a Value>,
    #[serde(rename = "sourceIPs", skip_serializing_if = "<[_]>::is_empty")]
    addresses: &'a [String],
    #[serde(skip_serializing_if = "str::is_empty")]
    user_agent: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    object_ref: Option<&'a Map<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_status: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_object: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_object: Option<Value>,
    request_received_timestamp: String,
    stage_timestamp: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    annotations: &'a BTreeMap<String, String>,
}

impl Auditing {
    pub(crate) fn new(policy: AuditPolicy, sink: Arc<dyn AuditSink>) -> Arc<Self> {
        Arc::new(Self {
            policy,
            sink,
            reported: AtomicU64::new(0),
        })
    }

    /// How many events were reported, and how many of these were lost.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.reported.load(Ordering::Relaxed), self.sink.lost())
    }

    /// Begins to report a request. `new_id` is for one that has no id.
    pub(crate) fn begin(
        self: &Arc<Self>,
        parts: &Parts,
        received: Timestamp,
        new_id: impl FnOnce() -> String,
    ) -> Draft {
        let text = |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok());
        let mut agent = text(header::USER_AGENT.as_str()).unwrap_or_default().to_owned();
        agent.truncate(AGENT_BYTES_MAX);
        let uri = parts.uri.path_and_query().map_or("/", |uri| uri.as_str());
        Draft {
            auditing: self.clone(),
            id: text(AUDIT_ID).map_or_else(new_id, str::to_owned),
            uri: uri.to_owned(),
            agent,
            addresses: addresses(parts),
            received,
            decision: None,
            verb: "",
            user: json!({}),
            impersonated: None,
            object: None,
            sent: None,
            annotations: BTreeMap::new(),
        }
    }

    fn report(&self, event: &Event<'_>) {
        self.reported.fetch_add(1, Ordering::Relaxed);
        self.sink.write(serde_json::to_vec(event).unwrap_or_default());
    }
}

/// Who forwarded the request, then who sent it.
fn addresses(parts: &Parts) -> Vec<String> {
    let forwarded = parts.headers.get(FORWARDED_FOR).and_then(|value| value.to_str().ok());
    let forwarded = forwarded.unwrap_or_default().split(',').map(str::trim);
    let mut all: Vec<String> = forwarded
        .filter(|text| text.parse::<IpAddr>().is_ok())
        .map(str::to_owned)
        .collect();
    if let Some(PeerAddress(address)) = parts.extensions.get() {
        let address = address.to_string();
        if all.last() != Some(&address) {
            all.push(address);
        }
    }
    all
}

impl Draft {
    /// The caller and the request are known: the policy decides what is reported of it.
    pub(crate) fn received(&mut self, user: &User, info: &RequestInfo, now: Timestamp) {
        self.user = user_of(user);
        self.apply_policy(user, info);
        self.report(AuditStage::RequestReceived, None, None, now);
    }

    fn apply_policy(&mut self, user: &User, info: &RequestInfo) {
        self.decision = Some(self.auditing.policy.decide(user, info));
        self.verb = info.verb;
        self.object = info.target.as_ref().map(object_of);
    }

    fn level(&self) -> AuditLevel {
        self.decision
            .as_ref()
            .map(|decision| decision.level)
            .unwrap_or_default()
    }

    pub(crate) fn acts_as(&mut self, user: &User) {
        self.impersonated = Some(user_of(user));
    }

    pub(crate) fn decided(&mut self, is_allowed: bool, reason: &str) {
        let decision = if is_allowed { "allow" } else { "forbid" };
        self.annotations.insert(DECISION.to_owned(), decision.to_owned());
        self.annotations.insert(REASON.to_owned(), reason.to_owned());
    }

    /// Adds the request's body, as far as the policy reports it.
    pub(crate) fn sent(&mut self, headers: &HeaderMap, body: &Bytes) {
        let level = self.level();
        let is_object = matches!(self.verb, "create" | "update");
        if body.is_empty() || level < AuditLevel::Metadata || (level == AuditLevel::Metadata && !is_object) {
            return;
        }
        let encoding = encoding(headers).unwrap_or(Encoding::Json);
        let read = try_decode(body, encoding).or_else(|_| try_decode(body, Encoding::Yaml));
        let Ok(read) = read else { return };
        if is_object && let Some(object) = &mut self.object {
            let metadata = &read.value["metadata"];
            for (field, from) in [
                ("namespace", "namespace"),
                ("name", "name"),
                ("uid", "uid"),
                ("resourceVersion", "resourceVersion"),
            ] {
                let found = metadata[from].as_str().filter(|text| !text.is_empty());
                if let (Some(found), false) = (found, object.contains_key(field)) {
                    object.insert(field.to_owned(), Value::from(found));
                }
            }
        }
        if level >= AuditLevel::Request {
            self.sent = Some(self.shown(read.value));
        }
    }

    /// Reports the answer; of a stream, that it has begun, and once it is over, that it has ended.
    pub(crate) fn finish(
        mut self,
        answer: Answer,
        annotations: &BTreeMap<String, String>,
        info: &RequestInfo,
        now: impl Fn() -> Timestamp + Send + 'static,
    ) -> Answer {
        self.annotations
            .extend(annotations.iter().map(|(key, value)| (key.clone(), value.clone())));
        let answer = answer.with_audit_id(&self.id);
        if self.decision.is_none() {
            // The caller was not authenticated.
            self.apply_policy(&User::default(), info);
            self.report(AuditStage::ResponseStarted, Some(answer.code), answer.whole(), now());
            return answer;
        }
        if self.level() == AuditLevel::None {
            return answer;
        }
        if answer.whole().is_some() {
            self.report(AuditStage::ResponseComplete, Some(answer.code), answer.whole(), now());
            return answer;
        }
        self.report(AuditStage::ResponseStarted, Some(answer.code), None, now());
        let code = answer.code;
        answer.holding(AtEnd(Some(Box::new(move || {
            self.report(AuditStage::ResponseComplete, Some(code), None, now());
        }))))
    }

    fn report(&self, stage: AuditStage, code: Option<StatusCode>, body: Option<&Bytes>, now: Timestamp) {
        let Some(decision) = self
            .decision
            .as_ref()
            .filter(|decision| !decision.omitted.contains(&stage))
        else {
            return;
        };
        if decision.level == AuditLevel::None {
            return;
        }
        let response_object = body
            .filter(|_| decision.level >= AuditLevel::RequestResponse)
            .and_then(|body| serde_json::from_slice(body).ok())
            .map(|value| self.shown(value));
        self.auditing.report(&Event {
            kind: "Event",
            api_version: "audit.k8s.io/v1",
            level: decision.level.name(),
            id: &self.id,
            stage: stage.name(),
            uri: &self.uri,
            verb: self.verb,
            user: &self.user,
            impersonated_user: self.impersonated.as_ref(),
            addresses: &self.addresses,
            user_agent: &self.agent,
            object_ref: self.object.as_ref(),
            response_status: code.map(|code| status_of(code, body)),
            request_object: self.sent.as_ref(),
            response_object,
            request_received_timestamp: moment(self.received),
            stage_timestamp: moment(now),
            annotations: &self.annotations,
        });
    }

    fn shown(&self, mut value: Value) -> Value {
        if self
            .decision
            .as_ref()
            .is_some_and(|decision| decision.without_managed_fields)
        {
            let drop_them = |object: &mut Value| {
                if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
                    metadata.remove("managedFields");
                }
            };
            drop_them(&mut value);
            let items = value.get_mut("items").and_then(Value::as_array_mut);
            items.into_iter().flatten().for_each(drop_them);
        }
        value
    }
}

/// Runs when it is dropped.
pub(crate) struct AtEnd(Option<Box<dyn FnOnce() + Send>>);

impl Drop for AtEnd {
    fn drop(&mut self) {
        if let Some(run) = self.0.take() {
            run();
        }
    }
}

fn moment(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

fn user_of(user: &User) -> Value {
    let mut shown = json!({"username": user.name});
    if !user.uid.is_empty() {
        shown["uid"] = json!(user.uid);
    }
    if !user.groups.is_empty() {
        shown["groups"] = json!(user.groups);
    }
    if !user.extra.is_empty() {
        shown["extra"] = json!(user.extra);
    }
    shown
}

fn object_of(target: &Target) -> Map<String, Value> {
    let mut object = Map::new();
    let mut put = |field: &str, text: &str| {
        if !text.is_empty() {
            object.insert(field.to_owned(), Value::from(text));
        }
    };
    put("resource", &target.resource);
    put("namespace", target.namespace.as_deref().unwrap_or_default());
    put("name", target.name.as_deref().unwrap_or_default());
    put("apiGroup", &target.group);
    put("apiVersion", &target.version);
    put("subresource", target.subresource.as_deref().unwrap_or_default());
    object
}

/// The code, and the other fields of a `Status`.
fn status_of(code: StatusCode, body: Option<&Bytes>) -> Value {
    let mut status = json!({"metadata": {}, "code": code.as_u16()});
    let is_one =
        |body: &&Bytes| body.len() <= STATUS_BYTES_MAX && body.windows(STATUS.len()).any(|part| part == STATUS);
    let answered: Option<Value> = body.filter(is_one).and_then(|body| serde_json::from_slice(body).ok());
    let answered = answered.filter(|answered| answered["kind"] == "Status");
    for field in ["status", "message", "reason", "details"] {
        if let Some(value) = answered.as_ref().and_then(|answered| answered.get(field)) {
            status[field] = value.clone();
        }
    }
    status
}
