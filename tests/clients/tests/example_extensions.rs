//! The example extensions beside the real `orangery up --images`: installed by their charts, run as programs, they carry a
//! Shoot, are killed, upgraded and removed, and leave nothing behind. Run by `cargo xtask test clients`, and the one in Go by
//! `cargo xtask ci`: both build and prepare what they need.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends where its set-up fails")]

mod up;

use std::fmt::Debug;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use api_core::v1beta1::{ControllerDeployment, ControllerInstallation, ControllerRegistration, Shoot};
use api_extensions::OperatingSystemConfig;
use base_client::{WaitState, wait_until};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::api::ListParams;
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tests_kit::cache_folder;
use up::{PATIENCE, Up, gone};

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
const PROJECT: &str = "garden-local";
const SHOOT: &str = "local";
const TECHNICAL_ID: &str = "shoot--local--local";
/// Where `cargo xtask` puts the program in Go, below the cache folder.
const GO_PROGRAM: &str = "real/clients/extension-go";
/// What the webhook of the extension in Go adds, as in Example 2 of Gardener's overview.
const CLOUD_FLAGS: [&str; 3] = [
    "--cloud-provider=external",
    "--external-cloud-volume-plugin=aws",
    "--cloud-config=/etc/kubernetes/cloudprovider/cloudprovider.conf",
];
const CLOUD_CONFIG: &str = "example-go-cloud-config";
const CONTROLLER_MANAGER: &str = "kube-controller-manager";

/// A landscape with a copy of one example.
struct Scene {
    up: Up,
    /// Name of the example, its registration, its release and its image.
    name: &'static str,
    /// The type of its kinds.
    type_: &'static str,
    /// The copy of its folder.
    example: PathBuf,
    /// The argument of the program's process that no other process has.
    program: PathBuf,
    _copy: tempfile::TempDir,
}

impl Scene {
    async fn start(name: &'static str, type_: &'static str, program: &str) -> Self {
        let copy = tempfile::tempdir().unwrap();
        // Links become files: a program in a pod sees no more of the folder for temporary files than its own.
        run(Command::new("cp")
            .arg("-RL")
            .arg(Path::new(EXAMPLES).join(name))
            .arg(copy.path()));
        let example = copy.path().join(name);
        let built = cache_folder().unwrap().join(GO_PROGRAM);
        if name == "extension-go" {
            assert!(built.is_file(), "`cargo xtask test clients` builds {}", built.display());
            fs::copy(built, example.join(program)).unwrap();
        }
        let images = example.join("images.yaml");
        let mut scene = Self {
            up: Up::start(&["--images", images.to_str().unwrap()]),
            name,
            type_,
            program: example.join(program),
            example,
            _copy: copy,
        };
        scene.surroundings().await;
        // The first project brings roles into the garden that stay.
        scene.up.remember().await;
        scene
    }

    fn kubectl(&self, part: &str, words: &[&str], input: &str) -> String {
        self.up.kubectl_in(Path::new(EXAMPLES), part, words, input)
    }

    /// Registers the extension as its README does.
    fn register(&self) {
        let manifests = run(Command::new("sh").arg(self.example.join("register.sh")));
        self.kubectl("garden", &["apply", "--server-side", "-f", "-"], &manifests);
    }

    /// Project, CloudProfile and credentials of the examples; the machine image is the extension's.
    async fn surroundings(&self) {
        self.kubectl("garden", &["apply", "-f", "10-project.yaml"], "");
        let is_ready = |project: &Value| (project["status"]["phase"] == "Ready").then_some(());
        self.until::<api_core::v1beta1::Project, _>(Api::all(self.garden()), "local", is_ready)
            .await;
        self.kubectl("garden", &["apply", "-f", "30-credentials.yaml"], "");
        let profile = fs::read_to_string(Path::new(EXAMPLES).join("20-cloudprofile.yaml")).unwrap();
        let profile = profile.replace("- name: local # also", &format!("- name: {} # also", self.type_));
        assert!(profile.contains(self.type_), "{profile}");
        self.kubectl("garden", &["apply", "-f", "-"], &profile);
    }

    /// The example Shoot with the extension and its machine image.
    fn apply_shoot(&self, provider_config: &Value) {
        let shoot = fs::read_to_string(Path::new(EXAMPLES).join("40-shoot.yaml")).unwrap();
        let mut shoot: Value = base_yaml::read_strict(&shoot).unwrap();
        shoot["spec"]["extensions"] = json!([{"type": self.type_, "providerConfig": provider_config}]);
        shoot["spec"]["provider"]["workers"][0]["machine"]["image"]["name"] = self.type_.into();
        self.kubectl("garden", &["apply", "-f", "-"], &shoot.to_string());
    }

    /// Waits until the newest generation of the Shoot has come to this state; its status.
    async fn shoot_is(&self, state: &str) -> Value {
        let judge = |shoot: &Value| {
            let status = &shoot["status"];
            let is_newest = status["observedGeneration"] == shoot["metadata"]["generation"];
            (is_newest && status["lastOperation"]["state"] == state).then(|| status.clone())
        };
        let shoots: Api<Shoot> = Api::namespaced(self.garden(), PROJECT);
        self.until(shoots, SHOOT, judge).await
    }

    async fn reconciled(&self) {
        let words = [
            "-n",
            PROJECT,
            "annotate",
            "shoot",
            SHOOT,
            "gardener.cloud/operation=reconcile",
        ];
        self.kubectl("garden", &words, "");
        self.shoot_is("Succeeded").await;
    }

    fn garden(&self) -> Client {
        self.up.garden.clone()
    }

    /// Objects beside the Shoot's control plane.
    fn beside<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
    {
        Api::namespaced(self.up.seed.clone(), TECHNICAL_ID)
    }

    /// The name of the installation, once it is healthy and rolled out.
    async fn installation(&self) -> String {
        let installations: Api<ControllerInstallation> = Api::all(self.garden());
        let found = installations.list(&ListParams::default()).await.unwrap();
        let is_ours = |one: &&ControllerInstallation| one.spec.registration_ref.name.as_deref() == Some(self.name);
        let name = found.iter().find(is_ours).map(ResourceExt::name_any).unwrap();
        let judge = |found: &Value| {
            let conditions = found["status"]["conditions"].as_array()?;
            let is = |type_: &str, status: &str| {
                conditions
                    .iter()
                    .any(|one| one["type"] == type_ && one["status"] == status)
            };
            (is("Healthy", "True") && is("Progressing", "False")).then_some(())
        };
        self.until(installations, &name, judge).await;
        name
    }

    /// Waits until an object is so.
    async fn until<K, T>(&self, api: Api<K>, name: &str, judge: impl Fn(&Value) -> Option<T>) -> T
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Serialize + Debug + Send + 'static,
    {
        let judge = |found: Option<&K>| {
            let found = serde_json::to_value(found).unwrap();
            match judge(&found) {
                Some(done) => WaitState::Done(done),
                None => WaitState::NotYet(format!("{found:#}")),
            }
        };
        let waited = wait_until(&api, name, PATIENCE, judge).await;
        waited.unwrap_or_else(|why| panic!("{why}\nthe extension printed:\n{}", self.log()))
    }

    /// What the programs of the extension have printed.
    fn log(&self) -> String {
        let of_all = format!("app={}", self.name);
        let of_registration = format!("controllerregistration.core.gardener.cloud/name={}", self.name);
        let words = ["get", "namespaces", "-o", "name", "-l", &of_registration];
        let namespaces = self.kubectl("seed", &words, "");
        let namespace = namespaces.trim().trim_start_matches("namespace/");
        let words = ["-n", namespace, "logs", "--prefix", "--tail=-1", "--selector", &of_all];
        self.kubectl("seed", &words, "")
    }

    /// The processes of the program.
    fn processes(&self) -> Vec<String> {
        let listed = run(Command::new("ps").args(["-A", "-ww", "-o", "pid=", "-o", "args="]));
        let is_ours = |line: &&str| {
            line.split_whitespace()
                .skip(1)
                .any(|word| Path::new(word) == self.program)
        };
        let pids = listed.lines().filter(is_ours);
        pids.map(|line| line.split_whitespace().next().unwrap().to_owned())
            .collect()
    }
}

/// What a command prints when it succeeds.
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {printed}");
    String::from_utf8(output.stdout).unwrap()
}

/// The whole life of an extension. What the Shoot has from it is verified by `has_it`, each time it has succeeded.
async fn lives(scene: &Scene, has_it: impl AsyncFn(&Scene)) {
    scene.register();
    scene.apply_shoot(&json!({}));
    scene.shoot_is("Succeeded").await;
    serves_both_kinds(scene, "1").await;
    has_it(scene).await;

    let installation = scene.installation().await;
    is_killed(scene, &installation).await;
    scene.reconciled().await;
    serves_both_kinds(scene, "1").await;

    upgrade(scene);
    let deployments: Api<Deployment> = Api::namespaced(scene.up.seed.clone(), &format!("extension-{installation}"));
    let is_new = |found: &Value| {
        let image = found["spec"]["template"]["spec"]["containers"][0]["image"].as_str()?;
        image.ends_with(":v1.1.0").then_some(())
    };
    scene.until(deployments, scene.name, is_new).await;
    assert_eq!(scene.installation().await, installation, "it is upgraded in its place");
    assert_eq!(scene.processes().len(), 1);
    scene.reconciled().await;
    serves_both_kinds(scene, "2").await;
}

/// The user data, the file of the operating system on machines, and the heartbeat.
async fn serves_both_kinds(scene: &Scene, release: &str) {
    let configs: Api<OperatingSystemConfig> = scene.beside();
    let configs = configs.list(&ListParams::default()).await.unwrap();
    let configs = serde_json::to_value(configs.items).unwrap();
    let of = |purpose: &str| {
        let found = configs.as_array().unwrap().iter();
        found.clone().find(|one| one["spec"]["purpose"] == purpose).unwrap()
    };
    let secret = &of("provision")["status"]["cloudConfig"]["secretRef"]["name"];
    let secrets: Api<Secret> = scene.beside();
    let secret = secrets.get(secret.as_str().unwrap()).await.unwrap();
    assert!(secret.data.unwrap().contains_key("cloud_config"));
    let file = &of("reconcile")["status"]["extensionFiles"][0];
    let text = format!("ID={}\nVERSION={release}\n", scene.type_);
    assert_eq!(file["content"]["inline"]["data"], text, "{file}");

    let leases: Api<Lease> = Api::all(scene.up.seed.clone());
    let leases = leases.list(&ListParams::default()).await.unwrap();
    let is_ours = |one: &Lease| one.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref()) == Some(scene.name);
    assert!(leases.iter().any(is_ours), "{:?}", leases.items);
}

/// `kill -9` of the program: another one runs in its pod.
async fn is_killed(scene: &Scene, installation: &str) {
    let before = scene.processes();
    assert_eq!(before.len(), 1, "one program runs");
    let pods: Api<Pod> = Api::namespaced(scene.up.seed.clone(), &format!("extension-{installation}"));
    let pod = pods.list(&ListParams::default()).await.unwrap().items.remove(0);
    run(Command::new("kill").args(["-9", &before[0]]));
    let is_back = |pod: &Value| {
        let status = &pod["status"]["containerStatuses"][0];
        (status["restartCount"].as_u64() >= Some(1) && status["ready"] == true).then_some(())
    };
    scene.until(pods, &pod.name_any(), is_back).await;
    assert_ne!(scene.processes(), before);
}

/// Another version of the chart, with another value.
fn upgrade(scene: &Scene) {
    let replace = |file: &str, from: &str, to: &str| {
        let path = scene.example.join(file);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{file}: {text}");
        fs::write(path, text.replace(from, to)).unwrap();
    };
    replace("chart/Chart.yaml", "1.0.0", "1.1.0");
    replace(
        "registration.yaml",
        "rawChart: CHART\n",
        "rawChart: CHART\n  values:\n    release: \"2\"\n",
    );
    scene.register();
}

/// Shoot and registration go, and all that the extension made with them.
async fn goes(scene: &Scene) {
    let words = [
        "-n",
        PROJECT,
        "annotate",
        "shoot",
        SHOOT,
        "confirmation.gardener.cloud/deletion=true",
    ];
    scene.kubectl("garden", &words, "");
    scene.kubectl("garden", &["-n", PROJECT, "delete", "shoot", SHOOT, "--wait=false"], "");
    let shoots: Api<Shoot> = Api::namespaced(scene.garden(), PROJECT);
    is_gone(scene, shoots, SHOOT).await;
    for kind in ["controllerregistration", "controllerdeployment"] {
        scene.kubectl("garden", &["delete", kind, scene.name, "--wait=false"], "");
    }
    is_gone(scene, Api::<ControllerRegistration>::all(scene.garden()), scene.name).await;
    is_gone(scene, Api::<ControllerDeployment>::all(scene.garden()), scene.name).await;
    scene.up.until_nothing_is_left().await;
    assert_eq!(scene.processes(), Vec::<String>::new());
}

async fn is_gone<K>(scene: &Scene, api: Api<K>, name: &str)
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let waited = gone(api, name).await;
    waited.unwrap_or_else(|why| panic!("{why}\nthe extension printed:\n{}", scene.log()));
}

/// Example 2 of Gardener's overview: flags, ConfigMap, volume and mount, in the Deployment and in the pod that runs.
async fn has_cloud_config(scene: &Scene, vpc: &str) {
    let deployment = scene.beside::<Deployment>().get(CONTROLLER_MANAGER).await.unwrap();
    let template = json!(deployment.spec.unwrap().template.spec);
    let of_pod = |pod: &Pod| pod.name_any().starts_with(CONTROLLER_MANAGER);
    let pods = scene.beside::<Pod>().list(&ListParams::default()).await.unwrap();
    let pod = pods.items.into_iter().find(of_pod).unwrap();
    assert!(
        json!(pod.status)["containerStatuses"][0]["ready"] == true,
        "{:?}",
        pod.status
    );
    for spec in [template, json!(pod.spec)] {
        let container = &spec["containers"][0];
        let words = container["command"].as_array().unwrap();
        for flag in CLOUD_FLAGS {
            assert_eq!(words.iter().filter(|word| *word == flag).count(), 1, "{words:?}");
        }
        let mounts = container["volumeMounts"].as_array().unwrap();
        let of_map =
            |path: &Value| path["name"] == CLOUD_CONFIG && path["mountPath"] == "/etc/kubernetes/cloudprovider";
        assert!(mounts.iter().any(of_map), "{mounts:?}");
        let volumes = spec["volumes"].as_array().unwrap();
        assert!(volumes.iter().any(|one| one["configMap"]["name"] == CLOUD_CONFIG));
    }
    let map = scene.beside::<ConfigMap>().get(CLOUD_CONFIG).await.unwrap();
    assert_eq!(json!(map.data)["cloudprovider.conf"], format!("[Global]\nVPC={vpc}\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_extension_in_go_carries_a_shoot_with_its_webhook_and_leaves_nothing() {
    let scene = Scene::start("extension-go", "example-go", "extension-go").await;
    lives(&scene, async |scene| has_cloud_config(scene, "vpc-1234").await).await;

    // What the user of the Shoot got wrong is the user's to mend.
    scene.apply_shoot(&json!({"vpc": "no vpc"}));
    let status = scene.shoot_is("Failed").await;
    let error = &status["lastErrors"][0];
    assert_eq!(error["codes"], json!(["ERR_CONFIGURATION_PROBLEM"]), "{status}");
    assert!(
        error["description"].as_str().unwrap().contains("providerConfig.vpc"),
        "{status}"
    );
    scene.apply_shoot(&json!({"vpc": "vpc-5"}));
    scene.shoot_is("Succeeded").await;
    has_cloud_config(&scene, "vpc-5").await;
    goes(&scene).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_extension_in_python_carries_a_shoot_and_leaves_nothing() {
    let scene = Scene::start("extension-python", "example-python", "main.py").await;
    lives(&scene, async |scene| {
        let map = scene.beside::<ConfigMap>().get("example-python").await.unwrap();
        assert_eq!(json!(map.data), json!({"greeting": "hello"}));
    })
    .await;
    goes(&scene).await;
}
