//! `orangery apiserver` and envtest's programs as processes: killed and started again, refused, stopped.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use base_client::{Connector, Https, WaitState, wait_until};
use base_clock::{Clock, Entropy};
use base_secrets::{Authority, CertificateSpec, Credential, Issued, KubeconfigSpec};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::Api;
use kube::api::PostParams;
use serde_json::json;
use tests_kit::free_port;

use crate::process::{Running, client_of, refusal};

/// Real time: many times what a slow machine needs.
const PATIENCE: Duration = Duration::from_secs(120);
const DAY: Duration = Duration::from_secs(24 * 3600);

#[tokio::test]
async fn objects_kubeconfig_and_tokens_survive_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = format!("--data-dir d --port {}", free_port().unwrap());
    let (first, line) = Running::apiserver(folder.path(), &arguments);
    let path = folder.path().join("d/admin.kubeconfig");
    assert!(
        line.contains(&format!("export KUBECONFIG={}", path.display())),
        "{line}"
    );
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let client = client_of(&path);
    let maps: Api<ConfigMap> = Api::namespaced(client, "default");
    let map = serde_json::from_value(json!({"metadata": {"name": "m"}, "data": {"k": "v"}})).unwrap();
    let made = maps.create(&PostParams::default(), &map).await.unwrap();
    first.kill();

    let before = std::fs::read(&path).unwrap();
    let (second, _) = Running::apiserver(folder.path(), &arguments);
    assert_ne!(
        std::fs::read(&path).unwrap(),
        before,
        "every start issues new certificates"
    );
    // The old one's, and on the same port.
    assert_eq!(maps.get("m").await.unwrap().metadata.uid, made.metadata.uid);
    second.stop();
}

#[tokio::test]
async fn with_a_node_pods_run_and_in_memory_nothing_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let (running, _) = Running::apiserver(folder.path(), "--data-dir d --memory --node --port 0");
    let client = client_of(&folder.path().join("d/admin.kubeconfig"));
    let deployments: Api<Deployment> = Api::namespaced(client, "default");
    let deployment = serde_json::from_value(json!({"metadata": {"name": "web"}, "spec": {
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}},
    }}))
    .unwrap();
    deployments.create(&PostParams::default(), &deployment).await.unwrap();
    wait_until(&deployments, "web", PATIENCE, |found| {
        match found.and_then(|found| found.status.as_ref()?.available_replicas) {
            Some(1) => WaitState::Done(()),
            other => WaitState::NotYet(format!("available: {other:?}")),
        }
    })
    .await
    .unwrap();
    running.stop();
    assert!(!folder.path().join("d/apiserver").exists());
}

#[test]
fn a_used_folder_or_port_is_named_with_a_way_out() {
    let folder = tempfile::tempdir().unwrap();
    let (running, line) = Running::apiserver(folder.path(), "--data-dir d --port 0");
    let port = line.split([':', ',']).nth(3).unwrap();
    let message = refusal(folder.path(), &format!("apiserver --data-dir other --port {port}"));
    assert!(
        message.starts_with(&format!("error: cannot listen on 127.0.0.1:{port}: ")) && message.contains("--port"),
        "{message}"
    );
    assert!(!folder.path().join("other").exists());
    let other = "hint: end that one, or name another folder with --data-dir";
    let message = refusal(folder.path(), "apiserver --data-dir d --port 0");
    assert_eq!(
        message.trim(),
        format!("error: the data folder d is in use by another `orangery apiserver`\n{other}")
    );
    running.stop();

    let another = "hint: name another folder with --data-dir";
    let message = refusal(folder.path(), "up --data-dir d --port 0");
    assert_eq!(
        message.trim(),
        format!("error: the data folder d holds the Kubernetes of an `orangery apiserver`\n{another}")
    );
    std::fs::create_dir_all(folder.path().join("l/state")).unwrap();
    std::fs::write(folder.path().join("l/state/format"), "{}").unwrap();
    let message = refusal(folder.path(), "apiserver --data-dir l --port 0");
    assert_eq!(
        message.trim(),
        format!("error: the data folder l holds a landscape of `orangery up`\n{another}")
    );
    std::fs::write(folder.path().join("file"), "").unwrap();
    let message = refusal(folder.path(), "apiserver --data-dir file --port 0");
    assert!(
        message.contains("file is a file") && message.contains("--data-dir"),
        "{message}"
    );
    std::fs::write(folder.path().join("d/apiserver/kubernetes/keys"), "{").unwrap();
    let message = refusal(folder.path(), "apiserver --data-dir d --port 0");
    assert!(message.contains("kubernetes/keys is damaged"), "{message}");
}

/// What envtest leaves in its folder of certificates; here one authority is all of them.
fn write_certificates(folder: &Path, authority: &Authority, serving: &Issued) {
    let (pem, key) = (authority.certificate_pem(), authority.key_pem());
    for (file, text) in [
        ("apiserver.crt", serving.certificate_pem().as_str()),
        ("apiserver.key", serving.key_pem().expose()),
        ("client-cert-auth-ca.crt", pem.as_str()),
        ("sa-signer.crt", pem.as_str()),
        ("sa-signer.key", key.expose()),
    ] {
        std::fs::write(folder.join(file), text).unwrap();
    }
}

#[tokio::test]
async fn envtest_finds_its_programs_and_a_server_that_knows_its_certificates() {
    let folder = tempfile::tempdir().unwrap();
    let assets = folder.path().join("assets");
    let write = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_orangery"));
        command.args(["apiserver", "--envtest-assets"]).arg(&assets);
        command.output().unwrap()
    };
    // Again, after an update of the program.
    assert!(write().status.success() && write().status.success());
    let help = Command::new(assets.join("etcd")).arg("--help").output().unwrap();
    assert!(help.status.success() && String::from_utf8_lossy(&help.stdout).contains("--unsafe-no-fsync"));

    let (clock, entropy) = (Clock::real(), Entropy::os());
    let authority = Authority::generate("envtest", &clock, &entropy).unwrap();
    let spec = CertificateSpec::server(
        "envtest",
        vec!["localhost".to_owned()],
        vec![[127, 0, 0, 1].into()],
        DAY,
    );
    let serving = authority.issue(&spec, &clock, &entropy).unwrap();
    write_certificates(folder.path(), &authority, &serving);
    let port = free_port().unwrap();
    let (port_flag, issuer) = (
        format!("--secure-port={port}"),
        format!("--service-account-issuer=https://127.0.0.1:{port}/"),
    );
    let flags = [
        "--allow-privileged=true",
        "--authorization-mode=RBAC",
        "--bind-address=127.0.0.1",
        "--cert-dir=.",
        "--client-ca-file=client-cert-auth-ca.crt",
        "--disable-admission-plugins=ServiceAccount",
        "--etcd-servers=http://127.0.0.1:1",
        &port_flag,
        "--service-account-key-file=sa-signer.crt",
        "--service-account-signing-key-file=sa-signer.key",
        &issuer,
        "--service-cluster-ip-range=10.0.0.0/24",
    ];
    let running = Running::start(&assets.join("kube-apiserver"), &flags, folder.path());
    let masters = CertificateSpec::client("default", &["system:masters"], DAY);
    let kubeconfig = base_secrets::kubeconfig(&KubeconfigSpec {
        name: "envtest".to_owned(),
        server: format!("https://127.0.0.1:{port}"),
        tls_server_name: None,
        authorities: authority.certificate_pem(),
        credential: Credential::Certificate(Box::new(authority.issue(&masters, &clock, &entropy).unwrap())),
        namespace: None,
    });
    let client = Https::new("test").client(&kubeconfig).unwrap();
    let answers = async { while client.apiserver_version().await.is_err() {} };
    tokio::time::timeout(PATIENCE, answers).await.unwrap();
    let pods: Api<Pod> = Api::namespaced(client, "default");
    let pod = serde_json::from_value(
        json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}),
    );
    let made = pods.create(&PostParams::default(), &pod.unwrap()).await.unwrap();
    assert_eq!(made.spec.unwrap().service_account_name, None);
    running.stop();
}
