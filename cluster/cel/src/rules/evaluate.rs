//! Rules of one node on one value, within a budget that all rules of an object share. Which values there are is the caller's
//! to walk.

use std::sync::Arc;

use cluster_fields::{ERRORS_MAX, FieldError, FieldErrorKind, FieldPath, ValidationResult};
use kube_cel::cel::objects::OptionalValue;
use kube_cel::cel::{Context, ExecutionError, Value as CelValue};
use serde_json::Value;

use crate::rules::rule::Rule;
use crate::run::causes::cause;
use crate::run::library::LIBRARY;
use crate::run::meter::{self, Ended, LookUps, weight_of_json};
use crate::run::value_schema::ValueSchema;
use crate::run::values::to_cel;

/// What one rule may cost on one value, in copied elements (Kubernetes: 1 000 000 of larger steps per expression).
const RULE_COST_MAX: u64 = 5_000_000;

/// What all rules together may cost on one object (Kubernetes: 10 000 000 of larger steps).
const OBJECT_COST_MAX: u64 = 20_000_000;

/// The rules of one object while they run: what they found, and what is left of their budget.
pub struct Evaluation<'v> {
    result: &'v mut ValidationResult,
    budget: u64,
}

/// What is known about the value before an update.
#[derive(Clone, Copy, Debug, Default)]
pub struct OldValue<'o> {
    /// The old value, if it can be correlated.
    pub value: Option<&'o Value>,
    /// The closest value above that can be correlated did not change. Compared once for all its parts.
    pub unchanged: bool,
}

impl OldValue<'_> {
    /// Whether `value` is as it was.
    pub fn is_unchanged(self, value: &Value) -> bool {
        self.value.map_or(self.unchanged, |old| old == value)
    }
}

impl<'v> Evaluation<'v> {
    /// With the budget of a whole object; findings are added to `result`.
    pub fn new(result: &'v mut ValidationResult) -> Self {
        Self {
            result,
            budget: OBJECT_COST_MAX,
        }
    }

    /// Whether so many errors were found that no more rules need to run.
    pub fn is_full(&self) -> bool {
        self.result.errors.len() >= ERRORS_MAX
    }

    /// Runs rules on a value that fits its schema.
    pub fn run(
        &mut self,
        rules: &[Arc<Rule>],
        schema: &dyn ValueSchema,
        value: &Value,
        before: OldValue<'_>,
        path: &FieldPath<'_>,
    ) {
        if !rules.is_empty() {
            LIBRARY.with(|library| self.run_with(library, rules, schema, value, before, path));
        }
    }

    fn run_with(
        &mut self,
        library: &Context<'static>,
        rules: &[Arc<Rule>],
        schema: &dyn ValueSchema,
        value: &Value,
        before: OldValue<'_>,
        path: &FieldPath<'_>,
    ) {
        let old = before.value;
        let look_ups = LookUps {
            this: weight_of_json(value),
            old: old.map_or(1, weight_of_json),
        };
        let old_value = || old.map(|old| to_cel(Some(schema), old));
        let mut context = library.new_inner_scope();
        context.set_variable_resolver(&look_ups);
        context.add_variable_from_value("self", to_cel(Some(schema), value));
        context.add_variable_from_value("oldSelf", old_value().unwrap_or(CelValue::Null));
        for rule in rules {
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
                holds.map(|outcome| outcome.map(|outcome| outcome.into_error(rule, &context, value, path, &mut left)));
            self.budget -= granted - left;
            match error {
                Ok(None) => {}
                Ok(Some((error, true))) if !rule.uses_old_self && before.is_unchanged(value) => {
                    self.result.warnings.push(error.to_string());
                }
                Ok(Some((error, _))) => self.result.errors.push(error),
                Err(Exceeded) => {
                    let words = format!(
                        "'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to call cost exceeds limit for rule: {}",
                        rule.shown()
                    );
                    self.result
                        .errors
                        .push(FieldError::invalid(path, schema.type_name(), words));
                    self.budget = 0;
                    return;
                }
            }
        }
    }
}

/// The rule exceeded its budget.
struct Exceeded;

/// Why a rule does not hold.
enum Outcome {
    /// It is not true of the value.
    False,
    /// It could not be evaluated: the type that the value should have, and why.
    Broken(&'static str, String),
}

fn run_rule(
    rule: &Rule,
    context: &Context<'_>,
    schema: &dyn ValueSchema,
    value: &Value,
    budget: &mut u64,
) -> Result<Option<Outcome>, Exceeded> {
    let broken = |why: String| Ok(Some(Outcome::Broken(schema.type_name(), why)));
    if schema.type_name() == "object" && !value.is_object() {
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
    fn into_error(
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
