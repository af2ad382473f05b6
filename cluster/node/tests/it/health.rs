//! Probes, hooks, sidecars and deadlines of pods, in virtual time.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use base_client::{HttpService, empty_body};
use cluster_node::{ContainerContext, Endpoint, Exit, ImageCatalogue};
use http::{Request, Response};
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::{DeleteParams, ListParams};
use kube::client::Body;
use serde_json::json;
use tokio::sync::mpsc;

use crate::cluster::{Cluster, condition, container, is_ready};
use crate::pods::serves;

/// Answers 200 on `/good`, on every path while the switch is on, else 500.
fn web(good: Arc<AtomicBool>) -> Endpoint {
    Endpoint::Http(HttpService::new(tower::service_fn(move |request: Request<Body>| {
        let good = good.load(Ordering::SeqCst) || request.uri().path() == "/good";
        async move {
            let mut response = Response::new(empty_body());
            *response.status_mut() = if good { 200 } else { 500 }.try_into().unwrap();
            Ok::<_, Infallible>(response)
        }
    })))
}

/// Serves on port 80 until it is stopped; it never reports itself that it is ready.
fn website(good: Arc<AtomicBool>) -> impl cluster_node::Image {
    move |context: ContainerContext| {
        let good = good.clone();
        async move {
            let _bound = context.network.bind(80, web(good)).unwrap();
            context.stop.cancelled().await;
            Exit::done()
        }
    }
}

async fn events(cluster: &Cluster, reason: &str) -> Vec<String> {
    let events = cluster.api::<Event>().list(&ListParams::default()).await.unwrap();
    let matching = events
        .into_iter()
        .filter(|event| event.reason.as_deref() == Some(reason));
    matching.filter_map(|event| event.message).collect()
}

#[tokio::test(start_paused = true)]
async fn pod_is_ready_while_its_probe_succeeds() {
    let cluster = Cluster::new().await;
    let good = Arc::new(AtomicBool::new(false));
    let catalogue = ImageCatalogue::new().with_probed("app", website(good.clone()));
    let _node = cluster.node("node-a", catalogue);
    let probe = json!({"httpGet": {"port": 80, "path": "/ready"}, "periodSeconds": 5, "failureThreshold": 2});
    cluster.pod("p", json!({"readinessProbe": probe}), json!({})).await;
    let runs = |pod: &Pod| container(pod)["state"]["running"].is_object();
    let pod = cluster.pod_until("p", runs).await;
    assert_eq!(condition(&pod, "Ready"), "False");
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(
        events(&cluster, "Unhealthy").await,
        ["Readiness probe failed: HTTP probe failed with statuscode: 500"]
    );
    good.store(true, Ordering::SeqCst);
    cluster.pod_until("p", is_ready).await;
    good.store(false, Ordering::SeqCst);
    let begun = cluster.clock.now();
    cluster.pod_until("p", |pod| !is_ready(pod)).await;
    let took = cluster.clock.since(begun).as_secs();
    assert!((5..=10).contains(&took), "two answers of five seconds each: {took}");
    assert_eq!(container(&cluster.pod_until("p", runs).await)["restartCount"], 0);
}

#[tokio::test(start_paused = true)]
async fn a_failed_liveness_probe_restarts_the_container_with_growing_pauses() {
    let cluster = Cluster::new().await;
    let good = Arc::new(AtomicBool::new(true));
    let catalogue = ImageCatalogue::new().with_probed("app", website(good.clone()));
    let _node = cluster.node("node-a", catalogue);
    let liveness = json!({"httpGet": {"port": 80, "path": "/live"}, "periodSeconds": 1, "failureThreshold": 3});
    let readiness = json!({"tcpSocket": {"port": 80}, "periodSeconds": 1});
    // It is started again even with code 0.
    let spec = json!({"restartPolicy": "OnFailure"});
    let probes = json!({"livenessProbe": liveness, "readinessProbe": readiness});
    cluster.pod("p", probes, spec).await;
    cluster.pod_until("p", is_ready).await;
    good.store(false, Ordering::SeqCst);
    let restarts = |count: i64| move |pod: &Pod| container(pod)["restartCount"] == count;
    let waits = |pod: &Pod| container(pod)["state"]["waiting"]["reason"] == "CrashLoopBackOff";
    cluster.pod_until("p", restarts(1)).await;
    let pod = cluster.pod_until("p", |pod| restarts(3)(pod) && waits(pod)).await;
    let message = container(&pod)["state"]["waiting"]["message"].to_string();
    assert!(
        message.contains("back-off 20s restarting failed container=main"),
        "{message}"
    );
    let messages = events(&cluster, "Killing").await;
    assert!(
        messages.contains(&"Container main failed liveness probe, will be restarted".to_owned()),
        "{messages:?}"
    );
    good.store(true, Ordering::SeqCst);
    cluster.pod_until("p", is_ready).await;
}

#[tokio::test(start_paused = true)]
async fn a_slow_start_has_the_time_that_its_startup_probe_gives() {
    let cluster = Cluster::new().await;
    let slow = |context: ContainerContext| async move {
        tokio::time::sleep(Duration::from_secs(40)).await;
        let _bound = context.network.bind(80, web(Arc::default())).unwrap();
        context.stop.cancelled().await;
        Exit::done()
    };
    let _node = cluster.node("node-a", ImageCatalogue::new().with_probed("app", slow));
    let http = |threshold: i32| {
        let get = json!({"port": 80, "path": "/good"});
        json!({"httpGet": get, "periodSeconds": 5, "failureThreshold": threshold})
    };
    cluster
        .pod(
            "p",
            json!({"startupProbe": http(10), "livenessProbe": http(1)}),
            json!({}),
        )
        .await;
    let starts = |pod: &Pod| container(pod)["state"]["running"].is_object();
    let pod = cluster.pod_until("p", starts).await;
    assert_eq!(
        (container(&pod)["started"].clone(), is_ready(&pod)),
        (json!(false), false)
    );
    let pod = cluster.pod_until("p", is_ready).await;
    let status = container(&pod);
    assert_eq!(
        (status["started"].clone(), status["restartCount"].clone()),
        (json!(true), json!(0))
    );
    let impatient = json!({"nodeName": "node-a", "terminationGracePeriodSeconds": 1});
    cluster.pod("q", json!({"startupProbe": http(2)}), impatient).await;
    cluster.pod_until("q", |pod| container(pod)["restartCount"] == 1).await;
}

#[tokio::test(start_paused = true)]
async fn hook_runs_before_the_container_is_stopped() {
    let cluster = Cluster::new().await;
    let (sender, mut received) = mpsc::unbounded_channel();
    let clock = cluster.clock.clone();
    let app = move |context: ContainerContext| {
        let (sender, clock) = (sender.clone(), clock.clone());
        async move {
            context.ready.set(true);
            context.stop.cancelled().await;
            sender.send(clock.now()).unwrap();
            Exit::done()
        }
    };
    let _node = cluster.node("node-a", ImageCatalogue::new().with("app", app));
    let pause = |seconds: i64| json!({"lifecycle": {"preStop": {"sleep": {"seconds": seconds}}}});
    for (name, hook, grace, took) in [("p", 10, 30, 10), ("q", 25, 5, 5)] {
        cluster
            .pod(name, pause(hook), json!({"terminationGracePeriodSeconds": 30}))
            .await;
        cluster.pod_until(name, is_ready).await;
        let begun = cluster.clock.now();
        let params = DeleteParams::default().grace_period(grace);
        cluster.api::<Pod>().delete(name, &params).await.unwrap();
        cluster.pod_gone(name).await;
        let delay = received.try_recv().map(|at| (at - begun).get_seconds());
        // A container whose time is up while the hook runs is not stopped gracefully any more.
        assert!(delay.is_err() || delay == Ok(took), "{name}: {delay:?}");
        let gone = cluster.clock.since(begun).as_secs();
        assert!((took as u64..=took as u64 + 1).contains(&gone), "{name}: {gone}");
    }
}

#[tokio::test(start_paused = true)]
async fn sidecars_start_first_and_end_last() {
    let cluster = Cluster::new().await;
    let (sender, mut received) = mpsc::unbounded_channel();
    let app = move |context: ContainerContext| {
        let sender = sender.clone();
        async move {
            let name = context.container.name.clone();
            sender.send(format!("+{name}")).unwrap();
            context.ready.set(true);
            match name.as_str() {
                "main" => tokio::time::sleep(Duration::from_secs(5)).await,
                "init" => {}
                _ => context.stop.cancelled().await,
            }
            sender.send(format!("-{name}")).unwrap();
            Exit::done()
        }
    };
    let _node = cluster.node("node-a", ImageCatalogue::new().with("app", app));
    let sidecar = |name: &str| json!({"name": name, "image": "app", "restartPolicy": "Always"});
    let init = json!([sidecar("a"), {"name": "init", "image": "app"}, sidecar("b")]);
    cluster
        .pod(
            "p",
            json!({}),
            json!({"restartPolicy": "Never", "initContainers": init}),
        )
        .await;
    let over = |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Succeeded");
    let pod = cluster.pod_until("p", over).await;
    let mut order = Vec::new();
    while let Ok(line) = received.try_recv() {
        order.push(line);
    }
    assert_eq!(order, ["+a", "+init", "-init", "+b", "+main", "-main", "-b", "-a"]);
    let status = pod.status.unwrap();
    let states = status.init_container_statuses.unwrap();
    assert!(
        states
            .iter()
            .all(|one| one.state.as_ref().is_some_and(|state| state.terminated.is_some()))
    );
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_runs_for_longer_than_it_may_fails() {
    let cluster = Cluster::new().await;
    let runs = Arc::new(AtomicU32::new(0));
    let counted = runs.clone();
    let app = move |context: ContainerContext| {
        counted.fetch_add(1, Ordering::SeqCst);
        serves(context)
    };
    let _node = cluster.node("node-a", ImageCatalogue::new().with("app", app));
    let begun = cluster.clock.now();
    cluster.pod("p", json!({}), json!({"activeDeadlineSeconds": 30})).await;
    let failed = |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Failed");
    let pod = cluster.pod_until("p", failed).await;
    assert_eq!(cluster.clock.since(begun).as_secs(), 30);
    let status = pod.status.clone().unwrap();
    assert_eq!(status.reason.as_deref(), Some("DeadlineExceeded"));
    let message = "Pod was active on the node longer than the specified deadline";
    assert_eq!(status.message.as_deref(), Some(message));
    assert!(container(&pod)["state"]["terminated"].is_object());
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn a_container_runs_after_its_hook_and_the_next_waits_for_it() {
    let cluster = Cluster::new().await;
    let (sender, mut received) = mpsc::unbounded_channel();
    let app = move |context: ContainerContext| {
        let sender = sender.clone();
        async move {
            sender
                .send((context.container.name.clone(), context.clock.now()))
                .unwrap();
            // Whatever code it answers.
            let _bound = context.network.bind(80, web(Arc::new(AtomicBool::new(false))));
            context.ready.set(true);
            context.stop.cancelled().await;
            Exit::done()
        }
    };
    let _node = cluster.node("node-a", ImageCatalogue::new().with("app", app));
    let hook = json!({"postStart": {"httpGet": {"port": 80, "path": "/x"}}});
    let pause = json!({"postStart": {"sleep": {"seconds": 7}}});
    let begun = cluster.clock.now();
    let more = json!([
        {"name": "main", "image": "app", "lifecycle": pause}, {"name": "next", "image": "app", "lifecycle": hook},
    ]);
    cluster.pod("p", json!({}), json!({"containers": more})).await;
    let waits = |pod: &Pod| container(pod)["state"]["waiting"]["reason"] == "ContainerCreating";
    let pod = cluster
        .pod_until("p", |pod| {
            pod.status.as_ref().is_some_and(|status| status.pod_ip.is_some())
        })
        .await;
    assert!(waits(&pod), "{:?}", pod.status);
    assert_eq!(pod.status.unwrap().phase.as_deref(), Some("Pending"));
    cluster.pod_until("p", is_ready).await;
    let mut started = Vec::new();
    while let Ok((name, at)) = received.try_recv() {
        started.push((name, (at - begun).get_seconds()));
    }
    assert_eq!(started, [("main".to_owned(), 0), ("next".to_owned(), 7)]);
    assert!(events(&cluster, "FailedPostStartHook").await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_container_whose_hook_fails_is_stopped_and_started_again() {
    let cluster = Cluster::new().await;
    let runs = Arc::new(AtomicU32::new(0));
    let counted = runs.clone();
    let app = move |context: ContainerContext| {
        let run = counted.fetch_add(1, Ordering::SeqCst);
        async move {
            // Its first run listens nowhere.
            let good = Arc::new(AtomicBool::new(true));
            let _bound = (run > 0).then(|| context.network.bind(80, web(good)).unwrap());
            context.ready.set(true);
            context.stop.cancelled().await;
            Exit::done()
        }
    };
    let _node = cluster.node("node-a", ImageCatalogue::new().with("app", app));
    let hook = json!({"lifecycle": {"postStart": {"httpGet": {"port": 80}}}});
    cluster.pod("p", hook, json!({})).await;
    let pod = cluster.pod_until("p", is_ready).await;
    assert_eq!(container(&pod)["restartCount"], 1);
    assert_eq!(events(&cluster, "FailedPostStartHook").await, ["PostStartHook failed"]);
    assert_eq!(runs.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn event_reports_that_a_hook_with_a_command_is_left_out() {
    let cluster = Cluster::new().await;
    let _node = cluster.node("node-a", ImageCatalogue::new().with("app", serves));
    let hook = json!({"lifecycle": {"postStart": {"exec": {"command": ["true"]}}}});
    cluster.pod("p", hook, json!({})).await;
    cluster.pod_until("p", is_ready).await;
    let messages = events(&cluster, "PostStartHookLeftOut").await;
    assert!(
        messages.len() == 1 && messages[0].contains("no program"),
        "{messages:?}"
    );
}
