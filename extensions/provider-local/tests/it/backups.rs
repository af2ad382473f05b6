//! Buckets and entries are folders.

use std::path::PathBuf;

use api_extensions::{BackupBucket, BackupEntry};
use api_meta::LastOperationState::Succeeded;
use extensions_sdk::ExtensionObject;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::json;
use tests_kit::{until, until_gone};

use crate::landscape::{Landscape, TYPE};

/// A folder that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        Self(std::env::temp_dir().join(format!("provider-local-{}", base_clock::Entropy::os().suffix(12))))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn succeeded<K: ExtensionObject>(object: &K) -> bool {
    object.progress().0.is_some_and(|last| last.state == Succeeded)
}

#[tokio::test(start_paused = true)]
async fn an_entry_waits_for_its_bucket_and_both_go_as_they_came() {
    let (landscape, folder) = (Landscape::new().await, Folder::new());
    landscape.start_in(folder.0.clone());
    let secret = json!({"name": "s", "namespace": "garden"});
    let entry: BackupEntry = serde_json::from_value(json!({
        "metadata": {"name": "shoot--zoo--ape--uid"},
        "spec": {"type": TYPE, "region": "r", "bucketName": "bucket", "secretRef": secret},
    }))
    .unwrap();
    let bucket: BackupBucket = serde_json::from_value(json!({
        "metadata": {"name": "bucket"}, "spec": {"type": TYPE, "region": "r", "secretRef": secret},
    }))
    .unwrap();
    let entries: Api<BackupEntry> = Api::all(landscape.client.clone());
    let buckets: Api<BackupBucket> = Api::all(landscape.client.clone());
    entries.create(&PostParams::default(), &entry).await.unwrap();
    let waiting = until(&entries, "shoot--zoo--ape--uid", "refused", |entry| {
        entry.status.as_ref().is_some_and(|status| status.last_error.is_some())
    })
    .await;
    let error = waiting.status.unwrap().last_error.unwrap().description;
    assert!(error.contains("the bucket bucket does not exist"), "{error}");

    buckets.create(&PostParams::default(), &bucket).await.unwrap();
    until(&buckets, "bucket", "made", succeeded).await;
    until(&entries, "shoot--zoo--ape--uid", "made", succeeded).await;
    let path = folder.0.join("buckets/bucket");
    assert!(path.join("shoot--zoo--ape--uid").is_dir());

    entries
        .delete("shoot--zoo--ape--uid", &DeleteParams::default())
        .await
        .unwrap();
    until_gone(&entries, "shoot--zoo--ape--uid").await;
    assert_eq!(std::fs::read_dir(&path).unwrap().count(), 0);
    buckets.delete("bucket", &DeleteParams::default()).await.unwrap();
    until_gone(&buckets, "bucket").await;
    assert!(!path.exists());
}
