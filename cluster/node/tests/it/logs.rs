//! Logs of containers, read as `kubectl logs` reads them: through the API server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use cluster_node::{ContainerContext, Exit, ImageCatalogue};
use futures::{AsyncBufReadExt, TryStreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::api::LogParams;
use serde_json::{Value, json};

use crate::cluster::{Cluster, container, is_ready};
use crate::pods::serves;

async fn log(cluster: &Cluster, query: &str) -> String {
    let path = format!("/api/v1/namespaces/ns/pods/p/log?{query}");
    let request = http::Request::get(path).body(Vec::new()).unwrap();
    cluster.client.request_text(request).await.unwrap()
}

/// Code and message of a refusal.
async fn refusal(cluster: &Cluster, path: &str) -> (u16, String) {
    let path = format!("/api/v1/namespaces/ns/pods/{path}");
    let request = http::Request::get(path).body(Vec::new()).unwrap();
    match cluster.client.request::<Value>(request).await.unwrap_err() {
        kube::Error::Api(status) => (status.code, status.message),
        other => (0, other.to_string()),
    }
}

/// Logs two lines, waits a minute, logs one more and runs on.
async fn talks(context: ContainerContext) -> Exit {
    context.log.line("one\ntwo");
    tokio::time::sleep(Duration::from_secs(60)).await;
    context.log.line("three");
    context.ready.set(true);
    context.stop.cancelled().await;
    context.log.line("asked to stop");
    Exit::done()
}

#[tokio::test(start_paused = true)]
async fn log_is_read_with_the_requested_options() {
    let cluster = Cluster::new().await;
    let _node = cluster.node("node-a", ImageCatalogue::new().with("app", talks));
    cluster.pod("p", json!({}), json!({})).await;
    cluster.pod_until("p", is_ready).await;
    for (query, expected) in [
        ("", "one\ntwo\nthree\n"),
        ("container=main&tailLines=2", "two\nthree\n"),
        ("tailLines=0", ""),
        ("sinceSeconds=30", "three\n"),
        ("sinceTime=2026-01-01T00%3A00%3A30Z", "three\n"),
        ("limitBytes=5", "one\nt"),
        ("timestamps=true&tailLines=1", "2026-01-01T00:01:00.000000000Z three\n"),
    ] {
        assert_eq!(log(&cluster, query).await, expected, "{query}");
    }
    let pods = cluster.api::<Pod>();
    let follow = LogParams {
        follow: true,
        tail_lines: Some(1),
        ..LogParams::default()
    };
    let mut lines = pods.log_stream("p", &follow).await.unwrap().lines();
    assert_eq!(lines.try_next().await.unwrap().as_deref(), Some("three"));
    pods.delete("p", &Default::default()).await.unwrap();
    assert_eq!(lines.try_next().await.unwrap().as_deref(), Some("asked to stop"));
    assert_eq!(lines.try_next().await.unwrap(), None, "it ends with its container");
}

#[tokio::test(start_paused = true)]
async fn the_previous_log_is_available_until_the_next_run_ends() {
    let cluster = Cluster::new().await;
    let runs = Arc::new(AtomicU32::new(0));
    let app = move |context: ContainerContext| {
        let run = runs.fetch_add(1, Ordering::SeqCst);
        async move {
            context.log.line(format!("run {run}"));
            if run < 2 {
                return Exit::failed(format!("no luck in run {run}"));
            }
            context.ready.set(true);
            context.stop.cancelled().await;
            Exit::done()
        }
    };
    let _node = cluster.node("node-a", ImageCatalogue::new().with("app", app));
    cluster.pod("p", json!({}), json!({})).await;
    let waits = |pod: &Pod| container(pod)["state"]["waiting"]["reason"] == "CrashLoopBackOff";
    cluster.pod_until("p", waits).await;
    for query in ["", "previous=true"] {
        let log = log(&cluster, query).await;
        assert!(
            log.starts_with("run ") && log.contains("\nno luck in run "),
            "{query}: {log}"
        );
    }
    cluster.pod_until("p", is_ready).await;
    assert_eq!(log(&cluster, "").await, "run 2\n");
    assert_eq!(log(&cluster, "previous=true").await, "run 1\nno luck in run 1\n");
}

#[tokio::test(start_paused = true)]
async fn unreadable_logs_are_refused_with_kubernetes_messages() {
    let cluster = Cluster::new().await;
    let _node = cluster.node("node-a", ImageCatalogue::new().with("app", serves));
    let two = json!({"containers": [{"name": "main", "image": "app"}, {"name": "other", "image": "missing"}],
        "initContainers": [{"name": "first", "image": "app", "restartPolicy": "Always"}]});
    cluster.pod("p", json!({}), two).await;
    let waits = |pod: &Pod| container(pod)["ready"] == true;
    cluster.pod_until("p", waits).await;
    for (path, code, message) in [
        ("none/log", 404, "pods \"none\" not found"),
        (
            "p/log",
            400,
            "a container name must be specified for pod p, choose one of: [first main other]",
        ),
        ("p/log?container=x", 400, "container x is not valid for pod p"),
        (
            "p/log?container=other",
            400,
            "container \"other\" in pod \"p\" is waiting to start: ImageNotInCatalogue",
        ),
        (
            "p/log?container=main&previous=true",
            400,
            "previous terminated container \"main\" in pod \"p\" not found",
        ),
        (
            "p/log?tailLines=x",
            400,
            "strconv.ParseInt: parsing \"x\": invalid syntax",
        ),
        (
            "p/log?container=main&tailLines=-1",
            422,
            "PodLogOptions \"p\" is invalid: tailLines: Invalid value: -1: must be greater than or equal to 0",
        ),
    ] {
        assert_eq!(refusal(&cluster, path).await, (code, message.to_owned()), "{path}");
    }
    for (path, why) in [
        (
            "p/exec?container=main&stdout=1&command=sh",
            "there is no program to run in one",
        ),
        ("p/attach?container=main", "attaches to no container"),
    ] {
        let (code, message) = refusal(&cluster, path).await;
        assert_eq!(code, 501, "{path}");
        assert!(message.contains(why), "{path}: {message}");
    }
    let plain = (400, "Upgrade request required".to_owned());
    assert_eq!(refusal(&cluster, "p/portforward").await, plain);
    cluster.pod("elsewhere", json!({}), json!({"nodeName": "node-z"})).await;
    let expected = (404, "pods \"node-z\" not found".to_owned());
    assert_eq!(refusal(&cluster, "elsewhere/log").await, expected);
}

#[tokio::test(start_paused = true)]
async fn simulated_container_logs_that_it_is_simulated() {
    let cluster = Cluster::new().await;
    let _node = cluster.node("node-a", ImageCatalogue::new().simulating());
    cluster.pod("p", json!({"image": "nginx:1"}), json!({})).await;
    cluster.pod_until("p", is_ready).await;
    let log = log(&cluster, "").await;
    assert_eq!(
        log,
        "simulated: this node has no implementation of the image nginx:1 and only shows it as running\n"
    );
}
