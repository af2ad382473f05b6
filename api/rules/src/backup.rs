//! Rules of BackupBuckets and BackupEntries in the garden (gardener/gardener v1.150
//! pkg/api/core/validation/backupbucket.go, backupentry.go).

use api_core::v1beta1::{BackupBucket, BackupEntry};
use api_meta::ObjectReference;

use crate::checks::{credentials_ref, frozen, not_empty};
use crate::{FieldError, Path};

/// Exactly one of seed and self-hosted shoot.
fn owner(errors: &mut Vec<FieldError>, seed: Option<&str>, shoot: Option<&ObjectReference>) {
    match (seed, shoot) {
        (None | Some(""), None) => {
            errors
                .push(Path::new("spec.seedName").invalid(seed, "either seedName or shootRef must be set; name a seed"));
        }
        (Some(seed), Some(_)) if !seed.is_empty() => {
            errors.push(Path::new("spec.seedName").invalid(seed, "must not be set together with shootRef; remove one"));
        }
        _ => {}
    }
}

/// Everything that is wrong with a bucket by itself.
pub fn validate_backup_bucket(bucket: &BackupBucket) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let spec = Path::new("spec");
    let provider = &bucket.spec.provider;
    for (field, text) in [("type", &provider.type_), ("region", &provider.region)] {
        if text.is_empty() {
            errors.push(
                spec.child("provider")
                    .child(field)
                    .invalid(text, "must not be empty; set it"),
            );
        }
    }
    owner(
        &mut errors,
        bucket.spec.seed_name.as_deref(),
        bucket.spec.shoot_ref.as_ref(),
    );
    match &bucket.spec.credentials_ref {
        None => errors.push(
            spec.child("credentialsRef")
                .required("name the Secret or WorkloadIdentity to use"),
        ),
        Some(reference) => credentials_ref(&mut errors, &spec.child("credentialsRef"), reference),
    }
    errors
}

/// Everything that is wrong with a change of a bucket.
pub fn validate_backup_bucket_update(new: &BackupBucket, old: &BackupBucket) -> Vec<FieldError> {
    let mut errors = validate_backup_bucket(new);
    let spec = Path::new("spec");
    errors.extend(frozen("backup bucket", new.spec != old.spec, &new.metadata));
    errors.extend(spec.child("provider").immutable(&new.spec.provider, &old.spec.provider));
    if old.spec.seed_name.is_some() {
        errors.extend(
            spec.child("seedName")
                .immutable(&new.spec.seed_name, &old.spec.seed_name),
        );
    }
    errors
}

/// Everything that is wrong with an entry by itself.
pub fn validate_backup_entry(entry: &BackupEntry) -> Vec<FieldError> {
    let mut errors = Vec::new();
    not_empty(&mut errors, &Path::new("spec.bucketName"), &entry.spec.bucket_name);
    owner(
        &mut errors,
        entry.spec.seed_name.as_deref(),
        entry.spec.shoot_ref.as_ref(),
    );
    errors
}

/// Everything that is wrong with a change of an entry; the seed may change, that is how it migrates.
pub fn validate_backup_entry_update(new: &BackupEntry, old: &BackupEntry) -> Vec<FieldError> {
    let mut errors = validate_backup_entry(new);
    errors.extend(frozen("backup entry", new.spec != old.spec, &new.metadata));
    errors.extend(Path::new("spec.bucketName").immutable(&new.spec.bucket_name, &old.spec.bucket_name));
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn bucket(seed: serde_json::Value, region: &str) -> BackupBucket {
        serde_json::from_value(
            json!({"spec": {"provider": {"type": "local", "region": region}, "seedName": seed,
            "credentialsRef": {"apiVersion": "v1", "kind": "Secret", "name": "s", "namespace": "garden"}}}),
        )
        .unwrap()
    }

    #[test]
    fn a_bucket_has_one_owner_and_stays_where_it_is() {
        assert_eq!(validate_backup_bucket(&bucket(json!("s"), "r")), []);
        assert_eq!(
            validate_backup_bucket(&bucket(json!(null), "r"))[0].path,
            "spec.seedName"
        );
        let moved = validate_backup_bucket_update(&bucket(json!("t"), "q"), &bucket(json!("s"), "r"));
        assert_eq!(
            moved.iter().map(|e| e.path.as_str()).collect::<Vec<_>>(),
            ["spec.provider", "spec.seedName"]
        );
        let nothing = validate_backup_bucket(&BackupBucket::default());
        assert_eq!(nothing.len(), 4, "{nothing:?}");
        assert_eq!(validate_backup_entry(&BackupEntry::default()).len(), 2);
    }
}
