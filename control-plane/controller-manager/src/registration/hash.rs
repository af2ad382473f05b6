//! Hashes by which an installation shows what it was made from. They only tell "changed" from "not changed".

use serde::Serialize;
use sha2::{Digest, Sha256};

/// Hex digits of a hash in a label (as many as Gardener takes).
const DIGITS: usize = 16;

/// The first 16 hex digits of the SHA-256 of the value's JSON.
pub(crate) fn hash(value: &impl Serialize) -> String {
    let text = serde_json::to_vec(value).expect("our types print as JSON");
    let digest: [u8; 32] = Sha256::digest(&text).into();
    let mut hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    hex.truncate(DIGITS);
    hex
}
