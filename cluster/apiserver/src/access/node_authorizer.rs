//! Nodes as users: whether their pods name what they request. It never looks at a body.
//! (kubernetes/kubernetes v1.35 plugin/pkg/auth/authorizer/node)

use cluster_access::{Attributes, Decision, NodeDecision, Relation, Target, names, node_decision, node_name};
use cluster_store::{Page, Range};
use serde_json::Value;

use crate::storage::errors::store_status;
use crate::storage::stores::Stores;
use crate::wire::query::Query;
use crate::wire::selector::FieldSelector;
use crate::wire::status::Status;

/// What the nodes' rules decide; none when the user is no node.
pub(crate) async fn authorize(
    store: &Stores,
    attributes: &Attributes,
    query: &Query,
) -> Result<Option<Decision>, Status> {
    let Some(node) = node_name(&attributes.user) else {
        return Ok(None);
    };
    let fields = query.get("fieldSelector").map(FieldSelector::parse);
    let own_pods = fields
        .and_then(Result::ok)
        .is_some_and(|fields| fields.exact("spec.nodeName") == Some(node));
    let relation = match node_decision(node, attributes, own_pods) {
        NodeDecision::Allow => return Ok(Some(Decision::Allow(String::new()))),
        NodeDecision::Deny(why) => return Ok(Some(Decision::Deny(why))),
        NodeDecision::IfNamed(relation) => relation,
    };
    let Target::Resource(target) = &attributes.target else {
        return Ok(Some(Decision::Deny(String::new())));
    };
    let named = is_named(store, node, &target.namespace, relation, &target.name).await?;
    Ok(Some(if named {
        Decision::Allow(String::new())
    } else {
        Decision::Deny(format!("no relationship found between node '{node}' and this object"))
    }))
}

async fn is_named(store: &Stores, node: &str, namespace: &str, relation: Relation, name: &str) -> Result<bool, Status> {
    let range = Range::namespaced("pods", namespace);
    let pods = store.list(&range, Page::default()).await.map_err(store_status)?;
    let path = ["spec".to_owned(), "nodeName".to_owned()];
    Ok(pods.entries.iter().any(|entry| {
        // Most pods are of other nodes: these are not read as a whole.
        crate::kinds::filter::field_text(entry.object.bytes(), &path).as_deref() == Some(node)
            && serde_json::from_slice::<Value>(entry.object.bytes()).is_ok_and(|pod| names(&pod, relation, name))
    }))
}
