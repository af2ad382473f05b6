//! The helper on its own, for tests and for trying out: `sandbox-helper run COMMAND...` runs a command in a pod.
//! Not part of any product: that starts itself.

use std::ffi::OsString;
use std::io::Write;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use cluster_sandbox::{ContainerOptions, Pod, PodOptions};
use tokio::io::{AsyncRead, AsyncReadExt};

fn main() -> ExitCode {
    cluster_sandbox::run_if_helper();
    let mut args = std::env::args_os().skip(1);
    if args.next().is_none_or(|word| word != "run") {
        return report(&"usage: sandbox-helper run COMMAND [ARGUMENT]...");
    }
    let command: Vec<OsString> = args.collect();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build();
    match runtime.and_then(|runtime| runtime.block_on(run(command))) {
        Ok(code) => ExitCode::from(code),
        Err(error) => report(&error),
    }
}

fn report(text: &dyn std::fmt::Display) -> ExitCode {
    writeln!(std::io::stderr(), "{text}").ok();
    ExitCode::from(2)
}

async fn run(command: Vec<OsString>) -> std::io::Result<u8> {
    let begin = Instant::now();
    let options = PodOptions {
        hostname: "pod".to_owned(),
        address: Ipv4Addr::new(10, 1, 0, 1),
        dns: None,
        redirected_loopback_port: None,
    };
    let pod = Pod::start(Path::new("/proc/self/exe"), options).await?;
    let pod_ready = begin.elapsed();
    let mut container = pod
        .start_container(ContainerOptions {
            command,
            env: std::env::vars_os().collect(),
            working_dir: "/".into(),
            ..ContainerOptions::default()
        })
        .await?;
    let running = begin.elapsed();
    writeln!(
        std::io::stderr(),
        "pod after {} us, program after {} us",
        pod_ready.as_micros(),
        running.as_micros()
    )?;
    if let Some((output, errors)) = container.output() {
        let errors = tokio::spawn(copy(errors, std::io::stderr()));
        copy(output, std::io::stdout()).await?;
        errors.await.map_err(std::io::Error::other)??;
    }
    Ok(u8::try_from(container.wait().await.code()).unwrap_or(u8::MAX))
}

async fn copy(mut from: impl AsyncRead + Unpin, mut to: impl Write) -> std::io::Result<()> {
    let mut buffer = vec![0; 8192];
    loop {
        let length = from.read(&mut buffer).await?;
        if length == 0 {
            return Ok(());
        }
        to.write_all(&buffer[..length])?;
        to.flush()?;
    }
}
