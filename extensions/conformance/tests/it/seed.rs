//! A seed without gardenlet, an extension in it, and the kit.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use api_extensions::{Cluster, ExtensionKind, ExtensionObject, Network};
use api_meta::names::HEARTBEAT_LEASE;
use extensions_conformance::{Fragments, Hook, Options, Report, Rule, Subject, validate};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::ObjectMeta;
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tests_kit::{Embedded, embedded};
use tokio::task::JoinHandle;

use crate::cloud::Cloud;
use crate::extension::{Extension, TYPE};

/// The extension's own namespace.
pub(crate) const NAMESPACE: &str = "extension-test";
/// Type of the objects that it is a secondary for.
const SECONDARY: &str = "of-another";
/// Kinds of the definitions that are installed, beside Cluster.
const KINDS: [ExtensionKind; 3] = [
    ExtensionKind::Extension,
    ExtensionKind::Infrastructure,
    ExtensionKind::Network,
];

pub(crate) struct Seed {
    pub(crate) embedded: Embedded,
    pub(crate) client: Client,
    pub(crate) cloud: Cloud,
}

impl Seed {
    pub(crate) async fn new() -> Self {
        let embedded = embedded().await;
        let client = embedded.admin();
        let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
        let wanted = |name: &str| name == "Cluster" || KINDS.iter().any(|kind| kind.kind() == name);
        for definition in api_extensions::crds() {
            if wanted(&definition.spec.names.kind) {
                definitions.create(&PostParams::default(), &definition).await.unwrap();
            }
        }
        let namespace = Namespace {
            metadata: ObjectMeta {
                name: Some(NAMESPACE.into()),
                ..ObjectMeta::default()
            },
            ..Namespace::default()
        };
        Api::all(client.clone())
            .create(&PostParams::default(), &namespace)
            .await
            .unwrap();
        Self {
            embedded,
            client,
            cloud: Cloud::default(),
        }
    }

    /// The subject of a run, with a spec that the extension refuses.
    pub(crate) fn subject<K: ExtensionObject>() -> Subject {
        let fragments = "badSpec: {providerConfig: {apiVersion: test/v1, kind: Nonsense}}";
        Subject {
            secondary: Some((ExtensionKind::Network, SECONDARY.to_owned())),
            fragments: Fragments::parse(fragments).unwrap(),
            ..Subject::new(K::ROW, TYPE)
        }
    }

    /// Options of a run: limits that virtual time makes free, but for those that a writer fills with requests.
    pub(crate) fn options<K: ExtensionObject>(&self) -> Options {
        let options = Options::new(K::ROW, self.embedded.clock.clone(), self.embedded.entropy.clone());
        let cloud = self.cloud.clone();
        Options {
            timeout: Duration::from_secs(20),
            write_pause: Duration::from_millis(60),
            cloud_check: Some(Hook::new(move || {
                let list = cloud.list();
                async move { Ok(list) }
            })),
            namespace: Some(NAMESPACE.to_owned()),
            ..options
        }
    }

    /// Starts the extension, and gives what ends its process and starts it again.
    pub(crate) fn start<K: ExtensionObject>(&self, breaks: Option<Rule>) -> Hook {
        let (client, clock, cloud) = (self.embedded.admin(), self.embedded.clock.clone(), self.cloud.clone());
        let extension = move || Extension {
            client: client.clone(),
            clock: clock.clone(),
            cloud: cloud.clone(),
            breaks,
            failed: Mutex::default(),
        };
        tokio::spawn(extension().observe::<Network>(SECONDARY));
        if breaks != Some(Rule::HeartbeatRenewed) {
            tokio::spawn(beat(self.embedded.admin(), self.embedded.clock.clone()));
        }
        let running: Arc<Mutex<JoinHandle<()>>> = Arc::new(Mutex::new(tokio::spawn(extension().run::<K>())));
        let extension = Arc::new(extension);
        Hook::new(move || {
            running.lock().unwrap().abort();
            let (running, extension) = (running.clone(), extension.clone());
            async move {
                tokio::spawn(async move {
                    tokio::time::sleep(Duration::from_millis(200)).await;
                    *running.lock().unwrap() = tokio::spawn(extension().run::<K>());
                });
                Ok(String::new())
            }
        })
    }

    /// Runs the kit against an extension that breaks this rule.
    pub(crate) async fn validate<K: ExtensionObject>(&self, breaks: Option<Rule>) -> Report {
        let kill = self.start::<K>(breaks);
        let options = Options {
            kill: Some(kill),
            ..self.options::<K>()
        };
        validate(self.client.clone(), Self::subject::<K>(), options).await
    }

    /// What a run has left, in any namespace.
    pub(crate) async fn left<K: ExtensionObject>(&self) -> Vec<String> {
        let mut left = Vec::new();
        for object in Api::<K>::all(self.client.clone())
            .list(&Default::default())
            .await
            .unwrap()
        {
            left.push(format!("{} {}", K::KIND, object.name_any()));
        }
        for object in Api::<Network>::all(self.client.clone())
            .list(&Default::default())
            .await
            .unwrap()
        {
            left.push(format!("Network {}", object.name_any()));
        }
        for object in Api::<Cluster>::all(self.client.clone())
            .list(&Default::default())
            .await
            .unwrap()
        {
            left.push(format!("Cluster {}", object.name_any()));
        }
        for object in Api::<Namespace>::all(self.client.clone())
            .list(&Default::default())
            .await
            .unwrap()
        {
            if object.name_any().starts_with("shoot--") && object.metadata.deletion_timestamp.is_none() {
                left.push(format!("Namespace {}", object.name_any()));
            }
        }
        left
    }
}

async fn beat(client: Client, clock: base_clock::Clock) {
    let leases: Api<Lease> = Api::namespaced(client, NAMESPACE);
    loop {
        let lease: Value = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": HEARTBEAT_LEASE},
            "spec": {"holderIdentity": "test", "renewTime": format!("{:.6}", clock.now())},
        });
        let params = PatchParams::apply("test").force();
        leases
            .patch(HEARTBEAT_LEASE, &params, &Patch::Apply(lease))
            .await
            .unwrap();
        tokio::time::sleep(Duration::from_secs(30)).await;
    }
}
