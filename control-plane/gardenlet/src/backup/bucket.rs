//! BackupBuckets of our seed.

use std::sync::Arc;

use api_core::v1beta1 as core;
use api_extensions as extensions;
use api_meta::{Fault, finalizers, names};
use base_client::{add_finalizer, get, patch_status_if_changed, remove_finalizer};
use base_controller::{Controller, Next, ObjectKey};
use futures::FutureExt;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Api, ResourceExt};
use tokio_util::sync::CancellationToken;

use super::copy_credentials;
use super::report::{Reports, waits, write_outcome};
use crate::context::Context;

/// Works on the buckets of our seed until `stop`.
pub(crate) async fn run(context: Arc<Context>, stop: CancellationToken) {
    let seed = context.config.seed_name().to_owned();
    let buckets = context.garden_caches.backup_buckets.clone();
    let content = buckets.clone();
    let controller = Controller::new("backup-bucket", buckets)
        .only(move |bucket| bucket.spec.seed_name.as_deref() == Some(&seed))
        .watches(&context.garden_caches.backup_entries, |change| {
            // A bucket in deletion waits for its last entry.
            vec![ObjectKey::cluster(&change.object.spec.bucket_name)]
        })
        .watches(context.seed_caches.of::<extensions::BackupBucket>(), move |change| {
            let key = ObjectKey::of(&*change.object);
            let content = || content.get(&key).is_some_and(|bucket| bucket.is_content());
            super::calls(change, content).then_some(key).into_iter().collect()
        });
    controller
        .run(stop, move |bucket| reconcile(context.clone(), bucket).boxed())
        .await;
}

async fn reconcile(context: Arc<Context>, bucket: Arc<core::BackupBucket>) -> Result<Next, Fault> {
    let api: Api<core::BackupBucket> = Api::all(context.garden.clone());
    let Some(bucket) = get(&api, &bucket.name_any()).await? else {
        return Ok(Next::Change);
    };
    let (bucket, result) = if bucket.metadata.deletion_timestamp.is_some() {
        match take_away(&context, &api, &bucket).await {
            Ok(None) => return Ok(Next::Change),
            Ok(Some(entry)) => {
                let mut after = bucket.clone();
                let description = format!("waiting for BackupEntry {entry}, which lies in it and goes with its Shoot");
                waits(&mut after, description, context.clock.now());
                patch_status_if_changed(&api, &bucket, &after).await?;
                return Ok(Next::Change);
            }
            Err(fault) => (bucket, Err(fault)),
        }
    } else {
        let bucket = add_finalizer(&api, bucket, finalizers::GARDENER).await?;
        let result = bring_about(&context, &bucket).await;
        (bucket, result)
    };
    let mut after = bucket.clone();
    if let Ok(ready) = &result {
        let answer = ready.status.clone().unwrap_or_default();
        let status = after.status.get_or_insert_default();
        status.provider_status = answer.provider_status;
        status.generated_secret_ref = answer.generated_secret_ref;
    }
    write_outcome(&mut after, result.as_ref().map(drop), context.clock.now());
    patch_status_if_changed(&api, &bucket, &after).await?;
    result.map(|_| Next::Change)
}

async fn bring_about(context: &Context, bucket: &core::BackupBucket) -> Result<extensions::BackupBucket, Fault> {
    let name = bucket.name_any();
    let reference = bucket.spec.credentials_ref.clone().unwrap_or_default();
    let namespace = reference
        .namespace
        .unwrap_or_else(|| names::GARDEN_NAMESPACE.to_owned());
    let secret_ref = copy_credentials(
        context,
        context.in_garden(&namespace),
        &reference.name.unwrap_or_default(),
        &copy_of_credentials(&name),
    )
    .await?;
    let desired = extensions::BackupBucket {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            ..ObjectMeta::default()
        },
        spec: extensions::BackupBucketSpec {
            type_: bucket.spec.provider.type_.clone(),
            provider_config: bucket.spec.provider_config.clone(),
            region: bucket.spec.provider.region.clone(),
            secret_ref,
            ..extensions::BackupBucketSpec::default()
        },
        status: None,
    };
    let cache = context.seed_caches.of();
    super::bring_about(context, cache, desired, |present, desired| present.spec == desired.spec).await
}

/// The entry that still uses it, or none: then it is gone.
async fn take_away(
    context: &Context,
    api: &Api<core::BackupBucket>,
    bucket: &core::BackupBucket,
) -> Result<Option<ObjectKey>, Fault> {
    let name = bucket.name_any();
    let entries = context.garden_caches.backup_entries.list();
    if let Some(entry) = entries.iter().find(|entry| entry.spec.bucket_name == name) {
        return Ok(Some(ObjectKey::of(&**entry)));
    }
    super::take_away::<extensions::BackupBucket>(context, &name, &copy_of_credentials(&name)).await?;
    remove_finalizer(api, bucket.clone(), finalizers::GARDENER).await?;
    Ok(None)
}

fn copy_of_credentials(bucket: &str) -> String {
    format!("bucket-{bucket}")
}
