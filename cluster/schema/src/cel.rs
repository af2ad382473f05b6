//! Validation rules in CEL (`x-kubernetes-validations`; apiextensions-apiserver v0.35 `pkg/apiserver/schema/cel`).
//! Rules are compiled once, with the schema. A rule is refused when its text is too long or too deeply nested to be
//! walked on an ordinary stack, and is not run on a value so large that its loops would exceed the cost limit: that is
//! an error of the object, never a pass.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use chrono::{DateTime, FixedOffset, TimeDelta};
use kube_cel::KubeCelExt as _;
use kube_cel::cel::common::ast::{EntryExpr, Expr, IdedExpr};
use kube_cel::cel::objects::{Key, Map};
use kube_cel::cel::{Context, ExecutionError, Program, Value as CelValue};
use serde_json::Value;

use crate::tree::{Kind, Schema};
use crate::validate::correlate;
use crate::{ERRORS_MAX, FieldError, FieldErrorKind, FieldPath, format};

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

/// The parser of cel 0.13 reads an even run of `!` or unary `-` as a single one, after visiting the operand twice (so
/// that nested runs cost exponential time). Pairs of `!` are therefore dropped here, runs of minus signs refused.
fn single_signs(source: &str) -> Result<String, String> {
    let mut out = String::with_capacity(source.len());
    let (mut quote, mut minus_run, mut last) = (None, 0, '(');
    let mut chars = source.chars().peekable();
    while let Some(c) = chars.next() {
        if let Some(open) = quote {
            out.push(c);
            if c == '\\' {
                out.extend(chars.next());
            } else if c == open {
                quote = None;
            }
            continue;
        }
        match c {
            '"' | '\'' => quote = Some(c),
            '!' if chars.peek() != Some(&'=') => {
                let kept = out.trim_end();
                if kept.ends_with('!') {
                    out.truncate(kept.len() - 1);
                    continue;
                }
            }
            _ => {}
        }
        if !c.is_whitespace() {
            minus_run = if c == '-' { minus_run + 1 } else { 0 };
            let after_operand = last.is_alphanumeric() || matches!(last, '_' | ')' | ']' | '}' | '"' | '\'');
            if minus_run > 1 + usize::from(after_operand) {
                return Err("write at most one minus sign before a value".to_owned());
            }
            if c != '-' {
                last = c;
            }
        }
        out.push(c);
    }
    Ok(out)
}

/// An upper bound of how deep the parser will recurse: brackets that are open, plus chains of operators at each level.
fn nesting(source: &str) -> usize {
    let (mut levels, mut deepest) = (vec![0_usize], 0);
    let mut quote: Option<char> = None;
    let mut chars = source.chars().peekable();
    while let Some(c) = chars.next() {
        if let Some(open) = quote {
            match c {
                '\\' => {
                    chars.next();
                }
                _ if c == open => quote = None,
                _ => {}
            }
            continue;
        }
        match c {
            '"' | '\'' => quote = Some(c),
            '(' | '[' | '{' => levels.push(0),
            ')' | ']' | '}' => {
                levels.pop();
                if levels.is_empty() {
                    levels.push(0);
                }
            }
            ',' => levels.iter_mut().last().into_iter().for_each(|level| *level = 0),
            '&' | '|' if chars.peek() == Some(&c) => {
                chars.next();
                levels.iter_mut().last().into_iter().for_each(|level| *level = 0);
            }
            '.' | '+' | '-' | '*' | '/' | '%' | '?' | '!' | '=' | '<' | '>' => {
                levels.iter_mut().last().into_iter().for_each(|level| *level += 1);
            }
            _ => {}
        }
        deepest = deepest.max(levels.len() + levels.iter().sum::<usize>());
    }
    deepest
}

/// Names that every rule may use: the variables, and types, which the parser takes for variables.
const KNOWN_NAMES: [&str; 17] = [
    "self",
    "oldSelf",
    "apiVersion",
    "apiGroup",
    "kind",
    "int",
    "uint",
    "double",
    "bool",
    "string",
    "bytes",
    "list",
    "map",
    "null_type",
    "type",
    "optional",
    "math",
];

/// What a walk over a rule's expression finds.
#[derive(Default)]
struct Survey<'e> {
    nodes: u64,
    loops: u32,
    scope: Vec<&'e str>,
    unknown: Option<&'e str>,
}

impl<'e> Survey<'e> {
    fn visit(&mut self, expression: &'e IdedExpr, depth: u32) {
        self.nodes += 1;
        self.loops = self.loops.max(depth);
        match &expression.expr {
            Expr::Call(call) => {
                // `ip.isCanonical(x)`: a function's namespace is no variable.
                if let Some(target) = call
                    .target
                    .as_ref()
                    .filter(|target| !matches!(target.expr, Expr::Ident(_)) || self.knows(target))
                {
                    self.visit(target, depth);
                }
                call.args.iter().for_each(|argument| self.visit(argument, depth));
            }
            Expr::Comprehension(comprehension) => {
                self.visit(&comprehension.iter_range, depth);
                let outer = self.scope.len();
                self.scope
                    .extend([comprehension.iter_var.as_str(), comprehension.accu_var.as_str()]);
                self.scope.extend(comprehension.iter_var2.as_deref());
                for part in [
                    &comprehension.accu_init,
                    &comprehension.loop_cond,
                    &comprehension.loop_step,
                    &comprehension.result,
                ] {
                    self.visit(part, depth + 1);
                }
                self.scope.truncate(outer);
            }
            Expr::List(list) => list.elements.iter().for_each(|element| self.visit(element, depth)),
            Expr::Map(map) => map
                .entries
                .iter()
                .for_each(|entry| self.visit_entry(&entry.expr, depth)),
            Expr::Struct(object) => object
                .entries
                .iter()
                .for_each(|entry| self.visit_entry(&entry.expr, depth)),
            Expr::Select(select) => self.visit(&select.operand, depth),
            Expr::Ident(name) => {
                if !self.knows(expression) {
                    self.unknown.get_or_insert(name);
                }
            }
            Expr::Unspecified | Expr::Literal(_) => {}
        }
    }

    fn visit_entry(&mut self, entry: &'e EntryExpr, depth: u32) {
        match entry {
            EntryExpr::StructField(field) => self.visit(&field.value, depth),
            EntryExpr::MapEntry(entry) => {
                self.visit(&entry.key, depth);
                self.visit(&entry.value, depth);
            }
        }
    }

    fn knows(&self, expression: &IdedExpr) -> bool {
        match &expression.expr {
            Expr::Ident(name) => {
                KNOWN_NAMES.contains(&name.as_str()) || self.scope.contains(&name.as_str()) || name.starts_with('@')
            }
            _ => false,
        }
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
    use crate::tree::Scalar;
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

fn to_cel(schema: &Schema, value: &Value) -> CelValue {
    let node = schema.node();
    match value {
        Value::Null => CelValue::Null,
        Value::Bool(truth) => CelValue::Bool(*truth),
        Value::Number(number) => {
            let as_double = matches!(node.kind, Kind::Scalar(crate::tree::Scalar::Number));
            match number.as_i64().filter(|_| !as_double) {
                Some(whole) => CelValue::Int(whole),
                None => CelValue::Float(number.as_f64().unwrap_or(f64::NAN)),
            }
        }
        Value::String(text) => {
            let format = node.bounds.as_ref().and_then(|bounds| bounds.format.as_deref());
            text_to_cel(
                format.filter(|_| matches!(node.kind, Kind::Scalar(crate::tree::Scalar::String))),
                text,
            )
        }
        Value::Array(items) => {
            let any = Schema::any();
            let item_schema = schema.items().unwrap_or(&any);
            CelValue::List(Arc::new(items.iter().map(|item| to_cel(item_schema, item)).collect()))
        }
        Value::Object(map) => {
            let any = Schema::any();
            let is_map = matches!(&node.kind, Kind::Object(object) if object.additional.is_some());
            let entries: HashMap<Key, CelValue> = map
                .iter()
                .map(|(name, value)| {
                    let name = if is_map { name.clone() } else { escape(name) };
                    (name, value)
                })
                .zip(map.keys())
                .map(|((name, value), key)| {
                    (
                        Key::String(Arc::new(name)),
                        to_cel(schema.field(key).unwrap_or(&any), value),
                    )
                })
                .collect();
            CelValue::Map(Map { map: Arc::new(entries) })
        }
    }
}

fn text_to_cel(format: Option<&str>, text: &str) -> CelValue {
    let typed = match format {
        Some("date-time") => DateTime::parse_from_rfc3339(text).ok().map(CelValue::Timestamp),
        Some("date") => DateTime::<FixedOffset>::parse_from_rfc3339(&format!("{text}T00:00:00Z"))
            .ok()
            .map(CelValue::Timestamp),
        Some("duration") => format::go_duration_ns(text).map(|ns| CelValue::Duration(TimeDelta::nanoseconds(ns))),
        Some("byte") => {
            use base64::Engine as _;
            base64::engine::general_purpose::STANDARD
                .decode(text)
                .ok()
                .map(|bytes| CelValue::Bytes(Arc::new(bytes)))
        }
        _ => None,
    };
    typed.unwrap_or_else(|| CelValue::String(Arc::new(text.to_owned())))
}

/// A field name as an identifier of CEL (apiserver v0.35 `pkg/cel/escaping.go`).
fn escape(name: &str) -> String {
    const RESERVED: [&str; 21] = [
        "true",
        "false",
        "null",
        "in",
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
        "while",
    ];
    if RESERVED.contains(&name) {
        return format!("__{name}__");
    }
    if !name.contains("__") && !name.contains(['.', '-', '/', '$']) {
        return name.to_owned();
    }
    name.replace("__", "__underscores__")
        .replace('.', "__dot__")
        .replace('-', "__dash__")
        .replace('/', "__slash__")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubled_signs_do_not_reach_the_parser() {
        let table = [
            ("!!a", Some("a")),
            ("!!!a", Some("!a")),
            ("! ! a", Some(" a")),
            ("a != !!b", Some("a != b")),
            ("'!!' == \"!!\"", Some("'!!' == \"!!\"")),
            ("a - -b", Some("a - -b")),
            ("a--b", Some("a--b")),
            ("--b", None),
            ("a---b", None),
            ("f(--b)", None),
            ("-1 - 2", Some("-1 - 2")),
        ];
        for (source, expected) in table {
            assert_eq!(
                single_signs(source).ok().as_deref().map(str::trim),
                expected.map(str::trim),
                "{source}"
            );
        }
    }
}
