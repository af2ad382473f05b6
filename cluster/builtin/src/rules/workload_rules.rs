//! Rules of the controllers of pods (Kubernetes v1.35 `pkg/apis/apps/validation`, `pkg/apis/batch/validation`).

use cluster_fields::{FieldError, FieldPath};
use serde_json::{Map, Value, json};

use crate::json::fields::{elements, text};
use crate::messages::internal_types;
use crate::rules::checks::{label_selector, not_negative, one_of, require};
use crate::rules::pod_rules;

/// Longest name of a CronJob: its Jobs add eleven characters.
const CRON_JOB_NAME_BYTES_MAX: usize = 52;

pub(crate) fn apps(kind: &str, object: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let root = FieldPath::Root;
    let path = root.field("spec");
    let spec = &object["spec"];
    not_negative(spec, "replicas", &path, errors);
    not_negative(spec, "minReadySeconds", &path, errors);
    not_negative(spec, "revisionHistoryLimit", &path, errors);
    if selector(kind, spec, &path, errors) || kind == "DaemonSet" {
        let at = path.field("template");
        pod_rules::template(&with_claims(spec), &at, &["Always"], errors);
    }
    match kind {
        "Deployment" => {
            let at = path.field("strategy");
            one_of(&spec["strategy"], "type", &["Recreate", "RollingUpdate"], &at, errors);
            rolling_update(&spec["strategy"], &at, errors);
        }
        "DaemonSet" => {
            let at = path.field("updateStrategy");
            one_of(
                &spec["updateStrategy"],
                "type",
                &["OnDelete", "RollingUpdate"],
                &at,
                errors,
            );
        }
        "StatefulSet" => {
            one_of(
                spec,
                "podManagementPolicy",
                &["OrderedReady", "Parallel"],
                &path,
                errors,
            );
            let at = path.field("updateStrategy");
            one_of(
                &spec["updateStrategy"],
                "type",
                &["OnDelete", "RollingUpdate"],
                &at,
                errors,
            );
            let rolling = &spec["updateStrategy"]["rollingUpdate"];
            if text(&spec["updateStrategy"], "type") == "OnDelete" && rolling.is_object() {
                let words = "only allowed for updateStrategy 'RollingUpdate'";
                let error = FieldError::invalid(at.field("rollingUpdate"), rolling.clone(), words);
                errors.push(error.shown_as(internal_types::line("RollingUpdateStatefulSetStrategy", rolling)));
            }
        }
        _ => {}
    }
    let Some(old) = old else { return };
    if old.get("status") != object.get("status") {
        status(kind, &object["status"], &old["status"], errors);
    }
    if old["spec"]["selector"] != spec["selector"] && kind != "StatefulSet" {
        errors.push(FieldError::invalid(
            path.field("selector"),
            spec["selector"].clone(),
            "field is immutable",
        ));
    }
    if kind == "StatefulSet" && fixed(spec) != fixed(&old["spec"]) {
        let words = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
        errors.push(FieldError::forbidden(path, words));
    }
}

/// Counters of a status, and those of them that count what `replicas` counts too.
fn counters(kind: &str) -> (&'static [&'static str], &'static [&'static str]) {
    match kind {
        "Deployment" => (
            &[
                "observedGeneration",
                "replicas",
                "updatedReplicas",
                "readyReplicas",
                "availableReplicas",
                "unavailableReplicas",
                "terminatingReplicas",
                "collisionCount",
            ],
            &["updatedReplicas", "readyReplicas", "availableReplicas"],
        ),
        "StatefulSet" => (
            &[
                "replicas",
                "readyReplicas",
                "currentReplicas",
                "updatedReplicas",
                "availableReplicas",
                "observedGeneration",
                "collisionCount",
            ],
            &[
                "readyReplicas",
                "currentReplicas",
                "updatedReplicas",
                "availableReplicas",
            ],
        ),
        "ReplicaSet" => (
            &[
                "replicas",
                "fullyLabeledReplicas",
                "readyReplicas",
                "availableReplicas",
                "terminatingReplicas",
                "observedGeneration",
            ],
            &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"],
        ),
        _ => (
            &[
                "currentNumberScheduled",
                "numberMisscheduled",
                "desiredNumberScheduled",
                "numberReady",
                "observedGeneration",
                "updatedNumberScheduled",
                "numberAvailable",
                "numberUnavailable",
                "collisionCount",
            ],
            &[],
        ),
    }
}

/// None is negative, and a part is no more than the whole.
fn status(kind: &str, status: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let root = FieldPath::Root;
    let path = root.field("status");
    let (all, parts) = counters(kind);
    let number = |status: &Value, name: &str| status[name].as_i64().unwrap_or_default();
    for name in all {
        not_negative(status, name, &path, errors);
    }
    let mut more_than = |name: &str, other: &str, shown: &str| {
        if number(status, name) > number(status, other) {
            let words = format!("cannot be greater than {shown}");
            errors.push(FieldError::invalid(path.field(name), number(status, name), words));
        }
    };
    for name in parts {
        more_than(name, "replicas", "status.replicas");
    }
    match kind {
        "Deployment" | "ReplicaSet" => more_than("availableReplicas", "readyReplicas", "readyReplicas"),
        "StatefulSet" => more_than("availableReplicas", "readyReplicas", "status.readyReplicas"),
        _ => {}
    }
    if kind != "ReplicaSet" && number(status, "collisionCount") < number(old, "collisionCount") {
        let count = number(status, "collisionCount");
        errors.push(FieldError::invalid(
            path.field("collisionCount"),
            count,
            "cannot be decremented",
        ));
    }
}

/// The template with the volumes that a StatefulSet's claims will be: containers may mount them.
fn with_claims(spec: &Value) -> Value {
    let mut template = spec["template"].clone();
    let claims: Vec<Value> = elements(spec, "volumeClaimTemplates")
        .filter_map(|claim| claim.pointer("/metadata/name").and_then(Value::as_str))
        .map(|name| json!({"name": name, "persistentVolumeClaim": {"claimName": name}}))
        .collect();
    if let (false, Some(pod)) = (
        claims.is_empty(),
        template.get_mut("spec").and_then(Value::as_object_mut),
    ) {
        let volumes = pod.entry("volumes").or_insert_with(|| json!([]));
        if let Some(volumes) = volumes.as_array_mut() {
            volumes.extend(claims);
        }
    }
    template
}

/// The fields of a StatefulSet's spec that may never change.
fn fixed(spec: &Value) -> Value {
    let mut spec = spec.clone();
    if let Some(map) = spec.as_object_mut() {
        for name in [
            "replicas",
            "ordinals",
            "template",
            "updateStrategy",
            "revisionHistoryLimit",
            "persistentVolumeClaimRetentionPolicy",
            "minReadySeconds",
        ] {
            map.remove(name);
        }
    }
    spec
}

/// Whether the selector can be parsed; where it cannot, only templates of DaemonSets are validated.
fn selector(kind: &str, spec: &Value, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) -> bool {
    let (at, selector) = (path.field("selector"), &spec["selector"]);
    let before = errors.len();
    label_selector(selector, &at, errors);
    let is_readable = errors.len() == before;
    let is_empty = selector["matchLabels"].as_object().is_none_or(Map::is_empty)
        && elements(selector, "matchExpressions").next().is_none();
    let whose = match kind {
        "DaemonSet" => "daemonset",
        "StatefulSet" => "statefulset",
        _ => "deployment",
    };
    if !selector.is_object() {
        errors.push(FieldError::required(at, ""));
    } else if is_empty {
        let why = format!("empty selector is invalid for {whose}");
        errors.push(FieldError::invalid(at, selector.clone(), why));
    }
    if !is_readable {
        match kind {
            "DaemonSet" => {}
            "StatefulSet" => errors.push(FieldError::invalid(at, selector.clone(), "")),
            _ => errors.push(FieldError::invalid(at, selector.clone(), "invalid label selector")),
        }
        return false;
    }
    let labels = &spec["template"]["metadata"]["labels"];
    let is_everything = selector.is_object() && is_empty;
    if !is_everything && (!selector.is_object() || !selects(selector, labels)) {
        let (template, why) = (path.field("template"), "`selector` does not match template `labels`");
        let meta = template.field("metadata");
        errors.push(FieldError::invalid(meta.field("labels"), labels.clone(), why));
    }
    true
}

fn selects(selector: &Value, labels: &Value) -> bool {
    let equal = selector["matchLabels"]
        .as_object()
        .is_none_or(|wanted| wanted.iter().all(|(key, value)| labels.get(key) == Some(value)));
    let expressions = elements(selector, "matchExpressions").all(|expression| {
        let label = labels.get(text(expression, "key"));
        let listed = label.is_some_and(|label| elements(expression, "values").any(|value| value == label));
        match text(expression, "operator") {
            "In" => listed,
            "NotIn" => !listed,
            "Exists" => label.is_some(),
            "DoesNotExist" => label.is_none(),
            _ => false,
        }
    });
    equal && expressions
}

fn rolling_update(strategy: &Value, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    let at = path.field("rollingUpdate");
    let rolling = &strategy["rollingUpdate"];
    if text(strategy, "type") == "Recreate" && rolling.is_object() {
        errors.push(FieldError::forbidden(
            at,
            "may not be specified when strategy `type` is 'Recreate'",
        ));
        return;
    }
    let zero =
        |name: &str| matches!(&rolling[name], Value::Number(n) if n.as_i64() == Some(0)) || rolling[name] == "0%";
    if zero("maxUnavailable") && zero("maxSurge") {
        let words = "may not be 0 when `maxSurge` is 0";
        errors.push(FieldError::invalid(
            at.field("maxUnavailable"),
            rolling["maxUnavailable"].clone(),
            words,
        ));
    }
}

pub(crate) fn job(object: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let root = FieldPath::Root;
    let path = root.field("spec");
    let spec = &object["spec"];
    job_spec(spec, &path, errors);
    let Some(old) = old else { return };
    for field in [
        "completions",
        "selector",
        "completionMode",
        "podFailurePolicy",
        "backoffLimitPerIndex",
    ] {
        if old["spec"][field] != spec[field] {
            errors.push(FieldError::invalid(
                path.field(field),
                spec[field].clone(),
                "field is immutable",
            ));
        }
    }
    // Scheduling directives may change while the job is suspended; this set does not distinguish them.
    if old["spec"]["template"] != spec["template"] && old["spec"]["suspend"] != true {
        errors.push(FieldError::invalid(
            path.field("template"),
            spec["template"].clone(),
            "field is immutable",
        ));
    }
}

fn job_spec(spec: &Value, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    for name in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
    ] {
        not_negative(spec, name, path, errors);
    }
    if spec["completionMode"] == "Indexed" && spec["completions"].is_null() {
        errors.push(FieldError::required(
            path.field("completions"),
            "when completion mode is Indexed",
        ));
    }
    let at = path.field("template");
    task_template(&spec["template"], &at, errors);
}

/// The template of pods that run to completion.
fn task_template(template: &Value, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    pod_rules::template(template, path, &pod_rules::RESTART_POLICIES, errors);
    let (policy, allowed) = (text(&template["spec"], "restartPolicy"), ["OnFailure", "Never"]);
    let spec = path.field("spec");
    let at = spec.field("restartPolicy");
    if policy == "Always" {
        errors.push(FieldError::required(at, "valid values: \"OnFailure\", \"Never\""));
    } else if !allowed.contains(&policy) {
        errors.push(FieldError::not_supported(at, policy, &allowed));
    }
}

pub(crate) fn cron_job(object: &Value, errors: &mut Vec<FieldError>) {
    let root = FieldPath::Root;
    let path = root.field("spec");
    let spec = &object["spec"];
    if text(&object["metadata"], "name").len() > CRON_JOB_NAME_BYTES_MAX {
        let words = format!("must be no more than {CRON_JOB_NAME_BYTES_MAX} bytes");
        errors.push(FieldError::invalid(
            "metadata.name",
            text(&object["metadata"], "name"),
            words,
        ));
    }
    require(spec, "schedule", &path, errors);
    let fields = text(spec, "schedule").split_whitespace().count();
    if !text(spec, "schedule").starts_with('@') && fields != 5 && fields != 0 {
        let shown: Vec<&str> = text(spec, "schedule").split_whitespace().collect();
        let words = format!("expected exactly 5 fields, found {fields}: [{}]", shown.join(" "));
        errors.push(FieldError::invalid(
            path.field("schedule"),
            text(spec, "schedule"),
            words,
        ));
    }
    one_of(
        spec,
        "concurrencyPolicy",
        &["Allow", "Forbid", "Replace"],
        &path,
        errors,
    );
    not_negative(spec, "successfulJobsHistoryLimit", &path, errors);
    not_negative(spec, "failedJobsHistoryLimit", &path, errors);
    let template = path.field("jobTemplate");
    let at = template.field("spec");
    let pod = at.field("template");
    task_template(&spec["jobTemplate"]["spec"]["template"], &pod, errors);
}
