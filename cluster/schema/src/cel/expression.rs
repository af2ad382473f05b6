//! Expressions over named values, as admission has them (kubernetes/kubernetes v1.35
//! `staging/src/k8s.io/apiserver/pkg/admission/plugin/cel`): compiled once, run with the budget that rules of schemas have.
//! It never looks for what the names stand for.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use kube_cel::cel::common::ast::{CallExpr, Expr, IdedExpr, LiteralValue};
use kube_cel::cel::context::VariableResolver;
use kube_cel::cel::{Context, ExecutionError, ResolveResult, Value as CelValue};
use serde_json::Value;

use super::authorizer::{self, Authorize};
use super::budget::Work;
use super::check::check;
use super::declared::Object;
use super::literal_rules::conversion_fault;
use super::meter::{self, Ended, charge, weight, weight_of_json};
use super::nodes::each_part_mut;
use super::parse::parse;
use super::scope::Scope as Typed;
use super::types::Type;
use super::value::plain;
use super::{LIBRARY, library};

/// What all expressions of one policy may cost on one request (Kubernetes: 10 000 000 of larger steps).
pub const POLICY_COST_MAX: u64 = 20_000_000;

/// What the match conditions of one webhook or policy may cost together (Kubernetes: a quarter of a policy's).
pub const CONDITIONS_COST_MAX: u64 = 5_000_000;

/// The name under which expressions of a policy see its variables.
const COMPOSED: &str = "variables";
/// Calls that no expression can spell: a variable of the policy, and a value whose fields are asked for.
const VARIABLE: &str = "@variable";
const FIELDS: &str = "@fields";

/// A compiled expression.
#[derive(Clone)]
pub struct Expression {
    source: String,
    tree: IdedExpr,
    result: Type<'static>,
}

impl std::fmt::Debug for Expression {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Expression").field(&self.source).finish()
    }
}

/// The variables that a policy composes, by the types of their expressions.
#[derive(Clone, Debug, Default)]
pub struct Composed(BTreeMap<String, Type<'static>>);

impl Composed {
    /// One more variable; without an expression nothing is known of it.
    pub fn add(&mut self, name: &str, expression: Option<&Expression>) {
        let of = expression.map_or(Type::Dyn, |expression| expression.result.simple());
        self.0.insert(name.to_owned(), of);
    }
}

/// What a name of admission stands for.
fn type_of_name(name: &str) -> Type<'static> {
    let object = match name {
        "request" => "kubernetes.AdmissionRequest",
        "namespaceObject" => "kubernetes.Namespace",
        authorizer::NAME => "kubernetes.authorization.Authorizer",
        _ => return Type::Dyn,
    };
    Type::parse(object).unwrap_or(Type::Dyn)
}

impl Expression {
    /// Compiles an expression that may use `names`, and below `variables` those of `composed`, if there are such. `work` is that of
    /// all expressions of its object.
    ///
    /// # Errors
    /// What is wrong, as kube-apiserver words it.
    pub fn compile(source: &str, names: &[&str], composed: Option<&Composed>, work: &mut Work) -> Result<Self, String> {
        let mut scope = Typed::default();
        for name in names {
            scope.add(name, type_of_name(name));
            if *name == authorizer::NAME {
                let resource = format!("{name}.{}", authorizer::REQUEST_RESOURCE);
                let of = Type::parse("kubernetes.authorization.ResourceCheck");
                scope.add(&resource, of.unwrap_or(Type::Dyn));
            }
        }
        if let Some(Composed(types)) = composed {
            scope.add(COMPOSED, Type::Object(Object::variables(types.clone())));
        }
        let failed = |why| format!("compilation failed: {why}");
        let parsed = parse(source, work).map_err(failed)?;
        let checked = check(source, &parsed, &scope).map_err(failed)?;
        work.checked(checked.steps());
        let result = checked.result().clone();
        if let Some(why) = conversion_fault(&parsed.tree) {
            return Err(format!("program instantiation failed: {why}"));
        }
        Ok(Self::made(source, parsed.tree, composed.is_some(), result))
    }

    /// An expression that was taken before, perhaps by a version that asked less of it: its types and names are not judged
    /// again, and where they do not fit it has no answer when it runs. `is_composed`: it may use `variables`.
    ///
    /// # Errors
    /// It cannot be read, as kube-apiserver words it.
    pub fn stored(source: &str, is_composed: bool, work: &mut Work) -> Result<Self, String> {
        let parsed = parse(source, work).map_err(|why| format!("compilation failed: {why}"))?;
        Ok(Self::made(source, parsed.tree, is_composed, Type::Dyn))
    }

    fn made(source: &str, mut tree: IdedExpr, is_composed: bool, result: Type<'static>) -> Self {
        library::lower(&mut tree);
        rewrite(&mut tree, is_composed);
        let _ = meter::meter(&mut tree);
        Self {
            source: source.to_owned(),
            tree,
            result,
        }
    }

    /// What was compiled.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The type of its result, as cel-go calls it: `bool`, `string`, `list(int)`, `dyn`.
    pub fn result_type(&self) -> String {
        self.result.name()
    }
}

fn call(id: u64, function: &str, args: Vec<IdedExpr>) -> IdedExpr {
    IdedExpr {
        id,
        expr: Expr::Call(CallExpr {
            func_name: function.to_owned(),
            target: None,
            args,
        }),
    }
}

fn literal(id: u64, text: &str) -> IdedExpr {
    IdedExpr {
        id,
        expr: Expr::Literal(LiteralValue::String(text.into())),
    }
}

/// Puts calls where the interpreter would not ask or answer as cel-go does: variables of the policy, fields of what has
/// none.
fn rewrite(expression: &mut IdedExpr, is_composed: bool) {
    let id = expression.id;
    let Expr::Select(select) = &mut expression.expr else {
        // A bare name may be the first part of a function's name.
        return each_part_mut(&mut expression.expr, &mut |part| rewrite(part, is_composed));
    };
    match &select.operand.expr {
        Expr::Ident(name) if is_composed && name == COMPOSED => {
            *expression = if select.test {
                IdedExpr {
                    id,
                    expr: Expr::Literal(LiteralValue::Boolean(true.into())),
                }
            } else {
                call(id, VARIABLE, vec![literal(id, &select.field)])
            };
        }
        Expr::Ident(name) if name == authorizer::NAME && select.field == authorizer::REQUEST_RESOURCE => {
            *expression = IdedExpr {
                id,
                expr: Expr::Ident(authorizer::REQUEST_RESOURCE_NAME.to_owned()),
            };
        }
        _ => {
            rewrite(&mut select.operand, is_composed);
            let operand = std::mem::take(&mut *select.operand);
            *select.operand = call(id, FIELDS, vec![operand, literal(id, &select.field)]);
        }
    }
}

/// What names stand for while expressions run.
pub struct Scope {
    shared: Rc<Shared>,
    budget: u64,
}

struct Shared {
    values: Values,
    composed: Vec<Variable>,
}

/// A variable of a policy: run when it is first asked for.
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
        charge(*units);
        Some(value.clone())
    }
}

/// What names stand for, before expressions run.
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
    pub fn set_authorizer(&mut self, ask: Arc<dyn Authorize>, resource: authorizer::Check) {
        let (whole, resource) = authorizer::values(ask, resource);
        self.values.0.insert(authorizer::NAME, (1, whole));
        self.values.0.insert(authorizer::REQUEST_RESOURCE_NAME, (1, resource));
    }

    /// A variable of the policy, below `variables`, or why it is none; then whatever asks for it has no answer.
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

/// What an expression says.
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

/// Why an expression says nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoAnswer {
    /// All expressions together have cost more than they may.
    Exhausted,
    /// It is not defined for these values; why, as cel-go says it.
    Broken(String),
}

thread_local! {
    /// The scope of the expression that runs on this thread.
    static RUNNING: RefCell<Option<Rc<Shared>>> = const { RefCell::new(None) };
}

impl Scope {
    /// Runs an expression, on what is left of the budget.
    ///
    /// # Errors
    /// The budget is spent, or there is no answer.
    pub fn run(&mut self, expression: &Expression) -> Result<Answer, NoAnswer> {
        let before = RUNNING.replace(Some(self.shared.clone()));
        let outcome = meter::run(&mut self.budget, || resolve(&self.shared, expression));
        RUNNING.set(before);
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

fn resolve(shared: &Shared, expression: &Expression) -> ResolveResult {
    LIBRARY.with(|library| {
        let mut context = library.new_inner_scope();
        context.set_variable_resolver(&shared.values);
        CelValue::resolve(&expression.tree, &context)
    })
}

/// As cel-go says it.
fn reason(error: &ExecutionError) -> String {
    match error {
        ExecutionError::FunctionError { function, message } if function == VARIABLE => message.clone(),
        ExecutionError::FunctionError { function, message } if function == FIELDS => message.clone(),
        other => super::cause(other).unwrap_or_else(|| "no such overload".to_owned()),
    }
}

/// Adds what rewritten expressions call.
pub(super) fn register(context: &mut Context<'_>) {
    context.add_function(VARIABLE, |name: Arc<String>| -> ResolveResult { variable(&name) });
    context.add_function(FIELDS, |value: CelValue, field: Arc<String>| -> ResolveResult {
        match value {
            CelValue::Map(_) | CelValue::Opaque(_) => Ok(value),
            CelValue::Null => Err(ExecutionError::function_error(FIELDS, format!("no such key: {field}"))),
            _ => Err(ExecutionError::function_error(FIELDS, "no such overload")),
        }
    });
}

fn variable(name: &str) -> ResolveResult {
    let running = RUNNING.with_borrow(Clone::clone);
    let found = running
        .as_ref()
        .and_then(|shared| Some((shared, shared.composed.iter().find(|it| it.name == name)?)));
    let Some((shared, composed)) = found else {
        return Err(ExecutionError::UndeclaredReference(Arc::new(name.to_owned())));
    };
    let value = composed.value.get_or_init(|| match &composed.expression {
        Err(why) => Err(format!("composited variable {name:?} fails to compile: {why}")),
        Ok(expression) => resolve(shared, expression)
            .map_err(|error| format!("composited variable {name:?} fails to evaluate: {}", reason(&error))),
    });
    match value {
        Ok(value) => {
            charge(weight(value));
            Ok(value.clone())
        }
        Err(why) => Err(ExecutionError::function_error(VARIABLE, why)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
    fn variables_run_once_and_only_when_asked_for() {
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
    fn names_that_are_not_there_are_told_with_their_place() {
        let why = Expression::compile("object.x == 1 && nobody", &NAMES, None, &mut Work::of_admission()).unwrap_err();
        assert_eq!(
            why,
            "compilation failed: ERROR: <input>:1:18: undeclared reference to 'nobody' (in container '')\n | object.x == 1 && nobody\n | .................^"
        );
    }

    #[test]
    fn what_was_taken_before_is_not_judged_again() {
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
    fn what_macros_copy_is_bounded_for_a_whole_object() {
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
    fn only_messages_that_there_are_can_be_named() {
        let compile = |source: &str| Expression::compile(source, &NAMES, None, &mut Work::of_admission());
        assert!(compile("google.protobuf.Int32Value{value: 1} == 1").is_ok());
        let why = compile("google.protobuf.uration == 1").unwrap_err();
        assert!(why.contains("undeclared reference to 'google'"), "{why}");
    }

    #[test]
    fn what_costs_too_much_ends() {
        let source = "lists.range(1000).all(a, lists.range(1000).all(b, lists.range(1000).all(c, c >= 0)))";
        assert_eq!(run(source), Err(NoAnswer::Exhausted));
    }
}
