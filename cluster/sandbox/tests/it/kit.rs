//! Pods and containers for tests.

use std::ffi::OsString;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use cluster_sandbox::{Container, ContainerOptions, Ended, Mount, Pod, PodOptions};
use tokio::io::AsyncReadExt;

pub(crate) const DNS: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 10);
/// The port of a pod's 127.0.0.1 that leads out of it.
pub(crate) const REDIRECTED: u16 = 6443;

/// The helper program: in another place when the tests run as a user who cannot enter the build folder.
pub(crate) fn program() -> PathBuf {
    std::env::var_os("SANDBOX_HELPER").map_or_else(|| env!("CARGO_BIN_EXE_sandbox-helper").into(), PathBuf::from)
}

pub(crate) async fn pod(last: u8) -> Pod {
    let options = PodOptions {
        hostname: format!("pod-{last}"),
        address: Ipv4Addr::new(10, 1, 0, last),
        dns: Some(DNS),
        redirected_loopback_port: Some(REDIRECTED),
    };
    Pod::start(&program(), options).await.unwrap()
}

pub(crate) fn shell(script: &str) -> ContainerOptions {
    ContainerOptions {
        command: ["/bin/sh", "-c", script].map(OsString::from).into(),
        env: vec![("PATH".into(), "/usr/sbin:/usr/bin:/sbin:/bin".into())],
        working_dir: "/".into(),
        ..ContainerOptions::default()
    }
}

pub(crate) fn python(script: &str) -> ContainerOptions {
    ContainerOptions {
        command: ["/usr/bin/python3", "-c", script].map(OsString::from).into(),
        ..shell("")
    }
}

pub(crate) fn mount(source: &Path, path: &str, writable: bool) -> Mount {
    Mount {
        source: source.to_owned(),
        sub_path: PathBuf::new(),
        path: path.into(),
        writable,
    }
}

/// Both outputs and the end.
pub(crate) async fn finish(mut container: Container) -> (String, Ended) {
    let (mut output, mut errors) = container.output().unwrap();
    let (mut text, mut error_text) = (String::new(), String::new());
    let (first, second) = tokio::join!(output.read_to_string(&mut text), errors.read_to_string(&mut error_text));
    first.unwrap();
    second.unwrap();
    (text + &error_text, container.wait().await)
}

/// What a script prints in a pod of its own.
pub(crate) async fn run(options: ContainerOptions) -> (String, Ended) {
    let pod = pod(1).await;
    finish(pod.start_container(options).await.unwrap()).await
}

/// Reads one line of a container's output.
pub(crate) async fn line(output: &mut (impl tokio::io::AsyncRead + Unpin)) -> String {
    let mut line = Vec::new();
    loop {
        match output.read_u8().await {
            Ok(b'\n') | Err(_) => return String::from_utf8(line).unwrap(),
            Ok(byte) => line.push(byte),
        }
    }
}
