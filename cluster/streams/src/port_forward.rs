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
use std::time::Duration;

use async_trait::async_trait;
use base_client::{Connection, ResponseBody};
use bytes::Bytes;
use http::{HeaderMap, Method, Response};
use tokio::io::{AsyncReadExt, AsyncWriteExt, split};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::timeout;

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
/// How long a pod may take nothing of what waits for it. Nothing else of the session is read meanwhile, because clients heed
/// no windows; after it, the connection to the pod is given up and the others go on.
const STALLED_MAX: Duration = Duration::from_secs(30);
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
    /// By stream; those of streams that the client has reset are gone, and those that have ended stay until the next begins.
    inputs: HashMap<u32, Input>,
    /// All that have not ended: each has a connection to the pod, whether the client still sends or not.
    forwards: JoinSet<u32>,
    has_replied: bool,
}

/// The client's end of a connection to the pod.
struct Input {
    /// Where bytes from the client go, as long as it sends.
    pieces: Option<mpsc::Sender<Bytes>>,
    /// Ends the connection, with the reason; dropped, without one.
    end: oneshot::Sender<&'static str>,
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
            match frames.next().await? {
                Frame::Opened { stream, headers } => {
                    let header = |name: &str| headers.get(name).map(String::as_str).unwrap_or_default();
                    let request = header("requestid").to_owned();
                    self.opened(stream, header("streamtype"), header("port"), request).await;
                }
                Frame::Data { stream, bytes, is_last } => {
                    self.pass_on(stream, bytes).await;
                    if let Some(input) = self.inputs.get_mut(&stream).filter(|_| is_last) {
                        input.pieces = None;
                    }
                }
                Frame::Reset { stream } => {
                    self.inputs.remove(&stream);
                    self.errors.retain(|_, waiting| *waiting != stream);
                }
                Frame::Ping { id } => self.send(spdy::ping(id)).await,
                Frame::GoAway => return Ok(()),
                Frame::Other => {}
            }
        }
    }

    async fn pass_on(&mut self, stream: u32, bytes: Bytes) {
        let pieces = self.inputs.get(&stream).and_then(|input| input.pieces.as_ref());
        let Some(pieces) = pieces.filter(|_| !bytes.is_empty()) else {
            return;
        };
        // A connection that has ended has reported to its client.
        if timeout(STALLED_MAX, pieces.send(bytes)).await.is_err()
            && let Some(input) = self.inputs.remove(&stream)
        {
            let _ = input.end.send("the pod does not read what it is sent");
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
        while let Some(ended) = self.forwards.try_join_next() {
            if let Ok(stream) = ended {
                self.inputs.remove(&stream);
            }
        }
        let port = match (port.parse::<u16>(), self.forwards.len() < CONNECTIONS_MAX) {
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
        let (sender, pieces) = mpsc::channel(QUEUE_MAX);
        let (end, ended) = oneshot::channel();
        let input = Input {
            pieces: Some(sender),
            end,
        };
        self.inputs.insert(stream, input);
        self.forwards.spawn(async move {
            let why = tokio::select! {
                why = forward.run(port, pieces) => why,
                why = ended => why.ok().map(str::to_owned),
            };
            let (name, uid) = (forward.pod.name(), forward.pod.uid());
            let why = why.map(|why| format!("error forwarding port {port} to pod {name}, uid {uid}: {why}"));
            forward.end(why).await;
            forward.stream
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
    /// Forwards until the pod ends. Returns why there was no connection to it.
    async fn run(&self, port: u16, mut pieces: mpsc::Receiver<Bytes>) -> Option<String> {
        let connection = match self.pod.dial(port).await {
            Ok(connection) => connection,
            Err(why) => return Some(why),
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
        None
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

#[cfg(test)]
mod tests {
    use tokio::io::{DuplexStream, ReadHalf, WriteHalf, duplex};

    use super::*;

    /// A pod that gives the other end of each connection to the test.
    struct Dialled(mpsc::UnboundedSender<DuplexStream>);

    #[async_trait]
    impl ForwardedPod for Dialled {
        fn name(&self) -> &str {
            "p"
        }

        fn uid(&self) -> &str {
            "u"
        }

        async fn dial(&self, _port: u16) -> Result<Connection, String> {
            let (near, far) = duplex(1 << 10);
            self.0.send(far).unwrap();
            Ok(Box::new(near))
        }
    }

    struct Client {
        to: WriteHalf<DuplexStream>,
        from: Frames<ReadHalf<DuplexStream>>,
        dialled: mpsc::UnboundedReceiver<DuplexStream>,
        _session: JoinSet<()>,
    }

    impl Client {
        fn new() -> Self {
            let ((near, far), (sender, dialled)) = (duplex(1 << 20), mpsc::unbounded_channel());
            let (from, to) = split(near);
            let mut session = JoinSet::new();
            session.spawn(run(Box::new(far), Arc::new(Dialled(sender))));
            let from = Frames::of(from);
            Self {
                to,
                from,
                dialled,
                _session: session,
            }
        }

        async fn send(&mut self, frame: Vec<u8>) {
            self.to.write_all(&frame).await.unwrap();
        }

        /// Opens a connection: `stream` is that of its errors, the next one that of its bytes.
        async fn open(&mut self, stream: u32) {
            for (stream, type_) in [(stream, "error"), (stream + 2, "data")] {
                let id = stream.div_ceil(4).to_string();
                let headers = [("streamtype", type_), ("port", "80"), ("requestid", &id)];
                self.send(spdy::opened(stream, &headers)).await;
            }
        }

        /// The bytes of a stream until it ends; those of the others are dropped.
        async fn read(&mut self, wanted: u32) -> String {
            let mut all = Vec::new();
            loop {
                if let Frame::Data { stream, bytes, is_last } = self.from.next().await.unwrap()
                    && stream == wanted
                {
                    all.extend(bytes);
                    if is_last {
                        return String::from_utf8(all).unwrap();
                    }
                }
            }
        }
    }

    #[tokio::test]
    async fn half_closed_connections_count_until_the_pod_ends_them() {
        let mut client = Client::new();
        let mut pods = Vec::new();
        let streams = (1..).step_by(4).take(CONNECTIONS_MAX);
        for stream in streams {
            client.open(stream).await;
            client.send(spdy::data(stream + 2, b"", true)).await;
            pods.push(client.dialled.recv().await.unwrap());
        }
        let next = u32::try_from(4 * CONNECTIONS_MAX + 1).unwrap();
        client.open(next).await;
        let refused = client.read(next).await;
        assert_eq!(refused, format!("{CONNECTIONS_MAX} connections are open already"));
        assert!(client.dialled.try_recv().is_err());
        pods.remove(0);
        assert_eq!(client.read(1).await, "");
        client.open(next + 4).await;
        client.dialled.recv().await.unwrap();
    }

    #[tokio::test]
    async fn a_reset_ends_the_connection_to_the_pod() {
        let mut client = Client::new();
        client.open(1).await;
        let mut pod = client.dialled.recv().await.unwrap();
        client.send(spdy::reset(3)).await;
        assert_eq!(pod.read(&mut [0]).await.unwrap(), 0);
        assert!(pod.write_all(b"x").await.is_err(), "the pod could still answer");
        assert_eq!(client.read(1).await, "");
    }

    #[tokio::test(start_paused = true)]
    async fn a_pod_that_reads_nothing_holds_up_the_others_for_a_while_only() {
        let mut client = Client::new();
        client.open(1).await;
        client.open(5).await;
        let _stalled = client.dialled.recv().await.unwrap();
        let mut other = client.dialled.recv().await.unwrap();
        for _ in 0..QUEUE_MAX + 8 {
            client.send(spdy::data(3, &[7; 1 << 10], false)).await;
        }
        client.send(spdy::data(7, b"x", false)).await;
        let passed_on = timeout(2 * STALLED_MAX, other.read_u8()).await;
        assert_eq!(passed_on.unwrap().unwrap(), b'x');
        let expected = "error forwarding port 80 to pod p, uid u: the pod does not read what it is sent";
        assert_eq!(client.read(1).await, expected);
    }
}
