//! Rules of Bastions (gardener/gardener v1.150 pkg/api/operations/validation/bastion.go).

use api_core::operations::Bastion;
use api_meta::annotations::CREATED_BY;
use jiff::Timestamp;

use crate::cidr::any_network;
use crate::ssh_key::is_authorized_key;
use crate::{FieldError, Path};

/// Everything that is wrong with a Bastion by itself.
pub fn validate_bastion(bastion: &Bastion) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let (spec, path) = (&bastion.spec, Path::new("spec"));
    if spec.shoot_ref.name.is_empty() {
        errors.push(
            path.child("shootRef.name")
                .invalid("", "must not be empty; name a Shoot of this namespace"),
        );
    }
    if !is_authorized_key(&spec.ssh_public_key) {
        errors.push(path.child("sshPublicKey").invalid(
            &spec.ssh_public_key,
            "must be a public key as in a file of authorized keys, such as \"ssh-ed25519 AAAA...\"",
        ));
    }
    // Gardener names the list for each of its entries.
    let path = path.child("ingress");
    if spec.ingress.is_empty() {
        errors.push(path.invalid(&spec.ingress, "must not be empty; name the networks that may connect"));
    }
    for policy in &spec.ingress {
        any_network(&mut errors, &path, &policy.ip_block.cidr);
    }
    errors
}

/// Everything that is wrong with a change of a Bastion.
pub fn validate_bastion_update(new: &Bastion, old: &Bastion) -> Vec<FieldError> {
    let created_by = |bastion: &Bastion| {
        let annotations = bastion.metadata.annotations.as_ref();
        annotations
            .and_then(|annotations| annotations.get(CREATED_BY))
            .cloned()
            .unwrap_or_default()
    };
    let spec = Path::new("spec");
    let mut errors: Vec<FieldError> = [
        Path::new("metadata.annotations").immutable(&created_by(new), &created_by(old)),
        spec.child("shootRef.name")
            .immutable(&new.spec.shoot_ref.name, &old.spec.shoot_ref.name),
        spec.child("sshPublicKey")
            .immutable(&new.spec.ssh_public_key, &old.spec.ssh_public_key),
    ]
    .into_iter()
    .flatten()
    .collect();
    errors.extend(validate_bastion(new));
    errors
}

/// Everything that is wrong with a status written at `now`.
pub fn validate_bastion_status(bastion: &Bastion, now: Timestamp) -> Vec<FieldError> {
    let heartbeat = bastion
        .status
        .as_ref()
        .and_then(|status| status.last_heartbeat_timestamp.as_ref());
    let ahead = heartbeat.filter(|heartbeat| heartbeat.0 > now);
    ahead
        .map(|heartbeat| {
            Path::new("status.lastHeartbeatTimestamp")
                .invalid(heartbeat, "must not be in the future; leave it to the server")
        })
        .into_iter()
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJbMUCLbhL+4yLhFV8RxVUzSSvYbIpvmTcHnGJlPpzXB a@example.com";

    fn bastion(pointer: &str, value: Value) -> Bastion {
        let mut bastion = json!({"metadata": {"name": "b", "annotations": {"gardener.cloud/created-by": "alice"}},
            "spec": {"shootRef": {"name": "s"}, "sshPublicKey": KEY, "ingress": [{"ipBlock": {"cidr": "1.2.3.4/24"}}]}});
        if !pointer.is_empty() {
            *bastion.pointer_mut(pointer).unwrap() = value;
        }
        serde_json::from_value(bastion).unwrap()
    }

    fn paths(errors: Vec<FieldError>) -> Vec<String> {
        errors.into_iter().map(|error| error.path).collect()
    }

    #[test]
    fn each_rule_names_its_field() {
        assert_eq!(paths(validate_bastion(&bastion("", Value::Null))), [""; 0]);
        for (pointer, value, path) in [
            ("/spec/shootRef/name", json!(""), "spec.shootRef.name"),
            ("/spec/sshPublicKey", json!(""), "spec.sshPublicKey"),
            ("/spec/sshPublicKey", json!("hello"), "spec.sshPublicKey"),
            ("/spec/ingress", json!([]), "spec.ingress"),
            ("/spec/ingress/0/ipBlock/cidr", json!(""), "spec.ingress"),
            ("/spec/ingress/0/ipBlock/cidr", json!("1.2.3.4"), "spec.ingress"),
        ] {
            assert_eq!(paths(validate_bastion(&bastion(pointer, value))), [path]);
        }
    }

    #[test]
    fn creator_shoot_and_key_of_a_bastion_are_immutable() {
        let other_key = KEY.replace("a@example.com", "b@example.com");
        let old = bastion("", Value::Null);
        for (pointer, value, path) in [
            ("/metadata/annotations", json!({}), "metadata.annotations"),
            ("/spec/shootRef/name", json!("t"), "spec.shootRef.name"),
            ("/spec/sshPublicKey", json!(other_key), "spec.sshPublicKey"),
        ] {
            assert_eq!(paths(validate_bastion_update(&bastion(pointer, value), &old)), [path]);
        }
        let moved = bastion("/spec/ingress/0/ipBlock/cidr", json!("4.5.6.0/24"));
        assert_eq!(paths(validate_bastion_update(&moved, &old)), [""; 0]);
    }

    #[test]
    fn a_heartbeat_is_not_ahead_of_the_clock() {
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        let beaten = |at: &str| -> Bastion {
            serde_json::from_value(json!({"status": {"lastHeartbeatTimestamp": at}})).unwrap()
        };
        assert_eq!(
            paths(validate_bastion_status(&beaten("2026-01-01T00:00:00Z"), now)),
            [""; 0]
        );
        assert_eq!(
            paths(validate_bastion_status(&beaten("2026-01-01T00:00:01Z"), now)),
            ["status.lastHeartbeatTimestamp"]
        );
        assert_eq!(paths(validate_bastion_status(&Bastion::default(), now)), [""; 0]);
    }
}
