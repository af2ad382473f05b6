//! Which method of a control plane is called for which object, and what becomes of each part of an OperatingSystemConfig.

use std::sync::{Arc, Mutex};

use api_extensions::{CRIConfig, File, Unit};
use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use extensions_webhooks::edit::files::{BASE64, inline};
use extensions_webhooks::edit::units::UnitFile;
use extensions_webhooks::{
    Context, ControlPlane, ControlPlaneKind, Ensured, Etcd, Mode, Pool, Refusal, Settings, VerticalPodAutoscaler,
    Webhooks, cloud_provider_webhook, control_plane_webhook,
};
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::Secret;
use kube::api::PostParams;
use kube::{Api, Client, ResourceExt};
use serde_json::{Map, Value, json};

use crate::world::{SHOOT_NAMESPACE, World};

/// Notes which methods are called, and marks what they get.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<&'static str>>>);

impl Notes {
    fn note(&self, method: &'static str, object: &mut impl ResourceExt) {
        self.0.lock().unwrap().push(method);
        object.annotations_mut().insert("seen".to_owned(), method.to_owned());
    }
}

macro_rules! noted {
    ($($method:ident: $kind:ty),+ $(,)?) => {
        #[async_trait]
        impl ControlPlane for Notes {
            $(async fn $method(&self, _: &Context<'_>, new: &mut $kind, _: Option<&$kind>) -> Result<(), Refusal> {
                self.note(stringify!($method), new);
                Ok(())
            })+
        }
    };
}

noted! {
    kube_apiserver: Deployment,
    kube_controller_manager: Deployment,
    kube_scheduler: Deployment,
    cluster_autoscaler: Deployment,
    machine_controller_manager: Deployment,
    machine_controller_manager_vpa: VerticalPodAutoscaler,
    vpn_seed_server: Deployment,
    vpn_seed_server_stateful_set: StatefulSet,
    gardener_resource_manager: Deployment,
    etcd: Etcd,
    etcd_stateful_set: StatefulSet,
    cloud_provider_secret: Secret,
}

/// Makes one change of each part of an OperatingSystemConfig.
struct Nodes;

#[async_trait]
impl ControlPlane for Nodes {
    async fn kubelet_unit(
        &self,
        _: &Context<'_>,
        pool: &Pool<'_>,
        new: &mut UnitFile,
        _: Option<&UnitFile>,
    ) -> Result<(), Refusal> {
        let version = pool.kubelet_version().await?;
        new.edit_command("Service", "ExecStart", |words| {
            let flag = format!("--for={}-{version}", pool.name().unwrap_or_default());
            if !words.contains(&flag) {
                words.push(flag);
            }
        });
        Ok(())
    }

    async fn kubelet_configuration(
        &self,
        _: &Context<'_>,
        _: &Pool<'_>,
        new: &mut Map<String, Value>,
        _: Option<&Map<String, Value>>,
    ) -> Result<(), Refusal> {
        new.insert("failSwapOn".to_owned(), json!(false));
        Ok(())
    }

    async fn kernel_settings(&self, _: &Context<'_>, new: &mut String, _: Option<&str>) -> Result<(), Refusal> {
        if !new.contains("b = 2") {
            new.push_str("b = 2\n");
        }
        Ok(())
    }

    async fn kubelet_cloud_provider_config(&self, _: &Context<'_>, _: &Pool<'_>) -> Result<Option<String>, Refusal> {
        Ok(Some("[Global]\n".to_owned()))
    }

    async fn container_runtime(
        &self,
        _: &Context<'_>,
        new: &mut CRIConfig,
        _: Option<&CRIConfig>,
    ) -> Result<(), Refusal> {
        new.containerd.get_or_insert_default().sandbox_image = "pause".to_owned();
        Ok(())
    }

    async fn files(
        &self,
        _: &Context<'_>,
        _: &Pool<'_>,
        new: &mut Vec<File>,
        _: Option<&[File]>,
    ) -> Result<(), Refusal> {
        new.retain(|file| file.path != "/obsolete");
        Ok(())
    }

    async fn provision_units(
        &self,
        _: &Context<'_>,
        _: &Pool<'_>,
        new: &mut Vec<Unit>,
        _: Option<&[Unit]>,
    ) -> Result<(), Refusal> {
        let unit = Unit {
            name: "early.service".to_owned(),
            ..Unit::default()
        };
        extensions_webhooks::edit::files::ensure_unit(new, unit);
        Ok(())
    }
}

/// A client of the webhooks of this control plane.
fn webhooks(control_plane: Arc<dyn ControlPlane>, seed: &Client) -> Client {
    let settings = Settings {
        extension: "provider-fake".to_owned(),
        namespace: "n".to_owned(),
        mode: Mode::Service,
        service_port: 443,
        owner_namespace: None,
    };
    let objects = [
        Ensured::Deployments,
        Ensured::StatefulSets,
        Ensured::VerticalPodAutoscalers,
        Ensured::Etcds,
        Ensured::OperatingSystemConfigs,
    ];
    let (clock, entropy) = (base_clock::Clock::real(), base_clock::Entropy::os());
    let all = Webhooks::new(settings, seed.clone(), clock, entropy)
        .webhook(control_plane_webhook(
            ControlPlaneKind::Shoot,
            "fake",
            &objects,
            control_plane.clone(),
            seed,
        ))
        .and_then(|all| all.webhook(cloud_provider_webhook("fake", control_plane, seed)))
        .unwrap();
    base_client::in_process(all.service(), |_| {})
}

/// The patch that the webhooks answer for an object; null for none.
async fn patch(webhooks: &Client, group: &str, version: &str, object: &Value) -> Value {
    let kind = object["kind"].clone();
    let path = if kind == "Secret" {
        "/cloudprovider"
    } else {
        "/controlplane"
    };
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "u", "kind": {"group": group, "version": version, "kind": kind}, "operation": "CREATE",
        "namespace": SHOOT_NAMESPACE, "name": object["metadata"]["name"], "object": object,
    }});
    let request = http::Request::post(path).body(review.to_string().into_bytes()).unwrap();
    let answer: Value = webhooks.request(request).await.unwrap();
    assert_eq!(answer["response"]["allowed"], true, "{answer}");
    match answer["response"]["patch"].as_str() {
        Some(patch) => serde_json::from_slice(&STANDARD.decode(patch).unwrap()).unwrap(),
        None => Value::Null,
    }
}

fn patched(object: &Value, patch: &Value) -> Value {
    let mut patched = object.clone();
    let patch: json_patch::Patch = serde_json::from_value(patch.clone()).unwrap();
    json_patch::patch(&mut patched, &patch).unwrap();
    patched
}

#[tokio::test]
async fn each_object_of_a_control_plane_has_its_method_and_others_none() {
    let world = World::new().await;
    let notes = Notes::default();
    let webhooks = webhooks(Arc::new(notes.clone()), &world.client);
    let (apps, druid, scaling) = (
        ("apps", "v1"),
        ("druid.gardener.cloud", "v1alpha1"),
        ("autoscaling.k8s.io", "v1"),
    );
    let cases = [
        (apps, "Deployment", "kube-apiserver", "kube_apiserver"),
        (apps, "Deployment", "virtual-garden-kube-apiserver", "kube_apiserver"),
        (apps, "Deployment", "kube-controller-manager", "kube_controller_manager"),
        (apps, "Deployment", "kube-scheduler", "kube_scheduler"),
        (apps, "Deployment", "cluster-autoscaler", "cluster_autoscaler"),
        (
            apps,
            "Deployment",
            "machine-controller-manager",
            "machine_controller_manager",
        ),
        (
            apps,
            "Deployment",
            "gardener-resource-manager",
            "gardener_resource_manager",
        ),
        (apps, "Deployment", "vpn-seed-server", "vpn_seed_server"),
        (apps, "StatefulSet", "vpn-seed-server", "vpn_seed_server_stateful_set"),
        (apps, "StatefulSet", "etcd-main", "etcd_stateful_set"),
        (druid, "Etcd", "etcd-events", "etcd"),
        (
            scaling,
            "VerticalPodAutoscaler",
            "machine-controller-manager-vpa",
            "machine_controller_manager_vpa",
        ),
        (("", "v1"), "Secret", "cloudprovider", "cloud_provider_secret"),
        (apps, "Deployment", "other", ""),
        (apps, "StatefulSet", "other", ""),
        (druid, "Etcd", "other", ""),
        (scaling, "VerticalPodAutoscaler", "other", ""),
        (("", "v1"), "Secret", "other", ""),
    ];
    for ((group, version), kind, name, method) in cases {
        let object = json!({"kind": kind, "metadata": {"name": name, "annotations": {"a": "b"}}, "later": {"x": 1}});
        let patch = patch(&webhooks, group, version, &object).await;
        let called = std::mem::take(&mut *notes.0.lock().unwrap());
        if method.is_empty() {
            assert_eq!((called, patch), (vec![], Value::Null), "{kind} {name}");
            continue;
        }
        assert_eq!(called, [method], "{kind} {name}");
        let mut expected = vec![json!({"op": "add", "path": "/metadata/annotations/seen", "value": method})];
        if kind != "Secret" {
            let label = "provider.extensions.gardener.cloud/mutated-by-controlplane-webhook";
            expected.push(json!({"op": "add", "path": "/metadata/labels", "value": {label: "true"}}));
        }
        assert_eq!(patch, Value::Array(expected), "{kind} {name}");
    }
}

/// What gardenlet writes for the nodes of pool `a`.
fn osc(purpose: &str) -> Value {
    let file = |path: &str, text: &str| {
        let content = inline(text, BASE64);
        json!({"path": path, "content": {"inline": {"encoding": content.encoding, "data": content.data}}, "later": path})
    };
    json!({
        "apiVersion": "extensions.gardener.cloud/v1alpha1", "kind": "OperatingSystemConfig",
        "metadata": {"name": "osc", "labels": {
            "worker.gardener.cloud/pool": "a",
            "provider.extensions.gardener.cloud/mutated-by-controlplane-webhook": "true",
        }},
        "spec": {
            "type": "os", "purpose": purpose, "criConfig": {"name": "containerd", "later": 1},
            "units": [{"name": "kubelet.service", "content": "[Service]\nExecStart=/kubelet --a\n", "later": 2}],
            "files": [
                file("/obsolete", "x"),
                file("/var/lib/kubelet/config/kubelet", r#"{"kind":"KubeletConfiguration","clusterDomain":"x"}"#),
                file("/etc/sysctl.d/99-k8s-general.conf", "a = 1\n"),
            ],
        },
    })
}

#[tokio::test]
async fn each_part_of_an_operating_system_config_is_changed_in_its_own_form() {
    let world = World::new().await;
    world.install(api_extensions::crds()).await;
    let cluster = json!({"metadata": {"name": SHOOT_NAMESPACE}, "spec": {"cloudProfile": {}, "shoot": {
        "apiVersion": "core.gardener.cloud/v1beta1", "kind": "Shoot", "metadata": {"name": "s"},
        "spec": {"kubernetes": {"version": "1.35.1"}, "provider": {"type": "fake", "workers": [
            {"name": "a", "kubernetes": {"version": "1.34.3"}},
        ]}},
    }}});
    let clusters = Api::<api_extensions::Cluster>::all(world.client.clone());
    clusters
        .create(&PostParams::default(), &serde_json::from_value(cluster).unwrap())
        .await
        .unwrap();
    let webhooks = webhooks(Arc::new(Nodes), &world.client);
    let (group, version) = ("extensions.gardener.cloud", "v1alpha1");

    let object = osc("reconcile");
    let changed = patched(&object, &patch(&webhooks, group, version, &object).await);
    let spec = &changed["spec"];
    assert_eq!(
        spec["units"][0],
        json!({"name": "kubelet.service", "later": 2, "content": "[Service]\nExecStart=/kubelet \\\n    --a \\\n    --for=a-1.34.3\n"})
    );
    let text = |at: usize| {
        let file = &spec["files"][at];
        let text = STANDARD
            .decode(file["content"]["inline"]["data"].as_str().unwrap())
            .unwrap();
        (
            file["path"].as_str().unwrap(),
            file["later"].clone(),
            String::from_utf8(text).unwrap(),
        )
    };
    let (kubelet, sysctl) = ("/var/lib/kubelet/config/kubelet", "/etc/sysctl.d/99-k8s-general.conf");
    let configuration = r#"{"clusterDomain":"x","failSwapOn":false,"kind":"KubeletConfiguration"}"#;
    assert_eq!(text(0), (kubelet, json!(kubelet), configuration.to_owned()));
    assert_eq!(text(1), (sysctl, json!(sysctl), "a = 1\nb = 2\n".to_owned()));
    assert_eq!(
        text(2),
        (
            "/var/lib/kubelet/cloudprovider.conf",
            Value::Null,
            "[Global]\n".to_owned()
        )
    );
    assert_eq!(
        (
            &spec["criConfig"]["later"],
            &spec["criConfig"]["containerd"]["sandboxImage"]
        ),
        (&json!(1), &json!("pause"))
    );
    assert_eq!(
        patch(&webhooks, group, version, &changed).await,
        Value::Null,
        "nothing is left to change"
    );

    let object = osc("provision");
    let patch = patch(&webhooks, group, version, &object).await;
    assert_eq!(
        patch,
        json!([{"op": "add", "path": "/spec/units/1", "value": {"name": "early.service"}}])
    );
}
