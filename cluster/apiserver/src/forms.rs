//! Since when a store holds Kubernetes' own kinds in the form in which this version writes them: quantities in their
//! shortest form, empty fields as Go prints them. What is older is brought into it whenever it is read; nothing is rewritten
//! for its own sake, so that a start costs no more with many objects than with few.

use cluster_store::{Entry, Key, Object, Revision, Store, StoreError};
use serde_json::{Value, json};

/// Raised whenever an object as it was stored would be refused, or would count as changed, when it comes back.
const FORM: u64 = 2;
/// Where it is remembered; no kind is served under this name.
const PLACE: &str = "orangery.dev/forms";
const NAME: &str = "builtin";

/// The revision from which on everything has the form. The first server of a version over a store sets it.
pub(crate) async fn since(store: &dyn Store) -> Result<Revision, StoreError> {
    let key = Key::new(PLACE, None, NAME);
    loop {
        let written = match store.get(&key).await? {
            Some(entry) if form_of(&entry) >= FORM => return Ok(entry.revision),
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

fn form_of(entry: &Entry) -> u64 {
    let mark = entry.object.value(entry.revision);
    mark.get("form").and_then(Value::as_u64).unwrap_or_default()
}

fn mark() -> Result<Object, StoreError> {
    Object::from_value(json!({"metadata": {"name": NAME}, "form": FORM}))
}
