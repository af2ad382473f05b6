//! Rules of the kinds that configure admission by expressions (Kubernetes v1.35
//! `pkg/apis/admissionregistration/validation`), for objects that are already defaulted. It runs no expression.

use std::collections::BTreeSet;

use cluster_cel::{Composed, Work};
use cluster_fields::{FieldError, FieldPath, names};
use serde_json::{Value, json};

use crate::json::fields::{elements, text};
use crate::rules::admission_rules::{
    NAMES, choice, compile, label_selector, match_conditions, rule_with_operations, texts,
};

/// What expressions of policies with parameters may use.
const NAMES_WITH_PARAMS: [&str; 6] = [
    "object",
    "oldObject",
    "request",
    "namespaceObject",
    "authorizer",
    "params",
];
/// What expressions that make a message may use.
const MESSAGE_NAMES: [&str; 5] = ["object", "oldObject", "request", "namespaceObject", "params"];
const AUDIT_ANNOTATIONS_MAX: usize = 20;
const AUDIT_EXPRESSION_BYTES_MAX: usize = 5 * 1024;

/// A `ValidatingAdmissionPolicy`.
pub(crate) fn policy(object: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let root = FieldPath::Root;
    let path = root.field("spec");
    let spec = &object["spec"];
    if text(spec, "failurePolicy").is_empty() {
        errors.push(FieldError::required(path.field("failurePolicy"), ""));
    } else {
        choice(spec, "failurePolicy", &["Fail", "Ignore"], &path, errors);
    }
    let kind = spec.get("paramKind").filter(|kind| kind.is_object());
    if let Some(kind) = kind {
        param_kind(kind, &path.field("paramKind"), errors);
    }
    let known: &[&str] = if kind.is_some() { &NAMES_WITH_PARAMS } else { &NAMES };
    let constraints = path.field("matchConstraints");
    match spec.get("matchConstraints").filter(|it| it.is_object()) {
        None => errors.push(FieldError::required(constraints, "")),
        Some(given) => {
            match_resources(given, &constraints, errors);
            if elements(given, "resourceRules").next().is_none() {
                errors.push(FieldError::required(constraints.field("resourceRules"), ""));
            }
        }
    }
    let mut work = Work::of_admission();
    let same = |field: &str| old.is_some_and(|old| old["spec"][field] == spec[field]);
    if !(same("paramKind") && same("matchConditions")) {
        match_conditions(spec, known, &mut work, &path.field("matchConditions"), errors);
    }
    let composed = variables(spec, known, &mut work, &path.field("variables"), errors);
    let names = (known, composed.as_ref());
    let none = |field: &str| elements(spec, field).next().is_none();
    if none("validations") && none("auditAnnotations") {
        for field in ["validations", "auditAnnotations"] {
            let why = "validations or auditAnnotations must contain at least one item";
            errors.push(FieldError::required(path.field(field), why));
        }
        return;
    }
    let at = path.field("validations");
    for (index, validation) in elements(spec, "validations").enumerate() {
        validate_validation(validation, names, &mut work, &at.index(index), errors);
    }
    let name = text(&object["metadata"], "name");
    audit_annotations(spec, name, names, &mut work, &path.field("auditAnnotations"), errors);
}

fn param_kind(kind: &Value, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    let version = text(kind, "apiVersion");
    let at = path.field("apiVersion");
    match version.split('/').collect::<Vec<_>>().as_slice() {
        [""] => errors.push(FieldError::required(at, "")),
        [number] => validate_version(number, &at, errors),
        [group, number] => {
            if let Some(why) = names::dns_subdomain(group).filter(|_| !group.is_empty()) {
                errors.push(FieldError::invalid(at, *group, why));
            }
            if number.is_empty() {
                errors.push(FieldError::invalid(at, version, "version must be specified"));
            } else {
                validate_version(number, &at, errors);
            }
        }
        _ => {
            let why = format!("unexpected GroupVersion string: {version}");
            errors.push(FieldError::invalid(at, version, why));
        }
    }
    let kind = text(kind, "kind");
    if kind.is_empty() {
        errors.push(FieldError::required(path.field("kind"), ""));
    } else if let Some(why) = names::dns_label_1035(&kind.to_lowercase()) {
        let why = format!("may have mixed case, but should otherwise match: {why}");
        errors.push(FieldError::invalid(path.field("kind"), kind, why));
    }
}

fn validate_version(version: &str, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    if let Some(why) = names::dns_label_1035(version) {
        errors.push(FieldError::invalid(path, version, why));
    }
}

fn match_resources(given: &Value, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    if text(given, "matchPolicy").is_empty() {
        errors.push(FieldError::required(path.field("matchPolicy"), ""));
    } else {
        choice(given, "matchPolicy", &["Equivalent", "Exact"], path, errors);
    }
    for field in ["namespaceSelector", "objectSelector"] {
        label_selector(&given[field], &path.field(field), errors);
    }
    for field in ["resourceRules", "excludeResourceRules"] {
        let list = path.field(field);
        for (index, rule) in elements(given, field).enumerate() {
            let at = list.index(index);
            let named = at.field("resourceNames");
            let names = texts(rule, "resourceNames");
            for (index, name) in names.iter().enumerate() {
                if let Some(why) = names::path_segment(name) {
                    errors.push(FieldError::invalid(named.index(index), *name, why));
                }
                if names[..index].contains(name) {
                    errors.push(FieldError::duplicate(named.index(index), *name));
                }
            }
            rule_with_operations(rule, &at, errors);
        }
    }
}

/// The variables of a policy, if it has such.
fn variables(
    spec: &Value,
    known: &[&str],
    work: &mut Work,
    path: &FieldPath<'_>,
    errors: &mut Vec<FieldError>,
) -> Option<Composed> {
    let mut composed = Composed::default();
    for (index, variable) in elements(spec, "variables").enumerate() {
        let at = path.index(index);
        let (name, expression) = (text(variable, "name"), text(variable, "expression"));
        if name.trim().is_empty() {
            errors.push(FieldError::required(at.field("name"), "name is not specified"));
        } else if !is_identifier(name) {
            let why = "must be a valid CEL identifier";
            errors.push(FieldError::invalid(at.field("name"), name, why));
        }
        let compiled = if expression.trim().is_empty() {
            let why = "expression is not specified";
            errors.push(FieldError::required(at.field("expression"), why));
            None
        } else {
            compile(
                expression,
                (known, Some(&composed)),
                &[],
                work,
                &at.field("expression"),
                errors,
            )
        };
        composed.add(name, compiled.as_ref());
    }
    elements(spec, "variables").next().map(|_| composed)
}

fn is_identifier(name: &str) -> bool {
    let first = |c: char| c == '_' || c.is_ascii_alphabetic();
    name.starts_with(first)
        && name.chars().all(|c| first(c) || c.is_ascii_digit())
        && !matches!(
            name,
            "true"
                | "false"
                | "null"
                | "in"
                | "as"
                | "break"
                | "const"
                | "continue"
                | "else"
                | "for"
                | "function"
                | "if"
                | "import"
                | "let"
                | "loop"
                | "package"
                | "namespace"
                | "return"
                | "var"
                | "void"
                | "while"
        )
}

fn validate_validation(
    validation: &Value,
    (known, composed): (&[&str], Option<&Composed>),
    work: &mut Work,
    path: &FieldPath<'_>,
    errors: &mut Vec<FieldError>,
) {
    let expression = text(validation, "expression");
    if expression.trim().is_empty() {
        let why = "expression is not specified";
        errors.push(FieldError::required(path.field("expression"), why));
    } else {
        compile(
            expression,
            (known, composed),
            &["bool"],
            work,
            &path.field("expression"),
            errors,
        );
    }
    let message = text(validation, "messageExpression");
    if !message.is_empty() && message.trim().is_empty() {
        let why = "must be non-empty if specified";
        errors.push(FieldError::invalid(path.field("messageExpression"), message, why));
    } else if !message.is_empty() {
        let names: &[&str] = if known.contains(&"params") {
            &MESSAGE_NAMES
        } else {
            &MESSAGE_NAMES[..4]
        };
        compile(
            message,
            (names, composed),
            &["string"],
            work,
            &path.field("messageExpression"),
            errors,
        );
    }
    let message = text(validation, "message");
    if !message.is_empty() && message.trim().is_empty() {
        let why = "must be non-empty if specified";
        errors.push(FieldError::invalid(path.field("message"), message, why));
    } else if message.trim().contains(['\n', '\r']) {
        let why = "must not contain line breaks";
        errors.push(FieldError::invalid(path.field("message"), message, why));
    }
    let allowed = ["Forbidden", "Invalid", "RequestEntityTooLarge"];
    choice(validation, "reason", &allowed, path, errors);
}

fn audit_annotations(
    spec: &Value,
    policy: &str,
    names: (&[&str], Option<&Composed>),
    work: &mut Work,
    path: &FieldPath<'_>,
    errors: &mut Vec<FieldError>,
) {
    let count = elements(spec, "auditAnnotations").count();
    if count > AUDIT_ANNOTATIONS_MAX {
        let why = format!("must not have more than {AUDIT_ANNOTATIONS_MAX} auditAnnotations");
        errors.push(FieldError::invalid(path, spec["auditAnnotations"].clone(), why));
    }
    let mut seen = BTreeSet::new();
    for (index, annotation) in elements(spec, "auditAnnotations").enumerate() {
        let at = path.index(index);
        let key = text(annotation, "key");
        let whole = format!("{policy}/{key}");
        if policy.is_empty() {
            let why = "requires metadata.name be non-empty";
            errors.push(FieldError::invalid(at.field("key"), key, why));
        } else {
            names::validate_qualified_name(&whole, &at.field("key"), errors);
        }
        let (field, expression) = (at.field("valueExpression"), text(annotation, "valueExpression").trim());
        if expression.is_empty() {
            errors.push(FieldError::required(field, "valueExpression is not specified"));
        } else if expression.len() > AUDIT_EXPRESSION_BYTES_MAX {
            let why = format!("must not exceed {AUDIT_EXPRESSION_BYTES_MAX} bytes in length");
            errors.push(FieldError::required(field, why));
        } else {
            compile(expression, names, &["string", "null_type"], work, &field, errors);
        }
        if !seen.insert(key) {
            errors.push(FieldError::duplicate(at.field("key"), key));
        }
    }
}

/// A `ValidatingAdmissionPolicyBinding`.
pub(crate) fn policy_binding(object: &Value, errors: &mut Vec<FieldError>) {
    let root = FieldPath::Root;
    let path = root.field("spec");
    let spec = &object["spec"];
    let name = text(spec, "policyName");
    if name.is_empty() {
        errors.push(FieldError::required(path.field("policyName"), ""));
    } else if let Some(why) = names::dns_subdomain(name) {
        errors.push(FieldError::invalid(path.field("policyName"), name, why));
    }
    if let Some(reference) = spec.get("paramRef").filter(|it| it.is_object()) {
        param_ref(reference, &path.field("paramRef"), errors);
    }
    if let Some(given) = spec.get("matchResources").filter(|it| it.is_object()) {
        match_resources(given, &path.field("matchResources"), errors);
    }
    let (actions, at) = (texts(spec, "validationActions"), path.field("validationActions"));
    let allowed = ["Audit", "Deny", "Warn"];
    for (index, action) in actions.iter().enumerate() {
        if !allowed.contains(action) {
            errors.push(FieldError::not_supported(at.index(index), *action, &allowed));
        }
        if actions[..index].contains(action) {
            errors.push(FieldError::duplicate(at.index(index), *action));
        }
    }
    if actions.contains(&"Deny") && actions.contains(&"Warn") {
        let why = "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)";
        errors.push(FieldError::invalid(at, json!(actions), why));
    }
    if actions.is_empty() {
        errors.push(FieldError::required(at, "at least one validation action is required"));
    }
}

fn param_ref(reference: &Value, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    let (name, selector) = (text(reference, "name"), &reference["selector"]);
    let exclusive = "name and selector are mutually exclusive";
    if !name.is_empty() {
        if let Some(why) = names::path_segment(name) {
            errors.push(FieldError::invalid(path.field("name"), name, why));
        }
        if selector.is_object() {
            errors.push(FieldError::forbidden(path.field("name"), exclusive));
        }
    }
    if selector.is_object() {
        label_selector(selector, &path.field("selector"), errors);
        if !name.is_empty() {
            errors.push(FieldError::forbidden(path.field("selector"), exclusive));
        }
    } else if name.is_empty() {
        errors.push(FieldError::required(path, "one of name or selector must be specified"));
    }
    match text(reference, "parameterNotFoundAction") {
        "" => errors.push(FieldError::required(path.field("parameterNotFoundAction"), "")),
        _ => choice(reference, "parameterNotFoundAction", &["Deny", "Allow"], path, errors),
    }
}
