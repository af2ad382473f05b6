//! What a program leaves behind when it ends: its termination message.

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use crate::cluster::{World, container, phase};

/// Prints, writes its second argument into the file that its first one names, and ends with the code of its third.
const LEAVES: (&str, &str) = (
    "leaves",
    r#"n=0; while [ $n -lt 100 ]; do echo "line $n"; n=$((n+1)); done; printf "$2" > "$1"; exit $3"#,
);

/// With namespaces, where this machine has them, and without.
async fn worlds() -> Vec<World> {
    let mut worlds = vec![World::new(&[LEAVES]).await];
    worlds.extend(World::isolated(&[LEAVES]).await);
    worlds
}

async fn terminated(world: &World, name: &str, args: [&str; 3], fields: Value) -> Value {
    let mut all = fields;
    all["args"] = json!(args);
    let spec = json!({"volumes": [{"name": "work", "emptyDir": {}}]});
    world.pod(name, "leaves", all, spec).await;
    let is_over = |pod: &Pod| matches!(phase(pod), "Succeeded" | "Failed");
    let pod = world.pod_until(name, is_over).await;
    container(&pod, "main")["state"]["terminated"].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_termination_message_is_read_from_the_containers_path() {
    let log = "/dev/termination-log";
    for world in worlds().await {
        let ended = terminated(&world, "a", [log, "no config", "2"], json!({})).await;
        assert_eq!(
            (&ended["message"], &ended["exitCode"]),
            (&json!("no config"), &json!(2))
        );
        assert_eq!(ended["reason"], "Error");
        let path = "/var/acme/why";
        let ended = terminated(
            &world,
            "b",
            [path, "done", "0"],
            json!({"terminationMessagePath": path}),
        )
        .await;
        assert_eq!(
            (&ended["message"], &ended["reason"]),
            (&json!("done"), &json!("Completed"))
        );
        let path = "/work/why";
        let mounts = json!([{"name": "work", "mountPath": "/work"}]);
        let fields = json!({"terminationMessagePath": path, "volumeMounts": mounts});
        let ended = terminated(&world, "c", [path, "in a volume", "1"], fields).await;
        assert_eq!(ended["message"], "in a volume");
        let long = format!("{}end", "x".repeat(9000));
        let ended = terminated(&world, "d", [log, &long, "1"], json!({})).await;
        let message = ended["message"].as_str().unwrap();
        assert!(message.len() == 4096 && message.ends_with("xend"), "{}", message.len());
        let ended = terminated(&world, "e", [log, "", "1"], json!({})).await;
        assert_eq!(ended["message"], Value::Null, "the log is not looked at");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_stands_in_for_a_termination_message_where_the_policy_wants_it() {
    let policy = json!({"terminationMessagePolicy": "FallbackToLogsOnError"});
    let log = "/dev/termination-log";
    for world in worlds().await {
        let ended = terminated(&world, "a", [log, "", "1"], policy.clone()).await;
        let message = ended["message"].as_str().unwrap();
        assert!(
            message.starts_with("line 20\n") && message.ends_with("line 99\n"),
            "{message}"
        );
        let ended = terminated(&world, "b", [log, "", "0"], policy.clone()).await;
        assert_eq!(ended["message"], Value::Null, "it did not fail");
        let ended = terminated(&world, "c", [log, "own words", "1"], policy.clone()).await;
        assert_eq!(ended["message"], "own words");
    }
}
