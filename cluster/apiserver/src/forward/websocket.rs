//! A connection within WebSocket messages: binary messages are its bytes, whatever their bounds. (RFC 6455)

use std::io;

use base_client::Connection;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadHalf, duplex, split};
use tokio::sync::mpsc;

/// What a server adds to a client's key (RFC 6455, 1.3).
const ANSWER: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/// Largest frame that is read: kubectl's have 32 KiB and a little more.
const FRAME_BYTES_MAX: u64 = 1 << 20;
/// What waits in each direction.
const PIPE_BYTES_MAX: usize = 64 << 10;
const PIECE_BYTES: usize = 32 << 10;
/// Answers to pings that wait to be sent.
const PONGS_MAX: usize = 8;

const FIN: u8 = 0x80;
const MASKED: u8 = 0x80;
const CONTINUED: u8 = 0;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

/// The answer to a client's key.
pub(super) fn accepted(key: &str) -> String {
    STANDARD.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, format!("{key}{ANSWER}").as_bytes()))
}

/// The bytes within the messages of a client, as a connection. It ends with either side.
pub(super) fn unwrapped(connection: Connection) -> Connection {
    let (near, far) = duplex(PIPE_BYTES_MAX);
    tokio::spawn(async move {
        let ((from_client, to_client), (from_here, to_here)) = (split(connection), split(far));
        let (pongs, waiting) = mpsc::channel(PONGS_MAX);
        let ended = tokio::select! {
            ended = unwrap(from_client, to_here, pongs) => ended,
            ended = wrap(from_here, to_client, waiting) => ended,
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a WebSocket ended");
        }
    });
    Box::new(near)
}

async fn unwrap(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    pongs: mpsc::Sender<Vec<u8>>,
) -> io::Result<()> {
    loop {
        let (kind, content) = frame(&mut from).await?;
        match kind {
            BINARY | CONTINUED => to.write_all(&content).await?,
            CLOSE => return to.shutdown().await,
            // One that finds no room is left out: the client asks again.
            PING => drop(pongs.try_send(content)),
            PONG => {}
            _ => {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    "a frame of another kind than binary",
                ));
            }
        }
    }
}

/// The kind and content of the next frame.
async fn frame(from: &mut (impl AsyncRead + Unpin)) -> io::Result<(u8, Vec<u8>)> {
    let invalid = |why: &'static str| io::Error::new(io::ErrorKind::InvalidData, why);
    let [kind, length] = [from.read_u8().await?, from.read_u8().await?];
    if length & MASKED == 0 {
        return Err(invalid("a frame of a client is not masked"));
    }
    let length = match length & !MASKED {
        126 => u64::from(from.read_u16().await?),
        127 => from.read_u64().await?,
        length => u64::from(length),
    };
    if length > FRAME_BYTES_MAX {
        return Err(invalid("a frame is too large"));
    }
    let mut mask = [0; 4];
    from.read_exact(&mut mask).await?;
    let mut content = vec![0; usize::try_from(length).unwrap_or_default()];
    from.read_exact(&mut content).await?;
    for (byte, mask) in content.iter_mut().zip(mask.iter().cycle()) {
        *byte ^= mask;
    }
    Ok((kind & 0x0f, content))
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
                size => message(BINARY, &piece[..size]),
            },
            Some(pong) = pongs.recv() => message(PONG, &pong),
        };
        to.write_all(&message).await?;
        to.flush().await?;
    }
    // 1000: an ordinary end.
    to.write_all(&message(CLOSE, &1000_u16.to_be_bytes())).await?;
    to.shutdown().await
}

fn message(kind: u8, content: &[u8]) -> Vec<u8> {
    let mut message = vec![FIN | kind];
    match (u8::try_from(content.len()), u16::try_from(content.len())) {
        (Ok(length @ ..126), _) => message.push(length),
        (_, Ok(length)) => {
            message.push(126);
            message.extend(length.to_be_bytes());
        }
        _ => {
            message.push(127);
            message.extend((content.len() as u64).to_be_bytes());
        }
    }
    message.extend(content);
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame as a client sends it.
    fn masked(kind: u8, content: &[u8]) -> Vec<u8> {
        let mask = [1, 2, 3, 4];
        let mut frame = message(kind, content);
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
    async fn unmasked_frame_ends_the_connection() {
        let (mut client, server) = duplex(1 << 10);
        let mut inner = unwrapped(Box::new(server));
        client.write_all(&message(BINARY, b"abc")).await.unwrap();
        assert_eq!(inner.read(&mut [0]).await.unwrap(), 0);
    }
}
