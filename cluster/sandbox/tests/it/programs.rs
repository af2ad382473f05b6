//! What a program is given, further commands beside it, and limits.

use cluster_sandbox::{Ended, ExecOptions, Limits, Signal, available_with};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::kit::{finish, line, pod, program, run, shell};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn namespaces_are_available_with_a_helper_and_not_without() {
    let helper = program();
    assert_eq!(
        tokio::task::spawn_blocking(move || available_with(&helper))
            .await
            .unwrap(),
        Ok(())
    );
    let missing = cluster_sandbox::available().unwrap_err().to_string();
    assert!(missing.contains("run_if_helper"), "{missing}");
}

#[tokio::test]
async fn a_program_sees_its_environment_arguments_folder_and_host_name() {
    let mut options = shell("echo \"$A|$1|$(pwd)|$(hostname)|$(id -u)\"; env | wc -l; cat");
    options.command.extend(["zero".into(), "one two".into()]);
    options.env.push(("A".into(), "b\nc".into()));
    options.working_dir = "/usr".into();
    let (text, ended) = run(options).await;
    // PATH, A in two lines, and what the shell adds: PWD.
    assert_eq!(text, "b\nc|one two|/usr|pod-1|0\n4\n");
    assert_eq!(ended, Ended::Exited(0));
}

#[tokio::test]
async fn codes_and_signals_are_reported() {
    assert_eq!(run(shell("exit 7")).await.1, Ended::Exited(7));
    assert_eq!(run(shell("kill -SEGV $$")).await.1, Ended::Signaled(11));
    assert_eq!(Ended::Signaled(11).code(), 139);
}

#[tokio::test]
async fn limits_hold_and_cannot_be_raised() {
    let mut options = shell(
        "ulimit -n; ulimit -n 100; ulimit -f; head -c 100000 /dev/zero > /tmp/big; ls -l /tmp/big | cut -d' ' -f5",
    );
    options.limits = Limits {
        open_files: Some(20),
        file_size: Some(4096),
        memory: Some(100_000_000),
        processes: Some(50),
    };
    let (text, _) = run(options).await;
    assert!(text.starts_with("20\n"), "{text}");
    assert!(text.contains("\n4096\n"), "{text}");
    let mut options = crate::kit::python("x = bytearray(200_000_000)");
    options.limits.memory = Some(100_000_000);
    let (text, ended) = run(options).await;
    assert!(text.contains("MemoryError"), "{text}");
    assert_eq!(ended, Ended::Exited(1));
}

#[tokio::test]
async fn a_further_command_shares_the_container() {
    let pod = pod(1).await;
    let mut options = shell("echo here > /tmp/a; echo ready; exec sleep 1000");
    options.env.push(("WHO".into(), "container".into()));
    options.working_dir = "/usr".into();
    let mut container = pod.start_container(options).await.unwrap();
    let (mut output, _errors) = container.output().unwrap();
    assert_eq!(line(&mut output).await, "ready");
    let script = "cat /tmp/a - ; echo $WHO $(pwd) $(hostname); ls /proc/1/exe >&2; mount -o remount,rw,bind /usr; touch /usr/x; exit 3";
    let command = ["sh", "-c", script].map(Into::into).into();
    let mut exec = container
        .exec(ExecOptions {
            command,
            ..ExecOptions::default()
        })
        .await
        .unwrap();
    let mut input = exec.input().unwrap();
    input.write_all(b"typed\n").await.unwrap();
    drop(input);
    let (mut output, mut errors) = exec.output().unwrap();
    let (mut text, mut error_text) = (String::new(), String::new());
    output.read_to_string(&mut text).await.unwrap();
    errors.read_to_string(&mut error_text).await.unwrap();
    assert_eq!(text, "here\ntyped\ncontainer /usr pod-1\n");
    assert!(
        error_text.contains("/proc/1/exe") && error_text.contains("/usr/x"),
        "{error_text}"
    );
    assert_eq!(exec.wait().await, Ended::Exited(3));

    let missing = ExecOptions {
        command: vec!["not-there".into()],
        ..ExecOptions::default()
    };
    let error = container.exec(missing).await.unwrap_err().to_string();
    assert!(error.contains("cannot start the program not-there"), "{error}");

    let sleeper = ExecOptions {
        command: vec!["sleep".into(), "1000".into()],
        ..ExecOptions::default()
    };
    let exec = container.exec(sleeper).await.unwrap();
    exec.kill();
    assert_eq!(exec.wait().await, Ended::Signaled(9));
    let command = ["sh", "-c", "echo $$; exec sleep 1000"].map(Into::into).into();
    let mut dropped = container
        .exec(ExecOptions {
            command,
            ..ExecOptions::default()
        })
        .await
        .unwrap();
    let (mut output, _) = dropped.output().unwrap();
    let id = line(&mut output).await;
    drop(dropped);
    let script = format!("while kill -0 {id} 2> /dev/null; do :; done; echo gone");
    let command = ["sh".into(), "-c".into(), script.into()].into();
    let mut exec = container
        .exec(ExecOptions {
            command,
            ..ExecOptions::default()
        })
        .await
        .unwrap();
    assert_eq!(line(&mut exec.output().unwrap().0).await, "gone");
    container.signal(Signal::TERM).unwrap();
    assert_eq!(container.wait().await, Ended::Signaled(15));
}

#[tokio::test]
async fn output_is_complete_when_a_program_ends_at_once() {
    let (text, ended) = run(shell("seq 1 20000; echo last >&2")).await;
    assert!(text.ends_with("20000\nlast\n"));
    assert_eq!(ended, Ended::Exited(0));
}

#[tokio::test]
async fn containers_of_a_pod_share_its_network_and_not_its_files() {
    let pod = pod(1).await;
    let first = pod
        .start_container(shell("echo x > /tmp/a; exec sleep 1000"))
        .await
        .unwrap();
    let second = pod.start_container(shell("ls /tmp; hostname")).await.unwrap();
    assert_eq!(finish(second).await, ("pod-1\n".to_owned(), Ended::Exited(0)));
    first.kill();
    assert_eq!(first.wait().await, Ended::Signaled(9));
}
