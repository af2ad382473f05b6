//! Extensions that read the garden: with the kubeconfig and the token that their pods get, in the namespace of their own
//! seed and nowhere else.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::ListParams;
use kube::config::Kubeconfig;
use tests_scenarios::transcript::{Cluster, Transcript};
use tests_scenarios::{World, wait};

use super::{stand_for_chart, world_with};

const PROGRAM: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: reader
  namespace: {{ .Release.Namespace }}
spec:
  selector:
    matchLabels: {app: reader}
  template:
    metadata:
      labels: {app: reader}
    spec:
      containers:
      - name: reader
        image: registry.example.org/extensions/reader:v1
";
const REGISTRATION: &str = "\
apiVersion: core.gardener.cloud/v1
kind: ControllerDeployment
metadata:
  name: reader
injectGardenKubeconfig: true
helm:
  rawChart: H4sIFAAAAAAA/yk... # <base64-gzip-chart>
---
apiVersion: core.gardener.cloud/v1beta1
kind: ControllerRegistration
metadata:
  name: reader
spec:
  deployment:
    policy: Always
    deploymentRefs:
    - name: reader
  resources:
  - kind: Extension
    type: reader
";
const ACCESS: &str = "garden-access-extension";
/// What tells the requestor of tokens how long one shall live, and when it renews it.
const LIFE: &str = "serviceaccount.resources.gardener.cloud/token-expiration-duration";
const RENEWAL: &str = "serviceaccount.resources.gardener.cloud/token-renew-timestamp";
/// 80 % of 12 hours, and of the 20 minutes that the scenario sets.
const RENEWED_AFTER: i64 = 12 * 3600 * 8 / 10;
const RENEWED_AFTER_SHORT: u64 = 20 * 60 * 8 / 10;

#[tokio::test(start_paused = true)]
async fn an_extension_reads_the_gardens_namespace_of_its_seed_and_no_other() {
    let (world, clock) = world_with(2).await;
    let about = "`injectGardenKubeconfig` gives the pods of an extension a kubeconfig for the garden, whose rights end at the \
                 namespace of their seed.";
    let mut page = Transcript::new("garden-access", "Access to the garden", about, &world.clients());
    let (garden, seed) = (Cluster::new("garden", &world.garden), Cluster::new("seed", &world.seed));
    stand_for_chart(&mut page, &[("templates/program.yaml", PROGRAM)]);

    page.step("The registration", "");
    page.file("templates/program.yaml", "yaml", PROGRAM);
    page.apply(&garden, "reader.yaml", REGISTRATION).await;
    let done = [("Installed", "InstallationSuccessful")];
    let installation = world.installation_until("reader", "local", &done).await;
    let namespace = format!("extension-{installation}");
    let secrets: Api<Secret> = Api::namespaced(world.seed.clone(), &namespace);
    let first = token(&secrets, "").await;
    let left = renewal(&secrets).await.duration_since(clock.now()).as_secs();
    assert!((RENEWED_AFTER - 30..=RENEWED_AFTER).contains(&left), "{left} s");

    page.step("What its pods get", "");
    page.get(&seed, &namespace, "secrets", "").await;
    let place = (&*namespace, "deployments", "reader");
    page.value(&seed, place, ".spec.template.spec.volumes[0].projected.sources")
        .await;
    page.value(&seed, place, ".spec.template.spec.containers[0].env").await;
    page.get(&garden, "seed-local", "serviceaccounts", "").await;

    page.step("With these two", "");
    let kubeconfig = generic_kubeconfig(&secrets).await;
    let reader = client(&world, &kubeconfig, &first);
    let name = secret_name(&secrets).await;
    let command = |secret: &str, key: &str| {
        format!("seed -n {namespace} get secrets {secret} -o jsonpath='{{.data.{key}}}' | base64 -d")
    };
    page.line(&format!("{} > reader.kubeconfig", command(&name, "kubeconfig")), "");
    page.line(&format!("token=$({})", command(ACCESS, "token")), "");
    let reader = Cluster::new("kubectl --kubeconfig reader.kubeconfig --token \"$token\"", &reader);
    page.get(&reader, "seed-local", "configmaps", "").await;
    page.get(&reader, "seed-local-2", "configmaps", "").await;
    page.get(&reader, "", "shoots", "").await;

    page.step(
        "The token is renewed",
        "A token lives 12 hours and is renewed after 80 % of them. Here it gets a life of 20 minutes, and 16 minutes pass.",
    );
    let shorter = [(LIFE, Some("20m")), (RENEWAL, None)];
    page.annotate(&seed, (&namespace, "secrets", ACCESS), &shorter).await;
    let second = token(&secrets, &first).await;
    let requested = tokio::time::Instant::now();
    let third = token(&secrets, &second).await;
    let elapsed = requested.elapsed().as_secs();
    assert!(
        (RENEWED_AFTER_SHORT - 30..=RENEWED_AFTER_SHORT + 30).contains(&elapsed),
        "{elapsed} s"
    );
    page.line(&format!("token=$({})", command(ACCESS, "token")), "");
    let again = client(&world, &kubeconfig, &third);
    let again = Cluster::new("kubectl --kubeconfig reader.kubeconfig --token \"$token\"", &again);
    page.get(&again, "seed-local", "configmaps", "").await;
    page.finish();
}

/// The token, once there is one other than `old`.
async fn token(secrets: &Api<Secret>, old: &str) -> String {
    wait(secrets, ACCESS, |secret| {
        let token = secret?.data.as_ref()?.get("token")?;
        let token = String::from_utf8(token.0.clone()).ok()?;
        (!token.is_empty() && token != old).then_some(token)
    })
    .await
}

/// When the token is renewed.
async fn renewal(secrets: &Api<Secret>) -> Timestamp {
    let secret = secrets.get(ACCESS).await.unwrap();
    secret.metadata.annotations.unwrap()[RENEWAL].parse().unwrap()
}

async fn secret_name(secrets: &Api<Secret>) -> String {
    let listed = secrets.list(&ListParams::default()).await.unwrap();
    let mut names = listed.items.into_iter().filter_map(|secret| secret.metadata.name);
    names
        .find(|name| name.starts_with("generic-garden-kubeconfig-"))
        .unwrap()
}

async fn generic_kubeconfig(secrets: &Api<Secret>) -> Kubeconfig {
    let secret = secrets.get(&secret_name(secrets).await).await.unwrap();
    let text = String::from_utf8(secret.data.unwrap()["kubeconfig"].0.clone()).unwrap();
    Kubeconfig::from_yaml(&text).unwrap()
}

/// A client as a pod has one: the kubeconfig with the token's file read.
fn client(world: &World, kubeconfig: &Kubeconfig, token: &str) -> kube::Client {
    let mut kubeconfig = kubeconfig.clone();
    let user = kubeconfig.auth_infos[0].auth_info.as_mut().unwrap();
    assert!(user.token_file.take().is_some());
    user.token = Some(token.to_owned().into());
    world.landscape.connector().client(&kubeconfig).unwrap()
}
