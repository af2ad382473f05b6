//! Nodes of custom resources: what follows for one from the nodes below it, and special ones.

use crate::tree::schema::{Kind, ListType, Node, Schema};

/// What `additionalProperties: true` allows: any value, but pruning empties all objects in it.
pub(crate) fn anything_flat() -> Schema {
    Schema::new(Node {
        nullable: true,
        custom: true,
        ..Node::default()
    })
}

/// The schema with a default value whose unknown fields are dropped: a stored schema may have been accepted without that check
/// (apiextensions-apiserver v0.35 `pkg/apiserver/schema/defaulting/prune.go`).
pub(crate) fn with_known_default(schema: Schema) -> Schema {
    let Some(mut default) = schema.default_value().cloned() else {
        return schema;
    };
    schema.prune(&mut default);
    Schema::new(Node {
        default: Some(default),
        ..(*schema.0).clone()
    })
}

/// The nodes right below one.
pub(crate) fn below(node: &Node) -> impl Iterator<Item = &Schema> {
    let (object, items) = match &node.kind {
        Kind::Object(object) => (Some(object), None),
        Kind::List(list) => (None, Some(&list.items)),
        Kind::Any | Kind::Scalar(_) => (None, None),
    };
    let fields = object
        .into_iter()
        .flat_map(|object| object.fields.values().chain(&object.additional));
    fields.chain(items)
}

/// A list whose items must differ.
pub(crate) fn has_distinct_items(node: &Node) -> bool {
    matches!(&node.kind, Kind::List(list) if list.list_type != ListType::Atomic)
}

/// Whether a node, or one below it, has rules.
pub(crate) fn has_rules(node: &Node) -> bool {
    let beside = node.bounds.iter().flat_map(|bounds| &bounds.all_of);
    !node.rules.is_empty() || below(node).chain(beside).any(|part| part.0.has_rules)
}
