//! What a chart is given: every value of Gardener's guide, from a Seed in which each source field is set, as the chart
//! prints it into the seed.

use api_core::v1beta1::Seed;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use serde_json::{Value, json};
use tests_scenarios::transcript::{Cluster, Transcript};
use tests_scenarios::wait;

use super::{stand_for_chart, world_with};

const PRINT: &str = "\
apiVersion: v1
kind: ConfigMap
metadata:
  name: values
  namespace: {{ .Release.Namespace }}
data:
  values: |
{{ .Values | toYaml | indent 4 }}
";
/// Every field of a Seed that becomes a value of its own.
const SEED: &str = "\
apiVersion: core.gardener.cloud/v1beta1
kind: Seed
metadata:
  name: local
  annotations:
    note: far away
  labels:
    zone: far
spec:
  volume:
    providers:
    - purpose: etcd-main
      name: flexible
    - purpose: other
      name: second
  ingress:
    domain: ingress.example.org
    controller:
      kind: nginx
  taints:
  - key: seed.gardener.cloud/protected
  settings:
    scheduling:
      visible: false
    topologyAwareRouting:
      enabled: true
  networks:
    blockCIDRs:
    - 169.254.169.254/32
";
const REGISTRATION: &str = "\
apiVersion: core.gardener.cloud/v1
kind: ControllerDeployment
metadata:
  name: printer
injectGardenKubeconfig: true
helm:
  rawChart: H4sIFAAAAAAA/yk... # <base64-gzip-chart>
  values:
    mine: true
    gardener:
      version: forged
---
apiVersion: core.gardener.cloud/v1beta1
kind: ControllerRegistration
metadata:
  name: printer
spec:
  deployment:
    policy: Always
    deploymentRefs:
    - name: printer
  resources:
  - kind: Extension
    type: printer
";

#[tokio::test(start_paused = true)]
async fn a_chart_prints_every_value_of_the_guide_into_the_seed() {
    let (world, _) = world_with(1).await;
    let about =
        "A chart that prints its values into a ConfigMap, on a seed in which every field is set that becomes a value.";
    let mut page = Transcript::new("values", "Values of a chart", about, &world.clients());
    let (garden, seed) = (Cluster::new("garden", &world.garden), Cluster::new("seed", &world.seed));
    stand_for_chart(&mut page, &[("templates/values.yaml", PRINT)]);
    let version = env!("CARGO_PKG_VERSION");
    page.stand_in("version: <version of Orangery>", &format!("version: {version}"));

    page.step("The Seed", "");
    page.apply(&garden, "seed.yaml", SEED).await;
    page.step(
        "The chart",
        "Values below `gardener` are gardenlet's: one in the ControllerDeployment is replaced.",
    );
    page.file("templates/values.yaml", "yaml", PRINT);
    page.apply(&garden, "printer.yaml", REGISTRATION).await;
    let done = [
        ("Installed", "InstallationSuccessful"),
        ("Healthy", "ControllerHealthy"),
    ];
    let installation = world.installation_until("printer", "local", &done).await;
    let namespace = format!("extension-{installation}");
    let maps: Api<ConfigMap> = Api::namespaced(world.seed.clone(), &namespace);
    let printed = wait(&maps, "values", |map| Some(map?.data.as_ref()?["values"].clone())).await;
    let known = Api::<Seed>::all(world.garden.clone()).get("local").await.unwrap();
    let known = serde_json::to_value(known).unwrap();
    let identity = known["status"]["clusterIdentity"].as_str().unwrap();
    page.stand_in("<identity of the seed's cluster>", identity);
    page.value(&seed, (&namespace, "configmaps", "values"), ".data.values")
        .await;
    compare(&printed, &known);
    page.finish();
}

/// Compares what the chart printed with what is known of the Seed.
fn compare(printed: &str, known: &Value) {
    let mut printed: Value = landscape_local::documents(printed).unwrap().remove(0);
    let gardener = &mut printed["gardener"];
    // What stands in the Seed stands in the values, whatever defaults the garden has put there.
    assert_eq!(gardener["seed"]["spec"].take(), known["spec"]);
    assert_eq!(known["spec"]["settings"]["topologyAwareRouting"]["enabled"], true);
    gardener["seed"].as_object_mut().unwrap().remove("spec");
    let kubeconfig = gardener["garden"]["genericKubeconfigSecretName"].take();
    assert!(
        kubeconfig
            .as_str()
            .is_some_and(|name| name.starts_with("generic-garden-kubeconfig-")),
        "{kubeconfig}"
    );
    let spec = &known["spec"];
    let wanted = json!({
        "mine": true,
        "gardener": {
            "version": env!("CARGO_PKG_VERSION"),
            "garden": {"clusterIdentity": gardener["garden"]["clusterIdentity"], "genericKubeconfigSecretName": null},
            "gardenlet": {"featureGates": {}},
            "seed": {
                "name": "local",
                "clusterIdentity": known["status"]["clusterIdentity"],
                "annotations": {"note": "far away"},
                "labels": known["metadata"]["labels"],
                "provider": "local",
                "region": "local",
                "volumeProvider": "flexible",
                "volumeProviders": spec["volume"]["providers"],
                "ingressDomain": "ingress.example.org",
                "protected": true,
                "visible": false,
                "taints": [{"key": "seed.gardener.cloud/protected"}],
                "networks": spec["networks"],
                "blockCIDRs": ["169.254.169.254/32"],
            },
        },
    });
    assert_eq!(known["metadata"]["labels"]["zone"], "far");
    assert_eq!(printed, wanted);
}
