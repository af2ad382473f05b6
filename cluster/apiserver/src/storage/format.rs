//! Since when a store holds Kubernetes' own kinds in the format in which this version writes them: quantities in their
//! shortest form, empty fields as Go prints them. Older objects are converted whenever they are read; nothing is rewritten
//! for its own sake, so that a start takes no longer with many objects than with few.

use std::collections::BTreeMap;

use cluster_store::{Entry, Key, Object, Revision, Store, StoreError};
use serde_json::{Value, json};

use crate::storage::stores::Stores;

/// Raised whenever an object as it was stored would be refused, or would count as changed, when it comes back.
const FORMAT: u64 = 2;
/// Where it is stored; no kind is served under this name.
const PLACE: &str = "orangery.dev/forms";
const NAME: &str = "builtin";

/// The revision of each store from which on everything in it has the format.
#[derive(Default)]
pub(crate) struct Since {
    main: Revision,
    apart: BTreeMap<String, Revision>,
}

impl Since {
    /// The revision of a resource's store.
    pub(crate) fn of(&self, resource: &str) -> Revision {
        self.apart.get(resource).copied().unwrap_or(self.main)
    }
}

/// The revisions that the first server of this version over each store has set.
pub(crate) async fn since(stores: &Stores) -> Result<Since, StoreError> {
    let mut apart = BTreeMap::new();
    for (resource, store) in stores.apart() {
        apart.insert(resource.to_owned(), marked(&**store).await?);
    }
    let main = marked(&**stores.main()).await?;
    Ok(Since { main, apart })
}

/// The revision from which on everything in a store has the format. The first server of a version over it sets it.
async fn marked(store: &dyn Store) -> Result<Revision, StoreError> {
    let key = Key::new(PLACE, None, NAME);
    loop {
        let written = match store.get(&key).await? {
            Some(entry) if format_of(&entry) >= FORMAT => return Ok(entry.revision),
            Some(entry) => store.update(&key, entry.revision, mark()?).await,
            None => store.create(key.clone(), mark()?).await,
        };
        match written {
            Ok(entry) => return Ok(entry.revision),
            // Another server over the same store was faster.
            Err(StoreError::Exists { .. } | StoreError::Conflict { .. } | StoreError::Missing { .. }) => {}
            Err(error) => return Err(error),
        }
    }
}

fn format_of(entry: &Entry) -> u64 {
    let mark = entry.object.value(entry.revision);
    mark.get("form").and_then(Value::as_u64).unwrap_or_default()
}

fn mark() -> Result<Object, StoreError> {
    Object::from_value(json!({"metadata": {"name": NAME}, "form": FORMAT}))
}
