//! An extension of a scenario's own, called moon, made with the real SDK; the scenario controls how it behaves.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use api_core::v1beta1::ControllerInstallation;
use api_extensions as ext;
use api_meta::Fault;
use async_trait::async_trait;
use base_client::Connector;
use base_clock::{Clock, Entropy};
use extensions_sdk::{Actuator, Context, Extension, ExtensionObject, Outcome, Registration};
use futures::{FutureExt, StreamExt};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Patch, PatchParams};
use kube::config::Kubeconfig;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Resource, ResourceExt};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::World;

/// The type of its Network.
pub const MOON: &str = "moon";
/// The type of its ContainerRuntime.
pub const CRATER: &str = "crater";

/// How it answers.
#[derive(Clone)]
pub enum Behaviour {
    /// With success.
    Works,
    /// With this.
    Fails(Arc<dyn Fn() -> Fault + Send + Sync>),
    /// Not at all.
    Sleeps,
    /// With success, after so long.
    Takes(Duration),
}

/// A request to it: "reconcile" or "delete", namespace, and type.
pub type Request = (&'static str, String, String);

/// The extension, for as long as it is kept.
#[derive(Clone)]
pub struct Moon {
    behaviour: Arc<Mutex<Behaviour>>,
    requests: Arc<Mutex<Vec<Request>>>,
    found: Arc<Mutex<Vec<Found>>>,
    connector: Option<Arc<dyn Connector>>,
    stop: CancellationToken,
}

/// What an Extension found when it was handled.
#[derive(Clone, Debug)]
pub struct Found {
    /// "reconcile" or "delete".
    pub what: &'static str,
    /// Its type.
    pub type_: String,
    /// Whether the Shoot's API server had a pod that was available.
    pub available: bool,
    /// Whether the Shoot's API server answered a request, by the kubeconfig that extensions are given.
    pub answers: bool,
}

impl Moon {
    /// Registers it for Network/moon, ContainerRuntime/crater and Extensions of these types with their `lifecycle`, and runs
    /// it. It reports its own installation as done, as whoever installs it would.
    pub async fn rise(world: &World, clock: &Clock, extensions: &[(&str, Value)]) -> Self {
        let moon = Self {
            behaviour: Arc::new(Mutex::new(Behaviour::Works)),
            requests: Arc::default(),
            found: Arc::default(),
            connector: Some(world.landscape.connector()),
            stop: CancellationToken::new(),
        };
        let resources: Vec<Value> = extensions
            .iter()
            .map(|(type_, lifecycle)| json!({"kind": "Extension", "type": type_, "lifecycle": lifecycle}))
            .chain([
                json!({"kind": "Network", "type": MOON}),
                json!({"kind": "ContainerRuntime", "type": CRATER}),
            ])
            .collect();
        let objects = vec![
            json!({"apiVersion": "core.gardener.cloud/v1beta1", "kind": "ControllerDeployment",
                "metadata": {"name": MOON}, "type": "scenario", "providerConfig": {}}),
            json!({"apiVersion": "core.gardener.cloud/v1beta1", "kind": "ControllerRegistration",
                "metadata": {"name": MOON},
                "spec": {"deployment": {"deploymentRefs": [{"name": MOON}]}, "resources": resources}}),
        ];
        landscape_local::apply_all(&world.garden, objects).await.unwrap();
        tokio::spawn(install(world.garden.clone()));
        let mut extension = Extension::builder(
            MOON,
            world.seed.clone(),
            clock.clone(),
            Entropy::seeded(7),
            moon.stop.clone(),
        )
        .actuator::<ext::Network>(Registration::of_type(MOON), Arc::new(moon.clone()))
        .actuator::<ext::ContainerRuntime>(Registration::of_type(CRATER), Arc::new(moon.clone()));
        for (type_, _) in extensions {
            let registration = Registration::of_type(*type_).finalizer_suffix(*type_);
            extension = extension.actuator::<ext::Extension>(registration, Arc::new(moon.clone()));
        }
        tokio::spawn(extension.run());
        moon
    }

    /// Runs its program alone, for Extensions of these types, of Shoots and of the seed itself: it is registered and
    /// installed by the scenario. Each answer takes `takes`, or no time.
    #[must_use]
    pub fn run_beside(seed: &kube::Client, clock: &Clock, types: &[&str], takes: Option<Duration>) -> Self {
        let moon = Self {
            behaviour: Arc::new(Mutex::new(takes.map_or(Behaviour::Works, Behaviour::Takes))),
            requests: Arc::default(),
            found: Arc::default(),
            connector: None,
            stop: CancellationToken::new(),
        };
        let entropy = Entropy::seeded(7);
        let mut extension = Extension::builder(MOON, seed.clone(), clock.clone(), entropy, moon.stop.clone());
        for type_ in types {
            for class in [ext::ExtensionClass::Shoot, ext::ExtensionClass::Seed] {
                let registration = Registration::of_type(*type_).class(class).finalizer_suffix(*type_);
                extension = extension.actuator::<ext::Extension>(registration, Arc::new(moon.clone()));
            }
        }
        tokio::spawn(extension.run());
        moon
    }

    /// From now on it behaves so.
    pub fn behave(&self, behaviour: Behaviour) {
        *self.behaviour.lock().unwrap() = behaviour;
    }

    /// The requests to it, in order.
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }

    /// What its Extensions found, in the order in which they were handled.
    #[must_use]
    pub fn found(&self) -> Vec<Found> {
        self.found.lock().unwrap().clone()
    }

    /// Ends it: from now on no controller answers for its types.
    pub fn set(&self) {
        self.stop.cancel();
    }

    /// Whether the Shoot's API server answers, whatever it says. Without a kubeconfig it does not.
    async fn is_answered(&self, seed: &kube::Client, namespace: &str) -> bool {
        let secrets: Api<Secret> = Api::namespaced(seed.clone(), namespace);
        let secret = secrets.get_opt("gardener-internal").await.ok().flatten();
        let kubeconfig = secret.and_then(|secret| secret.data?.remove("kubeconfig"));
        let kubeconfig = kubeconfig.and_then(|data| Kubeconfig::from_yaml(&String::from_utf8(data.0).ok()?).ok());
        let client = kubeconfig
            .zip(self.connector.as_ref())
            .and_then(|(kubeconfig, connector)| connector.client(&kubeconfig).ok());
        match client {
            Some(client) => matches!(client.apiserver_version().await, Ok(_) | Err(kube::Error::Api(_))),
            None => false,
        }
    }

    async fn answer<K: ExtensionObject>(&self, what: &'static str, context: &Context, object: &K) -> Result<(), Fault> {
        let namespace = Resource::meta(object).namespace.clone().unwrap_or_default();
        if K::ROW == ext::ExtensionKind::Extension {
            let found = Found {
                what,
                type_: object.type_().to_owned(),
                available: is_available(&context.client, &namespace).await,
                answers: self.is_answered(&context.client, &namespace).await,
            };
            self.found.lock().unwrap().push(found);
        }
        let request = (what, namespace, object.type_().to_owned());
        self.requests.lock().unwrap().push(request);
        let behaviour = self.behaviour.lock().unwrap().clone();
        match behaviour {
            Behaviour::Works => Ok(()),
            Behaviour::Fails(fault) => Err(fault()),
            Behaviour::Sleeps => context.unless_obsolete(std::future::pending()).await,
            Behaviour::Takes(duration) => {
                let working = tokio::time::sleep(duration);
                context.unless_obsolete(working.map(Ok)).await
            }
        }
    }
}

/// Whether a pod of the Shoot's API server is available.
async fn is_available(seed: &kube::Client, namespace: &str) -> bool {
    let deployments = Api::<Deployment>::namespaced(seed.clone(), namespace);
    let api_server = deployments.get_opt("kube-apiserver").await.ok().flatten();
    let available = api_server.and_then(|found| found.status?.available_replicas);
    available.unwrap_or_default() > 0
}

#[async_trait]
impl<K: ExtensionObject> Actuator<K> for Moon {
    async fn reconcile(&self, context: &Context, object: &K) -> Result<Outcome<K>, Fault> {
        self.answer("reconcile", context, object).await?;
        Ok(Outcome::default())
    }

    async fn delete(&self, context: &Context, object: &K) -> Result<(), Fault> {
        self.answer("delete", context, object).await
    }
}

/// Reports every installation of ours as done.
async fn install(garden: kube::Client) {
    let installations: Api<ControllerInstallation> = Api::all(garden);
    let mut changes = std::pin::pin!(watcher(installations.clone(), watcher::Config::default()).applied_objects());
    let mut reported: BTreeMap<String, ()> = BTreeMap::new();
    while let Some(change) = changes.next().await {
        let Ok(installation) = change else {
            continue;
        };
        let uid = installation.uid().unwrap_or_default();
        if installation.spec.registration_ref.name.as_deref() != Some(MOON) || reported.insert(uid, ()).is_some() {
            continue;
        }
        let now = "2026-01-01T00:00:00Z";
        let condition = |type_: &str, status: &str| {
            json!({"type": type_, "status": status, "reason": "Scenario", "message": "it runs",
                "lastTransitionTime": now, "lastUpdateTime": now})
        };
        let status = json!({"status": {"conditions": [
            condition("Valid", "True"), condition("Installed", "True"),
            condition("Healthy", "True"), condition("Progressing", "False"),
        ]}});
        // An installation that has gone meanwhile needs no report.
        let _ = installations
            .patch_status(
                &installation.name_any(),
                &PatchParams::default(),
                &Patch::Merge(&status),
            )
            .await;
    }
}
