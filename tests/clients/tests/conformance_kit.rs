//! `orangery conformance` as a person types it, against extensions that are processes beside `orangery apiserver`: the examples
//! in Go and in Python, and provider-fake on a cloud of another process. Each is killed with `kill -9` where the kit asks for it,
//! and a loop of the shell starts it again. Run by `cargo xtask test clients conformance-kit`, which builds what it needs.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends where its set-up fails")]

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Lines};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use base_client::{Connector, Https};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::PostParams;
use kube::config::Kubeconfig;
use kube::{Api, Client};
use serde_json::{Value, json};
use tempfile::TempDir;
use tests_kit::{cache_folder, free_port};

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
const FRAGMENTS_OF_FAKE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../extensions/provider-fake/conformance/infrastructure.yaml"
);
/// Where `cargo xtask` puts the program in Go, below the cache folder.
const GO_PROGRAM: &str = "real/clients/extension-go";
/// The extension's own namespace.
const NAMESPACE: &str = "extension-example";
/// Prints the ConfigMaps and Secrets that an example has made, from the API server of a kubeconfig.
const LIST_OBJECTS: &str = "
import os, sys
sys.path.insert(0, sys.argv[1])
from api import Client
client = Client(os.environ['KUBECONFIG'])
for kind in ('configmaps', 'secrets'):
    for found in client.call('GET', '/api/v1/' + kind)['items']:
        if found['metadata']['name'].startswith(('example-', 'osc-result-')):
            print(kind, found['metadata']['name'])
";
/// Prints what the page at an address holds.
const READ_PAGE: &str = "
import sys, urllib.request
print(urllib.request.urlopen(sys.argv[1]).read().decode())
";
/// Runs a program again and again, and writes its process id to a file.
const START_AGAIN: &str = "while true; do \"$@\" & echo $! > pid; wait $!; done";

const NO_STATE: &str = "the extension leaves no state";
const NO_WEBHOOKS: &str = "no configuration of webhooks of the extension was found";
const NO_SECONDARY: &str = "no kind and type was given that the extension is a secondary for (--secondary)";

/// A process and those that it has started; none outlives the test.
struct Running(Child);

impl Running {
    fn start(command: &mut Command) -> Self {
        Self(command.process_group(0).spawn().unwrap())
    }

    fn lines(&mut self) -> Lines<BufReader<ChildStdout>> {
        BufReader::new(self.0.stdout.take().unwrap()).lines()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let group = format!("-{}", self.0.id());
        // They may have ended already.
        let _ = Command::new("kill").args(["-9", "--", &group]).output();
        let _ = self.0.wait();
    }
}

/// A bare Kubernetes with the definitions of Gardener's kinds, and an extension beside it.
struct Scene {
    folder: TempDir,
    _server: Running,
    _extension: Running,
    /// What the extension may need all the time.
    _beside: Option<Running>,
}

/// The program of that name, beside this test.
fn built(name: &str) -> PathBuf {
    let here = std::env::current_exe().unwrap();
    let mut found = here.ancestors().skip(1).take(2).map(|folder| folder.join(name));
    let program = found.find(|path| path.is_file());
    program.unwrap_or_else(|| panic!("`cargo xtask test clients conformance-kit` builds {name}"))
}

impl Scene {
    async fn start(extension: &[&str], beside: Option<Running>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut server = Command::new(built("orangery"));
        server.args(["apiserver", "--memory", "--port", "0", "--data-dir"]);
        let mut server = Running::start(server.arg(folder.path()).stdout(Stdio::piped()));
        let is_ready = |line: &str| line.starts_with("ready: ");
        assert!(
            server.lines().any(|line| is_ready(&line.unwrap())),
            "it ended before it was ready"
        );
        let kubeconfig = folder.path().join("admin.kubeconfig");
        let client = Https::new("test").client(&Kubeconfig::read_from(&kubeconfig).unwrap());
        create_surroundings(&client.unwrap()).await;
        let log = File::create(folder.path().join("log")).unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", START_AGAIN, "sh"]).args(extension);
        command
            .current_dir(folder.path())
            .env("KUBECONFIG", kubeconfig)
            .stdout(log.try_clone().unwrap())
            .stderr(log);
        Self {
            _extension: Running::start(&mut command),
            folder,
            _server: server,
            _beside: beside,
        }
    }

    /// Runs the kit. What it reports, when no rule is broken; `skipped` are all rules that are, with their reasons.
    fn passes(&self, words: &[&str], fragments: &str, skipped: &[(&str, &str)]) -> Value {
        let (config, junit) = (
            self.folder.path().join("config.yaml"),
            self.folder.path().join("junit.xml"),
        );
        fs::write(&config, fragments).unwrap();
        let mut command = Command::new(built("orangery"));
        command.args([
            "conformance",
            "--output",
            "json",
            "--kubeconfig",
            "admin.kubeconfig",
            "--config",
        ]);
        command.arg(&config).arg("--junit").arg(&junit);
        // Long enough for a look at what is left alone, and no longer.
        command.args([
            "--patience",
            "2",
            "--heartbeat",
            NAMESPACE,
            "--kill",
            "kill -9 $(cat pid)",
        ]);
        let output = command.args(words).current_dir(self.folder.path()).output().unwrap();
        let printed = String::from_utf8_lossy(&output.stdout);
        let log = fs::read_to_string(self.folder.path().join("log")).unwrap();
        assert!(
            output.status.success(),
            "{printed}\n{}\nthe extension printed:\n{log}",
            String::from_utf8_lossy(&output.stderr)
        );
        let report: Value = serde_json::from_str(&printed).unwrap();
        let rules = report["rules"].as_array().unwrap().iter();
        let found: Vec<(&str, &str)> = rules
            .filter(|rule| rule["outcome"] == "skipped")
            .map(|rule| (rule["id"].as_str().unwrap(), rule["reason"].as_str().unwrap()))
            .collect();
        assert_eq!(found, skipped, "{report:#}");
        assert_eq!(report["leftBehind"], Value::Null, "{report:#}");
        assert!(fs::read_to_string(junit).unwrap().contains("failures=\"0\""));
        report
    }
}

async fn create_surroundings(client: &Client) {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    for definition in api_extensions::crds() {
        definitions.create(&PostParams::default(), &definition).await.unwrap();
    }
    let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": NAMESPACE}})).unwrap();
    let namespaces: Api<Namespace> = Api::all(client.clone());
    namespaces.create(&PostParams::default(), &namespace).await.unwrap();
}

/// A command for the kit that runs a piece of Python.
fn python(folder: &Path, text: &str, argument: &str) -> String {
    let file = folder.join("check.py");
    fs::write(&file, text).unwrap();
    format!("KUBECONFIG=admin.kubeconfig python3 -B {} {argument}", file.display())
}

/// Both kinds of an example. `refused`: a providerConfig of its Extension that it has to refuse.
fn both_kinds_pass(scene: &Scene, type_: &str, refused: &str, without: &[(&str, &str)]) {
    let listing = python(
        scene.folder.path(),
        LIST_OBJECTS,
        &format!("{EXAMPLES}/operator-python"),
    );
    let skipped = [
        &[
            ("secondary-writes-conditions-only", NO_SECONDARY),
            ("migrate-leaves-state", NO_STATE),
            ("restore-keeps-state", NO_STATE),
        ],
        without,
    ]
    .concat();
    for (kind, fragments) in [
        ("Extension", format!("badSpec: {{providerConfig: {refused}}}")),
        (
            "OperatingSystemConfig",
            "{spec: {purpose: provision}, changedSpec: {units: []}, badSpec: {files: [{path: /a, content: {}}]}}"
                .to_owned(),
        ),
    ] {
        let words = ["--kind", kind, "--type", type_, "--cloud-check", &listing];
        scene.passes(&words, &fragments, &skipped);
    }
}

#[tokio::test]
async fn the_example_in_go_breaks_no_rule() {
    let program = cache_folder().unwrap().join(GO_PROGRAM);
    let port = free_port().unwrap();
    let (port, url) = (
        format!("--webhook-port={port}"),
        format!("--webhook-url=https://127.0.0.1:{port}"),
    );
    let namespace = format!("--namespace={NAMESPACE}");
    let words = [
        program.to_str().unwrap(),
        &namespace,
        &port,
        &url,
        "--webhook-provider=conformance",
        "--health-address=0",
        "--metrics-address=0",
    ];
    let scene = Scene::start(&words, None).await;
    both_kinds_pass(&scene, "example-go", "{vpc: nowhere}", &[]);
}

#[tokio::test]
async fn the_example_in_python_breaks_no_rule() {
    let program = format!("{EXAMPLES}/extension-python/main.py");
    let (namespace, port) = (
        format!("--namespace={NAMESPACE}"),
        format!("--health-port={}", free_port().unwrap()),
    );
    // Neither packages beside the standard library nor files of byte code beside the sources.
    let words = ["python3", "-E", "-S", "-B", &program, &namespace, &port];
    let scene = Scene::start(&words, None).await;
    let without = [
        ("webhooks-answer", NO_WEBHOOKS),
        ("webhooks-spare-other-providers", NO_WEBHOOKS),
    ];
    both_kinds_pass(&scene, "example-python", "{greeting: 5}", &without);
}

#[tokio::test]
async fn provider_fake_breaks_no_rule_on_the_cloud_of_another_process() {
    let mut cloud = Command::new(built("fake-cloud"));
    cloud.args(["--listen", "127.0.0.1:0", "--keys", "id:secret", "--list-lag", "1"]);
    let mut cloud = Running::start(cloud.stdout(Stdio::piped()));
    let url = cloud.lines().next().unwrap().unwrap();
    let url = url.strip_prefix("url: ").unwrap();
    let program = built("provider-fake");
    let words = [
        program.to_str().unwrap(),
        "--cloud-url",
        url,
        "--namespace",
        NAMESPACE,
        // No Service leads to a program beside the API server.
        "--disable-webhooks",
        "--health-bind-address=0",
        "--metrics-bind-address=0",
    ];
    let scene = Scene::start(&words, Some(cloud)).await;
    let keys = scene.folder.path().join("keys.yaml");
    let secret = "apiVersion: v1\nkind: Secret\nstringData: {accessKeyID: id, secretAccessKey: secret}\n";
    fs::write(&keys, secret).unwrap();
    let held = python(scene.folder.path(), READ_PAGE, &format!("{url}/held"));
    let words = [
        "--kind",
        "Infrastructure",
        "--type",
        "fake",
        "--credentials",
        keys.to_str().unwrap(),
        "--cloud-check",
        &held,
    ];
    let skipped = [
        ("secondary-writes-conditions-only", NO_SECONDARY),
        ("webhooks-answer", NO_WEBHOOKS),
        ("webhooks-spare-other-providers", NO_WEBHOOKS),
    ];
    scene.passes(&words, &fs::read_to_string(FRAGMENTS_OF_FAKE).unwrap(), &skipped);
}
