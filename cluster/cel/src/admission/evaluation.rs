//! Expressions of admission as they run: names with their values, and a budget that all expressions of an object share. It
//! never looks for the values of names.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use kube_cel::cel::context::VariableResolver;
use kube_cel::cel::{ExecutionError, ResolveResult, Value as CelValue};
use serde_json::Value;

use crate::admission::expression::Expression;
use crate::run::authorizer::{self, Authorize};
use crate::run::causes::cause;
use crate::run::library::LIBRARY;
use crate::run::meter::{self, Ended, spend, weight_of_json};
use crate::run::values::plain;
use crate::run::variables::{self, FIELDS, VARIABLE, Variables};

/// What all expressions of one policy may cost on one request (Kubernetes: 10 000 000 of larger steps).
pub const POLICY_COST_MAX: u64 = 20_000_000;

/// What the match conditions of one webhook or policy may cost together (Kubernetes: a quarter of a policy's).
pub const CONDITIONS_COST_MAX: u64 = 5_000_000;

/// What names stand for while expressions run.
pub struct Scope {
    shared: Rc<Shared>,
    budget: u64,
}

struct Shared {
    values: Values,
    composed: Vec<Variable>,
}

/// A variable of a policy, evaluated when it is first used.
struct Variable {
    name: String,
    expression: Result<Arc<Expression>, String>,
    value: OnceCell<Result<CelValue, String>>,
}

#[derive(Default)]
struct Values(BTreeMap<&'static str, (u64, CelValue)>);

impl VariableResolver for Values {
    fn resolve(&self, variable: &str) -> Option<CelValue> {
        let (units, value) = self.0.get(variable)?;
        spend(*units);
        Some(value.clone())
    }
}

/// Builds a [`Scope`].
#[derive(Default)]
pub struct Names {
    values: Values,
    composed: Vec<Variable>,
}

impl Names {
    /// A name for a JSON value; null for none.
    pub fn set(&mut self, name: &'static str, value: Option<&Value>) {
        let units = value.map_or(1, weight_of_json);
        self.values.0.insert(name, (units, value.map_or(CelValue::Null, plain)));
    }

    /// The names `authorizer` and `authorizer.requestResource`.
    pub fn set_authorizer(&mut self, authorizer: Arc<dyn Authorize>, resource: authorizer::Check) {
        let (whole, resource) = authorizer::values(authorizer, resource);
        self.values.0.insert(authorizer::NAME, (1, whole));
        self.values.0.insert(authorizer::REQUEST_RESOURCE_NAME, (1, resource));
    }

    /// A variable of the policy, below `variables`, or why it does not compile; then expressions that use it fail.
    pub fn compose(&mut self, name: &str, expression: Result<&Arc<Expression>, &str>) {
        self.composed.push(Variable {
            name: name.to_owned(),
            expression: expression.map(Arc::clone).map_err(str::to_owned),
            value: OnceCell::new(),
        });
    }

    /// The scope of these names, with a budget.
    pub fn scope(self, budget: u64) -> Scope {
        let Self { values, composed } = self;
        Scope {
            shared: Rc::new(Shared { values, composed }),
            budget,
        }
    }
}

/// The result of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A truth value.
    Truth(bool),
    /// A text.
    Text(String),
    /// Nothing.
    Null,
    /// A value of another type.
    Other,
}

/// Why an expression has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoAnswer {
    /// All expressions together exceeded their budget.
    Exhausted,
    /// It is not defined for these values; the reason in the words of cel-go.
    Broken(String),
}

impl Scope {
    /// Runs an expression, on what is left of the budget.
    ///
    /// # Errors
    /// The budget is exceeded, or the expression is not defined for these values.
    pub fn run(&mut self, expression: &Expression) -> Result<Answer, NoAnswer> {
        let outcome = variables::with(self.shared.clone(), || {
            meter::run(&mut self.budget, || resolve(&self.shared, expression))
        });
        match outcome {
            Ok(Ok(value)) => Ok(match value {
                CelValue::Bool(truth) => Answer::Truth(truth),
                CelValue::String(text) => Answer::Text(text.to_string()),
                CelValue::Null => Answer::Null,
                _ => Answer::Other,
            }),
            Ok(Err(error)) => Err(NoAnswer::Broken(reason(&error))),
            Err(Ended::Exhausted) => {
                self.budget = 0;
                Err(NoAnswer::Exhausted)
            }
            Err(Ended::Broken) => Err(NoAnswer::Broken("internal failure".to_owned())),
        }
    }
}

impl Variables for Shared {
    fn value(&self, name: &str) -> Option<Result<CelValue, String>> {
        let composed = self.composed.iter().find(|it| it.name == name)?;
        let value = composed.value.get_or_init(|| match &composed.expression {
            Err(why) => Err(format!("composited variable {name:?} fails to compile: {why}")),
            Ok(expression) => resolve(self, expression)
                .map_err(|error| format!("composited variable {name:?} fails to evaluate: {}", reason(&error))),
        });
        Some(value.clone())
    }
}

fn resolve(shared: &Shared, expression: &Expression) -> ResolveResult {
    LIBRARY.with(|library| {
        let mut context = library.new_inner_scope();
        context.set_variable_resolver(&shared.values);
        CelValue::resolve(&expression.tree, &context)
    })
}

/// The error in the words of cel-go.
fn reason(error: &ExecutionError) -> String {
    match error {
        ExecutionError::FunctionError { function, message } if function == VARIABLE => message.clone(),
        ExecutionError::FunctionError { function, message } if function == FIELDS => message.clone(),
        other => cause(other).unwrap_or_else(|| "no such overload".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use serde_json::json;

    use super::*;
    use crate::admission::expression::Composed;
    use crate::syntax::work::Work;

    const NAMES: [&str; 5] = ["object", "oldObject", "request", "params", "namespaceObject"];

    fn run(source: &str) -> Result<Answer, NoAnswer> {
        let object = json!({"metadata": {"name": "a", "labels": {"x.y/z": "1"}, "namespace": "ns"}, "spec": {"replicas": 3, "in-dash": [1, 2]}});
        let expression = Expression::compile(source, &NAMES, None, &mut Work::of_admission())
            .unwrap_or_else(|why| panic!("{source}: {why}"));
        let mut names = Names::default();
        names.set("object", Some(&object));
        names.set("oldObject", None);
        names.set("request", Some(&json!({"operation": "CREATE", "namespace": "ns"})));
        names.scope(POLICY_COST_MAX).run(&expression)
    }

    #[test]
    fn values_are_seen_as_they_are_written() {
        for (source, expected) in [
            ("object.spec.replicas <= 3", Ok(Answer::Truth(true))),
            ("object.metadata.labels['x.y/z'] == '1'", Ok(Answer::Truth(true))),
            (
                "object.metadata.namespace == request.namespace",
                Ok(Answer::Truth(true)),
            ),
            ("has(object.spec.paused)", Ok(Answer::Truth(false))),
            ("oldObject == null", Ok(Answer::Truth(true))),
            ("object.spec['in-dash'].all(x, x > 0)", Ok(Answer::Truth(true))),
            ("'name ' + object.metadata.name", Ok(Answer::Text("name a".to_owned()))),
            ("null", Ok(Answer::Null)),
            (
                "object.spec.missing == 1",
                Err(NoAnswer::Broken("no such key: missing".to_owned())),
            ),
            (
                "oldObject.spec.replicas == 1",
                Err(NoAnswer::Broken("no such key: spec".to_owned())),
            ),
        ] {
            assert_eq!(run(source), expected, "{source}");
        }
    }

    #[test]
    fn variables_are_evaluated_once_and_only_when_used() {
        let mut known = Composed::default();
        let compile = |source: &str, known: &Composed| {
            Expression::compile(source, &NAMES, Some(known), &mut Work::of_admission())
        };
        let good = Arc::new(compile("object.a + 1", &known).unwrap());
        known.add("good", Some(&good));
        let bad = Arc::new(compile("variables.good + object.b", &known).unwrap());
        known.add("bad", Some(&bad));
        let mut names = Names::default();
        names.set("object", Some(&json!({"a": 1})));
        names.compose("good", Ok(&good));
        names.compose("bad", Ok(&bad));
        let mut scope = names.scope(POLICY_COST_MAX);
        let mut run = |source: &str| scope.run(&compile(source, &known).unwrap());
        assert_eq!(run("variables.good == 2"), Ok(Answer::Truth(true)));
        let why = "composited variable \"bad\" fails to evaluate: no such key: b";
        assert_eq!(run("variables.bad == 2"), Err(NoAnswer::Broken(why.to_owned())));
        let why = compile("variables.ugly == 2", &known).unwrap_err();
        assert!(why.contains("<input>:1:10: undefined field 'ugly'"), "{why}");
    }

    #[test]
    fn an_undeclared_name_is_reported_with_its_place() {
        let why = Expression::compile("object.x == 1 && missing", &NAMES, None, &mut Work::of_admission()).unwrap_err();
        assert_eq!(
            why,
            "compilation failed: ERROR: <input>:1:18: undeclared reference to 'missing' (in container '')\n | object.x == 1 && missing\n | .................^"
        );
    }

    #[test]
    fn types_and_names_of_stored_expressions_are_not_checked() {
        let mut names = Names::default();
        names.set("object", Some(&json!({"x": true})));
        names.compose("lost", Err("why"));
        let mut work = Work::of_admission();
        let mut scope = names.scope(POLICY_COST_MAX);
        for (source, expected) in [
            ("['a', 1].exists(e, e == 1)", Ok(Answer::Truth(true))),
            ("(object.x ? 'a' : 2) == 'a'", Ok(Answer::Truth(true))),
            ("1 == 'a' || object.x", Ok(Answer::Truth(true))),
            ("variables.lost == 1 || object.x", Ok(Answer::Truth(true))),
            (
                "variables.lost == 1",
                Err("composited variable \"lost\" fails to compile: why"),
            ),
        ] {
            assert!(
                Expression::compile(source, &NAMES, Some(&Composed::default()), &mut work).is_err(),
                "{source}"
            );
            let stored = Expression::stored(source, true, &mut work).unwrap();
            let expected = expected.map_err(|why| NoAnswer::Broken(why.to_owned()));
            assert_eq!(scope.run(&stored), expected, "{source}");
        }
        assert!(Expression::stored("1 +", true, &mut work).is_err());
    }

    #[test]
    fn copies_made_by_macros_are_limited_for_a_whole_object() {
        let doubled = format!("optional.of(1){}.hasValue()", ".optMap(a, a)".repeat(11));
        let mut work = Work::of_admission();
        let taken = (0..100).take_while(|_| Expression::compile(&doubled, &NAMES, None, &mut work).is_ok());
        assert!((3..20).contains(&taken.count()));
        let why = Expression::stored("true", false, &mut work).unwrap_err();
        assert!(why.contains("must not have more than 200000 parts"), "{why}");
        let long = format!(
            "optional.of('{}'){}.hasValue()",
            "x".repeat(90_000),
            ".optMap(a, a)".repeat(11)
        );
        assert!(Expression::compile(&long, &NAMES, None, &mut Work::of_admission()).is_err());
    }

    #[test]
    fn only_known_messages_can_be_named() {
        let compile = |source: &str| Expression::compile(source, &NAMES, None, &mut Work::of_admission());
        assert!(compile("google.protobuf.Int32Value{value: 1} == 1").is_ok());
        let why = compile("google.protobuf.uration == 1").unwrap_err();
        assert!(why.contains("undeclared reference to 'google'"), "{why}");
    }

    struct Counting(AtomicUsize);

    impl Authorize for Counting {
        fn decide(&self, _: &authorizer::Check) -> (bool, String) {
            self.0.fetch_add(1, Ordering::Relaxed);
            (true, String::new())
        }
    }

    /// As many as kube-apiserver 1.35 makes for one policy, and for its match conditions.
    #[test]
    fn checks_of_the_authorizer_are_counted_against_the_budget() {
        let one = "authorizer.group('').resource('pods').check('get').allowed()";
        let many = format!("lists.range(1000).all(i, {one})");
        for (source, budget, expected, checks) in [
            (one, POLICY_COST_MAX, Ok(Answer::Truth(true)), 1),
            (many.as_str(), POLICY_COST_MAX, Err(NoAnswer::Exhausted), 28),
            (many.as_str(), CONDITIONS_COST_MAX, Err(NoAnswer::Exhausted), 7),
        ] {
            let authorizer = Arc::new(Counting(AtomicUsize::new(0)));
            let mut names = Names::default();
            names.set_authorizer(authorizer.clone(), authorizer::Check::default());
            let expression = Expression::compile(source, &[authorizer::NAME], None, &mut Work::of_admission()).unwrap();
            assert_eq!(names.scope(budget).run(&expression), expected, "{source}");
            assert_eq!(authorizer.0.load(Ordering::Relaxed), checks, "{source}");
        }
    }

    #[test]
    fn an_expression_that_exceeds_its_budget_ends() {
        let source = "lists.range(1000).all(a, lists.range(1000).all(b, lists.range(1000).all(c, c >= 0)))";
        assert_eq!(run(source), Err(NoAnswer::Exhausted));
    }
}
