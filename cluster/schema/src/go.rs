//! How Go's types hold the objects of built-in kinds: what a field is called there, which fields are written although they
//! are empty, and which are left out. It makes objects look as Kubernetes writes them once it has read them.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::sync::{Arc, OnceLock};

use base64::Engine as _;
use serde_json::{Map, Value};

use crate::tree::{Kind, Scalar, Schema};

/// The package in which what all objects have in common is declared.
const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

/// A struct of Go.
#[derive(Debug)]
pub(crate) struct GoStruct {
    /// Its name without its package: `ServicePort`.
    pub(crate) name: Box<str>,
    /// Sorted by name.
    fields: Vec<GoField>,
    /// Places of those that are always written.
    always: Vec<usize>,
    /// Those of them that are structs with fields, without the status: an object that nobody has said anything of has none.
    structs: Vec<usize>,
}

/// A field of a struct.
#[derive(Clone, Debug)]
pub(crate) struct GoField {
    /// As JSON has it.
    pub(crate) name: Box<str>,
    /// As Go prints it: `[]v1.ServicePort`.
    pub(crate) type_name: Box<str>,
    pub(crate) written: Written,
    /// Where it is declared among the others.
    pub(crate) position: usize,
}

impl GoField {
    fn is_collection(&self) -> bool {
        self.type_name.starts_with("[]") || self.type_name.starts_with("map[")
    }
}

/// When Go writes a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    Always,
    /// Unless it points nowhere.
    UnlessNull,
    /// Unless it is the empty text, zero, false, or holds nothing.
    UnlessEmpty,
}

impl GoStruct {
    pub(crate) fn field(&self, name: &str) -> Option<&GoField> {
        let place = self.fields.binary_search_by(|field| (*field.name).cmp(name)).ok()?;
        self.fields.get(place)
    }

    fn structs(&self) -> impl Iterator<Item = &GoField> {
        self.structs.iter().filter_map(|place| self.fields.get(*place))
    }

    pub(crate) fn always(&self) -> impl Iterator<Item = &GoField> {
        self.always.iter().filter_map(|place| self.fields.get(*place))
    }
}

/// Name in JSON, type, and what stands behind the name in the tag.
type Declared = (String, String, String);

/// Fields of all structs in the order in which they are declared, by the name of their definition.
fn declared() -> &'static BTreeMap<String, Vec<Declared>> {
    static TABLE: OnceLock<BTreeMap<String, Vec<Declared>>> = OnceLock::new();
    TABLE.get_or_init(|| {
        let mut bytes = Vec::new();
        let compressed: &[u8] = include_bytes!("../data/go_types.json.gz");
        flate2::read::GzDecoder::new(compressed)
            .read_to_end(&mut bytes)
            .expect("a committed table, read by a test of this crate");
        serde_json::from_slice(&bytes).expect("a committed table, read by a test of this crate")
    })
}

/// The struct behind a definition whose fields have these schemas; none for what is no struct.
pub(crate) fn of_definition(definition: &str, fields: &BTreeMap<Box<str>, Schema>) -> Option<Arc<GoStruct>> {
    let declared = declared().get(definition)?;
    let made = declared
        .iter()
        .enumerate()
        .map(|(position, (name, type_name, options))| GoField {
            name: name.as_str().into(),
            type_name: type_name.as_str().into(),
            written: written(type_name, options, fields.get(name.as_str())),
            position,
        });
    let mut made: Vec<GoField> = made.collect();
    made.sort_by(|one, other| one.name.cmp(&other.name));
    let is_always = |field: &GoField| field.written == Written::Always && fields.contains_key(&field.name);
    let is_struct = |field: &GoField| {
        let schema = fields.get(&field.name).map(Schema::kind);
        matches!(schema, Some(Kind::Object(object)) if object.additional.is_none() && !object.fields.is_empty())
            && !field.type_name.starts_with('*')
            && &*field.name != "status"
    };
    let places = |chosen: &dyn Fn(&GoField) -> bool| {
        let fields = made.iter().enumerate();
        fields
            .filter(|(_, field)| chosen(field))
            .map(|(place, _)| place)
            .collect()
    };
    Some(Arc::new(GoStruct {
        name: definition.rsplit('.').next().unwrap_or(definition).into(),
        always: places(&is_always),
        structs: places(&|field| is_always(field) && is_struct(field)),
        fields: made,
    }))
}

/// Types of fields in which an empty list says something that its absence does not: no managers is the wish to forget them,
/// and no policies are refused, where none at all are the default ones (`copyHPAScalingRules` of Kubernetes v1.35
/// `pkg/apis/autoscaling/v2/defaults.go`). Other defaults ask for the length, or fill the field when it is read from the
/// store, which does not know of it any more (`SetDefaults_NodeStatus`).
const KEPT_EMPTY: [&str; 2] = ["[]v1.ManagedFieldsEntry", "[]v2.HPAScalingPolicy"];

fn written(type_name: &str, options: &str, schema: Option<&Schema>) -> Written {
    let is_struct = || {
        schema.is_some_and(|schema| match schema.kind() {
            Kind::Object(object) => object.additional.is_none(),
            Kind::Scalar(scalar) => matches!(
                scalar,
                Scalar::IntOrString | Scalar::Quantity | Scalar::Time | Scalar::MicroTime
            ),
            Kind::Any => true,
            Kind::List(_) => false,
        })
    };
    if KEPT_EMPTY.contains(&type_name)
        || options.contains("omitzero")
        || type_name.starts_with('*') && options.contains("omitempty")
    {
        Written::UnlessNull
    } else if !options.contains("omitempty") || !type_name.starts_with(['[', 'm']) && is_struct() {
        Written::Always
    } else {
        Written::UnlessEmpty
    }
}

/// The same tree as Go's types have it: what is null in a map or a list is something empty there.
pub(crate) fn marked(schema: &Schema) -> Schema {
    let mut node = schema.node().clone();
    node.of_go = true;
    match &mut node.kind {
        Kind::Object(object) => {
            object.fields.values_mut().for_each(|field| *field = marked(field));
            object.additional = object.additional.as_ref().map(marked);
        }
        Kind::List(list) => list.items = marked(&list.items),
        Kind::Any | Kind::Scalar(_) => {}
    }
    Schema::new(node)
}

/// The metadata of objects, with its Go type and those inside it.
pub(crate) fn with_types(schema: &Schema, definition: &str) -> Schema {
    let mut node = schema.node().clone();
    if let Kind::Object(object) = &mut node.kind {
        for (name, inside) in [
            ("ownerReferences", "OwnerReference"),
            ("managedFields", "ManagedFieldsEntry"),
        ] {
            let Some(field) = object.fields.get_mut(name) else {
                continue;
            };
            let mut list = field.node().clone();
            if let Kind::List(list) = &mut list.kind {
                list.items = with_types(&list.items, &format!("{META}.{inside}"));
            }
            *field = Schema::new(list);
        }
        node.go = of_definition(definition, &object.fields);
    }
    Schema::new(node)
}

/// Whether Go leaves the value out where it leaves out what is empty.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(truth) => !truth,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

/// Drops the fields that Go does not write, and makes structs that are always there.
pub(crate) fn drop_unwritten(go: &GoStruct, fields: &mut Map<String, Value>) {
    for field in go.structs() {
        let value = fields.entry(&*field.name).or_insert(Value::Null);
        if value.is_null() {
            *value = Value::Object(Map::new());
        }
    }
    fields.retain(|name, value| match go.field(name).map(|field| field.written) {
        None => true,
        Some(Written::Always | Written::UnlessNull) => !value.is_null(),
        Some(Written::UnlessEmpty) => !is_empty(value),
    });
}

/// Bytes may be sent as a list of numbers.
pub(crate) fn bytes_of(items: &[Value]) -> Option<String> {
    let bytes: Option<Vec<u8>> = items
        .iter()
        .map(|item| item.as_u64().and_then(|byte| byte.try_into().ok()))
        .collect();
    Some(base64::engine::general_purpose::STANDARD.encode(bytes?))
}

/// What Go has in an item or entry that is null.
pub(crate) fn zero_item(schema: &Schema) -> Option<Value> {
    match schema.kind() {
        Kind::Scalar(Scalar::Bytes) | Kind::Any => None,
        Kind::List(_) => None,
        Kind::Object(object) if object.additional.is_some() => None,
        _ => Some(zero(schema, "")),
    }
}

/// What Go writes for a field that nobody set.
fn zero(schema: &Schema, type_name: &str) -> Value {
    if type_name.starts_with(['*', '[']) || type_name.starts_with("map[") {
        return Value::Null;
    }
    match schema.kind() {
        Kind::Object(object) if object.additional.is_none() => {
            let mut value = Value::Object(Map::new());
            schema.fill_zeros(&mut value);
            value
        }
        Kind::Scalar(Scalar::String) => "".into(),
        Kind::Scalar(Scalar::Integer | Scalar::Number | Scalar::IntOrString) => 0.into(),
        Kind::Scalar(Scalar::Boolean) => false.into(),
        Kind::Scalar(Scalar::Quantity) => "0".into(),
        _ => Value::Null,
    }
}

impl Schema {
    /// Whether it is that of a struct of Go.
    pub fn is_of_go(&self) -> bool {
        self.node().go.is_some()
    }

    /// Writes what Go writes although it is empty; for kinds that are no structs of Go nothing.
    pub fn fill_zeros(&self, value: &mut Value) {
        fill_zeros(self, value, false);
    }

    /// Makes an object what comes back when it is stored: the store keeps no list or map that is empty apart from one that
    /// is not there.
    pub fn settle(&self, value: &mut Value) {
        self.drop_nulls(value);
        fill_zeros(self, value, true);
    }
}

fn fill_zeros(schema: &Schema, value: &mut Value, stored: bool) {
    match (schema.kind(), value) {
        (Kind::Object(_), Value::Object(map)) => {
            let go = schema.node().go.as_deref();
            for field in go.into_iter().flat_map(GoStruct::always) {
                let Some(inner) = schema.field(&field.name) else {
                    continue;
                };
                match map.get_mut(&*field.name) {
                    None => {
                        map.insert(field.name.to_string(), zero(inner, &field.type_name));
                    }
                    Some(value) if stored && field.is_collection() && is_empty(value) => *value = Value::Null,
                    Some(_) => {}
                }
            }
            for (key, value) in map.iter_mut() {
                if let Some(field) = schema.field(key) {
                    fill_zeros(field, value, stored);
                }
            }
        }
        (Kind::List(list), Value::Array(items)) => {
            items.iter_mut().for_each(|item| fill_zeros(&list.items, item, stored));
        }
        // Bytes that are not there come back as none at all.
        (Kind::Scalar(Scalar::Bytes), value @ Value::Null) if stored => *value = "".into(),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::builtin;

    fn written(group: &str, kind: &str, mut object: Value) -> Value {
        let schema = builtin::schema(group, "v1", kind).unwrap();
        schema.drop_nulls(&mut object);
        schema.fill_zeros(&mut object);
        object
    }

    #[test]
    fn what_go_writes_although_it_is_empty_is_there_and_what_it_leaves_out_is_not() {
        assert_eq!(
            written(
                "",
                "ConfigMap",
                json!({"data": {}, "immutable": false, "metadata": {"labels": {}}})
            ),
            json!({"immutable": false, "metadata": {}})
        );
        assert_eq!(
            written("rbac.authorization.k8s.io", "Role", json!({"metadata": {"name": "a"}})),
            json!({"metadata": {"name": "a"}, "rules": null})
        );
        assert_eq!(
            written(
                "rbac.authorization.k8s.io",
                "Role",
                json!({"metadata": {}, "rules": [null, {"verbs": []}]})
            ),
            json!({"metadata": {}, "rules": [{"verbs": null}, {"verbs": []}]})
        );
        assert_eq!(
            written(
                "",
                "Service",
                json!({"metadata": {}, "spec": {"publishNotReadyAddresses": false, "type": ""}})
            ),
            json!({"metadata": {}, "spec": {}, "status": {"loadBalancer": {}}})
        );
    }

    #[test]
    fn entries_of_maps_that_are_null_are_empty_and_bytes_may_be_numbers() {
        assert_eq!(
            written(
                "",
                "Secret",
                json!({"metadata": {}, "stringData": {"a": null}, "data": {"b": [104, 105], "c": null}})
            ),
            json!({"metadata": {}, "stringData": {"a": ""}, "data": {"b": "aGk=", "c": null}})
        );
    }
}
