//! The ControlPlane with the real resource manager in the seed.

use api_core::v1beta1::{CredentialsRotationPhase, Shoot};
use api_extensions::ControlPlane;
use api_meta::LastOperationState::{Error, Succeeded};
use api_meta::{ErrorCode, RawJson};
use api_resources::ManagedResource;
use extensions_provider_fake::cloud::{Calls, Keys, Settings};
use extensions_sdk::ExtensionObject;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::ResourceExt;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use tests_kit::until;

use crate::world::{NAME, World, answered, gone};

const CCM: &str = "cloud-controller-manager";

/// A seed with its resource manager, the extension and one ControlPlane that has succeeded.
struct Place {
    world: World,
}

fn infrastructure_status() -> Value {
    json!({
        "apiVersion": "fake.provider.extensions.gardener.cloud/v1alpha1", "kind": "InfrastructureStatus",
        "network": "net-1", "nodesSecurityGroup": "sg-1", "zones": [{"name": "fake-1a", "subnet": "subnet-1"}],
    })
}

impl Place {
    async fn new() -> Self {
        let world = World::new(Settings::default()).await;
        world.manage_resources();
        let _runs_on = world.start(Calls::new(None));
        world.create_control_plane(infrastructure_status()).await;
        let place = Self { world };
        place.succeeds().await;
        place
    }

    async fn succeeds(&self) {
        answered::<ControlPlane>(&self.world.all(), Succeeded).await;
    }

    async fn request(&self, operation: &str) {
        self.world
            .edit::<ControlPlane>(&self.world.all(), operation, |_| {})
            .await;
    }

    /// Waits until the Deployment is as expected.
    async fn program(&self, what: &str, is_so: impl Fn(&Deployment) -> bool) -> Deployment {
        until(&self.world.all::<Deployment>(), CCM, what, is_so).await
    }

    async fn secrets(&self) -> Vec<String> {
        self.world.names_of::<Secret>().await
    }

    /// Scales the shoot's API server, as gardenlet does.
    async fn scale_api_server(&self, replicas: i32) {
        let deployment: Deployment = serde_json::from_value(json!({
            "metadata": {"name": "kube-apiserver"},
            "spec": {"replicas": replicas, "selector": {"matchLabels": {"a": "b"}}, "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "a", "image": "b"}]},
            }},
        }))
        .unwrap();
        let api = self.world.all::<Deployment>();
        let patch = Patch::Apply(json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "kube-apiserver"}, "spec": deployment.spec,
        }));
        api.patch("kube-apiserver", &PatchParams::apply("gardenlet").force(), &patch)
            .await
            .unwrap();
    }
}

fn replicas(deployment: &Deployment) -> Option<i32> {
    deployment.spec.as_ref()?.replicas
}

/// The annotations of its pods.
fn checksum(deployment: &Deployment, of: &str) -> String {
    let template = &deployment.spec.as_ref().unwrap().template;
    let annotations = template.metadata.as_ref().unwrap().annotations.as_ref().unwrap();
    annotations[&format!("checksum/{of}")].clone()
}

/// The Secret that its pods mount as `server`.
fn server_secret(deployment: &Deployment) -> String {
    let pod = deployment.spec.as_ref().unwrap().template.spec.as_ref().unwrap();
    let volume = pod
        .volumes
        .iter()
        .flatten()
        .find(|volume| volume.name == "server")
        .unwrap();
    volume.secret.as_ref().unwrap().secret_name.clone().unwrap()
}

fn hibernated(shoot: &mut Shoot) {
    shoot.spec.hibernation = serde_json::from_value(json!({"enabled": true})).unwrap();
}

fn rotated(phase: CredentialsRotationPhase, initiated: Timestamp) -> impl FnOnce(&mut Shoot) {
    move |shoot| {
        let rotation = json!({"rotation": {"certificateAuthorities": {
            "phase": phase.as_str(), "lastInitiationTime": initiated.to_string(),
        }}});
        shoot.status.get_or_insert_default().credentials = serde_json::from_value(rotation).unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn the_program_runs_with_its_configuration_credentials_and_rights() {
    let place = Place::new().await;
    let program = place.program("there", |_| true).await;
    assert_eq!(replicas(&program), Some(1));
    let config: ConfigMap = place.world.all().get("cloud-provider-config").await.unwrap();
    let config: Value = serde_json::from_str(&config.data.unwrap()["cloudprovider.conf"]).unwrap();
    assert_eq!(config["network"], "net-1");
    assert_eq!(config["subnets"], json!(["subnet-1"]));
    let access = place
        .world
        .all::<Secret>()
        .get("shoot-access-cloud-controller-manager")
        .await
        .unwrap();
    assert_eq!(access.labels()["resources.gardener.cloud/class"], "shoot");
    let in_shoot: ManagedResource = place.world.all().get("extension-controlplane-shoot").await.unwrap();
    assert_eq!(in_shoot.spec.class, None);

    let before = program.metadata.generation;
    place.request("reconcile").await;
    place.succeeds().await;
    let after = place.program("there", |_| true).await;
    assert_eq!(
        after.metadata.generation, before,
        "a repeated reconcile changes nothing"
    );
}

#[tokio::test(start_paused = true)]
async fn hibernation_scales_it_down_after_the_api_server_and_waking_up_again() {
    let place = Place::new().await;
    place.scale_api_server(1).await;
    place.world.write_cluster(hibernated).await;
    place.request("reconcile").await;
    place.succeeds().await;
    assert_eq!(
        replicas(&place.program("there", |_| true).await),
        Some(1),
        "Services still have load balancers"
    );
    place.scale_api_server(0).await;
    place
        .program("scaled down", |program| replicas(program) == Some(0))
        .await;
    place.world.write_cluster(|_| {}).await;
    place.request("reconcile").await;
    place.program("scaled up", |program| replicas(program) == Some(1)).await;
}

#[tokio::test(start_paused = true)]
async fn new_credentials_roll_the_program_without_a_request() {
    let place = Place::new().await;
    let of = |program: &Deployment| checksum(program, "secret-cloudprovider");
    let before = of(&place.program("there", |_| true).await);
    place.world.give_keys(&place.world.cloud.issue_keys("account")).await;
    place.program("rolled", |program| of(program) != before).await;
}

#[tokio::test(start_paused = true)]
async fn its_certificate_is_rotated_with_the_shoots_authorities() {
    let place = Place::new().await;
    let first = server_secret(&place.program("there", |_| true).await);
    let initiated = place.world.embedded.clock.now();
    place
        .world
        .write_cluster(rotated(CredentialsRotationPhase::Preparing, initiated))
        .await;
    place.request("reconcile").await;
    place.succeeds().await;
    assert_eq!(
        server_secret(&place.program("there", |_| true).await),
        first,
        "clients trust the old authority alone"
    );
    let authorities = |names: Vec<String>| {
        names
            .iter()
            .filter(|name| name.starts_with("ca-provider-fake") && !name.contains("bundle"))
            .count()
    };
    assert_eq!(authorities(place.secrets().await), 2);
    place
        .world
        .write_cluster(rotated(CredentialsRotationPhase::Completing, initiated))
        .await;
    place.request("reconcile").await;
    place.program("rolled", |program| server_secret(program) != first).await;
    place.succeeds().await;
    assert!(
        place.secrets().await.contains(&first),
        "it stays until the new one is rolled out"
    );
    place.request("reconcile").await;
    place.succeeds().await;
    let left = place.secrets().await;
    assert!(!left.contains(&first), "{left:?}");
    assert_eq!(authorities(left), 1);
}

#[tokio::test(start_paused = true)]
async fn a_deletion_leaves_nothing_but_what_others_have_written() {
    let place = Place::new().await;
    let api = place.world.all::<ControlPlane>();
    api.delete(NAME, &DeleteParams::default()).await.unwrap();
    gone(&api).await;
    assert_eq!(place.secrets().await, ["cloudprovider"]);
    assert_eq!(place.world.names_of::<Deployment>().await, [""; 0]);
    assert_eq!(place.world.names_of::<ManagedResource>().await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_migration_leaves_the_shoot_as_it_is() {
    let place = Place::new().await;
    // So that it can be seen as it is when it goes.
    let hold = Patch::Merge(json!({"metadata": {"finalizers": ["test/hold"]}}));
    let resources = place.world.all::<ManagedResource>();
    resources
        .patch("extension-controlplane-shoot", &PatchParams::default(), &hold)
        .await
        .unwrap();
    place.request("migrate").await;
    let going = until(&resources, "extension-controlplane-shoot", "going", |resource| {
        resource.metadata.deletion_timestamp.is_some()
    })
    .await;
    assert_eq!(going.spec.keep_objects, Some(true));
    let release = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    resources
        .patch("extension-controlplane-shoot", &PatchParams::default(), &release)
        .await
        .unwrap();
    place.succeeds().await;
    assert_eq!(place.secrets().await, ["cloudprovider"]);
}

#[tokio::test(start_paused = true)]
async fn what_it_cannot_use_is_reported_with_its_code() {
    let place = Place::new().await;
    let world = &place.world;
    let report = async || {
        let object = answered::<ControlPlane>(&world.all(), Error).await;
        let error = object.status().and_then(|status| status.last_error.cloned()).unwrap();
        (error.codes, error.description)
    };
    let edit = async |change: &dyn Fn(&mut ControlPlane)| world.edit(&world.all(), "reconcile", change).await;
    let foreign = json!({"apiVersion": "v1", "kind": "ControlPlaneConfig"});
    edit(&|object| object.spec.provider_config = Some(RawJson::from(foreign.clone()))).await;
    let (codes, text) = report().await;
    assert_eq!(codes, [ErrorCode::ConfigurationProblem]);
    assert!(
        text.contains("spec.provider.controlPlaneConfig.apiVersion is \"v1\""),
        "{text}"
    );

    edit(&|object| {
        (object.spec.provider_config, object.spec.infrastructure_provider_status) = (None, None);
    })
    .await;
    let (codes, text) = report().await;
    assert_eq!(codes, [ErrorCode::RetryableConfigurationProblem]);
    assert!(text.contains("spec.infrastructureProviderStatus is missing"), "{text}");

    let keys = Keys {
        access_key_id: String::new(),
        ..world.keys.clone()
    };
    let reported = RawJson::from(infrastructure_status());
    edit(&|object| object.spec.infrastructure_provider_status = Some(reported.clone())).await;
    place.succeeds().await;
    world.give_keys(&keys).await;
    let (codes, text) = report().await;
    assert_eq!(codes, [ErrorCode::ConfigurationProblem]);
    assert!(text.contains("accessKeyID is empty"), "{text}");
}
