//! Policies, seed selectors, primary and secondary controllers, and taints.

use serde_json::json;
use tests_scenarios::moon::Moon;
use tests_scenarios::transcript::{Cluster, Transcript};
use tests_scenarios::{NAMESPACE, SURROUNDINGS, World, wait};

use super::{changed_shoot, settled, show_settings_chart, world_with};
use crate::several_seeds::until_installed_on;

const DEPLOYMENT: &str = "\
apiVersion: core.gardener.cloud/v1
kind: ControllerDeployment
metadata:
  name: example
helm:
  rawChart: H4sIFAAAAAAA/yk... # <base64-gzip-chart>
";

/// A registration of an Extension whose type is its name.
fn registration(name: &str, deployment: &str, primary: bool) -> String {
    format!(
        "\
apiVersion: core.gardener.cloud/v1beta1
kind: ControllerRegistration
metadata:
  name: {name}
spec:
  deployment:
{deployment}    deploymentRefs:
    - name: example
  resources:
  - kind: Extension
    type: {name}
    primary: {primary}
"
    )
}

#[tokio::test(start_paused = true)]
async fn policies_install_an_extension_always_with_shoots_and_on_demand() {
    let (world, clock) = world_with(2).await;
    let about = "Two seeds, and three extensions with a policy each: `sun` is installed always, `moon` where Shoots are, `star` \
                 where something needs it.";
    let mut page = Transcript::new("policies", "Policies", about, &world.clients());
    let garden = Cluster::new("garden", &world.garden);
    let second = Cluster::new(
        "kubectl --kubeconfig .orangery/seed-local-2.kubeconfig",
        &world.seeds[1],
    );
    world.apply(&SURROUNDINGS).await;
    let _star = Moon::run_beside(&world.seeds[1], &clock, &["star"], None);
    show_settings_chart(&mut page);

    page.step("The registrations", "");
    let all = [
        DEPLOYMENT.to_owned(),
        registration("sun", "    policy: Always\n", true),
        registration("moon", "    policy: AlwaysExceptNoShoots\n", true),
        registration("star", "    policy: OnDemand # the default\n", true),
    ];
    page.apply(&garden, "policies.yaml", &all.join("---\n")).await;
    until_installed_on(&world, "sun", &["local", "local-2"]).await;
    settled().await;
    until_installed_on(&world, "moon", &[]).await;
    until_installed_on(&world, "star", &[]).await;
    page.get(&garden, "", "controllerinstallations", "").await;

    two_shoots(&mut page, &world, &garden).await;
    until_installed_on(&world, "moon", &["local", "local-2"]).await;
    until_installed_on(&world, "star", &["local-2"]).await;
    page.get(&garden, "", "controllerinstallations", "").await;
    let required = [("Required", "ExtensionObjectsExist")];
    let star = world.installation_until("star", "local-2", &required).await;
    page.conditions(&garden, &star).await;
    page.get_everywhere(&second, "extensions").await;

    page.step(
        "Nothing needs `star` any more",
        "It goes with the Shoot, and so does `moon` from a seed without Shoots.",
    );
    page.delete_shoot(&garden, NAMESPACE, "pear").await;
    wait(&world.shoots(NAMESPACE), "pear", |shoot| shoot.is_none().then_some(())).await;
    until_installed_on(&world, "moon", &["local"]).await;
    world.not_installed("star", "local-2").await;
    page.get(&garden, "", "controllerinstallations", "").await;

    page.step("No Shoots", "");
    page.delete_shoot(&garden, NAMESPACE, "apple").await;
    world.not_installed("moon", "local").await;
    world.not_installed("moon", "local-2").await;
    page.get(&garden, "", "controllerinstallations", "").await;
    page.finish();
}

/// A Shoot on each seed, the second of which needs `star`.
async fn two_shoots(page: &mut Transcript, world: &World, garden: &Cluster) {
    page.step(
        "A Shoot on each seed",
        "The second one needs `star`, whose program the test runs.",
    );
    for (name, seed, extra) in [
        ("apple", "local", ""),
        ("pear", "local-2", "  extensions:\\n  - type: star\\n"),
    ] {
        let named = format!("s/^  name: local$/  name: {name}/");
        let placed = format!("s/^spec:$/spec:\\n{extra}  seedName: {seed}/");
        let spec = format!("\nspec:\n{}  seedName: {seed}\n", extra.replace("\\n", "\n"));
        let (sed, shoot) = changed_shoot(&[
            (&named, "\n  name: local\n", &format!("\n  name: {name}\n")),
            (&placed, "\nspec:\n", &spec),
        ]);
        page.apply_changed(garden, &sed, "examples/40-shoot.yaml", &shoot).await;
        world.succeeded(NAMESPACE, name).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_seed_selector_follows_the_labels_of_the_seeds() {
    let (world, _) = world_with(3).await;
    let about = "Three seeds. A secondary extension is installed on those with a label, whatever their taints.";
    let mut page = Transcript::new("seed-selectors", "Seed selectors and taints", about, &world.clients());
    let garden = Cluster::new("garden", &world.garden);
    show_settings_chart(&mut page);

    page.step(
        "A selector of a primary controller",
        "The garden refuses it: a primary controller is primary on every seed.",
    );
    page.apply(&garden, "deployment.yaml", DEPLOYMENT).await;
    let selector = "    policy: Always\n    seedSelector:\n      matchLabels:\n        env: prod\n";
    page.apply(&garden, "primary.yaml", &registration("watcher", selector, true))
        .await;

    page.step("A selector of a secondary controller", "No seed has the label yet.");
    page.apply(&garden, "secondary.yaml", &registration("watcher", selector, false))
        .await;
    settled().await;
    page.get(&garden, "", "controllerinstallations", "").await;

    page.step("Seeds get the label", "");
    page.label(&garden, "seeds", "local-2", "env", Some("prod")).await;
    page.label(&garden, "seeds", "local-3", "env", Some("prod")).await;
    until_installed_on(&world, "watcher", &["local-2", "local-3"]).await;
    page.get(&garden, "", "controllerinstallations", "").await;

    page.step(
        "A seed with a taint",
        "A taint keeps Shoots from the seed, not extensions.",
    );
    let taints = json!({"spec": {"taints": [{"key": "seed.gardener.cloud/protected"}]}});
    page.patch(&garden, ("", "seeds", "local-3"), &taints).await;
    settled().await;
    until_installed_on(&world, "watcher", &["local-2", "local-3"]).await;
    page.get(&garden, "", "controllerinstallations", "").await;

    page.step("A seed loses the label", "");
    page.label(&garden, "seeds", "local-2", "env", None).await;
    world.not_installed("watcher", "local-2").await;
    page.get(&garden, "", "controllerinstallations", "").await;
    page.finish();
}

#[tokio::test(start_paused = true)]
async fn primary_and_secondary_controllers_of_a_type_come_and_go_together() {
    let (world, clock) = world_with(1).await;
    let about = "Two extensions for one type: one acts on its objects, the other watches them.";
    let mut page = Transcript::new(
        "primary-and-secondary",
        "Primary and secondary",
        about,
        &world.clients(),
    );
    let garden = Cluster::new("garden", &world.garden);
    world.apply(&SURROUNDINGS).await;
    let _fruit = Moon::run_beside(&world.seed, &clock, &["fruit"], None);
    show_settings_chart(&mut page);
    let of_fruit =
        |name: &str, primary: bool| registration(name, "", primary).replace(&format!("type: {name}"), "type: fruit");

    page.step("The registrations", "");
    let both = [
        DEPLOYMENT.to_owned(),
        of_fruit("fruit-actor", true),
        of_fruit("fruit-watcher", false),
    ];
    page.apply(&garden, "both.yaml", &both.join("---\n")).await;
    settled().await;
    page.get(&garden, "", "controllerinstallations", "").await;

    page.step("A second primary", "");
    page.apply(&garden, "second.yaml", &of_fruit("fruit-rival", true)).await;

    page.step("A Shoot that needs the type", "Its program is run by the test.");
    let extensions = (
        "s/^spec:$/spec:\\n  extensions:\\n  - type: fruit/",
        "\nspec:\n",
        "\nspec:\n  extensions:\n  - type: fruit\n",
    );
    let (sed, shoot) = changed_shoot(&[extensions]);
    page.apply_changed(&garden, &sed, "examples/40-shoot.yaml", &shoot)
        .await;
    world.succeeded(NAMESPACE, "local").await;
    until_installed_on(&world, "fruit-actor", &["local"]).await;
    until_installed_on(&world, "fruit-watcher", &["local"]).await;
    page.get(&garden, "", "controllerinstallations", "").await;

    page.step("The Shoot no longer needs it", "");
    page.patch(
        &garden,
        (NAMESPACE, "shoots", "local"),
        &json!({"spec": {"extensions": null}}),
    )
    .await;
    world.succeeded(NAMESPACE, "local").await;
    world.not_installed("fruit-actor", "local").await;
    world.not_installed("fruit-watcher", "local").await;
    page.get(&garden, "", "controllerinstallations", "").await;
    page.finish();
}
