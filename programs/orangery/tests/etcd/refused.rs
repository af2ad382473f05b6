//! What `orangery apiserver` prints about an etcd that it cannot use: which flag, what is wrong, one way out.

use std::path::Path;
use std::process::Command;

use base_clock::{Clock, Entropy};
use base_secrets::Authority;
use tests_kit::{Etcd, Secured, free_port};

use crate::{Running, etcd};

fn refusal(folder: &Path, arguments: &str, code: i32) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_orangery"))
        .arg("apiserver")
        .args(arguments.split_whitespace())
        .current_dir(folder)
        .env_remove("RUST_LOG")
        .output()
        .unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{message}");
    message
}

#[tokio::test]
async fn an_unusable_etcd_is_reported_by_its_flag_with_a_hint() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |arguments: &str| refusal(folder.path(), &format!("--data-dir d --port 0 {arguments}"), 1);
    let none = format!("http://127.0.0.1:{}", free_port().unwrap());
    let message = refused(&format!("--etcd-servers {none}"));
    assert!(
        message.starts_with(&format!("error: --etcd-servers {none}: ")),
        "{message}"
    );
    assert!(
        message.contains("etcd cannot be reached") && message.contains("hint: start etcd, or name"),
        "{message}"
    );
    let message = refused("--etcd-servers localhost:2379");
    assert!(
        message.contains("localhost:2379") && message.contains("http"),
        "{message}"
    );
    let message = refused("--etcd-servers https://127.0.0.1:1 --etcd-cafile none.pem");
    assert!(
        message.starts_with("error: cannot read none.pem of --etcd-cafile: ") && message.contains("hint: "),
        "{message}"
    );
    let message = refused("--etcd-servers https://127.0.0.1:1");
    assert!(message.contains("--etcd-cafile"), "{message}");
    for (wrong, reported) in [
        ("--etcd-servers http://a --memory", "--memory"),
        ("--etcd-cafile x", "--etcd-servers"),
        ("--etcd-servers http://a --etcd-keyfile x", "--etcd-certfile"),
        ("--leader-elect=false", "--etcd-servers"),
        ("--node --node-name A", "a node's name"),
    ] {
        let message = refusal(folder.path(), wrong, 2);
        assert!(message.contains(reported), "{wrong}: {message}");
    }
}

#[tokio::test]
async fn an_etcd_behind_tls_is_used_with_the_right_files_alone() {
    let folder = tempfile::tempdir().unwrap();
    let secured = Etcd::start_secured("orangery").unwrap_or_else(|why| panic!("{why}"));
    let (etcd, Secured { authority, client }) = secured;
    let stranger = Authority::generate("stranger", &Clock::real(), &Entropy::os()).unwrap();
    for (file, text) in [
        ("ca.pem", authority.certificate_pem()),
        ("other.pem", stranger.certificate_pem()),
        ("client.pem", client.certificate_pem()),
        ("key.pem", client.key_pem().expose().to_owned()),
    ] {
        std::fs::write(folder.path().join(file), text).unwrap();
    }
    let flags = format!("--data-dir d --port 0 --etcd-servers {}", etcd.url());
    let message = refusal(folder.path(), &format!("{flags} --etcd-cafile other.pem"), 1);
    assert!(
        message.contains("hint: name the PEM file of the authority") && message.contains("--etcd-cafile"),
        "{message}"
    );
    let message = refusal(folder.path(), &format!("{flags} --etcd-cafile ca.pem"), 1);
    assert!(
        message.contains("if it requires client certificates, name one with --etcd-certfile"),
        "{message}"
    );
    let all = "--etcd-cafile ca.pem --etcd-certfile client.pem --etcd-keyfile key.pem";
    let running = Running::start(folder.path(), &format!("{flags} {all}"));
    assert_eq!(running.ready().await.unwrap(), "ok");
}

#[tokio::test]
async fn a_prefix_that_is_anothers_is_left_alone() {
    let (folder, etcd) = (tempfile::tempdir().unwrap(), etcd());
    let flags = format!("--port 0 --etcd-servers {}", etcd.url());
    drop(Running::start(folder.path(), &format!("{flags} --data-dir a")));
    let message = refusal(folder.path(), &format!("{flags} --data-dir b"), 1);
    let keys = "b/apiserver-on-etcd/kubernetes/keys";
    assert!(
        message.contains("--etcd-prefix /registry of http://127.0.0.1:")
            && message.contains("holds the Kubernetes of other keys"),
        "{message}"
    );
    assert!(message.contains(keys) && message.contains("--etcd-prefix"), "{message}");
    // What lies below another's prefix is not ours either, whichever program wrote it.
    let below = "--etcd-prefix /registry/namespaces";
    let message = refusal(folder.path(), &format!("{flags} --data-dir b {below}"), 1);
    assert!(
        message.contains("holds /registry/namespaces/default, which is not of `orangery apiserver`"),
        "{message}"
    );
    drop(Running::start(
        folder.path(),
        &format!("{flags} --data-dir b --etcd-prefix /b"),
    ));
}
