//! Rules of the kinds that configure admission (Kubernetes v1.35 `pkg/apis/admissionregistration/validation`,
//! `staging/src/k8s.io/apiserver/pkg/util/webhook`), for objects that are already defaulted. It calls no webhook.

use std::collections::BTreeSet;

use cluster_cel::{Composed, Expression, Work};
use cluster_fields::{FieldError, FieldPath, names};
use serde_json::Value;

use crate::json::fields::{elements, text};

/// What expressions of webhooks may use, and those of policies.
pub(crate) const NAMES: [&str; 5] = ["object", "oldObject", "request", "namespaceObject", "authorizer"];
const REVIEW_VERSIONS: &str = "v1, v1beta1";
const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
const CONDITIONS_MAX: usize = 64;
const URL_FORM: &str = "; desired format: https://host[/path]";

/// A `MutatingWebhookConfiguration` or a `ValidatingWebhookConfiguration`.
pub(crate) fn webhooks(mutating: bool, object: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let root = FieldPath::Root;
    let path = root.field("webhooks");
    let mut seen = BTreeSet::new();
    // Stored configurations that are less strict stay valid.
    let strict = Strictness {
        side_effects: old.is_none_or(|old| elements(old, "webhooks").all(has_no_side_effects)),
        versions: old.is_none_or(|old| elements(old, "webhooks").all(knows_a_version)),
        names: old.is_none_or(names_are_unique),
        conditions: old.is_none_or(|old| conditions_of(old) != conditions_of(object)),
    };
    let mut work = Work::of_admission();
    for (index, hook) in elements(object, "webhooks").enumerate() {
        let at = path.index(index);
        webhook(mutating, hook, &strict, &mut work, &at, errors);
        review_versions(hook, strict.versions, &at.field("admissionReviewVersions"), errors);
        let name = text(hook, "name");
        if strict.names && !name.is_empty() && !seen.insert(name) {
            errors.push(FieldError::duplicate(at.field("name"), name));
        }
    }
}

struct Strictness {
    side_effects: bool,
    versions: bool,
    names: bool,
    conditions: bool,
}

fn has_no_side_effects(hook: &Value) -> bool {
    matches!(text(hook, "sideEffects"), "None" | "NoneOnDryRun")
}

fn knows_a_version(hook: &Value) -> bool {
    let mut versions = elements(hook, "admissionReviewVersions").peekable();
    versions.peek().is_none() || versions.any(|version| version == "v1" || version == "v1beta1")
}

fn names_are_unique(configuration: &Value) -> bool {
    let mut seen = BTreeSet::new();
    elements(configuration, "webhooks").all(|hook| seen.insert(text(hook, "name")))
}

fn conditions_of(configuration: &Value) -> Vec<&Value> {
    elements(configuration, "webhooks")
        .map(|hook| &hook["matchConditions"])
        .collect()
}

fn webhook(
    mutating: bool,
    hook: &Value,
    strict: &Strictness,
    work: &mut Work,
    path: &FieldPath<'_>,
    errors: &mut Vec<FieldError>,
) {
    qualified_domain(text(hook, "name"), &path.field("name"), errors);
    let at = path.field("rules");
    for (index, rule) in elements(hook, "rules").enumerate() {
        rule_with_operations(rule, &at.index(index), errors);
    }
    choice(hook, "failurePolicy", &["Fail", "Ignore"], path, errors);
    choice(hook, "matchPolicy", &["Equivalent", "Exact"], path, errors);
    side_effects(hook, strict.side_effects, path, errors);
    if let Some(seconds) = hook.get("timeoutSeconds").and_then(Value::as_i64)
        && !(1..=30).contains(&seconds)
    {
        let why = "the timeout value must be between 1 and 30 seconds";
        errors.push(FieldError::invalid(path.field("timeoutSeconds"), seconds, why));
    }
    for field in ["namespaceSelector", "objectSelector"] {
        label_selector(&hook[field], &path.field(field), errors);
    }
    if mutating {
        choice(hook, "reinvocationPolicy", &["IfNeeded", "Never"], path, errors);
    }
    client_config(&hook["clientConfig"], &path.field("clientConfig"), errors);
    if strict.conditions {
        match_conditions(hook, &NAMES, work, &path.field("matchConditions"), errors);
    }
}

fn side_effects(hook: &Value, strict: bool, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    let allowed: &[&str] = if strict {
        &["None", "NoneOnDryRun"]
    } else {
        &["None", "NoneOnDryRun", "Some", "Unknown"]
    };
    let at = path.field("sideEffects");
    match hook.get("sideEffects").and_then(Value::as_str) {
        None => errors.push(FieldError::required(
            at,
            format!("must specify one of {}", allowed.join(", ")),
        )),
        Some(given) if !allowed.contains(&given) => errors.push(FieldError::not_supported(at, given, allowed)),
        Some(_) => {}
    }
}

/// A field that is one of these when it is there.
pub(crate) fn choice(
    object: &Value,
    field: &str,
    allowed: &[&str],
    path: &FieldPath<'_>,
    errors: &mut Vec<FieldError>,
) {
    if let Some(given) = object.get(field).and_then(Value::as_str)
        && !allowed.contains(&given)
    {
        errors.push(FieldError::not_supported(path.field(field), given, allowed));
    }
}

fn qualified_domain(name: &str, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    if name.is_empty() {
        errors.push(FieldError::required(path, ""));
    } else if let Some(why) = names::dns_subdomain(name) {
        errors.push(FieldError::invalid(path, name, why));
    } else if name.split('.').count() < 3 {
        let why = "should be a domain with at least three segments separated by dots";
        errors.push(FieldError::invalid(path, name, why));
    }
}

fn review_versions(hook: &Value, strict: bool, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    let versions: Vec<&str> = elements(hook, "admissionReviewVersions")
        .filter_map(Value::as_str)
        .collect();
    if versions.is_empty() {
        errors.push(FieldError::required(
            path,
            format!("must specify one of {REVIEW_VERSIONS}"),
        ));
        return;
    }
    for (index, version) in versions.iter().enumerate() {
        if versions[..index].contains(version) {
            errors.push(FieldError::invalid(path.index(index), *version, "duplicate version"));
        } else if let Some(why) = names::dns_label_1035(version) {
            errors.push(FieldError::invalid(path.index(index), *version, why));
        }
    }
    if strict && !knows_a_version(hook) {
        let why = format!("must include at least one of {REVIEW_VERSIONS}");
        errors.push(FieldError::invalid(path, versions, why));
    }
}

pub(crate) fn texts<'v>(object: &'v Value, field: &str) -> Vec<&'v str> {
    elements(object, field).filter_map(Value::as_str).collect()
}

pub(crate) fn rule_with_operations(rule: &Value, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    let operations = texts(rule, "operations");
    let at = path.field("operations");
    if operations.is_empty() {
        errors.push(FieldError::required(at, ""));
    }
    if operations.len() > 1 && operations.contains(&"*") {
        let why = "if '*' is present, must not specify other operations";
        errors.push(FieldError::invalid(at, operations.clone(), why));
    }
    for (index, operation) in operations.iter().enumerate() {
        if !OPERATIONS.contains(operation) {
            errors.push(FieldError::not_supported(at.index(index), *operation, &OPERATIONS));
        }
    }
    for (field, what) in [("apiGroups", "API groups"), ("apiVersions", "API versions")] {
        let given = texts(rule, field);
        let at = path.field(field);
        if given.is_empty() {
            errors.push(FieldError::required(at, ""));
        }
        if given.len() > 1 && given.contains(&"*") {
            let why = format!("if '*' is present, must not specify other {what}");
            errors.push(FieldError::invalid(at, given.clone(), why));
        }
        for (index, _) in given
            .iter()
            .enumerate()
            .filter(|(_, version)| field == "apiVersions" && version.is_empty())
        {
            errors.push(FieldError::required(at.index(index), ""));
        }
    }
    resources(&texts(rule, "resources"), &path.field("resources"), errors);
    choice(rule, "scope", &["*", "Cluster", "Namespaced"], path, errors);
}

fn resources(given: &[&str], path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    if given.is_empty() {
        errors.push(FieldError::required(path, ""));
    }
    let (mut whole, mut parts) = (BTreeSet::new(), BTreeSet::new());
    let mut without_part = false;
    for (index, resource) in given.iter().enumerate() {
        if resource.is_empty() {
            errors.push(FieldError::required(path.index(index), ""));
            continue;
        }
        let Some((name, part)) = resource.split_once('/') else {
            without_part = *resource != "*";
            continue;
        };
        if whole.contains(name) {
            let why = format!("if '{name}/*' is present, must not specify {resource}");
            errors.push(FieldError::invalid(path.index(index), *resource, why));
        }
        if parts.contains(part) {
            let why = format!("if '*/{part}' is present, must not specify {resource}");
            errors.push(FieldError::invalid(path.index(index), *resource, why));
        }
        if part == "*" {
            whole.insert(name);
        }
        if name == "*" {
            parts.insert(part);
        }
    }
    if given.len() > 1 && given.contains(&"*/*") {
        let why = "if '*/*' is present, must not specify other resources";
        errors.push(FieldError::invalid(path, given.to_vec(), why));
    }
    if given.contains(&"*") && without_part {
        let why = "if '*' is present, must not specify other resources without subresources";
        errors.push(FieldError::invalid(path, given.to_vec(), why));
    }
}

/// A label selector; what is no object is none.
pub(crate) fn label_selector(selector: &Value, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    if let Some(labels) = selector["matchLabels"].as_object() {
        names::validate_labels(labels, &path.field("matchLabels"), errors);
    }
    let all = path.field("matchExpressions");
    for (index, expression) in elements(selector, "matchExpressions").enumerate() {
        let at = all.index(index);
        let values = texts(expression, "values");
        match text(expression, "operator") {
            "In" | "NotIn" if values.is_empty() => {
                let why = "must be specified when `operator` is 'In' or 'NotIn'";
                errors.push(FieldError::required(at.field("values"), why));
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                errors.push(FieldError::forbidden(at.field("values"), why));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => {
                let why = "not a valid selector operator";
                errors.push(FieldError::invalid(at.field("operator"), other, why));
            }
        }
        let key = text(expression, "key");
        names::validate_qualified_name(key, &at.field("key"), errors);
        let list = at.field("values");
        for (index, value) in values.iter().enumerate() {
            if let Some(why) = names::label_value(value) {
                errors.push(FieldError::invalid(list.index(index), *value, why));
            }
        }
    }
}

/// Where a webhook is.
pub(crate) fn client_config(config: &Value, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    let (url, service) = (config.get("url"), config.get("service"));
    match (url.and_then(Value::as_str), service.filter(|it| !it.is_null())) {
        (Some(url), None) => webhook_url(url, &path.field("url"), errors),
        (None, Some(service)) => webhook_service(service, &path.field("service"), errors),
        _ => errors.push(FieldError::required(path, "exactly one of url or service is required")),
    }
}

fn webhook_url(url: &str, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    let (rest, fragment) = url.split_once('#').unwrap_or((url, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (scheme, rest) = rest
        .split_once("://")
        .map_or(("", rest), |(scheme, rest)| (scheme, rest));
    let authority = match scheme {
        "" => "",
        _ => rest.split('/').next().unwrap_or_default(),
    };
    let (user, host) = authority
        .rsplit_once('@')
        .map_or(("", authority), |(user, host)| (user, host));
    if scheme != "https" {
        let why = format!("'https' is the only allowed URL scheme{URL_FORM}");
        errors.push(FieldError::invalid(path, scheme, why));
    }
    if host.is_empty() {
        errors.push(FieldError::invalid(
            path,
            host,
            format!("host must be specified{URL_FORM}"),
        ));
    }
    for (given, why) in [
        (user, "user information is not permitted in the URL"),
        (fragment, "fragments are not permitted in the URL"),
        (query, "query parameters are not permitted in the URL"),
    ] {
        if !given.is_empty() {
            errors.push(FieldError::invalid(path, given, why));
        }
    }
}

fn webhook_service(service: &Value, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    // Upstream passes the two in the wrong order.
    for (field, of) in [("name", "namespace"), ("namespace", "name")] {
        if text(service, field).is_empty() {
            errors.push(FieldError::required(path.field(of), ""));
        }
    }
    let port = service.get("port").and_then(Value::as_i64).unwrap_or_default();
    if !(1..=65535).contains(&port) {
        let why = "port is not valid: must be between 1 and 65535, inclusive";
        errors.push(FieldError::invalid(path.field("port"), port, why));
    }
    let given = text(service, "path");
    if matches!(given, "" | "/") {
        return;
    }
    let at = path.field("path");
    if given == "//" {
        errors.push(FieldError::invalid(at, given, "segment[0] may not be empty"));
        return;
    }
    if !given.starts_with('/') {
        errors.push(FieldError::invalid(at, given, "must start with a '/'"));
    }
    let steps = given.get(1..).unwrap_or_default();
    for (index, step) in steps.strip_suffix('/').unwrap_or(steps).split('/').enumerate() {
        let why = match step {
            "" => Some("may not be empty".to_owned()),
            step => names::dns_subdomain(step).map(|why| format!(": {why}")),
        };
        if let Some(why) = why {
            let blank = if why.starts_with(':') { "" } else { " " };
            errors.push(FieldError::invalid(at, given, format!("segment[{index}]{blank}{why}")));
        }
    }
}

pub(crate) fn match_conditions(
    of: &Value,
    known: &[&str],
    work: &mut Work,
    path: &FieldPath<'_>,
    errors: &mut Vec<FieldError>,
) {
    let count = elements(of, "matchConditions").count();
    if count > CONDITIONS_MAX {
        errors.push(FieldError::too_many(path, count, CONDITIONS_MAX as u64));
    }
    let mut seen = BTreeSet::new();
    for (index, condition) in elements(of, "matchConditions").enumerate() {
        let at = path.index(index);
        let expression = text(condition, "expression").trim();
        if expression.is_empty() {
            errors.push(FieldError::required(at.field("expression"), ""));
        } else {
            compile(
                expression,
                (known, None),
                &["bool"],
                work,
                &at.field("expression"),
                errors,
            );
        }
        let name = text(condition, "name");
        if name.is_empty() {
            errors.push(FieldError::required(at.field("name"), ""));
        } else {
            names::validate_qualified_name(name, &at.field("name"), errors);
        }
        if !name.is_empty() && !seen.insert(name) {
            errors.push(FieldError::duplicate(at.field("name"), name));
        }
    }
}

/// Compiles an expression whose result must have one of these types; none when it does not compile.
pub(crate) fn compile(
    source: &str,
    (known, composed): (&[&str], Option<&Composed>),
    types: &[&str],
    work: &mut Work,
    path: &FieldPath<'_>,
    errors: &mut Vec<FieldError>,
) -> Option<Expression> {
    match Expression::compile(source, known, composed, work) {
        Err(why) => {
            errors.push(FieldError::invalid(path, source, why));
            None
        }
        Ok(expression) => {
            let found = expression.result_type();
            if !types.is_empty() && !types.contains(&found.as_str()) {
                let wanted = match types {
                    [one] => format!("must evaluate to {one}"),
                    several => format!("must evaluate to one of [{}]", several.join(" ")),
                };
                errors.push(FieldError::invalid(path, source, format!("{wanted} but got {found}")));
            }
            Some(expression)
        }
    }
}
