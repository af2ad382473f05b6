//! A ValidatingAdmissionPolicy and its bindings, compiled once. It evaluates nothing.
//! (kubernetes/kubernetes v1.35 staging/src/k8s.io/apiserver/pkg/admission/plugin/policy/validating/plugin.go)

use std::sync::Arc;

use cluster_schema::cel::{Composed, Expression};
use serde_json::Value;

use super::rules::Matching;
use super::webhook::Condition;
use crate::selector::LabelSelector;

/// Names that expressions of policies may use; those that make a message must not ask who may do what.
const NAMES: [&str; 6] = [
    "object",
    "oldObject",
    "request",
    "namespaceObject",
    "params",
    "authorizer",
];
const MESSAGE_NAMES: [&str; 5] = ["object", "oldObject", "request", "namespaceObject", "params"];

/// An expression, or its text and why it is none.
pub(super) type Compiled = Result<Expression, (String, String)>;

/// A policy.
pub(crate) struct Policy {
    pub(super) name: String,
    pub(super) matching: Matching,
    /// `apiVersion` and kind of its parameters.
    pub(super) param_kind: Option<(String, String)>,
    pub(super) conditions: Vec<Condition>,
    pub(super) variables: Vec<(String, Arc<Expression>)>,
    pub(super) validations: Vec<Validation>,
    /// Key and expression.
    pub(super) audits: Vec<(String, Compiled)>,
    pub(super) ignores_failures: bool,
}

/// One validation of a policy.
pub(super) struct Validation {
    pub(super) expression: Compiled,
    pub(super) message: String,
    pub(super) message_expression: Option<Compiled>,
    pub(super) reason: String,
}

/// A binding.
pub(crate) struct Binding {
    pub(super) name: String,
    pub(super) policy: String,
    pub(super) matching: Option<Matching>,
    pub(super) actions: Vec<String>,
    pub(super) params: Option<ParamRef>,
}

/// Which parameters a binding takes.
pub(super) struct ParamRef {
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) selector: Option<LabelSelector>,
    /// Without any the request is refused.
    pub(super) needed: bool,
}

fn text(value: &Value, field: &str) -> String {
    value.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn list<'v>(value: &'v Value, field: &str) -> impl Iterator<Item = &'v Value> {
    value.get(field).and_then(Value::as_array).into_iter().flatten()
}

impl Policy {
    pub(super) fn of(name: &str, object: &Value) -> Self {
        let spec = &object["spec"];
        let mut known = Composed::default();
        let mut variables = Vec::new();
        for variable in list(spec, "variables") {
            let (name, source) = (text(variable, "name"), text(variable, "expression"));
            // What did not compile was refused when it was written.
            if let Ok(expression) = Expression::compile(&source, &NAMES, Some(&known)) {
                known.add(&name, Some(&expression));
                variables.push((name, Arc::new(expression)));
            }
        }
        let compile = |source: &str, names: &[&str]| {
            Expression::compile(source, names, Some(&known)).map_err(|why| (source.to_owned(), why))
        };
        let validations = list(spec, "validations").map(|validation| {
            let message = text(validation, "messageExpression");
            Validation {
                expression: compile(&text(validation, "expression"), &NAMES),
                message: text(validation, "message"),
                message_expression: (!message.is_empty()).then(|| compile(&message, &MESSAGE_NAMES)),
                reason: text(validation, "reason"),
            }
        });
        let audits = list(spec, "auditAnnotations").map(|audit| {
            let source = text(audit, "valueExpression");
            (text(audit, "key"), compile(&source, &NAMES))
        });
        let kind = spec.get("paramKind").filter(|kind| kind.is_object());
        Self {
            name: name.to_owned(),
            matching: Matching::of_resources(&spec["matchConstraints"]),
            param_kind: kind.map(|kind| (text(kind, "apiVersion"), text(kind, "kind"))),
            conditions: list(spec, "matchConditions")
                .map(|it| Condition::of(it, &NAMES))
                .collect(),
            validations: validations.collect(),
            audits: audits.collect(),
            ignores_failures: text(spec, "failurePolicy") == "Ignore",
            variables,
        }
    }
}

impl Binding {
    pub(super) fn of(name: &str, object: &Value) -> Self {
        let spec = &object["spec"];
        let actions = list(spec, "validationActions").filter_map(Value::as_str);
        let params = spec.get("paramRef").filter(|params| params.is_object());
        let resources = spec.get("matchResources").filter(|resources| resources.is_object());
        Self {
            name: name.to_owned(),
            policy: text(spec, "policyName"),
            matching: resources.map(Matching::of_resources),
            actions: actions.map(str::to_owned).collect(),
            params: params.map(|params| ParamRef {
                name: text(params, "name"),
                namespace: text(params, "namespace"),
                selector: params
                    .get("selector")
                    .filter(|selector| selector.is_object())
                    .and_then(LabelSelector::of),
                needed: text(params, "parameterNotFoundAction") == "Deny",
            }),
        }
    }
}
