//! How containers end, and that nothing outlives its owner.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use cluster_sandbox::{Ended, Signal};

use crate::kit::{finish, line, pod, program, python, shell};

/// Processes of the host whose command line holds this text.
fn processes(mark: &str) -> BTreeSet<u32> {
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(id) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let text = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        if text.windows(mark.len()).any(|part| part == mark.as_bytes()) {
            found.insert(id);
        }
    }
    found
}

fn descendants_of(parent: u32) -> BTreeSet<u32> {
    let mut known = BTreeSet::from([parent]);
    loop {
        let before = known.len();
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            let Some(id) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
                continue;
            };
            let text = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
            let above = text
                .rsplit_once(')')
                .and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse().ok());
            if above.is_some_and(|above| known.contains(&above)) {
                known.insert(id);
            }
        }
        if known.len() == before {
            known.remove(&parent);
            return known;
        }
    }
}

/// Waits for the kernel, which reports the end of a process to its parent only.
fn eventually(what: &str, holds: impl Fn() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < Duration::from_secs(10), "{what}");
        std::thread::yield_now();
    }
}

#[tokio::test]
async fn sigterm_reaches_the_program_and_not_its_group() {
    let pod = pod(1).await;
    let script = "import os, signal, time\n\
                  def end(*_):\n  os.write(1, b'ending\\n')\n  os._exit(5)\n\
                  signal.signal(signal.SIGTERM, end)\nprint('ready', flush=True)\ntime.sleep(1000)\n";
    let mut container = pod.start_container(python(script)).await.unwrap();
    let (mut output, _errors) = container.output().unwrap();
    assert_eq!(line(&mut output).await, "ready");
    container.signal(Signal::TERM).unwrap();
    assert_eq!(line(&mut output).await, "ending");
    assert_eq!(container.wait().await, Ended::Exited(5));
    assert_eq!(container.wait().await, Ended::Exited(5));
}

#[tokio::test]
async fn program_that_ignores_sigterm_is_killed_with_all_that_it_started() {
    let mark = format!("orangery-mark-{}-a", std::process::id());
    let pod = pod(1).await;
    let script = format!(
        "trap '' TERM HUP; setsid sh -c 'trap \"\" TERM HUP; while :; do sleep 1; done' {mark} & \
         (sh -c 'sleep 1000; echo {mark}' &) ; echo ready; while :; do sleep 1; done"
    );
    let mut container = pod.start_container(shell(&script)).await.unwrap();
    let (mut output, errors) = container.output().unwrap();
    assert_eq!(line(&mut output).await, "ready");
    assert!(processes(&mark).len() >= 2);
    container.signal(Signal::TERM).unwrap();
    drop((output, errors));
    container.kill();
    assert_eq!(container.wait().await, Ended::Signaled(9));
    eventually("processes outlive their container", || processes(&mark).is_empty());
}

#[tokio::test]
async fn grandchildren_end_with_the_program() {
    let mark = format!("orangery-mark-{}-b", std::process::id());
    let pod = pod(1).await;
    let script = format!("setsid sh -c 'sleep 1000; echo {mark}' > /dev/null 2>&1 & echo started");
    let container = pod.start_container(shell(&script)).await.unwrap();
    assert_eq!(finish(container).await, ("started\n".to_owned(), Ended::Exited(0)));
    assert_eq!(processes(&mark), BTreeSet::new());
}

#[tokio::test]
async fn everything_ends_when_the_pod_is_dropped() {
    let mark = format!("orangery-mark-{}-c", std::process::id());
    let pod = pod(1).await;
    let script = format!("echo ready; sleep 1000; echo {mark}");
    let mut container = pod.start_container(shell(&script)).await.unwrap();
    assert_eq!(line(&mut container.output().unwrap().0).await, "ready");
    assert!(!processes(&mark).is_empty());
    drop(pod);
    assert_eq!(container.wait().await, Ended::Signaled(9));
    eventually("processes outlive their pod", || processes(&mark).is_empty());
    assert!(container.signal(Signal::TERM).is_err());
}

#[test]
fn everything_ends_when_the_parent_is_killed() {
    let mark = format!("orangery-mark-{}-d", std::process::id());
    let script = format!("setsid sh -c 'trap \"\" TERM HUP; while :; do sleep 1; done' {mark} & echo ready; wait");
    let mut parent = Command::new(program())
        .args(["run", "/bin/sh", "-c", &script])
        .env("PATH", "/usr/bin:/bin")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut text = String::new();
    BufReader::new(parent.stdout.take().unwrap())
        .read_line(&mut text)
        .unwrap();
    assert_eq!(text, "ready\n");
    let started = descendants_of(parent.id());
    // The pod's helper, the container's, its first process, the shell, and what that started.
    assert!(started.len() >= 5, "{started:?}");
    parent.kill().unwrap();
    parent.wait().unwrap();
    eventually("processes outlive their parent", || {
        processes(&mark).is_empty() && started.iter().all(|id| !is_alive(*id))
    });
}

/// A zombie waits for its new parent and is no process any more.
fn is_alive(id: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{id}/stat")).is_ok_and(|text| {
        text.rsplit_once(')')
            .is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
    })
}

#[test]
fn twenty_pods_leave_no_files_open_and_no_processes() {
    let files = |id: u32| std::fs::read_dir(format!("/proc/{id}/fd")).unwrap().count();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let mark = format!("orangery-mark-{}-e", std::process::id());
    runtime.block_on(async {
        let once = || async {
            let pod = pod(1).await;
            let container = pod.start_container(shell(&format!("true {mark}"))).await.unwrap();
            assert_eq!(finish(container).await.1, Ended::Exited(0));
        };
        once().await;
        let before = files(std::process::id());
        for _ in 0..20 {
            once().await;
        }
        // Tests beside this one open a few files, twenty pods would leave forty and more.
        let after = files(std::process::id());
        assert!(after < before + 40, "{before} files, then {after}");
    });
    eventually("processes of ended pods are left", || processes(&mark).is_empty());
}
