//! How programs end, and what is left of them.

use std::fs;
use std::path::Path;
use std::time::Duration;

use cluster_programs::Isolation;
use k8s_openapi::api::core::v1::Pod;
use kube::api::DeleteParams;
use serde_json::json;

use crate::cluster::{World, container, write_script};

fn lives(pid: &str) -> bool {
    Path::new("/proc").join(pid).exists()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_exit_code_and_a_signal_are_reported_as_a_runtime_does() {
    let world = World::new(&[("code", "exit 3"), ("signal", "kill -9 $$")]).await;
    for (name, code) in [("code", 3), ("signal", 137)] {
        world.pod(name, name, json!({}), json!({})).await;
        let (phase, _) = world.outcome(name).await;
        let pod = world.api::<Pod>().get(name).await.unwrap();
        let ended = container(&pod, "main")["state"]["terminated"].clone();
        assert_eq!(
            (phase.as_str(), &ended["exitCode"]),
            ("Failed", &json!(code)),
            "{ended}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn program_that_ignores_sigterm_is_killed_with_its_children_and_leaves_no_folder() {
    let script =
        "trap '' TERM; (trap '' TERM; while :; do sleep 1; done) &\necho \"pids: $$ $! \"; while :; do sleep 1; done";
    let world = World::new(&[("stubborn", script)]).await;
    world
        .pod("p", "stubborn", json!({}), json!({"terminationGracePeriodSeconds": 1}))
        .await;
    world.logged("p", "pids: ").await;
    let log = world.log("p", "main").await;
    let pids: Vec<&str> = log.trim_start_matches("pids: ").split_whitespace().collect();
    assert!(pids.len() == 2 && pids.iter().all(|pid| lives(pid)), "{log}");
    let pods = world.api::<Pod>();
    let folder = world
        .data
        .path()
        .join(pods.get("p").await.unwrap().metadata.uid.unwrap());
    assert!(folder.exists());
    pods.delete("p", &DeleteParams::default()).await.unwrap();
    world.pod_gone("p").await;
    let gone = async {
        while pids.iter().any(|pid| lives(pid)) || folder.exists() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(crate::cluster::PATIENCE, gone).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn program_that_handles_sigterm_ends_before_its_grace_period() {
    let script = "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.1; done";
    let world = World::new(&[("polite", script)]).await;
    world.pod("p", "polite", json!({}), json!({})).await;
    world.logged("p", "up").await;
    let begun = std::time::Instant::now();
    world.api::<Pod>().delete("p", &DeleteParams::default()).await.unwrap();
    world.pod_gone("p").await;
    assert!(
        begun.elapsed() < Duration::from_secs(20),
        "its grace period is not used up"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_that_was_built_again_is_started_again_at_once() {
    let world = World::new(&[("app", "echo one; while :; do sleep 0.1; done")]).await;
    let forever = json!({"restartPolicy": "Always", "terminationGracePeriodSeconds": 1});
    world.pod("p", "app", json!({}), forever).await;
    world.logged("p", "one").await;
    for round in 1..=2 {
        write_script(
            &world.path("app"),
            &format!("echo round {round}; while :; do sleep 0.1; done"),
        );
        world
            .pod_until("p", |pod| {
                let status = container(pod, "main");
                status["restartCount"] == round && status["state"]["running"].is_object()
            })
            .await;
        world.logged("p", &format!("round {round}")).await;
    }
    let message = world.event("p", "ProgramChanged").await;
    assert!(message.contains("app has changed"), "{message}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_output_is_bounded_and_the_pod_still_ends() {
    let world = World::new(&[("flood", "echo begun; exec yes 'a line that is said again and again'")]).await;
    world
        .pod("p", "flood", json!({}), json!({"terminationGracePeriodSeconds": 1}))
        .await;
    world.logged("p", "said again").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let log = world.log("p", "main").await;
    assert!(log.len() <= 256 << 10, "{}", log.len());
    world.api::<Pod>().delete("p", &DeleteParams::default()).await.unwrap();
    world.pod_gone("p").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_dir_outlives_its_container() {
    let script = r#"echo line >> "$ORANGERY_ROOT/work/f"; wc -l < "$ORANGERY_ROOT/work/f"; test $(wc -l < "$ORANGERY_ROOT/work/f") -ge 2"#;
    let folder = tempfile::tempdir().unwrap();
    let volumes = cluster_node::Volumes::in_folder(folder.path()).unwrap();
    let world = World::of(&[("count", script)], volumes, Isolation::None).await;
    let fields = json!({"volumeMounts": [{"name": "work", "mountPath": "/work"}]});
    let spec = json!({"restartPolicy": "OnFailure", "volumes": [{"name": "work", "emptyDir": {}}]});
    world.pod("p", "count", fields, spec).await;
    let (phase, log) = world.outcome("p").await;
    assert_eq!((phase.as_str(), log.trim()), ("Succeeded", "2"));
    let pods = fs::read_dir(folder.path().join("pods/orangery-0")).unwrap().count();
    assert_eq!(pods, 1, "it is kept where the node's volumes are kept");
}
