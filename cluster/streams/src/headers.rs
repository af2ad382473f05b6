//! Blocks of headers in SPDY 3: names and values, compressed with a dictionary that both sides know. Received blocks are
//! unpacked; sent ones are empty and need no compression.
//! (moby/spdystream v0.5.1 spdy/{read,write,dictionary}.go)

use std::collections::BTreeMap;

use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::inflate_flags::{TINFL_FLAG_HAS_MORE_INPUT, TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF};
use miniz_oxide::inflate::core::{DecompressorOxide, decompress};

/// The dictionary of both sides (draft-mbelshe-httpbis-spdy-00, 2.6.10.1).
const DICTIONARY: &[u8] = include_bytes!("dictionary.bin");
/// How far back compressed data may refer.
const WINDOW_BYTES: usize = 32 << 10;
/// Largest block: a stream has three short headers at most.
const BLOCK_BYTES_MAX: usize = 16 << 10;
/// The flag in zlib's header that the id of a dictionary follows it (RFC 1950, FDICT).
const NAMED_DICTIONARY: u8 = 0x20;

/// Unpacks the blocks of one connection, each of which may refer to those before.
pub(crate) struct Unpacker {
    state: Box<DecompressorOxide>,
    /// What was unpacked last, and room for the next block.
    window: Vec<u8>,
    filled: usize,
    has_begun: bool,
}

impl Unpacker {
    pub(crate) fn new() -> Self {
        let mut window = vec![0; WINDOW_BYTES + BLOCK_BYTES_MAX];
        window[..DICTIONARY.len()].copy_from_slice(DICTIONARY);
        Self {
            state: Box::default(),
            window,
            filled: DICTIONARY.len(),
            has_begun: false,
        }
    }

    /// Names and values of a block. `None`: it is none, or too large.
    pub(crate) fn unpack(&mut self, mut packed: &[u8]) -> Option<BTreeMap<String, String>> {
        if !self.has_begun {
            let flags = *packed.get(1)?;
            let start = if flags & NAMED_DICTIONARY == 0 { 2 } else { 6 };
            packed = packed.get(start..)?;
            self.has_begun = true;
        }
        let flags = TINFL_FLAG_HAS_MORE_INPUT | TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF;
        let limit = self.filled + BLOCK_BYTES_MAX;
        let room = self.window.get_mut(..limit)?;
        let (status, read, size) = decompress(&mut self.state, packed, room, self.filled, flags);
        if status != TINFLStatus::NeedsMoreInput || read != packed.len() {
            return None;
        }
        let block = self.window.get(self.filled..self.filled + size)?;
        let headers = parsed(block);
        self.filled += size;
        if let Some(surplus) = self.filled.checked_sub(WINDOW_BYTES) {
            self.window.copy_within(surplus..self.filled, 0);
            self.filled = WINDOW_BYTES;
        }
        headers
    }
}

fn parsed(block: &[u8]) -> Option<BTreeMap<String, String>> {
    let mut rest = block;
    let number = |rest: &mut &[u8]| {
        let (number, after) = rest.split_first_chunk::<4>()?;
        *rest = after;
        usize::try_from(u32::from_be_bytes(*number)).ok()
    };
    let count = number(&mut rest)?;
    let mut headers = BTreeMap::new();
    for _ in 0..count {
        let mut text = || {
            let length = number(&mut rest)?;
            let (text, after) = rest.split_at_checked(length)?;
            rest = after;
            String::from_utf8(text.to_vec()).ok()
        };
        headers.insert(text()?.to_ascii_lowercase(), text()?);
    }
    Some(headers)
}

/// A block without headers, behind the beginning of the format where it is the first of a connection.
pub(crate) fn empty_block(is_first: bool) -> Vec<u8> {
    let mut block = Vec::new();
    if is_first {
        block.extend([0x78, 0x01]);
    }
    // Four bytes stored as they are: the number of headers; and an empty piece, at which readers flush.
    block.extend([0, 4, 0, 0xfb, 0xff, 0, 0, 0, 0]);
    block.extend([0, 0, 0, 0xff, 0xff]);
    block
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two blocks as zlib packs them on one connection (`streamtype: error`, then `data`; `port: 8080`, `requestid: 0`).
    const PACKED: [&str; 2] = [
        "78f9e3c6a7c202253a703a2b294a4dcc851625aca9a0808614cb45e01c6061606100a4398b20d198094ade8c0600000000ffff",
        "c2aa19540e2512d60b000000ffff",
    ];

    fn bytes(hex: &str) -> Vec<u8> {
        let digits: Vec<u8> = hex
            .bytes()
            .map(|digit| (digit as char).to_digit(16).unwrap() as u8)
            .collect();
        digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
    }

    #[test]
    fn blocks_of_one_connection_are_unpacked_in_their_order() {
        let mut unpacker = Unpacker::new();
        for (packed, kind) in PACKED.iter().zip(["error", "data"]) {
            let headers = unpacker.unpack(&bytes(packed)).unwrap();
            let header = |name: &str| headers.get(name).map(String::as_str);
            assert_eq!(
                (header("streamtype"), header("port"), header("requestid")),
                (Some(kind), Some("8080"), Some("0"))
            );
        }
        // The window is shortened many times.
        let mut unpacker = Unpacker::new();
        assert!(unpacker.unpack(&bytes(PACKED[0])).is_some());
        for _ in 0..3000 {
            assert!(unpacker.unpack(&empty_block(false)).unwrap().is_empty());
        }
    }

    #[test]
    fn damaged_block_is_refused() {
        assert!(Unpacker::new().unpack(&[]).is_none());
        assert!(Unpacker::new().unpack(&[0x78, 0x01, 0xff, 0xff, 0xff]).is_none());
        let mut cut = bytes(PACKED[0]);
        cut.truncate(20);
        assert!(Unpacker::new().unpack(&cut).is_none());
        // Zeros that unpack to more than may be.
        let bomb = bytes(
            "78daedc13101000000c2a0f54f6d0d0fa000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000080570386af0001",
        );
        assert!(Unpacker::new().unpack(&bomb).is_none());
    }
}
