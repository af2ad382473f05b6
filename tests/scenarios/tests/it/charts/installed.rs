//! The examples of Gardener's guide "Registering Extension Controllers", in both spellings of the ControllerDeployment:
//! installed, values changed, chart changed, removed without a trace.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use tests_scenarios::installations::chart;
use tests_scenarios::transcript::{Cluster, Transcript};
use tests_scenarios::{NAME, NAMESPACE, SHOOT, SURROUNDINGS, World, wait};

/// The seed of the guide's ControllerInstallation.
const SEED: &str = "aws-eu1";
const EXTENSION: &str = "os-gardenlinux";

/// As the guide prints it; what it elides of the chart is put in.
const V1BETA1: &str = "\
apiVersion: core.gardener.cloud/v1beta1
kind: ControllerDeployment
metadata:
  name: os-gardenlinux
type: helm
providerConfig:
  chart: H4sIFAAAAAAA/yk... # <base64-gzip-chart>
  values:
    foo: bar
---
apiVersion: core.gardener.cloud/v1beta1
kind: ControllerRegistration
metadata:
  name: os-gardenlinux
spec:
  deployment:
    deploymentRefs:
    - name: os-gardenlinux
  resources:
  - kind: OperatingSystemConfig
    type: gardenlinux
    primary: true
";
/// The same, with the ControllerDeployment in the newer version.
const V1: &str = "\
apiVersion: core.gardener.cloud/v1
kind: ControllerDeployment
metadata:
  name: os-gardenlinux
helm:
  rawChart: H4sIFAAAAAAA/yk... # <base64-gzip-chart>
  values:
    foo: bar
---
apiVersion: core.gardener.cloud/v1beta1
kind: ControllerRegistration
metadata:
  name: os-gardenlinux
spec:
  deployment:
    deploymentRefs:
    - name: os-gardenlinux
  resources:
  - kind: OperatingSystemConfig
    type: gardenlinux
    primary: true
";
/// What stands for the two charts.
const CHART: &str = "H4sIFAAAAAAA/yk...";
const NEXT_CHART: &str = "H4sIFAAAAAAA/zk...";

const PROGRAM: &str = "\
apiVersion: v1
kind: ServiceAccount
metadata:
  name: os-gardenlinux
  namespace: {{ .Release.Namespace }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: os-gardenlinux
rules:
- apiGroups: [extensions.gardener.cloud]
  resources: [operatingsystemconfigs, operatingsystemconfigs/status]
  verbs: [get, list, watch, update, patch]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: os-gardenlinux
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: os-gardenlinux
subjects:
- kind: ServiceAccount
  name: os-gardenlinux
  namespace: {{ .Release.Namespace }}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: os-gardenlinux
  namespace: {{ .Release.Namespace }}
spec:
  strategy:
    type: Recreate
  selector:
    matchLabels: {app: os-gardenlinux}
  template:
    metadata:
      labels: {app: os-gardenlinux}
    spec:
      serviceAccountName: os-gardenlinux
      containers:
      - name: os-gardenlinux
        image: registry.example.org/extensions/os-gardenlinux:{{ .Chart.Version }}
";
const SETTINGS: &str = "\
apiVersion: v1
kind: ConfigMap
metadata:
  name: settings
  namespace: {{ .Release.Namespace }}
data:
  foo: {{ .Values.foo }}
  version: {{ .Chart.Version }}
";
const OPTIONS: &str = "\
apiVersion: v1
kind: ConfigMap
metadata:
  name: options
  namespace: {{ .Release.Namespace }}
data:
  foo: {{ .Values.foo }}
  version: {{ .Chart.Version }}
";

fn head(version: &str) -> String {
    format!("apiVersion: v2\nname: os-gardenlinux\nversion: {version}\n")
}

/// The changes of the example Shoot and its profile that make them need the extension, as expressions of sed.
const PROFILE_SED: &str = "s/- name: local # also/- name: gardenlinux # also/";
const SHOOT_SED: &str = "s/^          name: local$/          name: gardenlinux/";

fn profile() -> String {
    let changed = SURROUNDINGS[1].replace("- name: local # also", "- name: gardenlinux # also");
    assert_ne!(changed, SURROUNDINGS[1]);
    changed
}

fn shoot() -> String {
    let changed = SHOOT.replace("\n          name: local\n", "\n          name: gardenlinux\n");
    assert_ne!(changed, SHOOT);
    changed
}

#[tokio::test(start_paused = true)]
async fn the_guides_example_is_installed_changed_and_removed() {
    let about = "The first example of Gardener's guide \"Registering Extension Controllers\", as it is printed there.";
    let title = "A chart in a ControllerDeployment, v1beta1";
    let world = World::start_with(|settings| settings.seeds[0].name = SEED.to_owned()).await;
    let page = Transcript::new("registration-v1beta1", title, about, &world.clients());
    whole_life(world, page, V1BETA1).await;
}

#[tokio::test(start_paused = true)]
async fn the_guides_example_in_v1_is_installed_changed_and_removed() {
    let about = "The first example of Gardener's guide \"Registering Extension Controllers\", with its ControllerDeployment \
                 in the version v1.";
    let title = "A chart in a ControllerDeployment, v1";
    let world = World::start_with(|settings| settings.seeds[0].name = SEED.to_owned()).await;
    let page = Transcript::new("registration-v1", title, about, &world.clients());
    whole_life(world, page, V1).await;
}

async fn whole_life(world: World, mut page: Transcript, registration: &str) {
    let (garden, seed) = (Cluster::new("garden", &world.garden), Cluster::new("seed", &world.seed));
    let first = [
        ("Chart.yaml", &*head("0.30.0")),
        ("templates/program.yaml", PROGRAM),
        ("templates/settings.yaml", SETTINGS),
    ];
    let next = [
        ("Chart.yaml", &*head("0.31.0")),
        ("templates/program.yaml", PROGRAM),
        ("templates/options.yaml", OPTIONS),
    ];
    page.stand_in(CHART, &chart(EXTENSION, &first));
    page.stand_in(NEXT_CHART, &chart(EXTENSION, &next));
    world.apply(&[SURROUNDINGS[0], SURROUNDINGS[2]]).await;
    page.step("A cloud profile with the operating system", "");
    page.apply_changed(&garden, PROFILE_SED, "examples/20-cloudprofile.yaml", &profile())
        .await;
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    let before = world.inventory().await;

    registered(&mut page, &world, &garden, registration).await;
    let installation = installed(&mut page, &world, &garden, &seed).await;
    changed(&mut page, &world, &garden, &seed, registration, &installation).await;
    removed(&mut page, &world, &garden, &seed, &installation).await;
    world.nothing_beyond(&before).await;
    page.finish();
}

async fn registered(page: &mut Transcript, world: &World, garden: &Cluster, registration: &str) {
    page.step(
        "The registration",
        "No seed needs the operating system yet, so nothing is installed.",
    );
    page.file("templates/program.yaml", "yaml", PROGRAM);
    page.file("templates/settings.yaml", "yaml", SETTINGS);
    page.apply(garden, "registration.yaml", registration).await;
    tokio::time::sleep(std::time::Duration::from_secs(10)).await;
    assert!(world.installation(EXTENSION, SEED).await.is_none());
    page.get(garden, "", "controllerinstallations", "").await;
}

async fn installed(page: &mut Transcript, world: &World, garden: &Cluster, seed: &Cluster) -> String {
    page.step(
        "A Shoot with machines of this operating system",
        "The seed needs the extension now. Its node does not know the image: the installation is valid and installed, not \
         healthy.",
    );
    page.apply_changed(garden, SHOOT_SED, "examples/40-shoot.yaml", &shoot())
        .await;
    let done = [
        ("Installed", "InstallationSuccessful"),
        ("Healthy", "ControllerNotHealthy"),
    ];
    world.installation_until(EXTENSION, SEED, &done).await;
    let installation = world
        .installation_reports(EXTENSION, SEED, "os-gardenlinux:0.30.0")
        .await;
    page.get(garden, "", "controllerinstallations", "").await;
    page.conditions(garden, &installation).await;
    let namespace = format!("extension-{installation}");
    page.get(seed, &namespace, "deployments", "").await;
    page.get(seed, &namespace, "configmaps", "").await;
    page.value(seed, (&namespace, "configmaps", "settings"), ".data").await;
    page.get(seed, "garden", "managedresources", "").await;
    page.note("The Shoot waits for it:");
    wait(&world.shoots(NAMESPACE), NAME, |shoot| {
        let errors = &shoot?.status.as_ref()?.last_errors;
        errors
            .first()?
            .description
            .contains("(installation not healthy")
            .then_some(())
    })
    .await;
    page.value(garden, (NAMESPACE, "shoots", NAME), ".status.lastErrors[0].description")
        .await;
    installation
}

async fn changed(
    page: &mut Transcript,
    world: &World,
    garden: &Cluster,
    seed: &Cluster,
    registration: &str,
    installation: &str,
) {
    let namespace = format!("extension-{installation}");
    let maps: Api<ConfigMap> = Api::namespaced(world.seed.clone(), &namespace);
    let has = |name: &'static str, value: &'static str| {
        wait(&maps, name, move |map| {
            (map?.data.as_ref()?.get("foo")? == value).then_some(())
        })
    };
    page.step("Other values", "");
    let values = registration.replace("foo: bar", "foo: baz");
    page.apply_changed(garden, "s/foo: bar/foo: baz/", "registration.yaml", &values)
        .await;
    has("settings", "baz").await;
    page.value(seed, (&namespace, "configmaps", "settings"), ".data").await;

    page.step(
        "Another chart",
        "Its next version has `options` in place of `settings`, and another image.",
    );
    page.file("templates/options.yaml", "yaml", OPTIONS);
    let other = registration.replace(CHART, NEXT_CHART);
    page.apply_changed(garden, &format!("s|{CHART}|{NEXT_CHART}|"), "registration.yaml", &other)
        .await;
    has("options", "bar").await;
    wait(&maps, "settings", |map| map.is_none().then_some(())).await;
    world
        .installation_reports(EXTENSION, SEED, "os-gardenlinux:0.31.0")
        .await;
    page.get(seed, &namespace, "configmaps", "").await;
    page.value(seed, (&namespace, "configmaps", "options"), ".data").await;
    page.conditions(garden, installation).await;
}

async fn removed(page: &mut Transcript, world: &World, garden: &Cluster, seed: &Cluster, installation: &str) {
    page.step("Without the Shoot", "No seed needs the extension any more.");
    page.delete_shoot(garden, NAMESPACE, NAME).await;
    wait(&world.shoots(NAMESPACE), NAME, |shoot| shoot.is_none().then_some(())).await;
    world.not_installed(EXTENSION, SEED).await;
    page.get(garden, "", "controllerinstallations", "").await;
    let label = "controllerregistration.core.gardener.cloud/name=os-gardenlinux";
    page.get(seed, "", "namespaces", label).await;
    page.value(seed, ("", "clusterroles", "os-gardenlinux"), ".rules").await;
    page.get(
        seed,
        "garden",
        "managedresources",
        &format!("controllerinstallation-name={installation}"),
    )
    .await;
    page.get(garden, &format!("seed-{SEED}"), "serviceaccounts", label)
        .await;

    page.step("Without the registration", "");
    page.delete(garden, ("", "controllerregistrations", EXTENSION)).await;
    page.delete(garden, ("", "controllerdeployments", EXTENSION)).await;
}
