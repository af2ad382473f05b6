//! What a rule costs, metered while it runs. The interpreter of cel 0.13 copies values at each step, so the length of a rule
//! means little; here each loop, look-up and new value is metered before or when it is made, and a rule that has used up its
//! budget ends at once. Functions that could make large values of small ones are replaced by ones that are metered first.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use cluster_fields::Pattern;
use kube_cel::cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, operators};
use kube_cel::cel::context::VariableResolver;
use kube_cel::cel::extractors::{Arguments, This};
use kube_cel::cel::{Context, ExecutionError, ResolveResult, Value as CelValue};
use serde_json::Value;

/// Units of the largest value that a rule may make: a unit is an element or [`UNIT_BYTES`] of text.
const VALUE_COST_MAX: u64 = 1_000_000;

/// Bytes of text that cost as much as an element.
const UNIT_BYTES: usize = 8;

/// Units for which a pattern is compiled; it takes as long as visiting so many elements.
const PATTERN_COST: u64 = 20_000;

/// Compiled patterns that a thread caches: more than one object's rules have.
const PATTERNS_MAX: usize = 64;

/// Longest precision of a number in `format`, of which an f64 has 17 significant digits.
const PRECISION_MAX: usize = 1000;

// Names of functions that no rule can spell.
const RANGE: &str = "@range";
const STEP: &str = "@step";
const MADE: &str = "@made";
const PAIRS: &str = "@pairs";
const FORMAT: &str = "@format";

/// Functions whose result can be larger than what it is made from, or a copy of it.
const MAKERS: [&str; 19] = [
    "bytes",
    "decode",
    "distinct",
    "encode",
    "find",
    "findAll",
    "flatten",
    "format",
    "join",
    "lowerAscii",
    "quote",
    "replace",
    "reverse",
    "slice",
    "sort",
    "split",
    "string",
    "trim",
    "upperAscii",
];

thread_local! {
    /// The units that are left for the rule that runs on this thread.
    static LEFT: Cell<u64> = const { Cell::new(0) };
    static PATTERNS: RefCell<HashMap<String, Pattern>> = RefCell::new(HashMap::new());
}

/// Thrown, without a message of the panic hook, through the interpreter, which would hide an error behind `||`.
struct Exhausted;

/// Why a rule has no result.
pub(crate) enum Ended {
    /// It used up its budget.
    Exhausted,
    /// The interpreter panicked.
    Broken,
}

/// Runs `rule` within a budget, from which its cost is taken.
pub(crate) fn run(
    budget: &mut u64,
    rule: impl FnOnce() -> ResolveResult,
) -> Result<Result<CelValue, ExecutionError>, Ended> {
    LEFT.set(*budget);
    let outcome = catch_unwind(AssertUnwindSafe(rule));
    *budget = LEFT.replace(0);
    outcome.map_err(|payload: Box<dyn Any + Send>| match payload.downcast::<Exhausted>() {
        Ok(_) => Ended::Exhausted,
        Err(_) => Ended::Broken,
    })
}

pub(crate) fn spend(units: u64) {
    let left = LEFT.get().checked_sub(units);
    LEFT.set(left.unwrap_or(0));
    if left.is_none() {
        resume_unwind(Box::new(Exhausted));
    }
}

/// Meters a value before it is made.
fn spend_for_value(units: u64) {
    spend(if units > VALUE_COST_MAX { u64::MAX } else { units });
}

fn of_text(bytes: usize) -> u64 {
    1 + (bytes / UNIT_BYTES) as u64
}

/// What a JSON value costs to be copied.
pub(crate) fn weight_of_json(value: &Value) -> u64 {
    match value {
        Value::String(text) => of_text(text.len()),
        Value::Array(items) => 1 + items.iter().map(weight_of_json).sum::<u64>(),
        Value::Object(map) => {
            1 + map
                .iter()
                .map(|(key, value)| of_text(key.len()) + weight_of_json(value))
                .sum::<u64>()
        }
        _ => 1,
    }
}

pub(crate) fn weight(value: &CelValue) -> u64 {
    match value {
        CelValue::String(text) => of_text(text.len()),
        CelValue::Bytes(bytes) => of_text(bytes.len()),
        CelValue::List(items) => 1 + items.iter().map(weight).sum::<u64>(),
        CelValue::Map(map) => 1 + map.map.values().map(|value| 2 + weight(value)).sum::<u64>(),
        _ => 1,
    }
}

/// Meters each look-up of the object and its old state.
pub(crate) struct LookUps {
    pub(crate) this: u64,
    pub(crate) old: u64,
}

impl VariableResolver for LookUps {
    fn resolve(&self, variable: &str) -> Option<CelValue> {
        match variable {
            "self" => spend(self.this),
            "oldSelf" => spend(self.old),
            _ => {}
        }
        None
    }
}

/// Adds calls that meter to the rule. Returns how many nodes it has.
pub(crate) fn meter(expression: &mut IdedExpr) -> u64 {
    match &mut expression.expr {
        Expr::Call(call) => {
            let nodes = meter_call(call);
            if call.func_name == operators::ADD && !adds_to_result(call) || MAKERS.contains(&&*call.func_name) {
                wrap(expression, MADE, None);
            }
            nodes
        }
        Expr::Comprehension(comprehension) => meter_loop(comprehension),
        Expr::List(list) => {
            let nodes = list.elements.iter_mut().map(meter).sum::<u64>();
            let plain = |element: &IdedExpr| matches!(element.expr, Expr::Literal(_));
            if !list.elements.iter().all(plain) {
                wrap(expression, MADE, None);
            }
            1 + nodes
        }
        Expr::Map(map) => {
            let nodes = map
                .entries
                .iter_mut()
                .map(|entry| meter_entry(&mut entry.expr))
                .sum::<u64>();
            wrap(expression, MADE, None);
            1 + nodes
        }
        Expr::Struct(object) => {
            let entries = object.entries.iter_mut();
            1 + entries.map(|entry| meter_entry(&mut entry.expr)).sum::<u64>()
        }
        Expr::Select(select) => 1 + meter(&mut select.operand),
        Expr::Ident(_) | Expr::Literal(_) | Expr::Unspecified => 1,
    }
}

fn meter_entry(entry: &mut EntryExpr) -> u64 {
    match entry {
        EntryExpr::StructField(field) => meter(&mut field.value),
        EntryExpr::MapEntry(entry) => meter(&mut entry.key) + meter(&mut entry.value),
    }
}

fn meter_call(call: &mut CallExpr) -> u64 {
    let mut nodes = 1;
    // The interpreter takes a field that may be missing for an error, but an index for what it is.
    if call.func_name == operators::OPT_SELECT {
        operators::OPT_INDEX.clone_into(&mut call.func_name);
    }
    if adds_to_result(call) {
        // What `map` and `filter` gather is metered at each step.
        for argument in &mut call.args {
            nodes += match &mut argument.expr {
                Expr::List(list) => list.elements.iter_mut().map(meter).sum::<u64>(),
                _ => meter(argument),
            };
        }
        return nodes;
    }
    let of_sets = call
        .target
        .as_ref()
        .is_some_and(|target| target.expr == Expr::Ident("sets".to_owned()));
    nodes += call.args.iter_mut().map(meter).sum::<u64>();
    if of_sets {
        call.args.iter_mut().for_each(|argument| wrap(argument, PAIRS, None));
    }
    if let Some(target) = &mut call.target {
        // A bare name may be the first part of a function's name.
        if !matches!(target.expr, Expr::Ident(_)) {
            nodes += meter(target);
        }
        match &*call.func_name {
            "distinct" => wrap(target, PAIRS, None),
            "format" if !matches!(&target.expr, Expr::Ident(name) if name == "format") => wrap(target, FORMAT, None),
            _ => {}
        }
    }
    nodes
}

/// `@result + [x]`, which no rule can spell: the parser's form of `map` and `filter`.
fn adds_to_result(call: &CallExpr) -> bool {
    call.func_name == operators::ADD
        && matches!(call.args.first(), Some(IdedExpr { expr: Expr::Ident(name), .. }) if name.starts_with('@'))
}

fn meter_loop(comprehension: &mut ComprehensionExpr) -> u64 {
    let before = meter(&mut comprehension.iter_range) + meter(&mut comprehension.accu_init);
    let body = meter(&mut comprehension.loop_cond) + meter(&mut comprehension.loop_step);
    let after = meter(&mut comprehension.result);
    let result = Expr::Ident(comprehension.accu_var.clone());
    wrap(&mut comprehension.loop_cond, STEP, Some(result));
    let nodes = LiteralValue::Int(i64::try_from(body).unwrap_or(i64::MAX).into());
    wrap(&mut comprehension.iter_range, RANGE, Some(Expr::Literal(nodes)));
    before + body + after
}

fn wrap(expression: &mut IdedExpr, function: &str, more: Option<Expr>) {
    let inner = std::mem::take(expression);
    let id = inner.id;
    let more = more.map(|expr| IdedExpr { id, expr });
    *expression = IdedExpr {
        id,
        expr: Expr::Call(CallExpr {
            func_name: function.to_owned(),
            target: None,
            args: std::iter::once(inner).chain(more).collect(),
        }),
    };
}

/// Adds what metered rules call, in place of the library's own where that has no limit.
pub(crate) fn register(context: &mut Context<'_>) {
    context.add_function(RANGE, |list: CelValue, nodes: i64| -> ResolveResult {
        spend(weight(&list).saturating_mul(nodes.unsigned_abs()));
        Ok(list)
    });
    context.add_function(STEP, |goes_on: CelValue, result: CelValue| -> ResolveResult {
        spend(weight(&result));
        Ok(goes_on)
    });
    context.add_function(MADE, |value: CelValue| -> ResolveResult {
        spend_for_value(weight(&value));
        Ok(value)
    });
    context.add_function(PAIRS, |list: CelValue| -> ResolveResult {
        spend(weight(&list).saturating_pow(2));
        Ok(list)
    });
    context.add_function(FORMAT, format_text);
    context.add_function("lists.range", range);
    context.add_function("replace", replace);
    context.add_function("join", join);
    context.add_function(
        "matches",
        |This(text): This<Arc<String>>, pattern: Arc<String>| -> ResolveResult {
            Ok(CelValue::Bool(with_pattern("matches", &pattern, |pattern| {
                pattern.matches(&text)
            })?))
        },
    );
    context.add_function(
        "find",
        |This(text): This<Arc<String>>, pattern: Arc<String>| -> ResolveResult {
            let found = with_pattern("find", &pattern, |pattern| pattern.find_all(&text, 1).pop())?;
            Ok(CelValue::String(Arc::new(found.unwrap_or_default())))
        },
    );
    context.add_function("findAll", find_all);
}

/// The text of a `format`, unless it wants an absurd number of digits.
fn format_text(text: CelValue) -> ResolveResult {
    if let CelValue::String(text) = &text {
        for part in text.split("%.").skip(1) {
            let digits = part.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
            if digits
                .parse::<usize>()
                .map_or(!digits.is_empty(), |digits| digits > PRECISION_MAX)
            {
                let why = format!("a precision of {digits} digits, at most {PRECISION_MAX} are allowed");
                return Err(ExecutionError::function_error("format", why));
            }
        }
    }
    Ok(text)
}

/// `lists.range(n)`: the numbers from 0 to n - 1.
fn range(count: i64) -> ResolveResult {
    spend_for_value(u64::try_from(count).unwrap_or(0));
    Ok(CelValue::List(Arc::new((0..count).map(CelValue::Int).collect())))
}

/// `text.replace(old, new)` and `text.replace(old, new, n)`; a negative n means all.
fn replace(This(text): This<Arc<String>>, Arguments(arguments): Arguments) -> ResolveResult {
    let (Some(CelValue::String(old)), Some(CelValue::String(new))) = (arguments.first(), arguments.get(1)) else {
        return Err(ExecutionError::function_error("replace", "expected two texts"));
    };
    let most = match arguments.get(2) {
        Some(CelValue::Int(most)) => usize::try_from(*most).unwrap_or(usize::MAX),
        Some(_) => {
            return Err(ExecutionError::function_error(
                "replace",
                "expected a number of replacements",
            ));
        }
        None => usize::MAX,
    };
    let times = text.matches(old.as_str()).take(most).count();
    spend_for_value(of_text(text.len().saturating_add(times.saturating_mul(new.len()))));
    Ok(CelValue::String(Arc::new(text.replacen(old.as_str(), new, times))))
}

/// `list.join()` and `list.join(separator)` of texts.
fn join(This(list): This<Arc<Vec<CelValue>>>, Arguments(arguments): Arguments) -> ResolveResult {
    let separator = match arguments.first() {
        Some(CelValue::String(separator)) => separator.as_str(),
        Some(_) => return Err(ExecutionError::function_error("join", "expected a text as separator")),
        None => "",
    };
    let parts = list.iter().map(|part| match part {
        CelValue::String(text) => Ok(text.as_str()),
        _ => Err(ExecutionError::function_error("join", "expected a list of texts")),
    });
    let parts = parts.collect::<Result<Vec<_>, _>>()?;
    let texts = parts.iter().map(|part| part.len()).sum::<usize>();
    spend_for_value(of_text(
        texts.saturating_add(separator.len().saturating_mul(parts.len())),
    ));
    Ok(CelValue::String(Arc::new(parts.join(separator))))
}

/// `text.findAll(pattern)` and `text.findAll(pattern, n)`; a negative n means all.
fn find_all(This(text): This<Arc<String>>, Arguments(arguments): Arguments) -> ResolveResult {
    let Some(CelValue::String(pattern)) = arguments.first() else {
        return Err(ExecutionError::function_error("findAll", "expected a pattern"));
    };
    let most = match arguments.get(1) {
        Some(CelValue::Int(most)) => usize::try_from(*most).unwrap_or(usize::MAX),
        _ => usize::MAX,
    };
    let found = with_pattern("findAll", pattern, |pattern| pattern.find_all(&text, most))?;
    let found = found.into_iter().map(|text| CelValue::String(Arc::new(text)));
    Ok(CelValue::List(Arc::new(found.collect())))
}

/// Compiles a pattern once per thread: a loop uses the same one at each step.
fn with_pattern<T>(function: &str, source: &str, act: impl FnOnce(&Pattern) -> T) -> Result<T, ExecutionError> {
    PATTERNS.with_borrow_mut(|patterns| {
        if !patterns.contains_key(source) {
            spend(PATTERN_COST + of_text(source.len()));
            let pattern = Pattern::new(source)
                .map_err(|why| ExecutionError::function_error(function, format!("invalid pattern: {why}")))?;
            if patterns.len() >= PATTERNS_MAX {
                patterns.clear();
            }
            patterns.insert(source.to_owned(), pattern);
        }
        Ok(act(&patterns[source]))
    })
}
