//! The type of an expression's result as far as it shows without values. It never guesses: what it does not know it leaves
//! open.

use kube_cel::cel::common::ast::{CallExpr, Expr, IdedExpr, LiteralValue, operators};

/// Operators and functions whose result is a truth value whatever they are given.
const TRUTHS: [&str; 17] = [
    operators::EQUALS,
    operators::NOT_EQUALS,
    operators::LESS,
    operators::LESS_EQUALS,
    operators::GREATER,
    operators::GREATER_EQUALS,
    operators::LOGICAL_AND,
    operators::LOGICAL_OR,
    operators::LOGICAL_NOT,
    operators::IN,
    "startsWith",
    "endsWith",
    "contains",
    "matches",
    "hasValue",
    "allowed",
    "errored",
];
/// Names whose values are typed by nothing.
const UNTYPED: [&str; 3] = ["object", "oldObject", "params"];

/// The name that cel-go has for the type, where it is certain.
pub(super) fn type_of(expression: &IdedExpr) -> Option<&'static str> {
    match &expression.expr {
        Expr::Literal(literal) => Some(match literal {
            LiteralValue::Boolean(_) => "bool",
            LiteralValue::Bytes(_) => "bytes",
            LiteralValue::Double(_) => "double",
            LiteralValue::Int(_) => "int",
            LiteralValue::Null => "null_type",
            LiteralValue::String(_) => "string",
            LiteralValue::UInt(_) => "uint",
        }),
        Expr::Ident(name) if UNTYPED.contains(&name.as_str()) => Some("dyn"),
        Expr::Select(select) if select.test => Some("bool"),
        Expr::Select(select) => type_of_field(&select.operand, &select.field),
        Expr::Call(call) => type_of_call(call),
        _ => None,
    }
}

fn type_of_field(operand: &IdedExpr, field: &str) -> Option<&'static str> {
    // What stands below the call that asks for fields.
    let operand = match &operand.expr {
        Expr::Call(call) if call.target.is_none() && call.func_name.starts_with('@') => call.args.first()?,
        _ => operand,
    };
    match &operand.expr {
        Expr::Ident(name) if name == "request" => match field {
            "name" | "namespace" | "operation" | "subResource" | "requestSubResource" => Some("string"),
            "dryRun" => Some("bool"),
            _ => None,
        },
        _ => type_of(operand).filter(|of| *of == "dyn"),
    }
}

fn type_of_call(call: &CallExpr) -> Option<&'static str> {
    let argument = |index: usize| call.args.get(index).and_then(type_of);
    match call.func_name.as_str() {
        name if TRUTHS.contains(&name) => Some("bool"),
        "size" => Some("int"),
        "string" | "reason" if call.args.len() < 2 => Some("string"),
        operators::CONDITIONAL => match (argument(1), argument(2)) {
            (Some("dyn"), _) | (_, Some("dyn")) => Some("dyn"),
            (one, other) => one.filter(|of| other == Some(*of)),
        },
        operators::INDEX => argument(0).filter(|of| *of == "dyn"),
        operators::ADD => match (argument(0), argument(1)) {
            (Some("string"), _) | (_, Some("string")) => Some("string"),
            (one, other) => one.filter(|of| other == Some(*of)),
        },
        _ => None,
    }
}
