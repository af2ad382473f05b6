//! Writers at the same time, in real time and on several threads: what is refused one after the other is refused here.

use http::Method;
use serde_json::{Value, json};

use crate::SHOOTS;
use crate::garden::{Garden, registration, shoot};

const CORE: &str = "/apis/core.gardener.cloud/v1beta1";
/// Without an order between writers, one round in five goes wrong or more.
const ROUNDS: usize = 40;
/// How many do the same at once.
const WRITERS: usize = 8;

/// How many of these requests at once succeed.
async fn succeed(garden: &Garden, requests: impl IntoIterator<Item = (Method, String, Value)>) -> usize {
    let send = |(method, path, body): (Method, String, Value)| {
        let garden = garden.clone();
        tokio::spawn(async move { garden.call(method, &path, &body).await.0 })
    };
    let codes: Vec<_> = requests.into_iter().map(send).collect();
    let mut successes = 0;
    for code in codes {
        successes += usize::from((200..300).contains(&code.await.unwrap()));
    }
    successes
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_several_primaries_at_once_one_is_taken() {
    let garden = Garden::with_landscape().await;
    for round in 0..ROUNDS {
        let requests = (0..WRITERS).map(|writer| {
            let body = registration(&format!("r-{round}-{writer}"), &[("Worker", &format!("type-{round}"))]);
            (Method::POST, format!("{CORE}/controllerregistrations"), body)
        });
        assert_eq!(succeed(&garden, requests).await, 1, "round {round}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_several_projects_at_once_one_gets_the_namespace() {
    let garden = Garden::with_landscape().await;
    for round in 0..ROUNDS {
        let requests = (0..WRITERS).map(|writer| {
            let name = format!("p-{round}-{writer}");
            let body = json!({"metadata": {"name": name}, "spec": {"namespace": format!("garden-{round}")}});
            (Method::POST, format!("{CORE}/projects"), body)
        });
        assert_eq!(succeed(&garden, requests).await, 1, "round {round}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_binding_that_goes_is_named_by_no_new_shoot() {
    let garden = Garden::with_landscape().await;
    let bindings = "/apis/security.gardener.cloud/v1alpha1/namespaces/garden-p/credentialsbindings";
    for round in 0..ROUNDS {
        let name = format!("b-{round}");
        let binding = json!({"metadata": {"name": name}, "provider": {"type": "prov"},
            "credentialsRef": {"apiVersion": "v1", "kind": "Secret", "name": "c", "namespace": "garden-p"}});
        garden.ok(Method::POST, bindings, &binding).await;
        let mut named = shoot(&format!("s-{round}"));
        named["spec"]["credentialsBindingName"] = json!(name);
        let create = (Method::POST, SHOOTS.to_owned(), named);
        let delete = (Method::DELETE, format!("{bindings}/{name}"), Value::Null);
        assert_eq!(succeed(&garden, [create, delete]).await, 1, "round {round}");
    }
}
