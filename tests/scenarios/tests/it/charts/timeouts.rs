//! How long a Shoot waits for an Extension: as long as its registration says.

use std::time::Duration;

use api_extensions::Extension;
use api_meta::LastOperationState;
use kube::Api;
use tests_scenarios::moon::Moon;
use tests_scenarios::transcript::{Cluster, Transcript};
use tests_scenarios::{NAME, NAMESPACE, SURROUNDINGS, TECHNICAL_ID, World, wait};
use tokio::time::Instant;

use super::{changed_shoot, show_settings_chart, world_with};

const SLOW: &str = "\
apiVersion: core.gardener.cloud/v1
kind: ControllerDeployment
metadata:
  name: slow
helm:
  rawChart: H4sIFAAAAAAA/yk... # <base64-gzip-chart>
---
apiVersion: core.gardener.cloud/v1beta1
kind: ControllerRegistration
metadata:
  name: slow
spec:
  deployment:
    deploymentRefs:
    - name: slow
  resources:
  - kind: Extension
    type: slow
    reconcileTimeout: 30s
";

#[tokio::test(start_paused = true)]
async fn a_shoot_waits_for_an_extension_as_long_as_its_registration_allows() {
    let (world, clock) = world_with(1).await;
    let about = "An extension whose program, which the test runs, needs 200 s for a Shoot.";
    let mut page = Transcript::new("reconcile-timeout", "reconcileTimeout", about, &world.clients());
    let garden = Cluster::new("garden", &world.garden);
    world.apply(&SURROUNDINGS).await;
    let _slow = Moon::run_beside(&world.seed, &clock, &["slow"], Some(Duration::from_secs(200)));
    show_settings_chart(&mut page);

    page.step(
        "30 s",
        "After 30 s the Shoot reports that the extension has not finished.",
    );
    page.apply(&garden, "slow.yaml", SLOW).await;
    let slow = (
        "s/^spec:$/spec:\\n  extensions:\\n  - type: slow/",
        "\nspec:\n",
        "\nspec:\n  extensions:\n  - type: slow\n",
    );
    let (sed, shoot) = changed_shoot(&[slow]);
    page.apply_changed(&garden, &sed, "examples/40-shoot.yaml", &shoot)
        .await;
    let extensions: Api<Extension> = Api::namespaced(world.seed.clone(), TECHNICAL_ID);
    wait(&extensions, "slow", |extension| extension.map(drop)).await;
    let requested = Instant::now();
    let error = wait(&world.shoots(NAMESPACE), NAME, |shoot| {
        let errors = &shoot?.status.as_ref()?.last_errors;
        let mut errors = errors.iter().map(|error| error.description.clone());
        errors.find(|error| error.contains("(waited 30s)"))
    })
    .await;
    assert!(error.contains("Extension shoot--local--local/slow"), "{error}");
    let elapsed = requested.elapsed().as_secs();
    assert!((29..33).contains(&elapsed), "{elapsed} s");
    page.value(
        &garden,
        (NAMESPACE, "shoots", NAME),
        ".status.lastErrors[0].description",
    )
    .await;

    in_five_minutes(&mut page, &world, &garden, slow).await;
    page.finish();
}

/// With a longer time the next Shoot succeeds at its first attempt.
async fn in_five_minutes(page: &mut Transcript, world: &World, garden: &Cluster, slow: (&str, &str, &str)) {
    page.step("5 minutes", "The next Shoot waits for as long as it takes.");
    let longer = SLOW.replace("reconcileTimeout: 30s", "reconcileTimeout: 5m");
    page.apply_changed(garden, "s/30s/5m/", "slow.yaml", &longer).await;
    let (sed, pear) = changed_shoot(&[
        (
            "s/^  name: local$/  name: pear/",
            "\n  name: local\n",
            "\n  name: pear\n",
        ),
        slow,
    ]);
    page.apply_changed(garden, &sed, "examples/40-shoot.yaml", &pear).await;
    let extensions: Api<Extension> = Api::namespaced(world.seed.clone(), "shoot--local--pear");
    wait(&extensions, "slow", |extension| extension.map(drop)).await;
    let requested = Instant::now();
    wait(&world.shoots(NAMESPACE), "pear", |shoot| {
        let status = shoot?.status.as_ref()?;
        assert!(status.last_errors.is_empty(), "{:?}", status.last_errors);
        let last = status.last_operation.as_ref()?;
        (last.state == LastOperationState::Succeeded).then_some(())
    })
    .await;
    let elapsed = requested.elapsed().as_secs();
    assert!((200..240).contains(&elapsed), "{elapsed} s");
    page.value(
        garden,
        (NAMESPACE, "shoots", "pear"),
        ".status.lastOperation.description",
    )
    .await;
}
