//! The garden's controllers against a real API server with the garden's kinds, in virtual time.
#![expect(clippy::panic, clippy::unwrap_used, reason = "what a test prepares must succeed")]

mod hibernation;
mod registration;
mod rights;

use std::time::Duration;

use api_core::security::CredentialsBinding;
use api_core::v1beta1::{
    ControllerInstallation, ControllerRegistration, Project, ProjectPhase, SecretBinding, Seed, Shoot,
};
use api_meta::{Condition, ConditionStatus};
use control_plane_garden_api::{AdmissionPlugins, GardenSettings, kinds};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tests_kit::{Embedded, embedded_with, until, until_gone};
use tokio_util::sync::CancellationToken;

struct Garden {
    embedded: Embedded,
    client: Client,
    stop: CancellationToken,
}

impl Garden {
    /// A garden whose controller-manager runs, with lease namespace, project `p` and nothing else.
    async fn start() -> Self {
        Self::start_with(AdmissionPlugins::default()).await
    }

    /// The same with these admission plug-ins.
    async fn start_with(plugins: AdmissionPlugins) -> Self {
        let settings = GardenSettings {
            entropy: base_clock::Entropy::seeded(7),
            gateway: None,
            plugins,
        };
        let embedded = embedded_with("garden", kinds(&settings), |builder| builder).await;
        let garden = Self {
            client: embedded.admin(),
            embedded,
            stop: CancellationToken::new(),
        };
        garden
            .all::<Namespace>(json!({"metadata": {"name": "gardener-system-seed-lease"}}))
            .await;
        let controllers = control_plane_controller_manager::run(
            garden
                .embedded
                .client("gardener.cloud:system:controller-manager", &[tests_kit::ADMINS]),
            control_plane_controller_manager::Name::ALL.into(),
            garden.embedded.clock.clone(),
            garden.stop.clone(),
        );
        tokio::spawn(controllers);
        garden
            .all::<Project>(json!({"metadata": {"name": "p"}, "spec": {"members": [
            {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "eve", "role": "viewer"}]}}))
            .await;
        garden
    }

    async fn all<K>(&self, object: Value) -> K
    where
        K: Resource<DynamicType = ()> + Clone + Serialize + DeserializeOwned + std::fmt::Debug,
    {
        let object: K = serde_json::from_value(object).unwrap();
        Api::all(self.client.clone())
            .create(&PostParams::default(), &object)
            .await
            .unwrap()
    }

    fn api<K: Resource<DynamicType = ()>>(&self) -> Api<K> {
        Api::all(self.client.clone())
    }

    async fn register(&self, name: &str, resources: Value) {
        self.all::<api_core::v1beta1::ControllerDeployment>(
            json!({"metadata": {"name": name}, "type": "builtin", "providerConfig": {"image": name}}),
        )
        .await;
        self.all::<ControllerRegistration>(json!({"metadata": {"name": name}, "spec": {
            "deployment": {"deploymentRefs": [{"name": name}]}, "resources": resources}}))
            .await;
    }

    /// A seed, and the registration of what it needs.
    async fn with_seed(&self) {
        let kinds = ["ControlPlane", "Infrastructure", "Worker"].map(|kind| json!({"kind": kind, "type": "prov"}));
        self.register("prov", json!(kinds)).await;
        let credentials = json!({"apiVersion": "v1", "kind": "Secret", "name": "n", "namespace": "garden"});
        self.register("names", json!([{"kind": "DNSRecord", "type": "names"}]))
            .await;
        self.all::<Seed>(
            json!({"metadata": {"name": "north"}, "spec": {"provider": {"type": "prov", "region": "r"},
            "networks": {"pods": "10.1.0.0/16", "services": "10.2.0.0/16"},
            "dns": {"provider": {"type": "names", "credentialsRef": credentials},
                    "internal": {"domain": "internal.example", "type": "names", "credentialsRef": credentials}}}}),
        )
        .await;
    }

    async fn installation_of(&self, registration: &str) -> ControllerInstallation {
        let made = |installation: &ControllerInstallation| {
            installation.spec.registration_ref.name.as_deref() == Some(registration)
        };
        let api = self.api::<ControllerInstallation>();
        for _ in 0..100 {
            if let Some(found) = api
                .list(&Default::default())
                .await
                .unwrap()
                .items
                .into_iter()
                .find(made)
            {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("{registration} was never installed");
    }

    async fn report_installed(&self, registration: &str) {
        let name = self.installation_of(registration).await.name_any();
        let conditions = ["Valid", "Installed"].map(|type_| json!({"type": type_, "status": "True"}));
        let patch = Patch::Merge(json!({"status": {"conditions": conditions}}));
        self.api::<ControllerInstallation>()
            .patch_status(&name, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }
}

impl Drop for Garden {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

fn ready(seed: &Seed, expected: &ConditionStatus) -> bool {
    let conditions = seed.status.as_ref().map_or(&[][..], |status| &status.conditions);
    Condition::find(conditions, "ExtensionsReady").is_some_and(|condition| condition.status == *expected)
}

#[tokio::test(start_paused = true)]
async fn a_project_gets_its_namespace_and_its_members_their_roles() {
    let garden = Garden::start().await;
    let ready = |project: &Project| {
        project.status.as_ref().and_then(|status| status.phase.clone()) == Some(ProjectPhase::Ready)
    };
    let project = until(&garden.api::<Project>(), "p", "ready", ready).await;
    assert_eq!(project.spec.namespace.as_deref(), Some("garden-p"));
    let namespace = garden.api::<Namespace>().get("garden-p").await.unwrap();
    assert_eq!(namespace.labels()["project.gardener.cloud/name"], "p");
    let bindings: Api<RoleBinding> = Api::namespaced(garden.client.clone(), "garden-p");
    let viewers = bindings.get("gardener.cloud:system:project-viewer").await.unwrap();
    assert_eq!(viewers.subjects.unwrap()[0].name, "eve");
    let eve = garden.embedded.client("eve", &[]);
    let shoots: Api<Shoot> = Api::namespaced(eve, "garden-p");
    assert!(shoots.list(&Default::default()).await.is_ok(), "a viewer may look");
    assert!(
        shoots.delete("s", &Default::default()).await.is_err(),
        "and nothing more"
    );
}

#[tokio::test(start_paused = true)]
async fn a_seed_becomes_ready_once_an_operator_has_installed_what_it_needs() {
    let garden = Garden::start().await;
    garden
        .register("idle", json!([{"kind": "Network", "type": "net"}]))
        .await;
    garden.with_seed().await;
    let seeds = garden.api::<Seed>();
    until(&seeds, "north", "not ready", |seed| {
        ready(seed, &ConditionStatus::False)
    })
    .await;
    garden.report_installed("prov").await;
    garden.report_installed("names").await;
    until(&seeds, "north", "ready", |seed| ready(seed, &ConditionStatus::True)).await;
    let installed = garden
        .api::<ControllerInstallation>()
        .list(&Default::default())
        .await
        .unwrap()
        .items;
    assert_eq!(installed.len(), 2, "the third is not needed: {installed:?}");
    let held = garden.api::<ControllerRegistration>().get("prov").await.unwrap();
    assert_eq!(held.finalizers(), ["core.gardener.cloud/controllerregistration"]);
    assert!(garden.api::<Namespace>().get("seed-north").await.is_ok());
    for role in ["gardener.cloud:system:seed", "gardener.cloud:system:extensions"] {
        let bindings: Api<RoleBinding> = Api::namespaced(garden.client.clone(), "seed-north");
        until(&bindings, role, "bound", |binding| binding.role_ref.name == role).await;
    }

    garden.embedded.server.audit().clear();
    tokio::time::sleep(Duration::from_secs(60)).await;
    let calls: Vec<String> = garden
        .embedded
        .server
        .audit()
        .records()
        .iter()
        .map(|r| format!("{} {}", r.verb, r.path))
        .collect();
    assert!(calls.is_empty(), "an idle garden is silent: {calls:?}");
}

/// Whether the finalizer of controller-manager is on a Secret.
fn held(secret: &Secret) -> bool {
    secret.finalizers() == ["gardener.cloud/gardener"]
}

#[tokio::test(start_paused = true)]
async fn a_secret_stays_as_long_as_a_binding_names_it() {
    let garden = Garden::start().await;
    let projects = garden.api::<Project>();
    let ready = |project: &Project| {
        project.status.as_ref().and_then(|status| status.phase.clone()) == Some(ProjectPhase::Ready)
    };
    until(&projects, "p", "ready", ready).await;
    let secrets: Api<Secret> = Api::namespaced(garden.client.clone(), "garden-p");
    let secret = Secret {
        metadata: kube::core::ObjectMeta {
            name: Some("c".to_owned()),
            ..Default::default()
        },
        ..Secret::default()
    };
    secrets.create(&Default::default(), &secret).await.unwrap();
    let credentials: Api<CredentialsBinding> = Api::namespaced(garden.client.clone(), "garden-p");
    let old: Api<SecretBinding> = Api::namespaced(garden.client.clone(), "garden-p");
    let reference = json!({"apiVersion": "v1", "kind": "Secret", "name": "c", "namespace": "garden-p"});
    let binding = json!({"metadata": {"name": "b"}, "provider": {"type": "prov"}, "credentialsRef": reference});
    credentials
        .create(&Default::default(), &serde_json::from_value(binding).unwrap())
        .await
        .unwrap();
    let binding = json!({"metadata": {"name": "b"}, "provider": {"type": "prov"}, "secretRef": {"name": "c", "namespace": "garden-p"}});
    old.create(&Default::default(), &serde_json::from_value(binding).unwrap())
        .await
        .unwrap();

    until(&secrets, "c", "held", held).await;
    secrets.delete("c", &Default::default()).await.unwrap();

    old.delete("b", &Default::default()).await.unwrap();
    until_gone(&old, "b").await;
    assert!(held(&secrets.get("c").await.unwrap()), "the other binding needs it");
    credentials.delete("b", &Default::default()).await.unwrap();
    until_gone(&credentials, "b").await;
    until_gone(&secrets, "c").await;
}

#[tokio::test(start_paused = true)]
async fn a_missing_registration_holds_nothing_else_back() {
    let garden = Garden::start().await;
    garden.with_seed().await;
    let name = garden.installation_of("names").await.name_any();
    let registrations = garden.api::<ControllerRegistration>();
    registrations.delete("names", &Default::default()).await.unwrap();
    let held = registrations.get("names").await.unwrap();
    assert!(
        held.metadata.deletion_timestamp.is_some(),
        "its installation is still needed, and holds it"
    );
    garden
        .api::<ControllerInstallation>()
        .delete(&name, &Default::default())
        .await
        .unwrap();
    until_gone(&registrations, "names").await;
    // `DNSRecord/names` is missing now; what comes later is installed all the same.
    let late = json!([{"kind": "Extension", "type": "late", "autoEnable": ["seed"], "clusterCompatibility": ["seed"]}]);
    garden.register("late", late).await;
    garden.report_installed("late").await;
    garden.report_installed("prov").await;
    let seeds = garden.api::<Seed>();
    let reported = |seed: &Seed| {
        let conditions = seed.status.as_ref().map_or(&[][..], |status| &status.conditions);
        Condition::find(conditions, "ExtensionsReady")
            .is_some_and(|c| c.message == "DNSRecord/names has no installation")
    };
    until(&seeds, "north", "reported with the missing type", reported).await;
}
