//! What clients may take, with limits that tests need not wait for.

use std::time::Duration;

use base_client::{HttpService, full_body};
use base_serve::Limits;
use http::Response;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use crate::client::{PATIENCE, Signer, lengths, serve};

const SHORT: Duration = Duration::from_millis(50);

#[tokio::test]
async fn silent_connections_are_closed_before_and_after_the_handshake() {
    let signer = Signer::new();
    let limits = Limits {
        handshake: SHORT,
        first_request: SHORT,
        ..Limits::default()
    };
    let port = serve(lengths(), signer.certificate(), limits).await;
    let mut silent = TcpStream::connect(port.address).await.unwrap();
    let mut byte = [0; 1];
    let closed = silent.read(&mut byte);
    assert_eq!(tokio::time::timeout(PATIENCE, closed).await.unwrap().unwrap(), 0);
    let mut halfway = signer.connect(port.address).await.unwrap();
    halfway.send(b"POST / HTTP/1.1\r\nhost: ").await.unwrap();
    halfway.until_closed().await;
}

#[tokio::test]
async fn connection_stays_open_between_requests_until_its_idle_limit() {
    let signer = Signer::new();
    let limits = Limits {
        first_request: SHORT,
        idle: 4 * SHORT,
        ..Limits::default()
    };
    let port = serve(lengths(), signer.certificate(), limits).await;
    let mut client = signer.connect(port.address).await.unwrap();
    let begun = tokio::time::Instant::now();
    for _ in 0..3 {
        assert_eq!(client.post("/", b"").await.unwrap().0, 200);
    }
    client.until_closed().await;
    assert!(begun.elapsed() >= 4 * SHORT, "{:?}", begun.elapsed());
}

#[tokio::test]
async fn heads_and_bodies_beyond_their_size_are_refused() {
    let signer = Signer::new();
    let limits = Limits {
        head_bytes_max: 1024,
        body_bytes_max: 2048,
        bodies_bytes_max: 4096,
        ..Limits::default()
    };
    let port = serve(lengths(), signer.certificate(), limits).await;
    let connect = || signer.connect(port.address);
    assert_eq!(connect().await.unwrap().post("/", &[0; 2048]).await.unwrap().0, 200);
    assert_eq!(connect().await.unwrap().post("/", &[0; 2049]).await.unwrap().0, 413);
    let mut client = connect().await.unwrap();
    let head = format!("POST / HTTP/1.1\r\nhost: x\r\nx-long: {}\r\n\r\n", "x".repeat(1024));
    client.send(head.as_bytes()).await.unwrap();
    assert_eq!(client.answer().await.unwrap().0, 431);
}

#[tokio::test]
async fn a_body_that_does_not_end_is_given_up() {
    let signer = Signer::new();
    let limits = Limits {
        body: SHORT,
        ..Limits::default()
    };
    let port = serve(lengths(), signer.certificate(), limits).await;
    let mut client = signer.connect(port.address).await.unwrap();
    client
        .send(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nabc")
        .await
        .unwrap();
    assert_eq!(client.answer().await.unwrap().0, 408);
    client.until_closed().await;
}

#[tokio::test]
async fn a_connection_beyond_the_limit_waits_until_another_ends() {
    let signer = Signer::new();
    let limits = Limits {
        connections_max: 1,
        ..Limits::default()
    };
    let port = serve(lengths(), signer.certificate(), limits).await;
    let first = signer.connect(port.address).await.unwrap();
    let mut second = std::pin::pin!(signer.connect(port.address));
    tokio::select! {
        _ = &mut second => panic!("two connections at once"),
        () = tokio::time::sleep(SHORT) => {}
    }
    drop(first);
    assert_eq!(second.await.unwrap().post("/", b"a").await.unwrap().0, 200);
}

#[tokio::test]
async fn a_client_that_takes_nothing_of_its_answer_is_cut() {
    let signer = Signer::new();
    let limits = Limits {
        connections_max: 1,
        stalled: SHORT,
        ..Limits::default()
    };
    // More than the buffers of both ends of a connection.
    let large = HttpService::new(tower::service_fn(|_| async {
        Ok(Response::new(full_body(vec![b'x'; 64 << 20])))
    }));
    let port = serve(large, signer.certificate(), limits).await;
    let mut idle = signer.connect(port.address).await.unwrap();
    idle.send(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    // The only place is free once the first connection is gone.
    signer.connect(port.address).await.unwrap();
    idle.until_closed().await;
}

#[tokio::test]
async fn a_panicking_service_returns_500_and_later_requests_succeed() {
    let signer = Signer::new();
    let service = HttpService::new(tower::service_fn(
        |request: http::Request<kube::client::Body>| async move {
            assert_ne!(request.uri().path(), "/bad", "a fault of the service");
            Ok(Response::new(full_body("fine")))
        },
    ));
    let port = serve(service, signer.certificate(), Limits::default()).await;
    let mut client = signer.connect(port.address).await.unwrap();
    assert_eq!(client.post("/bad", b"").await.unwrap().0, 500);
    assert_eq!(client.post("/good", b"").await.unwrap(), (200, "fine".to_owned()));
}
