//! BackupBucket and BackupEntry: a folder, and a folder in it. Names are checked before they become paths. What is done to
//! a folder is done at once, in no thread of its own: it takes microseconds, and a run in virtual time replays exactly.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use api_extensions::{BackupBucket, BackupEntry};
use api_meta::{ErrorCode, Fault, RawJson};
use async_trait::async_trait;
use extensions_sdk::{Actuator, Change, Context, Outcome, Saved};
use kube::ResourceExt;
use serde_json::json;

use crate::provider_status::API_VERSION;

/// The folder of all buckets, in the data folder.
const BUCKETS: &str = "buckets";

/// The actuator of both kinds.
pub(crate) struct Backups {
    data_dir: PathBuf,
}

/// A name that is one plain path segment.
fn checked(name: &str) -> Result<&str, Fault> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    if name.is_empty() || name.starts_with('.') || !name.chars().all(plain) {
        return Err(Fault::user(format!("{name:?} cannot name a backup folder")).code(ErrorCode::ConfigurationProblem));
    }
    Ok(name)
}

impl Backups {
    pub(crate) fn new(data_dir: PathBuf) -> Self {
        Self { data_dir }
    }

    fn bucket(&self, name: &str) -> Result<PathBuf, Fault> {
        Ok(self.data_dir.join(BUCKETS).join(checked(name)?))
    }

    fn entry(&self, object: &BackupEntry) -> Result<PathBuf, Fault> {
        Ok(self
            .bucket(&object.spec.bucket_name)?
            .join(checked(&object.name_any())?))
    }
}

fn make(path: &Path) -> Result<(), Fault> {
    fs::create_dir_all(path).map_err(|error| {
        Fault::dependency(format!("make the folder {}: {error}", path.display()))
            .code(ErrorCode::InfraDependencies)
            .hint("let the extension write to its data folder")
    })
}

fn remove(path: &Path) -> Result<(), Fault> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(Fault::dependency(format!(
            "remove the folder {}: {error}",
            path.display()
        ))
        .code(ErrorCode::InfraDependencies)),
        _ => Ok(()),
    }
}

#[async_trait]
impl Actuator<BackupBucket> for Backups {
    async fn reconcile(&self, _: &Context, object: &BackupBucket) -> Result<Outcome<BackupBucket>, Fault> {
        let name = object.name_any();
        make(&self.bucket(&name)?)?;
        let status = RawJson::from(json!({
            "apiVersion": API_VERSION, "kind": "BackupBucketStatus", "folder": format!("{BUCKETS}/{name}"),
        }));
        Ok(Outcome {
            provider_status: Change::Set(status),
            ..Outcome::default()
        })
    }

    async fn delete(&self, _: &Context, object: &BackupBucket) -> Result<(), Fault> {
        remove(&self.bucket(&object.name_any())?)
    }
}

#[async_trait]
impl Actuator<BackupEntry> for Backups {
    async fn reconcile(&self, _: &Context, object: &BackupEntry) -> Result<Outcome<BackupEntry>, Fault> {
        let bucket = self.bucket(&object.spec.bucket_name)?;
        if !fs::exists(&bucket).unwrap_or(false) {
            return Err(
                Fault::dependency(format!("the bucket {} does not exist", object.spec.bucket_name))
                    .code(ErrorCode::RetryableInfraDependencies)
                    .hint("wait until its BackupBucket has succeeded"),
            );
        }
        make(&self.entry(object)?)?;
        Ok(Outcome::default())
    }

    async fn delete(&self, _: &Context, object: &BackupEntry) -> Result<(), Fault> {
        remove(&self.entry(object)?)
    }

    async fn migrate(&self, _: &Context, _: &BackupEntry) -> Result<Saved, Fault> {
        // The folder is found again by its name.
        Ok(Saved::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_would_leave_the_folder_are_refused() {
        for name in ["", ".", "..", "a/b", "../a", "/etc", "A", "a\0"] {
            assert!(checked(name).is_err(), "{name:?}");
        }
        assert!(checked("shoot--local--x--2f6c0a3e-1b.tar").is_ok());
    }

    #[test]
    fn folders_are_made_once_and_removed_once() {
        let root = std::env::temp_dir().join(format!("provider-local-{}", base_clock::Entropy::os().suffix(12)));
        let backups = Backups::new(root.clone());
        let bucket = backups.bucket("b").unwrap();
        for _ in 0..2 {
            make(&bucket).unwrap();
        }
        assert!(bucket.is_dir());
        for _ in 0..2 {
            remove(&bucket).unwrap();
        }
        assert!(!bucket.exists());
        remove(&root).unwrap();
    }
}
