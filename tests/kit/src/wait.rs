//! Waiting by watch, bounded in virtual time.

use std::fmt::Debug;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use kube::api::{Api, WatchEvent, WatchParams};
use kube::core::Resource;
use serde::de::DeserializeOwned;

/// How long a wait lasts at most, in virtual time: longer than any healthy controller, and free under a paused clock.
pub const WAIT_MAX: Duration = Duration::from_secs(600);

/// Waits until the named object satisfies `condition`, and returns it.
///
/// # Panics
/// After [`WAIT_MAX`], with the last state of the object.
pub async fn until<K>(api: &Api<K>, name: &str, what: &str, condition: impl Fn(&K) -> bool) -> K
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let found = observe(api, name, |object| object.filter(|object| condition(object)).cloned());
    match tokio::time::timeout(WAIT_MAX, found).await {
        Ok(found) => found,
        Err(_) => {
            let last = api.get_opt(name).await;
            panic!("{name} never became {what}; last seen: {last:#?}");
        }
    }
}

/// Waits until the named object is gone.
///
/// # Panics
/// After [`WAIT_MAX`].
pub async fn until_gone<K>(api: &Api<K>, name: &str)
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let gone = observe(api, name, |object| object.is_none().then_some(()));
    if tokio::time::timeout(WAIT_MAX, gone).await.is_err() {
        let last = api.get_opt(name).await;
        panic!("{name} never went away; last seen: {last:#?}");
    }
}

async fn observe<K, T>(api: &Api<K>, name: &str, check: impl Fn(Option<&K>) -> Option<T>) -> T
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let only = WatchParams::default().fields(&format!("metadata.name={name}"));
    loop {
        let list = api.list(&only_list(name)).await.expect("the object can be listed");
        if let Some(done) = check(list.items.first()) {
            return done;
        }
        let version = list.metadata.resource_version.unwrap_or_default();
        let mut events = api
            .watch(&only, &version)
            .await
            .expect("the object can be watched")
            .boxed();
        while let Ok(Some(event)) = events.try_next().await {
            let outcome = match &event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => check(Some(object)),
                WatchEvent::Deleted(_) => check(None),
                WatchEvent::Bookmark(_) => None,
                WatchEvent::Error(_) => break,
            };
            if let Some(done) = outcome {
                return done;
            }
        }
    }
}

fn only_list(name: &str) -> kube::api::ListParams {
    kube::api::ListParams::default().fields(&format!("metadata.name={name}"))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::api::{DeleteParams, PostParams};

    use super::*;
    use crate::embedded;

    #[tokio::test(start_paused = true)]
    async fn a_wait_returns_the_object_and_takes_no_real_time() {
        let server = embedded().await;
        let api: Api<ConfigMap> = Api::default_namespaced(server.admin());
        let writer = api.clone();
        let later = async move {
            tokio::time::sleep(Duration::from_secs(300)).await;
            let map = ConfigMap {
                metadata: kube::core::ObjectMeta {
                    name: Some("a".to_owned()),
                    ..Default::default()
                },
                ..ConfigMap::default()
            };
            writer
                .create(&PostParams::default(), &map)
                .await
                .expect("the map is created");
            tokio::time::sleep(Duration::from_secs(300)).await;
            writer
                .delete("a", &DeleteParams::default())
                .await
                .expect("the map is deleted");
        };
        let waits = async {
            let found = until(&api, "a", "there", |_| true).await;
            until_gone(&api, "a").await;
            found
        };
        let ((), found) = tokio::join!(later, waits);
        assert_eq!(found.metadata.name.as_deref(), Some("a"));
        let masters = server
            .server
            .audit()
            .records()
            .iter()
            .any(|r| r.groups.iter().any(|g| g == "system:masters"));
        assert!(!masters, "the admin is no system:masters");
    }
}
