//! The provider as a process of its own: it reaches the seed over TLS with the kubeconfig of its service account.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use api_core::v1beta1::{ControllerDeployment, ControllerInstallation, Shoot};
use api_meta::LastOperationState;
use base_client::{Connector, Https, WaitState, wait_until};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::config::Kubeconfig;
use kube::{Api, Client, ResourceExt};
use landscape_data_folder::kubeconfig;
use landscape_local::{apply_all, documents};
use serde_json::{Value, json};

use crate::surroundings;

/// Real time: many times what a slow machine needs.
const PATIENCE: Duration = Duration::from_secs(120);
const NAMESPACE: &str = "garden-local";
const SHOOT: &str = include_str!("../../../../examples/40-shoot.yaml");

/// The binary with some arguments; ended when dropped.
struct Running(Child);

impl Running {
    fn start(arguments: &[&str], folder: &Path) -> Self {
        let child = Command::new(env!("CARGO_BIN_EXE_orangery"))
            .args(arguments)
            .arg("--data-dir")
            .arg(folder)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Self(child)
    }

    /// Reads its output up to a line that begins with `text`.
    fn until(&mut self, text: &str) {
        let lines = BufReader::new(self.0.stdout.as_mut().unwrap()).lines();
        assert!(
            lines.map_while(Result::ok).any(|line| line.starts_with(text)),
            "it ended before it printed {text:?}"
        );
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself, which the test has then noticed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        // A leftover folder is no failure.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

async fn merge<K>(api: &Api<K>, name: &str, patch: &Value)
where
    K: kube::Resource + Clone + serde::de::DeserializeOwned + std::fmt::Debug,
{
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch))
        .await
        .unwrap();
}

/// Takes the provider out of the landscape's process, and writes a kubeconfig with its service account's token.
async fn take_out(garden: &Client, folder: &Path) -> PathBuf {
    let text = std::fs::read_to_string(kubeconfig::path(folder, "seed")).unwrap();
    let mut seed_kubeconfig = Kubeconfig::from_yaml(&text).unwrap();
    let seed = Https::new("test").client(&seed_kubeconfig).unwrap();
    let deployments: Api<ControllerDeployment> = Api::all(garden.clone());
    merge(
        &deployments,
        "provider-local",
        &json!({"providerConfig": {"values": {"replicas": 0}}}),
    )
    .await;
    let installations: Api<ControllerInstallation> = Api::all(garden.clone());
    let installation = installations
        .list(&ListParams::default())
        .await
        .unwrap()
        .items
        .remove(0)
        .name_any();
    let namespace = format!("extension-{installation}");
    let own: Api<Deployment> = Api::namespaced(seed.clone(), &namespace);
    wait_until(&own, "provider-local", PATIENCE, |deployment| {
        match deployment.and_then(|deployment| deployment.status.as_ref()) {
            Some(status) if status.replicas.unwrap_or(0) == 0 => WaitState::Done(()),
            status => WaitState::NotYet(format!("{status:?}")),
        }
    })
    .await
    .unwrap();
    let accounts: Api<ServiceAccount> = Api::namespaced(seed, &namespace);
    let token = accounts
        .create_token_request("provider-local", &PostParams::default(), &TokenRequest::default())
        .await
        .unwrap()
        .status
        .unwrap()
        .token;
    let user = seed_kubeconfig.auth_infos[0].auth_info.as_mut().unwrap();
    user.client_certificate_data = None;
    user.client_key_data = None;
    user.token = Some(token.into());
    let path = folder.join("extension.kubeconfig");
    std::fs::write(&path, base_secrets::to_yaml(&seed_kubeconfig).unwrap().expose()).unwrap();
    path
}

async fn create(garden: &Client, name: &str) {
    let mut shoot = documents(SHOOT).unwrap().remove(0);
    shoot["metadata"]["name"] = json!(name);
    apply_all(garden, vec![shoot]).await.unwrap();
}

async fn wait<T>(garden: &Client, name: &str, check: impl Fn(&Shoot) -> Option<T>) -> T {
    let shoots: Api<Shoot> = Api::namespaced(garden.clone(), NAMESPACE);
    wait_until(&shoots, name, PATIENCE, |shoot| match shoot.and_then(&check) {
        Some(found) => WaitState::Done(found),
        None => WaitState::NotYet(format!("{:#?}", shoot.and_then(|shoot| shoot.status.as_ref()))),
    })
    .await
    .unwrap()
}

fn succeeded(shoot: &Shoot) -> Option<()> {
    let operation = shoot.status.as_ref()?.last_operation.as_ref()?;
    (operation.state == LastOperationState::Succeeded).then_some(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_in_a_process_of_its_own_serves_shoots_while_it_runs() {
    let folder = Folder(std::env::temp_dir().join(format!("orangery-separate-{}", std::process::id())));
    let mut landscape = Running::start(&["up", "--memory", "--port", "0"], &folder.0);
    landscape.until("ready");
    let garden = kubeconfig::garden_client(&folder.0).unwrap();
    let kubeconfig = take_out(&garden, &folder.0).await;
    let arguments = ["provider-local", "--kubeconfig", kubeconfig.to_str().unwrap()];
    surroundings::apply(&garden).await;

    let provider = Running::start(&arguments, &folder.0);
    create(&garden, "first").await;
    wait(&garden, "first", succeeded).await;

    drop(provider);
    create(&garden, "second").await;
    wait(&garden, "second", |shoot| {
        let operation = shoot.status.as_ref()?.last_operation.as_ref()?;
        let named = operation
            .description
            .contains("Infrastructure shoot--local--second/second");
        (named && operation.description.contains("\"local\"")).then_some(())
    })
    .await;

    let _provider = Running::start(&arguments, &folder.0);
    wait(&garden, "second", succeeded).await;
}
