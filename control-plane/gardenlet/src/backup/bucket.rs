//! BackupBuckets of our seed.

use std::sync::Arc;

use api_core::v1beta1 as core;
use api_extensions as extensions;
use api_meta::{Fault, LastOperationType, finalizers, names};
use base_client::{add_finalizer, delete, get, patch_status_if_changed, remove_finalizer};
use base_controller::{Controller, Next, ObjectKey};
use futures::FutureExt;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Api, ResourceExt};
use tokio_util::sync::CancellationToken;

use super::report::{outcome, type_of};
use super::{WAIT_TIMEOUT, copy_credentials};
use crate::context::Context;
use crate::extension::{Asked, Waiting, ask, delete_confirmed, needs_operation, wait_deleted, wait_ready};

/// Works on the buckets of our seed until `stop`.
pub(crate) async fn run(context: Arc<Context>, stop: CancellationToken) {
    let seed = context.config.seed_name().to_owned();
    let controller = Controller::new("backup-bucket", context.garden_caches.backup_buckets.clone())
        .only(move |bucket| bucket.spec.seed_name.as_deref() == Some(&seed))
        .watches(&context.garden_caches.backup_entries, |change| {
            // A bucket in deletion waits for its last entry.
            vec![ObjectKey::cluster(&change.object.spec.bucket_name)]
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
    if bucket.metadata.deletion_timestamp.is_some() {
        return take_away(&context, &api, bucket).await;
    }
    let bucket = add_finalizer(&api, bucket, finalizers::GARDENER).await?;
    let type_ = type_of(
        bucket.status.as_ref().and_then(|status| status.last_operation.as_ref()),
        false,
    );
    let result = bring_about(&context, &bucket).await;
    let mut after = bucket.clone();
    let status = after.status.get_or_insert_default();
    if let Ok(ready) = &result {
        let answer = ready.status.clone().unwrap_or_default();
        status.provider_status = answer.provider_status;
        status.generated_secret_ref = answer.generated_secret_ref;
    }
    let settled = status.observed_generation == bucket.metadata.generation && status.last_error.is_none();
    status.observed_generation = bucket.metadata.generation;
    let result = result.map(drop);
    if result.is_err() || !settled || type_ == LastOperationType::Create {
        let (last, error) = outcome(type_, "BackupBucket", result.as_ref().copied(), context.clock.now());
        status.last_operation = Some(last);
        status.last_error = error;
    }
    patch_status_if_changed(&api, &bucket, &after).await?;
    result.map(|()| Next::Change)
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
        &format!("bucket-{name}"),
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
    let api: Api<extensions::BackupBucket> = Api::all(context.seed.clone());
    let present = get(&api, &name).await?;
    let settled = present.filter(|present| present.spec == desired.spec && !needs_operation(present));
    let object = match settled {
        Some(present) => present,
        None => ask(context, &api, desired).await?,
    };
    let asked = Asked::of(&object);
    wait_ready(
        &context.seed_caches.backup_buckets,
        &ObjectKey::cluster(name),
        asked.as_ref(),
        WAIT_TIMEOUT,
        &Waiting::default(),
    )
    .await
}

async fn take_away(
    context: &Context,
    api: &Api<core::BackupBucket>,
    bucket: core::BackupBucket,
) -> Result<Next, Fault> {
    let name = bucket.name_any();
    let entries = context.garden_caches.backup_entries.list();
    if let Some(entry) = entries.iter().find(|entry| entry.spec.bucket_name == name) {
        tracing::debug!(
            bucket = name,
            "not deleted while BackupEntry {} uses it",
            ObjectKey::of(&**entry)
        );
        return Ok(Next::Change);
    }
    let seed: Api<extensions::BackupBucket> = Api::all(context.seed.clone());
    delete_confirmed(context, &seed, &name).await?;
    wait_deleted(&seed, &ObjectKey::cluster(&name), WAIT_TIMEOUT, &Waiting::default()).await?;
    delete(
        &context.in_seed::<Secret>(names::GARDEN_NAMESPACE),
        &format!("bucket-{name}"),
    )
    .await?;
    remove_finalizer(api, bucket, finalizers::GARDENER).await?;
    Ok(Next::Change)
}
