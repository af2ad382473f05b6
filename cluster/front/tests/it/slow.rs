//! Slow clients: each loses its connection, or gets an error as its answer. The time-outs are shortened to what
//! a test can wait for; nothing here measures them.

use cluster_front::Registration;
use serde_json::Value;

use super::bodies::connect;
use super::*;

/// The time-out under test.
const SHORT: Duration = Duration::from_millis(100);
/// Far beyond what it takes until the server ends something; it fails the test, it does not delay it.
const PATIENCE: Duration = Duration::from_secs(30);

/// The preface of an HTTP/2 client with this flow-control window; with 0 it receives heads alone.
fn preface(window: u32) -> Vec<u8> {
    let settings = [&[0, 4][..], &window.to_be_bytes()].concat();
    [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), frame(4, 0, 0, &settings)].concat()
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let size = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let head = [&size[1..], &[kind, flags], &stream.to_be_bytes()].concat();
    [&head, payload].concat()
}

/// The head of a request. The method is one of HPACK's own: 2 is GET, 3 is POST; and it ends the request or does not.
fn head(stream: u32, method: u8, path: &str, ends: bool) -> Vec<u8> {
    let text = |name: u8, text: &str| [&[name, u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
    let block = [
        vec![0x80 | method, 0x87],
        text(0x04, path),
        text(0x01, "garden.internal"),
    ]
    .concat();
    frame(1, 4 | u8::from(ends), stream, &block)
}

async fn served(timeouts: Timeouts) -> (Landscape, Registration) {
    let landscape = Landscape::with(timeouts).await;
    let server = landscape.server("garden.internal");
    let registration = landscape.front.register(["garden.internal"], server).unwrap();
    (landscape, registration)
}

/// A client that does not read its answer loses the connection soon.
fn impatient() -> Timeouts {
    Timeouts {
        answer: SHORT,
        stream: SHORT,
        ..Timeouts::default()
    }
}

/// Reads until the server ends the connection, however it does that.
async fn rest(stream: &mut (impl AsyncReadExt + Unpin)) -> Vec<u8> {
    let mut all = Vec::new();
    let ended = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut all)).await;
    assert!(ended.is_ok(), "the connection was kept");
    all
}

/// Waits until no connection is open; whatever its client reads.
async fn all_ended(registration: Registration) {
    let closed = tokio::time::timeout(PATIENCE, registration.close(2 * PATIENCE)).await;
    assert!(closed.is_ok(), "a connection was kept");
}

#[tokio::test]
async fn unfinished_handshake_is_closed() {
    let (landscape, _garden) = served(Timeouts {
        handshake: SHORT,
        ..Timeouts::default()
    })
    .await;
    for sent in [&b""[..], b"\x16", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"] {
        let mut stream = TcpStream::connect(("127.0.0.1", landscape.port)).await.unwrap();
        stream.write_all(sent).await.unwrap();
        assert_eq!(rest(&mut stream).await, b"", "{sent:?}");
    }
}

#[tokio::test]
async fn connection_without_request_is_closed() {
    let (landscape, _garden) = served(Timeouts {
        headers: SHORT,
        ..Timeouts::default()
    })
    .await;
    let unfinished = [preface(0), frame(1, 0, 1, &[0x82])].concat();
    for (protocol, sent) in [
        (None, &b""[..]),
        (None, b"GET /api HT"),
        (None, b"GET /api HTTP/1.1\r\nhost: x\r\nx-a: "),
        (Some(&b"http/1.1"[..]), b""),
        (Some(b"h2"), b""),
        (Some(b"h2"), &preface(0)),
        (Some(b"h2"), &unfinished),
    ] {
        let mut stream = connect(&landscape, protocol).await;
        stream.write_all(sent).await.unwrap();
        rest(&mut stream).await;
    }
    assert!(landscape.seen.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_client_that_does_not_send_its_announced_body_gets_an_error() {
    let (landscape, _garden) = served(Timeouts {
        body: SHORT,
        ..Timeouts::default()
    })
    .await;
    for length in ["content-length: 10", "transfer-encoding: chunked"] {
        let mut stream = connect(&landscape, None).await;
        let head = format!("POST /api HTTP/1.1\r\nhost: x\r\n{length}\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let answer = String::from_utf8(rest(&mut stream).await).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 504 "), "{head}");
        let status: Value = serde_json::from_str(body).unwrap();
        assert_eq!(status["reason"], "Timeout");
    }
    let mut stream = connect(&landscape, Some(b"h2")).await;
    let half = [preface(1 << 20), head(1, 3, "/api", false)].concat();
    stream.write_all(&half).await.unwrap();
    let mut seen = Vec::new();
    while !String::from_utf8_lossy(&seen).contains("Timeout") {
        let read = tokio::time::timeout(PATIENCE, stream.read_buf(&mut seen)).await;
        assert!(read.unwrap().unwrap() > 0, "{seen:?}");
    }
    assert!(landscape.seen.lock().unwrap().is_empty());
}

#[tokio::test]
async fn client_that_does_not_read_its_answer_loses_the_connection() {
    let (landscape, garden) = served(impatient()).await;
    let mut open = Vec::new();
    for path in ["/large", "/endless"] {
        let one = format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n").into_bytes();
        let two = [preface(0), head(1, 2, path, true)].concat();
        for (protocol, sent) in [(None, one), (Some(&b"h2"[..]), two)] {
            let mut stream = connect(&landscape, protocol).await;
            stream.write_all(&sent).await.unwrap();
            stream.read_u8().await.unwrap();
            open.push(stream);
        }
    }
    all_ended(garden).await;
    for stream in &mut open {
        assert!(rest(stream).await.len() < LARGE_BYTES);
    }
}

#[tokio::test]
async fn a_client_that_waits_for_events_does_not_count_as_stalled() {
    let (landscape, _garden) = served(impatient()).await;
    let mut watch = connect(&landscape, None).await;
    let request = b"GET /api?watch=1 HTTP/1.1\r\nhost: x\r\n\r\n";
    watch.write_all(request).await.unwrap();
    let mut seen = Vec::new();
    while !seen.ends_with(b"}\n\r\n") {
        watch.read_buf(&mut seen).await.unwrap();
    }
    // Another one comes later and is closed for good reason.
    let mut other = connect(&landscape, Some(b"h2")).await;
    let request = [preface(0), head(1, 2, "/large", true)].concat();
    other.write_all(&request).await.unwrap();
    rest(&mut other).await;
    let more = tokio::time::timeout(SHORT, watch.read_u8()).await;
    assert!(more.is_err(), "a watch without events was ended: {more:?}");
}

#[tokio::test]
async fn a_large_answer_arrives_whole_with_both_protocols() {
    let (landscape, _garden) = served(Timeouts::default()).await;
    let mut stream = connect(&landscape, None).await;
    let request = b"GET /large HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let all = rest(&mut stream).await;
    let at = all.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
    assert!(String::from_utf8_lossy(&all[..at]).contains(&format!("content-length: {LARGE_BYTES}\r\n")));
    assert_eq!(all.len() - at, LARGE_BYTES);

    let mut stream = connect(&landscape, Some(b"h2")).await;
    let more = frame(8, 0, 0, &0x7fff_0000_u32.to_be_bytes());
    let request = [preface(0x7fff_ffff), more, head(1, 2, "/large", true)].concat();
    stream.write_all(&request).await.unwrap();
    let (mut came, mut ended) = (0, false);
    while !ended {
        let mut head = [0; 9];
        stream.read_exact(&mut head).await.unwrap();
        let size = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        stream.read_exact(&mut vec![0; size]).await.unwrap();
        if head[3] == 0 {
            came += size;
            ended = head[4] & 1 == 1;
        }
    }
    assert_eq!(came, LARGE_BYTES);
}

#[tokio::test]
async fn idle_http2_connection_ends_even_if_its_client_does_not_react() {
    let (landscape, garden) = served(Timeouts {
        idle: SHORT,
        ..Timeouts::default()
    })
    .await;
    let mut stream = connect(&landscape, Some(b"h2")).await;
    let all = [preface(1 << 20), head(1, 2, "/api", true)].concat();
    stream.write_all(&all).await.unwrap();
    let received = rest(&mut stream).await;
    assert_eq!(landscape.seen.lock().unwrap().len(), 1);
    let goaway = [0, 0, 8, 7, 0, 0, 0, 0, 0];
    assert!(received.windows(goaway.len()).any(|part| part == goaway), "no farewell");
    all_ended(garden).await;
}
