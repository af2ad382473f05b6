//! One pod from its binding to its end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use base_client::{Injected, inject_faults};
use cluster_node::{ContainerContext, Exit, ImageCatalogue};
use k8s_openapi::api::core::v1::{ConfigMap, Event, Pod, Secret};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};

use crate::cluster::{Cluster, condition, container, is_ready};

/// An image that is ready at once and runs until it is stopped.
pub(crate) async fn serves(context: ContainerContext) -> Exit {
    context.ready.set(true);
    context.stop.cancelled().await;
    Exit::done()
}

#[tokio::test(start_paused = true)]
async fn a_pod_starts_reports_and_confirms_its_deletion() {
    let cluster = Cluster::new().await;
    let (sender, mut received) = mpsc::unbounded_channel();
    let app = move |context: ContainerContext| {
        let sender = sender.clone();
        async move {
            let flag = context.args.join(" ");
            sender.send(format!("{flag} on {}", context.network.pod_ip())).unwrap();
            context.ready.set(true);
            context.stop.cancelled().await;
            sender.send("stopped".to_owned()).unwrap();
            Exit::done()
        }
    };
    let _node = cluster.node("node-a", ImageCatalogue::new().with("app", app));
    let env = json!([{"name": "WHO", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]);
    cluster
        .pod("p", json!({"args": ["--name=$(WHO)"], "env": env}), json!({}))
        .await;

    let pod = cluster.pod_until("p", is_ready).await;
    let status = pod.status.clone().unwrap();
    let ip = status.pod_ip.unwrap();
    assert_eq!(received.recv().await.unwrap(), format!("--name=p on {ip}"));
    assert_eq!(
        (status.phase.as_deref(), status.host_ip.as_deref()),
        (Some("Running"), Some("192.0.2.1"))
    );
    for type_ in [
        "Initialized",
        "ContainersReady",
        "PodScheduled",
        "PodReadyToStartContainers",
    ] {
        assert_eq!(condition(&pod, type_), "True", "{type_}");
    }
    assert_eq!(container(&pod)["restartCount"], 0);

    cluster
        .api::<Pod>()
        .delete("p", &DeleteParams::default())
        .await
        .unwrap();
    cluster.pod_gone("p").await;
    assert_eq!(received.recv().await.unwrap(), "stopped");
}

#[tokio::test(start_paused = true)]
async fn a_container_that_does_not_stop_is_killed_after_its_grace_period() {
    let cluster = Cluster::new().await;
    let deaf = |context: ContainerContext| async move {
        context.ready.set(true);
        std::future::pending::<Exit>().await
    };
    let _node = cluster.node("node-a", ImageCatalogue::new().with("app", deaf));
    cluster
        .pod("p", json!({}), json!({"terminationGracePeriodSeconds": 20}))
        .await;
    cluster.pod_until("p", is_ready).await;
    let before = cluster.clock.now();
    cluster
        .api::<Pod>()
        .delete("p", &DeleteParams::default())
        .await
        .unwrap();
    cluster.pod_gone("p").await;
    let took = cluster.clock.since(before);
    assert!((20..22).contains(&took.as_secs()), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn what_falls_due_while_the_status_is_written_is_done_afterwards() {
    let cluster = Cluster::new().await;
    let slow = inject_faults(cluster.client.clone(), |call| match call.subresource.as_deref() {
        Some("status") if call.resource == "pods" => Injected::Delay(Duration::from_secs(15)),
        _ => Injected::Pass,
    });
    let runs = Arc::new(AtomicU32::new(0));
    let app = move |context: ContainerContext| {
        let run = runs.fetch_add(1, Ordering::SeqCst);
        async move {
            assert!(run > 1, "no luck in run {run}");
            context.ready.set(true);
            // It is deaf as well.
            std::future::pending::<Exit>().await
        }
    };
    let _node = cluster.node_with("node-a", ImageCatalogue::new().with("app", app), slow);
    cluster
        .pod("p", json!({}), json!({"terminationGracePeriodSeconds": 5}))
        .await;
    let ready = cluster.pod_until("p", is_ready).await;
    assert_eq!(container(&ready)["restartCount"], 2);
    let pods = cluster.api::<Pod>();
    pods.delete("p", &DeleteParams::default()).await.unwrap();
    cluster.pod_gone("p").await;
}

#[tokio::test(start_paused = true)]
async fn a_crash_is_reported_and_restarted_with_growing_pauses() {
    let cluster = Cluster::new().await;
    let runs = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&runs);
    let app = move |context: ContainerContext| {
        let run = counted.fetch_add(1, Ordering::SeqCst);
        async move {
            assert!(run > 1, "no luck in run {run}");
            serves(context).await
        }
    };
    let _node = cluster.node("node-a", ImageCatalogue::new().with("app", app));
    let before = cluster.clock.now();
    cluster.pod("p", json!({}), json!({})).await;
    let waiting = cluster
        .pod_until("p", |pod| {
            container(pod)["state"]["waiting"]["reason"] == "CrashLoopBackOff"
        })
        .await;
    let last = container(&waiting)["lastState"]["terminated"].clone();
    assert_eq!((&last["exitCode"], &last["reason"]), (&json!(255), &json!("Error")));
    assert_eq!(last["message"], "crashed: no luck in run 1");
    assert_eq!(condition(&waiting, "Ready"), "False");
    let ready = cluster.pod_until("p", is_ready).await;
    assert_eq!(container(&ready)["restartCount"], 2);
    assert_eq!(cluster.clock.since(before).as_secs(), 10);
}

#[tokio::test(start_paused = true)]
async fn init_containers_run_first_and_one_after_the_other() {
    let cluster = Cluster::new().await;
    let (sender, mut received) = mpsc::unbounded_channel();
    let init = move |context: ContainerContext| {
        let sender = sender.clone();
        async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            context
                .files
                .write("/shared/by", context.container.name.clone())
                .unwrap();
            sender.send(context.container.name.clone()).unwrap();
            Exit::done()
        }
    };
    let app = |context: ContainerContext| async move {
        let by = context.files.read_text("/shared/by").unwrap_or_default();
        assert_eq!(by, "two");
        serves(context).await
    };
    let _node = cluster.node("node-a", ImageCatalogue::new().with("init", init).with("app", app));
    let mounts = json!([{"name": "shared", "mountPath": "/shared"}]);
    let inits = ["one", "two"].map(|name| json!({"name": name, "image": "init", "volumeMounts": mounts}));
    let spec = json!({"initContainers": inits, "volumes": [{"name": "shared", "emptyDir": {}}]});
    cluster.pod("p", json!({"volumeMounts": mounts}), spec).await;
    let waiting = cluster
        .pod_until("p", |pod| {
            container(pod)["state"]["waiting"]["reason"] == "PodInitializing"
        })
        .await;
    assert_eq!(waiting.status.unwrap().phase.as_deref(), Some("Pending"));
    let pod = cluster.pod_until("p", is_ready).await;
    assert_eq!(
        (received.recv().await.as_deref(), received.recv().await.as_deref()),
        (Some("one"), Some("two"))
    );
    assert_eq!(container(&pod)["restartCount"], 0);
}

#[tokio::test(start_paused = true)]
async fn pod_with_an_image_outside_the_catalogue_waits_and_reports_it() {
    let cluster = Cluster::new().await;
    let _node = cluster.node("node-a", ImageCatalogue::new());
    cluster
        .pod("p", json!({"image": "example.org/other:v1"}), json!({}))
        .await;
    let pod = cluster
        .pod_until("p", |pod| {
            container(pod)["state"]["waiting"]["reason"] == "ImageNotInCatalogue"
        })
        .await;
    assert_eq!(pod.status.unwrap().phase.as_deref(), Some("Pending"));
    assert_eq!(reasons(&cluster).await, ["ImageNotInCatalogue"]);
}

#[tokio::test(start_paused = true)]
async fn a_simulating_node_shows_the_pod_as_ready_and_marks_it() {
    let cluster = Cluster::new().await;
    let _node = cluster.node("node-a", ImageCatalogue::new().simulating());
    cluster.pod("p", json!({"image": "nginx:1"}), json!({})).await;
    let pod = cluster.pod_until("p", is_ready).await;
    assert_eq!(pod.metadata.annotations.unwrap()["node.orangery.dev/simulated"], "true");
    assert!(reasons(&cluster).await.contains(&"SimulatedImage".to_owned()));
    cluster
        .api::<Pod>()
        .delete("p", &DeleteParams::default())
        .await
        .unwrap();
    cluster.pod_gone("p").await;
}

#[tokio::test(start_paused = true)]
async fn ordinary_init_containers_of_a_simulated_pod_end_and_sidecars_run() {
    let cluster = Cluster::new().await;
    let _node = cluster.node("node-a", ImageCatalogue::new().simulating());
    let init = |name: &str, more: serde_json::Value| {
        let mut container = json!({"name": name, "image": "busybox:1"});
        container
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        container
    };
    let containers = json!({"initContainers": [
        init("first", json!({})),
        init("sidecar", json!({"restartPolicy": "Always"})),
        init("last", json!({})),
    ]});
    cluster.pod("p", json!({"image": "nginx:1"}), containers).await;
    let pod = cluster.pod_until("p", is_ready).await;
    let status = pod.status.unwrap();
    assert_eq!(status.phase.as_deref(), Some("Running"));
    let states = status.init_container_statuses.unwrap().into_iter().map(|one| {
        let state = one.state.unwrap();
        let ended = state.terminated.and_then(|ended| ended.reason);
        (
            one.name,
            ended
                .or(state.running.map(|_| "Running".to_owned()))
                .unwrap_or_default(),
        )
    });
    let expected = [("first", "Completed"), ("sidecar", "Running"), ("last", "Completed")];
    let expected = expected.map(|(name, state)| (name.to_owned(), state.to_owned()));
    assert_eq!(states.collect::<Vec<_>>(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_runs_once_ends_as_its_containers_do() {
    let cluster = Cluster::new().await;
    let app = |context: ContainerContext| async move {
        if context.args.is_empty() {
            Exit::done()
        } else {
            Exit::failed("asked to fail")
        }
    };
    let _node = cluster.node("node-a", ImageCatalogue::new().with("app", app));
    cluster.pod("good", json!({}), json!({"restartPolicy": "Never"})).await;
    cluster
        .pod("bad", json!({"args": ["fail"]}), json!({"restartPolicy": "Never"}))
        .await;
    let phase = |wanted: &'static str| {
        move |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some(wanted)
    };
    cluster.pod_until("good", phase("Succeeded")).await;
    let bad = cluster.pod_until("bad", phase("Failed")).await;
    assert_eq!(container(&bad)["state"]["terminated"]["message"], "asked to fail");
    cluster
        .api::<Pod>()
        .delete("bad", &DeleteParams::default())
        .await
        .unwrap();
    cluster.pod_gone("bad").await;
}

#[tokio::test(start_paused = true)]
async fn a_missing_secret_of_a_variable_is_named_and_waited_for() {
    let cluster = Cluster::new().await;
    let app = |context: ContainerContext| async move {
        assert_eq!(context.env["TOKEN"], "t");
        serves(context).await
    };
    let _node = cluster.node("node-a", ImageCatalogue::new().with("app", app));
    let env = json!([{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]);
    cluster.pod("p", json!({"env": env}), json!({})).await;
    let waiting = cluster
        .pod_until("p", |pod| {
            container(pod)["state"]["waiting"]["reason"] == "CreateContainerConfigError"
        })
        .await;
    assert_eq!(
        container(&waiting)["state"]["waiting"]["message"],
        "secret \"s\" not found"
    );
    let secret = json!({"metadata": {"name": "s"}, "data": {"k": "dA=="}});
    cluster.create(&cluster.api::<Secret>(), secret).await;
    cluster.pod_until("p", is_ready).await;
}

/// Adds an ephemeral container to the pod `p`.
async fn debug(cluster: &Cluster, container: Value) {
    let patch = Patch::Strategic(json!({"spec": {"ephemeralContainers": [container]}}));
    cluster
        .api::<Pod>()
        .patch_subresource("ephemeralcontainers", "p", &PatchParams::default(), &patch)
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_environment_of_an_ephemeral_container_is_read_when_it_is_added() {
    let cluster = Cluster::new().await;
    let debugs = |context: ContainerContext| async move {
        assert_eq!((&*context.env["KEY"], &*context.env["ALL"]), ("t", "m"));
        Exit::done()
    };
    let catalogue = ImageCatalogue::new().with("app", serves).with("debug", debugs);
    let _node = cluster.node("node-a", catalogue);
    cluster.pod("p", json!({}), json!({})).await;
    cluster.pod_until("p", is_ready).await;
    let map = json!({"metadata": {"name": "m"}, "data": {"ALL": "m"}});
    cluster.create(&cluster.api::<ConfigMap>(), map).await;
    let added = json!({"name": "d", "image": "example.org/debug:v1",
        "envFrom": [{"configMapRef": {"name": "m"}}],
        "env": [{"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]});
    debug(&cluster, added).await;
    let state = |pod: &Pod| {
        let statuses = pod
            .status
            .as_ref()
            .and_then(|status| status.ephemeral_container_statuses.clone());
        serde_json::to_value(statuses).unwrap()[0]["state"].clone()
    };
    let waits = |pod: &Pod| state(pod)["waiting"]["reason"] == "CreateContainerConfigError";
    cluster.pod_until("p", waits).await;
    let secret = json!({"metadata": {"name": "s"}, "data": {"k": "dA=="}});
    cluster.create(&cluster.api::<Secret>(), secret).await;
    let over = |pod: &Pod| state(pod)["terminated"].is_object();
    let pod = cluster.pod_until("p", over).await;
    assert_eq!(state(&pod)["terminated"]["exitCode"], 0, "{:?}", state(&pod));
    assert_eq!(container(&pod)["restartCount"], 0);
}

#[tokio::test(start_paused = true)]
async fn unread_source_of_an_ephemeral_container_holds_up_no_other() {
    let (cluster, _server) = Cluster::with_tokens().await;
    let tokens = Arc::new(AtomicU32::new(0));
    let requested = Arc::clone(&tokens);
    let client = inject_faults(cluster.client.clone(), move |call| {
        if call.subresource.as_deref() == Some("token") {
            requested.fetch_add(1, Ordering::Relaxed);
        }
        match call.resource.as_str() {
            "secrets" => Injected::Answer(403),
            _ => Injected::Pass,
        }
    });
    let crash = Arc::new(Notify::new());
    let crashing = Arc::clone(&crash);
    let app = move |context: ContainerContext| {
        let crash = Arc::clone(&crashing);
        async move {
            context.ready.set(true);
            tokio::select! {
                () = context.stop.cancelled() => Exit::done(),
                () = crash.notified() => Exit::failed("crashed"),
            }
        }
    };
    let debugs = |_: ContainerContext| async { Exit::done() };
    let catalogue = ImageCatalogue::new().with("app", app).with("debug", debugs);
    let _node = cluster.node_with("node-a", catalogue, client);
    let token = json!([{"name": "t", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}]);
    cluster.pod("p", json!({}), json!({"volumes": token})).await;
    cluster.pod_until("p", is_ready).await;

    let key = json!([{"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]);
    let image = "example.org/debug:v1";
    debug(&cluster, json!({"name": "waits", "image": image, "env": key})).await;
    let state = |pod: &Pod, name: &str| {
        let status = pod.status.clone().unwrap_or_default();
        let statuses = status.ephemeral_container_statuses.into_iter().flatten();
        let mut found = statuses.filter(|status| status.name == name);
        serde_json::to_value(found.next()).unwrap()["state"].clone()
    };
    cluster
        .pod_until("p", |pod| state(pod, "waits")["waiting"].is_object())
        .await;
    debug(&cluster, json!({"name": "runs", "image": image})).await;
    cluster
        .pod_until("p", |pod| state(pod, "runs")["terminated"].is_object())
        .await;
    crash.notify_one();
    let restarted = |pod: &Pod| container(pod)["restartCount"] == 1 && is_ready(pod);
    let pod = cluster.pod_until("p", restarted).await;
    // Unread is not missing.
    assert_eq!(state(&pod, "waits")["waiting"]["reason"], "ContainerCreating");
    assert!(!reasons(&cluster).await.contains(&"Failed".to_owned()));
    assert_eq!(tokens.load(Ordering::Relaxed), 1, "the token is requested once");
}

pub(crate) async fn reasons(cluster: &Cluster) -> Vec<String> {
    let events = cluster.api::<Event>().list(&ListParams::default()).await.unwrap();
    events.items.into_iter().filter_map(|event| event.reason).collect()
}

#[tokio::test(start_paused = true)]
async fn an_ephemeral_container_starts_in_a_running_pod_and_leaves_its_status_unchanged() {
    let cluster = Cluster::new().await;
    let debugs = |context: ContainerContext| async move {
        context.log.line("looked around");
        Exit::failed("nothing found")
    };
    let catalogue = ImageCatalogue::new().with("app", serves).with("debug", debugs);
    let _node = cluster.node("node-a", catalogue);
    cluster.pod("p", json!({}), json!({})).await;
    cluster.pod_until("p", is_ready).await;
    let added = json!({"spec": {"ephemeralContainers": [
        {"name": "d", "image": "example.org/debug:v1", "targetContainerName": "main"},
        {"name": "x", "image": "example.org/unknown:v1"},
    ]}});
    let pods = cluster.api::<Pod>();
    let patch = Patch::Strategic(added);
    pods.patch_subresource("ephemeralcontainers", "p", &PatchParams::default(), &patch)
        .await
        .unwrap();
    let of = |pod: &Pod, name: &str| {
        let statuses = pod
            .status
            .as_ref()
            .and_then(|status| status.ephemeral_container_statuses.clone());
        let status = statuses.into_iter().flatten().find(|status| status.name == name);
        serde_json::to_value(status).unwrap()["state"].clone()
    };
    let done = |pod: &Pod| of(pod, "d")["terminated"].is_object() && of(pod, "x")["waiting"].is_object();
    let pod = cluster.pod_until("p", done).await;
    assert_eq!(of(&pod, "d")["terminated"]["exitCode"], 1);
    assert_eq!(of(&pod, "x")["waiting"]["reason"], "ImageNotInCatalogue");
    assert!(is_ready(&pod), "{:?}", pod.status);
    assert_eq!(pod.status.unwrap().phase.as_deref(), Some("Running"));
    let path = "/api/v1/namespaces/ns/pods/p/log?container=d";
    let request = http::Request::get(path).body(Vec::new()).unwrap();
    let output = cluster.client.request_text(request).await.unwrap();
    assert!(output.starts_with("looked around\n"), "{output}");
}
