//! Rules of a schema that is raw JSON: compiled, and evaluated on a value.

use std::collections::BTreeMap;
use std::sync::Arc;

use cluster_cel::{
    CompileMode, CostTotal, Evaluation, NewRules, OldValue, Rule, RulesPlace, ValueSchema, Work, compile,
};
use cluster_fields::{FieldError, FieldPath, ValidationResult};
use serde_json::Value;

/// The rules of a new schema.
pub(crate) fn compile_new(schema: &Value) -> Result<Vec<Arc<Rule>>, Vec<FieldError>> {
    let mut total = CostTotal::default();
    compile_with(
        schema,
        CompileMode::New(NewRules {
            root: false,
            times: Some(1),
            unchanged: false,
            total: &mut total,
        }),
    )
}

/// The rules of a stored schema.
pub(crate) fn compile_stored(schema: &Value) -> Vec<Arc<Rule>> {
    compile_with(schema, CompileMode::Stored(&mut Work::of_definition())).expect("what was stored can be parsed")
}

fn compile_with(schema: &Value, mode: CompileMode<'_>) -> Result<Vec<Arc<Rule>>, Vec<FieldError>> {
    let json = schema.as_object().expect("a schema");
    let place = RulesPlace {
        uncorrelated: None,
        mode,
    };
    let mut errors = Vec::new();
    let rules = compile(json, &FieldPath::Root.field("schema"), place, &mut errors);
    match errors.is_empty() {
        true => Ok(rules.into_iter().map(Arc::new).collect()),
        false => Err(errors),
    }
}

/// The errors of the stored rules of a schema for a value.
pub(crate) fn evaluate(schema: &Value, value: &Value) -> Vec<FieldError> {
    let rules = compile_stored(schema);
    let mut result = ValidationResult::default();
    let typed = JsonSchema::new(schema);
    Evaluation::new(&mut result).run(&rules, &typed, value, OldValue::default(), &FieldPath::Root);
    result.errors
}

/// The texts of errors, joined.
pub(crate) fn words(errors: &[FieldError]) -> String {
    let words: Vec<String> = errors.iter().map(ToString::to_string).collect();
    words.join("; ")
}

struct JsonSchema {
    type_name: &'static str,
    format: Option<String>,
    fields: BTreeMap<String, JsonSchema>,
    additional: Option<Box<JsonSchema>>,
    items: Option<Box<JsonSchema>>,
}

impl JsonSchema {
    fn new(json: &Value) -> Self {
        let names = ["object", "array", "string", "integer", "number", "boolean"];
        let inner = |name: &str| json.get(name).map(|inner| Box::new(Self::new(inner)));
        let fields = json["properties"].as_object().into_iter().flatten();
        Self {
            type_name: names.into_iter().find(|name| json["type"] == *name).unwrap_or_default(),
            format: json["format"].as_str().map(str::to_owned),
            fields: fields.map(|(name, field)| (name.clone(), Self::new(field))).collect(),
            additional: inner("additionalProperties"),
            items: inner("items"),
        }
    }
}

impl ValueSchema for JsonSchema {
    fn type_name(&self) -> &'static str {
        self.type_name
    }

    fn text_format(&self) -> Option<&str> {
        self.format.as_deref()
    }

    fn is_map(&self) -> bool {
        self.additional.is_some()
    }

    fn field(&self, name: &str) -> Option<&dyn ValueSchema> {
        let field = self.fields.get(name).or(self.additional.as_deref())?;
        Some(field)
    }

    fn items(&self) -> Option<&dyn ValueSchema> {
        let items = self.items.as_deref()?;
        Some(items)
    }
}
