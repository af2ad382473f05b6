//! The client of a command: what it sends over either transport, and how it is answered. It knows nothing of commands.
//! (k8s.io/kubelet v0.35 pkg/cri/streaming/remotecommand/{httpstream,websocket}.go, k8s.io/apimachinery v0.35
//! pkg/util/httpstream/wsstream/conn.go)

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use cluster_streams::spdy::{self, Frame, Frames};
use cluster_streams::websocket::{self, Kind, Messages, Piece};
use tokio::io::AsyncRead;
use tokio::sync::mpsc;
use tokio::time::timeout;

/// How long a client may take to open its streams (k8s.io/apimachinery v0.35 pkg/util/remotecommand/constants.go,
/// DefaultStreamCreationTimeout).
const STREAMS_TIMEOUT: Duration = Duration::from_secs(30);
/// The number that ends a channel of WebSocket.
const CLOSE: u8 = 255;

/// How the client is connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transport {
    Spdy,
    /// `has_close`: the client can end standard input.
    WebSocket {
        has_close: bool,
    },
}

/// A stream of a command, by the number that its channel has in WebSocket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Channel {
    Stdin = 0,
    Stdout = 1,
    Stderr = 2,
    Error = 3,
    Resize = 4,
}

impl Channel {
    const ALL: [(Self, &str); 5] = [
        (Self::Stdin, "stdin"),
        (Self::Stdout, "stdout"),
        (Self::Stderr, "stderr"),
        (Self::Error, "error"),
        (Self::Resize, "resize"),
    ];

    fn named(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|(_, own)| *own == name)
            .map(|(channel, _)| channel)
    }

    fn numbered(number: u8) -> Option<Self> {
        Self::ALL
            .into_iter()
            .map(|(channel, _)| channel)
            .find(|channel| *channel as u8 == number)
    }
}

/// What the client sends to the command.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Sent {
    Stdin(Bytes),
    StdinEnded,
    /// A part of the JSON of a size.
    Resize(Bytes),
}

/// How the client is answered.
#[derive(Clone)]
pub(super) struct Answers {
    frames: mpsc::Sender<Vec<u8>>,
    /// The streams of SPDY; none in WebSocket, where channels have numbers of their own.
    streams: Option<BTreeMap<Channel, u32>>,
}

impl Answers {
    /// Bytes on a stream. They are dropped if the client is gone, or did not open the stream.
    pub(super) async fn send(&self, channel: Channel, bytes: &[u8]) {
        match &self.streams {
            None => self.put(websocket::binary(&[&[channel as u8], bytes])).await,
            Some(streams) => {
                if let Some(stream) = streams.get(&channel) {
                    self.put(spdy::data(*stream, bytes, false)).await;
                }
            }
        }
    }

    /// The end of all that is sent.
    pub(super) async fn end(&self) {
        match &self.streams {
            None => self.put(websocket::close()).await,
            Some(streams) => {
                for stream in streams.values() {
                    self.put(spdy::data(*stream, b"", true)).await;
                }
            }
        }
    }

    async fn put(&self, frame: Vec<u8>) {
        // Once the client is gone, frames are dropped.
        let _ = self.frames.send(frame).await;
    }
}

/// Reads what a client sends.
pub(super) enum Client<R> {
    Spdy {
        frames: Frames<R>,
        answers: Answers,
    },
    WebSocket {
        messages: Messages<R>,
        has_close: bool,
        answers: Answers,
    },
}

impl<R: AsyncRead + Unpin + Send> Client<R> {
    /// Waits until the streams are there. `wanted`: those of the request. Errors: the client is gone, or breaks the protocol.
    pub(super) async fn begin(
        transport: Transport,
        from: R,
        frames: mpsc::Sender<Vec<u8>>,
        wanted: &[Channel],
    ) -> io::Result<(Self, Answers)> {
        match transport {
            Transport::WebSocket { has_close } => {
                let answers = Answers { frames, streams: None };
                // It shows the client that all streams are open.
                let mut written = wanted
                    .iter()
                    .filter(|channel| matches!(channel, Channel::Stdout | Channel::Stderr));
                answers
                    .send(written.next().copied().unwrap_or(Channel::Error), b"")
                    .await;
                let messages = Messages::of(from);
                let client = Self::WebSocket {
                    messages,
                    has_close,
                    answers: answers.clone(),
                };
                Ok((client, answers))
            }
            Transport::Spdy => {
                let answers = Answers {
                    frames,
                    streams: Some(BTreeMap::new()),
                };
                let opening = opened(Frames::of(from), answers, wanted.len());
                let late = || {
                    io::Error::new(
                        io::ErrorKind::TimedOut,
                        "timed out waiting for client to create streams",
                    )
                };
                let (frames, answers) = timeout(STREAMS_TIMEOUT, opening).await.map_err(|_| late())??;
                let client = Self::Spdy {
                    frames,
                    answers: answers.clone(),
                };
                Ok((client, answers))
            }
        }
    }

    /// Reads to the end of the client. What the command does not take holds the client up.
    pub(super) async fn read(self, sent: mpsc::Sender<Sent>) -> io::Result<()> {
        match self {
            Self::Spdy { frames, answers } => read_spdy(frames, &answers, sent).await,
            Self::WebSocket {
                messages,
                has_close,
                answers,
            } => read_websocket(messages, has_close, &answers, sent).await,
        }
    }
}

/// Waits for the streams of SPDY, and answers each.
async fn opened<R: AsyncRead + Unpin>(
    mut frames: Frames<R>,
    mut answers: Answers,
    count: usize,
) -> io::Result<(Frames<R>, Answers)> {
    let mut has_replied = false;
    let mut streams = BTreeMap::new();
    while streams.len() < count {
        match frames.next().await? {
            Frame::Opened { stream, headers } => {
                answers
                    .put(spdy::reply(stream, !std::mem::replace(&mut has_replied, true)))
                    .await;
                let kind = headers.get("streamtype").map(String::as_str).unwrap_or_default();
                let channel = Channel::named(kind).ok_or_else(|| invalid("unexpected stream type"))?;
                streams.insert(channel, stream);
            }
            Frame::Ping { id } => answers.put(spdy::ping(id)).await,
            Frame::Data { bytes, .. } if !bytes.is_empty() => {
                return Err(invalid("data before all streams are open"));
            }
            Frame::GoAway => return Err(io::ErrorKind::UnexpectedEof.into()),
            Frame::Data { .. } | Frame::Reset { .. } | Frame::Other => {}
        }
    }
    answers.streams = Some(streams);
    Ok((frames, answers))
}

async fn read_spdy<R: AsyncRead + Unpin>(
    mut frames: Frames<R>,
    answers: &Answers,
    sent: mpsc::Sender<Sent>,
) -> io::Result<()> {
    let of = |channel| {
        answers
            .streams
            .as_ref()
            .and_then(|streams| streams.get(&channel))
            .copied()
    };
    let (stdin, resize) = (of(Channel::Stdin), of(Channel::Resize));
    loop {
        match frames.next().await? {
            Frame::Data { stream, bytes, is_last } => {
                if Some(stream) == stdin {
                    put(&sent, Sent::Stdin(bytes)).await;
                    if is_last {
                        put(&sent, Sent::StdinEnded).await;
                    }
                } else if Some(stream) == resize {
                    put(&sent, Sent::Resize(bytes)).await;
                }
            }
            Frame::Reset { stream } if Some(stream) == stdin => put(&sent, Sent::StdinEnded).await,
            Frame::Ping { id } if id % 2 == 1 => answers.put(spdy::ping(id)).await,
            Frame::Opened { .. } => return Err(invalid("more streams than were asked for")),
            Frame::GoAway => return Ok(()),
            Frame::Reset { .. } | Frame::Ping { .. } | Frame::Other => {}
        }
    }
}

async fn read_websocket<R: AsyncRead + Unpin>(
    mut messages: Messages<R>,
    has_close: bool,
    answers: &Answers,
    sent: mpsc::Sender<Sent>,
) -> io::Result<()> {
    // The first byte of a message names its channel.
    let mut channel = None;
    loop {
        let Piece { kind, is_first, bytes } = messages.next().await?;
        match kind {
            Kind::Binary | Kind::Text => {
                if is_first {
                    channel = None;
                }
                let mut bytes = Bytes::from(bytes);
                if channel.is_none() && !bytes.is_empty() {
                    channel = Some(bytes.split_to(1)[0]);
                }
                match channel.map(|number| (number, Channel::numbered(number))) {
                    Some((CLOSE, _)) if has_close && bytes.first() == Some(&(Channel::Stdin as u8)) => {
                        put(&sent, Sent::StdinEnded).await;
                    }
                    Some((_, Some(Channel::Stdin))) => put(&sent, Sent::Stdin(bytes)).await,
                    Some((_, Some(Channel::Resize))) => put(&sent, Sent::Resize(bytes)).await,
                    _ => {}
                }
            }
            Kind::Ping => answers.put(websocket::pong(&bytes)).await,
            Kind::Pong => {}
            Kind::Close => return Ok(()),
        }
    }
}

async fn put(sent: &mpsc::Sender<Sent>, what: Sent) {
    if what != Sent::Stdin(Bytes::new()) {
        // The command has ended, and its client is notified of that.
        let _ = sent.send(what).await;
    }
}

fn invalid(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}
