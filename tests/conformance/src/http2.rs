//! HTTP/2 as bytes: frames that may violate the protocol, and the frames of a server. It checks no rule of the protocol, since
//! its callers violate them.

use std::collections::BTreeMap;

/// What every client sends first.
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Flags.
pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;
/// Bytes before the payload of a frame.
const HEAD_BYTES: usize = 9;

/// Kinds of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Data = 0,
    Headers = 1,
    Priority = 2,
    Reset = 3,
    Settings = 4,
    Push = 5,
    Ping = 6,
    GoAway = 7,
    Window = 8,
    Continuation = 9,
    Unknown = 0x77,
}

/// One frame.
pub(crate) fn frame(kind: Kind, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let size = u32::try_from(payload.len()).unwrap_or(u32::MAX).to_be_bytes();
    let mut bytes = size[1..].to_vec();
    bytes.extend([kind as u8, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// One setting of the client.
pub(crate) fn setting(name: u16, value: u32) -> Vec<u8> {
    let payload = [&name.to_be_bytes()[..], &value.to_be_bytes()].concat();
    frame(Kind::Settings, 0, 0, &payload)
}

/// The preface of a client with default settings.
pub(crate) fn hello() -> Vec<u8> {
    [PREFACE.to_vec(), frame(Kind::Settings, 0, 0, &[])].concat()
}

/// A literal header that is not added to the table.
pub(crate) fn field(name: &str, value: &str) -> Vec<u8> {
    let mut bytes = vec![0];
    for text in [name, value] {
        length(&mut bytes, text.len());
        bytes.extend(text.as_bytes());
    }
    bytes
}

/// HPACK's integer with a prefix of seven bits, for a string without Huffman coding.
fn length(bytes: &mut Vec<u8>, size: usize) {
    match u8::try_from(size) {
        Ok(size) if size < 0x7f => bytes.push(size),
        _ => {
            bytes.push(0x7f);
            let mut rest = size - 0x7f;
            while rest >= 0x80 {
                bytes.push((rest % 0x80) as u8 | 0x80);
                rest /= 0x80;
            }
            bytes.push(rest as u8);
        }
    }
}

/// The headers that a request must have.
pub(crate) fn request(method: &str, path: &str) -> Vec<u8> {
    let fields = [
        (":method", method),
        (":scheme", "https"),
        (":path", path),
        (":authority", "localhost"),
    ];
    fields.iter().flat_map(|(name, value)| field(name, value)).collect()
}

/// A whole request without a body.
pub(crate) fn get(stream: u32, path: &str) -> Vec<u8> {
    frame(Kind::Headers, END_STREAM | END_HEADERS, stream, &request("GET", path))
}

/// The frames that a server has sent so far.
#[derive(Debug, Default)]
pub(crate) struct Received {
    rest: Vec<u8>,
    /// Streams that it began to answer.
    pub(crate) answers: usize,
    /// How often it reset a stream, by error code.
    pub(crate) resets: BTreeMap<u32, usize>,
    /// The error code of its last GOAWAY frame: the first may only announce the end.
    pub(crate) goaway: Option<u32>,
}

impl Received {
    /// Reads more bytes of the server.
    pub(crate) fn read(&mut self, bytes: &[u8]) {
        self.rest.extend(bytes);
        while let Some(head) = self.rest.first_chunk::<HEAD_BYTES>().copied() {
            let size = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
            let Some(payload) = self.rest.get(HEAD_BYTES..HEAD_BYTES + size) else {
                return;
            };
            let code = |at: usize| {
                let code = payload.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
                code.map(u32::from_be_bytes)
            };
            match head[3] {
                kind if kind == Kind::Headers as u8 => self.answers += 1,
                kind if kind == Kind::Reset as u8 => *self.resets.entry(code(0).unwrap_or_default()).or_default() += 1,
                kind if kind == Kind::GoAway as u8 => self.goaway = code(4),
                _ => {}
            }
            self.rest.drain(..HEAD_BYTES + size);
        }
    }

    /// Whether a request or the whole connection was refused; if not, whether something was answered. Servers use different
    /// error codes, and one closes the connection where another one resets a stream.
    pub(crate) fn summary(&self, has_ended: bool) -> &'static str {
        match (
            self.goaway.is_some() || has_ended || !self.resets.is_empty(),
            self.answers,
        ) {
            (true, _) => "refused",
            (false, 0) => "silent",
            (false, _) => "answered",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_a_server_are_read_in_pieces() {
        let frames = [
            frame(Kind::Settings, 0, 0, &[]),
            frame(Kind::Headers, END_HEADERS, 1, &[0x88]),
            frame(Kind::Reset, 0, 3, &7_u32.to_be_bytes()),
            frame(Kind::GoAway, 0, 0, &[0, 0, 0, 3, 0, 0, 0, 11]),
        ]
        .concat();
        let mut received = Received::default();
        assert_eq!(received.summary(false), "silent");
        for (at, byte) in frames.iter().enumerate() {
            received.read(&[*byte]);
            if at == 18 {
                assert_eq!(received.summary(false), "answered");
            }
        }
        assert_eq!(
            (received.answers, received.resets.get(&7), received.goaway),
            (1, Some(&1), Some(11))
        );
        assert_eq!(received.summary(false), "refused");
    }

    #[test]
    fn a_long_text_has_a_long_length() {
        let bytes = field("a", &"b".repeat(1000));
        // 1000 = 127 + 105 + 6 * 128
        assert_eq!(bytes.get(..6), Some(&[0, 1, b'a', 0x7f, 105 | 0x80, 6][..]));
        assert_eq!(bytes.len(), 6 + 1000);
    }
}
