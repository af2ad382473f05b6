//! Checks of literals beside their types (google/cel-go v0.26 `cel/validator.go`): durations, times and patterns that cannot be
//! parsed, lists and maps of mixed values.

use std::ops::RangeInclusive;

use chrono::DateTime;
use cluster_fields::{formats, pattern_syntax_error};
use kube_cel::cel::common::ast::{CallExpr, EntryExpr, Expr, IdedExpr, ListExpr, LiteralValue, MapExpr};

use crate::checking::format_rules;
use crate::syntax::faults::Faults;
use crate::syntax::nodes::each_part;
use crate::syntax::parse::Parsed;
use crate::typing::scope::Checked;
use crate::typing::types::Type;

/// The seconds of all times that there are: of years 1 to 9999.
const TIMES: RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;

/// The function whose lists may mix values.
const MIXES: &str = "format";

/// Checks all literals of an expression that is valid otherwise.
pub(crate) fn check(parsed: &Parsed, checked: &Checked<'_>, faults: &mut Faults) {
    let mut checker = Checker {
        parsed,
        checked,
        faults,
    };
    checker.walk(&parsed.tree, false);
}

struct Checker<'j, 's> {
    parsed: &'j Parsed,
    checked: &'j Checked<'s>,
    faults: &'j mut Faults,
}

impl<'s> Checker<'_, 's> {
    fn fault(&mut self, id: u64, words: String) {
        self.faults.add(self.parsed.nodes.place(id), words);
    }

    fn walk(&mut self, node: &IdedExpr, may_mix: bool) {
        let mut may_mix_below = may_mix;
        match &node.expr {
            Expr::Call(call) => {
                may_mix_below |= call.func_name == MIXES;
                if let Some(argument) = call.args.first()
                    && let Expr::Literal(literal) = &argument.expr
                    && is_broken(&call.func_name, literal)
                {
                    self.fault(argument.id, format!("invalid {} argument", call.func_name));
                }
                self.formatted(node, call);
            }
            Expr::List(list) if !may_mix => self.list(list),
            Expr::Map(map) if !may_mix => self.map(map),
            _ => {}
        }
        let mut parts = Vec::new();
        each_part(&node.expr, &mut |part| parts.push(part));
        for part in parts {
            self.walk(part, may_mix_below);
        }
    }

    fn formatted(&mut self, node: &IdedExpr, call: &CallExpr) {
        if call.func_name == MIXES
            && let Some(Expr::Literal(LiteralValue::String(text))) = call.target.as_deref().map(|target| &target.expr)
            && let [
                IdedExpr {
                    expr: Expr::List(list), ..
                },
            ] = call.args.as_slice()
            && let Err((at, words)) = format_rules::check(text.inner(), &list.elements, self.checked)
        {
            self.fault(at.unwrap_or(node.id), words);
        }
    }

    fn type_of(&self, node: &IdedExpr, is_optional: bool) -> Type<'s> {
        let of = self.checked.type_of(node);
        match of.unwrap_optional().filter(|_| is_optional) {
            Some(inner) => inner,
            None => of,
        }
    }

    /// Reports a value whose type differs from those before it; false if there is one.
    fn same(&mut self, wanted: &Type<'s>, node: &IdedExpr, is_optional: bool) -> bool {
        let found = self.type_of(node, is_optional);
        if found != *wanted {
            self.fault(node.id, format!("expected type '{wanted}' but found '{found}'"));
        }
        found == *wanted
    }

    fn list(&mut self, list: &ListExpr) {
        let is_optional = |index: usize| list.optional_indices.contains(&index);
        let Some(first) = list.elements.first() else { return };
        let wanted = self.type_of(first, is_optional(0));
        for (index, element) in list.elements.iter().enumerate().skip(1) {
            if !self.same(&wanted, element, is_optional(index)) {
                return;
            }
        }
    }

    fn map(&mut self, map: &MapExpr) {
        let mut wanted: Option<(Type<'s>, Type<'s>)> = None;
        for entry in &map.entries {
            let EntryExpr::MapEntry(pair) = &entry.expr else {
                continue;
            };
            match &wanted {
                None => {
                    let key = self.type_of(&pair.key, false);
                    wanted = Some((key, self.type_of(&pair.value, pair.optional)));
                }
                Some((key, value)) => {
                    self.same(key, &pair.key, false);
                    self.same(value, &pair.value, pair.optional);
                }
            }
        }
    }
}

/// The function makes nothing of such a value.
fn is_broken(function: &str, literal: &LiteralValue) -> bool {
    match (function, literal) {
        ("duration", LiteralValue::String(text)) => formats::go_duration_ns(text.inner()).is_none(),
        // There is an overload for whole numbers, which has no implementation.
        ("duration", _) => true,
        ("timestamp", LiteralValue::String(text)) => {
            let time = DateTime::parse_from_rfc3339(text.inner());
            let is_spelled = !text.inner().contains(['t', 'z', ' ']);
            !(is_spelled && time.is_ok_and(|time| TIMES.contains(&time.timestamp())))
        }
        ("timestamp", LiteralValue::Int(seconds)) => !TIMES.contains(seconds.inner()),
        ("timestamp", _) => true,
        ("matches", LiteralValue::String(text)) => pattern_syntax_error(text.inner()).is_some(),
        _ => false,
    }
}

/// A conversion of a literal that cannot be converted, in the words of cel-go where it makes a program of an expression
/// (`interpreter/decorators.go`).
pub(crate) fn conversion_fault(node: &IdedExpr) -> Option<String> {
    let mut fault = None;
    each_part(&node.expr, &mut |part| {
        if fault.is_none() {
            fault = conversion_fault(part);
        }
    });
    if let Expr::Call(call) = &node.expr
        && let Some(text) = pattern_of(call)
    {
        return fault.or_else(|| pattern_syntax_error(text));
    }
    match &node.expr {
        Expr::Call(call) if call.target.is_none() => match call.args.as_slice() {
            [
                IdedExpr {
                    expr: Expr::Literal(literal),
                    ..
                },
            ] => fault.or_else(|| not_converted(&call.func_name, literal)),
            _ => fault,
        },
        _ => fault,
    }
}

fn not_converted(function: &str, literal: &LiteralValue) -> Option<String> {
    let converts = match (function, literal) {
        ("int", LiteralValue::String(text)) => text.inner().parse::<i64>().is_ok(),
        ("uint", LiteralValue::String(text)) => {
            let digits = text.inner();
            digits.starts_with(|c: char| c.is_ascii_digit()) && digits.parse::<u64>().is_ok()
        }
        // Go reads more than Rust does.
        ("double", LiteralValue::String(text)) => {
            let text = text.inner().trim_start_matches(['+', '-']);
            let is_finite = || text.parse::<f64>().map_or(true, f64::is_finite);
            match text.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
                true => is_finite(),
                false => text.starts_with(['i', 'I', 'n', 'N']),
            }
        }
        ("bool", LiteralValue::String(text)) => {
            let known = ["1", "t", "true", "TRUE", "True", "0", "f", "false", "FALSE", "False"];
            known.contains(&text.inner())
        }
        ("int", LiteralValue::UInt(number)) if i64::try_from(*number.inner()).is_err() => {
            return Some("integer overflow".to_owned());
        }
        ("int", LiteralValue::Double(number)) if number.inner().abs() >= i64::MAX as f64 => {
            return Some("integer overflow".to_owned());
        }
        ("uint", LiteralValue::Double(number)) if !(0.0..u64::MAX as f64).contains(number.inner()) => {
            return Some("unsigned integer overflow".to_owned());
        }
        ("uint", LiteralValue::Int(number)) if *number.inner() < 0 => {
            return Some("unsigned integer overflow".to_owned());
        }
        ("string", LiteralValue::Bytes(bytes)) if std::str::from_utf8(bytes.inner()).is_err() => {
            return Some("invalid UTF-8 in bytes, cannot convert to string".to_owned());
        }
        _ => true,
    };
    (!converts).then(|| format!("type conversion error from 'string' to '{function}'"))
}

/// The pattern that is part of a call.
fn pattern_of(call: &CallExpr) -> Option<&str> {
    let pattern = match (call.func_name.as_str(), &call.target, call.args.as_slice()) {
        ("matches", None, [_, pattern]) | ("find" | "findAll", Some(_), [pattern, ..]) => pattern,
        _ => return None,
    };
    match &pattern.expr {
        Expr::Literal(LiteralValue::String(text)) => Some(text.inner()),
        _ => None,
    }
}
