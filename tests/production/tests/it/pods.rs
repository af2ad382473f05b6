//! Starts the program of a Deployment as a process, with what a kubelet would give its pod: the files of its ConfigMaps and
//! Secrets, its arguments, and a token of its service account. There is no container runtime, so that paths of volumes are
//! replaced by folders, and ports by free ones.

use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tests_parts::free_port;
use tests_production::local as listen_at;
use tests_production::process::Running;

use crate::shell::Shell;

/// The program of a Deployment that runs.
pub(crate) struct Pod {
    /// The process.
    pub(crate) running: Running,
    /// Where it serves its API or its webhooks, if it does.
    pub(crate) port: u16,
}

/// A volume: its folder here, and where the container finds it.
struct Mounted {
    folder: PathBuf,
    path: String,
}

/// Starts the one of this namespace. `kubeconfig` is a file of the shell with which the cluster is reached.
pub(crate) fn start(shell: &Shell, kubeconfig: &str, namespace: &str, deployment: &str) -> Pod {
    let get = |kind: &str, name: &str| -> Value {
        let flags = format!("--kubeconfig {kubeconfig} --namespace {namespace} --output json");
        serde_json::from_str(&shell.run(&format!("kubectl get {kind} {name} {flags}"))).unwrap()
    };
    let found = get("deployment", deployment);
    let spec = &found["spec"]["template"]["spec"];
    let container = &spec["containers"][0];
    let (port, health) = (free_port().unwrap(), free_port().unwrap());
    let mut mounts = Vec::new();
    for mount in container["volumeMounts"].as_array().unwrap() {
        let mut volumes = spec["volumes"].as_array().unwrap().iter();
        let volume = volumes.find(|volume| volume["name"] == mount["name"]).unwrap();
        let folder = shell.path(&format!("pod-{deployment}-{}", mount["name"].as_str().unwrap()));
        // It is there when the pod is started again.
        std::fs::create_dir_all(&folder).unwrap();
        for (name, bytes) in files(volume, &get) {
            std::fs::write(folder.join(name), bytes).unwrap();
        }
        let path = mount["mountPath"].as_str().unwrap().to_owned();
        mounts.push(Mounted { folder, path });
    }
    for mount in &mounts {
        rewrite(mount, &mounts, port, health);
    }
    let token = token(
        shell,
        kubeconfig,
        namespace,
        spec["serviceAccountName"].as_str().unwrap(),
    );
    let arguments = container["args"].as_array().unwrap().iter();
    let mut arguments: Vec<String> = arguments
        .map(|argument| local(argument.as_str().unwrap(), &mounts))
        .map(|argument| match argument.starts_with("--secure-port=") {
            true => format!("--secure-port={port}"),
            false => argument,
        })
        .collect();
    arguments.push(format!("--kubeconfig={}", token.display()));
    if deployment == "garden-apiserver" {
        arguments.push("--bind-address=127.0.0.1".to_owned());
    }
    let running = Running::start(&shell.path("."), deployment, &arguments);
    Pod { running, port }
}

/// The files of a volume.
fn files(volume: &Value, get: &impl Fn(&str, &str) -> Value) -> Vec<(String, Vec<u8>)> {
    let (data, items) = if let Some(name) = volume["configMap"]["name"].as_str() {
        let data = get("configmap", name)["data"].clone();
        (
            texts(&data, |text| text.as_bytes().to_vec()),
            &volume["configMap"]["items"],
        )
    } else if let Some(name) = volume["secret"]["secretName"].as_str() {
        let data = get("secret", name)["data"].clone();
        (
            texts(&data, |text| STANDARD.decode(text).unwrap()),
            &volume["secret"]["items"],
        )
    } else {
        (Vec::new(), &Value::Null)
    };
    let Some(items) = items.as_array() else {
        return data;
    };
    let items = items.iter().map(|item| {
        let (_, bytes) = data.iter().find(|(name, _)| item["key"] == **name).unwrap();
        (item["path"].as_str().unwrap().to_owned(), bytes.clone())
    });
    items.collect()
}

fn texts(data: &Value, bytes: impl Fn(&str) -> Vec<u8>) -> Vec<(String, Vec<u8>)> {
    let items = data.as_object().into_iter().flatten();
    items
        .map(|(name, text)| (name.clone(), bytes(text.as_str().unwrap())))
        .collect()
}

/// Lets a configuration name folders and ports of this machine.
fn rewrite(mount: &Mounted, all: &[Mounted], port: u16, health: u16) {
    let path = mount.folder.join("config.yaml");
    let Ok(text) = std::fs::read_to_string(&path) else {
        return;
    };
    let mut config: Value = base_yaml::read_strict(&local(&text, all)).unwrap();
    let server = &mut config["server"];
    server["healthProbes"] = listen_at(health);
    server["metrics"] = listen_at(health);
    if server["webhooks"].is_object() {
        server["webhooks"]["port"] = json!(port);
        server["webhooks"]["bindAddress"] = json!("127.0.0.1");
        let certificates = &mut server["webhooks"]["tls"]["serverCertDir"];
        let mounted = all.iter().find(|mount| *certificates == *mount.path);
        *certificates = json!(mounted.unwrap().folder);
    }
    std::fs::write(path, config.to_string()).unwrap();
}

/// A text with folders of this machine in place of the container's.
fn local(text: &str, mounts: &[Mounted]) -> String {
    let mut text = text.to_owned();
    for Mounted { folder, path } in mounts {
        text = text.replace(&format!("{path}/"), &format!("{}/", folder.display()));
    }
    text
}

/// A kubeconfig with a token of this service account.
fn token(shell: &Shell, kubeconfig: &str, namespace: &str, account: &str) -> PathBuf {
    let file = format!("{kubeconfig}.{account}");
    shell.run(&format!(
        "kubectl config view --raw --minify --flatten --kubeconfig {kubeconfig} > {file}
kubectl config unset users --kubeconfig {file}
TOKEN=$(kubectl create token {account} --namespace {namespace} --kubeconfig {kubeconfig})
kubectl config set-credentials {account} --token \"$TOKEN\" --kubeconfig {file}
kubectl config set-context --current --user {account} --kubeconfig {file}
unset TOKEN"
    ));
    shell.path(&file)
}
