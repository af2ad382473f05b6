//! What a schema, or the API, declares about values: their types, which fields there are, how large they can be
//! (kubernetes/kubernetes v1.35 `staging/src/k8s.io/apiserver/pkg/cel/common/schemas.go`, `pkg/cel/types.go`,
//! `pkg/admission/plugin/cel/compile.go`). It reads documents that are known to be structural.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::syntax::reserved::is_reserved;
use crate::typing::escapes::unescape;
use crate::typing::types::Type;

/// Fields of an object that has no schema.
type Fields = [(&'static str, &'static str)];

/// Types that have a name of their own. Those without fields are not looked into.
const NAMED: [(&str, &Fields); 18] = [
    ("kubernetes.Quantity", &[]),
    ("kubernetes.URL", &[]),
    ("kubernetes.NamedFormat", &[]),
    ("kubernetes.Semver", &[]),
    ("kubernetes.authorization.Authorizer", &[]),
    ("kubernetes.authorization.Decision", &[]),
    ("kubernetes.authorization.GroupCheck", &[]),
    ("kubernetes.authorization.PathCheck", &[]),
    ("kubernetes.authorization.ResourceCheck", &[]),
    (
        "kubernetes.GroupVersionKind",
        &[("group", "string"), ("version", "string"), ("kind", "string")],
    ),
    (
        "kubernetes.GroupVersionResource",
        &[("group", "string"), ("version", "string"), ("resource", "string")],
    ),
    (
        "kubernetes.UserInfo",
        &[
            ("username", "string"),
            ("uid", "string"),
            ("groups", "list(string)"),
            ("extra", "map(string, list(string))"),
        ],
    ),
    (
        "kubernetes.AdmissionRequest",
        &[
            ("kind", "kubernetes.GroupVersionKind"),
            ("resource", "kubernetes.GroupVersionResource"),
            ("subResource", "string"),
            ("requestKind", "kubernetes.GroupVersionKind"),
            ("requestResource", "kubernetes.GroupVersionResource"),
            ("requestSubResource", "string"),
            ("name", "string"),
            ("namespace", "string"),
            ("operation", "string"),
            ("userInfo", "kubernetes.UserInfo"),
            ("dryRun", "bool"),
            ("options", "dyn"),
        ],
    ),
    (
        "kubernetes.Namespace",
        &[
            ("metadata", "kubernetes.NamespaceMetadata"),
            ("spec", "kubernetes.NamespaceSpec"),
            ("status", "kubernetes.NamespaceStatus"),
        ],
    ),
    ("kubernetes.NamespaceSpec", &[("finalizers", "list(string)")]),
    (
        "kubernetes.NamespaceStatus",
        &[
            ("conditions", "list(kubernetes.NamespaceCondition)"),
            ("phase", "string"),
        ],
    ),
    (
        "kubernetes.NamespaceCondition",
        &[
            ("status", "string"),
            ("type", "string"),
            ("lastTransitionTime", "timestamp"),
            ("message", "string"),
            ("reason", "string"),
        ],
    ),
    (
        "kubernetes.NamespaceMetadata",
        &[
            ("name", "string"),
            ("generateName", "string"),
            ("namespace", "string"),
            ("labels", "map(string, string)"),
            ("annotations", "map(string, string)"),
            ("UID", "string"),
            ("creationTimestamp", "timestamp"),
            ("deletionGracePeriodSeconds", "int"),
            ("deletionTimestamp", "timestamp"),
            ("generation", "int"),
            ("resourceVersion", "string"),
            ("finalizers", "list(string)"),
        ],
    ),
];

/// Longest name of an object, in bytes; the rest is replaced by its hash. Each use of a field makes such a name, and a type shows
/// up to a hundred.
const NAME_BYTES_MAX: usize = 1024;

/// The name of an object that is a field of another one.
fn name_below(above: &str, field: &str) -> String {
    let mut name = format!("{above}.{field}");
    if name.len() > NAME_BYTES_MAX {
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        name.truncate(name.floor_char_boundary(NAME_BYTES_MAX));
        name.push_str(&format!("...{:016x}", hasher.finish()));
    }
    name
}

/// An object with fields, identified by its name.
#[derive(Clone, Debug)]
pub(crate) struct Object<'s> {
    name: Arc<str>,
    fields: Source<'s>,
}

#[derive(Clone, Debug)]
enum Source<'s> {
    Schema(Declared<'s>),
    Named(&'static Fields),
    Variables(Arc<BTreeMap<String, Type<'s>>>),
}

impl PartialEq for Object<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// Why an object has no such field.
pub(crate) enum NoField {
    /// There is none.
    Undefined,
    /// Nothing is known of its fields.
    Unresolved,
}

impl<'s> Object<'s> {
    /// One that the API has a name for.
    pub(crate) fn named(name: &str) -> Option<Object<'static>> {
        let (name, fields) = NAMED.iter().find(|(known, _)| *known == name)?;
        Some(Object {
            name: (*name).into(),
            fields: Source::Named(fields),
        })
    }

    /// The variables of a policy, which are fields of one object.
    pub(crate) fn variables(types: BTreeMap<String, Type<'s>>) -> Self {
        Self {
            name: "kubernetes.variables".into(),
            fields: Source::Variables(Arc::new(types)),
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn field(&self, name: &str) -> Result<Type<'s>, NoField> {
        match &self.fields {
            Source::Named([]) => Err(NoField::Unresolved),
            Source::Named(fields) => {
                let found = fields.iter().find(|(field, _)| *field == name);
                found.and_then(|(_, text)| Type::parse(text)).ok_or(NoField::Undefined)
            }
            Source::Variables(types) => types.get(name).cloned().ok_or(NoField::Undefined),
            Source::Schema(declared) => {
                let field = declared.field(name).ok_or(NoField::Undefined)?;
                field.as_type(&name_below(&self.name, name)).ok_or(NoField::Undefined)
            }
        }
    }
}

/// What a schema declares about a value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Declared<'s> {
    /// A node of a schema; the root of a whole object has more fields than it declares.
    Node { json: &'s Map<String, Value>, root: bool },
    /// A text of which nothing is declared.
    Text,
    /// A key of a map, whose length counts as zero.
    Key,
    /// `metadata` of which nothing is declared.
    Metadata,
}

/// What shape a node gives its values.
#[derive(Clone, Copy)]
pub(crate) enum Shape<'s> {
    Dyn,
    String,
    Bytes,
    Duration,
    Date,
    DateTime,
    Bool,
    Double,
    Int,
    List(Declared<'s>),
    Map(Declared<'s>),
    Object,
}

fn of_part<'s>(value: Option<&'s Value>) -> Option<Declared<'s>> {
    let json = value?.as_object()?;
    let root = json.get("x-kubernetes-embedded-resource") == Some(&Value::Bool(true));
    Some(Declared::Node { json, root })
}

fn has_type(json: Option<&Value>, name: &str) -> bool {
    json.is_some_and(|json| json["type"] == name)
}

/// Whether the root itself declares the fields that every object has.
fn has_own_meta(json: &Map<String, Value>) -> bool {
    let Some(fields) = json.get("properties").and_then(Value::as_object) else {
        return false;
    };
    let metadata = fields.get("metadata");
    let of_metadata = |name: &str| metadata.and_then(|it| it["properties"].get(name));
    has_type(fields.get("kind"), "string")
        && has_type(fields.get("apiVersion"), "string")
        && has_type(metadata, "object")
        && has_type(of_metadata("name"), "string")
        && has_type(of_metadata("generateName"), "string")
}

impl<'s> Declared<'s> {
    /// None: expressions do not see such values.
    pub(crate) fn shape(self) -> Option<Shape<'s>> {
        let json = match self {
            Self::Text | Self::Key => return Some(Shape::String),
            Self::Metadata => return Some(Shape::Object),
            Self::Node { json, .. } => json,
        };
        if json.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true)) {
            return Some(Shape::Dyn);
        }
        let text = |name: &str| json.get(name).and_then(Value::as_str);
        Some(match (text("type")?, text("format")) {
            ("array", _) => {
                let items = of_part(json.get("items"))?;
                items.shape()?;
                Shape::List(items)
            }
            ("object", _) => match of_part(json.get("additionalProperties")) {
                None => Shape::Object,
                Some(values) => {
                    values.shape()?;
                    Shape::Map(values)
                }
            },
            ("string", Some("byte")) => Shape::Bytes,
            ("string", Some("duration")) => Shape::Duration,
            ("string", Some("date")) => Shape::Date,
            ("string", Some("date-time")) => Shape::DateTime,
            ("string", _) => Shape::String,
            ("boolean", _) => Shape::Bool,
            ("number", _) => Shape::Double,
            ("integer", _) => Shape::Int,
            _ => return None,
        })
    }

    /// Its type; objects in it are named after the place. None: expressions do not see it.
    pub(crate) fn as_type(self, name: &str) -> Option<Type<'s>> {
        Some(match self.shape()? {
            Shape::Dyn => Type::Dyn,
            Shape::String => Type::String,
            Shape::Bytes => Type::Bytes,
            Shape::Duration => Type::Duration,
            Shape::Date | Shape::DateTime => Type::Timestamp,
            Shape::Bool => Type::Bool,
            Shape::Double => Type::Double,
            Shape::Int => Type::Int,
            Shape::List(items) => Type::list(items.as_type(&format!("{name}.@idx"))?),
            Shape::Map(values) => Type::map(Type::String, values.as_type(&format!("{name}.@elem"))?),
            Shape::Object => Type::Object(Object {
                name: name.into(),
                fields: Source::Schema(self),
            }),
        })
    }

    /// The field that expressions know by this name.
    pub(crate) fn field(self, name: &str) -> Option<Self> {
        // Words of CEL are names of fields behind a dot.
        if is_reserved(name) {
            return self.seen_field(name);
        }
        self.spelled_field(name)
    }

    /// The field that has this name once it is escaped as an identifier.
    pub(crate) fn spelled_field(self, name: &str) -> Option<Self> {
        self.seen_field(&unescape(name)?)
    }

    fn seen_field(self, name: &str) -> Option<Self> {
        let field = self.raw_field(name)?;
        field.shape().map(|_| field)
    }

    pub(crate) fn raw_field(self, name: &str) -> Option<Self> {
        match self {
            Self::Text | Self::Key => None,
            Self::Metadata => matches!(name, "name" | "generateName").then_some(Self::Text),
            Self::Node { json, root } => {
                if root && !has_own_meta(json) {
                    match name {
                        "kind" | "apiVersion" => return Some(Self::Text),
                        "metadata" => return Some(Self::Metadata),
                        _ => {}
                    }
                }
                of_part(json.get("properties")?.get(name))
            }
        }
    }

    /// What list items or the values of a map are; none where it is neither.
    pub(crate) fn elements(self) -> Option<Self> {
        match self.shape()? {
            Shape::List(part) | Shape::Map(part) => Some(part),
            _ => None,
        }
    }

    /// What the keys of a map are.
    pub(crate) fn keys(self) -> Option<Self> {
        matches!(self.shape()?, Shape::Map(_)).then_some(Self::Key)
    }

    pub(crate) fn bound(self, name: &str) -> Option<u64> {
        let number = match self {
            Self::Node { json, .. } => json.get(name)?.as_i64()?,
            _ => return None,
        };
        // A bound below nothing allows nothing.
        Some(u64::try_from(number).unwrap_or(0))
    }
}
