//! Example 2 of Gardener's overview of extensions, word for word: a webhook of an extension adds
//! `--cloud-provider`, `--external-cloud-volume-plugin` and `--cloud-config` to kube-controller-manager, and the ConfigMap
//! with the volume and the mount that they need. In real time, as the webhook is a server on a socket.

use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Container, Namespace, Pod};
use kube::api::{ListParams, LogParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tests_scenarios::webhook::Webhook;
use tests_scenarios::{NAME, NAMESPACE, SHOOT, SURROUNDINGS, TECHNICAL_ID, World, wait};

/// Many times what the scenario takes.
const PATIENCE: Duration = Duration::from_secs(300);
const CONTROLLER_MANAGER: &str = "kube-controller-manager";
const CLOUD_CONFIG: &str = "cloud-provider-config";
const FOLDER: &str = "/etc/kubernetes/cloudprovider";
const FLAGS: [&str; 3] = [
    "--cloud-provider=external",
    "--external-cloud-volume-plugin=aws",
    "--cloud-config=/etc/kubernetes/cloudprovider/cloudprovider.conf",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhooks_flags_and_volume_reach_kube_controller_manager() {
    tokio::time::timeout(PATIENCE, Box::pin(scenario())).await.unwrap();
}

async fn scenario() {
    let world = World::start_in_real_time().await;
    let webhook = Webhook::start(add_cloud_config).await;
    register(&world.seed, &webhook).await;
    let (project, credentials) = SURROUNDINGS.split_at(2);
    world.apply(project).await;
    // A controller makes the project's namespace, in real time not at once.
    let namespaces: Api<Namespace> = Api::all(world.garden.clone());
    wait(&namespaces, NAMESPACE, |namespace| namespace.map(drop)).await;
    world.apply(credentials).await;
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
    for flag in ["--cloud-config", "--cloud-provider", "--external-cloud-volume-plugin"] {
        assert!(idle.unwrap().contains(flag), "{log}");
    }
    world.delete_shoot(NAMESPACE, NAME).await;
}

fn has_cloud_config(container: &Container, volumes: Option<&[k8s_openapi::api::core::v1::Volume]>) {
    let command = container.command.as_ref().unwrap();
    for flag in FLAGS {
        assert_eq!(command.iter().filter(|word| *word == flag).count(), 1, "{command:?}");
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

/// As an extension of provider `local` registers it (gardener/gardener v1.150 extensions/pkg/webhook/controlplane).
async fn register(seed: &Client, webhook: &Webhook) {
    let configuration = json!({
        "metadata": {"name": "gardener-extension-provider-local"},
        "webhooks": [{
            "name": "controlplane.local.extensions.gardener.cloud",
            "clientConfig": webhook.client_config(),
            "rules": [{
                "apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments"],
                "operations": ["CREATE", "UPDATE"],
            }],
            "namespaceSelector": {"matchExpressions": [
                {"key": "shoot.gardener.cloud/provider", "operator": "In", "values": ["local"]},
            ]},
            "objectSelector": {"matchLabels": {
                "provider.extensions.gardener.cloud/mutated-by-controlplane-webhook": "true",
            }},
            "failurePolicy": "Fail", "matchPolicy": "Exact", "sideEffects": "None", "timeoutSeconds": 10,
            "admissionReviewVersions": ["v1", "v1beta1"],
        }],
    });
    let configurations: Api<MutatingWebhookConfiguration> = Api::all(seed.clone());
    let configuration = serde_json::from_value(configuration).unwrap();
    configurations
        .create(&PostParams::default(), &configuration)
        .await
        .unwrap();
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

/// What the extension's webhook adds; nothing that is there already.
fn add_cloud_config(deployment: &Value) -> Vec<Value> {
    if deployment["metadata"]["name"] != CONTROLLER_MANAGER {
        return Vec::new();
    }
    let pod = &deployment["spec"]["template"]["spec"];
    let containers = pod["containers"].as_array().unwrap();
    let at = containers
        .iter()
        .position(|one| one["name"] == CONTROLLER_MANAGER)
        .unwrap();
    let add = |path: String, value: Value| json!({"op": "add", "path": path, "value": value});
    let has = |list: &Value, name: &str| list.as_array().unwrap().iter().any(|one| one["name"] == name);
    let spec = "/spec/template/spec";
    let command = containers[at]["command"].as_array().unwrap();
    let missing = FLAGS
        .into_iter()
        .filter(|flag| !command.iter().any(|word| word == flag));
    let mut operations: Vec<Value> = missing
        .map(|flag| add(format!("{spec}/containers/{at}/command/-"), json!(flag)))
        .collect();
    if !has(&containers[at]["volumeMounts"], CLOUD_CONFIG) {
        let mount = json!({"name": CLOUD_CONFIG, "mountPath": FOLDER});
        operations.push(add(format!("{spec}/containers/{at}/volumeMounts/-"), mount));
    }
    if !has(&pod["volumes"], CLOUD_CONFIG) {
        let volume = json!({"name": CLOUD_CONFIG, "configMap": {"name": CLOUD_CONFIG}});
        operations.push(add(format!("{spec}/volumes/-"), volume));
    }
    operations
}
