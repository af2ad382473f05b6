//! Expressions over named values, as admission has them (kubernetes/kubernetes v1.35
//! `staging/src/k8s.io/apiserver/pkg/admission/plugin/cel`): compiled once, run with the budget that rules of schemas have.
//! It never looks for what the names stand for.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use kube_cel::cel::common::ast::{CallExpr, EntryExpr, Expr, IdedExpr, LiteralValue};
use kube_cel::cel::context::VariableResolver;
use kube_cel::cel::{Context, ExecutionError, ResolveResult, Value as CelValue};
use serde_json::Value;

use super::authorizer::{self, Authorize};
use super::guard::Survey;
use super::meter::{self, Ended, charge, weight, weight_of_json};
use super::types::type_of;
use super::value::plain;
use super::{LIBRARY, parse};

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
    result: Option<&'static str>,
}

impl std::fmt::Debug for Expression {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Expression").field(&self.source).finish()
    }
}

impl Expression {
    /// Compiles an expression that may use `names`, and below `variables` those of `composed`, if there are such.
    ///
    /// # Errors
    /// What is wrong, as kube-apiserver words it as far as the parser tells.
    pub fn compile(source: &str, names: &[&str], composed: Option<&[String]>) -> Result<Self, String> {
        let mut tree = parse(source)?;
        rewrite(&mut tree, composed).map_err(|name| {
            let at = source.find(&format!("{COMPOSED}.{name}"));
            let column = at.map_or(0, |at| at + COMPOSED.len());
            located(source, column, &format!("undefined field '{name}'"))
        })?;
        let mut survey = Survey::of_names(names);
        survey.visit(&tree);
        if let Some(name) = survey.unknown {
            let column = place_of(source, name);
            let why = format!("undeclared reference to '{name}' (in container '')");
            return Err(located(source, column, &why));
        }
        let result = type_of(&tree);
        let _ = meter::meter(&mut tree);
        Ok(Self {
            source: source.to_owned(),
            tree,
            result,
        })
    }

    /// What was compiled.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The type of its result as far as it can be told without running it: `bool`, `string`, `dyn`.
    pub fn result_type(&self) -> Option<&'static str> {
        self.result
    }
}

/// Where a name is used first: not in a longer word, not behind a dot.
fn place_of(source: &str, name: &str) -> usize {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let found = source.match_indices(name).find(|(at, _)| {
        let (before, after) = (&source[..*at], &source[at + name.len()..]);
        !before.ends_with(|c: char| word(c) || c == '.') && !after.starts_with(word)
    });
    found.map_or(0, |(at, _)| at)
}

/// An error of compilation as cel-go shows it, with the place below the line.
fn located(source: &str, column: usize, why: &str) -> String {
    let before = source.get(..column).unwrap_or_default();
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    let (line, column) = (before.matches('\n').count() + 1, column - line_start);
    let shown = source.get(line_start..).unwrap_or_default();
    let shown = shown.lines().next().unwrap_or_default();
    format!(
        "compilation failed: ERROR: <input>:{line}:{}: {why}\n | {shown}\n | {}^",
        column + 1,
        ".".repeat(column)
    )
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
/// none. Errors: a variable that is not there.
fn rewrite(expression: &mut IdedExpr, composed: Option<&[String]>) -> Result<(), String> {
    let id = expression.id;
    match &mut expression.expr {
        Expr::Select(select) => match (&select.operand.expr, composed) {
            (Expr::Ident(name), Some(known)) if name == COMPOSED => {
                if !known.contains(&select.field) {
                    return Err(select.field.clone());
                }
                *expression = if select.test {
                    IdedExpr {
                        id,
                        expr: Expr::Literal(LiteralValue::Boolean(true.into())),
                    }
                } else {
                    call(id, VARIABLE, vec![literal(id, &select.field)])
                };
            }
            (Expr::Ident(name), _) if name == authorizer::NAME && select.field == authorizer::REQUEST_RESOURCE => {
                *expression = IdedExpr {
                    id,
                    expr: Expr::Ident(authorizer::REQUEST_RESOURCE_NAME.to_owned()),
                };
            }
            _ => {
                rewrite(&mut select.operand, composed)?;
                let operand = std::mem::take(&mut *select.operand);
                *select.operand = call(id, FIELDS, vec![operand, literal(id, &select.field)]);
            }
        },
        Expr::Call(call) => {
            // A bare name may be the first part of a function's name.
            if let Some(target) = &mut call.target {
                rewrite(target, composed)?;
            }
            call.args
                .iter_mut()
                .try_for_each(|argument| rewrite(argument, composed))?;
        }
        Expr::Comprehension(inner) => {
            for part in [
                &mut inner.iter_range,
                &mut inner.accu_init,
                &mut inner.loop_cond,
                &mut inner.loop_step,
                &mut inner.result,
            ] {
                rewrite(part, composed)?;
            }
        }
        Expr::List(list) => list
            .elements
            .iter_mut()
            .try_for_each(|element| rewrite(element, composed))?,
        Expr::Map(map) => {
            for entry in &mut map.entries {
                if let EntryExpr::MapEntry(entry) = &mut entry.expr {
                    rewrite(&mut entry.key, composed)?;
                    rewrite(&mut entry.value, composed)?;
                }
            }
        }
        Expr::Struct(_) | Expr::Ident(_) | Expr::Literal(_) | Expr::Unspecified => {}
    }
    Ok(())
}

/// What names stand for while expressions run.
pub struct Scope {
    shared: Rc<Shared>,
    budget: u64,
}

struct Shared {
    values: Values,
    composed: Vec<Composed>,
}

/// A variable of a policy: run when it is first asked for.
struct Composed {
    name: String,
    expression: Arc<Expression>,
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
    composed: Vec<Composed>,
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

    /// A variable of the policy, below `variables`.
    pub fn compose(&mut self, name: &str, expression: &Arc<Expression>) {
        self.composed.push(Composed {
            name: name.to_owned(),
            expression: expression.clone(),
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
    let value = composed.value.get_or_init(|| {
        resolve(shared, &composed.expression)
            .map_err(|error| format!("composited variable {name:?} fails to evaluate: {}", reason(&error)))
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
        let expression = Expression::compile(source, &NAMES, None).unwrap_or_else(|why| panic!("{source}: {why}"));
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
        let known = ["good".to_owned(), "bad".to_owned()];
        let compile = |source: &str, known: &[String]| Expression::compile(source, &NAMES, Some(known));
        let good = Arc::new(compile("object.a + 1", &[]).unwrap());
        let bad = Arc::new(compile("variables.good + object.b", &known[..1]).unwrap());
        let mut names = Names::default();
        names.set("object", Some(&json!({"a": 1})));
        names.compose("good", &good);
        names.compose("bad", &bad);
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
        let why = Expression::compile("object.x == 1 && nobody", &NAMES, None).unwrap_err();
        assert_eq!(
            why,
            "compilation failed: ERROR: <input>:1:18: undeclared reference to 'nobody' (in container '')\n | object.x == 1 && nobody\n | .................^"
        );
    }

    #[test]
    fn what_costs_too_much_ends() {
        let source = "lists.range(1000).all(a, lists.range(1000).all(b, lists.range(1000).all(c, c >= 0)))";
        assert_eq!(run(source), Err(NoAnswer::Exhausted));
    }
}
