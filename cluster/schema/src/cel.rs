//! Validation rules in CEL (`x-kubernetes-validations`; apiextensions-apiserver v0.35 `pkg/apiserver/schema/cel`).
//! Rules are compiled once, with the schema. A rule is refused when its text is too long or too deeply nested to be
//! walked on an ordinary stack, and ends when it has cost more than a rule may: that is an error of the object, never a
//! pass.

mod guard;
mod meter;
mod value;

use std::panic::{AssertUnwindSafe, catch_unwind};

use kube_cel::KubeCelExt as _;
use kube_cel::cel::common::ast::IdedExpr;
use kube_cel::cel::{Context, ExecutionError, Program, Value as CelValue};
use serde_json::Value;

use crate::tree::{Kind, Scalar, Schema};
use crate::validate::correlate;
use crate::{ERRORS_MAX, FieldError, FieldErrorKind, FieldPath};
use guard::{Survey, nesting, single_signs};
use meter::{Ended, LookUps, meter, weight_of_json};
use value::to_cel;

/// Longest rule in bytes: the longest published ones have about 5 000.
const RULE_BYTES_MAX: usize = 16 * 1024;

/// Deepest nesting of a rule's expressions: parser and interpreter recurse, on stacks of 2 MB.
const RULE_DEPTH_MAX: usize = 120;

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

/// Compile one entry of `x-kubernetes-validations`; errors are at `path`.
pub(crate) fn compile(entry: &Value, path: &FieldPath<'_>) -> Result<Rule, FieldError> {
    let text = |name: &str| {
        entry
            .get(name)
            .and_then(Value::as_str)
            .map(str::trim)
            .filter(|text| !text.is_empty())
    };
    let rule_path = path.field("rule");
    let source = text("rule").ok_or_else(|| FieldError::required(rule_path, "rule is not specified"))?;
    let program = parse(source).map_err(|why| FieldError::invalid(rule_path, source, why))?;
    let message_path = path.field("messageExpression");
    let message_expression = match text("messageExpression") {
        Some(source) => {
            let program = parse(source).map_err(|why| FieldError::invalid(message_path, source, why))?;
            Some(metered(&program))
        }
        None => None,
    };
    let reason = match text("reason") {
        None | Some("FieldValueInvalid") => FieldErrorKind::Invalid,
        Some("FieldValueForbidden") => FieldErrorKind::Forbidden,
        Some("FieldValueRequired") => FieldErrorKind::Required,
        Some("FieldValueDuplicate") => FieldErrorKind::Duplicate,
        Some(other) => {
            let allowed = [
                "FieldValueDuplicate",
                "FieldValueForbidden",
                "FieldValueInvalid",
                "FieldValueRequired",
            ];
            return Err(FieldError::not_supported(path.field("reason"), other, &allowed));
        }
    };
    let mut survey = Survey::default();
    survey.visit(program.expression());
    if let Some(name) = survey.unknown {
        let why = format!("compilation failed: undeclared reference to '{name}'");
        return Err(FieldError::invalid(rule_path, source, why));
    }
    let uses_old_self = program.references().has_variable("oldSelf");
    Ok(Rule {
        source: source.to_owned(),
        expression: metered(&program),
        uses_old_self,
        optional_old_self: entry.get("optionalOldSelf").and_then(Value::as_bool) == Some(true),
        message: text("message").map(str::to_owned),
        message_expression,
        reason,
        field_path: text("fieldPath").map(|path| path.trim_start_matches('.').to_owned()),
    })
}

fn metered(program: &Program) -> IdedExpr {
    let mut expression = program.expression().clone();
    meter(&mut expression);
    expression
}

fn parse(source: &str) -> Result<Program, String> {
    if source.len() > RULE_BYTES_MAX {
        return Err(format!("must be no more than {RULE_BYTES_MAX} bytes"));
    }
    if nesting(source) > RULE_DEPTH_MAX {
        return Err(format!("must not nest more than {RULE_DEPTH_MAX} expressions"));
    }
    let source = single_signs(source)?;
    match catch_unwind(AssertUnwindSafe(|| Program::compile(&source))) {
        Ok(Ok(program)) => Ok(program),
        // The first line names the place and the reason; the rest repeats the rule.
        Ok(Err(error)) => Err(format!(
            "compilation failed: {}",
            error.to_string().trim().lines().next().unwrap_or_default()
        )),
        Err(_) => Err("compilation failed: the parser gave up".to_owned()),
    }
}

/// Run all rules of the tree on a value that fits its schema.
pub(crate) fn evaluate(schema: &Schema, value: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    if schema.node().has_rules {
        let mut run = Run {
            errors,
            budget: OBJECT_COST_MAX,
        };
        run.walk(schema, value, old, false, &FieldPath::Root);
    }
}

struct Run<'e> {
    errors: &'e mut Vec<FieldError>,
    budget: u64,
}

thread_local! {
    /// The function library; building it for each rule would cost more than most rules.
    static LIBRARY: Context<'static> = {
        let mut library = Context::default().with_all();
        meter::register(&mut library);
        library
    };
}

impl Run<'_> {
    /// `settled`: an ancestor's value did not change, so only transition rules can have something new to say.
    fn walk(&mut self, schema: &Schema, value: &Value, old: Option<&Value>, settled: bool, path: &FieldPath<'_>) {
        let node = schema.node();
        if !node.has_rules || value.is_null() || self.errors.len() >= ERRORS_MAX {
            return;
        }
        let settled = settled || old == Some(value);
        if !node.rules.is_empty() {
            LIBRARY.with(|library| self.run_rules(library, schema, value, old, settled, path));
        }
        for part in node.bounds.iter().flat_map(|bounds| &bounds.all_of) {
            self.walk(part, value, old, settled, path);
        }
        match (&node.kind, value) {
            (Kind::Object(_), Value::Object(map)) => {
                for (key, value) in map {
                    if let Some(field) = schema.field(key) {
                        self.walk(
                            field,
                            value,
                            old.and_then(|old| old.get(key)),
                            settled,
                            &path.field(key),
                        );
                    }
                }
            }
            (Kind::List(list), Value::Array(items)) => {
                let old = old.and_then(Value::as_array);
                for (index, item) in items.iter().enumerate() {
                    let old = old.and_then(|old| correlate(&list.list_type, item, old));
                    self.walk(&list.items, item, old, settled, &path.index(index));
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
        old: Option<&Value>,
        settled: bool,
        path: &FieldPath<'_>,
    ) {
        let look_ups = LookUps {
            this: weight_of_json(value),
            old: old.map_or(1, weight_of_json),
        };
        let mut context = library.new_inner_scope();
        context.set_variable_resolver(&look_ups);
        context.add_variable_from_value("self", to_cel(schema, value));
        context.add_variable_from_value("oldSelf", old.map_or(CelValue::Null, |old| to_cel(schema, old)));
        for rule in &schema.node().rules {
            let skip = rule.uses_old_self && old.is_none() && !rule.optional_old_self;
            if skip || (settled && !rule.uses_old_self) {
                continue;
            }
            let mut left = self.budget.min(RULE_COST_MAX);
            let granted = left;
            let outcome = run_rule(rule, &context, schema, path, &mut left);
            self.budget -= granted - left;
            match outcome {
                Ok(None) => {}
                Ok(Some(error)) => self.errors.push(error),
                Err(Exceeded) => {
                    let words = format!(
                        "no further validation rules will be run: call cost exceeds limit for rule: {}",
                        rule.source
                    );
                    self.errors.push(FieldError::invalid(path, type_name(schema), words));
                    self.budget = 0;
                    return;
                }
            }
        }
    }
}

/// The rule has cost more than it may.
struct Exceeded;

fn run_rule(
    rule: &Rule,
    context: &Context<'_>,
    schema: &Schema,
    path: &FieldPath<'_>,
    budget: &mut u64,
) -> Result<Option<FieldError>, Exceeded> {
    let words = match meter::run(budget, || CelValue::resolve(&rule.expression, context)) {
        Ok(Ok(CelValue::Bool(true))) => return Ok(None),
        Ok(Ok(CelValue::Bool(false))) => {
            let path = match &rule.field_path {
                Some(field) => path.field(field).to_string(),
                None => path.to_string(),
            };
            let value = match rule.reason {
                FieldErrorKind::Required | FieldErrorKind::Forbidden => None,
                _ => Some(Value::from(type_name(schema))),
            };
            let message = message(rule, context, budget);
            return Ok(Some(FieldError::new(path, rule.reason, value, message)));
        }
        Ok(Ok(_)) => format!("rule did not evaluate to a truth value: {}", rule.source),
        Ok(Err(ExecutionError::UndeclaredReference(name))) => {
            format!("undeclared reference to '{name}' evaluating rule: {}", rule.source)
        }
        Ok(Err(error)) => format!("{error} evaluating rule: {}", rule.source),
        Err(Ended::Broken) => format!("internal failure evaluating rule: {}", rule.source),
        Err(Ended::Exhausted) => return Err(Exceeded),
    };
    Ok(Some(FieldError::invalid(path, type_name(schema), words)))
}

fn message(rule: &Rule, context: &Context<'_>, budget: &mut u64) -> String {
    let computed = rule.message_expression.as_ref().and_then(|expression| {
        match meter::run(budget, || CelValue::resolve(expression, context)) {
            Ok(Ok(CelValue::String(text))) if !text.trim().is_empty() && !text.contains('\n') => {
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
