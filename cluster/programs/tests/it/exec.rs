//! Commands in containers by `pods/exec`, as `kubectl exec` requests them.

use std::fs;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

use crate::cluster::{PATIENCE, World, is_ready, phase};
use crate::exec_client::{Exec, RESIZE, STDERR, STDIN, STDOUT, connect, over_spdy, query};

const SLEEPER: (&str, &str) = ("sleeper", "exec sleep 600");
/// More than all queues, pipes and buffers on the way hold.
const HUGE_BYTES: usize = 48 << 20;

/// A world with a pod `p` that sleeps, with a variable and a file.
async fn prepared(world: World) -> World {
    world
        .create::<ConfigMap>(json!({"metadata": {"name": "m"}, "data": {"key": "value"}}))
        .await;
    let fields = json!({
        "env": [{"name": "WHO", "value": "container"}],
        "volumeMounts": [{"name": "map", "mountPath": "/etc/app"}],
    });
    let spec = json!({"volumes": [{"name": "map", "configMap": {"name": "m"}}], "terminationGracePeriodSeconds": 1});
    world.pod("p", "sleeper", fields, spec).await;
    world.pod_until("p", is_ready).await;
    world
}

/// With namespaces, where this machine has them, and without.
async fn worlds() -> Vec<World> {
    let mut worlds = vec![prepared(World::new(&[SLEEPER]).await).await];
    if let Some(isolated) = World::isolated(&[SLEEPER]).await {
        worlds.push(prepared(isolated).await);
    }
    worlds
}

/// How many processes of this machine have a word among their arguments.
fn processes(word: &str) -> usize {
    let entries = fs::read_dir("/proc").unwrap();
    let lines = entries.filter_map(|entry| fs::read(entry.ok()?.path().join("cmdline")).ok());
    lines
        .filter(|line| line.split(|byte| *byte == 0).any(|own| own == word.as_bytes()))
        .count()
}

async fn until_processes(word: &str, count: usize) {
    let waiting = async {
        while processes(word) != count {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_runs_in_its_container_and_its_exit_code_is_reported() {
    let script = "echo \"$WHO\"; cat /etc/app/key ${ORANGERY_ROOT:-}/etc/app/key 2>/dev/null; echo problem >&2; exit 3";
    let command = ["sh", "-c", script];
    for world in worlds().await {
        for protocol in ["v5.channel.k8s.io", "v4.channel.k8s.io", "none, v4.channel.k8s.io"] {
            let outcome = Exec::speaking(protocol, &world, "p", &command, "")
                .await
                .outcome()
                .await;
            assert!(outcome.stdout.starts_with("container\nvalue"), "{outcome:?}");
            assert_eq!(outcome.stderr, "problem\n");
            assert_eq!(outcome.code(), 3);
            let message = outcome.status["message"].as_str().unwrap();
            assert!(
                message.starts_with("command terminated with non-zero exit code: "),
                "{message}"
            );
        }
        let killed = Exec::start(&world, "p", &["sh", "-c", "kill -9 $$"], "")
            .await
            .outcome()
            .await;
        assert_eq!(killed.code(), 137);
        assert_eq!(Exec::start(&world, "p", &["true"], "").await.outcome().await.code(), 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_runs_over_spdy() {
    for world in worlds().await {
        let script = "cat; echo problem >&2; exit 4";
        let outcome = over_spdy(&world, "p", &["sh", "-c", script], b"typed\n").await;
        assert_eq!(
            (outcome.stdout.as_str(), outcome.stderr.as_str()),
            ("typed\n", "problem\n")
        );
        assert_eq!(outcome.code(), 4);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn standard_input_of_any_size_reaches_the_command_with_its_end() {
    for world in worlds().await {
        let counting = Exec::start(&world, "p", &["wc", "-c"], "&stdin=true").await;
        let outcome = counting.fed(vec![b'x'; HUGE_BYTES]).await;
        assert_eq!(outcome.stdout.trim(), HUGE_BYTES.to_string());
        // One that reads none of it ends all the same.
        let ignoring = Exec::start(&world, "p", &["sh", "-c", "exec <&-; echo done"], "&stdin=true").await;
        let outcome = ignoring.fed(vec![b'x'; HUGE_BYTES]).await;
        assert_eq!((outcome.stdout.as_str(), outcome.code()), ("done\n", 0));
        // Without -i there is nothing to read.
        let outcome = Exec::start(&world, "p", &["wc", "-c"], "").await.outcome().await;
        assert_eq!(outcome.stdout.trim(), "0");
        let mut exec = Exec::start(
            &world,
            "p",
            &["sh", "-c", "read word; echo got $word; cat; echo end"],
            "&stdin=true",
        )
        .await;
        exec.send(STDIN, b"one\n").await;
        exec.until(STDOUT, "got one").await;
        exec.close_stdin().await;
        exec.until(STDOUT, "end").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_ends_with_its_client() {
    for (number, world) in worlds().await.into_iter().enumerate() {
        // What is sent is never read: nothing, a line, more than the pipe to the command holds.
        for (how, pieces) in [0, 1, 48].into_iter().enumerate() {
            // Its own argument, and that of a child in its process group.
            let word = format!("77{number}{how}{}", std::process::id());
            let script = format!("sleep {word} & echo started; sleep {word}; true");
            let mut exec = Exec::start(&world, "p", &["sh", "-c", &script], "&stdin=true").await;
            exec.until(STDOUT, "started").await;
            until_processes(&word, 2).await;
            for _ in 0..pieces {
                exec.send(STDIN, &[b'x'; 32 << 10]).await;
            }
            drop(exec);
            until_processes(&word, 0).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_background_process_does_not_hold_up_the_end_of_its_command() {
    for world in worlds().await {
        let outcome = Exec::start(&world, "p", &["sh", "-c", "sleep 500 & echo done"], "")
            .await
            .outcome()
            .await;
        assert_eq!((outcome.stdout.as_str(), outcome.code()), ("done\n", 0));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_terminal_has_a_size_and_interrupts_what_runs_in_it() {
    // Programs inherit signals that are ignored, as a shell's background jobs and nohup have them; none that are handled.
    let _handled = [SignalKind::interrupt(), SignalKind::hangup()].map(|kind| signal(kind).unwrap());
    let Some(world) = World::isolated(&[SLEEPER]).await else {
        return;
    };
    let world = prepared(world).await;
    let word = format!("76{}", std::process::id());
    let script = format!("trap : INT; tty; echo begun; read word; stty size; sleep {word}; echo interrupted; exit 5");
    let mut shell = Exec::start(&world, "p", &["sh", "-c", &script], "&stdin=true&tty=true").await;
    let shown = shell.until(STDOUT, "begun").await;
    assert!(shown.starts_with("/dev/pts/"), "{shown}");
    shell.send(RESIZE, br#"{"Width":123,"Height":45}"#).await;
    shell.send(STDIN, b"word\n").await;
    let shown = shell.until(STDOUT, "45 123").await;
    assert!(shown.contains("word"), "a terminal echoes: {shown}");
    // Before that, the interrupt would be for another.
    until_processes(&word, 1).await;
    shell.send(STDIN, &[3]).await;
    let outcome = shell.outcome().await;
    assert!(outcome.stdout.contains("interrupted"), "{outcome:?}");
    assert_eq!(outcome.code(), 5);
    // An interactive shell hangs up with its client.
    let mut shell = Exec::start(&world, "p", &["sh", "-i"], "&stdin=true&tty=true").await;
    let word = format!("78{}", std::process::id());
    shell.send(STDIN, format!("sleep {word}\n").as_bytes()).await;
    until_processes(&word, 1).await;
    drop(shell);
    until_processes(&word, 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn command_that_cannot_run_is_refused_as_by_kubelets() {
    let world = prepared(World::new(&[SLEEPER, ("short", "exit 0")]).await).await;
    world.pod("over", "short", json!({}), json!({})).await;
    world.pod_until("over", |pod| phase(pod) == "Succeeded").await;
    let websocket = [
        ("upgrade", "websocket"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "eA=="),
    ];
    let offering = |protocol| {
        let mut headers = websocket.to_vec();
        headers.push(("sec-websocket-protocol", protocol));
        headers
    };
    let v5 = offering("v5.channel.k8s.io");
    let sh = query(&["sh"], "");
    for (pod, query, headers, code, message) in [
        (
            "p",
            format!("{sh}&container=x"),
            v5.as_slice(),
            400,
            "container x is not valid for pod p",
        ),
        ("none", sh.clone(), &v5, 404, "pods \"none\" not found"),
        ("over", sh.clone(), &v5, 500, "container not found (\"main\")"),
        (
            "p",
            query(&[], ""),
            &v5,
            400,
            "you must specify at least one command for the container",
        ),
        (
            "p",
            "command=sh".to_owned(),
            &v5,
            400,
            "you must specify at least 1 of stdin, stdout, stderr",
        ),
        ("p", sh.clone(), &[], 400, "Upgrade request required"),
        (
            "p",
            sh.clone(),
            &websocket,
            400,
            "requested protocol(s) are not supported",
        ),
        (
            "p",
            sh.clone(),
            &offering("v1.channel.k8s.io"),
            400,
            "requested protocol(s) are not supported",
        ),
        (
            "p",
            sh.clone(),
            &[("upgrade", "SPDY/3.1")],
            403,
            "unable to negotiate protocol",
        ),
    ] {
        let (answered, why) = connect(&world, pod, ("GET", &query), headers).await.unwrap_err();
        assert_eq!(answered, code, "{pod} {query}: {why}");
        assert!(why.contains(message), "{why}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_that_does_not_start_is_an_error_with_its_reason() {
    let world = prepared(World::new(&[SLEEPER]).await).await;
    for (command, more, message) in [
        (
            ["no-such-program"],
            "",
            "error executing command in container: no-such-program is in no folder of PATH",
        ),
        (["sh"], "&tty=true", "leave out -t"),
    ] {
        let outcome = Exec::start(&world, "p", &command, more).await.outcome().await;
        assert_eq!(outcome.status["reason"], "InternalError", "{outcome:?}");
        let why = outcome.status["message"].as_str().unwrap();
        assert!(why.contains(message), "{why}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_web_socket_needs_the_right_to_create_as_well() {
    let world = prepared(World::new(&[SLEEPER]).await).await;
    for (name, verbs) in [("reader", json!(["get"])), ("writer", json!(["get", "create"]))] {
        let rules = json!([{"apiGroups": [""], "resources": ["pods/exec"], "verbs": verbs}]);
        world
            .create::<Role>(json!({"metadata": {"name": name}, "rules": rules}))
            .await;
        let binding = json!({"metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": name}]});
        world.create::<RoleBinding>(binding).await;
    }
    let start = async |user| {
        let headers = [
            ("upgrade", "websocket"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-key", "eA=="),
            ("sec-websocket-protocol", "v5.channel.k8s.io"),
            ("impersonate-user", user),
        ];
        connect(&world, "p", ("GET", &query(&["true"], "")), &headers).await
    };
    let (code, why) = start("reader").await.unwrap_err();
    assert_eq!(code, 403);
    let words = "User \"reader\" cannot create resource \"pods/exec\" in API group \"\" in the namespace \"ns\"";
    assert!(why.contains(words), "{why}");
    assert!(start("writer").await.is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn output_larger_than_any_buffer_comes_whole() {
    for world in worlds().await {
        let script = "head -c 20000000 /dev/zero | tr '\\0' x; head -c 100000 /dev/zero | tr '\\0' y >&2";
        let outcome = Exec::start(&world, "p", &["sh", "-c", script], "")
            .await
            .outcome()
            .await;
        assert_eq!((outcome.stdout.len(), outcome.stderr.len()), (20_000_000, 100_000));
        assert_eq!(outcome.code(), 0);
        let mut exec = Exec::start(&world, "p", &["sh", "-c", "echo problem >&2"], "").await;
        exec.until(STDERR, "problem").await;
    }
}
