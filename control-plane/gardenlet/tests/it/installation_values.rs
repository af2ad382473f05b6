//! What a chart is given: every value of the contract from a Seed in which each source field is set, resources of the
//! garden, and access to it.

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use tests_kit::until;

use api_meta::conditions::installation as reason;

use crate::installing::{Installing, NAME, NAMESPACE, chart, data_of};

/// Prints all values, as JSON.
const ALL: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: made, namespace: x}\n\
    data:\n  all: {{ .Values | toJson | quote }}\n  apis: {{ .Capabilities.APIVersions.Has \"apps/v1/Deployment\" | quote }}\n  \
    version: {{ .Capabilities.KubeVersion.Version }}\n";

/// The Seed's fields that become values.
fn seed() -> Value {
    json!({
        "metadata": {"annotations": {"note": "n"}, "labels": {"zone": "far"}},
        "spec": {
            "provider": {"type": "moon", "region": "far", "zones": ["a", "b"]},
            "volume": {"providers": [{"purpose": "etcd-main", "name": "flexible"}, {"purpose": "other", "name": "second"}]},
            "ingress": {"domain": "ingress.example", "controller": {"kind": "nginx"}},
            "taints": [{"key": "seed.gardener.cloud/protected"}],
            "settings": {"scheduling": {"visible": false}, "topologyAwareRouting": {"enabled": true}},
            "networks": {"nodes": "172.18.0.0/16", "pods": "10.1.0.0/16", "services": "10.2.0.0/16",
                "blockCIDRs": ["169.254.169.254/32"], "ipFamilies": ["IPv4"]},
        },
    })
}

#[tokio::test(start_paused = true)]
async fn a_chart_sees_every_value_of_the_contract() {
    let world = Installing::start().await;
    let raw = chart(&[("templates/all.yaml", ALL)]);
    let given = json!({"mine": 1, "gardener": {"version": "forged", "kept": true}});
    world.change_seed(seed()).await;
    world.install(json!({"helm": {"rawChart": raw, "values": given}})).await;
    let hidden = |objects: &[Value]| {
        let all = data_of(objects, "all").unwrap_or_default();
        serde_json::from_str::<Value>(all).is_ok_and(|all| all["gardener"]["seed"]["visible"] == false)
    };
    let objects = world.objects("complete", hidden).await;
    let mut all: Value = serde_json::from_str(data_of(&objects, "all").unwrap()).unwrap();
    let known = world.seed().await;
    let identity = known["status"]["clusterIdentity"].clone();
    assert!(
        identity.as_str().is_some_and(|identity| identity.starts_with("south-")),
        "{identity}"
    );
    // What stands in the Seed stands in the values, whatever defaults the garden has put there.
    assert_eq!(all["gardener"]["seed"]["spec"].take(), known["spec"]);
    assert_eq!(known["spec"]["settings"]["topologyAwareRouting"]["enabled"], true);
    all["gardener"]["seed"].as_object_mut().unwrap().remove("spec");
    let wanted = json!({
        "mine": 1,
        "gardener": {
            "kept": true,
            "version": env!("CARGO_PKG_VERSION"),
            "garden": {"clusterIdentity": "garden"},
            "gardenlet": {"featureGates": {}},
            "seed": {
                "name": "south",
                "clusterIdentity": identity,
                "annotations": {"note": "n"},
                "labels": known["metadata"]["labels"],
                "provider": "moon",
                "region": "far",
                "volumeProvider": "flexible",
                "volumeProviders": seed()["spec"]["volume"]["providers"],
                "ingressDomain": "ingress.example",
                "protected": true,
                "visible": false,
                "taints": seed()["spec"]["taints"],
                "networks": seed()["spec"]["networks"],
                "blockCIDRs": ["169.254.169.254/32"],
            },
        },
    });
    assert_eq!(all, wanted);
    assert_eq!(data_of(&objects, "apis"), Some("true"));
    assert_eq!(data_of(&objects, "version"), Some("v1.35.0"));
    let namespace = world.namespaces().get(NAMESPACE).await.unwrap();
    let zones = &namespace.metadata.annotations.unwrap()["high-availability-config.resources.gardener.cloud/zones"];
    assert_eq!(zones, "a,b");
}

#[tokio::test(start_paused = true)]
async fn resources_of_the_garden_are_resolved_followed_and_never_repeated() {
    let world = Installing::start().await;
    let secret = |text: &str| {
        json!({"apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "login", "namespace": "garden", "labels": {"gardener.cloud/role": "resource-reference"}},
            "stringData": {"password": text}})
    };
    let print = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: made}\ndata: {password: {{ .Values.login.password | quote }}}\n";
    world
        .install(json!({
            "helm": {"rawChart": chart(&[("templates/a.yaml", print)]),
                "values": {"login": {"password": "{{ .resources.one.data.password }}"}}},
            "resources": [{"name": "one", "resourceRef": {"apiVersion": "v1", "kind": "Secret", "name": "login"}}],
        }))
        .await;
    let failed = world.condition("Valid", reason::RENDERING_HELM_VALUES_FAILED).await;
    assert!(
        failed
            .message
            .contains("Secret login, which is not in namespace garden"),
        "{}",
        failed.message
    );
    world.world().create(secret("sesame")).await;
    let has = |text: &'static str| move |objects: &[Value]| data_of(objects, "password") == Some(text);
    world.objects("with the password", has("sesame")).await;
    world.condition("Valid", reason::REGISTRATION_VALID).await;
    let secrets: Api<Secret> = Api::namespaced(world.world().garden.admin(), "garden");
    let newer = Patch::Merge(json!({"stringData": {"password": "changed"}}));
    secrets.patch("login", &PatchParams::default(), &newer).await.unwrap();
    world.objects("with the new one", has("changed")).await;

    let telling = "{{ fail (printf \"wrong: %s\" .Values.login.password) }}";
    world
        .change_deployment(json!({"helm": {"rawChart": chart(&[("templates/a.yaml", telling)])}}))
        .await;
    let failed = world.condition("Valid", reason::CHART_CANNOT_BE_RENDERED).await;
    assert!(failed.message.contains("wrong: [hidden]"), "{}", failed.message);
    let other = json!({"helm": {"values": {"login": {"password": "{{ .resources.one.data.user }}"}}}});
    world.change_deployment(other).await;
    let failed = world.condition("Valid", reason::RENDERING_HELM_VALUES_FAILED).await;
    assert!(
        failed.message.contains("map has no entry for key \"user\""),
        "{}",
        failed.message
    );
}

/// Two Deployments, the second of which opts out, and a ConfigMap with the kubeconfig's name.
fn chart_with_pods() -> String {
    let run = |name: &str, labels: &str| {
        format!(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: {name}\n  namespace: {{{{ .Release.Namespace }}}}\n  \
             labels: {labels}\nspec:\n  template:\n    metadata: {{labels: {{a: b}}}}\n    spec:\n      containers: [{{name: c}}]\n"
        )
    };
    let files = [
        ("templates/a.yaml", run("a", "{x: y}")),
        ("templates/b.yaml", run("b", "{extensions.gardener.cloud/inject-garden-kubeconfig: \"false\"}")),
        ("templates/c.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: made}\ndata: {name: {{ .Values.gardener.garden.genericKubeconfigSecretName }}}\n".to_owned()),
    ];
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (*name, text.as_str())).collect();
    chart(&files)
}

#[tokio::test(start_paused = true)]
async fn pods_get_a_kubeconfig_of_the_garden_unless_opted_out() {
    let world = Installing::start_with_garden_access().await;
    world
        .install(json!({"helm": {"rawChart": chart_with_pods()}, "injectGardenKubeconfig": true}))
        .await;
    let objects = world.objects("made", |objects| objects.len() == 3).await;
    let kubeconfig = data_of(&objects, "name").unwrap();
    let secrets: Api<Secret> = Api::namespaced(world.world().seed.admin(), NAMESPACE);
    let written = secrets.get(kubeconfig).await.unwrap();
    let text = String::from_utf8(written.data.unwrap()["kubeconfig"].0.clone()).unwrap();
    for part in [
        "https://garden.example:443",
        "tls-server-name: garden",
        "/var/run/secrets/gardener.cloud/garden/generic-kubeconfig/token",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let token = secrets.get("garden-access-extension").await.unwrap().metadata;
    let (labels, annotations) = (token.labels.unwrap(), token.annotations.unwrap());
    assert_eq!(labels["resources.gardener.cloud/purpose"], "token-requestor");
    assert_eq!(labels["resources.gardener.cloud/class"], "garden");
    assert_eq!(
        annotations["serviceaccount.resources.gardener.cloud/name"],
        format!("extension-{NAME}")
    );
    assert_eq!(
        annotations["serviceaccount.resources.gardener.cloud/namespace"],
        "seed-south"
    );

    let deployment = |name: &str| {
        objects
            .iter()
            .find(|object| object["metadata"]["name"] == name)
            .unwrap()
    };
    let pods = &deployment("a")["spec"]["template"];
    let sources = &pods["spec"]["volumes"][0]["projected"]["sources"];
    assert_eq!(sources[0]["secret"]["name"], kubeconfig);
    assert_eq!(sources[1]["secret"]["name"], "garden-access-extension");
    let path = "/var/run/secrets/gardener.cloud/garden/generic-kubeconfig";
    assert_eq!(pods["spec"]["containers"][0]["volumeMounts"][0]["mountPath"], path);
    let env = &pods["spec"]["containers"][0]["env"];
    assert_eq!(
        env[0],
        json!({"name": "GARDEN_KUBECONFIG", "value": format!("{path}/kubeconfig")})
    );
    assert_eq!(pods["metadata"]["annotations"].as_object().unwrap().len(), 2);
    let pods = &deployment("b")["spec"]["template"]["spec"];
    assert_eq!(pods["volumes"], Value::Null);
    assert_eq!(
        pods["containers"][0]["env"],
        json!([{"name": "SEED_NAME", "value": "south"}])
    );

    world.change_deployment(json!({"injectGardenKubeconfig": null, "helm": {"values": {"gardener": {"garden": {"genericKubeconfigSecretName": "none"}}}}})).await;
    world
        .objects("without", |objects| data_of(objects, "name") == Some("none"))
        .await;
    until(&world.installations(), NAME, "valid", |_| true).await;
    assert!(secrets.get_opt("garden-access-extension").await.unwrap().is_none());
}
