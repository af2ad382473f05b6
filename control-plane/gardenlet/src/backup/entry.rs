//! BackupEntries of our seed. Their data outlives their shoot by the time of grace in the settings. In the seed the entries
//! of all projects meet: each carries whose it is, and what is another's is neither changed nor deleted.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api_core::v1beta1 as core;
use api_extensions as extensions;
use api_meta::{Fault, LastOperationState, finalizers, names};
use base_client::{add_finalizer, get, patch_status_if_changed, remove_finalizer};
use base_controller::{Controller, Next, ObjectKey};
use futures::FutureExt;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Api, ResourceExt};
use tokio_util::sync::CancellationToken;

use super::copy_credentials;
use super::report::{Reports, waits, write_outcome};
use crate::context::Context;

/// On an entry in the seed: the namespace of the garden's entry that it was made for.
const OWNER_NAMESPACE: &str = "backup.orangery.dev/owner-namespace";
/// And its uid.
const OWNER_UID: &str = "backup.orangery.dev/owner-uid";

/// Works on the entries of our seed until `stop`.
pub(crate) async fn run(context: Arc<Context>, stop: CancellationToken) {
    let seed = context.config.seed_name().to_owned();
    let entries = context.garden_caches.backup_entries.clone();
    let in_bucket = entries.index(|entry| Some(entry.spec.bucket_name.clone()));
    let by_name = entries.index(|entry| entry.metadata.name.clone());
    let controller = Controller::new("backup-entry", entries)
        .only(move |entry| entry.spec.seed_name.as_deref() == Some(&seed))
        .watches(&context.garden_caches.backup_buckets, move |change| {
            in_bucket
                .list(&change.object.name_any())
                .iter()
                .filter(|entry| !entry.is_content())
                .map(|entry| ObjectKey::of(&**entry))
                .collect()
        })
        .watches(context.seed_caches.of::<extensions::BackupEntry>(), move |change| {
            let of_it = by_name.list(&change.object.name_any());
            of_it
                .iter()
                .filter(|entry| super::calls(change, || entry.is_content()))
                .map(|entry| ObjectKey::of(&**entry))
                .collect()
        });
    controller
        .run(stop, move |entry| reconcile(context.clone(), entry).boxed())
        .await;
}

async fn reconcile(context: Arc<Context>, entry: Arc<core::BackupEntry>) -> Result<Next, Fault> {
    let api: Api<core::BackupEntry> = context.in_garden(&entry.namespace().unwrap_or_default());
    let Some(entry) = get(&api, &entry.name_any()).await? else {
        return Ok(Next::Change);
    };
    let (entry, result) = if entry.metadata.deletion_timestamp.is_some() {
        match take_away(&context, &api, &entry).await {
            Ok(Gone::Yes) => return Ok(Next::Change),
            Ok(Gone::After(left)) => {
                let mut after = entry.clone();
                let description = "waiting for the time of grace of the backups of a Shoot that is gone".to_owned();
                waits(&mut after, description, context.clock.now());
                patch_status_if_changed(&api, &entry, &after).await?;
                return Ok(Next::After(left));
            }
            Err(fault) => (entry, Err(fault)),
        }
    } else {
        let entry = add_finalizer(&api, entry, finalizers::GARDENER).await?;
        let result = bring_about(&context, &entry).await;
        (entry, result)
    };
    let mut after = entry.clone();
    after
        .status
        .get_or_insert_default()
        .seed_name
        .clone_from(&entry.spec.seed_name);
    write_outcome(&mut after, result.as_ref().copied(), context.clock.now());
    patch_status_if_changed(&api, &entry, &after).await?;
    result.map(|()| Next::Change)
}

async fn bring_about(context: &Context, entry: &core::BackupEntry) -> Result<(), Fault> {
    let (name, bucket_name) = (entry.name_any(), entry.spec.bucket_name.clone());
    if let Some(owner) = other_owner(context, entry).await? {
        return Err(
            Fault::user(format!("BackupEntry {name} of the seed belongs to {owner}"))
                .hint("delete the one in the seed when its backups are no longer needed, or this one"),
        );
    }
    let bucket = context
        .garden_caches
        .backup_buckets
        .get(&ObjectKey::cluster(&bucket_name));
    let bucket = bucket.filter(|bucket| is_ready(bucket)).ok_or_else(|| {
        Fault::dependency(format!("BackupBucket {bucket_name} is not ready yet"))
            .hint("look at the BackupBucket's status")
    })?;
    let answer = bucket.status.clone().unwrap_or_default();
    let secret_ref = credentials(context, &bucket, &answer, &copy_of_credentials(&name)).await?;
    let desired = extensions::BackupEntry {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            annotations: Some(owner(entry)),
            ..ObjectMeta::default()
        },
        spec: extensions::BackupEntrySpec {
            type_: bucket.spec.provider.type_.clone(),
            provider_config: bucket.spec.provider_config.clone(),
            backup_bucket_provider_status: answer.provider_status,
            region: bucket.spec.provider.region.clone(),
            bucket_name,
            secret_ref,
            ..extensions::BackupEntrySpec::default()
        },
        status: None,
    };
    let cache = context.seed_caches.of();
    let same = |present: &extensions::BackupEntry, desired: &extensions::BackupEntry| {
        let noted = |key| present.annotations().get(key) == desired.annotations().get(key);
        present.spec == desired.spec && noted(OWNER_NAMESPACE) && noted(OWNER_UID)
    };
    super::bring_about(context, cache, desired, same).await.map(drop)
}

/// What its extension has answered holds for what it is now.
fn is_ready(bucket: &core::BackupBucket) -> bool {
    bucket.status.as_ref().is_some_and(|status| {
        let last = status.last_operation.as_ref();
        status.observed_generation == bucket.metadata.generation
            && last.is_some_and(|last| last.state == LastOperationState::Succeeded)
    })
}

/// Copies the bucket's credentials to the entry's own Secret. Those that the extension has made for this bucket, in
/// the seed, count more than the seed's own.
async fn credentials(
    context: &Context,
    bucket: &core::BackupBucket,
    answer: &core::BackupBucketStatus,
    own: &str,
) -> Result<k8s_openapi::api::core::v1::SecretReference, Fault> {
    let in_garden = |namespace: Option<String>| namespace.unwrap_or_else(|| names::GARDEN_NAMESPACE.to_owned());
    match answer.generated_secret_ref.clone() {
        Some(generated) => {
            let secrets = context.in_seed(&in_garden(generated.namespace));
            copy_credentials(context, secrets, &generated.name.unwrap_or_default(), own).await
        }
        None => {
            let reference = bucket.spec.credentials_ref.clone().unwrap_or_default();
            let secrets = context.in_garden(&in_garden(reference.namespace));
            copy_credentials(context, secrets, &reference.name.unwrap_or_default(), own).await
        }
    }
}

/// What an entry in the seed carries of the garden's.
fn owner(entry: &core::BackupEntry) -> BTreeMap<String, String> {
    BTreeMap::from([
        (OWNER_NAMESPACE.to_owned(), entry.namespace().unwrap_or_default()),
        (OWNER_UID.to_owned(), entry.uid().unwrap_or_default()),
    ])
}

/// Which other entry owns the seed's entry of this name; none where it is this one's or has no owner noted: entries
/// carry their owner only since there is this check.
async fn other_owner(context: &Context, entry: &core::BackupEntry) -> Result<Option<String>, Fault> {
    let name = entry.name_any();
    let Some(present) = get(&Api::<extensions::BackupEntry>::all(context.seed.clone()), &name).await? else {
        return Ok(None);
    };
    let notes = present.annotations();
    let (Some(namespace), Some(uid)) = (notes.get(OWNER_NAMESPACE), notes.get(OWNER_UID)) else {
        return Ok(None);
    };
    let own = owner(entry);
    let is_own = own.get(OWNER_NAMESPACE) == Some(namespace) && own.get(OWNER_UID) == Some(uid);
    Ok((!is_own).then(|| format!("BackupEntry {namespace}/{name} with uid {uid}")))
}

/// How far a deletion is.
enum Gone {
    Yes,
    /// The time of grace lasts so much longer.
    After(Duration),
}

/// Gone when it returns, unless its time of grace is not over. What is another's stays in the seed.
async fn take_away(context: &Context, api: &Api<core::BackupEntry>, entry: &core::BackupEntry) -> Result<Gone, Fault> {
    let name = entry.name_any();
    let since = entry.metadata.deletion_timestamp.as_ref().map(|time| time.0);
    let until = since.and_then(|since| since.checked_add(context.config.backup_grace).ok());
    let left = until.map(|until| context.clock.until(until)).unwrap_or_default();
    if !left.is_zero() {
        return Ok(Gone::After(left));
    }
    if other_owner(context, entry).await?.is_none() {
        super::take_away::<extensions::BackupEntry>(context, &name, &copy_of_credentials(&name)).await?;
    }
    remove_finalizer(api, entry.clone(), finalizers::GARDENER).await?;
    Ok(Gone::Yes)
}

fn copy_of_credentials(entry: &str) -> String {
    format!("entry-{entry}")
}
