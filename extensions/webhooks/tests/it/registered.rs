//! What is written where webhooks are registered, and what is not.

use base_clock::Clock;
use extensions_webhooks::Target;
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::ObjectMeta;
use kube::{Api, ResourceExt};
use serde_json::json;
use tests_kit::{until, until_gone};

use crate::world::{CONFIGURATION, EXTENSION_NAMESPACE, SECRET, World, bundle_of, count, marks};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_configuration_is_written_once_and_again_only_when_it_differs() {
    let world = World::new().await;
    let leftover = ValidatingWebhookConfiguration {
        metadata: ObjectMeta {
            name: Some(CONFIGURATION.to_owned()),
            ..ObjectMeta::default()
        },
        webhooks: None,
    };
    let validating = Api::<ValidatingWebhookConfiguration>::all(world.client.clone());
    validating.create(&PostParams::default(), &leftover).await.unwrap();
    let mut replica = world.start("a", Clock::real(), vec![marks(Target::Seed)]).await;
    world.bundle(1).await;
    until_gone(&validating, CONFIGURATION).await;
    let api = Api::<MutatingWebhookConfiguration>::all(world.client.clone());
    let before = api.get(CONFIGURATION).await.unwrap();
    let namespace = Api::<Namespace>::all(world.client.clone())
        .get(EXTENSION_NAMESPACE)
        .await
        .unwrap();
    let owner = &before.owner_references()[0];
    assert_eq!(
        (&owner.kind, Some(&owner.uid)),
        (&"Namespace".to_owned(), namespace.metadata.uid.as_ref())
    );

    // Others' metadata stays, their change of a webhook does not.
    let theft = json!({
        "metadata": {"labels": {"theirs": "yes"}},
        "webhooks": [{"name": "marks.fake.extensions.gardener.cloud", "timeoutSeconds": 3}],
    });
    let patch = Patch::Strategic(theft);
    let changed = api.patch(CONFIGURATION, &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(changed.webhooks.as_ref().unwrap()[0].timeout_seconds, Some(3));
    let is_mended = |found: &MutatingWebhookConfiguration| found.webhooks == before.webhooks;
    let mended = until(&api, CONFIGURATION, "as it was", is_mended).await;
    assert_eq!(mended.labels()["theirs"], "yes");
    // One more turn of the leader, of which the Secret that it writes again is the sign.
    world.secrets().delete(SECRET, &Default::default()).await.unwrap();
    let other = |found: &MutatingWebhookConfiguration| bundle_of(found) != bundle_of(&before);
    let renewed = until(&api, CONFIGURATION, "of another authority", other).await;
    assert_eq!(count(&bundle_of(&renewed)), 1);
    world.until_marked().await;
    replica.end().await;
    let mut writes = replica.writes();
    writes.retain(|write| write.ends_with("webhookconfigurations"));
    let (mutating, validating) = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations");
    let expected = [
        format!("create {mutating}"),
        format!("delete {validating}"),
        format!("patch {mutating}"),
        format!("patch {mutating}"),
    ];
    assert_eq!(writes, expected);
}
