//! A webhook as its configuration has it, compiled once; whether a request concerns it, and what its failure means.
//! (kubernetes/kubernetes v1.35 staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/{generic,matchconditions})

use std::sync::Arc;

use cluster_schema::cel::{Answer, CONDITIONS_COST_MAX, Expression, Names, NoAnswer, Scope};
use serde_json::Value;

use crate::admission::exchange;
use crate::admission::exchange::Said;
use crate::admission::matching::{NamespaceLabels, namespace_labels};
use crate::admission::request::Asked;
use crate::configuration::webhook::{Condition, Webhook};
use crate::wire::status::Status;

impl Webhook {
    /// Whether it is to be asked about the objects as they are now, which are in its version.
    pub(crate) async fn wants(
        &self,
        asked: &Asked<'_>,
        version: &str,
        objects: (Option<&Value>, Option<&Value>),
        namespace: &NamespaceLabels,
    ) -> Result<bool, Status> {
        if !self.matching.selects(asked, objects, namespace)? {
            return Ok(false);
        }
        if self.conditions.is_empty() {
            return Ok(true);
        }
        let (object, old) = objects;
        let object = asked.some_in_version(object, version).await?;
        let old = asked.some_in_version(old, version).await?;
        let held = || {
            let names = names(asked, version, object.as_deref(), old.as_deref());
            holds(&self.conditions, &mut names.scope(CONDITIONS_COST_MAX))
        };
        let mut outcome = held();
        while asked.settle().await? {
            outcome = held();
        }
        match outcome {
            Held::Yes => Ok(true),
            Held::No => Ok(false),
            Held::Failed(_) if self.ignores_failures => Ok(false),
            Held::Failed(why) => Err(asked.forbidden(&why)),
        }
    }

    /// Asks it. None: it has failed, and that does not matter.
    pub(crate) async fn call(
        &self,
        asked: &Asked<'_>,
        version: &str,
        objects: (Option<&Value>, Option<&Value>),
    ) -> Result<Option<Said>, Status> {
        match exchange::ask(self, asked, version, objects).await {
            Ok(said) => Ok(Some(said)),
            Err(exchange::Failed::Refused(status)) => Err(status),
            Err(exchange::Failed::Late) => Err(exchange::timed_out(asked)),
            Err(exchange::Failed::Calling(why)) if self.ignores_failures => {
                tracing::warn!(
                    webhook = self.name,
                    why,
                    "a webhook failed, and its failures are ignored"
                );
                Ok(None)
            }
            Err(exchange::Failed::Calling(why)) => Err(Status::internal(format!(
                "failed calling webhook {:?}: {why}",
                self.name
            ))),
        }
    }
}

/// What conditions say together.
pub(crate) enum Held {
    Yes,
    No,
    Failed(String),
}

/// Whether all conditions hold. One that does not outweighs others that have no answer.
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
    /// It is not defined here.
    Broken(String),
    /// The budget is spent: no other one is run.
    Ended(String),
}

/// Runs an expression, or says in kube-apiserver's words why it has no answer.
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
pub(crate) fn names<'a>(asked: &Asked<'a>, version: &'a str, object: Option<&Value>, old: Option<&Value>) -> Names {
    let mut names = Names::default();
    names.set("object", object);
    names.set("oldObject", old);
    names.set("namespaceObject", None);
    names.set("params", None);
    let mut request = asked.request(version);
    request.insert("uid".to_owned(), Value::from(""));
    for field in ["object", "oldObject"] {
        request.insert(field.to_owned(), Value::Null);
    }
    names.set("request", Some(&Value::Object(request)));
    crate::admission::request::authorize(asked, &mut names);
    names
}

/// A webhook that the rules concern.
#[derive(Clone, Copy)]
pub(crate) struct Concerned<'h, 'a> {
    /// Its place among all.
    pub(crate) index: usize,
    pub(crate) hook: &'h Webhook,
    /// In which it wants the resource.
    pub(crate) version: &'a str,
}

/// Those of `hooks` that the rules concern, and the labels of the namespace if one asks for them.
pub(crate) async fn concerned<'h, 'a>(
    hooks: &'h [Arc<Webhook>],
    asked: &Asked<'a>,
    object: Option<&Value>,
) -> (Vec<Concerned<'h, 'a>>, NamespaceLabels) {
    let found: Vec<_> = hooks
        .iter()
        .enumerate()
        .filter_map(|(index, hook)| {
            let version = hook.matching.version(asked)?;
            Some(Concerned { index, hook, version })
        })
        .collect();
    let labels = if found.iter().any(|it| it.hook.matching.asks_for_namespace(asked)) {
        namespace_labels(asked, object).await
    } else {
        Ok(std::collections::BTreeMap::new())
    };
    (found, labels)
}
