//! Columns that a custom resource declares (kubernetes/kubernetes v1.35
//! staging/src/k8s.io/apiextensions-apiserver/pkg/registry/customresource/tableconvertor).

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::cell::{self, UNKNOWN};
use crate::{Body, Column, JsonPath, PathError, Printer, description, human_duration};

/// One entry of `additionalPrinterColumns`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CustomColumn {
    /// The heading.
    pub name: String,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub type_: String,
    /// An OpenAPI format; may be empty.
    pub format: String,
    /// What the column shows; may be empty.
    pub description: String,
    /// 0 is always shown, more only with `-o wide`.
    pub priority: i32,
    /// Where its value is; see [`JsonPath`].
    pub json_path: String,
}

#[derive(Clone, Debug)]
pub(crate) struct Cell {
    path: JsonPath,
    type_: String,
}

pub(crate) fn printer(columns: &[CustomColumn]) -> Result<Printer, PathError> {
    let age = [CustomColumn {
        name: "Age".to_owned(),
        type_: "date".to_owned(),
        json_path: ".metadata.creationTimestamp".to_owned(),
        description: description::common("Age").to_owned(),
        ..CustomColumn::default()
    }];
    let columns = if columns.is_empty() { &age } else { columns };
    let mut headings = vec![Column::new("Name", "string", 0)];
    let mut cells = Vec::new();
    for CustomColumn {
        name,
        type_,
        format,
        description,
        priority,
        json_path,
    } in columns
    {
        cells.push(Cell {
            path: JsonPath::parse(json_path)?,
            type_: type_.clone(),
        });
        headings.push(Column {
            name: name.clone(),
            type_: type_.clone(),
            format: format.clone(),
            description: description.clone(),
            priority: *priority,
        });
    }
    Ok(Printer {
        columns: headings,
        body: Body::Custom(cells),
    })
}

pub(crate) fn cells(cells: &[Cell], object: &Value, now: Timestamp) -> Vec<Value> {
    let own = cells.iter().map(|cell| {
        let found = cell.path.find(object);
        match (found.first(), cell.type_.as_str()) {
            (None, _) => Value::Null,
            (Some(_), "string") => json!(cell::join(found.iter().map(|value| printed(value)), " ", "")),
            (Some(first), type_) => typed(first, type_, now),
        }
    });
    std::iter::once(cell::name(object)).chain(own).collect()
}

fn printed(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "<nil>".to_owned(),
        other => other.to_string(),
    }
}

fn typed(value: &Value, type_: &str, now: Timestamp) -> Value {
    match (type_, value) {
        ("integer", Value::Number(number)) => {
            let whole = number.as_i64().map(Value::from);
            // A fraction is cut off, as Go converts it.
            whole.unwrap_or_else(|| number.as_f64().map_or(Value::Null, |number| Value::from(number as i64)))
        }
        ("number", Value::Number(_)) | ("boolean", Value::Bool(_)) => value.clone(),
        ("date", Value::String(text)) => match text.parse::<Timestamp>() {
            Ok(then) => json!(human_duration(cell::seconds(then, now))),
            Err(_) if text.is_empty() => json!(UNKNOWN),
            Err(_) => json!("<invalid>"),
        },
        _ => Value::Null,
    }
}
