//! Nodes, namespaces, config maps, secrets, service accounts, events, leases, certificates, and other kinds of the
//! cluster itself.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::cell::{
    NONE, UNKNOWN, age, condition_is, count, flag, has, join, list, name, name_and_creation, number, since, text,
    text_or, time,
};
use crate::{Builtin, human_duration};

type Columns = &'static [(&'static str, &'static str, i32)];

const CREATED: Columns = &[("Name", "string", 0), ("Created At", "date", 0)];

pub(crate) fn core_printer(resource: &str) -> Option<Builtin> {
    let found = match resource {
        "nodes" => Builtin {
            columns: NODE,
            cells: node,
        },
        "namespaces" => Builtin {
            columns: &[("Name", "string", 0), ("Status", "string", 0), ("Age", "string", 0)],
            cells: namespace,
        },
        "configmaps" => Builtin {
            columns: &[("Name", "string", 0), ("Data", "string", 0), ("Age", "string", 0)],
            cells: config_map,
        },
        "secrets" => Builtin {
            columns: &[
                ("Name", "string", 0),
                ("Type", "string", 0),
                ("Data", "string", 0),
                ("Age", "string", 0),
            ],
            cells: secret,
        },
        "serviceaccounts" => Builtin {
            columns: &[("Name", "string", 0), ("Age", "string", 0)],
            cells: |object, now| vec![name(object), age(object, now)],
        },
        "events" => Builtin {
            columns: EVENT,
            cells: event,
        },
        "limitranges" => Builtin {
            columns: CREATED,
            cells: name_and_creation,
        },
        _ => return None,
    };
    Some(found)
}

pub(crate) fn printer(group: &str, resource: &str) -> Option<Builtin> {
    let found = match (group, resource) {
        ("events.k8s.io", "events") => Builtin {
            columns: EVENT,
            cells: event,
        },
        ("coordination.k8s.io", "leases") => Builtin {
            columns: &[("Name", "string", 0), ("Holder", "string", 0), ("Age", "string", 0)],
            cells: lease,
        },
        ("certificates.k8s.io", "certificatesigningrequests") => Builtin {
            columns: REQUEST,
            cells: signing_request,
        },
        ("apiextensions.k8s.io", "customresourcedefinitions") => Builtin {
            columns: CREATED,
            cells: name_and_creation,
        },
        ("apiregistration.k8s.io", "apiservices") => Builtin {
            columns: &[
                ("Name", "string", 0),
                ("Service", "string", 0),
                ("Available", "string", 0),
                ("Age", "string", 0),
            ],
            cells: api_service,
        },
        ("scheduling.k8s.io", "priorityclasses") => Builtin {
            columns: PRIORITY,
            cells: priority_class,
        },
        ("admissionregistration.k8s.io", "validatingwebhookconfigurations" | "mutatingwebhookconfigurations") => {
            Builtin {
                columns: &[("Name", "string", 0), ("Webhooks", "integer", 0), ("Age", "string", 0)],
                cells: webhooks,
            }
        }
        _ => return None,
    };
    Some(found)
}

fn api_service(object: &Value, now: Timestamp) -> Vec<Value> {
    let service = match has(object, "/spec/service") {
        true => format!(
            "{}/{}",
            text(object, "/spec/service/namespace"),
            text(object, "/spec/service/name")
        ),
        false => "Local".to_owned(),
    };
    let condition = list(object, "/status/conditions")
        .iter()
        .find(|condition| text(condition, "/type") == "Available");
    let available = match condition.map(|condition| (text(condition, "/status"), text(condition, "/reason"))) {
        None => "Unknown".to_owned(),
        Some(("True", _)) => "True".to_owned(),
        Some((status, reason)) => format!("{status} ({reason})"),
    };
    vec![name(object), json!(service), json!(available), age(object, now)]
}

const NODE: Columns = &[
    ("Name", "string", 0),
    ("Status", "string", 0),
    ("Roles", "string", 0),
    ("Age", "string", 0),
    ("Version", "string", 0),
    ("Internal-IP", "string", 1),
    ("External-IP", "string", 1),
    ("OS-Image", "string", 1),
    ("Kernel-Version", "string", 1),
    ("Container-Runtime", "string", 1),
];

fn node(object: &Value, now: Timestamp) -> Vec<Value> {
    let ready = list(object, "/status/conditions")
        .iter()
        .find(|condition| text(condition, "/type") == "Ready");
    let mut status = vec![match ready {
        None => "Unknown",
        Some(_) if condition_is(object, "Ready", "True") => "Ready",
        Some(_) => "NotReady",
    }];
    if flag(object, "/spec/unschedulable") {
        status.push("SchedulingDisabled");
    }
    let address = |type_: &str| {
        let found = list(object, "/status/addresses")
            .iter()
            .find(|address| text(address, "/type") == type_);
        json!(found.map_or(NONE, |address| text(address, "/address")))
    };
    vec![
        name(object),
        json!(join(status, ",", "")),
        json!(roles(object)),
        age(object, now),
        json!(text(object, "/status/nodeInfo/kubeletVersion")),
        address("InternalIP"),
        address("ExternalIP"),
        json!(text_or(object, "/status/nodeInfo/osImage", UNKNOWN)),
        json!(text_or(object, "/status/nodeInfo/kernelVersion", UNKNOWN)),
        json!(text_or(object, "/status/nodeInfo/containerRuntimeVersion", UNKNOWN)),
    ]
}

fn roles(node: &Value) -> String {
    let labels = node
        .pointer("/metadata/labels")
        .and_then(Value::as_object)
        .into_iter()
        .flatten();
    let role = |(key, value): (&String, &Value)| match key.strip_prefix("node-role.kubernetes.io/") {
        Some(role) => Some(role.to_owned()),
        None if key == "kubernetes.io/role" => value.as_str().map(str::to_owned),
        None => None,
    };
    let roles: BTreeSet<String> = labels.filter_map(role).filter(|role| !role.is_empty()).collect();
    join(roles, ",", NONE)
}

fn namespace(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), json!(text(object, "/status/phase")), age(object, now)]
}

fn config_map(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        name(object),
        json!(count(object, "/data") + count(object, "/binaryData")),
        age(object, now),
    ]
}

fn secret(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        name(object),
        json!(text(object, "/type")),
        json!(count(object, "/data")),
        age(object, now),
    ]
}

const EVENT: Columns = &[
    ("Last Seen", "string", 0),
    ("Type", "string", 0),
    ("Reason", "string", 0),
    ("Object", "string", 0),
    ("Subobject", "string", 1),
    ("Source", "string", 1),
    ("Message", "string", 0),
    ("First Seen", "string", 1),
    ("Count", "string", 1),
    ("Name", "string", 1),
];

/// Both forms of events: `v1` and `events.k8s.io/v1`, which names the same fields otherwise.
fn event(object: &Value, now: Timestamp) -> Vec<Value> {
    let either = |old: &str, new: &str| time(object, old).or_else(|| time(object, new));
    let first = either("/firstTimestamp", "/deprecatedFirstTimestamp").or_else(|| time(object, "/eventTime"));
    let last = either("/lastTimestamp", "/deprecatedLastTimestamp").or(first);
    let plain = number(object, "/count").max(number(object, "/deprecatedCount")).max(1);
    let (last, count) = match time(object, "/series/lastObservedTime") {
        Some(observed) => (Some(observed), number(object, "/series/count")),
        None => (last, plain),
    };
    let about = if has(object, "/involvedObject") {
        "/involvedObject"
    } else {
        "/regarding"
    };
    let kind = text(object, &format!("{about}/kind")).to_lowercase();
    let target = text(object, &format!("{about}/name"));
    let target = if target.is_empty() {
        kind
    } else {
        format!("{kind}/{target}")
    };
    let source = if has(object, "/deprecatedSource") {
        "/deprecatedSource"
    } else {
        "/source"
    };
    let component = text_or(
        object,
        &format!("{source}/component"),
        text_or(object, "/reportingComponent", text(object, "/reportingController")),
    )
    .to_owned();
    let host = text_or(object, &format!("{source}/host"), text(object, "/reportingInstance")).to_owned();
    vec![
        json!(since(last, now)),
        json!(text(object, "/type")),
        json!(text(object, "/reason")),
        json!(target),
        json!(text(object, &format!("{about}/fieldPath"))),
        json!(join([component, host].iter().filter(|part| !part.is_empty()), ", ", "")),
        json!(text_or(object, "/message", text(object, "/note")).trim()),
        json!(since(first, now)),
        json!(count),
        name(object),
    ]
}

fn lease(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        name(object),
        json!(text(object, "/spec/holderIdentity")),
        age(object, now),
    ]
}

const REQUEST: Columns = &[
    ("Name", "string", 0),
    ("Age", "string", 0),
    ("SignerName", "string", 0),
    ("Requestor", "string", 0),
    ("RequestedDuration", "string", 0),
    ("Condition", "string", 0),
];

fn signing_request(object: &Value, now: Timestamp) -> Vec<Value> {
    let has_condition = |type_: &str| {
        list(object, "/status/conditions")
            .iter()
            .any(|condition| text(condition, "/type") == type_)
    };
    let mut state = if has_condition("Denied") {
        "Denied"
    } else if has_condition("Approved") {
        "Approved"
    } else {
        "Pending"
    }
    .to_owned();
    if has_condition("Failed") {
        state.push_str(",Failed");
    }
    if !text(object, "/status/certificate").is_empty() {
        state.push_str(",Issued");
    }
    let duration = match number(object, "/spec/expirationSeconds") {
        0 => NONE.to_owned(),
        seconds => human_duration(seconds),
    };
    vec![
        name(object),
        age(object, now),
        json!(text_or(object, "/spec/signerName", NONE)),
        json!(text(object, "/spec/username")),
        json!(duration),
        json!(state),
    ]
}

const PRIORITY: Columns = &[
    ("Name", "string", 0),
    ("Value", "integer", 0),
    ("Global-Default", "boolean", 0),
    ("Age", "string", 0),
    ("PreemptionPolicy", "string", 0),
];

fn priority_class(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        name(object),
        json!(number(object, "/value")),
        json!(flag(object, "/globalDefault")),
        age(object, now),
        json!(text_or(object, "/preemptionPolicy", "PreemptLowerPriority")),
    ]
}

fn webhooks(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), json!(list(object, "/webhooks").len()), age(object, now)]
}
