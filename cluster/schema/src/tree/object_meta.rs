//! The metadata that objects of all kinds have (apimachinery v0.35 `pkg/apis/meta/v1/types.go`, `ObjectMeta`).

use std::sync::OnceLock;

use crate::tree::schema::{Kind, List, ListType, MapType, Node, Object, Patch, Scalar, Schema};

impl Schema {
    /// This tree with `apiVersion`, `kind` and `metadata` as every kind has them; fields that are already declared
    /// inside `metadata` keep their bounds.
    pub fn with_type_and_object_meta(&self) -> Schema {
        let mut node = (*self.0).clone();
        let object = match &mut node.kind {
            Kind::Object(object) => object,
            other => {
                *other = Kind::Object(Object::default());
                match other {
                    Kind::Object(object) => object,
                    _ => return self.clone(),
                }
            }
        };
        object
            .fields
            .insert("apiVersion".into(), Schema::scalar(Scalar::String));
        object.fields.insert("kind".into(), Schema::scalar(Scalar::String));
        let own = object.fields.remove("metadata");
        object.fields.insert("metadata".into(), merge_object_meta(own.as_ref()));
        Schema::new(node)
    }
}

fn merge_object_meta(own: Option<&Schema>) -> Schema {
    let mut node = (*object_meta().0).clone();
    if let (Kind::Object(object), Some(Kind::Object(declared))) = (&mut node.kind, own.map(Schema::kind)) {
        for name in ["name", "generateName"] {
            if let Some(schema) = declared.fields.get(name) {
                object.fields.insert(name.into(), schema.clone());
            }
        }
    }
    Schema::new(node)
}

/// `metadata` of every object (apimachinery v0.35 `pkg/apis/meta/v1/types.go`, `ObjectMeta`).
pub fn object_meta() -> Schema {
    static META: OnceLock<Schema> = OnceLock::new();
    META.get_or_init(|| build_object_meta().decoded_by_go()).clone()
}

fn text() -> Schema {
    Schema::scalar(Scalar::String)
}

fn time() -> Schema {
    Schema::new(Node {
        kind: Kind::Scalar(Scalar::Time),
        nullable: true,
        ..Node::default()
    })
}

/// One entry of `ownerReferences`.
fn owner_reference() -> Schema {
    let yes_no = || Schema::scalar(Scalar::Boolean);
    let names = ["apiVersion", "kind", "name", "uid"];
    let texts = names.map(|name| (name.into(), text()));
    let flags = ["controller", "blockOwnerDeletion"].map(|name| (name.into(), yes_no()));
    let object = Object {
        fields: texts.into_iter().chain(flags).collect(),
        // Which are required is decided by the rules of metadata.
        required: Vec::new(),
        additional: None,
        map_type: MapType::Atomic,
    };
    Schema::new(Node {
        kind: Kind::Object(object),
        ..Node::default()
    })
}

/// One entry of `managedFields`.
fn managed_fields_entry() -> Schema {
    Schema::object([
        ("manager", text()),
        ("operation", text()),
        ("apiVersion", text()),
        ("time", time()),
        ("fieldsType", text()),
        ("fieldsV1", Schema::any()),
        ("subresource", text()),
    ])
}

fn build_object_meta() -> Schema {
    let whole = || Schema::scalar(Scalar::Integer);
    let merged = |items: Schema, list_type: ListType, key: Option<&str>| {
        let patch = Patch {
            merge: true,
            merge_key: key.map(Into::into),
            ..Patch::default()
        };
        Schema::new(Node {
            kind: Kind::List(List { items, list_type }),
            patch,
            ..Node::default()
        })
    };
    Schema::object([
        ("name", text()),
        ("generateName", text()),
        ("namespace", text()),
        ("selfLink", text()),
        ("uid", text()),
        ("resourceVersion", text()),
        ("generation", whole()),
        ("creationTimestamp", time()),
        ("deletionTimestamp", time()),
        ("deletionGracePeriodSeconds", whole()),
        ("labels", Schema::map(text())),
        ("annotations", Schema::map(text())),
        (
            "ownerReferences",
            merged(
                owner_reference(),
                ListType::Map {
                    keys: vec!["uid".into()],
                },
                Some("uid"),
            ),
        ),
        ("finalizers", merged(text(), ListType::Set, None)),
        ("managedFields", Schema::list(managed_fields_entry(), ListType::Atomic)),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::schema::Bounds;

    #[test]
    fn every_kind_has_metadata_with_the_declared_bounds_of_names() {
        let bounds = Bounds {
            length_max: Some(10),
            ..Bounds::default()
        };
        let name = Schema::new(Node {
            kind: Kind::Scalar(Scalar::String),
            bounds: Some(Box::new(bounds)),
            ..Node::default()
        });
        let kind = Schema::object([("metadata", Schema::object([("name", name)]))]).with_type_and_object_meta();
        assert_eq!(
            kind.at("metadata.finalizers").and_then(Schema::list_type),
            Some(&ListType::Set)
        );
        let bounds = kind
            .at("metadata.name")
            .and_then(|s| s.node().bounds.clone())
            .expect("declared");
        assert_eq!(bounds.length_max, Some(10));
        assert!(kind.at("metadata.ownerReferences[].uid").is_some());
        assert!(kind.at("metadata.nosuch").is_none());
    }
}
