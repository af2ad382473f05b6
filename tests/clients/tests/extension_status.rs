//! Who may write the status of extension objects, on real kube-apiserver. Run by `cargo xtask test managed-resources`, which
//! prepares the real parts. gardenlet writes policy and parameters with the rights of its manifest.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test ends where its set-up fails, and says why"
)]

#[path = "../../../control-plane/gardenlet/tests/it/status_cases.rs"]
mod status_cases;

use base_client::{Connector, Https};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::api::PostParams;
use kube::config::Kubeconfig;
use kube::{Api, Client};
use serde_json::Value;
use tests_conformance::real::{Options, Real};

use status_cases::{Ground, run_all};

const MANIFEST: &str = include_str!("../../../landscape/local/manifests/seed.yaml");
const GARDENLET: &str = "gardener.cloud:system:gardenlet";
const MASTERS: &str = "system:masters";

fn client(kubeconfig: &str) -> Client {
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig).unwrap();
    Https::new("tests").client(&kubeconfig).unwrap()
}

/// Gives gardenlet what its manifest gives it.
async fn grant(admin: &Client) {
    for object in base_yaml::read_all_strict::<Value>(MANIFEST).unwrap() {
        if object["metadata"]["name"] != GARDENLET {
            continue;
        }
        let params = PostParams::default();
        if object["kind"] == "ClusterRole" {
            let role: ClusterRole = serde_json::from_value(object).unwrap();
            Api::all(admin.clone()).create(&params, &role).await.unwrap();
        } else {
            let binding: ClusterRoleBinding = serde_json::from_value(object).unwrap();
            Api::all(admin.clone()).create(&params, &binding).await.unwrap();
        }
    }
}

#[tokio::test]
async fn secondary_extensions_write_conditions_alone_on_real_kubernetes() {
    let real = Real::start(Options::default()).await.unwrap();
    let admin = client(real.endpoint.kubeconfig.expose());
    grant(&admin).await;
    let as_user = |user: &str, groups: &[&str]| client(real.kubeconfig(user, groups).unwrap().expose());
    let users = [
        "system:serviceaccount:garden:gardenlet",
        "system:serviceaccount:extension-moon-a:moon",
        "system:serviceaccount:extension-moon-b:moon",
        "system:serviceaccount:extension-moon-a2:moon",
        "system:serviceaccount:extension-watcher:watcher",
        "person@example.org",
    ];
    let clients: std::collections::BTreeMap<&str, Client> =
        users.iter().map(|user| (*user, as_user(user, &[MASTERS]))).collect();
    let ground = Ground {
        gardenlet: as_user(GARDENLET, &[]),
        user: Box::new(move |user| clients[user].clone()),
        admin,
    };
    run_all(&ground).await;
}
