//! A client of `pods/exec`: it speaks WebSocket (v5 or v4) or SPDY over a pipe to the API server, frame by frame.

use base_client::Upgrade;
use cluster_streams::spdy::{self, Frames};
use http::Request;
use http_body_util::BodyExt;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf, duplex, split};
use tokio::time::timeout;

use crate::cluster::{PATIENCE, World};

pub(crate) const STDIN: u8 = 0;
pub(crate) const STDOUT: u8 = 1;
pub(crate) const STDERR: u8 = 2;
pub(crate) const RESIZE: u8 = 4;
const CLOSE: u8 = 255;
const WEBSOCKET: [(&str, &str); 3] = [
    ("upgrade", "websocket"),
    ("sec-websocket-version", "13"),
    ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
];

/// What a command printed, and how it ended.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) status: Value,
}

impl Outcome {
    pub(crate) fn code(&self) -> i32 {
        if self.status["status"] == "Success" {
            return 0;
        }
        assert_eq!(self.status["reason"], "NonZeroExitCode", "{self:?}");
        let cause = &self.status["details"]["causes"][0];
        assert_eq!(cause["reason"], "ExitCode", "{self:?}");
        cause["message"].as_str().unwrap().parse().unwrap()
    }
}

/// The query of a request for a command and its output.
pub(crate) fn query(command: &[&str], more: &str) -> String {
    let mut query = format!("stdout=true&stderr=true{more}");
    for word in command {
        query += "&command=";
        for byte in word.bytes() {
            query += &format!("%{byte:02x}");
        }
    }
    query
}

/// Requests a connection. Errors: what is answered instead.
pub(crate) async fn connect(
    world: &World,
    pod: &str,
    (method, query): (&str, &str),
    headers: &[(&str, &str)],
) -> Result<DuplexStream, (u16, String)> {
    let (give, upgrade) = Upgrade::offer();
    let path = format!("/api/v1/namespaces/ns/pods/{pod}/exec?{query}");
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header("connection", "Upgrade");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let mut request = request.body(kube::client::Body::empty()).unwrap();
    request.extensions_mut().insert(upgrade);
    let response = world.cluster.client().send(request).await.unwrap();
    let code = response.status().as_u16();
    if code == 101 {
        let (ours, theirs) = duplex(1 << 20);
        assert!(give.send(Box::new(theirs)).is_ok());
        return Ok(ours);
    }
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let status: Value = serde_json::from_slice(&body).unwrap();
    Err((code, status["message"].as_str().unwrap().to_owned()))
}

/// A command over WebSocket.
pub(crate) struct Exec {
    from: ReadHalf<DuplexStream>,
    to: WriteHalf<DuplexStream>,
}

impl Exec {
    pub(crate) async fn start(world: &World, pod: &str, command: &[&str], more: &str) -> Self {
        Self::speaking("v5.channel.k8s.io", world, pod, command, more).await
    }

    pub(crate) async fn speaking(protocol: &str, world: &World, pod: &str, command: &[&str], more: &str) -> Self {
        let mut headers = WEBSOCKET.to_vec();
        headers.push(("sec-websocket-protocol", protocol));
        let stream = connect(world, pod, ("GET", &query(command, more)), &headers).await;
        let (from, to) = split(stream.unwrap());
        Self { from, to }
    }

    pub(crate) async fn send(&mut self, channel: u8, bytes: &[u8]) {
        self.to.write_all(&message(channel, bytes)).await.unwrap();
    }

    /// Ends standard input.
    pub(crate) async fn close_stdin(&mut self) {
        self.send(CLOSE, &[STDIN]).await;
    }

    /// Reads until a stream has brought a text.
    pub(crate) async fn until(&mut self, channel: u8, text: &str) -> String {
        let mut read = String::new();
        while !read.contains(text) {
            let (from, bytes) = self.next().await.unwrap();
            if from == channel {
                read += &String::from_utf8_lossy(&bytes);
            }
        }
        read
    }

    /// Reads to the end.
    pub(crate) async fn outcome(mut self) -> Outcome {
        let mut read = [Vec::new(), Vec::new(), Vec::new(), Vec::new()];
        while let Some((channel, bytes)) = self.next().await {
            read[usize::from(channel)].extend(bytes);
        }
        let [_, stdout, stderr, status] = read.map(|bytes| String::from_utf8(bytes).unwrap());
        let status = serde_json::from_str(&status).unwrap();
        Outcome { stdout, stderr, status }
    }

    /// The same while something is sent, after which standard input ends.
    pub(crate) async fn fed(self, bytes: Vec<u8>) -> Outcome {
        let Self { from, mut to } = self;
        let sending = async move {
            for piece in bytes.chunks(32 << 10) {
                // The command may have ended.
                if to.write_all(&message(STDIN, piece)).await.is_err() {
                    return to;
                }
            }
            let _ = to.write_all(&message(CLOSE, &[STDIN])).await;
            to
        };
        let (_, idle) = duplex(1);
        let reading = Self {
            from,
            to: split(idle).1,
        }
        .outcome();
        tokio::join!(sending, reading).1
    }

    async fn next(&mut self) -> Option<(u8, Vec<u8>)> {
        timeout(PATIENCE, read_message(&mut self.from)).await.unwrap()
    }
}

async fn read_message(from: &mut ReadHalf<DuplexStream>) -> Option<(u8, Vec<u8>)> {
    loop {
        let [kind, length] = [from.read_u8().await.unwrap(), from.read_u8().await.unwrap()];
        let length = match length {
            126 => u64::from(from.read_u16().await.unwrap()),
            127 => from.read_u64().await.unwrap(),
            length => u64::from(length),
        };
        let mut content = vec![0; usize::try_from(length).unwrap()];
        from.read_exact(&mut content).await.unwrap();
        match kind {
            0x82 => return Some((content[0], content.split_off(1))),
            0x88 => return None,
            // A ping.
            _ => {}
        }
    }
}

/// A message of a client, masked with zeros.
fn message(channel: u8, bytes: &[u8]) -> Vec<u8> {
    let length = bytes.len() + 1;
    let mut message = vec![0x82, 0x80 | 126];
    message.extend(u16::try_from(length).unwrap().to_be_bytes());
    message.extend([0; 4]);
    message.push(channel);
    message.extend(bytes);
    message
}

/// A command over SPDY, with standard input given at once.
pub(crate) async fn over_spdy(world: &World, pod: &str, command: &[&str], input: &[u8]) -> Outcome {
    let headers = [
        ("upgrade", "SPDY/3.1"),
        ("x-stream-protocol-version", "v4.channel.k8s.io"),
    ];
    let query = query(command, "&stdin=true");
    let mut stream = connect(world, pod, ("POST", &query), &headers).await.unwrap();
    let kinds = ["error", "stdin", "stdout", "stderr"];
    for (stream_id, kind) in (1..).step_by(2).zip(kinds) {
        stream.write_all(&opened(stream_id, kind)).await.unwrap();
    }
    stream.write_all(&spdy::data(3, input, true)).await.unwrap();
    let mut frames = Frames::of(stream);
    let mut read = [Vec::new(), Vec::new(), Vec::new(), Vec::new()];
    let mut left = 3;
    while left > 0 {
        let frame = timeout(PATIENCE, frames.next()).await.unwrap().unwrap();
        if let spdy::Frame::Data { stream, bytes, is_last } = frame {
            read[usize::try_from(stream / 2).unwrap()].extend(bytes);
            left -= usize::from(is_last && stream != 3);
        }
    }
    let [status, _, stdout, stderr] = read.map(|bytes| String::from_utf8(bytes).unwrap());
    let status = serde_json::from_str(&status).unwrap();
    Outcome { stdout, stderr, status }
}

/// A frame that begins a stream; its header is not compressed.
fn opened(stream: u32, kind: &str) -> Vec<u8> {
    let mut block = 1_u32.to_be_bytes().to_vec();
    for text in ["streamtype", kind] {
        block.extend(u32::try_from(text.len()).unwrap().to_be_bytes());
        block.extend(text.as_bytes());
    }
    let length = u16::try_from(block.len()).unwrap();
    let mut content = stream.to_be_bytes().to_vec();
    content.extend([0; 6]);
    if stream == 1 {
        content.extend([0x78, 0x01]);
    }
    content.push(0);
    content.extend(length.to_le_bytes());
    content.extend((!length).to_le_bytes());
    content.extend(block);
    let mut frame = vec![0x80, 3, 0, 1, 0];
    frame.extend(&u32::try_from(content.len()).unwrap().to_be_bytes()[1..]);
    frame.extend(content);
    frame
}
