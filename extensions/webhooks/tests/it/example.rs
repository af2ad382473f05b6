//! Example 2 of Gardener's overview of extensions: a provider adds flags, a volume and a mount to kube-controller-manager.

use std::sync::Arc;

use api_meta::Fault;
use async_trait::async_trait;
use base_clock::Clock;
use extensions_webhooks::edit::{
    Flags,
    pods::{HasPods, container, ensure_mount, ensure_volume},
};
use extensions_webhooks::{
    Context, ControlPlane, ControlPlaneKind, Ensured, Refusal, Webhook, control_plane_webhook, selectors,
};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMapVolumeSource, Volume, VolumeMount};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::world::{SHOOT_NAMESPACE, World, until_called};

const CONFIG: &str = "cloud-provider-config";
const FOLDER: &str = "/etc/kubernetes/cloudprovider";
/// The command in the seed document, shortened.
const COMMAND: [&str; 4] = [
    "/hyperkube",
    "controller-manager",
    "--allocate-node-cidrs=true",
    "--controllers=*,bootstrapsigner,tokencleaner",
];

struct Fake;

#[async_trait]
impl ControlPlane for Fake {
    async fn kube_controller_manager(
        &self,
        context: &Context<'_>,
        new: &mut Deployment,
        old: Option<&Deployment>,
    ) -> Result<(), Refusal> {
        if new.annotations().contains_key("fail") {
            let fault = Fault::dependency("the ConfigMap of the cloud's configuration is not there yet");
            return Err(fault.hint("look at the ControlPlane").into());
        }
        assert_eq!(context.namespace(), SHOOT_NAMESPACE);
        assert_eq!(old.is_some(), new.annotations().contains_key("updated"));
        let pod = new.pod();
        let manager = container(pod, "kube-controller-manager")?;
        let mut flags = Flags::of(manager);
        flags.set("--cloud-provider", "external");
        flags.set("--external-cloud-volume-plugin", "aws");
        flags.set("--cloud-config", &format!("{FOLDER}/cloudprovider.conf"));
        ensure_mount(
            manager,
            VolumeMount {
                name: CONFIG.to_owned(),
                mount_path: FOLDER.to_owned(),
                ..VolumeMount::default()
            },
        );
        let config_map = ConfigMapVolumeSource {
            name: CONFIG.to_owned(),
            ..ConfigMapVolumeSource::default()
        };
        ensure_volume(
            pod,
            Volume {
                name: CONFIG.to_owned(),
                config_map: Some(config_map),
                ..Volume::default()
            },
        );
        Ok(())
    }
}

fn webhook(world: &World) -> Webhook {
    let objects = [Ensured::Deployments];
    control_plane_webhook(ControlPlaneKind::Shoot, "fake", &objects, Arc::new(Fake), &world.client)
        .of_objects(selectors::marked())
}

fn deployment(annotations: Value) -> Value {
    let labels = json!({"app": "kubernetes"});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {
            "name": "kube-controller-manager", "annotations": annotations,
            "labels": {"provider.extensions.gardener.cloud/mutated-by-controlplane-webhook": "true"},
        },
        "spec": {"selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "kube-controller-manager", "image": "kcm", "command": COMMAND}]},
        }},
    })
}

/// Waits until the API server calls the webhook.
async fn until_active(api: &Api<Deployment>) {
    let dry_run = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let wanted = serde_json::from_value(deployment(json!({}))).unwrap();
    let has_more_flags = |created: Deployment| parts(&created).0.len() > COMMAND.len();
    until_called(async || api.create(&dry_run, &wanted).await.is_ok_and(has_more_flags)).await;
}

/// Command, mounts and volumes.
fn parts(deployment: &Deployment) -> (Vec<String>, Value, Value) {
    let pod = deployment.spec.as_ref().unwrap().template.spec.as_ref().unwrap();
    let command = pod.containers[0].command.clone().unwrap();
    (command, json!(pod.containers[0].volume_mounts), json!(pod.volumes))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flags_volume_and_mount_reach_kube_controller_manager_once() {
    let world = World::new().await;
    world
        .namespace("other", &[("shoot.gardener.cloud/provider", "other")])
        .await;
    let _replica = world.start("a", Clock::real(), vec![webhook(&world)]).await;
    let api = Api::<Deployment>::namespaced(world.client.clone(), SHOOT_NAMESPACE);
    until_active(&api).await;
    let expected: Vec<String> = COMMAND
        .into_iter()
        .chain([
            "--cloud-provider=external",
            "--external-cloud-volume-plugin=aws",
            "--cloud-config=/etc/kubernetes/cloudprovider/cloudprovider.conf",
        ])
        .map(str::to_owned)
        .collect();
    let create = |annotations| serde_json::from_value::<Deployment>(deployment(annotations)).unwrap();
    let created = api.create(&PostParams::default(), &create(json!({}))).await.unwrap();
    // gardenlet applies again what it wants, which has nothing of this.
    let wanted = Patch::Apply(deployment(json!({"updated": "yes"})));
    let params = PatchParams::apply("gardenlet").force();
    let applied = api.patch("kube-controller-manager", &params, &wanted).await.unwrap();
    for found in [created, applied] {
        let (command, mounts, volumes) = parts(&found);
        assert_eq!(command, expected);
        assert_eq!(mounts, json!([{"name": CONFIG, "mountPath": FOLDER}]));
        assert_eq!(volumes.as_array().unwrap().len(), 1, "{volumes}");
        assert_eq!(volumes[0]["configMap"]["name"], CONFIG);
    }
    let elsewhere = Api::<Deployment>::namespaced(world.client.clone(), "other");
    let untouched = elsewhere
        .create(&PostParams::default(), &create(json!({})))
        .await
        .unwrap();
    assert_eq!(parts(&untouched).0, COMMAND);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_change_refuses_the_write_with_extension_webhook_and_object() {
    let world = World::new().await;
    let _replica = world.start("a", Clock::real(), vec![webhook(&world)]).await;
    let api = Api::<Deployment>::namespaced(world.client.clone(), SHOOT_NAMESPACE);
    until_active(&api).await;
    let failing = serde_json::from_value(deployment(json!({"fail": "yes"}))).unwrap();
    let refused = base_client::create_or_get::<Deployment>(&api, &failing)
        .await
        .unwrap_err();
    let text = refused.to_string();
    let expected = format!(
        "admission webhook \"controlplane.fake.extensions.gardener.cloud\" denied the request: extension provider-fake, webhook \
         controlplane, Deployment {SHOOT_NAMESPACE}/kube-controller-manager: the ConfigMap of the cloud's configuration is not \
         there yet (to do: look at the ControlPlane)"
    );
    assert!(text.contains(&expected), "{text}");
    assert_eq!(refused.class, api_meta::FaultClass::Dependency);
    assert_eq!(
        refused.webhook.unwrap().name,
        "controlplane.fake.extensions.gardener.cloud"
    );
}
