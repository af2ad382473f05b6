//! The example operator in Python beside the real `orangery up`: it installs what its registration asks for, follows changes, reports
//! what is wrong, is killed in the middle of an installation and of a removal, and leaves nothing behind. Run by
//! `cargo xtask test clients`, which builds and prepares what it needs.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends where its set-up fails")]

mod up;

use std::fmt::Debug;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use api_core::v1beta1::{ControllerDeployment, ControllerInstallation, ControllerRegistration};
use api_meta::{Condition, ConditionStatus};
use base_client::{WaitState, wait_until};
use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ListParams;
use kube::config::{AuthInfo, Kubeconfig};
use kube::runtime::watcher::Event;
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use up::{PATIENCE, Running, Up, gone};

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/operator-python");
/// Name of what `registration.yaml` registers.
const GREETER: &str = "greeter";
const FINALIZER: &str = "examples.orangery.dev/operator-python";
/// Name of the user that has the rights of the README and no others.
const OPERATOR: &str = "operator-python";

/// A landscape with a user of few rights, and what was there before the registration.
struct Scene {
    up: Up,
}

impl Scene {
    async fn start() -> Self {
        let mut scene = Self { up: Up::start(&[]) };
        scene.add_user(
            "garden",
            &json!([
                rule(
                    "core.gardener.cloud",
                    "controllerinstallations",
                    &["get", "list", "watch", "patch"]
                ),
                rule("core.gardener.cloud", "controllerinstallations/status", &["update"]),
                rule("core.gardener.cloud", "controllerdeployments", &["get"]),
            ]),
        );
        scene.add_user(
            "seed",
            &json!([
                rule("", "namespaces", &["create", "get", "patch", "delete"]),
                rule("", "configmaps", &["create", "patch"]),
            ]),
        );
        scene.up.remember().await;
        scene
    }

    /// Adds a ServiceAccount with these rights to the garden or the seed, and writes a kubeconfig with its token.
    fn add_user(&self, part: &str, rules: &Value) {
        let account = json!({"name": OPERATOR, "namespace": "default"});
        self.apply(
            part,
            &json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account}),
        );
        let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": OPERATOR}, "rules": rules});
        self.apply(part, &role);
        self.bind(part);
        let token = self.kubectl(part, &["create", "token", OPERATOR, "--duration=1h"], "");
        let mut kubeconfig = Kubeconfig::read_from(self.kubeconfig(part)).unwrap();
        for user in &mut kubeconfig.auth_infos {
            user.auth_info = Some(AuthInfo {
                token: Some(token.trim().into()),
                ..AuthInfo::default()
            });
        }
        let text = base_secrets::to_yaml(&kubeconfig).unwrap();
        fs::write(self.kubeconfig(&format!("{part}-{OPERATOR}")), text.expose()).unwrap();
    }

    fn bind(&self, part: &str) {
        let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": OPERATOR},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": OPERATOR},
            "subjects": [{"kind": "ServiceAccount", "name": OPERATOR, "namespace": "default"}]});
        self.apply(part, &binding);
    }

    fn kubeconfig(&self, name: &str) -> PathBuf {
        self.up.kubeconfig(name)
    }

    fn kubectl(&self, part: &str, words: &[&str], input: &str) -> String {
        self.up.kubectl_in(Path::new(EXAMPLE), part, words, input)
    }

    fn apply(&self, part: &str, object: &Value) {
        self.kubectl(part, &["apply", "-f", "-"], &object.to_string());
    }

    /// The operator as its README starts it, as the landscape's administrator or as the user of few rights.
    fn operator(&self, user: &str) -> Command {
        let mut command = Command::new("python3");
        // Neither packages beside the standard library nor files of byte code beside the sources.
        command.args(["-E", "-S", "-B", "main.py"]).current_dir(EXAMPLE);
        let [garden, seed] = ["garden", "seed"].map(|part| self.kubeconfig(&format!("{part}{user}")));
        command.arg("--kubeconfig").arg(garden);
        command.args(["--seed", "local", "--seed-kubeconfig"]).arg(seed);
        command
    }

    fn start_operator(&self, user: &str) -> Running {
        let log = File::options().create(true).append(true).open(self.log()).unwrap();
        let mut command = self.operator(user);
        command.stdout(log.try_clone().unwrap()).stderr(log);
        Running(command.spawn().unwrap())
    }

    /// What all operators have printed.
    fn log(&self) -> PathBuf {
        self.up.folder.path().join("operator.log")
    }

    fn fail(&self, why: &str) -> ! {
        panic!(
            "{why}\nthe operator printed:\n{}",
            fs::read_to_string(self.log()).unwrap_or_default()
        )
    }

    fn installations(&self) -> Api<ControllerInstallation> {
        Api::all(self.up.garden.clone())
    }

    /// Waits for the installation of the registration; its name.
    async fn installation(&self) -> String {
        let mut changes = std::pin::pin!(base_client::watch(self.installations(), Default::default()));
        let named = async {
            loop {
                if let Event::InitApply(found) | Event::Apply(found) = changes.next().await.unwrap().unwrap()
                    && found.spec.registration_ref.name.as_deref() == Some(GREETER)
                {
                    return found.name_any();
                }
            }
        };
        let found = tokio::time::timeout(PATIENCE, named).await;
        found.unwrap_or_else(|_| self.fail("the garden creates no installation"))
    }

    /// Waits until a condition is so, with this text in its message.
    async fn until(&self, installation: &str, (type_, status, reason, text): (&str, ConditionStatus, &str, &str)) {
        let waited = self.wait(self.installations(), installation, |found| {
            let known = found.and_then(|found| found.status.as_ref());
            let conditions = known.map(|status| status.conditions.as_slice()).unwrap_or_default();
            match Condition::find(conditions, type_) {
                Some(known) if known.status == status && known.reason == reason && known.message.contains(text) => {
                    WaitState::Done(())
                }
                _ => WaitState::NotYet(format!("{type_} is not {status}, {reason}, {text:?}: {conditions:#?}")),
            }
        });
        waited.await;
    }

    /// Waits until the extension is installed and greets so.
    async fn until_it_greets(&self, installation: &str, greeting: &str) {
        let waited = self.wait(self.maps(installation), "greeting", |map| match map {
            Some(map) if text(map) == greeting => WaitState::Done(()),
            other => WaitState::NotYet(format!("it does not say {greeting:?}: {other:?}")),
        });
        waited.await;
        for (type_, reason) in [("Valid", "RegistrationValid"), ("Installed", "InstallationSuccessful")] {
            self.until(installation, (type_, ConditionStatus::True, reason, ""))
                .await;
        }
    }

    fn maps(&self, installation: &str) -> Api<ConfigMap> {
        Api::namespaced(self.up.seed.clone(), &format!("extension-{installation}"))
    }

    fn greet(&self, greeting: &Value) {
        let patch = json!({"providerConfig": {"greeting": greeting}}).to_string();
        let kind = "controllerdeployments.v1beta1.core.gardener.cloud";
        self.kubectl(
            "garden",
            &["patch", kind, GREETER, "--type=merge", "--patch", &patch],
            "",
        );
    }

    async fn wait<K, T>(&self, api: Api<K>, name: &str, judge: impl FnMut(Option<&K>) -> WaitState<T>) -> T
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
    {
        let waited = wait_until(&api, name, PATIENCE, judge).await;
        waited.unwrap_or_else(|why| self.fail(&why.to_string()))
    }

    async fn until_gone<K>(&self, name: &str)
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
    {
        let waited = gone(Api::<K>::all(self.up.garden.clone()), name).await;
        waited.unwrap_or_else(|why| self.fail(&why.to_string()));
    }
}

fn rule(group: &str, resource: &str, verbs: &[&str]) -> Value {
    json!({"apiGroups": [group], "resources": [resource], "verbs": verbs})
}

fn text(map: &ConfigMap) -> &str {
    map.data.as_ref().map_or("", |data| data["text"].as_str())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_example_operator_installs_follows_changes_survives_kills_and_leaves_nothing() {
    let scene = Scene::start().await;
    let administrator = scene.start_operator("");
    scene.kubectl("garden", &["apply", "-f", "registration.yaml"], "");
    let installation = scene.installation().await;
    scene.until_it_greets(&installation, "hello").await;
    only_its_own_is_touched(&scene, &installation).await;

    scene.greet(&json!("good day"));
    scene.until_it_greets(&installation, "good day").await;
    scene.greet(&json!(5));
    let invalid = (
        "Valid",
        ConditionStatus::False,
        "ConfigurationInvalid",
        "has to be a text",
    );
    scene.until(&installation, invalid).await;
    let retained = scene.maps(&installation).get("greeting").await.unwrap();
    assert_eq!(text(&retained), "good day");

    // What changed while none ran is found, with the rights of the README.
    drop(administrator);
    scene.greet(&json!("good evening"));
    let user = format!("-{OPERATOR}");
    let operator = scene.start_operator(&user);
    scene.until_it_greets(&installation, "good evening").await;

    // Killed in the middle of an installation that the seed refuses.
    scene.kubectl("seed", &["delete", "clusterrolebinding", OPERATOR], "");
    scene.greet(&json!("good night"));
    let refused = ("Installed", ConditionStatus::False, "InstallationFailed", "forbidden");
    scene.until(&installation, refused).await;
    drop(operator);
    let once = scene.operator(&user).arg("--once").output().unwrap();
    let printed = String::from_utf8_lossy(&once.stderr).into_owned();
    assert_eq!(once.status.code(), Some(1), "{printed}");
    assert!(
        printed.contains("\nhint: grant the user of the kubeconfig what is refused"),
        "{printed}"
    );
    let operator = scene.start_operator(&user);
    // It tries again by itself.
    scene.bind("seed");
    scene.until_it_greets(&installation, "good night").await;
    let once = scene.operator(&user).arg("--once").output().unwrap();
    assert_eq!(
        (once.status.code(), once.stdout, once.stderr),
        (Some(0), vec![], vec![]),
        "nothing is to be done"
    );

    removal_survives_a_kill(&scene, &installation, operator).await;
    scene.up.until_nothing_is_left().await;
}

/// No other installation has its finalizer, and its own reports where it was installed.
async fn only_its_own_is_touched(scene: &Scene, installation: &str) {
    let all = scene.installations().list(&ListParams::default()).await.unwrap();
    let held = all
        .iter()
        .filter(|one| one.finalizers().iter().any(|one| one == FINALIZER));
    let held: Vec<String> = held.map(ResourceExt::name_any).collect();
    assert_eq!(held, [installation]);
    assert!(all.items.len() > 1, "the local provider is installed beside it");
    let found = scene.installations().get(installation).await.unwrap();
    let status = serde_json::to_value(found.status.unwrap().provider_status).unwrap();
    assert_eq!(status, json!({"namespace": format!("extension-{installation}")}));
}

/// Killed while the namespace is held up, and started again.
async fn removal_survives_a_kill(scene: &Scene, installation: &str, operator: Running) {
    let namespace = format!("--namespace=extension-{installation}");
    let finalizers = |finalizers: Value| {
        let patch = json!({"metadata": {"finalizers": finalizers}}).to_string();
        scene.kubectl(
            "seed",
            &[
                "patch",
                "configmap",
                "greeting",
                &namespace,
                "--type=merge",
                "--patch",
                &patch,
            ],
            "",
        );
    };
    finalizers(json!(["tests.orangery.dev/holds-up"]));
    scene.kubectl("garden", &["delete", "--wait=false", "-f", "registration.yaml"], "");
    let pending = ("Installed", ConditionStatus::False, "DeletionPending", "still pending");
    scene.until(installation, pending).await;
    drop(operator);
    let _operator = scene.start_operator(&format!("-{OPERATOR}"));
    finalizers(Value::Null);
    scene.until_gone::<ControllerInstallation>(installation).await;
    scene.until_gone::<ControllerRegistration>(GREETER).await;
    scene.until_gone::<ControllerDeployment>(GREETER).await;
}
