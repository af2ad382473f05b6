//! What runs, in which order, and what does not start.

use serde_json::json;

use crate::cluster::{World, container, is_ready, phase};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_gets_its_arguments_and_its_environment() {
    let world = World::new(&[(
        "show",
        r#"echo "args: $*"; echo "name: $NAME"; echo "cpu: $CPU"; echo "host: $HOSTNAME"; echo "own: ${HIDDEN-none}""#,
    )])
    .await;
    let env = json!([
        {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}},
    ]);
    let limits = json!({"limits": {"cpu": "1500m"}});
    let fields = json!({"command": ["/app", "serve"], "args": ["--name=$(NAME)"], "env": env, "resources": limits});
    world.pod("p", "show", fields, json!({})).await;
    let (phase, log) = world.outcome("p").await;
    assert_eq!(phase, "Succeeded", "{log}");
    let expected = "args: serve --name=p\nname: p\ncpu: 1500\nhost: p\nown: none\n";
    assert_eq!(log, expected, "nothing of this process's environment is in it");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_that_cannot_run_keeps_its_container_waiting_with_the_reason() {
    let world = World::new(&[("plain", "exit 0"), ("foreign", "exit 0")]).await;
    std::fs::write(
        world.path("foreign"),
        b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x16\0",
    )
    .unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    std::fs::set_permissions(world.path("plain"), mode).unwrap();
    for (name, reason, message) in [
        ("missing", "CreateContainerError", "no-such-program does not exist"),
        ("plain", "CreateContainerError", "is not executable (chmod +x)"),
        ("foreign", "RunContainerError", "built for another architecture"),
    ] {
        world.pod(name, name, json!({}), json!({})).await;
        let waiting = |pod: &k8s_openapi::api::core::v1::Pod| {
            let waiting = container(pod, "main")["state"]["waiting"].clone();
            (waiting["reason"] == reason).then_some(waiting)
        };
        let pod = world.pod_until(name, |pod| waiting(pod).is_some()).await;
        let text = waiting(&pod).unwrap()["message"].as_str().unwrap().to_owned();
        let place = format!("of {}", world.path("images.yaml").display());
        assert!(
            text.contains(message) && text.contains("images[") && text.contains(&place),
            "{text}"
        );
        assert_eq!(world.event(name, "Failed").await, format!("Error: {text}"));
    }
    crate::cluster::write_script(&world.path("no-such-program"), "echo here now");
    let (phase, log) = world.outcome("missing").await;
    assert_eq!((phase.as_str(), log.as_str()), ("Succeeded", "here now\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unmapped_image_waits_and_its_event_shows_the_lines_to_add() {
    let world = World::new(&[]).await;
    world.pod("p", "acme/manager", json!({}), json!({})).await;
    let message = world.event("p", "ImageNotInCatalogue").await;
    let lines = "images:\n- image: \"example.org/acme/manager\"\n  command: [\"./manager\"]";
    assert!(message.ends_with(lines), "{message}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn init_containers_and_sidecars_run_in_order_and_share_volumes() {
    let write = r#"echo "$1" >> "$ORANGERY_ROOT/work/order""#;
    let world = World::new(&[
        ("write", write),
        ("sidecar", &format!("{write}\nwhile :; do sleep 0.1; done")),
        ("read", r#"cat "$ORANGERY_ROOT/work/order""#),
    ])
    .await;
    let mounts = json!([{"name": "work", "mountPath": "/work"}]);
    let spec = json!({
        "volumes": [{"name": "work", "emptyDir": {}}],
        "initContainers": [
            {"name": "a", "image": "write", "args": ["init"], "volumeMounts": mounts},
            {"name": "b", "image": "sidecar", "args": ["sidecar"], "restartPolicy": "Always", "volumeMounts": mounts,
             "startupProbe": {"exec": {"command": ["grep", "sidecar", "/work/order"]}, "periodSeconds": 1}},
        ],
    });
    world.pod("p", "read", json!({"volumeMounts": mounts}), spec).await;
    let (phase, log) = world.outcome("p").await;
    assert_eq!((phase.as_str(), log.as_str()), ("Succeeded", "init\nsidecar\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exec_probes_and_hooks_run_with_the_containers_files() {
    let world = World::new(&[("wait", "while :; do sleep 0.1; done")]).await;
    let file = "/work/ready";
    let fields = json!({
        "volumeMounts": [{"name": "work", "mountPath": "/work"}],
        "readinessProbe": {"exec": {"command": ["test", "-e", file]}, "periodSeconds": 1, "failureThreshold": 1},
        "lifecycle": {"postStart": {"exec": {"command": ["touch", "/work/started"]}}},
    });
    let spec = json!({"volumes": [{"name": "work", "emptyDir": {}}]});
    world.pod("p", "wait", fields, spec).await;
    let text = world.event("p", "Unhealthy").await;
    assert!(
        text.starts_with("Readiness probe failed: ") && text.contains("test exited with 1"),
        "{text}"
    );
    let pod = world.pod_until("p", |pod| phase(pod) == "Running").await;
    assert!(!is_ready(&pod));
    let volume = world.data.path().join(pod.metadata.uid.unwrap()).join("volumes/work");
    assert!(volume.join("started").exists(), "the hook has run");
    std::fs::write(volume.join("ready"), "").unwrap();
    world.pod_until("p", is_ready).await;
}
