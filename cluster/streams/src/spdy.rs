//! Frames of SPDY 3.1, as far as streams to pods need them. It knows nothing of what streams are for.
//! (moby/spdystream v0.5.1 spdy/types.go; draft-mbelshe-httpbis-spdy-00, 2.6)

use std::collections::BTreeMap;
use std::io;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::headers::{Unpacker, empty_block};

/// Largest frame that is read: Go's clients send 32 KiB at once.
const FRAME_BYTES_MAX: usize = 1 << 20;
const CONTROL: u8 = 0x80;
const VERSION: u8 = 3;
const FIN: u8 = 1;
const SYN_STREAM: u8 = 1;
const SYN_REPLY: u8 = 2;
const RST_STREAM: u8 = 3;
const PING: u8 = 6;
const GO_AWAY: u8 = 7;

/// What a client sends.
#[derive(Debug, PartialEq, Eq)]
pub enum Frame {
    /// A stream begins.
    Opened {
        /// Its number.
        stream: u32,
        /// Names in lower case.
        headers: BTreeMap<String, String>,
    },
    /// Bytes on a stream.
    Data {
        /// Which.
        stream: u32,
        /// As they came.
        bytes: Bytes,
        /// The client sends no more on it.
        is_last: bool,
    },
    /// The stream is broken off.
    Reset {
        /// Which.
        stream: u32,
    },
    /// To be answered with [`ping`].
    Ping {
        /// What the answer names.
        id: u32,
    },
    /// No stream begins any more.
    GoAway,
    /// One that needs no answer.
    Other,
}

/// Reads frames from a connection.
pub struct Frames<R> {
    from: R,
    unpacker: Unpacker,
}

impl<R: AsyncRead + Unpin> Frames<R> {
    /// Frames of a connection that has just begun.
    pub fn of(from: R) -> Self {
        Self {
            from,
            unpacker: Unpacker::new(),
        }
    }

    /// The next frame. What was read of one is lost when the future is dropped.
    ///
    /// # Errors
    /// The connection has ended, or what came is no SPDY.
    pub async fn next(&mut self) -> io::Result<Frame> {
        let mut head = [0; 8];
        self.from.read_exact(&mut head).await?;
        let [kind, _, _, type_, flags, length @ ..] = head;
        let length = u32::from_be_bytes([0, length[0], length[1], length[2]]);
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length > FRAME_BYTES_MAX {
            return Err(wrong("a frame is too large"));
        }
        let mut content = vec![0; length];
        self.from.read_exact(&mut content).await?;
        if kind & CONTROL == 0 {
            return Ok(Frame::Data {
                stream: u32::from_be_bytes([head[0], head[1], head[2], head[3]]),
                bytes: content.into(),
                is_last: flags & FIN != 0,
            });
        }
        self.control(type_, &content)
    }

    fn control(&mut self, type_: u8, content: &[u8]) -> io::Result<Frame> {
        let number = || {
            let number = content.first_chunk::<4>().map(|bytes| u32::from_be_bytes(*bytes));
            number.ok_or_else(|| wrong("a frame is too short"))
        };
        Ok(match type_ {
            SYN_STREAM => {
                let packed = content.get(10..).ok_or_else(|| wrong("a frame is too short"))?;
                let headers = self.unpacker.unpack(packed);
                Frame::Opened {
                    stream: number()? & 0x7fff_ffff,
                    headers: headers.ok_or_else(|| wrong("headers cannot be unpacked"))?,
                }
            }
            RST_STREAM => Frame::Reset { stream: number()? },
            PING => Frame::Ping { id: number()? },
            GO_AWAY => Frame::GoAway,
            _ => Frame::Other,
        })
    }
}

fn wrong(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// The answer to a stream that begins. `is_first`: of its connection.
pub fn reply(stream: u32, is_first: bool) -> Vec<u8> {
    let block = empty_block(is_first);
    let content: Vec<u8> = stream.to_be_bytes().into_iter().chain(block).collect();
    control(SYN_REPLY, &content)
}

/// A ping, or the answer to one, which is the same ping.
pub fn ping(id: u32) -> Vec<u8> {
    control(PING, &id.to_be_bytes())
}

/// Bytes on a stream, its last ones or not.
pub fn data(stream: u32, bytes: &[u8], is_last: bool) -> Vec<u8> {
    let mut frame = stream.to_be_bytes().to_vec();
    frame.extend(flags_and_length(if is_last { FIN } else { 0 }, bytes.len()));
    frame.extend(bytes);
    frame
}

fn control(type_: u8, content: &[u8]) -> Vec<u8> {
    let mut frame = vec![CONTROL, VERSION, 0, type_];
    frame.extend(flags_and_length(0, content.len()));
    frame.extend(content);
    frame
}

/// Frames that go out are shorter than 16 MiB.
fn flags_and_length(flags: u8, length: usize) -> [u8; 4] {
    let [_, a, b, c] = u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes();
    [flags, a, b, c]
}

/// A stream that a client begins, as tests send it: its headers are not compressed. Stream 1 is the first.
#[cfg(test)]
pub(crate) fn opened(stream: u32, headers: &[(&str, &str)]) -> Vec<u8> {
    let number = |number: usize| u32::try_from(number).expect("a test's headers are few").to_be_bytes();
    let mut block = number(headers.len()).to_vec();
    for text in headers.iter().flat_map(|(name, value)| [name, value]) {
        block.extend(number(text.len()));
        block.extend(text.as_bytes());
    }
    let length = u16::try_from(block.len()).expect("a test's headers are short");
    let mut content = stream.to_be_bytes().to_vec();
    content.extend([0; 6]);
    if stream == 1 {
        content.extend([0x78, 0x01]);
    }
    content.push(0);
    content.extend(length.to_le_bytes());
    content.extend((!length).to_le_bytes());
    content.extend(block);
    control(SYN_STREAM, &content)
}

/// A stream that a client breaks off, as tests send it.
#[cfg(test)]
pub(crate) fn reset(stream: u32) -> Vec<u8> {
    control(RST_STREAM, &[stream.to_be_bytes(), [0, 0, 0, 5]].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(bytes: &[u8]) -> io::Result<Frame> {
        Frames::of(bytes).next().await
    }

    #[tokio::test]
    async fn written_frames_are_read_back() {
        let sent = Frame::Data {
            stream: 3,
            bytes: Bytes::from_static(b"abc"),
            is_last: true,
        };
        assert_eq!(read(&data(3, b"abc", true)).await.unwrap(), sent);
        assert_eq!(read(&ping(5)).await.unwrap(), Frame::Ping { id: 5 });
        assert_eq!(read(&reply(1, true)).await.unwrap(), Frame::Other);
        let opened: Vec<u8> = [0, 0, 0, 1, 0, 0, 0, 0, 0, 0]
            .into_iter()
            .chain(empty_block(true))
            .collect();
        let headers = BTreeMap::new();
        assert_eq!(
            read(&control(SYN_STREAM, &opened)).await.unwrap(),
            Frame::Opened { stream: 1, headers }
        );
    }

    #[tokio::test]
    async fn malformed_frames_are_refused() {
        assert!(read(&[CONTROL, VERSION, 0, PING, 0, 0xff, 0xff, 0xff]).await.is_err());
        assert!(read(&control(PING, &[1])).await.is_err());
        assert!(read(&control(SYN_STREAM, &[0; 10])).await.is_err());
        assert!(read(&ping(1)[..7]).await.is_err());
    }
}
