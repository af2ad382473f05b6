//! Forwarded ports: SPDY as kubelets speak it, and the same within WebSocket messages, as kubectl requests it since 1.31. One
//! connection of a client carries two streams for each connection to the pod, one for its bytes and one for its error. Bytes are
//! copied to the pod and back unread; the caller dials the pod.
//! (kubernetes/kubernetes v1.35 staging/src/k8s.io/kubelet/pkg/cri/streaming/portforward,
//! staging/src/k8s.io/apiserver/pkg/util/proxy/streamtunnel.go)

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use async_trait::async_trait;
use base_client::{Connection, ResponseBody};
use bytes::Bytes;
use http::{HeaderMap, Method, Response};
use tokio::io::{AsyncReadExt, AsyncWriteExt, split};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::spdy::{self, Frame, Frames};
use crate::upgrade::{self, Wanted};
use crate::websocket;

/// The protocol's name, in SPDY and within WebSocket messages.
const PROTOCOL: &str = "portforward.k8s.io";
const TUNNELLED: &str = "SPDY/3.1+portforward.k8s.io";
/// Connections to the pod at once: what a page of a browser opens, many times over.
const CONNECTIONS_MAX: usize = 256;
/// Streams of errors whose stream of data has not come: a client opens one right after the other.
const UNPAIRED_MAX: usize = 64;
/// Frames that wait for the client, or pieces that wait for a pod.
const QUEUE_MAX: usize = 32;
/// What is read from a pod at once.
const PIECE_BYTES: usize = 32 << 10;

/// A pod whose ports are forwarded.
#[async_trait]
pub trait ForwardedPod: Send + Sync {
    /// Its name, for errors.
    fn name(&self) -> &str;

    /// Its uid.
    fn uid(&self) -> &str;

    /// A connection to one of its ports. Errors: why there is none.
    async fn dial(&self, port: u16) -> Result<Connection, String>;
}

/// Why a port of a pod was not dialled, in the words of a kubelet.
#[must_use]
pub fn not_dialled(ip: IpAddr, port: u16, error: &io::Error) -> String {
    let why = match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        _ => error.to_string(),
    };
    format!("dial tcp {ip}:{port}: connect: {why}")
}

/// The protocol on which both sides have agreed.
pub struct Agreed(Spoken);

enum Spoken {
    Spdy,
    /// With the client's key.
    WebSocket(String),
}

impl fmt::Debug for Agreed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Spoken::Spdy => "Spdy",
            Spoken::WebSocket(_) => "WebSocket",
        })
    }
}

impl Agreed {
    /// Chooses from what the client's request offers.
    ///
    /// # Errors
    /// It is no such request, as a sentence for its sender.
    pub fn with(method: &Method, headers: &HeaderMap) -> Result<Self, String> {
        match Wanted::by(headers) {
            None => Err("Upgrade request required".to_owned()),
            Some(Wanted::WebSocket) => {
                let key = upgrade::websocket_key(method, headers);
                let key = key.ok_or("not a WebSocket handshake of version 13")?;
                let mut offers = upgrade::websocket_protocols(headers).into_iter();
                if !offers.any(|offer| offer.eq_ignore_ascii_case(TUNNELLED)) {
                    return Err(format!(
                        "unable to negotiate protocol: the server supports {TUNNELLED} over WebSocket"
                    ));
                }
                Ok(Self(Spoken::WebSocket(key.to_owned())))
            }
            Some(Wanted::Spdy) => {
                let offers = upgrade::spdy_protocols(headers);
                // A client that names none means the first version.
                if !offers.is_empty() && !offers.contains(&PROTOCOL) {
                    return Err(format!(
                        "unable to negotiate protocol: the server supports [{PROTOCOL}]"
                    ));
                }
                Ok(Self(Spoken::Spdy))
            }
        }
    }

    /// The response that agrees.
    pub fn response(&self) -> Response<ResponseBody> {
        match &self.0 {
            Spoken::Spdy => upgrade::to_spdy(PROTOCOL),
            Spoken::WebSocket(key) => upgrade::to_websocket(key, TUNNELLED),
        }
    }

    /// Forwards ports over the connection that the request has become, until its client ends.
    pub async fn forward(self, connection: Connection, pod: Arc<dyn ForwardedPod>) {
        let connection = match self.0 {
            Spoken::Spdy => connection,
            Spoken::WebSocket(_) => websocket::unwrapped(connection),
        };
        run(connection, pod).await;
    }
}

/// A session's streams.
struct Session {
    pod: Arc<dyn ForwardedPod>,
    out: mpsc::Sender<Vec<u8>>,
    /// Streams of errors that wait for their stream of data, by the name of the request.
    errors: HashMap<String, u32>,
    /// Where bytes from the client go, by stream.
    inputs: HashMap<u32, mpsc::Sender<Bytes>>,
    forwards: JoinSet<u32>,
    has_replied: bool,
}

/// Forwards until the client ends.
async fn run(connection: Connection, pod: Arc<dyn ForwardedPod>) {
    let (from, mut to) = split(connection);
    let (out, mut frames) = mpsc::channel::<Vec<u8>>(QUEUE_MAX);
    let writing = async move {
        while let Some(frame) = frames.recv().await {
            to.write_all(&frame).await?;
            to.flush().await?;
        }
        to.shutdown().await
    };
    let mut session = Session {
        pod,
        out,
        errors: HashMap::new(),
        inputs: HashMap::new(),
        forwards: JoinSet::new(),
        has_replied: false,
    };
    let ended = tokio::select! {
        ended = session.read(Frames::of(from)) => ended,
        ended = writing => ended,
    };
    if let Err(error) = ended {
        tracing::debug!(%error, pod = %session.pod.name(), "a connection of forwarded ports ended");
    }
}

impl Session {
    async fn read<R: tokio::io::AsyncRead + Unpin>(&mut self, mut frames: Frames<R>) -> std::io::Result<()> {
        loop {
            while let Some(ended) = self.forwards.try_join_next() {
                if let Ok(stream) = ended {
                    self.inputs.remove(&stream);
                }
            }
            match frames.next().await? {
                Frame::Opened { stream, headers } => {
                    let header = |name: &str| headers.get(name).map(String::as_str).unwrap_or_default();
                    let request = header("requestid").to_owned();
                    self.opened(stream, header("streamtype"), header("port"), request).await;
                }
                Frame::Data { stream, bytes, is_last } => {
                    if let Some(input) = self.inputs.get(&stream).filter(|_| !bytes.is_empty()) {
                        // One that is gone has reported to its client.
                        let _ = input.send(bytes).await;
                    }
                    if is_last {
                        self.inputs.remove(&stream);
                    }
                }
                Frame::Reset { stream } => drop(self.inputs.remove(&stream)),
                Frame::Ping { id } => self.send(spdy::ping(id)).await,
                Frame::GoAway => return Ok(()),
                Frame::Other => {}
            }
        }
    }

    async fn opened(&mut self, stream: u32, type_: &str, port: &str, request: String) {
        let reply = spdy::reply(stream, !std::mem::replace(&mut self.has_replied, true));
        self.send(reply).await;
        if type_ == "error" && self.errors.len() < UNPAIRED_MAX {
            self.errors.insert(request, stream);
            return;
        }
        let Some(errors) = self.errors.remove(&request) else {
            self.send(spdy::data(stream, b"", true)).await;
            return;
        };
        let forward = Forward {
            pod: self.pod.clone(),
            out: self.out.clone(),
            stream,
            errors,
        };
        let port = match (port.parse::<u16>(), self.inputs.len() < CONNECTIONS_MAX) {
            (Ok(port), true) if port > 0 => port,
            (Ok(_), true) | (Err(_), _) => {
                return forward.end(Some(format!("unable to parse {port:?} as a port"))).await;
            }
            (Ok(_), false) => {
                return forward
                    .end(Some(format!("{CONNECTIONS_MAX} connections are open already")))
                    .await;
            }
        };
        let (input, pieces) = mpsc::channel(QUEUE_MAX);
        self.inputs.insert(stream, input);
        self.forwards.spawn(async move {
            let stream = forward.stream;
            forward.run(port, pieces).await;
            stream
        });
    }

    async fn send(&self, frame: Vec<u8>) {
        // No one writes any more when the session ends.
        let _ = self.out.send(frame).await;
    }
}

/// One connection to the pod.
struct Forward {
    pod: Arc<dyn ForwardedPod>,
    out: mpsc::Sender<Vec<u8>>,
    stream: u32,
    errors: u32,
}

impl Forward {
    async fn run(self, port: u16, mut pieces: mpsc::Receiver<Bytes>) {
        let connection = match self.pod.dial(port).await {
            Ok(connection) => connection,
            Err(why) => {
                let (name, uid) = (self.pod.name(), self.pod.uid());
                let message = format!("error forwarding port {port} to pod {name}, uid {uid}: {why}");
                return self.end(Some(message)).await;
            }
        };
        let (mut from, mut to) = split(connection);
        let to_pod = async {
            while let Some(bytes) = pieces.recv().await {
                to.write_all(&bytes).await?;
                to.flush().await?;
            }
            to.shutdown().await
        };
        let to_client = async {
            let mut piece = vec![0; PIECE_BYTES];
            loop {
                match from.read(&mut piece).await? {
                    0 => return Ok::<_, std::io::Error>(()),
                    size => {
                        if self
                            .out
                            .send(spdy::data(self.stream, &piece[..size], false))
                            .await
                            .is_err()
                        {
                            return Ok(());
                        }
                    }
                }
            }
        };
        tokio::pin!(to_pod, to_client);
        // The pod's end ends it; the client's end is passed on, and the pod may still answer.
        let ended = tokio::select! {
            ended = &mut to_client => ended,
            sent = &mut to_pod => match sent {
                Ok(()) => to_client.await,
                Err(error) => Err(error),
            },
        };
        if let Err(error) = ended {
            tracing::debug!(%error, pod = %self.pod.name(), port, "a forwarded connection broke off");
        }
        self.end(None).await;
    }

    /// Ends both streams, with the error if there is one.
    async fn end(&self, why: Option<String>) {
        for frame in [
            spdy::data(self.stream, b"", true),
            spdy::data(self.errors, why.unwrap_or_default().as_bytes(), true),
        ] {
            // The client may be gone.
            let _ = self.out.send(frame).await;
        }
    }
}
