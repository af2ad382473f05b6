//! ControllerDeployments whose chart real Helm has pushed to a real registry with TLS and a password: installed by tag, by digest and
//! by reference, upgraded, held up by a wrong digest, damaged content, refused credentials and a registry that is down, removed. Run
//! by `cargo xtask test registry`, which prepares both programs.
//!
//! The landscape runs in this process and in real time: the registry answers over a socket, which does not wait for virtual time.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends where its set-up fails")]

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use api_core::v1beta1::{ControllerDeployment, ControllerInstallation, ControllerRegistration};
use api_meta::{Condition, ConditionStatus};
use base_client::{WaitState, delete_and_wait, wait_until};
use base_clock::{Clock, Entropy};
use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::runtime::watcher::Event;
use kube::{Api, ResourceExt};
use landscape_local::apply_all;
use serde_json::{Value, json};
use tests_kit::{Helm, Registry};
use tests_scenarios::World;
use tests_scenarios::inventory::Inventory;

/// Real time: many times what a slow machine needs, and four times what an installation waits before it tries again.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long an outage lasts: all tries of a pull have ended by then, and only the installation's own retry is left.
const OUTAGE: Duration = Duration::from_secs(20);
const GARDEN: &str = "garden";
/// Names of the Secrets with the registry's user and authority.
const PULL_SECRET: &str = "pull";
const BUNDLE_SECRET: &str = "authority";
/// The name of everything that the chart makes.
const WEB: &str = "web";
const CHART: [(&str, &[u8]); 2] = [
    ("values.yaml", b"greeting: hello\n"),
    (
        "templates/map.yaml",
        b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: web\n  namespace: {{ .Release.Namespace }}\ndata:\n  \
          chart: {{ .Chart.Version | quote }}\n  seed: {{ .Values.gardener.seed.name | quote }}\n  \
          greeting: {{ .Values.greeting | quote }}\n",
    ),
];
const CANNOT_BE_PULLED: &str = "OCIChartCannotBePulled";

/// A landscape, a registry, and what was there before the first registration.
struct Scene {
    world: World,
    registry: Registry,
    helm: Helm,
    before: Inventory,
}

impl Scene {
    async fn start() -> Self {
        let world = World::start_with(|settings| {
            settings.clock = Clock::real();
            settings.entropy = Entropy::os();
        })
        .await;
        let before = world.inventory().await;
        let scene = Self {
            world,
            registry: Registry::start().unwrap(),
            helm: Helm::find().unwrap(),
            before,
        };
        scene.write_pull_secret(PULL_SECRET, Registry::PASSWORD).await;
        let bundle = scene.registry.authority();
        scene
            .apply(vec![json!({
                "apiVersion": "v1", "kind": "Secret",
                "metadata": {"name": BUNDLE_SECRET, "namespace": GARDEN, "labels": {"gardener.cloud/role": "oci-ca-bundle"}},
                "stringData": {"bundle.crt": bundle},
            })])
            .await;
        scene
    }

    async fn apply(&self, objects: Vec<Value>) {
        apply_all(&self.world.garden, objects).await.unwrap();
    }

    /// As `kubectl create secret docker-registry` writes one.
    async fn write_pull_secret(&self, name: &str, password: &str) {
        let config = json!({"auths": {self.registry.host(): {"username": Registry::USER, "password": password}}});
        self.apply(vec![json!({
            "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/dockerconfigjson",
            "metadata": {"name": name, "namespace": GARDEN, "labels": {"gardener.cloud/role": "helm-pull-secret"}},
            "stringData": {".dockerconfigjson": config.to_string()},
        })])
        .await;
    }

    /// Pushes a version of the chart; its digest.
    fn push(&self, version: &str) -> String {
        self.helm.push(&self.registry, WEB, version, &CHART).unwrap()
    }

    fn repository(&self) -> String {
        format!("oci://{}/charts/{WEB}", self.registry.host())
    }

    fn tag(&self, tag: &str) -> Value {
        json!({"repository": self.repository(), "tag": tag})
    }

    fn digest(&self, digest: &str) -> Value {
        json!({"repository": self.repository(), "digest": digest})
    }

    /// Writes a ControllerDeployment; `place` overrides who pulls and whom they trust.
    async fn deploy(&self, name: &str, place: Value) {
        self.deploy_with(name, place, json!({})).await;
    }

    async fn deploy_with(&self, name: &str, place: Value, values: Value) {
        let mut repository = json!({
            "pullSecretRef": {"name": PULL_SECRET}, "caBundleSecretRef": {"name": BUNDLE_SECRET},
        });
        for (field, value) in place.as_object().unwrap() {
            repository[field] = value.clone();
        }
        self.apply(vec![json!({
            "apiVersion": "core.gardener.cloud/v1", "kind": "ControllerDeployment", "metadata": {"name": name},
            "helm": {"ociRepository": repository, "values": values},
        })])
        .await;
    }

    /// Registers an extension for every seed; the name of its installation.
    async fn register(&self, name: &str) -> String {
        self.apply(vec![json!({
            "apiVersion": "core.gardener.cloud/v1beta1", "kind": "ControllerRegistration", "metadata": {"name": name},
            "spec": {"deployment": {"policy": "Always", "deploymentRefs": [{"name": name}]}},
        })])
        .await;
        let mut changes = std::pin::pin!(base_client::watch(self.installations(), Default::default()));
        let named = async {
            loop {
                if let Event::InitApply(found) | Event::Apply(found) = changes.next().await.unwrap().unwrap()
                    && found.spec.registration_ref.name.as_deref() == Some(name)
                {
                    return found.name_any();
                }
            }
        };
        tokio::time::timeout(PATIENCE, named).await.unwrap()
    }

    fn installations(&self) -> Api<ControllerInstallation> {
        Api::all(self.world.garden.clone())
    }

    /// Waits until a condition is so, with this text in its message; all conditions at that moment.
    async fn until(&self, installation: &str, (type_, reason, text): (&str, &str, &str)) -> Vec<Condition> {
        let waited = wait(self.installations(), installation, |found| {
            let conditions = found
                .and_then(|found| found.status.as_ref())
                .map(|status| &status.conditions);
            let conditions = conditions.map(Vec::as_slice).unwrap_or_default();
            match Condition::find(conditions, type_) {
                Some(known) if known.reason == reason && known.message.contains(text) => {
                    WaitState::Done(conditions.to_vec())
                }
                _ => WaitState::NotYet(format!("{type_} is not {reason}, {text:?}: {conditions:#?}")),
            }
        });
        waited.await
    }

    /// Waits until the chart has this version in the seed, and the installation is as it should be.
    async fn until_installed(&self, installation: &str, version: &str) {
        let waited = wait(self.maps(installation), WEB, |map| match map {
            Some(map) if value(map, "chart") == version => WaitState::Done(value(map, "seed").to_owned()),
            other => WaitState::NotYet(format!("the chart is not {version}: {other:?}")),
        });
        assert_eq!(waited.await, "local");
        for condition in [
            ("Valid", "RegistrationValid"),
            ("Installed", "InstallationSuccessful"),
            ("Healthy", "ControllerHealthy"),
            ("Progressing", "ControllerRolledOut"),
        ] {
            self.until(installation, (condition.0, condition.1, "")).await;
        }
    }

    fn maps(&self, installation: &str) -> Api<ConfigMap> {
        Api::namespaced(self.world.seed.clone(), &format!("extension-{installation}"))
    }

    /// Waits until the chart cannot be pulled for this reason; what was installed before is as it was.
    async fn until_held_up(&self, installation: &str, why: &str, version: &str) {
        let conditions = self.until(installation, ("Valid", CANNOT_BE_PULLED, why)).await;
        let status = |type_| Condition::find(&conditions, type_).map(|condition| condition.status.clone());
        assert_eq!(status("Valid"), Some(ConditionStatus::False));
        assert_eq!(status("Installed"), Some(ConditionStatus::True), "{conditions:#?}");
        assert_eq!(status("Healthy"), Some(ConditionStatus::True), "{conditions:#?}");
        let map = self.maps(installation).get(WEB).await.unwrap();
        assert_eq!(value(&map, "chart"), version);
    }

    /// Removes the registrations, then all else that was written; nothing of it is left in garden and seed.
    async fn end(self, registrations: &[(&str, String)], secrets: &[&str]) {
        let garden = &self.world.garden;
        for (name, installation) in registrations {
            gone::<ControllerRegistration>(&Api::all(garden.clone()), name).await;
            let removed = wait(self.installations(), installation, |found| match found {
                None => WaitState::Done(()),
                Some(found) => WaitState::NotYet(format!("{:?}", found.status)),
            });
            removed.await;
            gone::<ControllerDeployment>(&Api::all(garden.clone()), name).await;
        }
        for name in [PULL_SECRET, BUNDLE_SECRET].iter().chain(secrets) {
            gone::<Secret>(&Api::namespaced(garden.clone(), GARDEN), name).await;
        }
        self.world.nothing_beyond(&self.before).await;
        self.world.landscape.stop(PATIENCE).await;
    }
}

/// Waits in real time.
async fn wait<K, T>(api: Api<K>, name: &str, judge: impl FnMut(Option<&K>) -> WaitState<T>) -> T
where
    K: kube::Resource<DynamicType = ()> + Clone + serde::de::DeserializeOwned + std::fmt::Debug + Send + 'static,
{
    let waited = wait_until(&api, name, PATIENCE, judge).await;
    waited.unwrap_or_else(|why| panic!("{why}"))
}

fn value<'a>(map: &'a ConfigMap, key: &str) -> &'a str {
    map.data.as_ref().map_or("", |data| data[key].as_str())
}

async fn gone<K>(api: &Api<K>, name: &str)
where
    K: kube::Resource<DynamicType = ()> + Clone + serde::de::DeserializeOwned + std::fmt::Debug + Send + 'static,
{
    delete_and_wait(api, name, PATIENCE)
        .await
        .unwrap_or_else(|why| panic!("{why}"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn charts_come_by_tag_digest_and_reference_and_leave_no_trace() {
    let scene = Scene::start().await;
    let first = scene.push("1.0.0");
    scene.push("1.1.0");
    let whole = |rest: &str| json!({"ref": format!("{}/charts/{WEB}{rest}", scene.registry.host())});
    let mut registrations = Vec::new();
    for (name, place) in [
        ("by-tag", scene.tag("1.0.0")),
        ("by-digest", scene.digest(&first)),
        ("by-ref", whole(":1.0.0")),
        ("by-both", whole(&format!(":1.0.0@{first}"))),
    ] {
        scene.deploy(name, place).await;
        let installation = scene.register(name).await;
        scene.until_installed(&installation, "1.0.0").await;
        registrations.push((name, installation));
    }

    // By a new tag, and by a new form of the address.
    scene.deploy("by-tag", scene.tag("1.1.0")).await;
    scene.until_installed(&registrations[0].1, "1.1.0").await;
    scene.deploy("by-digest", whole(":1.1.0")).await;
    scene.until_installed(&registrations[1].1, "1.1.0").await;
    for (name, installation) in &registrations[2..] {
        let map = scene.maps(installation).get(WEB).await.unwrap();
        assert_eq!(value(&map, "chart"), "1.0.0", "{name} names the version that it has");
    }
    scene.end(&registrations, &[]).await;
}

/// Where the registry keeps the archive of the chart whose manifest has this digest.
fn archive(registry: &Registry, digest: &str) -> PathBuf {
    let blob = |digest: &str| {
        let hex = digest.strip_prefix("sha256:").unwrap();
        registry
            .storage()
            .join(format!("blobs/sha256/{}/{hex}/data", &hex[..2]))
    };
    let manifest: Value = serde_json::from_slice(&fs::read(blob(digest)).unwrap()).unwrap();
    blob(manifest["layers"][0]["digest"].as_str().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_digest_and_damaged_content_leave_what_is_installed_as_it_was() {
    let scene = Scene::start().await;
    let first = scene.push("1.0.0");
    scene.deploy(WEB, scene.digest(&first)).await;
    let installation = scene.register(WEB).await;
    scene.until_installed(&installation, "1.0.0").await;

    let nowhere = format!("sha256:{}", "0".repeat(64));
    scene.deploy(WEB, scene.digest(&nowhere)).await;
    let absent = format!("the repository has nothing with the digest {nowhere}");
    scene.until_held_up(&installation, &absent, "1.0.0").await;
    let second = scene.push("1.1.0");
    scene.deploy(WEB, scene.digest(&second)).await;
    scene.until_installed(&installation, "1.1.0").await;

    let third = scene.push("1.2.0");
    let damaged = archive(&scene.registry, &third);
    let whole = fs::read(&damaged).unwrap();
    let mut bytes = whole.clone();
    bytes[whole.len() / 2] ^= 1;
    fs::write(&damaged, &bytes).unwrap();
    scene.deploy(WEB, scene.digest(&third)).await;
    scene.until_held_up(&installation, "wrong digest: ", "1.1.0").await;
    // The storage is repaired; the garden is not touched.
    fs::write(&damaged, &whole).unwrap();
    scene.until_installed(&installation, "1.2.0").await;
    scene.end(&[(WEB, installation)], &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_credentials_and_unknown_authorities_are_reported_until_their_secrets_are_right() {
    let scene = Scene::start().await;
    scene.push("1.0.0");
    scene.deploy(WEB, scene.tag("1.0.0")).await;
    let installation = scene.register(WEB).await;
    scene.until_installed(&installation, "1.0.0").await;

    let versioned = |version: &str, field: &str, secret: &str| {
        let mut place = scene.tag(version);
        place[field] = json!({"name": secret});
        place
    };
    scene.push("1.1.0");
    scene.deploy(WEB, versioned("1.1.0", "pullSecretRef", "other")).await;
    let absent = "pullSecretRef of the ControllerDeployment names Secret other";
    scene.until_held_up(&installation, absent, "1.0.0").await;
    scene.write_pull_secret("other", "wr0ng").await;
    let refused = "refuses access (HTTP 401) to the user \"puller\" of Secret garden/other";
    scene.until_held_up(&installation, refused, "1.0.0").await;
    let conditions = scene.installations().get(&installation).await.unwrap().status.unwrap();
    assert!(!format!("{conditions:?}").contains("wr0ng"), "{conditions:?}");
    scene.write_pull_secret("other", Registry::PASSWORD).await;
    scene.until_installed(&installation, "1.1.0").await;

    scene.push("1.2.0");
    let with_other_authority = versioned("1.2.0", "caBundleSecretRef", "strange");
    let strange = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "strange", "namespace": GARDEN, "labels": {"gardener.cloud/role": "oci-ca-bundle"}},
        "stringData": {"bundle.crt": Registry::start().unwrap().authority()},
    });
    scene.apply(vec![strange]).await;
    scene.deploy(WEB, with_other_authority).await;
    let untrusted = "the certificate of the registry is not trusted";
    scene.until_held_up(&installation, untrusted, "1.1.0").await;
    scene.deploy(WEB, scene.tag("1.2.0")).await;
    scene.until_installed(&installation, "1.2.0").await;
    scene.end(&[(WEB, installation)], &["other", "strange"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unreachable_registry_delays_only_charts_that_must_be_pulled() {
    let mut scene = Scene::start().await;
    let first = scene.push("1.0.0");
    scene.push("1.1.0");
    scene.push("1.2.0");
    scene.deploy(WEB, scene.tag("1.0.0")).await;
    let upgraded = scene.register(WEB).await;
    scene.deploy("pinned", scene.digest(&first)).await;
    let pinned = scene.register("pinned").await;
    for installation in [&upgraded, &pinned] {
        scene.until_installed(installation, "1.0.0").await;
    }

    scene.registry.kill();
    scene.deploy(WEB, scene.tag("1.1.0")).await;
    scene.deploy("late", scene.tag("1.2.0")).await;
    let late = scene.register("late").await;
    scene.until_held_up(&upgraded, "unreachable: ", "1.0.0").await;
    let conditions = scene.until(&late, ("Valid", CANNOT_BE_PULLED, "unreachable: ")).await;
    let installed = Condition::find(&conditions, "Installed").map(|condition| condition.status.clone());
    assert_ne!(installed, Some(ConditionStatus::True), "{conditions:#?}");
    // What needs no pull goes on.
    scene
        .deploy_with("pinned", scene.digest(&first), json!({"greeting": "good day"}))
        .await;
    let changed = wait(scene.maps(&pinned), WEB, |map| match map {
        Some(map) if value(map, "greeting") == "good day" => WaitState::Done(()),
        other => WaitState::NotYet(format!("{other:?}")),
    });
    changed.await;
    scene.until_installed(&pinned, "1.0.0").await;

    // A longer outage takes nothing away, and its end needs no change in the garden.
    tokio::time::sleep(OUTAGE).await;
    scene.until_held_up(&upgraded, "unreachable: ", "1.0.0").await;
    scene.registry.start_again().unwrap();
    scene.until_installed(&upgraded, "1.1.0").await;
    scene.until_installed(&late, "1.2.0").await;
    scene
        .end(&[(WEB, upgraded), ("pinned", pinned), ("late", late)], &[])
        .await;
}
