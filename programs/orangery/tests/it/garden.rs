//! `orangery garden` as a process: its API, its controllers, what it keeps, what it refuses.

use std::time::Duration;

use api_core::v1beta1::{CloudProfile, Project, Seed, Shoot};
use base_client::{WaitState, wait_until};
use control_plane_garden_api::{AdmissionPlugin, Work};
use k8s_openapi::api::core::v1::{Namespace, Node};
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::config::Kubeconfig;
use kube::{Api, Client};
use serde_json::json;

use crate::process::{Running, client_of, refusal};

/// Real time: many times what a slow machine needs.
const PATIENCE: Duration = Duration::from_secs(120);

async fn create_project(garden: &Client, name: &str) {
    let project =
        serde_json::from_value(json!({"metadata": {"name": name}, "spec": {"namespace": format!("garden-{name}")}}));
    let projects: Api<Project> = Api::all(garden.clone());
    projects
        .create(&PostParams::default(), &project.unwrap())
        .await
        .unwrap();
}

async fn until_its_namespace_is_there(garden: &Client, name: &str) {
    let namespaces: Api<Namespace> = Api::all(garden.clone());
    wait_until(&namespaces, &format!("garden-{name}"), PATIENCE, |found| match found {
        Some(_) => WaitState::Done(()),
        None => WaitState::NotYet("it is not there".to_owned()),
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_garden_without_seeds_works_on_projects_and_outlives_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let (first, line) = Running::garden(folder.path(), "--data-dir d --port 0");
    let path = folder.path().join("d/garden.kubeconfig");
    assert!(
        line.contains(&format!("export KUBECONFIG={}", path.display())),
        "{line}"
    );
    let kubeconfig = Kubeconfig::read_from(&path).unwrap();
    let cluster = kubeconfig.clusters[0].cluster.as_ref().unwrap();
    let url = cluster.server.as_deref().unwrap();
    assert_eq!(url.matches('/').count(), 2, "a URL without a path: {url}");
    assert!(cluster.tls_server_name.is_none());

    let garden = client_of(&path);
    create_project(&garden, "a").await;
    until_its_namespace_is_there(&garden, "a").await;
    first.kill();

    let (second, _) = Running::garden(folder.path(), "--data-dir d --port 0");
    let garden = client_of(&path);
    let projects: Api<Project> = Api::all(garden.clone());
    assert_eq!(projects.list(&ListParams::default()).await.unwrap().items.len(), 1);
    create_project(&garden, "b").await;
    until_its_namespace_is_there(&garden, "b").await;
    let all = ListParams::default();
    assert!(
        Api::<Seed>::all(garden.clone())
            .list(&all)
            .await
            .unwrap()
            .items
            .is_empty()
    );
    assert!(
        Api::<Shoot>::all(garden.clone())
            .list(&all)
            .await
            .unwrap()
            .items
            .is_empty()
    );
    assert!(Api::<Node>::all(garden).list(&all).await.unwrap().items.is_empty());
    second.stop();
}

#[tokio::test]
async fn without_controllers_only_requests_write() {
    let folder = tempfile::tempdir().unwrap();
    let (running, _) = Running::garden(folder.path(), "--data-dir d --memory --port 0 --controllers=");
    let garden = client_of(&folder.path().join("d/garden.kubeconfig"));
    create_project(&garden, "a").await;
    let profile = json!({"metadata": {"name": "p"}, "spec": {
        "type": "local", "regions": [{"name": "r"}],
        "kubernetes": {"versions": [{"version": "1.35.1"}]},
        "machineImages": [{"name": "i", "versions": [{"version": "1.0.0", "architectures": ["amd64"]}]}],
        "machineTypes": [{"name": "m", "cpu": "1", "gpu": "0", "memory": "1Gi", "architecture": "amd64"}],
    }});
    let profiles: Api<CloudProfile> = Api::all(garden.clone());
    let profile = serde_json::from_value(profile).unwrap();
    profiles.create(&PostParams::default(), &profile).await.unwrap();
    // Orderly, so that whatever a controller had begun would have been written by then.
    running.stop();

    let (again, _) = Running::garden(folder.path(), "--data-dir e --port 0 --controllers=scheduler,shoot");
    let garden = client_of(&folder.path().join("e/garden.kubeconfig"));
    create_project(&garden, "a").await;
    again.stop();
    let (last, _) = Running::garden(folder.path(), "--data-dir e --port 0 --controllers=");
    let garden = client_of(&folder.path().join("e/garden.kubeconfig"));
    let project = Api::<Project>::all(garden.clone()).get("a").await.unwrap();
    assert!(
        project.status.is_none_or(|status| status.phase.is_none()),
        "nothing worked on it"
    );
    assert!(
        Api::<Namespace>::all(garden)
            .get_opt("garden-a")
            .await
            .unwrap()
            .is_none()
    );
    last.stop();
}

#[tokio::test]
async fn admission_plugins_are_switched_by_name() {
    let folder = tempfile::tempdir().unwrap();
    // A Project is deleted without a confirmation where the plug-in that demands one is off.
    for (flags, deleted) in [
        ("", false),
        ("--disable-admission-plugins=DeletionConfirmation,ManagedSeed", true),
    ] {
        let (running, _) = Running::garden(
            folder.path(),
            &format!("--data-dir d --memory --port 0 --controllers= {flags}"),
        );
        let garden = client_of(&folder.path().join("d/garden.kubeconfig"));
        create_project(&garden, "a").await;
        let projects: Api<Project> = Api::all(garden);
        let answer = projects.delete("a", &DeleteParams::default()).await;
        assert_eq!(answer.is_ok(), deleted, "{answer:?}");
        running.stop();
    }
    // A name that is none ends the parser, with its own exit code.
    let unknown = std::process::Command::new(env!("CARGO_BIN_EXE_orangery"))
        .args(["garden", "--memory", "--disable-admission-plugins=ShootDns"])
        .output()
        .unwrap();
    let message = String::from_utf8(unknown.stderr).unwrap();
    assert_eq!(unknown.status.code(), Some(2), "{message}");
    assert!(
        message.contains("no admission plug-in is called \"ShootDns\" (did you mean ShootDNS?); there are"),
        "{message}"
    );
    let flags = "--enable-admission-plugins=ShootDNS --disable-admission-plugins=ShootDNS";
    let message = refusal(folder.path(), &format!("garden --memory {flags}"));
    assert!(
        message.contains("ShootDNS cannot be both switched on and off"),
        "{message}"
    );
}

#[test]
fn the_guide_lists_every_admission_plugin() {
    let guide = include_str!("../../../../docs/garden.md");
    for plugin in AdmissionPlugin::ALL {
        let default = if plugin.is_on_by_default() { "on" } else { "off" };
        let more = match plugin.work() {
            Work::Here => String::new(),
            Work::Always => " It stays on.".to_owned(),
            Work::Nowhere(why) => format!(" Nothing here does so: {why}."),
        };
        let row = format!("| `{plugin}` | {default} | {}{more} |\n", plugin.does());
        assert!(guide.contains(&row), "docs/garden.md lacks:\n{row}");
    }
}

#[test]
fn the_folder_of_another_command_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (running, _) = Running::garden(folder.path(), "--data-dir d --port 0");
    let message = refusal(folder.path(), "garden --data-dir d --port 0");
    assert!(message.contains("in use by another `orangery garden`"), "{message}");
    running.stop();
    for command in ["up", "apiserver"] {
        let message = refusal(folder.path(), &format!("{command} --data-dir d --port 0"));
        assert_eq!(
            message.trim(),
            "error: the data folder d holds the garden of an `orangery garden`\n\
             hint: name another folder with --data-dir"
        );
    }
}
