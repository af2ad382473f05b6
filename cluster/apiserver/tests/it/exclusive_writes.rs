//! Writes that are validated against other objects are validated and stored one after the other.

use std::sync::Arc;
use std::time::Duration;

use cluster_apiserver::kind::{Call, Operation, Review};
use cluster_apiserver::schema::Schema;
use cluster_apiserver::{Kind, ResourceInfo, Status};
use futures::future::BoxFuture;
use serde_json::{Value, json};

use crate::server::{delete, get, post, start_with};

/// A kind with at most one object, which its review checks for a while.
struct Only {
    info: ResourceInfo,
    exclusive: bool,
}

impl Kind for Only {
    fn resource(&self) -> &ResourceInfo {
        &self.info
    }

    fn schema(&self, _version: &str) -> Option<Schema> {
        None
    }

    fn exclusive(&self, _call: &Call<'_>) -> bool {
        self.exclusive
    }

    fn review<'a>(&'a self, review: Review<'a>) -> BoxFuture<'a, Result<Vec<String>, Status>> {
        Box::pin(async move {
            let others = review.objects.list("example.org", &self.info.plural, None).await?;
            tokio::time::sleep(Duration::from_secs(1)).await;
            let there = usize::from(review.call.operation == Operation::Delete);
            if others.len() == there {
                Ok(Vec::new())
            } else {
                Err(Status::forbidden(
                    "example.org",
                    &self.info.plural,
                    review.call.name,
                    "there is one",
                ))
            }
        })
    }
}

/// The codes of two concurrent creates, and how many objects there are then.
async fn created_at_once(exclusive: bool) -> (Vec<u16>, usize) {
    let info = ResourceInfo::cluster("example.org", "v1", "Only", "onlies");
    let kind: Arc<dyn Kind> = Arc::new(Only { info, exclusive });
    let server = start_with(|builder| builder.kinds([kind])).await;
    let (client, path) = (server.admin(), "/apis/example.org/v1/onlies");
    let made = |name: &str| json!({"apiVersion": "example.org/v1", "kind": "Only", "metadata": {"name": name}});
    let (a, b): (Value, Value) = (made("a"), made("b"));
    let (one, other) = tokio::join!(post(&client, path, &a), post(&client, path, &b));
    let there = get(&client, path).await.1["items"].as_array().unwrap().clone();
    if let [only] = &there[..] {
        let name = only["metadata"]["name"].as_str().unwrap();
        assert_eq!(delete(&client, &format!("{path}/{name}")).await.0, 200);
        assert_eq!(post(&client, path, &a).await.0, 201);
    }
    let mut codes = vec![one.0, other.0];
    codes.sort_unstable();
    (codes, there.len())
}

#[tokio::test(start_paused = true)]
async fn of_two_exclusive_creates_one_is_stored() {
    assert_eq!(created_at_once(true).await, (vec![201, 403], 1));
    assert_eq!(
        created_at_once(false).await,
        (vec![201, 201], 2),
        "a kind that is not exclusive waits for no other write"
    );
}
