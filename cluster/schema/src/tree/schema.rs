//! The field tree of a kind: which fields there are, what they may hold, how two versions of them are merged.
//! It is immutable and cheap to clone, shared between servers. It knows no JSON Schema dialect (the layer `documents`
//! translates those) and never looks at an object (`objects` and `validation` do).

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use cluster_cel::Rule;
use cluster_fields::Pattern;
use serde_json::Value;

use crate::tree::go_struct::GoStruct;

/// A field tree, or any subtree of one.
#[derive(Clone, Debug)]
pub struct Schema(pub(crate) Arc<Node>);

/// One field: its shape, its merge behaviour, its bounds.
#[derive(Clone, Debug, Default)]
pub struct Node {
    /// What the field holds.
    pub kind: Kind,
    /// For people.
    pub description: Option<Arc<str>>,
    /// Value that a missing field gets.
    pub default: Option<Value>,
    /// `null` is a value of its own.
    pub nullable: bool,
    /// Unknown fields below are preserved (`x-kubernetes-preserve-unknown-fields`).
    pub preserve_unknown: bool,
    /// The field holds a whole object with apiVersion, kind and metadata.
    pub embedded_resource: bool,
    /// The field is there even where an object does not have it: Go's encoder writes it although it is empty (structs that are
    /// no pointers, required fields).
    pub always: bool,
    /// What strategic merge patch does here (`x-kubernetes-patch-strategy`, `-patch-merge-key`).
    pub patch: Patch,
    /// Rules on the value beyond its shape.
    pub bounds: Option<Box<Bounds>>,
    /// Elements of a list may be there twice: Go's types do not check.
    pub(crate) repeats: bool,
    /// A value of another type is no error here: the node stands below `anyOf` and the like, which have no types.
    pub(crate) untyped: bool,
    /// The struct that Go has for it, of built-in kinds.
    pub(crate) go: Option<Arc<GoStruct>>,
    /// A node of a built-in kind, which is decoded by Go.
    pub(crate) of_go: bool,
    /// A node of a custom resource, which is validated as apiextensions-apiserver does.
    pub(crate) custom: bool,
    /// Some node of this subtree is an embedded object, or a list whose items must differ.
    pub(crate) has_parts: bool,
    /// Rules in CEL on this node.
    pub(crate) rules: Vec<Arc<Rule>>,
    /// Some node of this subtree has rules.
    pub(crate) has_rules: bool,
}

/// What a field holds.
#[derive(Clone, Debug, Default)]
pub enum Kind {
    /// Anything; merged as one value, never looked into.
    #[default]
    Any,
    /// A text, number or truth value.
    Scalar(Scalar),
    /// Named fields, or a map from text to one kind of value, or both.
    Object(Object),
    /// A list.
    List(List),
}

/// The JSON type of a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar {
    /// Text.
    String,
    /// A whole number.
    Integer,
    /// Any number.
    Number,
    /// `true` or `false`.
    Boolean,
    /// A whole number or a text (`x-kubernetes-int-or-string`).
    IntOrString,
    /// Text or any number, as `resource.Quantity` is read.
    Quantity,
    /// A time, as `metav1.Time` is read: seconds, with a zone.
    Time,
    /// A time, as `metav1.MicroTime` is read: with six digits of a second.
    MicroTime,
    /// Bytes in base64.
    Bytes,
}

/// An object with named fields, a map, or both.
#[derive(Clone, Debug, Default)]
pub struct Object {
    /// Named fields.
    pub fields: BTreeMap<Box<str>, Schema>,
    /// What every other key holds; `None`: other keys are unknown fields.
    pub additional: Option<Schema>,
    /// Named fields that must be there.
    pub required: Vec<Box<str>>,
    /// Owned and replaced as one value, or key by key.
    pub map_type: MapType,
}

/// A list.
#[derive(Clone, Debug)]
pub struct List {
    /// What each element holds.
    pub items: Schema,
    /// How two versions of the list are merged.
    pub list_type: ListType,
}

/// `x-kubernetes-list-type`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ListType {
    /// Replaced as a whole.
    #[default]
    Atomic,
    /// A set of scalars.
    Set,
    /// Elements are objects identified by these fields (`x-kubernetes-list-map-keys`).
    Map {
        /// Names of the key fields, in the schema's order.
        keys: Vec<Box<str>>,
    },
}

/// `x-kubernetes-map-type`, for maps and for structs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MapType {
    /// Each key has its own owner.
    #[default]
    Granular,
    /// Replaced as a whole.
    Atomic,
}

/// What strategic merge patch does with a field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Patch {
    /// `merge`: lists are merged by `merge_key` (objects) or as sets (scalars); without it they are replaced.
    pub merge: bool,
    /// `replace`: an object is replaced as a whole.
    pub replace: bool,
    /// `retainKeys`: keys that the patch's `$retainKeys` does not name are dropped.
    pub retain_keys: bool,
    /// The field that identifies elements of a merged list.
    pub merge_key: Option<Box<str>>,
}

/// Rules on a value beyond its shape. Numbers are JSON numbers as the schema's author wrote them.
#[derive(Clone, Debug, Default)]
pub struct Bounds {
    /// `format`, for example `date-time`.
    pub format: Option<Box<str>>,
    /// Allowed values; empty: all.
    pub one_of_values: Vec<Value>,
    /// Regular expression the text must contain a match of.
    pub pattern: Option<Pattern>,
    /// Smallest number.
    pub minimum: Option<f64>,
    /// `minimum` itself is not allowed.
    pub exclusive_minimum: bool,
    /// Largest number.
    pub maximum: Option<f64>,
    /// `maximum` itself is not allowed.
    pub exclusive_maximum: bool,
    /// The number must be a multiple of this one.
    pub multiple_of: Option<f64>,
    /// Shortest text, in characters.
    pub length_min: Option<u64>,
    /// Longest text, in characters.
    pub length_max: Option<u64>,
    /// Fewest list elements.
    pub items_min: Option<u64>,
    /// Most list elements.
    pub items_max: Option<u64>,
    /// List elements must differ.
    pub items_unique: bool,
    /// Fewest keys.
    pub properties_min: Option<u64>,
    /// Most keys.
    pub properties_max: Option<u64>,
    /// Every one of these must hold.
    pub all_of: Vec<Schema>,
    /// At least one of these must hold.
    pub any_of: Vec<Schema>,
    /// Exactly one of these must hold.
    pub one_of: Vec<Schema>,
    /// This must not hold.
    pub not: Option<Schema>,
}

impl Bounds {
    /// Whether nothing is restricted.
    pub fn is_empty(&self) -> bool {
        // Without `..`: a new field must be looked at, too.
        let Bounds {
            format,
            one_of_values,
            pattern,
            minimum,
            exclusive_minimum,
            maximum,
            exclusive_maximum,
            multiple_of,
            length_min,
            length_max,
            items_min,
            items_max,
            items_unique,
            properties_min,
            properties_max,
            all_of,
            any_of,
            one_of,
            not,
        } = self;
        let counts = [
            length_min,
            length_max,
            items_min,
            items_max,
            properties_min,
            properties_max,
        ];
        format.is_none()
            && one_of_values.is_empty()
            && pattern.is_none()
            && [minimum, maximum, multiple_of].into_iter().all(Option::is_none)
            && counts.into_iter().all(Option::is_none)
            && !(*exclusive_minimum || *exclusive_maximum || *items_unique)
            && [all_of, any_of, one_of].into_iter().all(Vec::is_empty)
            && not.is_none()
    }
}

impl Schema {
    /// A tree that starts with this node.
    pub fn new(node: Node) -> Self {
        Self(Arc::new(node))
    }

    /// Anything at all, left as it is and merged as one value.
    pub fn any() -> Self {
        static ANY: OnceLock<Schema> = OnceLock::new();
        ANY.get_or_init(|| {
            Self::new(Node {
                preserve_unknown: true,
                nullable: true,
                ..Node::default()
            })
        })
        .clone()
    }

    /// A leaf.
    pub fn scalar(scalar: Scalar) -> Self {
        Self::new(Node {
            kind: Kind::Scalar(scalar),
            ..Node::default()
        })
    }

    /// An object with these named fields and no others.
    pub fn object<N: Into<Box<str>>>(fields: impl IntoIterator<Item = (N, Schema)>) -> Self {
        let fields = fields.into_iter().map(|(name, schema)| (name.into(), schema)).collect();
        Self::new(Node {
            kind: Kind::Object(Object {
                fields,
                ..Object::default()
            }),
            ..Node::default()
        })
    }

    /// A map from text to `values`.
    pub fn map(values: Schema) -> Self {
        let object = Object {
            additional: Some(values),
            ..Object::default()
        };
        Self::new(Node {
            kind: Kind::Object(object),
            ..Node::default()
        })
    }

    /// A list of `items`.
    pub fn list(items: Schema, list_type: ListType) -> Self {
        Self::new(Node {
            kind: Kind::List(List { items, list_type }),
            ..Node::default()
        })
    }

    /// This tree as a field that is always there.
    pub(crate) fn written_always(&self) -> Self {
        if self.0.always {
            return self.clone();
        }
        Self::new(Node {
            always: true,
            ..(*self.0).clone()
        })
    }

    /// The root node of this tree.
    pub fn node(&self) -> &Node {
        &self.0
    }

    /// What the field holds.
    pub fn kind(&self) -> &Kind {
        &self.0.kind
    }

    /// The schema of a key: a named field, else what every other key holds, else `None`.
    pub fn field(&self, name: &str) -> Option<&Schema> {
        match &self.0.kind {
            Kind::Object(object) => object.fields.get(name).or(object.additional.as_ref()),
            _ => None,
        }
    }

    /// The schema of list elements.
    pub fn items(&self) -> Option<&Schema> {
        match &self.0.kind {
            Kind::List(list) => Some(&list.items),
            _ => None,
        }
    }

    /// How two versions of this list are merged; `None` when it is no list.
    pub fn list_type(&self) -> Option<&ListType> {
        match &self.0.kind {
            Kind::List(list) => Some(&list.list_type),
            _ => None,
        }
    }

    /// How two versions of this object or map are merged; `None` when it is neither.
    pub fn map_type(&self) -> Option<MapType> {
        match &self.0.kind {
            Kind::Object(object) => Some(object.map_type),
            _ => None,
        }
    }

    /// True when nothing is known about what is below: unknown fields are preserved and merged without a schema.
    /// (Server-side apply then deduces: objects granular, lists atomic.)
    pub fn is_opaque(&self) -> bool {
        matches!(self.0.kind, Kind::Any) || (self.0.preserve_unknown && self.field_count() == 0)
    }

    /// What strategic merge patch does here.
    pub fn patch(&self) -> &Patch {
        &self.0.patch
    }

    /// Value that a missing field gets.
    pub fn default_value(&self) -> Option<&Value> {
        self.0.default.as_ref()
    }

    /// What a missing field counts as where it identifies items of a list: its default, or what Go writes for it.
    pub fn value_if_missing(&self) -> Option<Value> {
        let zero = || match (self.0.always, &self.0.kind) {
            (true, Kind::Scalar(Scalar::Integer)) => Some(0.into()),
            (true, Kind::Scalar(Scalar::String)) => Some("".into()),
            _ => None,
        };
        self.0.default.clone().or_else(zero)
    }

    /// The subtree at a dotted path; `[]` steps into list elements: `spec.containers[].ports`.
    pub fn at(&self, path: &str) -> Option<&Schema> {
        let mut here = self;
        for part in path.split('.') {
            let name = part.trim_end_matches("[]");
            here = here.field(name)?;
            if part.ends_with("[]") {
                here = here.items()?;
            }
        }
        Some(here)
    }

    fn field_count(&self) -> usize {
        match &self.0.kind {
            Kind::Object(object) => object.fields.len() + usize::from(object.additional.is_some()),
            _ => 0,
        }
    }

    /// This tree as the one of a type of Go: null in a map or a list is an empty value there.
    pub(crate) fn decoded_by_go(&self) -> Self {
        let mut node = (*self.0).clone();
        node.of_go = true;
        match &mut node.kind {
            Kind::Object(object) => {
                object
                    .fields
                    .values_mut()
                    .for_each(|field| *field = field.decoded_by_go());
                object.additional = object.additional.as_ref().map(Self::decoded_by_go);
            }
            Kind::List(list) => list.items = list.items.decoded_by_go(),
            Kind::Any | Kind::Scalar(_) => {}
        }
        Self::new(node)
    }
}
