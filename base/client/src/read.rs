//! Reading, honestly: a failed read is never "not there".

use std::fmt::Debug;

use api_meta::{Fault, Seen};
use kube::api::ListParams;
use kube::{Api, Resource};
use serde::de::DeserializeOwned;

use crate::fault::fault_of;

/// Objects per LIST request: the chunk size kubectl uses.
const PAGE_SIZE: u32 = 500;

/// Looks at one object. The reason of an `Unknown` names the object and the error of the API.
pub async fn observe<K>(api: &Api<K>, name: &str) -> Seen<K>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    match get(api, name).await {
        Ok(Some(object)) => Seen::Present(object),
        Ok(None) => Seen::Absent,
        Err(fault) => Seen::Unknown(fault.to_string()),
    }
}

/// Reads one object; `None` only when the API answers that it is not there.
pub async fn get<K>(api: &Api<K>, name: &str) -> Result<Option<K>, Fault>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    api.get_opt(name).await.map_err(|error| {
        let namespace = api.namespace().map(|namespace| format!("{namespace}/"));
        let title = format!("{} {}{name}", K::kind(&()), namespace.unwrap_or_default());
        fault_of(error, &format!("read {title}"))
    })
}

/// Reads an object once more, after another writer has changed it. `None` when it is gone, also when another one has
/// taken its name: a decision about the one must not be written into the other.
pub async fn read_again<K>(api: &Api<K>, known: &K) -> Result<Option<K>, Fault>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    let fresh = get(api, known.meta().name.as_deref().unwrap_or_default()).await?;
    Ok(fresh.filter(|fresh| fresh.meta().uid == known.meta().uid))
}

/// Reads all objects that match `labels` (empty: all), page by page, ordered by namespace and name.
pub async fn list<K>(api: &Api<K>, labels: &str) -> Result<Vec<K>, Fault>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    list_all(api, ListParams::default().labels(labels)).await
}

/// Reads all objects that match a selector of fields, as [`list`] does.
pub async fn list_by<K>(api: &Api<K>, fields: &str) -> Result<Vec<K>, Fault>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    list_all(api, ListParams::default().fields(fields)).await
}

async fn list_all<K>(api: &Api<K>, params: ListParams) -> Result<Vec<K>, Fault>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    let mut params = params.limit(PAGE_SIZE);
    let mut objects = Vec::new();
    loop {
        let page = api
            .list(&params)
            .await
            .map_err(|error| fault_of(error, &format!("list {}", K::plural(&()))))?;
        objects.extend(page.items);
        match page.metadata.continue_ {
            Some(token) if !token.is_empty() => params = params.continue_token(&token),
            _ => break,
        }
    }
    objects.sort_by(|a, b| (&a.meta().namespace, &a.meta().name).cmp(&(&b.meta().namespace, &b.meta().name)));
    Ok(objects)
}
