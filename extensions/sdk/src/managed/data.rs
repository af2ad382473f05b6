//! The Secret of a ManagedResource from its objects, in the form of [`api_resources::data`]. Pure.

use std::collections::BTreeSet;

use api_meta::Fault;
use api_resources::data::{SECRET_BYTES_MAX, checksum, compress, documents, reference};
use serde_json::Value;

/// A Secret's name and data, and the annotation that keeps it from being collected.
pub(super) struct Packed {
    pub(super) secret: String,
    pub(super) bytes: Vec<u8>,
    pub(super) reference: String,
}

/// Refuses what is no object of Kubernetes.
pub(super) fn check(object: Value) -> Result<Value, Fault> {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    for (pointer, field) in [
        ("/apiVersion", "apiVersion"),
        ("/kind", "kind"),
        ("/metadata/name", "metadata.name"),
    ] {
        if text(pointer).is_empty() {
            let (kind, name) = (text("/kind"), text("/metadata/name"));
            return Err(Fault::bug(format!(
                "an object for a ManagedResource has no {field} (kind {kind:?}, name {name:?})"
            ))
            .hint("set it in the extension"));
        }
    }
    Ok(object)
}

/// Packs the objects of the ManagedResource `name`, in the order in which they were added.
pub(super) fn pack(name: &str, objects: &[Value]) -> Result<Packed, Fault> {
    refuse_doubles(name, objects)?;
    let documents = documents(objects);
    let bytes = compress(&documents).map_err(Fault::bug)?;
    if bytes.len() > SECRET_BYTES_MAX {
        return Err(Fault::user(format!(
            "the objects of ManagedResource {name} have {} bytes, {} when compressed; a Secret holds {SECRET_BYTES_MAX}",
            documents.len(),
            bytes.len()
        ))
        .hint("divide the objects among several ManagedResources"));
    }
    let secret = format!("managedresource-{name}-{}", checksum(documents.as_bytes()));
    let reference = reference("secret", &secret);
    Ok(Packed {
        secret,
        bytes,
        reference,
    })
}

/// gardener-resource-manager refuses an object that it is given twice.
fn refuse_doubles(name: &str, objects: &[Value]) -> Result<(), Fault> {
    let mut known = BTreeSet::new();
    for object in objects {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        // Two versions of a group are one kind; the core group has no slash.
        let group = text("/apiVersion").split_once('/').map_or("", |(group, _)| group);
        let (kind, namespace, own) = (text("/kind"), text("/metadata/namespace"), text("/metadata/name"));
        if !known.insert((group, kind, namespace, own)) {
            let place = if namespace.is_empty() {
                own.to_owned()
            } else {
                format!("{namespace}/{own}")
            };
            return Err(Fault::bug(format!("ManagedResource {name} has {kind} {place} twice"))
                .hint("add each object once, or name them differently"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use api_meta::FaultClass;
    use serde_json::json;
    use sha2::{Digest, Sha256};

    use super::*;

    fn map(namespace: &str, name: &str, value: &str) -> Value {
        let metadata = json!({"namespace": namespace, "name": name});
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": value}})
    }

    #[test]
    fn what_is_packed_is_unpacked_and_named_after_its_content() {
        let objects = [map("n", "a", "---\n"), map("n", "b", "2")];
        let packed = pack("x", &objects).unwrap();
        let mut read = String::new();
        brotli::Decompressor::new(packed.bytes.as_slice(), 4096)
            .read_to_string(&mut read)
            .unwrap();
        assert_eq!(read, format!("---\n{}\n---\n{}\n", objects[0], objects[1]));
        assert_eq!(pack("x", &objects).unwrap().secret, packed.secret);
        assert_ne!(pack("x", &objects[..1]).unwrap().secret, packed.secret);
        // sha256 of "foo" begins with 2c26b46b.
        assert_eq!(checksum(b"foo"), "2c26b46b");
    }

    #[test]
    fn an_object_that_is_there_twice_or_has_no_name_is_refused() {
        let fault = pack("x", &[map("n", "a", "1"), map("m", "a", "1"), map("n", "a", "2")])
            .err()
            .unwrap();
        assert_eq!(fault.class, FaultClass::Bug);
        assert_eq!(fault.to_string(), "ManagedResource x has ConfigMap n/a twice");
        let nameless = check(json!({"apiVersion": "v1", "kind": "ConfigMap"})).unwrap_err();
        assert!(
            nameless.to_string().contains("no metadata.name (kind \"ConfigMap\""),
            "{nameless}"
        );
    }

    #[test]
    fn objects_that_no_secret_holds_are_refused_with_their_size() {
        // Random enough that it does not become smaller.
        let noise: String = (0..100_000_u32)
            .map(|number| format!("{:x}", Sha256::digest(number.to_be_bytes())))
            .collect();
        let fault = pack("x", &[map("n", "a", &noise)]).err().unwrap();
        assert_eq!(fault.class, FaultClass::User);
        assert!(fault.to_string().contains("a Secret holds 1048576"), "{fault}");
    }
}
