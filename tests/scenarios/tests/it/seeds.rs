//! A Seed that is deleted: it takes its own with it, and says what it waits for.

use std::fmt::Debug;
use std::path::PathBuf;

use api_core::v1beta1::{BackupBucket, ControllerInstallation, Seed};
use api_meta::{LastOperation, LastOperationState, LastOperationType};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DeleteParams, ListParams};
use kube::{Api, Resource, ResourceExt};
use landscape_local::BACKUPS;
use serde::de::DeserializeOwned;
use tests_scenarios::{NAME, NAMESPACE, PATIENCE, World, wait};

const SEED: &str = "local";

fn seeds(world: &World) -> Api<Seed> {
    Api::all(world.garden.clone())
}

/// Names of all objects of a kind.
async fn names<K>(api: &Api<K>) -> Vec<String>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    let listed = api.list(&ListParams::default()).await.unwrap();
    listed.items.iter().map(ResourceExt::name_any).collect()
}

fn last_operation(seed: &Seed) -> Option<&LastOperation> {
    seed.status.as_ref()?.last_operation.as_ref()
}

/// Nothing of the seed is left in the garden, and no extension and no bucket in its cluster.
async fn nothing_is_left(world: &World) {
    let garden = || world.garden.clone();
    let none: [&str; 0] = [];
    assert_eq!(names(&Api::<BackupBucket>::all(garden())).await, none);
    assert_eq!(names(&Api::<ControllerInstallation>::all(garden())).await, none);
    let in_seed: Api<api_extensions::BackupBucket> = Api::all(world.seed.clone());
    assert_eq!(names(&in_seed).await, none);
    let namespaces: Api<Namespace> = Api::all(garden());
    wait(&namespaces, "seed-local", |namespace| namespace.is_none().then_some(())).await;
    let in_seed = names(&Api::<Namespace>::all(world.seed.clone())).await;
    assert!(
        !in_seed.iter().any(|name| name.starts_with("extension-")),
        "{in_seed:?}"
    );
    let buckets = std::fs::read_dir(buckets_of(world)).unwrap();
    assert_eq!(buckets.count(), 0, "folders of buckets");
}

/// Where the provider keeps the seed's buckets.
fn buckets_of(world: &World) -> PathBuf {
    world.folder().join(BACKUPS).join("buckets")
}

#[tokio::test(start_paused = true)]
async fn a_deleted_seed_goes_with_its_bucket_and_its_installations() {
    let world = World::start().await;
    let bucket = seeds(&world).get(SEED).await.unwrap().uid().unwrap();
    let buckets: Api<BackupBucket> = Api::all(world.garden.clone());
    assert_eq!(names(&buckets).await, [bucket.as_str()]);
    assert!(buckets_of(&world).join(&bucket).is_dir());
    base_client::delete_and_wait(&seeds(&world), SEED, PATIENCE)
        .await
        .unwrap();
    nothing_is_left(&world).await;
}

#[tokio::test(start_paused = true)]
async fn a_seed_with_a_shoot_stays_until_the_shoot_has_gone() {
    let world = World::with_example_shoot().await;
    let refused = seeds(&world).delete(SEED, &DeleteParams::default()).await.unwrap_err();
    let reason = format!("which is still used by shoot {NAMESPACE}/{NAME}; delete that first");
    assert!(refused.to_string().contains(&reason), "{refused}");
    world.delete_shoot(NAMESPACE, NAME).await;
    base_client::delete_and_wait(&seeds(&world), SEED, PATIENCE)
        .await
        .unwrap();
    nothing_is_left(&world).await;
}

#[tokio::test(start_paused = true)]
async fn a_deletion_names_what_it_waits_for() {
    let world = World::start().await;
    let bucket = names(&Api::<BackupBucket>::all(world.garden.clone())).await.remove(0);
    let installation = names(&Api::<ControllerInstallation>::all(world.garden.clone()))
        .await
        .remove(0);
    world.scale_provider(0).await;
    seeds(&world).delete(SEED, &DeleteParams::default()).await.unwrap();
    let expected = format!("Deletion of Seed waits for BackupBucket {bucket}, ControllerInstallation {installation}");
    wait(&seeds(&world), SEED, |seed| {
        let last = last_operation(seed?)?;
        let is = (&last.type_, &last.state) == (&LastOperationType::Delete, &LastOperationState::Processing);
        (is && last.description == expected).then_some(())
    })
    .await;
    // The status has to report why it does not go: the extension does not answer.
    wait(&seeds(&world), SEED, |seed| {
        let description = &last_operation(seed?)?.description;
        description
            .starts_with(&format!(
                "Deletion of Seed waits for BackupBucket {bucket}: BackupBucket {bucket}: "
            ))
            .then_some(())
    })
    .await;
    world.scale_provider(1).await;
    wait(&seeds(&world), SEED, |seed| seed.is_none().then_some(())).await;
    nothing_is_left(&world).await;
}
