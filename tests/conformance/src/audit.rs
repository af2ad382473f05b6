//! The audit log: the same policy and the same requests, and the lines that both servers write about them. Each has a server
//! of its own, because the log has all requests. It compares no answers.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use cluster_apiserver::{AuditPolicy, AuditSink};
use http::{HeaderName, HeaderValue, Method};
use serde_json::{Value, json};

use crate::compare::differences;
use crate::known::Table;
use crate::ours::{Ours, Storage};
use crate::real::{Options, Real};
use crate::wire::{Call, USER_AGENT};
use crate::{Difference, Outcome};

/// The name of these cases in reports and in the table of known differences.
pub const FILE: &str = "audit";
/// Real Kubernetes writes a line before it answers, but a watch ends later.
const LINES_TIMEOUT: Duration = Duration::from_secs(5);
/// Between two reads of its file, which nothing announces.
const LOOK_PAUSE: Duration = Duration::from_millis(100);

const POLICY: &str = "
apiVersion: audit.k8s.io/v1
kind: Policy
omitManagedFields: true
rules:
- {level: None, nonResourceURLs: ['/healthz*', '/readyz*', '/livez*']}
- {level: Metadata, nonResourceURLs: ['/version']}
- {level: Request, verbs: [patch, update], resources: [{resources: [configmaps]}], omitStages: [RequestReceived]}
- {level: RequestResponse, resources: [{resources: [configmaps]}], omitStages: [RequestReceived]}
- {level: Metadata, omitStages: [RequestReceived]}
";

/// What a server chooses by itself.
const CHOSEN: [&str; 9] = [
    "auditID",
    "authentication.kubernetes.io/credential-id",
    "creationTimestamp",
    "requestReceivedTimestamp",
    "resourceVersion",
    "resourceVersionMatch",
    "stageTimestamp",
    "uid",
    "time",
];

/// The results: how many lines agree, how many have known differences, and the others.
#[derive(Debug, Default)]
pub struct Tally {
    /// Both wrote the same.
    pub agree: usize,
    /// They did not, and the table says why.
    pub known: usize,
    /// They did not: the line's title and where it differs.
    pub differ: Vec<(String, Vec<Difference>)>,
}

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<Vec<u8>>>>);

impl AuditSink for Lines {
    fn write(&self, event: Vec<u8>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(event);
    }

    fn lost(&self) -> u64 {
        0
    }
}

/// Sends the requests to both and compares what they write.
///
/// # Errors
/// A server does not start or does not answer, or the real one writes no log.
pub async fn run(table: &Table) -> Outcome<Tally> {
    let options = Options {
        audit_policy: Some(POLICY),
        ..Options::default()
    };
    let real = Real::start(options).await?;
    let lines = Lines::default();
    let policy = AuditPolicy::read(POLICY)?;
    let sink: Arc<dyn AuditSink> = Arc::new(lines.clone());
    let ours = Ours::start_with(Storage::Memory, |builder| builder.audit_events(policy, sink)).await?;
    let (mut at_real, mut at_ours) = (real.endpoint.connect().await?, ours.endpoint.connect().await?);
    for call in calls() {
        tokio::try_join!(at_real.send(&call), at_ours.send(&call))?;
    }
    let of_ours = events(&lines.0.lock().unwrap_or_else(PoisonError::into_inner).join(&b'\n'))?;
    let begun = Instant::now();
    let of_real = loop {
        let found = events(&real.audit_log()?)?;
        if found.len() >= of_ours.len() || begun.elapsed() > LINES_TIMEOUT {
            break found;
        }
        tokio::time::sleep(LOOK_PAUSE).await;
    };
    Ok(compare(&of_real, &of_ours, table))
}

fn compare(of_real: &[Value], of_ours: &[Value], table: &Table) -> Tally {
    let mut tally = Tally::default();
    for index in 0..of_real.len().max(of_ours.len()) {
        let (real, ours) = (of_real.get(index), of_ours.get(index));
        let (real, ours) = (real.unwrap_or(&Value::Null), ours.unwrap_or(&Value::Null));
        let text = |event: &Value, field: &str| event[field].as_str().unwrap_or_default().to_owned();
        let either = if real.is_null() { ours } else { real };
        let title = format!(
            "{} {} {}",
            text(either, "verb"),
            text(either, "requestURI"),
            text(either, "stage")
        );
        let mut found = differences("1", real, ours);
        let all = found.len();
        let name = format!("{FILE} / {title}");
        found.retain(|difference| table.explain(&name, difference).is_none());
        match (all, found.len()) {
            (0, _) => tally.agree += 1,
            (_, 0) => tally.known += 1,
            _ => tally.differ.push((title, found)),
        }
    }
    tally
}

/// The events of these requests, masked: real Kubernetes also sends requests to itself.
fn events(log: &[u8]) -> Outcome<Vec<Value>> {
    let lines = log.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let mut events = Vec::new();
    for line in lines {
        let mut event: Value =
            serde_json::from_slice(line).map_err(|error| format!("a line of an audit log is no JSON: {error}"))?;
        if event["userAgent"] == USER_AGENT {
            mask(&mut event);
            events.push(event);
        }
    }
    Ok(events)
}

fn mask(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                if CHOSEN.contains(&key.as_str()) && !value.is_object() {
                    *value = json!("chosen");
                } else {
                    mask(value);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(mask),
        _ => {}
    }
}

fn calls() -> Vec<Call> {
    let maps = "/api/v1/namespaces/default/configmaps";
    let json =
        |method, path: &str, body: Value| Call::new(method, path).with_body("application/json", body.to_string());
    let map =
        |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": "v"}});
    let one = format!("{maps}/a");
    let secret = json!({"metadata": {"name": "s"}, "stringData": {"p": "hidden"}});
    let mut as_jane = Call::new(Method::GET, "/api/v1/nodes");
    as_jane.headers.insert(
        HeaderName::from_static("impersonate-user"),
        HeaderValue::from_static("jane"),
    );
    vec![
        json(Method::POST, maps, map("a")),
        Call::new(Method::GET, &one),
        Call::new(Method::PATCH, format!("{one}?fieldManager=me"))
            .with_body("application/merge-patch+json", json!({"data": {"l": "w"}}).to_string()),
        json(Method::PUT, &one, map("a")),
        Call::new(Method::GET, format!("{maps}?labelSelector=none")),
        json(Method::POST, "/api/v1/namespaces/default/secrets", secret),
        Call::new(Method::GET, format!("{maps}/missing")),
        json(Method::POST, maps, map("A_b")),
        Call::new(Method::GET, "/version"),
        as_jane,
        Call::new(Method::GET, "/apis/apps/v1/deployments?watch=1&timeoutSeconds=1"),
        Call::new(Method::DELETE, &one),
    ]
}
