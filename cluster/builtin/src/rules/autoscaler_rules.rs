//! Rules of HorizontalPodAutoscalers (Kubernetes v1.35 `pkg/apis/autoscaling/validation/validation.go`).

use cluster_fields::quantity::Quantity;
use cluster_fields::{FieldError, FieldPath, names};
use serde_json::Value;

use crate::json::fields::{elements, text};
use crate::rules::pod_rules::container_resource;

/// What a metric may be of, with the field for it, in the order in which upstream looks at them.
const SOURCES: [(&str, &str); 5] = [
    ("Object", "object"),
    ("External", "external"),
    ("Pods", "pods"),
    ("Resource", "resource"),
    ("ContainerResource", "containerResource"),
];
/// The same in the order in which errors name them.
const SOURCE_TYPES: [&str; 5] = ["ContainerResource", "External", "Object", "Pods", "Resource"];
const TARGET_TYPES: [&str; 3] = ["Utilization", "Value", "AverageValue"];
const POLICY_TYPES: [&str; 2] = ["Percent", "Pods"];
const SELECT_POLICIES: [&str; 3] = ["Disabled", "Max", "Min"];
const WINDOW_SECONDS_MAX: i64 = 3600;
const PERIOD_SECONDS_MAX: i64 = 1800;

pub(crate) fn validate(object: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let root = FieldPath::Root;
    let path = root.field("spec");
    let spec = &object["spec"];
    let (min, max) = (spec["minReplicas"].as_i64(), spec["maxReplicas"].as_i64().unwrap_or(0));
    let was_zero = old.is_some_and(|old| old["spec"]["minReplicas"] == 0);
    let lowest = i64::from(!was_zero);
    if let Some(min) = min.filter(|min| *min < lowest) {
        let words = format!("must be greater than or equal to {lowest}");
        errors.push(FieldError::invalid(path.field("minReplicas"), min, words));
    }
    if max < 1 {
        let at = path.field("maxReplicas");
        errors.push(FieldError::invalid(at, max, "must be greater than 0"));
    }
    if min.is_some_and(|min| max < min) {
        let words = "must be greater than or equal to `minReplicas`";
        errors.push(FieldError::invalid(path.field("maxReplicas"), max, words));
    }
    let reference = &spec["scaleTargetRef"];
    let before = old.map(|old| &old["spec"]["scaleTargetRef"]);
    let is_same = |before: &Value| {
        ["apiVersion", "kind"]
            .iter()
            .all(|field| before[*field] == reference[*field])
    };
    let version = match before {
        Some(before) if is_same(before) => Version::Any,
        // The one kind of the core group that scales.
        _ if text(reference, "kind") == "ReplicationController" => Version::WellFormed,
        _ => Version::WithGroup,
    };
    object_reference(reference, version, &path.field("scaleTargetRef"), errors);
    metrics(spec, old, &path.field("metrics"), errors);
    let behavior_path = path.field("behavior");
    for name in ["scaleUp", "scaleDown"] {
        if let Some(rules) = spec["behavior"].get(name).filter(|rules| rules.is_object()) {
            scaling(rules, &behavior_path.field(name), errors);
        }
    }
}

/// Which versions a reference may have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    Any,
    /// GROUP/VERSION, VERSION or none
    WellFormed,
    WithGroup,
}

impl Version {
    fn refusal(self, version: &str) -> Option<String> {
        let group = version.split_once('/').map_or("", |(group, _)| group);
        match self {
            Self::Any => None,
            _ if version.matches('/').count() > 1 => Some(format!("unexpected GroupVersion string: {version}")),
            Self::WithGroup if group.is_empty() => Some("apiVersion must specify API group".to_owned()),
            Self::WellFormed | Self::WithGroup => None,
        }
    }
}

fn object_reference(reference: &Value, version: Version, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    for name in ["kind", "name"] {
        segment(reference, name, "", path, errors);
    }
    let given = text(reference, "apiVersion");
    if let Some(why) = version.refusal(given) {
        errors.push(FieldError::invalid(path.field("apiVersion"), given, why));
    }
}

/// A text that is part of a path.
fn segment(object: &Value, name: &str, missing: &str, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    match text(object, name) {
        "" => errors.push(FieldError::required(path.field(name), missing)),
        value => {
            let why = names::path_segment(value);
            errors.extend(why.map(|why| FieldError::invalid(path.field(name), value, why)));
        }
    }
}

fn metrics(spec: &Value, old: Option<&Value>, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    let is_wrong = |metric: &Value| {
        let version = text(&metric["object"]["describedObject"], "apiVersion");
        metric["type"] == "Object" && metric["object"].is_object() && Version::WellFormed.refusal(version).is_some()
    };
    // A stored reference that is malformed stays valid.
    let version = match old.is_some_and(|old| elements(&old["spec"], "metrics").any(is_wrong)) {
        true => Version::Any,
        false => Version::WellFormed,
    };
    for (at, one) in elements(spec, "metrics").enumerate() {
        metric(one, version, &path.index(at), errors);
    }
    let is_from_outside = |metric: &Value| matches!(text(metric, "type"), "Object" | "External");
    if spec["minReplicas"] == 0 && !elements(spec, "metrics").any(is_from_outside) {
        let words = "must specify at least one Object or External metric to support scaling to zero replicas";
        errors.push(FieldError::forbidden(path, words));
    }
}

fn metric(metric: &Value, version: Version, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    let kind = text(metric, "type");
    let wanted = SOURCES
        .iter()
        .find(|(known, _)| *known == kind)
        .map(|(_, field)| *field);
    let unknown = || FieldError::not_supported(path.field("type"), kind, &SOURCE_TYPES);
    if kind.is_empty() {
        let words = "must specify a metric source type";
        errors.push(FieldError::required(path.field("type"), words));
    }
    if wanted.is_none() {
        errors.push(unknown());
    }
    let fields = SOURCES.iter().map(|(_, field)| *field);
    let present: Vec<&str> = fields.filter(|field| metric[*field].is_object()).collect();
    if let Some(first) = present.first() {
        source(first, &metric[*first], version, &path.field(first), errors);
    }
    match wanted {
        // Upstream reports it twice.
        None => errors.push(unknown()),
        Some(field) if !present.contains(&field) => {
            let words = "must populate information for the given metric source";
            errors.push(FieldError::required(path.field(field), words));
        }
        Some(_) => {}
    }
    if present.len() > 1 {
        for other in present.into_iter().filter(|field| Some(*field) != wanted) {
            let words = "must populate the given metric source only";
            errors.push(FieldError::forbidden(path.field(other), words));
        }
    }
}

fn source(name: &str, source: &Value, version: Version, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    if name == "object" {
        object_reference(
            &source["describedObject"],
            version,
            &path.field("describedObject"),
            errors,
        );
    }
    match name {
        "resource" | "containerResource" => resource(name, source, path, errors),
        _ => segment(
            &source["metric"],
            "name",
            "must specify a metric name",
            &path.field("metric"),
            errors,
        ),
    }
    let target = &source["target"];
    let at = path.field("target");
    validate_target(target, &at, errors);
    let has = |field: &str| !target[field].is_null();
    // The field that is missing, or the one that must not be set beside another.
    let (average, value, utilization) = (has("averageValue"), has("value"), has("averageUtilization"));
    let (missing, both) = match name {
        "object" if !average && !value => (
            Some(("averageValue", "must set either a target value or averageValue")),
            None,
        ),
        "external" if !average && !value => {
            let words = "must set either a target value for metric or a per-pod target";
            (Some(("averageValue", words)), None)
        }
        "external" if average && value => {
            let words = "may not set both a target value for metric and a per-pod target";
            (None, Some(("value", words)))
        }
        "pods" if !average => (
            Some(("averageValue", "must specify a positive target averageValue")),
            None,
        ),
        "resource" | "containerResource" if !average && !utilization => {
            let words = "must set either a target raw value or a target utilization";
            (Some(("averageUtilization", words)), None)
        }
        "resource" | "containerResource" if average && utilization => {
            let words = "may not set both a target raw value and a target utilization";
            (None, Some(("averageValue", words)))
        }
        _ => (None, None),
    };
    errors.extend(missing.map(|(field, words)| FieldError::required(at.field(field), words)));
    errors.extend(both.map(|(field, words)| FieldError::forbidden(at.field(field), words)));
}

fn resource(source_name: &str, source: &Value, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    let name = text(source, "name");
    if name.is_empty() {
        errors.push(FieldError::required(path.field("name"), "must specify a resource name"));
    }
    if source_name == "resource" {
        return;
    }
    if !name.is_empty() {
        container_resource(name, &path.field("name"), errors);
    }
    let at = path.field("container");
    match text(source, "container") {
        "" => errors.push(FieldError::required(at, "must specify a container")),
        container => {
            let why = names::dns_label(container);
            errors.extend(why.map(|why| FieldError::invalid(at, container, why)));
        }
    }
}

fn validate_target(target: &Value, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    let kind = text(target, "type");
    if kind.is_empty() {
        errors.push(FieldError::required(
            path.field("type"),
            "must specify a metric target type",
        ));
    }
    if !TARGET_TYPES.contains(&kind) {
        let words = "must be either Utilization, Value, or AverageValue";
        errors.push(FieldError::invalid(path.field("type"), kind, words));
    }
    for name in ["value", "averageValue"] {
        let value = &target[name];
        if Quantity::of(value).is_some_and(|amount| amount <= Quantity::ZERO) {
            errors.push(FieldError::invalid(path.field(name), value.clone(), "must be positive"));
        }
    }
    at_least(target, "averageUtilization", 1, "must be greater than 0", path, errors);
}

fn scaling(rules: &Value, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    let window = "stabilizationWindowSeconds";
    at_least(rules, window, 0, "must be greater than or equal to zero", path, errors);
    at_most(rules, window, WINDOW_SECONDS_MAX, path, errors);
    if let Some(select) = rules["selectPolicy"]
        .as_str()
        .filter(|select| !SELECT_POLICIES.contains(select))
    {
        errors.push(FieldError::not_supported(
            path.field("selectPolicy"),
            select,
            &SELECT_POLICIES,
        ));
    }
    let policies = path.field("policies");
    if elements(rules, "policies").next().is_none() {
        errors.push(FieldError::required(policies, "must specify at least one Policy"));
    }
    for (at, policy) in elements(rules, "policies").enumerate() {
        let path = policies.index(at);
        let kind = text(policy, "type");
        if !POLICY_TYPES.contains(&kind) {
            errors.push(FieldError::not_supported(path.field("type"), kind, &POLICY_TYPES));
        }
        for name in ["value", "periodSeconds"] {
            let number = policy[name].as_i64().unwrap_or(0);
            if number <= 0 {
                errors.push(FieldError::invalid(
                    path.field(name),
                    number,
                    "must be greater than zero",
                ));
            }
        }
        at_most(policy, "periodSeconds", PERIOD_SECONDS_MAX, &path, errors);
    }
    let tolerance = &rules["tolerance"];
    if Quantity::of(tolerance).is_some_and(|amount| amount < Quantity::ZERO) {
        let words = "must be greater than or equal to 0";
        errors.push(FieldError::invalid(path.field("tolerance"), tolerance.clone(), words));
    }
}

fn at_least(object: &Value, name: &str, min: i64, words: &str, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    let number = object[name].as_i64().filter(|number| *number < min);
    errors.extend(number.map(|number| FieldError::invalid(path.field(name), number, words)));
}

fn at_most(object: &Value, name: &str, max: i64, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    let number = object[name].as_i64().filter(|number| *number > max);
    let words = format!("must be less than or equal to {max}");
    errors.extend(number.map(|number| FieldError::invalid(path.field(name), number, words)));
}
