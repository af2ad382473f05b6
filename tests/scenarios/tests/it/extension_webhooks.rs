//! Webhooks that are written on the SDK, in a whole landscape: Example 2 of Gardener's overview of extensions in a seed, and
//! defaults and validation of a Shoot's provider configuration in the garden. In real time, as webhooks are servers on sockets.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use api_core::v1beta1::Shoot;
use api_meta::RawJson;
use async_trait::async_trait;
use base_clock::{Clock, Entropy};
use extensions_sdk::FieldProblem;
use extensions_webhooks::edit::Flags;
use extensions_webhooks::edit::pods::{HasPods, container, ensure_mount, ensure_volume};
use extensions_webhooks::{
    Context, ControlPlane, ControlPlaneKind, Ensured, Mode, Refusal, Settings, ShootPart, ShootProvider, Webhook,
    Webhooks, control_plane_webhook, selectors, shoot_webhooks,
};
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, ConfigMapVolumeSource, Container, Namespace, Pod, Volume, VolumeMount};
use kube::api::{ListParams, LogParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tests_scenarios::{NAME, NAMESPACE, SHOOT, SURROUNDINGS, TECHNICAL_ID, World, merge, wait};
use tokio_util::sync::{CancellationToken, DropGuard};

/// Many times what a scenario takes.
const PATIENCE: Duration = Duration::from_secs(300);
/// The namespace of the extension that serves the webhooks.
const EXTENSION_NAMESPACE: &str = "extension-webhooks";
const CONTROLLER_MANAGER: &str = "kube-controller-manager";
const CLOUD_CONFIG: &str = "cloud-provider-config";
const FOLDER: &str = "/etc/kubernetes/cloudprovider";
const FLAGS: [(&str, &str); 3] = [
    ("--cloud-provider", "external"),
    ("--external-cloud-volume-plugin", "aws"),
    ("--cloud-config", "/etc/kubernetes/cloudprovider/cloudprovider.conf"),
];
/// Where the provider's configuration for control planes stands.
const ZONE_FIELD: &str = "spec.provider.controlPlaneConfig.zone";

/// Serves webhooks for a seed until it is dropped.
async fn serve(
    name: &str,
    world: &World,
    garden: Option<&Client>,
    webhooks: impl IntoIterator<Item = Webhook>,
) -> DropGuard {
    let namespaces: Api<Namespace> = Api::all(world.seed.clone());
    let namespace = serde_json::from_value(json!({"metadata": {"name": EXTENSION_NAMESPACE}})).unwrap();
    namespaces.create(&PostParams::default(), &namespace).await.unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let settings = Settings {
        extension: name.to_owned(),
        namespace: EXTENSION_NAMESPACE.to_owned(),
        mode: Mode::Url(listener.local_addr().unwrap().to_string()),
        service_port: 443,
        owner_namespace: None,
    };
    let mut all = Webhooks::new(settings, world.seed.clone(), Clock::real(), Entropy::os());
    if let Some(garden) = garden {
        all = all.registered_in(garden.clone());
    }
    for webhook in webhooks {
        all = all.webhook(webhook).unwrap();
    }
    let stop = CancellationToken::new();
    let until = stop.clone();
    tokio::spawn(async move { all.run(listener, "a", until).await });
    stop.drop_guard()
}

/// Waits until an extension's webhooks are registered.
async fn registered(cluster: &Client, name: &str) {
    let configurations: Api<MutatingWebhookConfiguration> = Api::all(cluster.clone());
    wait(&configurations, &format!("gardener-extension-{name}"), |found| {
        found.map(drop)
    })
    .await;
}

/// The project and the credentials of the example.
async fn surroundings(world: &World) {
    let (project, credentials) = SURROUNDINGS.split_at(2);
    world.apply(project).await;
    // A controller makes the project's namespace, in real time not at once.
    let namespaces: Api<Namespace> = Api::all(world.garden.clone());
    wait(&namespaces, NAMESPACE, |namespace| namespace.map(drop)).await;
    world.apply(credentials).await;
}

/// Adds what kube-controller-manager needs for a cloud controller manager.
struct CloudConfig;

#[async_trait]
impl ControlPlane for CloudConfig {
    async fn kube_controller_manager(
        &self,
        _: &Context<'_>,
        new: &mut Deployment,
        _: Option<&Deployment>,
    ) -> Result<(), Refusal> {
        let pod = new.pod();
        let manager = container(pod, CONTROLLER_MANAGER)?;
        let mut flags = Flags::of(manager);
        for (flag, value) in FLAGS {
            flags.set(flag, value);
        }
        let mount = VolumeMount {
            name: CLOUD_CONFIG.to_owned(),
            mount_path: FOLDER.to_owned(),
            ..VolumeMount::default()
        };
        ensure_mount(manager, mount);
        let config_map = ConfigMapVolumeSource {
            name: CLOUD_CONFIG.to_owned(),
            ..ConfigMapVolumeSource::default()
        };
        let volume = Volume {
            name: CLOUD_CONFIG.to_owned(),
            config_map: Some(config_map),
            ..Volume::default()
        };
        ensure_volume(pod, volume);
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhooks_flags_and_volume_reach_kube_controller_manager() {
    tokio::time::timeout(PATIENCE, Box::pin(seed_scenario())).await.unwrap();
}

async fn seed_scenario() {
    let world = World::start_in_real_time().await;
    let objects = [Ensured::Deployments];
    let webhook = control_plane_webhook(
        ControlPlaneKind::Shoot,
        "local",
        &objects,
        Arc::new(CloudConfig),
        &world.seed,
    )
    .of_objects(selectors::marked());
    let _served = serve("provider-local", &world, None, [webhook]).await;
    registered(&world.seed, "provider-local").await;
    surroundings(&world).await;
    world.apply(&[SHOOT]).await;
    create_cloud_config(&world.seed).await;
    world.succeeded(NAMESPACE, NAME).await;

    let deployments: Api<Deployment> = Api::namespaced(world.seed.clone(), TECHNICAL_ID);
    let deployment = deployments.get(CONTROLLER_MANAGER).await.unwrap();
    let template = deployment.spec.unwrap().template.spec.unwrap();
    has_cloud_config(&template.containers[0], template.volumes.as_deref());

    let pods: Api<Pod> = Api::namespaced(world.seed.clone(), TECHNICAL_ID);
    let running = pods.list(&ListParams::default()).await.unwrap();
    let is_it = |pod: &Pod| pod.name_any().starts_with(CONTROLLER_MANAGER);
    let pod = running.items.into_iter().find(is_it).unwrap();
    let status = pod.status.clone().unwrap();
    let container = status.container_statuses.unwrap().remove(0);
    assert!(container.ready && container.restart_count == 0, "{container:?}");
    let spec = pod.spec.as_ref().unwrap();
    has_cloud_config(&spec.containers[0], spec.volumes.as_deref());

    let log = pods.logs(&pod.name_any(), &LogParams::default()).await.unwrap();
    let idle = log
        .lines()
        .find(|line| line.starts_with("Flags without an effect here: "));
    for (flag, _) in FLAGS {
        assert!(idle.unwrap().contains(flag), "{log}");
    }
    world.delete_shoot(NAMESPACE, NAME).await;
}

fn has_cloud_config(container: &Container, volumes: Option<&[Volume]>) {
    let command = container.command.as_ref().unwrap();
    for (flag, value) in FLAGS {
        let word = format!("{flag}={value}");
        assert_eq!(command.iter().filter(|found| **found == word).count(), 1, "{command:?}");
    }
    let mounts = container.volume_mounts.as_ref().unwrap();
    let is_mounted = |path: &str| {
        mounts
            .iter()
            .any(|mount| mount.name == CLOUD_CONFIG && mount.mount_path == path)
    };
    assert!(is_mounted(FOLDER), "{mounts:?}");
    let of_map = volumes.unwrap().iter().find(|volume| volume.name == CLOUD_CONFIG);
    assert_eq!(of_map.unwrap().config_map.as_ref().unwrap().name, CLOUD_CONFIG);
}

/// The ConfigMap is the extension's too; kube-controller-manager's pod waits for it.
async fn create_cloud_config(seed: &Client) {
    let namespaces: Api<Namespace> = Api::all(seed.clone());
    wait(&namespaces, TECHNICAL_ID, |namespace| namespace.map(drop)).await;
    let map = json!({"metadata": {"name": CLOUD_CONFIG}, "data": {"cloudprovider.conf": "[Global]\nVPC=vpc-1\n"}});
    let maps: Api<ConfigMap> = Api::namespaced(seed.clone(), TECHNICAL_ID);
    maps.create(&PostParams::default(), &serde_json::from_value(map).unwrap())
        .await
        .unwrap();
}

/// Puts control planes into a zone, and knows two of them. It records the specs that it is shown.
#[derive(Clone)]
struct Zones(Arc<Mutex<Vec<(Value, bool)>>>);

fn config_of(shoot: &Shoot) -> Value {
    let config = shoot.spec.provider.control_plane_config.as_ref();
    config.map_or(Value::Null, RawJson::value)
}

#[async_trait]
impl ShootProvider for Zones {
    async fn default(&self, shoot: &mut Shoot, _: Option<&Shoot>) -> Result<(), Refusal> {
        let mut config = config_of(shoot);
        if config["zone"].is_null() {
            config["zone"] = json!("a");
            shoot.spec.provider.control_plane_config = Some(config.into());
        }
        Ok(())
    }

    async fn validate(&self, shoot: &Shoot, old: Option<&Shoot>) -> Result<Vec<FieldProblem>, Refusal> {
        let zone = config_of(shoot)["zone"].clone();
        self.0.lock().unwrap().push((zone.clone(), old.is_some()));
        match zone == "a" || zone == "b" {
            true => Ok(Vec::new()),
            false => Ok(vec![FieldProblem::new(ZONE_FIELD, format!("is {zone}"), "one of a, b")]),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn provider_configuration_is_completed_and_refused_in_the_garden() {
    tokio::time::timeout(PATIENCE, Box::pin(garden_scenario()))
        .await
        .unwrap();
}

/// What a kube client is answered: the object's zone, or code and message.
fn answer(result: Result<Shoot, kube::Error>) -> Result<Value, (u16, String)> {
    match result {
        Ok(shoot) => Ok(config_of(&shoot)["zone"].clone()),
        Err(kube::Error::Api(status)) => Err((status.code, status.message)),
        Err(error) => Err((0, error.to_string())),
    }
}

/// Why the Shoot is refused once the API server has learned of the registration, which it does by a watch.
async fn first_refusal(shoots: &Api<Shoot>, shoot: &Shoot) -> (u16, String) {
    let dry_run = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    loop {
        if let Err(refused) = answer(shoots.create(&dry_run, shoot).await) {
            return refused;
        }
    }
}

async fn garden_scenario() {
    let world = World::start_in_real_time().await;
    let zones = Zones(Arc::default());
    let webhooks = shoot_webhooks("local", ShootPart::Provider, Arc::new(zones.clone()));
    let _served = serve("admission-local", &world, Some(&world.garden), webhooks).await;
    registered(&world.garden, "admission-local").await;
    surroundings(&world).await;
    let shoots = world.shoots(NAMESPACE);
    let mut manifest: Value = base_yaml::read_strict(SHOOT).unwrap();
    manifest["spec"]["provider"]["controlPlaneConfig"] = json!({"zone": "nowhere"});
    let create = async |manifest: &Value| {
        let shoot = serde_json::from_value(manifest.clone()).unwrap();
        answer(shoots.create(&PostParams::default(), &shoot).await)
    };
    let shoot = serde_json::from_value(manifest.clone()).unwrap();
    let (code, message) = first_refusal(&shoots, &shoot).await;
    let expected = format!("{ZONE_FIELD} is \"nowhere\"; expected one of a, b");
    assert!(
        code == 422 && message.contains(&expected) && message.contains("extension admission-local"),
        "{code} {message}"
    );
    assert_eq!(create(&manifest).await.unwrap_err().0, 422);

    manifest["spec"]["provider"]
        .as_object_mut()
        .unwrap()
        .remove("controlPlaneConfig");
    assert_eq!(
        create(&manifest).await,
        Ok(json!("a")),
        "what is left out is set before it is stored"
    );
    world.succeeded(NAMESPACE, NAME).await;

    let patch = |zone: &str| json!({"spec": {"provider": {"controlPlaneConfig": {"zone": zone}}}});
    let update = async |zone: &str| {
        answer(
            shoots
                .patch(NAME, &PatchParams::default(), &Patch::Merge(patch(zone)))
                .await,
        )
    };
    assert_eq!(update("c").await.unwrap_err().0, 422);
    let apply = async |zone: &str| {
        let mut applied = patch(zone);
        applied["apiVersion"] = json!("core.gardener.cloud/v1beta1");
        applied["kind"] = json!("Shoot");
        let params = PatchParams::apply("gitops").force();
        answer(shoots.patch(NAME, &params, &Patch::Apply(applied)).await)
    };
    assert_eq!(apply("c").await.unwrap_err().0, 422);
    let before = zones.0.lock().unwrap().len();
    assert_eq!(apply("b").await, Ok(json!("b")));
    world.succeeded(NAMESPACE, NAME).await;
    // Labels, status and what gardenlet writes are not the extension's business.
    merge(&shoots, NAME, &json!({"metadata": {"labels": {"team": "x"}}})).await;
    let mut shown = zones.0.lock().unwrap().split_off(before);
    // A write that gardenlet's was quicker than is reviewed again.
    shown.dedup();
    assert_eq!(shown, [(json!("b"), true)]);

    // The example's deletion passes although the configuration is not accepted any more.
    world.delete_shoot(NAMESPACE, NAME).await;
}
