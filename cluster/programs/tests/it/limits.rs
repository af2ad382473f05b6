//! Limits of memory: the processes of a container together.

use serde_json::{Value, json};

use crate::cluster::{World, container, is_ready, phase};

const SCRIPTS: [(&str, &str); 3] = [
    // The memory is that of a child.
    (
        "grows",
        "sh -c 'x=$(head -c 100000000 /dev/zero | tr \"\\0\" x); echo grown; sleep 600'",
    ),
    ("sleeper", "exec sleep 600"),
    // Four children share what their parent holds: 60 MB of pages, which are not 300 MB.
    (
        "shares",
        "exec python3 -c 'import os, time\nx = bytearray(b\"x\") * 60_000_000\nfor _ in range(4):\n    if os.fork() == 0:\n        time.sleep(2.5)\n        os._exit(0)\nfor _ in range(4):\n    os.wait()\n'",
    ),
];

fn limit(memory: &str) -> Value {
    json!({"resources": {"limits": {"memory": memory}}})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_container_beyond_its_limit_of_memory_is_killed_and_reported() {
    let mut worlds = vec![World::new(&SCRIPTS).await];
    worlds.extend(World::isolated(&SCRIPTS).await);
    for world in worlds {
        world.pod("small", "sleeper", limit("64Mi"), json!({})).await;
        world.pod("p", "grows", limit("64Mi"), json!({})).await;
        world.pod("shares", "shares", limit("120Mi"), json!({})).await;
        let pod = world.pod_until("p", |pod| phase(pod) == "Failed").await;
        let ended = &container(&pod, "main")["state"]["terminated"];
        assert_eq!(
            (&ended["reason"], &ended["exitCode"]),
            (&json!("OOMKilled"), &json!(137)),
            "{ended}"
        );
        let event = world.event("p", "OOMKilled").await;
        assert!(event.ends_with("and its limit is 65536 KiB"), "{event}");
        let (phase, log) = world.outcome("shares").await;
        assert_eq!(phase, "Succeeded", "{log}");
        world.pod_until("small", is_ready).await;
    }
}
