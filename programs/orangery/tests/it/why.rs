//! `orangery why` as a person types it: exit codes, one line for what is well, plain text in a pipe.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

/// The landscape; ended when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself, which the test has then noticed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn orangery(folder: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_orangery"))
        .args(words)
        .arg("--data-dir")
        .arg(folder)
        .env_remove("RUST_LOG")
        .output()
        .unwrap()
}

fn words(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn why_explains_a_healthy_shoot_an_unknown_name_and_an_unreachable_seed() {
    let folder = tempfile::tempdir().unwrap();
    let child = Command::new(env!("CARGO_BIN_EXE_orangery"))
        .args(["up", "--memory", "--example", "--port", "0", "--data-dir"])
        .arg(folder.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut up = Running(child);
    let mut lines = BufReader::new(up.0.stdout.take().unwrap()).lines();
    // It reads on, so that the landscape can go on writing.
    assert!(lines.any(|line| line.unwrap().starts_with("Ctrl-C ends everything")));

    let why = ["why", "garden-local/local"];
    let well = orangery(folder.path(), &why);
    let stdout = words(&well.stdout);
    assert_eq!(well.status.code(), Some(0), "{stdout}{}", words(&well.stderr));
    assert!(
        stdout.starts_with("Shoot garden-local/local is healthy since 20"),
        "{stdout}"
    );
    assert_eq!(
        (stdout.lines().count(), stdout.contains('\u{1b}')),
        (1, false),
        "{stdout}"
    );
    assert_eq!(words(&well.stderr), "");

    let json = orangery(folder.path(), &["why", "garden-local/local", "--output", "json"]);
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(
        (&json["state"], &json["blockers"]),
        (&"healthy".into(), &Value::Array(Vec::new()))
    );

    let none = orangery(folder.path(), &["why", "garden-local/locla"]);
    assert_eq!(none.status.code(), Some(1));
    assert_eq!(
        words(&none.stderr),
        "error: Shoot garden-local/locla does not exist\nhint: name one that exists: garden-local/local\n"
    );

    std::fs::remove_file(folder.path().join("seed.kubeconfig")).unwrap();
    let blind = orangery(folder.path(), &why);
    let stdout = words(&blind.stdout);
    assert_eq!(blind.status.code(), Some(0), "{stdout}");
    assert!(
        stdout.contains("not seen: what is in the seed: cannot read "),
        "{stdout}"
    );
}

#[test]
fn without_a_landscape_it_prints_what_to_start() {
    let folder = tempfile::tempdir().unwrap();
    let nothing = orangery(folder.path(), &["why", "garden-local/local"]);
    assert_eq!(nothing.status.code(), Some(1));
    assert!(words(&nothing.stderr).contains("hint: start `orangery up` first"));
}
