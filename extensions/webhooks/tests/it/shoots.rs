//! Webhooks in shoots: their ManagedResources, and what becomes of these when the authority changes.

use api_resources::ManagedResource;
use base_clock::Clock;
use extensions_webhooks::{ShootWebhooks, Target};
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use serde_json::Value;
use tests_kit::until;

use crate::world::{SECRET, SHOOT_NAMESPACE, World, count, marks};

const RESOURCE: &str = "gardener-extension-provider-fake-shoot";

/// The objects of a ManagedResource.
async fn objects(world: &World, resource: &ManagedResource) -> String {
    let secrets = Api::<Secret>::namespaced(world.client.clone(), SHOOT_NAMESPACE);
    let secret = secrets.get(&resource.spec.secret_refs[0].name).await.unwrap();
    let data = secret.data.unwrap();
    data.into_values().map(|bytes| unpacked(&bytes.0)).collect()
}

/// As text, whether it is packed or not.
fn unpacked(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => {
            let mut text = Vec::new();
            brotli::BrotliDecompress(&mut &bytes[..], &mut text).unwrap();
            String::from_utf8(text).unwrap()
        }
    }
}

/// The first webhook of a configuration in a ManagedResource's text: its URL, and how many authorities it has.
fn webhook(text: &str) -> (String, usize) {
    let configuration: Value = base_yaml::read_strict(text).unwrap();
    assert_eq!(configuration["kind"], "MutatingWebhookConfiguration", "{text}");
    assert_eq!(configuration["metadata"]["name"], RESOURCE);
    let config = &configuration["webhooks"][0]["clientConfig"];
    use base64::Engine as _;
    let bundle = base64::engine::general_purpose::STANDARD
        .decode(config["caBundle"].as_str().unwrap())
        .unwrap();
    (
        config["url"].as_str().unwrap().to_owned(),
        count(std::str::from_utf8(&bundle).unwrap()),
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shoots_get_the_webhooks_and_each_new_authority() {
    let world = World::new().await;
    world.install(api_resources::crds()).await;
    let (clock, hand) = Clock::settable(Clock::real().now());
    hand.jump(SignedDuration::from_hours(-27 * 24));
    let mut shoots: Option<ShootWebhooks> = None;
    let mut replica = world
        .start_with("a", clock, vec![marks(Target::Shoot)], |webhooks| {
            shoots = Some(webhooks.shoots());
            webhooks
        })
        .await;
    let shoots = shoots.unwrap();
    assert_eq!(shoots.managed_resource_name(), RESOURCE);
    until(&world.secrets(), SECRET, "there", |_| true).await;
    // The replica learns of its own Secret by a watch.
    let deployed = async {
        while shoots.deploy(&world.client, SHOOT_NAMESPACE).await.is_err() {
            tokio::task::yield_now().await
        }
    };
    tokio::time::timeout(crate::world::PATIENCE, deployed).await.unwrap();
    let resources = Api::<ManagedResource>::namespaced(world.client.clone(), SHOOT_NAMESPACE);
    let made = resources.get(RESOURCE).await.unwrap();
    let (url, authorities) = webhook(&objects(&world, &made).await);
    assert_eq!((url, authorities), (format!("https://{}/marks", replica.address), 1));

    hand.jump(SignedDuration::from_hours(24 * 24));
    world.touch("publish").await;
    let other = |resource: &ManagedResource| resource.spec.secret_refs != made.spec.secret_refs;
    let renewed = until(&resources, RESOURCE, "of other objects", other).await;
    assert_eq!(webhook(&objects(&world, &renewed).await).1, 2);
    shoots.remove(&world.client, SHOOT_NAMESPACE).await.unwrap();
    assert!(
        resources
            .get_opt(RESOURCE)
            .await
            .unwrap()
            .is_none_or(|it| it.metadata.deletion_timestamp.is_some())
    );
    replica.end().await;
}
