//! The process ends soon after a signal.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

#[test]
fn a_process_stopped_as_soon_as_it_listens_ends_silently_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let mut process = Command::new(env!("CARGO_BIN_EXE_orangery"))
        .args(["up", "--port", "0", "--data-dir"])
        .arg(folder.path())
        .env_remove("RUST_LOG")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = String::new();
    BufReader::new(process.stdout.as_mut().unwrap())
        .read_line(&mut first)
        .unwrap();
    assert!(first.starts_with("garden and seed listen at"), "{first}");
    let requested = Command::new("kill").args(["-TERM", &process.id().to_string()]).status();
    assert!(requested.unwrap().success());
    let mut message = String::new();
    process.stderr.as_mut().unwrap().read_to_string(&mut message).unwrap();
    assert_eq!((process.wait().unwrap().code(), message.as_str()), (Some(0), ""));
}
