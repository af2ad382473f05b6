//! Texts that are formatted with values that stand beside them (google/cel-go v0.26 `ext/formatting.go`): whether each value
//! is one for its place.

use kube_cel::cel::common::ast::{EntryExpr, Expr, IdedExpr};

use crate::typing::scope::Checked;
use crate::typing::types::Type;

/// What is wrong, and with which value; none: with the whole call.
pub(crate) type Fault = (Option<u64>, String);

/// Checks `text.format([values])`.
pub(crate) fn check(text: &str, values: &[IdedExpr], checked: &Checked<'_>) -> Result<(), Fault> {
    let whole = |words: String| (None, words);
    let (mut rest, mut used) = (text, 0);
    while let Some((_, clause)) = rest.split_once('%') {
        if let Some(after) = clause.strip_prefix('%') {
            rest = after;
            continue;
        }
        if clause.is_empty() {
            return Err(whole("unexpected end of string".to_owned()));
        }
        let value = values
            .get(used)
            .ok_or_else(|| whole(format!("index {used} out of range")))?;
        let broken = |why: String| whole(format!("could not parse formatting clause: {why}"));
        let clause =
            without_precision(clause).map_err(|why| broken(format!("error while parsing precision: {why}")))?;
        let mut chars = clause.chars();
        let kind = chars.next().unwrap_or_default();
        fits(kind, value, checked).map_err(|fault| match fault {
            Misfit::Unknown => broken(format!("unrecognized formatting clause \"{kind}\"")),
            Misfit::Value(id, why) => (Some(id), format!("error during formatting: {why}")),
        })?;
        rest = chars.as_str();
        used += 1;
    }
    if values.len() > used {
        let count = values.len();
        return Err(whole(format!(
            "too many arguments supplied to string.format (expected {used}, got {count})"
        )));
    }
    Ok(())
}

/// The clause behind `.2`, if that is there.
fn without_precision(clause: &str) -> Result<&str, String> {
    let Some(digits) = clause.strip_prefix('.') else {
        return Ok(clause);
    };
    let end = digits
        .find(|c: char| !c.is_ascii_digit())
        .ok_or("could not find end of precision specifier")?;
    let number = &digits[..end];
    let refused =
        |why: &str| format!("error while converting precision to integer: strconv.Atoi: parsing \"{number}\": {why}");
    match number.parse::<i64>() {
        Ok(_) => Ok(&digits[end..]),
        Err(_) if number.is_empty() => Err(refused("invalid syntax")),
        Err(_) => Err(refused("value out of range")),
    }
}

enum Misfit {
    Unknown,
    Value(u64, String),
}

fn fits(kind: char, value: &IdedExpr, checked: &Checked<'_>) -> Result<(), Misfit> {
    let of = checked.type_of(value);
    let is_whole = matches!(of, Type::Int | Type::Uint);
    let (fits, words) = match kind {
        's' => return printable(value, checked),
        'd' => (is_whole, "decimal clause can only be used on integers"),
        'f' => (
            matches!(of, Type::Double | Type::String),
            "fixed-point clause can only be used on doubles",
        ),
        'e' => (
            matches!(of, Type::Double | Type::String),
            "scientific clause can only be used on doubles",
        ),
        'b' => (
            is_whole || of == Type::Bool,
            "only integers and bools can be formatted as binary",
        ),
        'x' | 'X' => (
            is_whole || matches!(of, Type::String | Type::Bytes),
            "only integers, byte buffers, and strings can be formatted as hex",
        ),
        'o' => (is_whole, "octal clause can only be used on integers"),
        _ => return Err(Misfit::Unknown),
    };
    if fits || of == Type::Dyn {
        return Ok(());
    }
    Err(Misfit::Value(value.id, format!("{words}, was given {}", short(&of))))
}

/// The name of a type without those it is made of.
fn short(of: &Type<'_>) -> String {
    let name = of.name();
    name.split('(').next().unwrap_or_default().to_owned()
}

fn printable(value: &IdedExpr, checked: &Checked<'_>) -> Result<(), Misfit> {
    let of = checked.type_of(value);
    if matches!(of, Type::Opaque(..) | Type::Object(_)) {
        let words = "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps";
        return Err(Misfit::Value(value.id, format!("{words}, was given {}", short(&of))));
    }
    match &value.expr {
        Expr::List(list) => list.elements.iter().try_for_each(|part| printable(part, checked)),
        Expr::Map(map) => map.entries.iter().try_for_each(|entry| match &entry.expr {
            EntryExpr::MapEntry(pair) => {
                printable(&pair.key, checked)?;
                printable(&pair.value, checked)
            }
            EntryExpr::StructField(_) => Ok(()),
        }),
        _ => Ok(()),
    }
}
