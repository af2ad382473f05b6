//! A Shoot whose control plane is real Kubernetes: `orangery up --images` runs the etcd, kube-apiserver, kube-controller-manager and
//! kube-scheduler of this machine by the manifests that gardenlet writes, and the real kubectl works with it. The
//! gardener-resource-managers of seed and Shoot are processes too: the program itself, with the configuration and the certificate
//! of their pods. Its nodes are provider-local's machines. Run by `cargo xtask test clients`, which builds and prepares what it
//! needs; `ORANGERY_KUBERNETES` names another folder with these programs, and `ORANGERY_KUBERNETES_VERSION` the Shoot's version
//! then. The tunnel from kube-apiserver to nodes is konnectivity's, by the manifests that gardenlet writes; `ORANGERY_KONNECTIVITY`
//! names a folder with its proxy-server and proxy-agent, and without it a stand-in of this package runs in their place.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test ends where its set-up fails, and prints what it measures"
)]

mod up;

use std::env;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use api_core::v1beta1::{Project, Shoot};
use base_client::{WaitState, wait_until};
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
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
/// The two ends of the tunnel, and what the stand-in is called as.
const TUNNEL: [(&str, &str); 2] = [("proxy-server", "server"), ("proxy-agent", "agent")];
/// The port of health of the tunnel's agent.
const AGENT_HEALTH: u16 = 8134;
/// The network that the infrastructure reports for the nodes; the Shoot's spec names none.
const NODES: &str = "10.77.0.0/16";
/// Real programs on a slow machine: many times what they need.
const PATIENCE: Duration = Duration::from_secs(300);

/// Between two looks at the machine's processes: nothing tells of the end of another process' children.
const LOOK_PAUSE: Duration = Duration::from_millis(200);

/// How kube-apiserver reaches the nodes of its Shoot.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Nodes {
    Direct,
    Tunnelled,
}

/// A landscape with a Shoot of real programs.
struct Scene {
    up: Up,
    programs: PathBuf,
    _images: tempfile::TempDir,
}

impl Scene {
    async fn start(nodes: Nodes) -> Self {
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
        if nodes == Nodes::Tunnelled {
            mapping.extend(TUNNEL.map(|(name, role)| json!({"image": name, "command": end_of_tunnel(name, role)})));
        }
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
        // The seed's gardener-resource-manager is a process of its own, and may be slow.
        let webhooks = Api::<MutatingWebhookConfiguration>::all(scene.up.seed.clone());
        until(webhooks, "gardener-resource-manager", |found| {
            (!found.is_null()).then_some(())
        })
        .await;
        // The first project brings roles into the garden that stay.
        scene.up.remember().await;
        scene
    }

    fn garden(&self, words: &[&str], input: &str) -> String {
        self.up.kubectl_in(Path::new(EXAMPLES), "garden", words, input)
    }

    fn create_shoot(&self) {
        let shoot = fs::read_to_string(Path::new(EXAMPLES).join("40-shoot.yaml")).unwrap();
        let mut shoot: Value = base_yaml::read_strict(&shoot).unwrap();
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

    /// The pod of the tunnel's agent.
    fn agent(&self) -> String {
        let words = [
            "-n",
            "kube-system",
            "get",
            "pod",
            "-l",
            "app=vpn-shoot",
            "-o",
            "jsonpath={.items[*].metadata.name}",
        ];
        self.shoot(&words, "")
    }

    /// How many connections kube-apiserver has opened through the tunnel.
    fn dials(&self) -> u64 {
        let metrics = self.shoot(&["get", "--raw", "/metrics"], "");
        let counts = metrics.lines().filter_map(|line| {
            let rest = line.strip_prefix("apiserver_egress_dialer_dial_duration_seconds_count{")?;
            rest.split_whitespace().next_back()?.parse::<u64>().ok()
        });
        counts.sum()
    }

    fn scale_server(&self, replicas: u32) {
        let replicas = format!("--replicas={replicas}");
        let words = ["-n", TECHNICAL_ID, "scale", "deployment", "vpn-seed-server", &replicas];
        self.up.kubectl_in(Path::new(EXAMPLES), "seed", &words, "");
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

/// The command of an end of the tunnel.
fn end_of_tunnel(name: &str, role: &str) -> Vec<String> {
    match env::var_os("ORANGERY_KONNECTIVITY") {
        Some(folder) => vec![PathBuf::from(folder).join(name).display().to_string()],
        None => vec![env!("CARGO_BIN_EXE_tunnel-stand-in").to_owned(), role.to_owned()],
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
            Some(done) => WaitState::Done(done),
            None => WaitState::NotYet(format!("{found:#}")),
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

/// What reaches nodes, pods and Services goes through the tunnel: kube-apiserver counts it, and nothing works without it.
async fn everything_passes_the_tunnel(scene: &Scene) {
    let agent = scene.agent();
    let of_agent = ["-n", "kube-system", "get", "pod", &agent, "-o", "json"];
    let pod: Value = serde_json::from_str(&scene.shoot(&of_agent, "")).unwrap();
    let annotations = &pod["metadata"]["annotations"];
    assert!(
        !annotations.to_string().contains("simulated"),
        "a program runs: {annotations}"
    );
    let before = scene.dials();
    assert!(before > 0, "the log of before came through the tunnel");

    let hosts = scene.shoot(&["-n", "kube-system", "exec", &agent, "--", "cat", "/etc/hosts"], "");
    assert!(
        hosts.contains(&format!("vpn-seed-server.{TECHNICAL_ID}.svc")),
        "{hosts}"
    );
    let pods = "/api/v1/namespaces/kube-system/pods";
    let of_pod = format!("{pods}/{agent}:{AGENT_HEALTH}/proxy/healthz");
    assert_eq!(scene.shoot(&["get", "--raw", &of_pod], ""), "ok");
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "agent", "namespace": "kube-system"},
        "spec": {"selector": {"app": "vpn-shoot"}, "ports": [{"port": 80, "targetPort": AGENT_HEALTH}]}});
    scene.shoot(&["apply", "-f", "-"], &service.to_string());
    let of_service = "/api/v1/namespaces/kube-system/services/agent:80/proxy/healthz";
    let began = Instant::now();
    // Its EndpointSlice is made by kube-controller-manager.
    while scene.shoot_output(&["get", "--raw", of_service], "").stdout != b"ok" {
        assert!(began.elapsed() < PATIENCE, "the Service is not reached");
        std::thread::sleep(LOOK_PAUSE);
    }
    scene.shoot(&["-n", "kube-system", "delete", "service", "agent"], "");
    a_port_is_forwarded(scene, &agent);
    let after = scene.dials();
    println!("{after} connections through the tunnel");
    assert!(after >= before + 2, "pod and Service: {before}, then {after}");

    scene.scale_server(0);
    let words = ["logs", "web", "--request-timeout=30s"];
    let began = Instant::now();
    let refused = loop {
        let output = scene.shoot_output(&words, "");
        if !output.status.success() {
            break text(&output.stderr);
        }
        assert!(began.elapsed() < PATIENCE, "logs come without the tunnel");
        std::thread::sleep(LOOK_PAUSE);
    };
    println!("without the server: {}", refused.trim());
    let is_named = |shoot: &Value| {
        let conditions = shoot["status"]["conditions"].as_array()?;
        let found = conditions.iter().find(|one| one["type"] == "SystemComponentsHealthy")?;
        let message = found["message"].as_str().unwrap_or_default();
        (found["status"] != "True" && message.contains("vpn-shoot")).then(|| message.to_owned())
    };
    let shoots: Api<Shoot> = Api::namespaced(scene.up.garden.clone(), PROJECT);
    println!("the Shoot says: {}", until(shoots, SHOOT, is_named).await);
    scene.scale_server(1);
    let began = Instant::now();
    while !scene.shoot_output(&words, "").status.success() {
        assert!(began.elapsed() < PATIENCE, "the agent does not come back");
        std::thread::sleep(LOOK_PAUSE);
    }
    println!("logs again after {:.1} s", began.elapsed().as_secs_f64());
}

/// `kubectl port-forward` to the agent itself.
fn a_port_is_forwarded(scene: &Scene, agent: &str) {
    let pod = format!("pod/{agent}");
    let ports = format!(":{AGENT_HEALTH}");
    let mut command = scene
        .up
        .kubectl("shoot", &["-n", "kube-system", "port-forward", &pod, &ports]);
    let child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut forwarding = up::Running(child);
    let mut lines = BufReader::new(forwarding.0.stdout.take().unwrap()).lines();
    let first = lines.next().expect("kubectl says where it listens").unwrap();
    let port = first.split("127.0.0.1:").nth(1).and_then(|rest| rest.split(' ').next());
    let port: u16 = port.expect("it names its port").parse().unwrap();
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let request = "GET /healthz HTTP/1.1\r\nHost: agent\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("ok"), "{answer}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kube_apiserver_reaches_nodes_directly_without_a_tunnel() {
    let scene = Scene::start(Nodes::Direct).await;
    scene.create_shoot();
    scene.succeeded().await;
    scene.write_kubeconfig();
    a_pod_runs_and_its_log_is_read(&scene);
    assert_eq!((scene.agent(), scene.dials()), (String::new(), 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shoot_of_real_programs_lives_sleeps_and_goes() {
    let scene = Scene::start(Nodes::Tunnelled).await;
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
    everything_passes_the_tunnel(&scene).await;

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
    let agent = scene.agent();
    scene.shoot(&["-n", "kube-system", "logs", &agent], "");
    assert!(scene.dials() > 0, "the tunnel is back");

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
