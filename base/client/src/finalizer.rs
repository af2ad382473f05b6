//! Finalizers, added and removed one by one, so that a finalizer of another writer is never dropped.

use std::fmt::Debug;

use api_meta::Fault;
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::value::to_raw_value;

use crate::fault::{fault_of, is_conflict, is_missing};
use crate::read::read_again;
use crate::write::{Operation, doing, send_json_patch};

/// How often a change of finalizers is tried on a fresh copy when others keep writing the object; the next reconcile tries
/// again anyway.
const ATTEMPTS_MAX: usize = 5;

/// Whether `object` carries `finalizer`.
pub fn has_finalizer<K: Resource>(object: &K, finalizer: &str) -> bool {
    object
        .meta()
        .finalizers
        .iter()
        .flatten()
        .any(|present| present == finalizer)
}

/// Makes sure that `object` (as it was read) carries `finalizer` and returns it as it is now.
pub async fn add_finalizer<K>(api: &Api<K>, object: K, finalizer: &str) -> Result<K, Fault>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    let doing = doing("add a finalizer to", &object);
    change(api, object, &doing, |finalizers| {
        let missing = !finalizers.iter().any(|present| present == finalizer);
        if missing {
            finalizers.push(finalizer.to_owned());
        }
        missing
    })
    .await
    .and_then(|changed| changed.ok_or_else(|| Fault::new(api_meta::FaultClass::Transient, Gone(doing.clone()))))
}

/// Makes sure that `object` (as it was read) does not carry `finalizer`. `None`: it is gone.
pub async fn remove_finalizer<K>(api: &Api<K>, object: K, finalizer: &str) -> Result<Option<K>, Fault>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    let doing = doing("remove a finalizer from", &object);
    change(api, object, &doing, |finalizers| {
        let before = finalizers.len();
        finalizers.retain(|present| present != finalizer);
        finalizers.len() != before
    })
    .await
}

/// The object was deleted while we were writing it.
#[derive(Debug, thiserror::Error)]
#[error("{0}: it was deleted meanwhile")]
struct Gone(String);

async fn change<K>(
    api: &Api<K>,
    mut object: K,
    doing: &str,
    edit: impl Fn(&mut Vec<String>) -> bool,
) -> Result<Option<K>, Fault>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    for attempt in 1.. {
        let mut finalizers = object.finalizers().to_vec();
        if !edit(&mut finalizers) {
            return Ok(Some(object));
        }
        let value = to_raw_value(&finalizers).map_err(|error| Fault::new(api_meta::FaultClass::Bug, error))?;
        let operations = vec![Operation::add("/metadata/finalizers".to_owned(), value)];
        match send_json_patch(api, &object, operations, false).await {
            Ok(patched) => return Ok(Some(patched)),
            Err(error) if is_missing(&error) => return Ok(None),
            Err(error) if is_conflict(&error) && attempt < ATTEMPTS_MAX => {}
            Err(error) => return Err(fault_of(error, doing)),
        }
        match read_again(api, &object).await? {
            Some(fresh) => object = fresh,
            None => return Ok(None),
        }
    }
    Ok(None)
}
