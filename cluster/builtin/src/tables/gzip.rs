//! Committed tables, which are compressed.

use std::io::Read as _;

/// A committed table.
pub(crate) fn unzip(compressed: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(compressed)
        .read_to_end(&mut bytes)
        .expect("a committed table, read by a test of this crate");
    bytes
}
