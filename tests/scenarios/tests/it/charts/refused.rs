//! Registrations that cannot be installed, and what their installations report.

use tests_scenarios::transcript::{Cluster, Transcript};
use tests_scenarios::{NAME, NAMESPACE, SHOOT, SURROUNDINGS, World, wait};

use super::{show_settings_chart, world_with};
use crate::several_seeds::until_installed_on;

const MISSING: &str = "\
apiVersion: core.gardener.cloud/v1beta1
kind: ControllerRegistration
metadata:
  name: lost
spec:
  deployment:
    policy: Always
    deploymentRefs:
    - name: lost
  resources:
  - kind: Extension
    type: lost
";
const FOUND: &str = "\
apiVersion: core.gardener.cloud/v1
kind: ControllerDeployment
metadata:
  name: lost
helm:
  rawChart: H4sIFAAAAAAA/yk... # <base64-gzip-chart>
";
const UNSERVED: &str = "\
apiVersion: core.gardener.cloud/v1beta1
kind: ControllerDeployment
metadata:
  name: manual
type: by-hand
---
apiVersion: core.gardener.cloud/v1beta1
kind: ControllerRegistration
metadata:
  name: manual
spec:
  deployment:
    policy: Always
    deploymentRefs:
    - name: manual
  resources:
  - kind: Extension
    type: manual
";
/// The guide's example of an Extension, as it is printed there: it names no ControllerDeployment.
const EMPTY: &str = "\
apiVersion: core.gardener.cloud/v1beta1
kind: ControllerRegistration
metadata:
  name: extension-foo
spec:
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
/// A ControllerDeployment without anything to deploy.
const NOTHING: &str = "\
apiVersion: core.gardener.cloud/v1
kind: ControllerDeployment
metadata:
  name: nothing
";

#[tokio::test(start_paused = true)]
async fn a_registration_that_cannot_be_installed_reports_why() {
    let (world, _) = world_with(1).await;
    let about =
        "Registrations that cannot be installed: the installation of each reports what is missing and what to do.";
    let mut page = Transcript::new(
        "not-installable",
        "Registrations that cannot be installed",
        about,
        &world.clients(),
    );
    let garden = Cluster::new("garden", &world.garden);
    world.apply(&SURROUNDINGS).await;
    show_settings_chart(&mut page);

    page.step(
        "The ControllerDeployment is missing",
        "The garden refuses the registration.",
    );
    page.apply(&garden, "lost.yaml", MISSING).await;
    page.note("Once the ControllerDeployment exists, the extension is installed:");
    page.apply(&garden, "found.yaml", FOUND).await;
    page.apply_again(&garden, "lost.yaml", MISSING).await;
    until_installed_on(&world, "lost", &["local"]).await;
    page.get(&garden, "", "controllerinstallations", "").await;

    page.step(
        "No operator serves its type",
        "An operator of the type has a minute to report something.",
    );
    page.apply(&garden, "manual.yaml", UNSERVED).await;
    let manual = world
        .installation_until("manual", "local", &[("Valid", "NoOperator")])
        .await;
    page.get(&garden, "", "controllerinstallations", "").await;
    page.conditions(&garden, &manual).await;
    page.events(&garden, &manual).await;

    without_deployment(&mut page, &world, &garden).await;

    page.step("The ControllerDeployment is empty", "The garden refuses it.");
    page.apply(&garden, "nothing.yaml", NOTHING).await;
    page.finish();
}

/// A registration that names no ControllerDeployment.
async fn without_deployment(page: &mut Transcript, world: &World, garden: &Cluster) {
    page.step(
        "It names no ControllerDeployment",
        "The guide's example of an Extension, as it is printed there. A Shoot makes it needed.",
    );
    page.apply(garden, "extension-foo.yaml", EMPTY).await;
    world.apply(&[SHOOT]).await;
    page.line(
        "garden apply --server-side -f examples/40-shoot.yaml",
        "shoot.core.gardener.cloud/local serverside-applied\n",
    );
    let installation = world
        .installation_until("extension-foo", "local", &[("Valid", "NoDeployment")])
        .await;
    wait(&world.shoots(NAMESPACE), NAME, |shoot| {
        let errors = &shoot?.status.as_ref()?.last_errors;
        errors
            .first()?
            .description
            .contains("Extension/foo (installation not valid")
            .then_some(())
    })
    .await;
    page.get(garden, "", "controllerinstallations", "").await;
    page.conditions(garden, &installation).await;
    page.events(garden, &installation).await;
    page.value(garden, (NAMESPACE, "shoots", NAME), ".status.lastErrors[0].description")
        .await;
}
