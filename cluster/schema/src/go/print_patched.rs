//! An object as Go prints it: fields of structs in the order in which they are declared, but sorted where a JSON patch or a
//! merge patch has taken an object apart (github.com/evanphx/json-patch). For messages alone: JSON itself has no order.

use std::fmt::Write;

use serde_json::{Map, Value};

use crate::tree::schema::Schema;

impl Schema {
    /// The object; `apart` has the fields through which a patch went, each with those below it.
    pub fn print_patched(&self, object: &Value, apart: &Value) -> String {
        let mut text = String::new();
        print(Some(self), object, Some(apart), &mut text);
        text
    }
}

/// The places that a JSON patch takes apart: everything above what its operations are about.
pub fn taken_apart(operations: &Value) -> Value {
    let mut apart = Value::Object(Map::new());
    let operations = operations.as_array().into_iter().flatten();
    let pointers = operations.flat_map(|operation| [&operation["path"], &operation["from"]]);
    for pointer in pointers.filter_map(Value::as_str) {
        let tokens: Vec<&str> = pointer.split('/').skip(1).collect();
        take_apart(&mut apart, &tokens);
    }
    apart
}

fn take_apart(here: &mut Value, tokens: &[&str]) {
    // What an operation has put there is no struct any more.
    let Some(((first, rest), fields)) = tokens.split_first().zip(here.as_object_mut()) else {
        return;
    };
    let field = fields
        .entry(unescaped(first))
        .or_insert_with(|| Value::Object(Map::new()));
    match rest {
        [] => *field = Value::Bool(true),
        rest => take_apart(field, rest),
    }
}

fn unescaped(token: &str) -> String {
    token.replace("~1", "/").replace("~0", "~")
}

/// `apart`: an object has the fields that a patch went through, anything else is what it has put there.
fn print(schema: Option<&Schema>, value: &Value, apart: Option<&Value>, text: &mut String) {
    let whole = apart.filter(|apart| !apart.is_object());
    match value {
        Value::Object(fields) => {
            let mut sorted: Vec<(&String, &Value)> = fields.iter().collect();
            let go = schema.and_then(|schema| schema.node().go.as_ref());
            if let Some(go) = go.filter(|_| apart.is_none()) {
                sorted.sort_by_key(|(name, _)| go.field(name).map_or(usize::MAX, |field| field.position));
            }
            text.push('{');
            for (index, (name, value)) in sorted.into_iter().enumerate() {
                let comma = if index == 0 { "" } else { "," };
                let _ = write!(text, "{comma}{}:", Value::from(name.as_str()));
                let apart = whole.or_else(|| apart?.get(name));
                print(schema.and_then(|schema| schema.field(name)), value, apart, text);
            }
            text.push('}');
        }
        Value::Array(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                text.push_str(if index == 0 { "" } else { "," });
                let apart = whole.or_else(|| apart?.get(index.to_string()));
                print(schema.and_then(Schema::items), item, apart, text);
            }
            text.push(']');
        }
        other => {
            let _ = write!(text, "{other}");
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_json_patch_takes_apart_what_is_above_its_places() {
        let operations =
            json!([{"op": "add", "path": "/a/b~1c/0/d", "value": 1}, {"op": "copy", "from": "/e/f", "path": "/g"}, {}]);
        let apart = json!({"a": {"b/c": {"0": {"d": true}}}, "e": {"f": true}, "g": true});
        assert_eq!(taken_apart(&operations), apart);
    }
}
