//! A ValidatingAdmissionPolicy and its bindings, compiled once. It evaluates nothing.
//! (kubernetes/kubernetes v1.35 staging/src/k8s.io/apiserver/pkg/admission/plugin/policy/validating/plugin.go)

use std::sync::Arc;

use cluster_cel::{Expression, Work};
use serde_json::Value;

use crate::configuration::matching::Matching;
use crate::configuration::webhook::Condition;
use crate::wire::selector::LabelSelector;

/// An expression, or its text and why it is none.
pub(crate) type Compiled = Result<Expression, (String, String)>;

/// A policy.
pub(crate) struct Policy {
    pub(crate) name: String,
    pub(crate) matching: Matching,
    /// `apiVersion` and kind of its parameters.
    pub(crate) param_kind: Option<(String, String)>,
    pub(crate) conditions: Vec<Condition>,
    /// Name and expression, or why it is none.
    pub(crate) variables: Vec<(String, Result<Arc<Expression>, String>)>,
    pub(crate) validations: Vec<Validation>,
    /// Key and expression.
    pub(crate) audits: Vec<(String, Compiled)>,
    pub(crate) ignores_failures: bool,
}

/// One validation of a policy.
pub(crate) struct Validation {
    pub(crate) expression: Compiled,
    pub(crate) message: String,
    pub(crate) message_expression: Option<Compiled>,
    pub(crate) reason: String,
}

/// A binding.
pub(crate) struct Binding {
    pub(crate) name: String,
    pub(crate) policy: String,
    pub(crate) matching: Option<Matching>,
    pub(crate) actions: Vec<String>,
    pub(crate) params: Option<ParamRef>,
}

/// Which parameters a binding takes.
pub(crate) struct ParamRef {
    pub(crate) name: String,
    pub(crate) namespace: String,
    pub(crate) selector: Option<LabelSelector>,
    /// Whether a request is refused when there are none.
    pub(crate) needed: bool,
}

fn text(value: &Value, field: &str) -> String {
    value.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn list<'v>(value: &'v Value, field: &str) -> impl Iterator<Item = &'v Value> {
    value.get(field).and_then(Value::as_array).into_iter().flatten()
}

impl Policy {
    pub(crate) fn of(name: &str, object: &Value) -> Self {
        let spec = &object["spec"];
        let mut work = Work::of_stored_admission();
        let conditions = list(spec, "matchConditions").map(|it| Condition::of(it, &mut work));
        let conditions: Vec<_> = conditions.collect();
        let variables = list(spec, "variables").map(|variable| {
            let (variable, source) = (text(variable, "name"), text(variable, "expression"));
            let expression = Expression::stored(&source, true, &mut work);
            if let Err(why) = &expression {
                tracing::warn!(policy = name, variable, why, "a variable of a policy cannot be read");
            }
            (variable, expression.map(Arc::new))
        });
        let variables: Vec<_> = variables.collect();
        // It was validated when it was written, perhaps by a server with weaker rules.
        let mut stored = |source: String| Expression::stored(&source, true, &mut work).map_err(|why| (source, why));
        let validations = list(spec, "validations").map(|validation| {
            let message = text(validation, "messageExpression");
            Validation {
                expression: stored(text(validation, "expression")),
                message: text(validation, "message"),
                message_expression: (!message.is_empty()).then(|| stored(message)),
                reason: text(validation, "reason"),
            }
        });
        let validations: Vec<_> = validations.collect();
        let audits =
            list(spec, "auditAnnotations").map(|audit| (text(audit, "key"), stored(text(audit, "valueExpression"))));
        let kind = spec.get("paramKind").filter(|kind| kind.is_object());
        Self {
            name: name.to_owned(),
            matching: Matching::of_resources(&spec["matchConstraints"]),
            param_kind: kind.map(|kind| (text(kind, "apiVersion"), text(kind, "kind"))),
            conditions,
            validations,
            audits: audits.collect(),
            ignores_failures: text(spec, "failurePolicy") == "Ignore",
            variables,
        }
    }
}

impl Binding {
    pub(crate) fn of(name: &str, object: &Value) -> Self {
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_policy_that_an_earlier_server_accepted_is_not_validated_again() {
        let mixed = "['a', 1].exists(e, e == 1)";
        let policy = Policy::of(
            "old",
            &json!({"spec": {
                "matchConditions": [{"name": "c", "expression": mixed}],
                "variables": [
                    {"name": "bad", "expression": "1 +"},
                    {"name": "good", "expression": "variables.bad"},
                ],
                "validations": [{"expression": "variables.good == 1 || 1 == 'a'", "messageExpression": mixed}],
                "auditAnnotations": [{"key": "k", "valueExpression": "object.x ? 'a' : 2"}],
            }}),
        );
        assert!(policy.conditions.iter().all(|it| it.expression.is_ok()));
        let validation = &policy.validations[0];
        assert!(validation.expression.is_ok() && matches!(validation.message_expression, Some(Ok(_))));
        assert!(policy.audits.iter().all(|(_, it)| it.is_ok()));
        let found: Vec<_> = policy
            .variables
            .iter()
            .map(|(name, it)| (name.as_str(), it.is_ok()))
            .collect();
        assert_eq!(found, [("bad", false), ("good", true)]);
    }
}
