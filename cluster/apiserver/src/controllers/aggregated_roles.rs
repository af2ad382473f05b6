//! Aggregated roles: the rules that they collect are written into them, so that users see what the authorizer evaluates.
//! (kubernetes/kubernetes v1.35 pkg/controller/clusterroleaggregation)

use std::sync::Arc;

use cluster_store::{Entry, Key, Object, StoreError};
use serde_json::json;

use crate::state::server_state::ServerState;
use crate::storage::resource_names::RBAC;

const AGGREGATION: &[u8] = b"\"aggregationRule\"";

/// How often a role is written again when others write in between.
const AGGREGATE_TRIES_MAX: usize = 5;

/// Writes their current rules into the aggregated roles, on a task of the server, if the write may have changed them.
pub(crate) fn aggregate_later(server: &Arc<ServerState>, written: &Entry) {
    // Only a cluster role with labels can be collected by another, and only one with a rule for that collects any.
    let rule = || {
        written
            .object
            .bytes()
            .windows(AGGREGATION.len())
            .any(|window| window == AGGREGATION)
    };
    let concerns =
        written.key.resource.ends_with("/clusterroles") && (!written.object.meta().labels.is_empty() || rule());
    if !concerns {
        return;
    }
    let roles: Vec<String> = server
        .access
        .rbac
        .read(|index| index.aggregated_roles().map(str::to_owned).collect());
    if roles.is_empty() {
        return;
    }
    let server = server.clone();
    server.clone().tasks.spawn(async move {
        for role in roles {
            if let Err(error) = aggregate(&server, &role).await {
                tracing::warn!(server = %server.name, role, %error, "an aggregated role was not written");
            }
        }
    });
}

pub(crate) async fn aggregate(server: &Arc<ServerState>, role: &str) -> Result<(), StoreError> {
    let key = Key::new(format!("{RBAC}/clusterroles"), None, role);
    for _ in 0..AGGREGATE_TRIES_MAX {
        let Some(entry) = server.store.get(&key).await? else {
            return Ok(());
        };
        let rules = server
            .access
            .rbac
            .read(|index| index.aggregated_rules(role).map(|rules| json!(rules)));
        let mut object = entry.object.value(entry.revision);
        let rules = rules.filter(|rules| object.get("rules") != Some(rules));
        let (Some(rules), Some(fields)) = (rules, object.as_object_mut()) else {
            return Ok(());
        };
        fields.insert("rules".to_owned(), rules);
        match server
            .store
            .update(&key, entry.revision, Object::from_value(object)?)
            .await
        {
            Err(StoreError::Conflict { .. }) => {}
            outcome => return outcome.map(|_| ()),
        }
    }
    Ok(())
}
