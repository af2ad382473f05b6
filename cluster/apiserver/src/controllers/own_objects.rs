//! Objects that a server maintains itself: created if they are missing, with the server as their field manager.

use std::sync::Arc;

use cluster_store::{Entry, Key, Object, StoreError};
use serde_json::{Value, json};

use crate::kinds::metadata;
use crate::state::server_state::ServerState;
use crate::storage::errors::store_status;
use crate::wire::status::Status;

/// The field manager of these objects.
const MANAGER: &str = "kube-apiserver";

/// Records the server as the manager of these fields, as kube-apiserver does. The fields are given, so that no start has to
/// read the schemas of the kinds.
pub(crate) fn note_manager(server: &ServerState, object: &mut Value, fields: Value) {
    let entry = json!({
        "manager": MANAGER, "operation": "Update", "apiVersion": object["apiVersion"],
        "time": metadata::timestamp(server.clock.now()), "fieldsType": "FieldsV1", "fieldsV1": fields,
    });
    object["metadata"]["managedFields"] = json!([entry]);
}

/// Creates an object if it is missing. None: it exists, and stays as it is.
pub(crate) async fn ensure(
    server: &Arc<ServerState>,
    key: Key,
    mut object: Value,
    generation: bool,
) -> Result<Option<Entry>, Status> {
    if server.store.get(&key).await.map_err(store_status)?.is_some() {
        return Ok(None);
    }
    let metadata = metadata::of_mut(&mut object)?;
    metadata.insert("uid".to_owned(), Value::String(server.entropy.uid()));
    metadata.insert(
        "creationTimestamp".to_owned(),
        Value::String(metadata::timestamp(server.clock.now())),
    );
    if let Some(namespace) = &key.namespace {
        metadata.insert("namespace".to_owned(), Value::from(&**namespace));
    }
    if generation {
        metadata.insert("generation".to_owned(), Value::from(1));
    }
    let object = Object::from_value(object).map_err(Status::internal)?;
    match server.store.create(key, object).await {
        Ok(entry) => Ok(Some(entry)),
        // Another server over the same store was faster.
        Err(StoreError::Exists { .. }) => Ok(None),
        Err(error) => Err(store_status(error)),
    }
}

/// Updates an object that the server maintains, unless another server over the same store was faster.
pub(crate) async fn update(server: &ServerState, entry: &Entry, object: Value) -> Result<(), Status> {
    let object = Object::from_value(object).map_err(Status::internal)?;
    match server.store.update(&entry.key, entry.revision, object).await {
        Ok(_) | Err(StoreError::Conflict { .. } | StoreError::Missing { .. }) => Ok(()),
        Err(error) => Err(store_status(error)),
    }
}
