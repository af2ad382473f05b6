//! What Go's types declare beside a published document: how a field is called there, the order of fields, which are written
//! although they are empty, and which are left out. The table is the caller's: this crate has no kinds.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use crate::tree::go_struct::{GoField, GoStruct, Written};
use crate::tree::object_meta::object_meta;
use crate::tree::schema::{Kind, Scalar, Schema};

/// The package that declares what all objects have in common.
const PACKAGE: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

/// Name in JSON, type, and the options behind the name in the tag.
type Declared = (String, String, String);

/// Structs of Go as they are declared: fields in order, by the name of the definition.
#[derive(Debug)]
pub struct GoTypes(BTreeMap<String, Vec<Declared>>);

impl GoTypes {
    /// Reads a table in JSON: fields by the name of their definition, each with its name in JSON, its type, and the options of its
    /// tag.
    ///
    /// # Errors
    /// It is no such table.
    pub fn from_json(table: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(table).map(Self)
    }

    /// The struct of a definition whose fields have these schemas; none where Go has no struct.
    pub(crate) fn of_definition(&self, definition: &str, fields: &BTreeMap<Box<str>, Schema>) -> Option<Arc<GoStruct>> {
        let declared = self.0.get(definition)?;
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

    /// The metadata of objects, with its struct and those inside it.
    fn with_structs(&self, schema: &Schema, definition: &str) -> Schema {
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
                    list.items = self.with_structs(&list.items, &format!("{PACKAGE}.{inside}"));
                }
                *field = Schema::new(list);
            }
            node.go = self.of_definition(definition, &object.fields);
        }
        Schema::new(node)
    }
}

/// Metadata with its structs, as objects of built-in kinds have it.
pub(crate) fn go_object_meta() -> Schema {
    static META: OnceLock<Schema> = OnceLock::new();
    META.get_or_init(|| {
        let types = GoTypes::from_json(include_bytes!("../../data/go_metadata.json"));
        let types = types.expect("a committed table, read by a test of this crate");
        types.with_structs(&object_meta(), &format!("{PACKAGE}.ObjectMeta"))
    })
    .clone()
}

/// Types of fields in which an empty list differs from a missing one: an empty list of managers removes them all, and an empty
/// list of policies is refused, where a missing one gets the defaults (`copyHPAScalingRules` of Kubernetes v1.35
/// `pkg/apis/autoscaling/v2/defaults.go`). Other defaults depend on the length, or fill the field when it is read from the
/// store, where it is missing (`SetDefaults_NodeStatus`).
const PRESERVED_EMPTY: [&str; 2] = ["[]v1.ManagedFieldsEntry", "[]v2.HPAScalingPolicy"];

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
    if PRESERVED_EMPTY.contains(&type_name)
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
