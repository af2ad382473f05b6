//! A flood of requests of one user, and the requests of others meanwhile.

use std::sync::Arc;

use cluster_apiserver::kind::Review;
use cluster_apiserver::schema::Schema;
use cluster_apiserver::{Kind, ResourceInfo, Status};
use futures::future::{BoxFuture, join_all};
use http::{Method, Request};
use kube::Client;
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::server::{get, post, start_with};

const SLOW: &str = "/apis/example.org/v1/slows";

/// A kind whose objects are created when the test releases them.
struct Slow {
    info: ResourceInfo,
    gate: Arc<Semaphore>,
}

impl Kind for Slow {
    fn resource(&self) -> &ResourceInfo {
        &self.info
    }

    fn schema(&self, _version: &str) -> Option<Schema> {
        None
    }

    fn review<'a>(&'a self, _review: Review<'a>) -> BoxFuture<'a, Result<Vec<String>, Status>> {
        Box::pin(async move {
            self.gate.acquire().await.expect("never closed").forget();
            Ok(Vec::new())
        })
    }
}

async fn create(client: Client, name: String) -> (u16, Option<String>) {
    let body = json!({"apiVersion": "example.org/v1", "kind": "Slow", "metadata": {"name": name}});
    let request = Request::builder().method(Method::POST).uri(SLOW);
    let request = request.header("content-type", "application/json");
    let request = request
        .body(kube::client::Body::from(body.to_string().into_bytes()))
        .unwrap();
    let response = client.send(request).await.unwrap();
    let retry = response.headers().get("retry-after");
    let retry = retry.map(|value| value.to_str().unwrap().to_owned());
    (response.status().as_u16(), retry)
}

#[tokio::test]
async fn a_flood_of_one_user_delays_another_by_no_more_than_one_request() {
    let gate = Arc::new(Semaphore::new(0));
    let info = ResourceInfo::cluster("example.org", "v1", "Slow", "slows");
    let kind: Arc<dyn Kind> = Arc::new(Slow {
        info,
        gate: gate.clone(),
    });
    let server = start_with(|builder| builder.kinds([kind])).await;
    let binding = json!({
        "metadata": {"name": "all"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "people"}],
    });
    let bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    assert_eq!(post(&server.admin(), bindings, &binding).await.0, 201);

    let mut flood = JoinSet::new();
    for number in 0..500 {
        flood.spawn(create(server.user("greedy", &["people"]), format!("greedy-{number}")));
    }
    // 150 of the 200 seats are the flood's, 300 wait, and the rest is refused with Retry-After.
    for _ in 0..50 {
        assert_eq!(flood.join_next().await.unwrap().unwrap(), (429, Some("1".to_owned())));
    }
    let others: Vec<_> = (0..50)
        .map(|number| {
            tokio::spawn(create(
                server.user(&format!("other-{number}"), &["people"]),
                format!("other-{number}"),
            ))
        })
        .collect();
    // Reading has seats of its own.
    let reader = server.user("reader", &["people"]);
    assert_eq!(get(&reader, SLOW).await.0, 200);
    // Some of the others have the seats that the flood may not take, and the rest wait only for each other.
    gate.add_permits(200);
    for (code, _) in join_all(others).await.into_iter().map(Result::unwrap) {
        assert_eq!(code, 201);
    }
    gate.add_permits(300);
    while let Some(outcome) = flood.join_next().await {
        assert_eq!(outcome.unwrap().0, 201);
    }
}
