//! Rules in CEL along a field tree: which rules hold for which value, and which old value belongs to it. Rules are
//! evaluated by `cluster_cel`, one value at a time.

use cluster_cel::{Evaluation, OldValue, ValueSchema};
use cluster_fields::{FieldPath, ValidationResult};
use serde_json::Value;

use crate::tree::old_items::OldItems;
use crate::tree::schema::{Kind, MapType, Scalar, Schema};

/// Runs all rules of the tree on a value that fits it.
pub(crate) fn evaluate(schema: &Schema, value: &Value, old: Option<&Value>, result: &mut ValidationResult) {
    let before = OldValue {
        value: old,
        unchanged: false,
    };
    walk(&mut Evaluation::new(result), schema, value, before, &FieldPath::Root);
}

fn walk(evaluation: &mut Evaluation<'_>, schema: &Schema, value: &Value, before: OldValue<'_>, path: &FieldPath<'_>) {
    let node = schema.node();
    if !node.has_rules || value.is_null() || evaluation.is_full() {
        return;
    }
    evaluation.run(&node.rules, schema, value, before, path);
    for part in node.bounds.iter().flat_map(|bounds| &bounds.all_of) {
        walk(evaluation, part, value, before, path);
    }
    match (&node.kind, value) {
        (Kind::Object(object), Value::Object(map)) => {
            let old = before.value.filter(|_| object.map_type == MapType::Granular);
            let unchanged = before.is_unchanged(value);
            for (key, child) in map {
                let of_part = || OldValue {
                    value: old.and_then(|old| old.get(key)),
                    unchanged,
                };
                if let Some(field) = object.fields.get(&**key) {
                    walk(evaluation, field, child, of_part(), &path.field(key));
                } else if let Some(field) = &object.additional {
                    walk(evaluation, field, child, of_part(), &path.key(key));
                }
            }
        }
        (Kind::List(list), Value::Array(items)) => {
            let old = OldItems::new(&list.list_type, before.value);
            let unchanged = before.is_unchanged(value);
            for (index, item) in items.iter().enumerate() {
                let before = OldValue {
                    value: old.of(item),
                    unchanged,
                };
                walk(evaluation, &list.items, item, before, &path.index(index));
            }
        }
        _ => {}
    }
}

impl ValueSchema for Schema {
    fn type_name(&self) -> &'static str {
        match self.kind() {
            Kind::Object(_) => "object",
            Kind::List(_) => "array",
            Kind::Scalar(Scalar::String | Scalar::Quantity | Scalar::Time | Scalar::MicroTime | Scalar::Bytes) => {
                "string"
            }
            Kind::Scalar(Scalar::Integer) => "integer",
            Kind::Scalar(Scalar::Number) => "number",
            Kind::Scalar(Scalar::Boolean) => "boolean",
            Kind::Scalar(Scalar::IntOrString) | Kind::Any => "",
        }
    }

    fn text_format(&self) -> Option<&str> {
        let bounds = self.node().bounds.as_ref()?;
        let is_text = matches!(self.kind(), Kind::Scalar(Scalar::String));
        bounds.format.as_deref().filter(|_| is_text)
    }

    fn is_map(&self) -> bool {
        matches!(self.kind(), Kind::Object(object) if object.additional.is_some())
    }

    fn field(&self, name: &str) -> Option<&dyn ValueSchema> {
        Schema::field(self, name).map(|field| field as &dyn ValueSchema)
    }

    fn items(&self) -> Option<&dyn ValueSchema> {
        Schema::items(self).map(|items| items as &dyn ValueSchema)
    }
}
