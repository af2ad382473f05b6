//! Messages of WebSocket: those of a client in pieces, so that a large one is never held as a whole; and a connection within
//! messages, whose bytes are those of binary messages whatever their bounds. (RFC 6455)

use std::io;
use std::time::Duration;

use base_client::Connection;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadHalf, duplex, split};
use tokio::sync::mpsc;
use tokio::time::timeout;

/// What a server adds to a client's key (RFC 6455, 1.3).
const ANSWER: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/// Longest frame that is not data (RFC 6455, 5.5).
const CONTROL_BYTES_MAX: u64 = 125;
/// Bytes that wait in each direction.
const PIPE_BYTES_MAX: usize = 64 << 10;
const PIECE_BYTES: usize = 32 << 10;
/// How long a connection whose client has closed it may take to end: this side reads the end at once.
const LAST_MAX: Duration = Duration::from_secs(10);
/// Answers to pings that wait to be sent.
const PONGS_MAX: usize = 8;

const FIN: u8 = 0x80;
const MASKED: u8 = 0x80;
const CONTINUED: u8 = 0;
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Text; whether it is UTF-8 is not looked at.
    Text,
    /// Bytes.
    Binary,
    /// The sender sends no more.
    Close,
    /// To be answered with [`pong`].
    Ping,
    /// The answer to a ping.
    Pong,
}

/// A part of a message, or all of it.
#[derive(Debug, PartialEq, Eq)]
pub struct Piece {
    /// The kind of the message.
    pub kind: Kind,
    /// Whether the message begins with it.
    pub is_first: bool,
    /// At most 32 KiB.
    pub bytes: Vec<u8>,
}

/// Reads messages of a client.
pub struct Messages<R> {
    from: R,
    /// The kind of the message of data that has not ended.
    kind: Option<Kind>,
    frame: Option<Frame>,
}

/// A frame of data that has not been read to its end.
struct Frame {
    left: u64,
    mask: [u8; 4],
    /// Which byte of the mask is next.
    at: usize,
    is_first: bool,
    ends_message: bool,
}

impl Frame {
    fn unmask(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
            *byte ^= self.mask[self.at];
            self.at = (self.at + 1) % self.mask.len();
        }
    }
}

impl<R: AsyncRead + Unpin> Messages<R> {
    /// Messages of a connection that has just begun.
    pub fn of(from: R) -> Self {
        Self {
            from,
            kind: None,
            frame: None,
        }
    }

    /// The next piece. What was read of a frame's head is lost when the future is dropped.
    ///
    /// # Errors
    /// The connection has ended, or what came is no message of a client.
    pub async fn next(&mut self) -> io::Result<Piece> {
        loop {
            if let (Some(frame), Some(kind)) = (&mut self.frame, self.kind) {
                let size = usize::try_from(frame.left).unwrap_or(usize::MAX).min(PIECE_BYTES);
                let mut bytes = vec![0; size];
                let read = self.from.read(&mut bytes).await?;
                if read == 0 && size > 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                bytes.truncate(read);
                frame.unmask(&mut bytes);
                frame.left -= read as u64;
                let is_first = std::mem::take(&mut frame.is_first);
                if frame.left == 0 {
                    if frame.ends_message {
                        self.kind = None;
                    }
                    self.frame = None;
                }
                return Ok(Piece { kind, is_first, bytes });
            }
            if let Some(control) = self.head().await? {
                return Ok(control);
            }
        }
    }

    /// Reads the head of a frame, and all of it unless it is data.
    async fn head(&mut self) -> io::Result<Option<Piece>> {
        let [kind, length] = [self.from.read_u8().await?, self.from.read_u8().await?];
        if length & MASKED == 0 {
            return Err(invalid("a frame of a client is not masked"));
        }
        let length = match length & !MASKED {
            126 => u64::from(self.from.read_u16().await?),
            127 => self.from.read_u64().await?,
            length => u64::from(length),
        };
        let mut mask = [0; 4];
        self.from.read_exact(&mut mask).await?;
        let (code, is_last) = (kind & 0x0f, kind & FIN != 0);
        let mut frame = Frame {
            left: length,
            mask,
            at: 0,
            is_first: code != CONTINUED,
            ends_message: is_last,
        };
        let kind = match code {
            TEXT | BINARY if self.kind.is_some() => return Err(invalid("a message begins within another")),
            CONTINUED if self.kind.is_none() => return Err(invalid("a message goes on that has not begun")),
            CONTINUED | TEXT | BINARY => {
                self.kind = match code {
                    TEXT => Some(Kind::Text),
                    BINARY => Some(Kind::Binary),
                    _ => self.kind,
                };
                self.frame = Some(frame);
                return Ok(None);
            }
            CLOSE => Kind::Close,
            PING => Kind::Ping,
            PONG => Kind::Pong,
            _ => return Err(invalid("a frame of an unknown kind")),
        };
        if length > CONTROL_BYTES_MAX || !is_last {
            return Err(invalid("a frame that is not data is too long"));
        }
        let mut bytes = vec![0; usize::try_from(length).unwrap_or_default()];
        self.from.read_exact(&mut bytes).await?;
        frame.unmask(&mut bytes);
        let is_first = true;
        Ok(Some(Piece { kind, is_first, bytes }))
    }
}

fn invalid(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// The answer to a client's key.
pub(crate) fn accepted(key: &str) -> String {
    STANDARD.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, format!("{key}{ANSWER}").as_bytes()))
}

/// The bytes within the messages of a client, as a connection. It ends with either side.
pub fn unwrapped(connection: Connection) -> Connection {
    let (near, far) = duplex(PIPE_BYTES_MAX);
    tokio::spawn(async move {
        let ((from_client, to_client), (from_here, to_here)) = (split(connection), split(far));
        let (pongs, waiting) = mpsc::channel(PONGS_MAX);
        let mut wrapping = std::pin::pin!(wrap(from_here, to_client, waiting));
        let ended = tokio::select! {
            // What waits for a client that closes still goes out, then the answer to its close (RFC 6455, 5.5.1).
            ended = unwrap(from_client, to_here, pongs) => match ended {
                Ok(()) => timeout(LAST_MAX, wrapping).await.unwrap_or_else(|late| Err(late.into())),
                Err(error) => Err(error),
            },
            ended = &mut wrapping => ended,
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a WebSocket ended");
        }
    });
    Box::new(near)
}

async fn unwrap(
    from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    pongs: mpsc::Sender<Vec<u8>>,
) -> io::Result<()> {
    let mut messages = Messages::of(from);
    loop {
        let Piece { kind, bytes, .. } = messages.next().await?;
        match kind {
            Kind::Binary => to.write_all(&bytes).await?,
            Kind::Close => return to.shutdown().await,
            // Not answered when the queue is full: the client pings again.
            Kind::Ping => drop(pongs.try_send(bytes)),
            Kind::Pong => {}
            Kind::Text => return Err(invalid("a message of another kind than binary")),
        }
    }
}

async fn wrap(
    mut from: ReadHalf<DuplexStream>,
    mut to: impl AsyncWrite + Unpin,
    mut pongs: mpsc::Receiver<Vec<u8>>,
) -> io::Result<()> {
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let message = tokio::select! {
            size = from.read(&mut piece) => match size? {
                0 => break,
                size => binary(&[&piece[..size]]),
            },
            Some(bytes) = pongs.recv() => pong(&bytes),
        };
        to.write_all(&message).await?;
        to.flush().await?;
    }
    to.write_all(&close()).await?;
    to.shutdown().await
}

/// A binary message of a server, from its parts.
pub fn binary(parts: &[&[u8]]) -> Vec<u8> {
    message(BINARY, parts)
}

/// A ping.
pub fn ping() -> Vec<u8> {
    message(PING, &[])
}

/// The answer to a ping.
pub fn pong(bytes: &[u8]) -> Vec<u8> {
    message(PONG, &[bytes])
}

/// The last message, after an ordinary end (1000).
pub fn close() -> Vec<u8> {
    message(CLOSE, &[&1000_u16.to_be_bytes()])
}

fn message(kind: u8, parts: &[&[u8]]) -> Vec<u8> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut message = vec![FIN | kind];
    match (u8::try_from(length), u16::try_from(length)) {
        (Ok(length @ ..126), _) => message.push(length),
        (_, Ok(length)) => {
            message.push(126);
            message.extend(length.to_be_bytes());
        }
        _ => {
            message.push(127);
            message.extend((length as u64).to_be_bytes());
        }
    }
    for part in parts {
        message.extend_from_slice(part);
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame as a client sends it.
    fn masked(kind: u8, content: &[u8]) -> Vec<u8> {
        let mask = [1, 2, 3, 4];
        let mut frame = message(kind, &[content]);
        let start = frame.len() - content.len();
        frame[1] |= MASKED;
        for (byte, mask) in frame[start..].iter_mut().zip(mask.iter().cycle()) {
            *byte ^= mask;
        }
        frame.splice(start..start, mask);
        frame
    }

    #[test]
    fn key_is_answered_as_in_the_rfc() {
        assert_eq!(accepted("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[tokio::test]
    async fn bytes_pass_in_both_directions_and_pings_are_answered() {
        let (mut client, server) = duplex(1 << 20);
        let mut inner = unwrapped(Box::new(server));
        let long = vec![7; 70_000];
        for content in [&b"abc"[..], &[7; 200], &long] {
            client.write_all(&masked(BINARY, content)).await.unwrap();
            let mut read = vec![0; content.len()];
            inner.read_exact(&mut read).await.unwrap();
            assert_eq!(read, content);
        }
        client.write_all(&masked(PING, b"x")).await.unwrap();
        let mut pong = [0; 3];
        client.read_exact(&mut pong).await.unwrap();
        assert_eq!(pong, [FIN | PONG, 1, b'x']);
        inner.write_all(b"hello").await.unwrap();
        let mut answer = [0; 7];
        client.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer[2..], b"hello");
        client.write_all(&masked(CLOSE, &[])).await.unwrap();
        assert_eq!(inner.read(&mut [0]).await.unwrap(), 0);
    }

    #[tokio::test]
    async fn a_close_is_answered_behind_what_still_waits() {
        let (mut client, server) = duplex(1 << 20);
        let mut inner = unwrapped(Box::new(server));
        client.write_all(&masked(CLOSE, &1000_u16.to_be_bytes())).await.unwrap();
        assert_eq!(inner.read(&mut [0]).await.unwrap(), 0);
        inner.write_all(b"last").await.unwrap();
        drop(inner);
        let mut rest = Vec::new();
        client.read_to_end(&mut rest).await.unwrap();
        assert_eq!(rest, [binary(&[b"last"]), close()].concat());
    }

    #[tokio::test]
    async fn unmasked_frame_ends_the_connection() {
        let (mut client, server) = duplex(1 << 10);
        let mut inner = unwrapped(Box::new(server));
        client.write_all(&binary(&[b"abc"])).await.unwrap();
        assert_eq!(inner.read(&mut [0]).await.unwrap(), 0);
    }

    #[tokio::test]
    async fn a_message_in_several_frames_comes_in_pieces_of_one_message() {
        let begins: [u8; 7] = [BINARY, MASKED | 1, 0, 0, 0, 0, b'a'];
        let sent = [
            &begins[..],
            &masked(PING, b"x"),
            &masked(CONTINUED, &[7; 40_000]),
            &masked(TEXT, b""),
        ]
        .concat();
        let mut messages = Messages::of(&sent[..]);
        let mut pieces = Vec::new();
        while let Ok(Piece { kind, is_first, bytes }) = messages.next().await {
            pieces.push((kind, is_first, bytes.len()));
        }
        let (binary, text) = (Kind::Binary, Kind::Text);
        assert_eq!(
            pieces,
            [
                (binary, true, 1),
                (Kind::Ping, true, 1),
                (binary, false, 32_768),
                (binary, false, 7_232),
                (text, true, 0)
            ]
        );
    }

    #[tokio::test]
    async fn frames_that_are_no_messages_are_refused() {
        for sent in [masked(CONTINUED, b"a"), masked(PING, &[0; 126]), masked(3, b"")] {
            let error = Messages::of(&sent[..]).next().await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{sent:?}");
        }
        let two = [[BINARY, MASKED | 1, 0, 0, 0, 0, b'a'].to_vec(), masked(BINARY, b"b")].concat();
        let mut messages = Messages::of(&two[..]);
        assert!(messages.next().await.is_ok());
        assert!(messages.next().await.is_err());
    }
}
