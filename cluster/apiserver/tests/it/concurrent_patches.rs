//! Concurrent patches of one object.

use std::sync::Arc;
use std::time::Duration;

use cluster_apiserver::kind::Review;
use cluster_apiserver::schema::Schema;
use cluster_apiserver::{Kind, ResourceInfo, Status};
use futures::future::{BoxFuture, join_all};
use serde_json::{Value, json};

use crate::server::{get, merge, post, start_with};

/// More than the attempts after which kube-apiserver gives up a patch of a stated version.
const PATCHES: usize = 20;

/// A kind whose writes are reviewed for a while, in which others can write.
struct Slow(ResourceInfo);

impl Kind for Slow {
    fn resource(&self) -> &ResourceInfo {
        &self.0
    }

    fn schema(&self, _version: &str) -> Option<Schema> {
        None
    }

    fn review<'a>(&'a self, _review: Review<'a>) -> BoxFuture<'a, Result<Vec<String>, Status>> {
        Box::pin(async {
            tokio::time::sleep(Duration::from_millis(10)).await;
            Ok(Vec::new())
        })
    }
}

#[tokio::test(start_paused = true)]
async fn no_patch_without_a_version_fails_because_others_write() {
    let kind: Arc<dyn Kind> = Arc::new(Slow(ResourceInfo::cluster("example.org", "v1", "Slow", "slows")));
    let server = start_with(|builder| builder.kinds([kind])).await;
    let (client, path) = (server.admin(), "/apis/example.org/v1/slows");
    let object = json!({"apiVersion": "example.org/v1", "kind": "Slow", "metadata": {"name": "a"}});
    let (code, created) = post(&client, path, &object).await;
    assert_eq!(code, 201);
    let path = format!("{path}/a");
    let patched = |body: Value| {
        let (client, path) = (client.clone(), path.clone());
        async move { merge(&client, &path, &body).await.0 }
    };
    let writer = |number: usize| patched(json!({"metadata": {"annotations": {format!("writer-{number}"): ""}}}));
    assert_eq!(join_all((0..PATCHES).map(writer)).await, [200; PATCHES]);
    let annotations = get(&client, &path).await.1["metadata"]["annotations"].clone();
    assert_eq!(annotations.as_object().unwrap().len(), PATCHES, "{annotations}");
    let stale = patched(json!({"metadata": {"resourceVersion": created["metadata"]["resourceVersion"]}}));
    assert_eq!(stale.await, 409, "a patch with a version applies to no other");
}
