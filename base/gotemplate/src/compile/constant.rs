//! Literals as arguments: which value they are for a parameter of some type, or why they are none.

use crate::sprig::{DURATION, duration};
use crate::syntax::{Constant, NodeId, NodeKind, Number, Tree};
use crate::value::{Type, Value};

/// The value of a literal where no type is required.
pub(super) fn ideal(constant: &Constant) -> Result<Value, String> {
    match constant {
        Constant::Bool(value) => Ok(Value::Bool(*value)),
        Constant::Str { text, .. } => Ok(Value::Str(text.clone())),
        Constant::Number(number) => ideal_number(number),
    }
}

fn ideal_number(number: &Number) -> Result<Value, String> {
    if let Some((real, imaginary)) = number.complex {
        return Ok(Value::Complex(real, imaginary));
    }
    let text = &number.text;
    let looks_like_float = !is_hex_int(text) && !text.starts_with('\'') && text.contains(['.', 'e', 'E', 'p', 'P']);
    match number.float {
        Some(float) if looks_like_float => Ok(Value::Float(float)),
        _ => number
            .int
            .map(Value::int)
            .ok_or_else(|| format!("{text} overflows int")),
    }
}

fn is_hex_int(text: &str) -> bool {
    text.len() > 2 && (text.starts_with("0x") || text.starts_with("0X")) && !text.contains(['p', 'P'])
}

/// The value of a literal, or of nil, for a parameter.
pub(crate) fn for_type(tree: &Tree, id: NodeId, wanted: &Type) -> Result<Value, String> {
    let constant = match &tree.node(id).kind {
        NodeKind::Constant(constant) => constant,
        _ if wanted.can_be_nil() => return Ok(wanted.zero()),
        _ => return Err(format!("cannot assign nil to {wanted}")),
    };
    let number = match constant {
        Constant::Number(number) => Some(number),
        _ => None,
    };
    let (value, name) = match wanted {
        Type::Any | Type::Reflect => return ideal(constant),
        Type::Bool => match constant {
            Constant::Bool(value) => (Some(Value::Bool(*value)), "bool"),
            _ => (None, "bool"),
        },
        Type::Str => match constant {
            Constant::Str { text, .. } => (Some(Value::Str(text.clone())), "string"),
            _ => (None, "string"),
        },
        Type::Int(kind) => {
            let int = number.and_then(|number| number.int);
            (int.map(|int| Value::Int(*kind, int)), "integer")
        }
        Type::Uint(kind) => {
            let uint = number.and_then(|number| number.uint);
            (uint.map(|uint| Value::Uint(*kind, uint)), "unsigned integer")
        }
        Type::Float => {
            let float = number.and_then(|number| number.float);
            (float.map(Value::Float), "float")
        }
        Type::Named(name) if *name == DURATION => {
            let int = number.and_then(|number| number.int);
            (int.map(duration), "integer")
        }
        Type::Bytes | Type::List(_) | Type::Map(_) | Type::Named(_) => {
            return Err(format!("can't handle {} for arg of type {wanted}", tree.write(id)));
        }
    };
    value.ok_or_else(|| format!("expected {name}; found {}", tree.write(id)))
}
