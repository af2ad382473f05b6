//! Extensions that are enabled without anyone naming them, and those who opt out.

use serde_json::{Value, json};
use tests_scenarios::moon::Moon;
use tests_scenarios::transcript::{Cluster, Transcript};
use tests_scenarios::{NAMESPACE, SURROUNDINGS};

use super::{changed_shoot, settled, show_settings_chart, until_listed, world_with};
use crate::several_seeds::until_installed_on;

const EXTENSIONS: &str = "/apis/extensions.gardener.cloud/v1alpha1/extensions";

/// The guide's example of an Extension, with a chart to install.
const FOO: &str = "\
apiVersion: core.gardener.cloud/v1
kind: ControllerDeployment
metadata:
  name: extension-foo
helm:
  rawChart: H4sIFAAAAAAA/yk... # <base64-gzip-chart>
---
apiVersion: core.gardener.cloud/v1beta1
kind: ControllerRegistration
metadata:
  name: extension-foo
spec:
  deployment:
    deploymentRefs:
    - name: extension-foo
  resources:
  - kind: Extension
    type: foo
    primary: true
    globallyEnabled: true
    reconcileTimeout: 30s
    lifecycle:
      reconcile: AfterKubeAPIServer
      delete: BeforeKubeAPIServer
      migrate: BeforeKubeAPIServer
";

#[tokio::test(start_paused = true)]
async fn an_extension_of_all_shoots_is_left_out_where_they_opt_out() {
    let (world, clock) = world_with(1).await;
    let about = "The guide's example of an Extension, `globallyEnabled`, with a chart to install: every Shoot gets it unless it \
                 opts out.";
    let mut page = Transcript::new("enabled-for-shoots", "Enabled for all Shoots", about, &world.clients());
    let (garden, seed) = (Cluster::new("garden", &world.garden), Cluster::new("seed", &world.seed));
    world.apply(&SURROUNDINGS).await;
    let _foo = Moon::run_beside(&world.seed, &clock, &["foo"], None);
    show_settings_chart(&mut page);

    page.step(
        "The registration",
        "The old spelling `globallyEnabled` becomes `autoEnable`. Without Shoots nothing needs it.",
    );
    page.apply(&garden, "extension-foo.yaml", FOO).await;
    let place = ("", "controllerregistrations", "extension-foo");
    page.value(&garden, place, ".spec.resources[0].autoEnable").await;
    settled().await;
    page.get(&garden, "", "controllerinstallations", "").await;

    page.step(
        "Two Shoots, one of which opts out",
        "The second one is written in the old spelling. The test runs the extension's program.",
    );
    let (sed, apple) = changed_shoot(&[(
        "s/^  name: local$/  name: apple/",
        "\n  name: local\n",
        "\n  name: apple\n",
    )]);
    page.apply_changed(&garden, &sed, "examples/40-shoot.yaml", &apple)
        .await;
    let off = "\nspec:\n  extensions:\n  - type: foo\n    enabled: false\n";
    let (sed, pear) = changed_shoot(&[
        (
            "s/^  name: local$/  name: pear/",
            "\n  name: local\n",
            "\n  name: pear\n",
        ),
        (
            "s/^spec:$/spec:\\n  extensions:\\n  - type: foo\\n    enabled: false/",
            "\nspec:\n",
            off,
        ),
    ]);
    page.apply_changed(&garden, &sed, "examples/40-shoot.yaml", &pear).await;
    world.succeeded(NAMESPACE, "apple").await;
    world.succeeded(NAMESPACE, "pear").await;
    page.value(&garden, (NAMESPACE, "shoots", "pear"), ".spec.extensions")
        .await;
    page.get(&garden, "", "controllerinstallations", "").await;
    page.get_everywhere(&seed, "extensions").await;

    page.step("The first one opts out as well", "");
    let off = json!({"spec": {"extensions": [{"type": "foo", "disabled": true}]}});
    page.patch(&garden, (NAMESPACE, "shoots", "apple"), &off).await;
    world.succeeded(NAMESPACE, "apple").await;
    world.not_installed("extension-foo", "local").await;
    page.get_everywhere(&seed, "extensions").await;
    page.get(&garden, "", "controllerinstallations", "").await;
    page.finish();
}

const TIDE: &str = "\
apiVersion: core.gardener.cloud/v1
kind: ControllerDeployment
metadata:
  name: tide
helm:
  rawChart: H4sIFAAAAAAA/yk... # <base64-gzip-chart>
---
apiVersion: core.gardener.cloud/v1beta1
kind: ControllerRegistration
metadata:
  name: tide
spec:
  deployment:
    deploymentRefs:
    - name: tide
  resources:
  - kind: Extension
    type: tide
    autoEnable:
    - seed
    clusterCompatibility:
    - seed
";

#[tokio::test(start_paused = true)]
async fn an_extension_of_all_seeds_is_left_out_where_they_opt_out() {
    let (world, clock) = world_with(2).await;
    let about = "An extension of the seeds themselves: every seed gets an Extension object of its own in namespace `garden`, \
                 unless it opts out.";
    let mut page = Transcript::new("enabled-for-seeds", "Enabled for all seeds", about, &world.clients());
    let garden = Cluster::new("garden", &world.garden);
    let first = Cluster::new("seed", &world.seeds[0]);
    let second = Cluster::new(
        "kubectl --kubeconfig .orangery/seed-local-2.kubeconfig",
        &world.seeds[1],
    );
    let _tides = [0, 1].map(|place: usize| Moon::run_beside(&world.seeds[place], &clock, &["tide"], None));
    show_settings_chart(&mut page);
    let succeeded = |items: &[Value]| {
        let state = |one: &Value| one["status"]["lastOperation"]["state"] == "Succeeded";
        items.len() == 1 && items.iter().all(state)
    };

    page.step(
        "The registration",
        "The test runs the extension's program on both seeds.",
    );
    page.apply(&garden, "tide.yaml", TIDE).await;
    until_installed_on(&world, "tide", &["local", "local-2"]).await;
    for seed in &world.seeds {
        until_listed(seed, EXTENSIONS, succeeded).await;
    }
    page.get(&garden, "", "controllerinstallations", "").await;
    page.get_everywhere(&first, "extensions").await;
    page.get_everywhere(&second, "extensions").await;
    let required = [("Required", "ExtensionObjectsExist")];
    let name = world.installation_until("tide", "local", &required).await;
    page.conditions(&garden, &name).await;

    page.step("A seed opts out", "");
    let off = json!({"spec": {"extensions": [{"type": "tide", "disabled": true}]}});
    page.patch(&garden, ("", "seeds", "local-2"), &off).await;
    world.not_installed("tide", "local-2").await;
    page.get(&garden, "", "controllerinstallations", "").await;
    page.get_everywhere(&second, "extensions").await;

    page.step("Without the registration", "");
    page.delete(&garden, ("", "controllerregistrations", "tide")).await;
    world.not_installed("tide", "local").await;
    until_listed(&world.seed, EXTENSIONS, <[Value]>::is_empty).await;
    page.get(&garden, "", "controllerinstallations", "").await;
    page.get_everywhere(&first, "extensions").await;
    page.finish();
}
