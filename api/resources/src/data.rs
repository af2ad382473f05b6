//! Objects as the Secret of a ManagedResource holds them: documents in one compressed text, whose checksum is part of the
//! Secret's name (gardener/gardener v1.150 pkg/utils/managedresources/registry.go, pkg/utils/kubernetes/unique.go). Pure.

use std::fmt::Write as _;
use std::io::Write as _;

use api_meta::annotations;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// The one key; gardener-resource-manager decompresses what ends in `.br`.
pub const KEY: &str = "data.yaml.br";
/// What an API server takes in a Secret.
pub const SECRET_BYTES_MAX: usize = 1 << 20;
/// Bytes of a checksum in a name.
const NAME_BYTES: usize = 4;
/// Brotli's quality, from 0 to 11. What charts render to is one percent larger than with 9, which takes ten times as long or
/// more.
const QUALITY: i32 = 6;
/// Brotli's window: 4 MiB, more than objects of a chart have.
const WINDOW_BITS: i32 = 22;
const BUFFER_BYTES: usize = 4096;

/// The objects as documents, in their order. JSON is YAML, and reads the same for every reader.
#[must_use]
pub fn documents(objects: &[Value]) -> String {
    let mut text = String::new();
    for object in objects {
        // Writing to a String does not fail.
        let _ = writeln!(text, "---\n{object}");
    }
    text
}

/// The documents compressed.
///
/// # Errors
/// Those of the compressor, which has none for what is in memory.
pub fn compress(documents: &str) -> std::io::Result<Vec<u8>> {
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
#[must_use]
pub fn checksum(content: &[u8]) -> String {
    let sum = Sha256::digest(content);
    sum.iter().take(NAME_BYTES).map(|byte| format!("{byte:02x}")).collect()
}

/// Key of an annotation that keeps an object of that kind and name from being collected.
#[must_use]
pub fn reference(kind: &str, name: &str) -> String {
    format!("{}{kind}-{}", annotations::REFERENCE_PREFIX, checksum(name.as_bytes()))
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
        let compressed = compress(&text.repeat(1000)).unwrap();
        assert!(compressed.len() < 200, "{}", compressed.len());
        let mut read = String::new();
        brotli::Decompressor::new(compressed.as_slice(), BUFFER_BYTES)
            .read_to_string(&mut read)
            .unwrap();
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
