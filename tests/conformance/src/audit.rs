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
    for (real, ours) in pairs(of_real, of_ours) {
        let title = title(if real.is_null() { ours } else { real });
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

/// The lines side by side, by their titles in the order of both; null where one server has no such line.
fn pairs<'e>(of_real: &'e [Value], of_ours: &'e [Value]) -> Vec<(&'e Value, &'e Value)> {
    // How many pairs there can be behind two places: their longest common subsequence.
    let mut most = vec![vec![0_usize; of_ours.len() + 1]; of_real.len() + 1];
    for (at, real) in of_real.iter().enumerate().rev() {
        for (other, ours) in of_ours.iter().enumerate().rev() {
            most[at][other] = match title(real) == title(ours) {
                true => most[at + 1][other + 1] + 1,
                false => most[at + 1][other].max(most[at][other + 1]),
            };
        }
    }
    let (mut at, mut other) = (0, 0);
    let mut pairs = Vec::new();
    loop {
        let (real, ours) = match (of_real.get(at), of_ours.get(other)) {
            (None, None) => return pairs,
            (Some(real), Some(ours)) if title(real) == title(ours) => (real, ours),
            (Some(real), Some(_)) if most[at + 1][other] >= most[at][other + 1] => (real, &Value::Null),
            (Some(real), None) => (real, &Value::Null),
            (_, Some(ours)) => (&Value::Null, ours),
        };
        at += usize::from(!real.is_null());
        other += usize::from(!ours.is_null());
        pairs.push((real, ours));
    }
}

fn title(event: &Value) -> String {
    ["verb", "requestURI", "stage"]
        .map(|field| event[field].as_str().unwrap_or_default())
        .join(" ")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_too_many_leaves_all_others_compared_with_their_own() {
        let log = |verbs: &str| -> Vec<Value> {
            let line = |verb: &str| json!({"verb": verb, "requestURI": "/a", "stage": "b", "code": 200});
            verbs.split(' ').map(line).collect()
        };
        let compared = |real: &str, ours: &str| {
            let tally = compare(&log(real), &log(ours), &Table::empty());
            let differ: Vec<String> = tally.differ.into_iter().map(|(title, _)| title).collect();
            (tally.agree, differ.join(", "))
        };
        for (real, ours, agree, differ) in [
            ("get list watch", "get list watch", 3, ""),
            ("get list watch", "get get list watch", 3, "get /a b"),
            ("get list get watch", "list get watch", 3, "get /a b"),
            ("get list watch", "list watch update", 2, "get /a b, update /a b"),
            ("get list", "list get", 1, "get /a b, get /a b"),
        ] {
            assert_eq!(compared(real, ours), (agree, differ.to_owned()), "{real}; {ours}");
        }
        let mut other = log("get list");
        other[1]["code"] = json!(404);
        let tally = compare(&log("get list"), &other, &Table::empty());
        assert_eq!((tally.agree, tally.differ.len()), (1, 1));
        assert_eq!(tally.differ[0].1[0].at, "1/code");
    }
}
