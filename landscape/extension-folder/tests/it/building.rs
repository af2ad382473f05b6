//! Building: lines, success, failure, an end in the middle.

use std::fs;
use std::time::Duration;

use landscape_extension_folder::Failed;

use crate::bench::{Bench, COPY};

#[tokio::test]
async fn a_build_passes_lines_on_and_reports_whether_the_program_is_another() {
    let bench = Bench::new(COPY);
    let folder = bench.folder().await;
    let mut lines = Vec::new();
    let built = folder.build(false, |line| lines.push(line.to_owned())).await.unwrap();
    assert!(built.changed);
    assert_eq!(lines, ["compiling"]);
    assert_eq!(fs::read_to_string(&folder.program).unwrap(), "one");
    let idle = Bench::new("true");
    idle.write("program", "as it was");
    assert!(!idle.folder().await.build(false, |_| {}).await.unwrap().changed);
}

#[tokio::test]
async fn a_build_that_fails_reports_how_it_ended() {
    let bench = Bench::new(COPY);
    let folder = bench.folder().await;
    bench.write("source", "broken");
    let mut lines = Vec::new();
    let Failed(why) = folder
        .build(false, |line| lines.push(line.to_owned()))
        .await
        .unwrap_err();
    assert_eq!(why, "sh ended with exit status: 1");
    assert!(lines.contains(&"broken".to_owned()), "{lines:?}");
    let Failed(why) = Bench::new("true")
        .folder()
        .await
        .build(false, |_| {})
        .await
        .unwrap_err();
    assert!(why.contains("the build has made no"), "{why}");
    bench.write(
        "orangery-extension.yaml",
        "{build: [no-such-builder], program: program}",
    );
    let Failed(why) = bench.folder().await.build(false, |_| {}).await.unwrap_err();
    assert!(why.starts_with("no-such-builder cannot be run: No such file"), "{why}");
}

#[tokio::test]
async fn an_abandoned_build_is_killed_with_all_that_it_started() {
    // The shell and its child wait for each other: neither ends by itself.
    let bench = Bench::new("mkfifo gate; (read line < gate) & echo $$; wait");
    let folder = bench.folder().await;
    let (send, leader) = tokio::sync::oneshot::channel();
    let mut send = Some(send);
    let building = folder.build(false, |line| {
        if let Some(send) = send.take() {
            send.send(line.to_owned()).unwrap();
        }
    });
    let leader = tokio::select! {
        ended = building => unreachable!("{ended:?}"),
        leader = leader => leader.unwrap(),
    };
    let group = rustix::process::Pid::from_raw(leader.trim().parse().unwrap()).unwrap();
    // A process that was killed is there until its parent has looked: that one is seen to by the runtime.
    let gone = async {
        while rustix::process::test_kill_process_group(group).is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(tests_kit::WAIT_MAX, gone).await.unwrap();
}

#[tokio::test]
async fn a_child_that_holds_the_output_does_not_delay_the_builds_end() {
    // The child reads a pipe that has no writer but itself: it never ends, and its group is killed by the test.
    let bench = Bench::new("mkfifo gate; (read line <> gate) & echo $$; cp source program; echo done");
    let folder = bench.folder().await;
    let mut lines = Vec::new();
    let building = folder.build(false, |line| lines.push(line.to_owned()));
    let built = tokio::time::timeout(tests_kit::WAIT_MAX, building).await;
    let group = lines.first().and_then(|line| line.trim().parse().ok());
    if let Some(group) = group.and_then(rustix::process::Pid::from_raw) {
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    assert!(built.unwrap().unwrap().changed);
    assert!(lines.contains(&"done".to_owned()), "{lines:?}");
}

#[tokio::test]
async fn cargos_program_is_found_wherever_cargo_puts_it() {
    let bench = Bench::of_crate();
    let host = std::process::Command::new("rustc").arg("-vV").output().unwrap();
    let host = String::from_utf8(host.stdout).unwrap();
    let host = host.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
    let config = format!("[build]\ntarget = \"{host}\"\ntarget-dir = \"made/here\"\n");
    bench.write(".cargo/config.toml", &config);
    let folder = bench.folder().await;
    let mut lines = Vec::new();
    let built = folder.build(false, |line| lines.push(line.to_owned())).await.unwrap();
    assert!(built.changed && folder.program.is_file());
    assert!(lines.iter().any(|line| line.contains("Compiling moon")), "{lines:?}");
    assert!(!lines.iter().any(|line| line.starts_with('{')), "{lines:?}");
    assert!(!folder.build(false, |_| {}).await.unwrap().changed);
    bench.write("src/main.rs", "fn main() { std::process::exit(0) }");
    assert!(folder.build(false, |_| {}).await.unwrap().changed);
    assert!(std::process::Command::new(&folder.program).status().unwrap().success());
    bench.write("src/main.rs", "fn main() { none(); }");
    let mut lines = Vec::new();
    assert!(folder.build(false, |line| lines.push(line.to_owned())).await.is_err());
    assert!(
        lines.iter().any(|line| line.contains("cannot find function `none`")),
        "{lines:?}"
    );
}
