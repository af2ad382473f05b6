//! Backup buckets and entries: each object of the garden has one of the same name in the seed, on which an extension
//! works. What the extension reports comes back into the garden's status, and what is taken away or changed in the seed
//! is brought back.

mod bucket;
mod entry;
mod report;

pub(crate) use bucket::run as run_buckets;
pub(crate) use entry::run as run_entries;

use std::collections::BTreeMap;
use std::time::Duration;

use api_meta::{Fault, LastOperationState, SecretReference, names};
use base_client::{apply, delete, get};
use base_controller::{Cache, Change, ObjectKey};
use control_plane_shoot_flow::ExtensionVerb;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;

use crate::context::{Context, MANAGER};
use crate::extension::{Kind, Request, Waiting, delete_confirmed, wait_deleted, wait_ready, write_request_unless_done};

/// How long one turn waits for the extension (contract E.3: 30 s); the next turn goes on.
const WAIT_TIMEOUT: Duration = Duration::from_secs(30);

/// Copies credentials into the seed's namespace `garden` as `name`, and returns a reference to them.
async fn copy_credentials(
    context: &Context,
    from: Api<Secret>,
    secret: &str,
    name: &str,
) -> Result<SecretReference, Fault> {
    let missing = || {
        Fault::user(format!("Secret {secret} with the backup credentials does not exist"))
            .hint("create the Secret that spec.backup.credentialsRef of the Seed names")
    };
    let original = get(&from, secret).await?.ok_or_else(missing)?;
    let copy = Secret {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(names::GARDEN_NAMESPACE.to_owned()),
            labels: Some(BTreeMap::from([(
                "gardener.cloud/purpose".to_owned(),
                "backup".to_owned(),
            )])),
            ..ObjectMeta::default()
        },
        data: original.data,
        type_: original.type_,
        ..Secret::default()
    };
    apply(&context.in_seed::<Secret>(names::GARDEN_NAMESPACE), &copy, MANAGER).await?;
    Ok(SecretReference {
        name: Some(name.to_owned()),
        namespace: Some(names::GARDEN_NAMESPACE.to_owned()),
    })
}

/// One turn for an object in the seed: requests work of its extension, unless it has succeeded with what is `same` as
/// `desired`, and waits for it.
async fn bring_about<K: Kind>(
    context: &Context,
    cache: &Cache<K>,
    desired: K,
    same: fn(&K, &K) -> bool,
) -> Result<K, Fault> {
    let api = Api::all(context.seed.clone());
    let object = write_request_unless_done(context, &api, ExtensionVerb::Reconcile, desired, same).await?;
    let requested = Request::of(&object);
    wait_ready(
        cache,
        &ObjectKey::of(&object),
        requested.as_ref(),
        WAIT_TIMEOUT,
        &Waiting::new(context.clock.clone()),
    )
    .await
}

/// Whether a change in the seed calls for a turn: the object is gone, another writer changed it, or it has failed while
/// the garden is `content` with it. The answer to a request is awaited by the turn that wrote it.
fn calls<K: Kind>(change: &Change<K>, content: impl FnOnce() -> bool) -> bool {
    let failed = |object: &K| {
        let last = object.status().and_then(|status| status.last_operation.cloned());
        last.is_some_and(|last| matches!(last.state, LastOperationState::Error | LastOperationState::Failed))
    };
    let Some(old) = &change.old else {
        return false;
    };
    change.deleted || old.meta().generation != change.object.meta().generation || failed(&change.object) && content()
}

/// One turn of taking an object in the seed away; the copy `secret` of its credentials goes last.
async fn take_away<K: Kind>(context: &Context, name: &str, secret: &str) -> Result<(), Fault> {
    let api: Api<K> = Api::all(context.seed.clone());
    delete_confirmed(context, &api, name).await?;
    let waiting = Waiting::new(context.clock.clone());
    wait_deleted(&api, &ObjectKey::cluster(name), WAIT_TIMEOUT, &waiting).await?;
    delete(&context.in_seed::<Secret>(names::GARDEN_NAMESPACE), secret).await
}
