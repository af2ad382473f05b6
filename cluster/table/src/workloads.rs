//! Deployments, ReplicaSets, StatefulSets, DaemonSets, Jobs, CronJobs, disruption budgets.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::cell::{
    NONE, age, condition_is, containers, deleting, flag, has, list, name, number, pairs, seconds, selector, since,
    text_or, time,
};
use crate::{Builtin, human_duration};

pub(crate) fn printer(group: &str, resource: &str) -> Option<Builtin> {
    let found = match (group, resource) {
        ("apps", "deployments") => Builtin {
            columns: DEPLOYMENT,
            cells: deployment,
        },
        ("apps", "replicasets") => Builtin {
            columns: REPLICA_SET,
            cells: replica_set,
        },
        ("apps", "statefulsets") => Builtin {
            columns: STATEFUL_SET,
            cells: stateful_set,
        },
        ("apps", "daemonsets") => Builtin {
            columns: DAEMON_SET,
            cells: daemon_set,
        },
        ("apps", "controllerrevisions") => Builtin {
            columns: REVISION,
            cells: revision,
        },
        ("batch", "jobs") => Builtin {
            columns: JOB,
            cells: job,
        },
        ("batch", "cronjobs") => Builtin {
            columns: CRON_JOB,
            cells: cron_job,
        },
        ("policy", "poddisruptionbudgets") => Builtin {
            columns: BUDGET,
            cells: budget,
        },
        _ => return None,
    };
    Some(found)
}

type Columns = &'static [(&'static str, &'static str, i32)];

const DEPLOYMENT: Columns = &[
    ("Name", "string", 0),
    ("Ready", "string", 0),
    ("Up-to-date", "string", 0),
    ("Available", "string", 0),
    ("Age", "string", 0),
    ("Containers", "string", 1),
    ("Images", "string", 1),
    ("Selector", "string", 1),
];

fn deployment(object: &Value, now: Timestamp) -> Vec<Value> {
    let [names, images] = containers(object, "/spec/template");
    vec![
        name(object),
        json!(format!(
            "{}/{}",
            number(object, "/status/readyReplicas"),
            number(object, "/spec/replicas")
        )),
        json!(number(object, "/status/updatedReplicas")),
        json!(number(object, "/status/availableReplicas")),
        age(object, now),
        names,
        images,
        json!(selector(object, "/spec/selector")),
    ]
}

const REPLICA_SET: Columns = &[
    ("Name", "string", 0),
    ("Desired", "integer", 0),
    ("Current", "integer", 0),
    ("Ready", "integer", 0),
    ("Age", "string", 0),
    ("Containers", "string", 1),
    ("Images", "string", 1),
    ("Selector", "string", 1),
];

fn replica_set(object: &Value, now: Timestamp) -> Vec<Value> {
    let [names, images] = containers(object, "/spec/template");
    vec![
        name(object),
        json!(number(object, "/spec/replicas")),
        json!(number(object, "/status/replicas")),
        json!(number(object, "/status/readyReplicas")),
        age(object, now),
        names,
        images,
        json!(selector(object, "/spec/selector")),
    ]
}

const STATEFUL_SET: Columns = &[
    ("Name", "string", 0),
    ("Ready", "string", 0),
    ("Age", "string", 0),
    ("Containers", "string", 1),
    ("Images", "string", 1),
];

fn stateful_set(object: &Value, now: Timestamp) -> Vec<Value> {
    let [names, images] = containers(object, "/spec/template");
    let ready = format!(
        "{}/{}",
        number(object, "/status/readyReplicas"),
        number(object, "/spec/replicas")
    );
    vec![name(object), json!(ready), age(object, now), names, images]
}

const DAEMON_SET: Columns = &[
    ("Name", "string", 0),
    ("Desired", "integer", 0),
    ("Current", "integer", 0),
    ("Ready", "integer", 0),
    ("Up-to-date", "integer", 0),
    ("Available", "integer", 0),
    ("Node Selector", "string", 0),
    ("Age", "string", 0),
    ("Containers", "string", 1),
    ("Images", "string", 1),
    ("Selector", "string", 1),
];

fn daemon_set(object: &Value, now: Timestamp) -> Vec<Value> {
    let [names, images] = containers(object, "/spec/template");
    vec![
        name(object),
        json!(number(object, "/status/desiredNumberScheduled")),
        json!(number(object, "/status/currentNumberScheduled")),
        json!(number(object, "/status/numberReady")),
        json!(number(object, "/status/updatedNumberScheduled")),
        json!(number(object, "/status/numberAvailable")),
        json!(pairs(object, "/spec/template/spec/nodeSelector")),
        age(object, now),
        names,
        images,
        json!(selector(object, "/spec/selector")),
    ]
}

const REVISION: Columns = &[
    ("Name", "string", 0),
    ("Controller", "string", 0),
    ("Revision", "string", 0),
    ("Age", "string", 0),
];

fn revision(object: &Value, now: Timestamp) -> Vec<Value> {
    let owner = list(object, "/metadata/ownerReferences")
        .iter()
        .find(|owner| flag(owner, "/controller"));
    let controller = owner.map_or_else(
        || NONE.to_owned(),
        |owner| {
            let kind = text_or(owner, "/kind", "").to_lowercase();
            let group = text_or(owner, "/apiVersion", "")
                .split_once('/')
                .map(|(group, _)| format!(".{group}"))
                .unwrap_or_default();
            format!("{kind}{group}/{}", text_or(owner, "/name", ""))
        },
    );
    vec![
        name(object),
        json!(controller),
        json!(number(object, "/revision")),
        age(object, now),
    ]
}

const JOB: Columns = &[
    ("Name", "string", 0),
    ("Status", "string", 0),
    ("Completions", "string", 0),
    ("Duration", "string", 0),
    ("Age", "string", 0),
    ("Containers", "string", 1),
    ("Images", "string", 1),
    ("Selector", "string", 1),
];

fn job(object: &Value, now: Timestamp) -> Vec<Value> {
    let [names, images] = containers(object, "/spec/template");
    let succeeded = number(object, "/status/succeeded");
    let completions = match object.pointer("/spec/completions").and_then(Value::as_i64) {
        Some(wanted) => format!("{succeeded}/{wanted}"),
        None => match number(object, "/spec/parallelism") {
            parallel @ 2.. => format!("{succeeded}/1 of {parallel}"),
            _ => format!("{succeeded}/1"),
        },
    };
    let duration = match time(object, "/status/startTime") {
        None => String::new(),
        Some(start) => human_duration(seconds(start, time(object, "/status/completionTime").unwrap_or(now))),
    };
    vec![
        name(object),
        json!(job_status(object)),
        json!(completions),
        json!(duration),
        age(object, now),
        names,
        images,
        json!(selector(object, "/spec/selector")),
    ]
}

fn job_status(job: &Value) -> &'static str {
    let is = |type_: &str| condition_is(job, type_, "True");
    if is("Complete") {
        "Complete"
    } else if is("Failed") {
        "Failed"
    } else if deleting(job) {
        "Terminating"
    } else if is("Suspended") {
        "Suspended"
    } else if is("FailureTarget") {
        "FailureTarget"
    } else if is("SuccessCriteriaMet") {
        "SuccessCriteriaMet"
    } else {
        "Running"
    }
}

const CRON_JOB: Columns = &[
    ("Name", "string", 0),
    ("Schedule", "string", 0),
    ("Timezone", "string", 0),
    ("Suspend", "boolean", 0),
    ("Active", "integer", 0),
    ("Last Schedule", "string", 0),
    ("Age", "string", 0),
    ("Containers", "string", 1),
    ("Images", "string", 1),
    ("Selector", "string", 1),
];

fn cron_job(object: &Value, now: Timestamp) -> Vec<Value> {
    let [names, images] = containers(object, "/spec/jobTemplate/spec/template");
    let last = time(object, "/status/lastScheduleTime");
    vec![
        name(object),
        json!(text_or(object, "/spec/schedule", "")),
        json!(text_or(object, "/spec/timeZone", NONE)),
        json!(if flag(object, "/spec/suspend") { "True" } else { "False" }),
        json!(list(object, "/status/active").len()),
        json!(if last.is_some() {
            since(last, now)
        } else {
            NONE.to_owned()
        }),
        age(object, now),
        names,
        images,
        json!(selector(object, "/spec/jobTemplate/spec/selector")),
    ]
}

const BUDGET: Columns = &[
    ("Name", "string", 0),
    ("Min Available", "string", 0),
    ("Max Unavailable", "string", 0),
    ("Allowed Disruptions", "integer", 0),
    ("Age", "string", 0),
];

fn budget(object: &Value, now: Timestamp) -> Vec<Value> {
    let limit = |pointer: &str| match object.pointer(pointer).filter(|_| has(object, pointer)) {
        None => json!("N/A"),
        Some(Value::String(text)) => json!(text),
        Some(other) => json!(other.to_string()),
    };
    vec![
        name(object),
        limit("/spec/minAvailable"),
        limit("/spec/maxUnavailable"),
        json!(number(object, "/status/disruptionsAllowed")),
        age(object, now),
    ]
}
