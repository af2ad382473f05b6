//! A world with one extension that has a chart, and ways to change it and to look at what became of it.

use std::io::{Read as _, Write as _};

use api_core::v1beta1 as core;
use api_meta::conditions::installation::REPORTED;
use api_meta::{Condition, OperationReport};
use api_resources::ManagedResource;
use base_client::{Call, Injected};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use tests_kit::until;

use crate::world::World;

/// The installation, its registration and its deployment.
pub(crate) const NAME: &str = "ext";
pub(crate) const NAMESPACE: &str = "extension-ext";

/// A chart in base64 from its templates.
pub(crate) fn chart(files: &[(&str, &str)]) -> String {
    let head = [("Chart.yaml", "apiVersion: v2\nname: ext\nversion: 1.0.0\n")];
    let has_head = files.iter().any(|(name, _)| *name == "Chart.yaml");
    let files = head.iter().filter(|_| !has_head).chain(files);
    let mut archive = tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
    for (name, text) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        header.set_cksum();
        let path = format!("ext/{name}");
        archive.append_data(&mut header, path, text.as_bytes()).unwrap();
    }
    let mut zipped = archive.into_inner().unwrap();
    zipped.flush().unwrap();
    STANDARD.encode(zipped.finish().unwrap())
}

/// One ConfigMap with that data.
pub(crate) fn config_map(data: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: made\n  namespace: {{{{ .Release.Namespace }}}}\ndata:\n{data}\n"
    )
}

/// A world with one extension.
pub(crate) struct Installing(World);

impl Installing {
    pub(crate) async fn start() -> Self {
        Self(World::start().await)
    }

    pub(crate) async fn start_with(faults: impl Fn(&Call) -> Injected + Send + Sync + 'static) -> Self {
        Self(World::start_with(faults).await)
    }

    pub(crate) async fn start_with_garden_access() -> Self {
        Self(World::start_with_garden_access().await)
    }

    pub(crate) fn world(&self) -> &World {
        &self.0
    }

    /// Our Seed as it is stored.
    pub(crate) async fn seed(&self) -> Value {
        let seeds: Api<core::Seed> = Api::all(self.0.garden.admin());
        serde_json::to_value(seeds.get("south").await.unwrap()).unwrap()
    }

    /// Registration, deployment (core/v1) and installation.
    pub(crate) async fn install(&self, deployment: Value) {
        self.deploy(deployment).await;
        self.create_registration().await;
        self.create_installation().await;
    }

    pub(crate) async fn deploy(&self, mut deployment: Value) {
        deployment["apiVersion"] = json!("core.gardener.cloud/v1");
        deployment["kind"] = json!("ControllerDeployment");
        deployment["metadata"]["name"] = json!(NAME);
        self.0.create(deployment).await;
    }

    pub(crate) async fn create_registration(&self) {
        self.0
            .create(json!({
                "apiVersion": "core.gardener.cloud/v1beta1", "kind": "ControllerRegistration", "metadata": {"name": NAME},
                "spec": {"deployment": {"deploymentRefs": [{"name": NAME}]},
                    "resources": [{"kind": "Extension", "type": "ext"}]},
            }))
            .await;
    }

    pub(crate) async fn create_installation(&self) {
        self.0
            .create(json!({
                "apiVersion": "core.gardener.cloud/v1beta1", "kind": "ControllerInstallation", "metadata": {"name": NAME},
                "spec": {"registrationRef": {"name": NAME}, "seedRef": {"name": "south"}, "deploymentRef": {"name": NAME}},
            }))
            .await;
    }

    pub(crate) fn installations(&self) -> Api<core::ControllerInstallation> {
        Api::all(self.0.garden.admin())
    }

    pub(crate) fn resources(&self) -> Api<ManagedResource> {
        Api::namespaced(self.0.seed.admin(), "garden")
    }

    pub(crate) fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.0.seed.admin(), "garden")
    }

    pub(crate) fn namespaces(&self) -> Api<Namespace> {
        Api::all(self.0.seed.admin())
    }

    pub(crate) fn deployments(&self) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk("core.gardener.cloud", "v1", "ControllerDeployment");
        Api::all_with(self.0.garden.admin(), &kube::api::ApiResource::from_gvk(&kind))
    }

    pub(crate) async fn change_deployment(&self, patch: Value) {
        let patch = Patch::Merge(patch);
        self.deployments()
            .patch(NAME, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    pub(crate) async fn change_seed(&self, patch: Value) {
        let seeds: Api<core::Seed> = Api::all(self.0.garden.admin());
        let patch = Patch::Merge(patch);
        seeds.patch("south", &PatchParams::default(), &patch).await.unwrap();
    }

    /// Waits until the condition has that reason; returns it.
    pub(crate) async fn condition(&self, type_: &str, reason: &str) -> Condition {
        let find = |one: &core::ControllerInstallation| {
            let conditions = &one.status.as_ref()?.conditions;
            Condition::find(conditions, type_)
                .filter(|found| found.reason == reason)
                .cloned()
        };
        let found = until(&self.installations(), NAME, &format!("{type_} {reason}"), |one| {
            find(one).is_some()
        })
        .await;
        find(&found).unwrap()
    }

    /// What is reported beside the conditions as they are now.
    pub(crate) async fn reported(&self) -> Option<OperationReport> {
        let one = self.installations().get(NAME).await.unwrap();
        let conditions = one.status.as_ref().map_or(&[][..], |status| &status.conditions);
        OperationReport::about_conditions(one.metadata.annotations.as_ref(), conditions, &REPORTED)
    }

    /// The object that is waited for.
    pub(crate) async fn awaited(&self) -> Option<String> {
        let wait = self.reported().await?.waits.into_iter().next()?;
        Some(wait.subject.to_string())
    }

    /// Waits until the objects in the seed's ManagedResource satisfy `is`; returns them.
    pub(crate) async fn objects(&self, what: &str, is: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        let mut seen = String::new();
        loop {
            let newer = |one: &ManagedResource| one.resource_version().unwrap_or_default() != seen;
            let resource = until(&self.resources(), NAME, what, newer).await;
            seen = resource.resource_version().unwrap_or_default();
            let objects = self.objects_of(&resource).await;
            if is(&objects) {
                return objects;
            }
        }
    }

    pub(crate) async fn objects_of(&self, resource: &ManagedResource) -> Vec<Value> {
        let references = &resource.spec.secret_refs;
        assert_eq!(references.len(), 1);
        let secret = self.secrets().get(&references[0].name).await.unwrap();
        assert_eq!(secret.immutable, Some(true));
        let data = secret.data.unwrap();
        assert_eq!(data.keys().collect::<Vec<_>>(), ["data.yaml.br"]);
        let mut text = String::new();
        brotli::Decompressor::new(data["data.yaml.br"].0.as_slice(), 4096)
            .read_to_string(&mut text)
            .unwrap();
        let documents = text.split("---\n").filter(|document| !document.trim().is_empty());
        documents
            .map(|document| serde_json::from_str(document).unwrap())
            .collect()
    }

    /// What the resource manager would report.
    pub(crate) async fn report(&self, applied: (&str, &str), healthy: (&str, &str), progressing: (&str, &str)) {
        let resource = self.resources().get(NAME).await.unwrap();
        let condition = |type_: &str, (status, message): (&str, &str)| {
            json!({"type": type_, "status": status, "reason": "R", "message": message,
                "lastTransitionTime": tests_kit::EPOCH, "lastUpdateTime": tests_kit::EPOCH})
        };
        let status = json!({"status": {"observedGeneration": resource.metadata.generation, "conditions": [
            condition("ResourcesApplied", applied),
            condition("ResourcesHealthy", healthy),
            condition("ResourcesProgressing", progressing),
        ]}});
        let patch = Patch::Merge(status);
        self.resources()
            .patch_status(NAME, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    pub(crate) async fn delete(&self) {
        self.installations()
            .delete(NAME, &DeleteParams::default())
            .await
            .unwrap();
    }
}

pub(crate) fn data_of<'o>(objects: &'o [Value], key: &str) -> Option<&'o str> {
    objects.iter().find_map(|object| object["data"][key].as_str())
}
