//! What `orangery garden-apiserver` refuses to start with, and what it prints then.

use std::time::Duration;

use cluster_store::{Key, Object, Store};
use cluster_store_etcd::{EtcdOptions, EtcdStore};
use tests_conformance::real::Options;
use tests_production::garden::Garden;
use tests_production::process::Running;

/// What it prints when it ends at once.
fn refusal(garden: &Garden, name: &str, arguments: &[String]) -> String {
    let (status, output) = Running::start(garden.folder.path(), name, arguments).ended();
    assert!(!status.success(), "{output}");
    output
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flags_and_files_that_cannot_be_used_end_it_with_a_sentence() {
    let garden = Garden::start(Options::default()).await;
    let with = |name: &str, more: &[&str]| refusal(&garden, name, &garden.arguments(1, more));
    garden.write_certificate("expired", Duration::ZERO);
    garden.write_certificate("other", Duration::from_secs(3600));
    let file = |name: &str| garden.path(name).display().to_string();
    let pair = |certificate: &str, key: &str| {
        let mut arguments = garden.arguments(1, &[]);
        arguments.retain(|word| !word.starts_with("--tls-"));
        arguments.push(format!("--tls-cert-file={}", file(certificate)));
        arguments.push(format!("--tls-private-key-file={}", file(key)));
        arguments
    };
    let output = refusal(&garden, "expired", &pair("expired.crt", "expired.key"));
    assert!(output.contains("expired.crt of --tls-cert-file expired at"), "{output}");
    let output = refusal(&garden, "missing", &pair("no.crt", "tls.key"));
    assert!(
        output.contains("cannot read") && output.contains("no.crt of --tls-cert-file"),
        "{output}"
    );
    let output = refusal(&garden, "mixed", &pair("other.crt", "tls.key"));
    assert!(
        output.contains("--tls-cert-file and --tls-private-key-file cannot be used together"),
        "{output}"
    );
    let output = refusal(&garden, "key", &pair("tls.key", "tls.key"));
    assert!(output.contains("--tls-cert-file cannot be read"), "{output}");

    std::fs::write(garden.path("wrong.yaml"), "kind: ConfigMap\napiVersion: v1\n").unwrap();
    let wrong = format!("--admission-control-config-file={}", file("wrong.yaml"));
    assert!(with("admission", &[&wrong]).contains("wrong.yaml of --admission-control-config-file cannot be used"));
    let output = with("plugin", &["--disable-admission-plugins=ShootDns"]);
    assert!(output.contains("did you mean ShootDNS?"), "{output}");
    assert!(with("encryption", &["--encryption-provider-config=f"]).contains("--encryption-provider-config"));
    let output = with("headers", &["--requestheader-allowed-names=a"]);
    assert!(output.contains("--requestheader-client-ca-file"), "{output}");
    let output = with("ca", &[&format!("--client-ca-file={}", file("tls.key"))]);
    assert!(output.contains("client certificates"), "{output}");

    let mut arguments = garden.arguments(1, &[]);
    arguments.retain(|word| !word.starts_with("--kubeconfig"));
    let output = refusal(&garden, "pod", &arguments);
    assert!(
        output.contains("this is no pod") && output.contains("--kubeconfig"),
        "{output}"
    );
    let mut arguments = garden.arguments(1, &[]);
    arguments.retain(|word| !word.starts_with("--etcd-servers"));
    assert!(refusal(&garden, "no-etcd", &arguments).contains("--etcd-servers"));
    arguments.push("--etcd-servers=http://127.0.0.1:1".to_owned());
    let output = refusal(&garden, "lost-etcd", &arguments);
    assert!(output.contains("--etcd-servers http://127.0.0.1:1"), "{output}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prefix_of_another_program_is_refused() {
    let garden = Garden::start(Options::default()).await;
    let options = EtcdOptions {
        endpoints: vec![garden.etcd.url()],
        prefix: "/registry-gardener".to_owned(),
        ..EtcdOptions::default()
    };
    let object = Object::from_value(serde_json::json!({"metadata": {"name": "s"}})).unwrap();
    let key = Key::new("core.gardener.cloud/shoots", Some("garden-p"), "s");
    EtcdStore::new(&options).unwrap().create(key, object).await.unwrap();
    let output = refusal(&garden, "foreign", &garden.arguments(0, &[]));
    assert!(
        output.contains("--etcd-prefix /registry-gardener") && output.contains("which is not of an"),
        "{output}"
    );
    let replica = garden
        .replica("own", &["--etcd-prefix=/own", "--cluster-identity=one"])
        .await;
    drop(replica);
    // The identity of a garden never changes.
    let output = refusal(
        &garden,
        "another",
        &garden.arguments(0, &["--etcd-prefix=/own", "--cluster-identity=two"]),
    );
    assert!(
        output.contains("--cluster-identity is \"two\", but the garden is \"one\" already"),
        "{output}"
    );
}
