//! Ports of programs, as others reach them.

use http::Request;
use k8s_openapi::api::core::v1::Service;
use serde_json::json;

use crate::cluster::{World, free_port, is_ready};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_port_is_probed_and_reached_through_a_service() {
    let world = World::new(&[]).await;
    let port = free_port();
    let fields = json!({
        "args": ["serve", port.to_string()],
        "ports": [{"name": "web", "containerPort": port}],
        "readinessProbe": {"httpGet": {"port": "web", "path": "/healthz"}, "periodSeconds": 1},
    });
    world.pod("p", "testee", fields, json!({})).await;
    world.pod_until("p", is_ready).await;
    let service = json!({"metadata": {"name": "web"}, "spec": {
        "selector": {"app": "p"}, "ports": [{"port": 80, "targetPort": "web"}],
    }});
    world.create::<Service>(service).await;
    let request = async {
        loop {
            let request = Request::get("/api/v1/namespaces/ns/services/web:80/proxy/hello").body(Vec::new());
            match world.cluster.client().request_text(request.unwrap()).await {
                Ok(answer) => return answer,
                // Its endpoints are written by a controller.
                Err(_) => tokio::time::sleep(std::time::Duration::from_millis(100)).await,
            }
        }
    };
    let answer = tokio::time::timeout(crate::cluster::PATIENCE, request).await.unwrap();
    assert!(answer.starts_with("p to 127.0.0.1 for GET /hello"), "{answer}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_port_that_is_taken_is_an_event_that_names_the_holder() {
    let world = World::new(&[]).await;
    let port = free_port();
    let fields = json!({"args": ["serve", port.to_string()], "ports": [{"containerPort": port}]});
    world.pod("first", "testee", fields.clone(), json!({})).await;
    world.logged("first", "serving").await;
    world.pod("second", "testee", fields, json!({})).await;
    let message = world.event("second", "PortTaken").await;
    let expected = format!("port {port} is taken by container main of pod ns/first: programs share the ports");
    assert!(message.starts_with(&expected), "{message}");
}
