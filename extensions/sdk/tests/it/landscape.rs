//! A seed with the extension kinds, one shoot's Cluster, and an actuator that the test controls.

use std::sync::{Arc, Mutex};

use api_core::v1beta1::Shoot;
use api_extensions::{Cluster, Infrastructure};
use api_meta::{Fault, LastOperationState, LastOperationType, RawJson};
use async_trait::async_trait;
use base_client::{Call, CallRecord, Injected, inject_faults, record};
use extensions_sdk::{Actuator, Change, Context, Extension, InfrastructureOwn, Outcome, Registration};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::ObjectMeta;
use kube::{Api, Client};
use serde_json::{Value, json};
use tests_kit::{Embedded, embedded};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// The shoot's namespace in the seed.
pub(crate) const NAMESPACE: &str = "shoot--a--b";
/// Sorted and compact, as an API server keeps it; the number is beyond 2^53.
pub(crate) const PROVIDER_STATUS: &str = r#"{"id":9007199254740993,"nested":{"text":"\"q\" \\ é"}}"#;

type Answer = Box<dyn FnMut(&Infrastructure) -> Result<(), Fault> + Send>;

/// An actuator that answers what the test wants and records its calls.
#[derive(Clone)]
pub(crate) struct Answering {
    answer: Arc<Mutex<Answer>>,
    received: Arc<Mutex<Vec<String>>>,
    patient: bool,
}

impl Answering {
    pub(crate) fn new(answer: impl FnMut(&Infrastructure) -> Result<(), Fault> + Send + 'static) -> Self {
        Self {
            answer: Arc::new(Mutex::new(Box::new(answer))),
            received: Arc::default(),
            patient: false,
        }
    }

    /// Waits, at the first call, until the operation is obsolete.
    pub(crate) fn patient(mut self) -> Self {
        self.patient = true;
        self
    }

    pub(crate) fn received(&self) -> Vec<String> {
        self.received.lock().unwrap().clone()
    }

    fn note(&self, what: &str, object: &Infrastructure) -> Result<(), Fault> {
        self.received
            .lock()
            .unwrap()
            .push(format!("{what} {}", object.metadata.generation.unwrap_or_default()));
        (self.answer.lock().unwrap())(object)
    }
}

#[async_trait]
impl Actuator<Infrastructure> for Answering {
    async fn reconcile(&self, context: &Context, object: &Infrastructure) -> Result<Outcome<Infrastructure>, Fault> {
        self.note("reconcile", object)?;
        if self.patient && object.metadata.generation == Some(1) {
            context
                .unless_obsolete(std::future::pending::<Result<(), Fault>>())
                .await?;
        }
        let own = InfrastructureOwn {
            nodes_cidr: Some("10.0.0.0/16".into()),
            ..Default::default()
        };
        let provider_status = Change::Set(RawJson::parse(PROVIDER_STATUS).unwrap());
        Ok(Outcome {
            provider_status,
            ..Outcome::own(own)
        })
    }

    async fn delete(&self, _: &Context, object: &Infrastructure) -> Result<(), Fault> {
        self.note("delete", object)
    }

    async fn force_delete(&self, _: &Context, object: &Infrastructure) -> Result<(), Fault> {
        self.note("force-delete", object)
    }
}

pub(crate) struct Seed {
    pub(crate) embedded: Embedded,
    pub(crate) client: Client,
    pub(crate) stop: CancellationToken,
    calls: Arc<Mutex<Vec<CallRecord>>>,
}

impl Drop for Seed {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Seed {
    pub(crate) async fn new() -> Self {
        let embedded = embedded().await;
        let client = embedded.admin();
        let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
        for definition in api_extensions::crds() {
            definitions.create(&PostParams::default(), &definition).await.unwrap();
        }
        let metadata = ObjectMeta {
            name: Some(NAMESPACE.into()),
            ..Default::default()
        };
        let namespace = Namespace {
            metadata,
            ..Default::default()
        };
        Api::all(client.clone())
            .create(&PostParams::default(), &namespace)
            .await
            .unwrap();
        Self {
            embedded,
            client,
            stop: CancellationToken::new(),
            calls: Arc::default(),
        }
    }

    /// An extension whose calls are recorded.
    pub(crate) fn extension(&self) -> Extension {
        self.extension_with(|_| Injected::Pass)
    }

    /// The same, with faults in its calls.
    pub(crate) fn extension_with(&self, decide: impl Fn(&Call) -> Injected + Send + Sync + 'static) -> Extension {
        let calls = self.calls.clone();
        let clock = self.embedded.clock.clone();
        let sink = move |call| calls.lock().unwrap().push(call);
        let client = record(self.embedded.admin(), "extension", clock.clone(), sink);
        let client = inject_faults(client, decide);
        Extension::builder(
            "example",
            client,
            clock,
            self.embedded.entropy.clone(),
            self.stop.clone(),
        )
    }

    /// Starts an extension of type `Example` with this actuator.
    pub(crate) fn start(&self, reported: &Answering) -> JoinHandle<()> {
        let extension = self.extension();
        let registration = Registration::of_type("Example");
        tokio::spawn(
            extension
                .actuator::<Infrastructure>(registration, Arc::new(reported.clone()))
                .run(),
        )
    }

    /// The calls since the last look, as "verb resource".
    pub(crate) fn calls(&self) -> Vec<String> {
        let calls = std::mem::take(&mut *self.calls.lock().unwrap());
        calls
            .iter()
            .map(|record| format!("{} {}", record.call.verb, record.call.resource))
            .collect()
    }

    pub(crate) fn infrastructures(&self) -> Api<Infrastructure> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    /// Writes the Cluster with a shoot in this state.
    pub(crate) async fn cluster(&self, state: LastOperationState, annotations: Value) {
        let mut shoot: Shoot = serde_json::from_value(json!({
            "apiVersion": "core.gardener.cloud/v1beta1", "kind": "Shoot",
            "metadata": {"name": "b", "namespace": "garden-a", "annotations": annotations},
        }))
        .unwrap();
        let status = shoot.status.get_or_insert_default();
        status.last_operation = Some(api_meta::LastOperation {
            state,
            type_: LastOperationType::Reconcile,
            ..Default::default()
        });
        let mut cluster = Cluster::default();
        cluster.metadata.name = Some(NAMESPACE.into());
        cluster.spec.shoot = RawJson::of(&shoot).unwrap();
        base_client::apply(&Api::all(self.client.clone()), &cluster, "gardenlet")
            .await
            .unwrap();
    }

    /// Creates the object, as gardenlet does.
    pub(crate) async fn create(&self, type_: &str, annotations: Value) -> Infrastructure {
        let object: Infrastructure = serde_json::from_value(json!({
            "metadata": {"name": "b", "annotations": annotations},
            "spec": {"type": type_, "region": "r", "secretRef": {"name": "cloudprovider", "namespace": NAMESPACE}},
        }))
        .unwrap();
        self.infrastructures()
            .create(&PostParams::default(), &object)
            .await
            .unwrap()
    }

    pub(crate) async fn annotate(&self, key: &str, value: Option<&str>) {
        let patch = json!({"metadata": {"annotations": {key: value}}});
        self.infrastructures()
            .patch("b", &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap();
    }
}

/// The state of the last operation, or `-`.
pub(crate) fn state_of(object: &Infrastructure) -> String {
    let last = object.status.as_ref().and_then(|status| status.last_operation.as_ref());
    last.map_or_else(
        || "-".to_owned(),
        |last| format!("{} {} {}", last.type_, last.state, last.progress),
    )
}
