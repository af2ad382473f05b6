//! CEL: validation rules of schemas (`x-kubernetes-validations`; apiextensions-apiserver v0.35
//! `pkg/apiserver/schema/cel`), and expressions of admission. Rules are compiled once, with the schema (`compile`), and run
//! here. A rule is refused when its text is too long or too deeply nested to be walked on an ordinary stack, and ends when it
//! has cost more than a rule may: that is an error of the object, never a pass.

mod authorizer;
mod budget;
mod check;
mod compile;
mod cost;
mod cost_calls;
mod declared;
mod expression;
mod format_rules;
mod library;
mod literal;
mod literal_rules;
mod macros;
mod meter;
mod nodes;
mod parse;
mod place;
mod range;
mod scope;
mod signatures;
mod sizes;
mod times;
mod tokens;
mod types;
mod value;

use std::sync::Arc;

use kube_cel::KubeCelExt as _;
use kube_cel::cel::common::ast::IdedExpr;
use kube_cel::cel::objects::OptionalValue;
use kube_cel::cel::{Context, ExecutionError, Value as CelValue};
use serde_json::Value;

use crate::correlation::OldItems;
use crate::tree::{Kind, MapType, Scalar, Schema};
use crate::validate::Verdict;
use crate::{ERRORS_MAX, FieldError, FieldErrorKind, FieldPath};
use meter::{Ended, LookUps, meter, weight_of_json};
use value::to_cel;

pub use authorizer::{Authorize, Check};
pub(crate) use budget::Total;
pub use budget::Work;
pub(crate) use compile::{Asked, Place, compile};
pub use expression::{Answer, CONDITIONS_COST_MAX, Composed, Expression, Names, NoAnswer, POLICY_COST_MAX, Scope};

/// What one rule may cost on one value, in copied elements (Kubernetes: 1 000 000 of larger steps per expression).
const RULE_COST_MAX: u64 = 5_000_000;

/// What all rules together may cost on one object (Kubernetes: 10 000 000 of larger steps).
const OBJECT_COST_MAX: u64 = 20_000_000;

/// One compiled rule.
pub(crate) struct Rule {
    source: String,
    expression: IdedExpr,
    uses_old_self: bool,
    optional_old_self: bool,
    message: Option<String>,
    message_expression: Option<IdedExpr>,
    reason: FieldErrorKind,
    field_path: Option<String>,
}

impl std::fmt::Debug for Rule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Rule").field(&self.source).finish()
    }
}

fn metered(mut expression: IdedExpr) -> IdedExpr {
    library::lower(&mut expression);
    meter(&mut expression);
    expression
}

/// Run all rules of the tree on a value that fits its schema.
pub(crate) fn evaluate(schema: &Schema, value: &Value, old: Option<&Value>, verdict: &mut Verdict) {
    let mut run = Run {
        verdict,
        budget: OBJECT_COST_MAX,
    };
    let before = Before {
        value: old,
        settled: false,
    };
    run.walk(schema, value, before, &FieldPath::Root);
}

struct Run<'v> {
    verdict: &'v mut Verdict,
    budget: u64,
}

/// What is known of the value that was there before.
#[derive(Clone, Copy)]
struct Before<'o> {
    value: Option<&'o Value>,
    /// The closest value above of which it is known had not changed. Told once for all parts of a value.
    settled: bool,
}

impl Before<'_> {
    fn is_settled(self, value: &Value) -> bool {
        self.value.map_or(self.settled, |old| old == value)
    }
}

thread_local! {
    /// The function library; building it for each rule would cost more than most rules.
    static LIBRARY: Context<'static> = {
        let mut context = Context::default().with_all();
        library::register(&mut context);
        times::register(&mut context);
        meter::register(&mut context);
        value::register_types(&mut context);
        expression::register(&mut context);
        authorizer::register(&mut context);
        context
    };
}

impl Run<'_> {
    fn walk(&mut self, schema: &Schema, value: &Value, before: Before<'_>, path: &FieldPath<'_>) {
        let node = schema.node();
        if !node.has_rules || value.is_null() || self.verdict.errors.len() >= ERRORS_MAX {
            return;
        }
        if !node.rules.is_empty() {
            LIBRARY.with(|library| self.run_rules(library, schema, value, before, path));
        }
        for part in node.bounds.iter().flat_map(|bounds| &bounds.all_of) {
            self.walk(part, value, before, path);
        }
        match (&node.kind, value) {
            (Kind::Object(object), Value::Object(map)) => {
                let old = before.value.filter(|_| object.map_type == MapType::Granular);
                let settled = before.is_settled(value);
                for (key, child) in map {
                    let of_part = || Before {
                        value: old.and_then(|old| old.get(key)),
                        settled,
                    };
                    if let Some(field) = object.fields.get(&**key) {
                        self.walk(field, child, of_part(), &path.field(key));
                    } else if let Some(field) = &object.additional {
                        self.walk(field, child, of_part(), &path.key(key));
                    }
                }
            }
            (Kind::List(list), Value::Array(items)) => {
                let old = OldItems::new(&list.list_type, before.value);
                let settled = before.is_settled(value);
                for (index, item) in items.iter().enumerate() {
                    let before = Before {
                        value: old.of(item),
                        settled,
                    };
                    self.walk(&list.items, item, before, &path.index(index));
                }
            }
            _ => {}
        }
    }

    fn run_rules(
        &mut self,
        library: &Context<'static>,
        schema: &Schema,
        value: &Value,
        before: Before<'_>,
        path: &FieldPath<'_>,
    ) {
        let old = before.value;
        let look_ups = LookUps {
            this: weight_of_json(value),
            old: old.map_or(1, weight_of_json),
        };
        let old_value = || old.map(|old| to_cel(schema, old));
        let mut context = library.new_inner_scope();
        context.set_variable_resolver(&look_ups);
        context.add_variable_from_value("self", to_cel(schema, value));
        context.add_variable_from_value("oldSelf", old_value().unwrap_or(CelValue::Null));
        for rule in &schema.node().rules {
            if rule.uses_old_self && old.is_none() && !rule.optional_old_self {
                continue;
            }
            let mut left = self.budget.min(RULE_COST_MAX);
            let granted = left;
            let holds = if rule.optional_old_self {
                let mut context = context.new_inner_scope();
                context.set_variable_resolver(&look_ups);
                let old = old_value().map_or_else(OptionalValue::none, OptionalValue::of);
                context.add_variable_from_value("oldSelf", CelValue::Opaque(Arc::new(old)));
                run_rule(rule, &context, schema, value, &mut left)
            } else {
                run_rule(rule, &context, schema, value, &mut left)
            };
            let error =
                holds.map(|outcome| outcome.map(|outcome| outcome.told(rule, &context, value, path, &mut left)));
            self.budget -= granted - left;
            match error {
                Ok(None) => {}
                Ok(Some((error, true))) if !rule.uses_old_self && before.is_settled(value) => {
                    self.verdict.warnings.push(error.to_string());
                }
                Ok(Some((error, _))) => self.verdict.errors.push(error),
                Err(Exceeded) => {
                    let words = format!(
                        "'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to call cost exceeds limit for rule: {}",
                        rule.shown()
                    );
                    self.verdict
                        .errors
                        .push(FieldError::invalid(path, type_name(schema), words));
                    self.budget = 0;
                    return;
                }
            }
        }
    }
}

/// The rule has cost more than it may.
struct Exceeded;

/// How a rule ended that does not hold.
enum Outcome {
    /// It is not true of the value.
    False,
    /// It has no answer: the type that the value should have, and why.
    Broken(&'static str, String),
}

fn run_rule(
    rule: &Rule,
    context: &Context<'_>,
    schema: &Schema,
    value: &Value,
    budget: &mut u64,
) -> Result<Option<Outcome>, Exceeded> {
    let broken = |why: String| Ok(Some(Outcome::Broken(type_name(schema), why)));
    if matches!(schema.kind(), Kind::Object(_)) && !value.is_object() {
        let why = "invalid data, expected a map for the provided schema with type=object";
        return broken(format!("{why} evaluating rule: {}", rule.shown()));
    }
    match meter::run(budget, || CelValue::resolve(&rule.expression, context)) {
        Ok(Ok(CelValue::Bool(true))) => Ok(None),
        Ok(Ok(CelValue::Bool(false))) => Ok(Some(Outcome::False)),
        Ok(Ok(_)) => broken(format!("rule did not evaluate to a truth value: {}", rule.shown())),
        Ok(Err(error)) => broken(in_go_words(&error, rule.shown())),
        Err(Ended::Broken) => broken(format!("internal failure evaluating rule: {}", rule.shown())),
        Err(Ended::Exhausted) => Err(Exceeded),
    }
}

/// As cel-go says it (`common/types/err.go`); none where a function has no form for what it is given.
fn cause(error: &ExecutionError) -> Option<String> {
    Some(match error {
        ExecutionError::DivisionByZero(_) => "division by zero".to_owned(),
        ExecutionError::RemainderByZero(_) => "modulus by zero".to_owned(),
        ExecutionError::Overflow(..) => "integer overflow".to_owned(),
        ExecutionError::NoSuchKey(key) => format!("no such key: {key}"),
        ExecutionError::IndexOutOfBounds(CelValue::Int(index)) => format!("index out of bounds: {index}"),
        ExecutionError::NoSuchOverload
        | ExecutionError::ValuesNotComparable(..)
        | ExecutionError::UnsupportedUnaryOperator(..)
        | ExecutionError::UnsupportedBinaryOperator(..) => return None,
        ExecutionError::UndeclaredReference(name) => format!("undeclared reference to '{name}'"),
        other => other.to_string(),
    })
}

fn in_go_words(error: &ExecutionError, rule: &str) -> String {
    match cause(error) {
        Some(why) => format!("{why} evaluating rule: {rule}"),
        None => {
            let words = "call arguments did not match a supported operator, function or macro signature for rule";
            format!("'no such overload': {words}: {rule}")
        }
    }
}

impl Outcome {
    /// The error, and whether it is the rule's own.
    fn told(
        self,
        rule: &Rule,
        context: &Context<'_>,
        value: &Value,
        path: &FieldPath<'_>,
        budget: &mut u64,
    ) -> (FieldError, bool) {
        match self {
            Self::Broken(wanted, why) => (FieldError::invalid(path, wanted, why), false),
            Self::False => {
                let at = match &rule.field_path {
                    Some(field) => path.field(field).to_string(),
                    None => path.to_string(),
                };
                let shown = match (rule.reason, value) {
                    (FieldErrorKind::Required | FieldErrorKind::Forbidden, _) => None,
                    (_, Value::Object(_) | Value::Array(_)) => None,
                    (_, plain) => Some(plain.clone()),
                };
                let detail = match rule.reason {
                    FieldErrorKind::Duplicate => String::new(),
                    _ => message(rule, context, budget),
                };
                (FieldError::new(at, rule.reason, shown, detail), true)
            }
        }
    }
}

impl Rule {
    /// How an error speaks of the rule.
    fn shown(&self) -> &str {
        self.message.as_deref().unwrap_or(&self.source)
    }
}

fn message(rule: &Rule, context: &Context<'_>, budget: &mut u64) -> String {
    let computed = rule.message_expression.as_ref().and_then(|expression| {
        match meter::run(budget, || CelValue::resolve(expression, context)) {
            Ok(Ok(CelValue::String(text))) if !text.trim().is_empty() && !text.trim().contains('\n') => {
                Some(text.trim().to_owned())
            }
            _ => None,
        }
    });
    computed
        .or_else(|| rule.message.clone())
        .unwrap_or_else(|| format!("failed rule: {}", rule.source))
}

fn type_name(schema: &Schema) -> &'static str {
    match schema.kind() {
        Kind::Object(_) => "object",
        Kind::List(_) => "array",
        Kind::Scalar(Scalar::String | Scalar::Quantity | Scalar::Time | Scalar::MicroTime | Scalar::Bytes) => "string",
        Kind::Scalar(Scalar::Integer) => "integer",
        Kind::Scalar(Scalar::Number) => "number",
        Kind::Scalar(Scalar::Boolean) => "boolean",
        Kind::Scalar(Scalar::IntOrString) | Kind::Any => "",
    }
}
