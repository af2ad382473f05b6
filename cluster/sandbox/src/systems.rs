//! Callers compile unchanged on systems with and without namespaces: the same calls, made on both.

use std::future::Future;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::Path;

use tokio::net::unix::pipe::Sender;
use tokio::net::{TcpStream, UdpSocket};
use tokio::process::{ChildStderr, ChildStdout};

use crate::{ContainerOptions, Ended, ExecOptions, Missing, PodOptions, Signal};

const fn is_send<T: Send>(future: T) -> T {
    future
}

/// Defines a function that calls everything of a system with the types that callers rely on.
macro_rules! calls {
    ($name:ident, $($system:tt)+) => {
        fn $name() -> (Result<(), Missing>, impl Future<Output = io::Result<()>> + Send) {
            use $($system)+ as system;
            system::run_if_helper();
            let program = Path::new("/nonexistent/helper");
            let available: Result<(), Missing> = system::available_with(program).and_then(|()| system::available());
            let calls = async move {
                let options = PodOptions {
                    hostname: "p".to_owned(),
                    address: Ipv4Addr::new(10, 0, 0, 2),
                    dns: None,
                    redirected_loopback_port: None,
                };
                let pod: system::Pod = system::Pod::start(program, options).await?;
                let _: TcpStream = is_send(pod.connect(80)).await?;
                let _: TcpStream = is_send(pod.connect_from(Some(Ipv4Addr::LOCALHOST), 80)).await?;
                let _: TcpStream = is_send(pod.connect_loopback(80)).await?;
                let _: (TcpStream, SocketAddrV4) = is_send(pod.accept()).await?;
                let _: Option<&UdpSocket> = pod.dns();
                let _: Vec<u16> = pod.listening()?;
                let mut container: system::Container = pod.start_container(ContainerOptions::default()).await?;
                let _: Option<(ChildStdout, ChildStderr)> = container.output();
                container.signal(Signal::TERM)?;
                let mut exec: system::Exec = container.exec(ExecOptions::default()).await?;
                let _: Option<Sender> = exec.input();
                let _: Option<(ChildStdout, ChildStderr)> = exec.output();
                exec.kill();
                let _: Ended = exec.wait().await;
                container.kill();
                let _: Ended = container.wait().await;
                let _ = format!("{pod:?} {container:?} {exec:?}");
                Ok(())
            };
            (available, calls)
        }
    };
}

calls!(without_namespaces, crate::elsewhere);
#[cfg(target_os = "linux")]
calls!(with_namespaces, crate);

#[tokio::test]
async fn without_namespaces_nothing_starts_and_the_reason_is_stated() {
    let (available, calls) = without_namespaces();
    let expected = "namespaces exist on Linux only: run programs without them, on ports of their own";
    assert_eq!(available.unwrap_err().to_string(), expected);
    let error = calls.await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::Unsupported);
    assert_eq!(error.to_string(), expected);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn with_namespaces_a_helper_that_is_missing_is_an_error() {
    let (available, calls) = with_namespaces();
    assert!(available.is_err());
    assert_eq!(calls.await.unwrap_err().kind(), io::ErrorKind::NotFound);
}
