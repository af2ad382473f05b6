//! ManagedResources with the real resource manager, and clients of shoots by their access Secrets.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use api_extensions::Infrastructure;
use api_meta::{Fault, FaultClass, LastOperationState::Succeeded};
use api_resources::ManagedResource;
use async_trait::async_trait;
use base_client::{Connector, Target};
use control_plane_resource_manager::Options;
use extensions_sdk::managed::{self, ManagedObjects};
use extensions_sdk::shoot_client::ShootAccess;
use extensions_sdk::{Actuator, Context, Outcome, Registration};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::config::Kubeconfig;
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tests_kit::{Embedded, embedded, until, until_gone};

use crate::landscape::{NAMESPACE, Seed, state_of};

const NAME: &str = "extension-test";
/// Virtual time.
const TIMEOUT: Duration = Duration::from_secs(120);

fn map(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"},
        "data": {"key": value}})
}

/// A seed whose resource manager acts on ManagedResources of the seed.
struct Place {
    seed: Seed,
    client: Client,
}

impl Place {
    async fn new() -> Self {
        let seed = Seed::new().await;
        let client = seed.client.clone();
        let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
        for definition in api_resources::crds() {
            definitions.create(&PostParams::default(), &definition).await.unwrap();
        }
        let options = Options {
            class: Some("seed".to_owned()),
            ..Options::default()
        };
        let (source, clock, stop) = (client.clone(), seed.embedded.clock.clone(), seed.stop.clone());
        tokio::spawn(control_plane_resource_manager::run(
            source.clone(),
            source,
            options,
            clock,
            stop,
        ));
        Self { seed, client }
    }

    fn maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), "default")
    }

    async fn apply(&self, objects: &[Value]) -> ManagedResource {
        let managed = ManagedObjects::in_seed(NAME, "provider-x").objects(objects.to_vec());
        managed.unwrap().apply(&self.client, NAMESPACE).await.unwrap()
    }

    async fn wait_healthy(&self) -> Result<(), Fault> {
        managed::wait_healthy(&self.client, NAMESPACE, NAME, TIMEOUT).await
    }

    async fn secrets(&self) -> Vec<String> {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), NAMESPACE);
        let all = secrets.list(&ListParams::default()).await.unwrap();
        all.iter().map(ResourceExt::name_any).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn objects_are_applied_replaced_and_removed_with_their_secrets() {
    let place = Place::new().await;
    let first = place.apply(&[map("a", "1"), map("b", "1")]).await;
    place.wait_healthy().await.unwrap();
    assert_eq!(place.maps().get("b").await.unwrap().data.unwrap()["key"], "1");

    let second = place.apply(&[map("a", "2")]).await;
    assert_ne!(first.spec.secret_refs, second.spec.secret_refs);
    place.wait_healthy().await.unwrap();
    assert_eq!(place.maps().get("a").await.unwrap().data.unwrap()["key"], "2");
    assert!(place.maps().get_opt("b").await.unwrap().is_none());
    assert_eq!(place.secrets().await, [second.spec.secret_refs[0].name.clone()]);

    let again = place.apply(&[map("a", "2")]).await;
    assert_eq!(
        again.metadata.resource_version,
        place_version(&place).await,
        "nothing is written"
    );

    managed::delete(&place.client, NAMESPACE, NAME).await.unwrap();
    managed::wait_deleted(&place.client, NAMESPACE, NAME, TIMEOUT)
        .await
        .unwrap();
    assert!(place.maps().get_opt("a").await.unwrap().is_none());
    assert!(place.secrets().await.is_empty());
    managed::delete(&place.client, NAMESPACE, NAME).await.unwrap();
    managed::wait_deleted(&place.client, NAMESPACE, NAME, TIMEOUT)
        .await
        .unwrap();
    drop(place.seed);
}

async fn place_version(place: &Place) -> Option<String> {
    let resources: Api<ManagedResource> = Api::namespaced(place.client.clone(), NAMESPACE);
    resources.get(NAME).await.unwrap().metadata.resource_version
}

#[tokio::test(start_paused = true)]
async fn retained_objects_outlive_their_managed_resource() {
    let place = Place::new().await;
    place.apply(&[map("a", "1")]).await;
    place.wait_healthy().await.unwrap();
    managed::set_keep_objects(&place.client, NAMESPACE, NAME, true)
        .await
        .unwrap();
    managed::delete(&place.client, NAMESPACE, NAME).await.unwrap();
    managed::wait_deleted(&place.client, NAMESPACE, NAME, TIMEOUT)
        .await
        .unwrap();
    assert!(place.maps().get_opt("a").await.unwrap().is_some());
    managed::set_keep_objects(&place.client, NAMESPACE, NAME, true)
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_is_not_applied_is_reported_with_its_reason() {
    let place = Place::new().await;
    let unknown = json!({"apiVersion": "example.org/v1", "kind": "Unknown", "metadata": {"name": "a"}});
    place.apply(&[unknown]).await;
    let fault = place.wait_healthy().await.unwrap_err();
    assert_eq!(fault.class, FaultClass::Dependency);
    let text = fault.to_string();
    assert!(text.contains("ApplyFailed") && text.contains("Unknown"), "{text}");
}

/// Knows one cluster, and remembers the tokens that it was called with.
struct Known {
    shoot: Embedded,
    tokens: Mutex<Vec<String>>,
}

impl Connector for Known {
    fn client(&self, kubeconfig: &Kubeconfig) -> Result<Client, Fault> {
        let target = Target::of(kubeconfig)?;
        let token = target.token().unwrap_or_default().to_owned();
        self.tokens.lock().unwrap().push(token);
        Ok(self.shoot.admin())
    }
}

/// Writes a ConfigMap into the shoot.
struct Writes {
    known: Arc<Known>,
}

#[async_trait]
impl Actuator<Infrastructure> for Writes {
    async fn reconcile(&self, context: &Context, _: &Infrastructure) -> Result<Outcome<Infrastructure>, Fault> {
        let access = ShootAccess::new("provider-x");
        access.request(&context.client, NAMESPACE, "provider-x").await?;
        let shoot = access.client(context, &*self.known, TIMEOUT).await?;
        let map: ConfigMap = serde_json::from_value(map("written", "1")).map_err(Fault::bug)?;
        base_client::apply(&Api::namespaced(shoot, "default"), &map, "provider-x").await?;
        Ok(Outcome::default())
    }

    async fn delete(&self, context: &Context, _: &Infrastructure) -> Result<(), Fault> {
        ShootAccess::new("provider-x")
            .withdraw(&context.client, NAMESPACE)
            .await
    }
}

#[tokio::test(start_paused = true)]
async fn a_shoot_is_reached_by_the_access_secret_once_it_has_a_token() {
    const GENERIC: &str = "current-context: c\ncontexts:\n- name: c\n  context: {cluster: k, user: u}\n\
                           clusters:\n- name: k\n  cluster: {server: 'https://kube-apiserver'}\n\
                           users:\n- name: u\n  user: {tokenFile: /token}\n";
    let seed = Seed::new().await;
    seed.cluster(Succeeded, json!({})).await;
    let secrets: Api<Secret> = Api::namespaced(seed.client.clone(), NAMESPACE);
    let generic = json!({"metadata": {"name": "generic-token-kubeconfig"}, "stringData": {"kubeconfig": GENERIC}});
    let generic: Secret = serde_json::from_value(generic).unwrap();
    secrets.create(&PostParams::default(), &generic).await.unwrap();
    let known = Arc::new(Known {
        shoot: embedded().await,
        tokens: Mutex::default(),
    });
    let extension = seed.extension();
    let writes = Arc::new(Writes { known: known.clone() });
    tokio::spawn(
        extension
            .actuator::<Infrastructure>(Registration::of_type("test"), writes)
            .run(),
    );
    seed.create("test", json!({})).await;
    let requested = until(&secrets, "shoot-access-provider-x", "requested", |_| true).await;
    assert_eq!(requested.labels()["resources.gardener.cloud/class"], "shoot");
    let account = &requested.annotations()["serviceaccount.resources.gardener.cloud/name"];
    assert_eq!(account, "provider-x");

    let token = Patch::Merge(json!({"stringData": {"token": "abc"}}));
    secrets
        .patch("shoot-access-provider-x", &PatchParams::default(), &token)
        .await
        .unwrap();
    let infrastructures = seed.infrastructures();
    until(&infrastructures, "b", "created", |object| {
        state_of(object) == "Create Succeeded 100"
    })
    .await;
    assert_eq!(*known.tokens.lock().unwrap(), ["abc"]);
    let written: Api<ConfigMap> = Api::namespaced(known.shoot.admin(), "default");
    assert!(written.get_opt("written").await.unwrap().is_some());
    infrastructures.delete("b", &Default::default()).await.unwrap();
    until_gone(&secrets, "shoot-access-provider-x").await;
}
