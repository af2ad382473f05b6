//! The real binary with programs on disk as images.

use std::fs;
use std::path::Path;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::Api;
use kube::api::PostParams;
use landscape_data_folder::kubeconfig;
use serde_json::json;
use tests_kit::free_port;

use crate::process::{Running, client_of};

/// Real time: many times what a slow machine needs.
const PATIENCE: Duration = Duration::from_secs(60);

/// Whether a process of this machine runs a script.
fn runs(script: &Path) -> bool {
    let script = script.to_str().unwrap().as_bytes();
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let mut lines = processes.filter_map(|process| fs::read(process.path().join("cmdline")).ok());
    lines.any(|line| line.split(|byte| *byte == 0).any(|word| word == script))
}

async fn until(what: &str, seen: impl Fn() -> bool) {
    let waiting = async {
        while !seen() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let waited = tokio::time::timeout(PATIENCE, waiting).await;
    assert!(waited.is_ok(), "it is not so that {what}");
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_end_with_a_killed_process_and_come_back_with_the_next() {
    let (folder, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let script = folder.path().join("app.sh");
    fs::write(&script, "while :; do sleep 1; done").unwrap();
    let images = folder.path().join("images.yaml");
    fs::write(&images, "images: [{image: acme/*, command: [sh, ./app.sh]}]").unwrap();
    let more = ["--images", images.to_str().unwrap()];
    let port = free_port().unwrap();
    let mut up = Running::up(data.path(), port, &more);
    up.until("ready:");
    let seed = client_of(&kubeconfig::path(data.path(), "seed"));
    let namespaces: Api<Namespace> = Api::all(seed.clone());
    let namespace = serde_json::from_value(json!({"metadata": {"name": "demo"}})).unwrap();
    namespaces.create(&PostParams::default(), &namespace).await.unwrap();
    let pods: Api<Pod> = Api::namespaced(seed.clone(), "demo");
    let container = json!({"name": "c", "image": "acme/app:v1"});
    let spec = json!({"containers": [container], "terminationGracePeriodSeconds": 1});
    let pod = serde_json::from_value(json!({"metadata": {"name": "app"}, "spec": spec})).unwrap();
    let creating = async {
        // It is refused before the namespace has a service account.
        while pods.create(&PostParams::default(), &pod).await.is_err() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, creating).await.unwrap();
    until("the program runs", || runs(&script)).await;

    up.kill();
    until("the program has ended", || !runs(&script)).await;

    let mut up = Running::up(data.path(), port, &more);
    up.until("ready:");
    until("the program runs again", || runs(&script)).await;
    up.stop();
    assert!(!runs(&script), "it ends in order as well");
}

#[test]
fn an_image_file_that_is_wrong_is_refused_before_anything_starts() {
    let folder = tempfile::tempdir().unwrap();
    let images = folder.path().join("images.yaml");
    fs::write(&images, "images: [{image: acme/*, comand: [./app]}]").unwrap();
    let message = std::process::Command::new(env!("CARGO_BIN_EXE_orangery"))
        .args(["up", "--port", "0", "--memory", "--images"])
        .arg(&images)
        .arg("--data-dir")
        .arg(folder.path().join("data"))
        .output()
        .unwrap();
    let error = String::from_utf8(message.stderr).unwrap();
    let expected = "images[0] has a field \"comand\"; known are image, command, args, env, workingDir";
    assert!(!message.status.success() && error.contains(expected), "{error}");
}
