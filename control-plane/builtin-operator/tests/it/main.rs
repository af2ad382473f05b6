//! The operator between a garden and a seed, in virtual time.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends where its set-up fails")]

use api_core::v1beta1::{ControllerDeployment, ControllerInstallation};
use api_meta::{Condition, ConditionStatus};
use control_plane_builtin_operator::{FINALIZER, run};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Namespace, Pod, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::runtime::wait::{await_condition, conditions::is_crd_established};
use serde_json::{Value, json};
use tests_kit::{Embedded, embedded_with, until, until_gone};
use tokio_util::sync::CancellationToken;

const SPACE: &str = "extension-some-x7z";

struct Landscape {
    garden: Embedded,
    seed: Embedded,
    stop: CancellationToken,
}

impl Landscape {
    async fn start() -> Self {
        let garden = embedded_with("garden", Vec::new(), |builder| builder).await;
        let seed = embedded_with("seed", Vec::new(), |builder| builder).await;
        for (kind, plural) in [
            ("ControllerInstallation", "controllerinstallations"),
            ("ControllerDeployment", "controllerdeployments"),
        ] {
            define(&garden, kind, plural).await;
        }
        let stop = CancellationToken::new();
        let landscape = Self { garden, seed, stop };
        landscape.run(landscape.stop.clone());
        landscape
    }

    /// Starts an operator.
    fn run(&self, stop: CancellationToken) {
        let (garden, seed) = (self.garden.admin(), self.seed.admin());
        tokio::spawn(run(garden, seed, "s".to_owned(), self.garden.clock.clone(), stop));
    }

    fn installations(&self) -> Api<ControllerInstallation> {
        Api::all(self.garden.admin())
    }

    fn deployments(&self) -> Api<Deployment> {
        Api::namespaced(self.seed.admin(), SPACE)
    }

    async fn deploy(&self, type_: &str, config: Value) {
        let deployment =
            serde_json::from_value(json!({"metadata": {"name": "d"}, "type": type_, "providerConfig": config}))
                .unwrap();
        Api::<ControllerDeployment>::all(self.garden.admin())
            .create(&PostParams::default(), &deployment)
            .await
            .unwrap();
    }

    async fn redeploy(&self, patch: Value) {
        Api::<ControllerDeployment>::all(self.garden.admin())
            .patch("d", &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap();
    }

    async fn install(&self, name: &str, seed: &str) {
        let installation = json!({"metadata": {"name": name}, "spec": {"registrationRef": {"name": "some"}, "deploymentRef": {"name": "d"}, "seedRef": {"name": seed}}});
        self.installations()
            .create(&PostParams::default(), &serde_json::from_value(installation).unwrap())
            .await
            .unwrap();
    }

    async fn until(&self, type_: &str, status: ConditionStatus, reason: &str) -> ControllerInstallation {
        until(
            &self.installations(),
            "some-x7z",
            &format!("{type_}={status:?} {reason}"),
            |installation: &ControllerInstallation| {
                condition(installation, type_)
                    .is_some_and(|condition| condition.status == status && condition.reason == reason)
            },
        )
        .await
    }

    /// What the controller of Deployments reports: so many pods of the newest form, so many in all.
    async fn report(&self, updated: i32, all: i32, available: &str) {
        let generation = self.deployments().get("some").await.unwrap().metadata.generation;
        let complete = (updated, all) == (1, 1);
        let reason = if complete {
            "NewReplicaSetAvailable"
        } else {
            "ReplicaSetUpdated"
        };
        let progressing = json!({"type": "Progressing", "status": "True", "reason": reason});
        let available = json!({"type": "Available", "status": available});
        let status = json!({"status": {"observedGeneration": generation, "replicas": all, "updatedReplicas": updated,
            "readyReplicas": 1, "availableReplicas": 1, "conditions": [available, progressing]}});
        self.deployments()
            .patch_status("some", &PatchParams::default(), &Patch::Merge(status))
            .await
            .unwrap();
    }

    async fn make_available(&self) {
        self.report(1, 1, "True").await;
    }

    /// A pod of the Deployment that its node cannot start.
    async fn stuck_pod(&self) {
        let pods: Api<Pod> = Api::namespaced(self.seed.admin(), SPACE);
        let pod = json!({"metadata": {"name": "p", "labels": {"controllerinstallation-name": "some-x7z"}},
            "spec": {"containers": [{"name": "c", "image": "two"}]}});
        pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap())
            .await
            .unwrap();
        let waiting = json!({"reason": "ErrImagePull", "message": "no image two"});
        let status = json!({"status": {"phase": "Pending", "containerStatuses": [{"name": "c", "image": "two", "imageID": "",
            "ready": false, "restartCount": 0, "state": {"waiting": waiting}}]}});
        pods.patch_status("p", &PatchParams::default(), &Patch::Merge(status))
            .await
            .unwrap();
    }
}

impl Drop for Landscape {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

async fn define(garden: &Embedded, kind: &str, plural: &str) {
    let open = |field: &str, inside: Value| json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {field: inside}});
    // By this field the operator finds what is of its seed.
    let schema = open("spec", open("seedRef", open("name", json!({"type": "string"}))));
    let definition = json!({"metadata": {"name": format!("{plural}.core.gardener.cloud")}, "spec": {"group": "core.gardener.cloud", "scope": "Cluster",
        "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase(), "listKind": format!("{kind}List")},
        "versions": [{"name": "v1beta1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}},
            "selectableFields": [{"jsonPath": ".spec.seedRef.name"}]}]}});
    let definition: CustomResourceDefinition = serde_json::from_value(definition).unwrap();
    let api: Api<CustomResourceDefinition> = Api::all(garden.admin());
    api.create(&PostParams::default(), &definition).await.unwrap();
    await_condition(api, &definition.name_any(), is_crd_established())
        .await
        .unwrap();
}

fn condition<'a>(installation: &'a ControllerInstallation, type_: &str) -> Option<&'a Condition> {
    Condition::find(&installation.status.as_ref()?.conditions, type_)
}

fn image(deployment: &Deployment) -> String {
    let spec = deployment.spec.clone().unwrap().template.spec.unwrap();
    spec.containers[0].image.clone().unwrap()
}

#[tokio::test(start_paused = true)]
async fn an_extension_is_installed_once_available_and_follows_its_deployment() {
    let landscape = Landscape::start().await;
    landscape
        .deploy("builtin", json!({"image": "one", "args": ["--x"]}))
        .await;
    landscape.install("some-x7z", "s").await;
    let pending = landscape
        .until("Installed", ConditionStatus::False, "InstallationPending")
        .await;
    assert_eq!(pending.finalizers(), [FINALIZER]);
    assert_eq!(condition(&pending, "Valid").unwrap().reason, "RegistrationValid");
    until(&landscape.deployments(), "some", "there", |_: &Deployment| true).await;
    landscape.make_available().await;
    let installed = landscape
        .until("Installed", ConditionStatus::True, "InstallationSuccessful")
        .await;
    let reported = installed.status.unwrap().provider_status.unwrap();
    let wanted = r#"{"deployment":"some","image":"one","namespace":"extension-some-x7z","serviceAccount":"some"}"#;
    assert_eq!(reported.get(), wanted);
    landscape.redeploy(json!({"providerConfig": {"image": "two"}})).await;
    let second = |deployment: &Deployment| image(deployment) == "two";
    until(&landscape.deployments(), "some", "of the new image", second).await;
    landscape.redeploy(json!({"providerConfig": {"image": ""}})).await;
    landscape
        .until("Valid", ConditionStatus::False, "ChartInformationInvalid")
        .await;
    let running = landscape.deployments().get("some").await.unwrap();
    assert_eq!(image(&running), "two", "what runs goes on");
}

#[tokio::test(start_paused = true)]
async fn a_wrong_image_is_reported_with_the_nodes_reason_until_corrected() {
    let landscape = Landscape::start().await;
    landscape.deploy("builtin", json!({"image": "one"})).await;
    landscape.install("some-x7z", "s").await;
    until(&landscape.deployments(), "some", "there", |_: &Deployment| true).await;
    landscape.make_available().await;
    let well = landscape
        .until("Healthy", ConditionStatus::True, "ControllerHealthy")
        .await;
    assert_eq!(condition(&well, "Progressing").unwrap().reason, "ControllerRolledOut");
    assert_eq!(condition(&well, "Installed").unwrap().status, ConditionStatus::True);

    landscape.redeploy(json!({"providerConfig": {"image": "two"}})).await;
    let second = |deployment: &Deployment| image(deployment) == "two";
    until(&landscape.deployments(), "some", "of the new image", second).await;
    // No operator has taken it up yet: what ran is still healthy, but it is not what is to be installed.
    let rolling = landscape
        .until("Progressing", ConditionStatus::True, "ControllerNotRolledOut")
        .await;
    assert_eq!(condition(&rolling, "Healthy").unwrap().status, ConditionStatus::True);
    landscape.report(1, 2, "True").await;
    let left = |installation: &ControllerInstallation| {
        condition(installation, "Progressing").is_some_and(|condition| condition.message.contains("an older form"))
    };
    until(&landscape.installations(), "some-x7z", "of two forms", left).await;
    // From here on nothing but the pod changes.
    landscape.stuck_pod().await;
    let ill = landscape
        .until("Healthy", ConditionStatus::False, "ControllerNotHealthy")
        .await;
    let trouble = "Pod p: ErrImagePull: no image two";
    let name = format!("Deployment {SPACE}/some");
    assert_eq!(
        condition(&ill, "Healthy").unwrap().message,
        format!("{name}: {trouble}")
    );
    let installed = condition(&ill, "Installed").unwrap();
    assert_eq!(
        (installed.reason.as_str(), installed.message.as_str()),
        (
            "InstallationPending",
            format!("waiting for {name}: 1 pods of an older form still run; {trouble}").as_str()
        )
    );

    Api::<Pod>::namespaced(landscape.seed.admin(), SPACE)
        .delete("p", &DeleteParams::default().grace_period(0))
        .await
        .unwrap();
    landscape.make_available().await;
    landscape
        .until("Healthy", ConditionStatus::True, "ControllerHealthy")
        .await;
    landscape
        .until("Progressing", ConditionStatus::False, "ControllerRolledOut")
        .await;
    landscape
        .until("Installed", ConditionStatus::True, "InstallationSuccessful")
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_rollout_during_an_operators_downtime_is_reported_after_its_restart() {
    let landscape = Landscape::start().await;
    landscape.deploy("builtin", json!({"image": "one"})).await;
    landscape.install("some-x7z", "s").await;
    landscape
        .until("Installed", ConditionStatus::False, "InstallationPending")
        .await;
    landscape.stop.cancel();
    landscape.make_available().await;
    let next = CancellationToken::new();
    landscape.run(next.clone());
    landscape
        .until("Installed", ConditionStatus::True, "InstallationSuccessful")
        .await;
    landscape.report(1, 1, "False").await;
    let ill = landscape
        .until("Healthy", ConditionStatus::False, "ControllerNotHealthy")
        .await;
    assert_eq!(condition(&ill, "Installed").unwrap().status, ConditionStatus::True);
    assert_eq!(condition(&ill, "Progressing").unwrap().status, ConditionStatus::False);
    next.cancel();
}

#[tokio::test(start_paused = true)]
async fn an_extension_is_taken_down_without_a_trace() {
    let landscape = Landscape::start().await;
    landscape.deploy("builtin", json!({"image": "one"})).await;
    landscape.install("some-x7z", "s").await;
    landscape
        .until("Installed", ConditionStatus::False, "InstallationPending")
        .await;
    landscape
        .installations()
        .delete("some-x7z", &DeleteParams::default())
        .await
        .unwrap();
    landscape
        .until("Installed", ConditionStatus::False, "DeletionPending")
        .await;
    until_gone(&landscape.deployments(), "some").await;
    let namespaces: Api<Namespace> = Api::all(landscape.seed.admin());
    let going = |namespace: &Namespace| namespace.metadata.deletion_timestamp.is_some();
    let doomed = until(&namespaces, SPACE, "being deleted", going).await;
    assert!(
        landscape.installations().get("some-x7z").await.is_ok(),
        "it waits for the namespace"
    );
    // The part of the namespace controller, which this landscape has none of.
    let mut done = serde_json::to_value(&doomed).unwrap();
    done["spec"]["finalizers"] = json!([]);
    namespaces
        .replace_subresource("finalize", SPACE, &PostParams::default(), &done)
        .await
        .unwrap();
    until_gone(&landscape.installations(), "some-x7z").await;
    let role = "orangery:extension:some-x7z";
    assert!(
        Api::<ClusterRole>::all(landscape.seed.admin())
            .get_opt(role)
            .await
            .unwrap()
            .is_none()
    );
    assert!(
        Api::<ClusterRoleBinding>::all(landscape.seed.admin())
            .get_opt(role)
            .await
            .unwrap()
            .is_none()
    );
}

#[tokio::test(start_paused = true)]
async fn other_seeds_and_other_types_are_left_alone() {
    let landscape = Landscape::start().await;
    landscape.deploy("builtin", json!({"image": "one"})).await;
    landscape.install("elsewhere", "other-seed").await;
    landscape.install("some-x7z", "s").await;
    landscape
        .until("Installed", ConditionStatus::False, "InstallationPending")
        .await;
    let elsewhere = landscape.installations().get("elsewhere").await.unwrap();
    assert!(elsewhere.status.is_none() && elsewhere.finalizers().is_empty());
    let accounts: Api<ServiceAccount> = Api::all(landscape.seed.admin());
    let accounts = accounts
        .list(&kube::api::ListParams::default().labels("controllerinstallation-name"))
        .await
        .unwrap();
    assert_eq!(
        accounts
            .items
            .iter()
            .map(|account| account.namespace().unwrap())
            .collect::<Vec<_>>(),
        [SPACE]
    );
    // A change of type takes it down, and leaves the installation to the next operator.
    landscape.redeploy(json!({"type": "helm"})).await;
    until_gone(&landscape.deployments(), "some").await;
}
