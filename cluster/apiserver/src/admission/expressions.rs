//! Expressions of webhooks and policies, run over a request. They read it and check what its user may do; they change nothing.
//! (kubernetes/kubernetes v1.35 staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions)

use cluster_cel::{Answer, Expression, Names, NoAnswer, Scope};
use serde_json::Value;

use crate::admission::attributes::AdmissionAttributes;
use crate::configuration::webhook::Condition;

/// The combined result of conditions.
pub(crate) enum Held {
    Yes,
    No,
    Failed(String),
}

/// Whether all conditions hold. One that is false outweighs others that have no answer.
pub(crate) fn holds(conditions: &[Condition], scope: &mut Scope) -> Held {
    let mut errors = Vec::new();
    for condition in conditions {
        match run(&condition.expression, scope) {
            Ok(Answer::Truth(false)) => return Held::No,
            Ok(_) => {}
            Err(Why::Ended(why)) => return Held::Failed(why),
            Err(Why::Broken(why)) => errors.push(why),
        }
    }
    match errors.as_slice() {
        [] => Held::Yes,
        [one] => Held::Failed(one.clone()),
        several => Held::Failed(format!("[{}]", several.join(", "))),
    }
}

/// Why an expression has no answer.
pub(crate) enum Why {
    /// It does not compile, or its evaluation failed.
    Broken(String),
    /// The budget is spent: no further expression is run.
    Ended(String),
}

/// Runs an expression. Errors: why it has no answer, as kube-apiserver words it.
pub(crate) fn run(expression: &Result<Expression, (String, String)>, scope: &mut Scope) -> Result<Answer, Why> {
    match expression {
        Err((_, why)) => Err(Why::Broken(format!("compilation error: {why}"))),
        Ok(expression) => scope.run(expression).map_err(|failed| match failed {
            NoAnswer::Broken(why) => {
                Why::Broken(format!("expression '{}' resulted in error: {why}", expression.source()))
            }
            NoAnswer::Exhausted => Why::Ended(
                "validation failed due to running out of cost budget, no further validation rules will be run"
                    .to_owned(),
            ),
        }),
    }
}

/// The names of expressions about a request, without parameters and namespace.
pub(crate) fn names<'a>(
    attributes: &AdmissionAttributes<'a>,
    version: &'a str,
    object: Option<&Value>,
    old: Option<&Value>,
) -> Names {
    let mut names = Names::default();
    names.set("object", object);
    names.set("oldObject", old);
    names.set("namespaceObject", None);
    names.set("params", None);
    let mut request = attributes.request(version);
    request.insert("uid".to_owned(), Value::from(""));
    for field in ["object", "oldObject"] {
        request.insert(field.to_owned(), Value::Null);
    }
    names.set("request", Some(&Value::Object(request)));
    crate::admission::attributes::set_authorizer(attributes, &mut names);
    names
}
