//! A seed, and webhooks of an extension that run in it.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use base_client::{CallRecord, record};
use base_clock::{Clock, Entropy};
use extensions_webhooks::{Mode, Mutator, Refusal, Request, Settings, Target, Webhook, Webhooks, labelled};
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::ObjectMeta;
use kube::{Api, Client};
use serde_json::json;
use tests_kit::{Embedded, embedded, until};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Where the extension runs.
pub(crate) const EXTENSION_NAMESPACE: &str = "extension-fake";
/// A shoot's namespace.
pub(crate) const SHOOT_NAMESPACE: &str = "shoot--core--a";
/// The configuration's name.
pub(crate) const CONFIGURATION: &str = "gardener-extension-provider-fake";
/// The Secret's name, and the Lease's.
pub(crate) const SECRET: &str = "gardener-extension-provider-fake-webhook";
/// Longer than anything here takes, in real time.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The seed's API server: one in this process, or a real one that the test keeps.
pub(crate) struct World {
    pub(crate) client: Client,
    _embedded: Option<Embedded>,
}

/// A replica that runs.
pub(crate) struct Replica {
    pub(crate) address: SocketAddr,
    pub(crate) stop: CancellationToken,
    pub(crate) running: JoinHandle<()>,
    calls: Arc<Mutex<Vec<CallRecord>>>,
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Replica {
    /// Writes since the last look, as "verb resource".
    pub(crate) fn writes(&self) -> Vec<String> {
        let calls = std::mem::take(&mut *self.calls.lock().unwrap());
        let shown = calls
            .iter()
            .map(|record| format!("{} {}", record.call.verb, record.call.resource));
        shown
            .filter(|call| !["get", "list", "watch"].iter().any(|verb| call.starts_with(verb)))
            .collect()
    }

    /// Ends it and waits for its end.
    pub(crate) async fn end(&mut self) {
        self.stop.cancel();
        let running = &mut self.running;
        tokio::time::timeout(PATIENCE, running).await.unwrap().unwrap();
    }
}

impl World {
    pub(crate) async fn new() -> Self {
        let embedded = embedded().await;
        let client = embedded.admin();
        Self::of(client, Some(embedded)).await
    }

    /// The seed of an administrator's client.
    pub(crate) async fn of(client: Client, embedded: Option<Embedded>) -> Self {
        let world = Self {
            client,
            _embedded: embedded,
        };
        world.namespace(EXTENSION_NAMESPACE, &[]).await;
        world
            .namespace(SHOOT_NAMESPACE, &[("shoot.gardener.cloud/provider", "fake")])
            .await;
        world
    }

    pub(crate) async fn namespace(&self, name: &str, labels: &[(&str, &str)]) {
        let labels = labels
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let namespace = Namespace {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                labels: Some(labels.collect()),
                ..ObjectMeta::default()
            },
            ..Namespace::default()
        };
        let api = Api::<Namespace>::all(self.client.clone());
        api.create(&PostParams::default(), &namespace).await.unwrap();
    }

    pub(crate) async fn install(&self, definitions: Vec<CustomResourceDefinition>) {
        let api = Api::<CustomResourceDefinition>::all(self.client.clone());
        for definition in definitions {
            api.create(&PostParams::default(), &definition).await.unwrap();
        }
    }

    /// Starts a replica of `provider-fake`, reached by URL.
    pub(crate) async fn start(&self, identity: &str, clock: Clock, webhooks: Vec<Webhook>) -> Replica {
        self.start_with(identity, clock, webhooks, |webhooks| webhooks).await
    }

    pub(crate) async fn start_with(
        &self,
        identity: &str,
        clock: Clock,
        webhooks: Vec<Webhook>,
        change: impl FnOnce(Webhooks) -> Webhooks,
    ) -> Replica {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let settings = Settings {
            extension: "provider-fake".to_owned(),
            namespace: EXTENSION_NAMESPACE.to_owned(),
            mode: Mode::Url(address.to_string()),
            service_port: 443,
            owner_namespace: Some(EXTENSION_NAMESPACE.to_owned()),
        };
        let calls = Arc::<Mutex<Vec<CallRecord>>>::default();
        let sink = calls.clone();
        let client = record(self.client.clone(), "extension", clock.clone(), move |call| {
            sink.lock().unwrap().push(call);
        });
        let mut all = Webhooks::new(settings, client, clock, Entropy::os());
        for webhook in webhooks {
            all = all.webhook(webhook).unwrap();
        }
        let (all, stop, identity) = (change(all), CancellationToken::new(), identity.to_owned());
        let until = stop.clone();
        let running = tokio::spawn(async move { all.run(listener, &identity, until).await });
        Replica {
            address,
            stop,
            running,
            calls,
        }
    }

    /// Waits until the configuration has so many authorities, and returns them as PEM.
    pub(crate) async fn bundle(&self, authorities: usize) -> String {
        let api = Api::<MutatingWebhookConfiguration>::all(self.client.clone());
        let what = format!("a configuration with {authorities} authorities");
        let has = |found: &MutatingWebhookConfiguration| count(&bundle_of(found)) == authorities;
        bundle_of(&until(&api, CONFIGURATION, &what, has).await)
    }

    pub(crate) fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.client.clone(), EXTENSION_NAMESPACE)
    }

    /// Has the leader look at the clock, which the test has set.
    pub(crate) async fn touch(&self, note: &str) {
        let patch = json!({"metadata": {"annotations": {"test": note}}});
        let secrets = self.secrets();
        secrets
            .patch(SECRET, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap();
    }

    /// Creates a ConfigMap in the shoot's namespace: whether the webhook has marked it, or the message of the refusal.
    pub(crate) async fn create_map(&self, name: &str, dry_run: bool) -> Result<bool, String> {
        let metadata = ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        };
        let map = ConfigMap {
            metadata,
            ..ConfigMap::default()
        };
        let params = PostParams {
            dry_run,
            ..PostParams::default()
        };
        let api = Api::<ConfigMap>::namespaced(self.client.clone(), SHOOT_NAMESPACE);
        let created = api.create(&params, &map).await.map_err(|error| error.to_string())?;
        Ok(created.data.is_some_and(|data| data.contains_key("marked")))
    }

    /// Waits until the API server marks ConfigMaps by the webhook.
    pub(crate) async fn until_marked(&self) {
        until_called(async || self.create_map("a", true).await == Ok(true)).await;
    }
}

/// Waits until the API server calls a webhook as its configuration has it now: it learns of that by a watch of its own, and nothing
/// tells when.
pub(crate) async fn until_called(mut is_called: impl AsyncFnMut() -> bool) {
    let called = async {
        while !is_called().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, called).await.unwrap();
}

/// The authorities of the first webhook, PEM.
pub(crate) fn bundle_of(found: &MutatingWebhookConfiguration) -> String {
    let bundle = found
        .webhooks
        .as_ref()
        .and_then(|all| all.first()?.client_config.ca_bundle.clone());
    String::from_utf8(bundle.unwrap_or_default().0).unwrap()
}

pub(crate) fn count(bundle: &str) -> usize {
    bundle.matches("BEGIN CERTIFICATE").count()
}

/// Marks ConfigMaps of shoots.
pub(crate) struct Marks;

#[async_trait]
impl Mutator<ConfigMap> for Marks {
    async fn mutate(&self, _: &Request, new: &mut ConfigMap, _: Option<&ConfigMap>) -> Result<(), Refusal> {
        new.data
            .get_or_insert_default()
            .insert("marked".to_owned(), "yes".to_owned());
        Ok(())
    }
}

/// A webhook for ConfigMaps of shoots.
pub(crate) fn marks(target: Target) -> Webhook {
    Webhook::new("marks", target)
        .mutates::<ConfigMap>(Marks)
        .in_namespaces(labelled("shoot.gardener.cloud/provider", "fake"))
}
