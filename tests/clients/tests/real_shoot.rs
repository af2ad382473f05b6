//! A Shoot whose control plane is real Kubernetes: `orangery up --images` runs the etcd, kube-apiserver, kube-controller-manager and
//! kube-scheduler of this machine by the manifests that gardenlet writes, and the real kubectl works with it. The
//! gardener-resource-managers of seed and Shoot are processes too: the program itself, with the configuration and the certificate
//! of their pods. Its nodes are provider-local's machines. Run by `cargo xtask test clients`, which builds and prepares what it
//! needs; `ORANGERY_KUBERNETES` names another folder with these programs, and `ORANGERY_KUBERNETES_VERSION` the Shoot's version
//! then.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test ends where its set-up fails, and prints what it measures"
)]

mod up;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use api_core::v1beta1::{Project, Shoot};
use base_client::{Judgement, wait_until};
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tests_kit::{cache_folder, fed};
use up::{Up, gone};

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
const PROJECT: &str = "garden-local";
const SHOOT: &str = "local";
const TECHNICAL_ID: &str = "shoot--local--local";
/// The images of the control plane that are real here.
const PROGRAMS: [&str; 4] = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"];
/// The network that the infrastructure reports for the nodes; the Shoot's spec names none.
const NODES: &str = "10.77.0.0/16";
/// Real programs on a slow machine: many times what they need.
const PATIENCE: Duration = Duration::from_secs(300);

/// Between two looks at the machine's processes: nothing tells of the end of another process' children.
const LOOK_PAUSE: Duration = Duration::from_millis(200);

/// A landscape with a Shoot of real programs.
struct Scene {
    up: Up,
    programs: PathBuf,
    _images: tempfile::TempDir,
}

impl Scene {
    async fn start() -> Self {
        let usual = || cache_folder().unwrap().join("real/kubernetes");
        let programs = env::var_os("ORANGERY_KUBERNETES").map_or_else(usual, PathBuf::from);
        let images = tempfile::tempdir().unwrap();
        let mut mapping = vec![json!({"image": "orangery", "command": [up::binary()]})];
        mapping.extend(PROGRAMS.map(|name| {
            let program = programs.join(name);
            assert!(
                program.is_file(),
                "`cargo xtask real kubernetes` builds {}",
                program.display()
            );
            json!({"image": name, "command": [program]})
        }));
        let file = images.path().join("images.yaml");
        fs::write(&file, json!({"images": mapping}).to_string()).unwrap();
        let mut scene = Self {
            up: Up::start(&["--images", file.to_str().unwrap()]),
            programs,
            _images: images,
        };
        scene.garden(&["apply", "-f", "10-project.yaml"], "");
        let is_ready = |project: &Value| (project["status"]["phase"] == "Ready").then_some(());
        until::<Project, _>(Api::all(scene.up.garden.clone()), "local", is_ready).await;
        for file in ["20-cloudprofile.yaml", "30-credentials.yaml"] {
            scene.garden(&["apply", "-f", file], "");
        }
        // The first project brings roles into the garden that stay.
        scene.up.remember().await;
        scene
    }

    fn garden(&self, words: &[&str], input: &str) -> String {
        self.up.kubectl_in(Path::new(EXAMPLES), "garden", words, input)
    }

    fn create_shoot(&self) {
        let shoot = fs::read_to_string(Path::new(EXAMPLES).join("40-shoot.yaml")).unwrap();
        let mut shoot: Value = base_yaml::read(&shoot).unwrap();
        if let Ok(version) = env::var("ORANGERY_KUBERNETES_VERSION") {
            shoot["spec"]["kubernetes"]["version"] = version.into();
        }
        shoot["spec"]["provider"]["infrastructureConfig"] = json!({
            "apiVersion": "local.provider.extensions.orangery.dev/v1alpha1", "kind": "InfrastructureConfig",
            "networks": {"nodes": NODES},
        });
        self.garden(&["apply", "-f", "-"], &shoot.to_string());
    }

    /// Waits until the newest generation of the Shoot has succeeded; its status.
    async fn succeeded(&self) -> Value {
        let judge = |shoot: &Value| {
            let status = &shoot["status"];
            let is_newest = status["observedGeneration"] == shoot["metadata"]["generation"];
            (is_newest && status["lastOperation"]["state"] == "Succeeded").then(|| status.clone())
        };
        until::<Shoot, _>(Api::namespaced(self.up.garden.clone(), PROJECT), SHOOT, judge).await
    }

    fn hibernate(&self, hibernated: bool) {
        let patch = json!({"spec": {"hibernation": {"enabled": hibernated}}}).to_string();
        self.garden(
            &["-n", PROJECT, "patch", "shoot", SHOOT, "--type=merge", "-p", &patch],
            "",
        );
    }

    /// Writes the kubeconfig that a user of the Shoot gets.
    fn write_kubeconfig(&self) {
        let shoot = format!("{PROJECT}/{SHOOT}");
        let mut command = Command::new(up::binary());
        command.args(["kubeconfig", "--data-dir"]).arg(self.up.folder.path());
        let output = command.args(["shoot", &shoot]).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        fs::write(self.up.kubeconfig("shoot"), output.stdout).unwrap();
    }

    fn shoot_output(&self, words: &[&str], input: &str) -> Output {
        let mut command = self.up.kubectl("shoot", words);
        fed(&mut command, input).unwrap()
    }

    fn shoot(&self, words: &[&str], input: &str) -> String {
        let output = self.shoot_output(words, input);
        assert!(output.status.success(), "kubectl {words:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    /// The processes of the programs.
    fn processes(&self) -> Vec<String> {
        let listed = Command::new("ps").args(["-A", "-ww", "-o", "args="]).output().unwrap();
        let folder = self.up.folder.path().display().to_string();
        let is_ours = |line: &&str| {
            let program = line.split_whitespace().next().unwrap_or_default();
            Path::new(program).parent() == Some(&self.programs)
                && !line.contains(&folder)
                && line.contains(TECHNICAL_ID)
        };
        text(&listed.stdout)
            .lines()
            .filter(is_ours)
            .map(str::to_owned)
            .collect()
    }

    /// Pods that end have some time left when the Shoot is hibernated: kube-apiserver finishes what it is at.
    fn until_no_program_runs(&self) {
        let began = Instant::now();
        loop {
            let running = self.processes();
            if running.is_empty() {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "still run: {running:?}");
            std::thread::sleep(LOOK_PAUSE);
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Waits until an object is so.
async fn until<K, T>(api: Api<K>, name: &str, judge: impl Fn(&Value) -> Option<T>) -> T
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Serialize + std::fmt::Debug + Send + 'static,
{
    let judge = |found: Option<&K>| {
        let found = serde_json::to_value(found).unwrap();
        match judge(&found) {
            Some(done) => Judgement::Done(done),
            None => Judgement::NotYet(format!("{found:#}")),
        }
    };
    wait_until(&api, name, PATIENCE, judge).await.unwrap()
}

/// Each container of the control plane that has a real image runs it.
async fn control_plane_is_real(scene: &Scene) {
    let pods: Api<Pod> = Api::namespaced(scene.up.seed.clone(), TECHNICAL_ID);
    let mut real = Vec::new();
    for pod in pods.list(&ListParams::default()).await.unwrap() {
        let spec = json!(pod.spec);
        let image = spec["containers"][0]["image"].as_str().unwrap_or_default().to_owned();
        let name = image.rsplit('/').next().and_then(|image| image.split(':').next());
        if let Some(name) = PROGRAMS.iter().find(|program| name == Some(**program)) {
            assert_eq!(
                json!(pod.status)["containerStatuses"][0]["ready"],
                true,
                "{:?}",
                pod.status
            );
            real.push(*name);
        }
    }
    real.sort_unstable();
    let expected = [
        "etcd",
        "etcd",
        "kube-apiserver",
        "kube-controller-manager",
        "kube-scheduler",
    ];
    assert_eq!(real, expected);
}

/// What a user does first.
fn kubectl_works(scene: &Scene) {
    let version: Value = serde_json::from_str(&scene.shoot(&["version", "-o", "json"], "")).unwrap();
    println!(
        "the Shoot's kube-apiserver is {}",
        version["serverVersion"]["gitVersion"]
    );
    assert_eq!(
        version["serverVersion"]["compiler"], "gc",
        "it is the program in Go: {version}"
    );
    scene.shoot(&["create", "configmap", "survivor", "--from-literal=a=1"], "");
    let applied = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"}, "data": {"b": "2"}});
    scene.shoot(&["apply", "--server-side", "-f", "-"], &applied.to_string());
    let words = [
        "get",
        "configmap",
        "applied",
        "-o",
        "jsonpath={.metadata.managedFields[0].operation}",
    ];
    assert_eq!(scene.shoot(&words, ""), "Apply");
}

/// kube-scheduler places a pod, the node runs it, and kube-apiserver reads its log from the node's kubelet.
fn a_pod_runs_and_its_log_is_read(scene: &Scene) {
    scene.shoot(
        &["wait", "node", "--all", "--for=condition=Ready", "--timeout=120s"],
        "",
    );
    let words = [
        "get",
        "nodes",
        "-o",
        "jsonpath={.items[*].status.addresses[?(@.type=='InternalIP')].address}",
    ];
    let addresses = scene.shoot(&words, "");
    assert!(
        addresses.starts_with("10.77."),
        "nodes lie in status.nodesCIDR: {addresses}"
    );
    scene.shoot(&["wait", "serviceaccount/default", "--for=create", "--timeout=60s"], "");
    scene.shoot(&["run", "web", "--image=example.org/web:v1"], "");
    scene.shoot(&["wait", "pod", "web", "--for=condition=Ready", "--timeout=120s"], "");
    let log = scene.shoot(&["logs", "web"], "");
    assert!(log.contains("example.org/web:v1"), "{log}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shoot_of_real_programs_lives_sleeps_and_goes() {
    let scene = Scene::start().await;
    let began = Instant::now();
    scene.create_shoot();
    let status = scene.succeeded().await;
    println!("created in {:.1} s", began.elapsed().as_secs_f64());
    let nodes = &status["networking"]["nodes"];
    assert!(nodes.to_string().contains(NODES), "{nodes}");
    control_plane_is_real(&scene).await;
    scene.write_kubeconfig();
    kubectl_works(&scene);
    a_pod_runs_and_its_log_is_read(&scene);

    let uid = ["get", "configmap", "survivor", "-o", "jsonpath={.metadata.uid}"];
    let before = scene.shoot(&uid, "");
    let began = Instant::now();
    scene.hibernate(true);
    scene.succeeded().await;
    println!("hibernated in {:.1} s", began.elapsed().as_secs_f64());
    scene.until_no_program_runs();
    assert!(!scene.shoot_output(&uid, "").status.success(), "no API server answers");
    let began = Instant::now();
    scene.hibernate(false);
    scene.succeeded().await;
    println!("woken in {:.1} s", began.elapsed().as_secs_f64());
    control_plane_is_real(&scene).await;
    assert_eq!(scene.shoot(&uid, ""), before, "data survives");

    let began = Instant::now();
    let confirmed = "confirmation.gardener.cloud/deletion=true";
    scene.garden(&["-n", PROJECT, "annotate", "shoot", SHOOT, confirmed], "");
    scene.garden(&["-n", PROJECT, "delete", "shoot", SHOOT, "--wait=false"], "");
    let shoots: Api<Shoot> = Api::namespaced(scene.up.garden.clone(), PROJECT);
    gone(shoots, SHOOT).await.unwrap();
    scene.up.until_nothing_is_left().await;
    println!("deleted in {:.1} s", began.elapsed().as_secs_f64());
    assert_eq!(scene.processes(), Vec::<String>::new());
}
