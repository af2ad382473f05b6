//! Objects as a ManagedResource carries them: compressed into one immutable Secret that is named after what it holds
//! (gardener/gardener v1.150 pkg/utils/managedresources). Pure.

use std::fmt::Write as _;
use std::io::Write as _;

use api_meta::annotations;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// The one key.
pub(crate) const KEY: &str = "data.yaml.br";
/// What an API server takes in a Secret.
pub(crate) const SECRET_BYTES_MAX: usize = 1 << 20;
/// Bytes of a checksum in a name, as in gardener/gardener v1.150 pkg/utils/kubernetes/unique.go.
const NAME_BYTES: usize = 4;
/// Of brotli, from 0 to 11. What charts render to is one percent larger than with 9, which takes ten times as long or more.
const QUALITY: i32 = 6;
/// Of brotli: 4 MiB, more than objects of a chart have.
const WINDOW_BITS: i32 = 22;
const BUFFER_BYTES: usize = 4096;

/// The objects as documents. JSON is YAML, and reads the same for every reader.
pub(crate) fn documents(objects: &[Value]) -> String {
    let mut text = String::new();
    for object in objects {
        // Writing to a String does not fail.
        let _ = writeln!(text, "---\n{object}");
    }
    text
}

/// The documents compressed.
pub(crate) fn compress(documents: &str) -> std::io::Result<Vec<u8>> {
    let parameters = brotli::enc::BrotliEncoderParams {
        quality: QUALITY,
        lgwin: WINDOW_BITS,
        ..brotli::enc::BrotliEncoderParams::default()
    };
    let mut writer = brotli::CompressorWriter::with_params(Vec::new(), BUFFER_BYTES, &parameters);
    writer.write_all(documents.as_bytes())?;
    writer.flush()?;
    Ok(writer.into_inner())
}

/// The part of a name that distinguishes contents.
pub(crate) fn checksum(content: &[u8]) -> String {
    hex(Sha256::digest(content).iter().take(NAME_BYTES))
}

/// The whole checksum.
pub(crate) fn whole_checksum(content: &[u8]) -> String {
    hex(Sha256::digest(content).iter())
}

/// Key of an annotation that keeps an object of that kind and name from being collected.
pub(crate) fn reference(kind: &str, name: &str) -> String {
    format!("{}{kind}-{}", annotations::REFERENCE_PREFIX, checksum(name.as_bytes()))
}

fn hex<'b>(bytes: impl Iterator<Item = &'b u8>) -> String {
    bytes.map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use serde_json::json;

    use super::*;

    #[test]
    fn compressed_documents_come_back_whole() {
        let text = documents(&[json!({"a": 1}), json!({"b": "---\n"})]);
        assert_eq!(text, "---\n{\"a\":1}\n---\n{\"b\":\"---\\n\"}\n");
        let compressed = compress(&text.repeat(1000)).expect("it compresses");
        assert!(compressed.len() < 200, "{}", compressed.len());
        let mut read = String::new();
        brotli::Decompressor::new(compressed.as_slice(), BUFFER_BYTES)
            .read_to_string(&mut read)
            .expect("it is brotli");
        assert_eq!(read, text.repeat(1000));
    }

    #[test]
    fn references_are_named_as_garbage_collection_reads_them() {
        // sha256 of "foo" begins with 2c26b46b.
        assert_eq!(
            reference("secret", "foo"),
            "reference.resources.gardener.cloud/secret-2c26b46b"
        );
    }
}
