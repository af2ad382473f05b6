//! Validation rules in CEL (`x-kubernetes-validations`; apiextensions-apiserver v0.35 `pkg/apiserver/schema/cel`).
//! Rules are compiled once, with the schema. A rule is refused when its text is too long or too deeply nested to be
//! walked on an ordinary stack, and is not run on a value so large that its loops would exceed the cost limit: that is
//! an error of the object, never a pass.

mod guard;
mod value;

use std::panic::{AssertUnwindSafe, catch_unwind};

use kube_cel::KubeCelExt as _;
use kube_cel::cel::{Context, ExecutionError, Program, Value as CelValue};
use serde_json::Value;

use crate::tree::{Kind, Scalar, Schema};
use crate::validate::correlate;
use crate::{ERRORS_MAX, FieldError, FieldErrorKind, FieldPath};
use guard::{Survey, nesting, single_signs};
use value::to_cel;

/// Longest rule in bytes: the longest published ones have about 5 000.
const RULE_BYTES_MAX: usize = 16 * 1024;

/// Deepest nesting of a rule's expressions: parser and interpreter recurse, on stacks of 2 MB.
const RULE_DEPTH_MAX: usize = 120;

/// Steps one rule may cost on one value, estimated before it runs (Kubernetes: 1 000 000 per expression).
const RULE_COST_MAX: u64 = 10_000_000;

/// Steps all rules together may cost on one object (Kubernetes: 100 000 000 of smaller steps).
const OBJECT_COST_MAX: u64 = 50_000_000;

/// One compiled rule.
pub(crate) struct Rule {
    source: String,
    program: Program,
    /// Expression nodes, and how deeply loops nest.
    nodes: u64,
    loops: u32,
    uses_old_self: bool,
    optional_old_self: bool,
    message: Option<String>,
    message_program: Option<Program>,
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
    let message_program = match text("messageExpression") {
        Some(source) => Some(parse(source).map_err(|why| FieldError::invalid(message_path, source, why))?),
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
    survey.visit(program.expression(), 0);
    if let Some(name) = survey.unknown {
        let why = format!("compilation failed: undeclared reference to '{name}'");
        return Err(FieldError::invalid(rule_path, source, why));
    }
    let (nodes, loops) = (survey.nodes, survey.loops);
    let uses_old_self = program.references().has_variable("oldSelf");
    Ok(Rule {
        source: source.to_owned(),
        nodes,
        loops,
        uses_old_self,
        optional_old_self: entry.get("optionalOldSelf").and_then(Value::as_bool) == Some(true),
        message: text("message").map(str::to_owned),
        message_program,
        reason,
        field_path: text("fieldPath").map(|path| path.trim_start_matches('.').to_owned()),
        program,
    })
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
    static LIBRARY: Context<'static> = Context::default().with_all();
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
        let mut context = library.new_inner_scope();
        context.add_variable_from_value("self", to_cel(schema, value));
        context.add_variable_from_value("oldSelf", old.map_or(CelValue::Null, |old| to_cel(schema, old)));
        let size = largest(value).max(old.map_or(0, largest)).max(1);
        for rule in &schema.node().rules {
            let skip = rule.uses_old_self && old.is_none() && !rule.optional_old_self;
            if skip || (settled && !rule.uses_old_self) {
                continue;
            }
            let cost = size.saturating_pow(rule.loops).saturating_mul(rule.nodes);
            if cost > RULE_COST_MAX || cost > self.budget {
                let words = format!(
                    "no further validation rules will be run: call cost exceeds limit for rule: {}",
                    rule.source
                );
                self.errors.push(FieldError::invalid(path, type_name(schema), words));
                self.budget = 0;
                return;
            }
            self.budget -= cost;
            if let Some(error) = run_rule(rule, &context, schema, path) {
                self.errors.push(error);
            }
        }
    }
}

fn run_rule(rule: &Rule, context: &Context<'_>, schema: &Schema, path: &FieldPath<'_>) -> Option<FieldError> {
    let outcome = catch_unwind(AssertUnwindSafe(|| rule.program.execute(context)));
    let words = match outcome {
        Ok(Ok(CelValue::Bool(true))) => return None,
        Ok(Ok(CelValue::Bool(false))) => {
            let path = match &rule.field_path {
                Some(field) => path.field(field).to_string(),
                None => path.to_string(),
            };
            let value = match rule.reason {
                FieldErrorKind::Required | FieldErrorKind::Forbidden => None,
                _ => Some(Value::from(type_name(schema))),
            };
            return Some(FieldError::new(path, rule.reason, value, message(rule, context)));
        }
        Ok(Ok(_)) => format!("rule did not evaluate to a truth value: {}", rule.source),
        Ok(Err(ExecutionError::UndeclaredReference(name))) => {
            format!("undeclared reference to '{name}' evaluating rule: {}", rule.source)
        }
        Ok(Err(error)) => format!("{error} evaluating rule: {}", rule.source),
        Err(_) => format!("internal failure evaluating rule: {}", rule.source),
    };
    Some(FieldError::invalid(path, type_name(schema), words))
}

fn message(rule: &Rule, context: &Context<'_>) -> String {
    let computed = rule.message_program.as_ref().and_then(|program| {
        match catch_unwind(AssertUnwindSafe(|| program.execute(context))) {
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
        Kind::Scalar(Scalar::String | Scalar::Quantity) => "string",
        Kind::Scalar(Scalar::Integer) => "integer",
        Kind::Scalar(Scalar::Number) => "number",
        Kind::Scalar(Scalar::Boolean) => "boolean",
        Kind::Scalar(Scalar::IntOrString) | Kind::Any => "",
    }
}

/// Elements of the largest list or map inside, which bounds how often a loop runs.
fn largest(value: &Value) -> u64 {
    match value {
        Value::Array(items) => (items.len() as u64).max(items.iter().map(largest).max().unwrap_or(0)),
        Value::Object(map) => (map.len() as u64).max(map.values().map(largest).max().unwrap_or(0)),
        _ => 0,
    }
}
