//! A webhook as its configuration has it, compiled once; whether a request concerns it, and what its failure means.
//! (kubernetes/kubernetes v1.35 staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/{generic,matchconditions})

use std::sync::Arc;
use std::time::Duration;

use cluster_schema::cel::{Answer, CONDITIONS_COST_MAX, Expression, Names, NoAnswer, Scope, Work};
use serde_json::Value;

use super::asked::Asked;
use super::client::{Client, Clients};
use super::exchange::{self, Said};
use super::rules::{Matching, NamespaceLabels, namespace_labels};
use crate::status::Status;

/// What a webhook gets that says nothing.
const TIMEOUT_DEFAULT_SECONDS: u64 = 10;

/// Versions of AdmissionReview.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReviewVersion {
    V1,
    V1Beta1,
}

/// A condition in CEL, compiled.
#[derive(Debug)]
pub(super) struct Condition {
    pub(super) expression: Result<Expression, (String, String)>,
}

/// A webhook.
pub(crate) struct Webhook {
    pub(super) configuration: String,
    pub(super) name: String,
    /// Different from that of all others of its form.
    pub(super) key: (String, usize),
    pub(super) matching: Matching,
    conditions: Vec<Condition>,
    /// Its failures are as if it were not there.
    pub(super) ignores_failures: bool,
    pub(super) timeout: Duration,
    pub(super) takes_dry_runs: bool,
    /// Asked again when something changes behind it.
    pub(super) again: bool,
    pub(super) version: Option<ReviewVersion>,
    pub(super) client: Result<Arc<Client>, String>,
    pub(super) mutating: bool,
}

impl Webhook {
    /// `place`: the name of its configuration and its place there; `work`: that of all expressions of the configuration.
    pub(super) fn of(
        (configuration, index): (&str, usize),
        value: &Value,
        mutating: bool,
        clients: &Clients,
        work: &mut Work,
    ) -> Self {
        let text = |field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default();
        let list = |field: &str| value.get(field).and_then(Value::as_array).into_iter().flatten();
        let version = list("admissionReviewVersions").find_map(|version| match version.as_str()? {
            "v1" => Some(ReviewVersion::V1),
            "v1beta1" => Some(ReviewVersion::V1Beta1),
            _ => None,
        });
        let seconds = value.get("timeoutSeconds").and_then(Value::as_u64);
        Self {
            configuration: configuration.to_owned(),
            name: text("name").to_owned(),
            key: (configuration.to_owned(), index),
            matching: Matching::of_webhook(value),
            conditions: list("matchConditions").map(|it| Condition::of(it, work)).collect(),
            ignores_failures: text("failurePolicy") == "Ignore",
            timeout: Duration::from_secs(seconds.unwrap_or(TIMEOUT_DEFAULT_SECONDS)),
            takes_dry_runs: matches!(text("sideEffects"), "None" | "NoneOnDryRun"),
            again: text("reinvocationPolicy") == "IfNeeded",
            version,
            client: clients.client(value.get("clientConfig").unwrap_or(&Value::Null)),
            mutating,
        }
    }

    /// Whether it is to be asked about the objects as they are now, which are in its version.
    pub(super) async fn wants(
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
    pub(super) async fn call(
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

impl Condition {
    /// One that was judged when it was written, perhaps by a server that asked less.
    pub(super) fn of(value: &Value, work: &mut Work) -> Self {
        let source = value
            .get("expression")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .trim();
        Self {
            expression: Expression::stored(source, false, work).map_err(|why| (source.to_owned(), why)),
        }
    }
}

/// What conditions say together.
pub(super) enum Held {
    Yes,
    No,
    Failed(String),
}

/// Whether all conditions hold. One that does not outweighs others that have no answer.
pub(super) fn holds(conditions: &[Condition], scope: &mut Scope) -> Held {
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
pub(super) enum Why {
    /// It is not defined here.
    Broken(String),
    /// The budget is spent: no other one is run.
    Ended(String),
}

/// Runs an expression, or says in kube-apiserver's words why it has no answer.
pub(super) fn run(expression: &Result<Expression, (String, String)>, scope: &mut Scope) -> Result<Answer, Why> {
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
pub(super) fn names<'a>(asked: &Asked<'a>, version: &'a str, object: Option<&Value>, old: Option<&Value>) -> Names {
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
    super::asked::authorize(asked, &mut names);
    names
}

/// A webhook that the rules concern.
#[derive(Clone, Copy)]
pub(super) struct Concerned<'h, 'a> {
    /// Its place among all.
    pub(super) index: usize,
    pub(super) hook: &'h Webhook,
    /// In which it wants the resource.
    pub(super) version: &'a str,
}

/// Those of `hooks` that the rules concern, and the labels of the namespace if one asks for them.
pub(super) async fn concerned<'h, 'a>(
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
