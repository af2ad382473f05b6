//! `orangery` as a process: started, used through its kubeconfig, killed, stopped.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use base_client::{Connector, Https};
use kube::Client;
use kube::config::Kubeconfig;

/// A running process of ours; killed when it is dropped.
pub(crate) struct Running(pub(crate) Child);

impl Running {
    pub(crate) fn start(program: &Path, arguments: &[&str], folder: &Path) -> Self {
        let child = Command::new(program)
            .args(arguments)
            .current_dir(folder)
            .env_remove("RUST_LOG")
            .stdout(Stdio::piped())
            .spawn();
        Self(child.unwrap())
    }

    /// `orangery up` on a folder and a port.
    pub(crate) fn up(folder: &Path, port: u16, more: &[&str]) -> Self {
        let child = Command::new(env!("CARGO_BIN_EXE_orangery"))
            .args(["up", "--port", &port.to_string()])
            .args(more)
            .arg("--data-dir")
            .arg(folder)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Self(child)
    }

    /// Reads its output up to a line with `text`.
    pub(crate) fn until(&mut self, text: &str) -> String {
        let mut lines = BufReader::new(self.0.stdout.as_mut().unwrap()).lines();
        let found = lines.find_map(|line| line.ok().filter(|line| line.contains(text)));
        found.unwrap_or_else(|| unreachable!("it ended before it printed {text:?}"))
    }

    /// `orangery apiserver`, ready; and its line then.
    pub(crate) fn apiserver(folder: &Path, arguments: &str) -> (Self, String) {
        Self::server(folder, &format!("apiserver {arguments}"))
    }

    /// `orangery garden`, likewise.
    pub(crate) fn garden(folder: &Path, arguments: &str) -> (Self, String) {
        Self::server(folder, &format!("garden {arguments}"))
    }

    fn server(folder: &Path, words: &str) -> (Self, String) {
        let words: Vec<&str> = words.split_whitespace().collect();
        let mut running = Self::start(Path::new(env!("CARGO_BIN_EXE_orangery")), &words, folder);
        let mut line = String::new();
        BufReader::new(running.0.stdout.as_mut().unwrap())
            .read_line(&mut line)
            .unwrap();
        assert!(line.starts_with("ready: https://127.0.0.1:"), "{line}");
        (running, line)
    }

    /// `kill -9`.
    pub(crate) fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    pub(crate) fn stop(mut self) {
        let requested = Command::new("kill").args(["-TERM", &self.0.id().to_string()]).status();
        assert!(requested.unwrap().success());
        assert!(self.0.wait().unwrap().success());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn client_of(path: &Path) -> Client {
    let text = std::fs::read_to_string(path).unwrap();
    Https::new("test")
        .client(&Kubeconfig::from_yaml(&text).unwrap())
        .unwrap()
}

pub(crate) fn refusal(folder: &Path, arguments: &str) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_orangery"))
        .args(arguments.split_whitespace())
        .current_dir(folder)
        .env_remove("RUST_LOG")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}
