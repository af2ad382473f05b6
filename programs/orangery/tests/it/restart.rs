//! The real binary on a folder: it is killed, started again, and goes on; a folder that it cannot use it refuses and
//! leaves alone.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use api_core::v1beta1::Shoot;
use api_machine::Machine;
use api_meta::LastOperationState;
use base_client::{WaitState, delete_and_wait, wait_until};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, Pod};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use landscape_data_folder::kubeconfig;
use serde_json::json;
use tests_kit::free_port;

use crate::process::{Running, client_of};

/// Real time: many times what a slow machine needs.
const PATIENCE: Duration = Duration::from_secs(120);
const NAMESPACE: &str = "garden-local";
const NAME: &str = "local";
const TECHNICAL_ID: &str = "shoot--local--local";

/// Writes a kubeconfig for the Shoot, as its user does.
fn shoot_kubeconfig(folder: &Path) -> PathBuf {
    let report = Command::new(env!("CARGO_BIN_EXE_orangery"))
        .args(["kubeconfig", "shoot", &format!("{NAMESPACE}/{NAME}"), "--data-dir"])
        .arg(folder)
        .output()
        .unwrap();
    assert!(report.status.success(), "{report:?}");
    let path = folder.join("shoot.kubeconfig");
    std::fs::write(&path, report.stdout).unwrap();
    path
}

/// Waits until the Shoot's last operation has succeeded for its newest generation and all its conditions are well.
async fn healthy(garden: &Client) {
    let shoots: Api<Shoot> = Api::namespaced(garden.clone(), NAMESPACE);
    let checked = wait_until(&shoots, NAME, PATIENCE, |shoot| {
        let Some((shoot, status)) = shoot.and_then(|shoot| Some((shoot, shoot.status.as_ref()?))) else {
            return WaitState::NotYet("it is not there, or has no status".to_owned());
        };
        let done = status
            .last_operation
            .as_ref()
            .is_some_and(|operation| operation.state == LastOperationState::Succeeded && operation.progress == 100);
        let unwell: Vec<_> = status
            .conditions
            .iter()
            .filter(|c| c.status.to_string() != "True")
            .collect();
        let newest = status.observed_generation == shoot.metadata.generation;
        if done && newest && unwell.is_empty() && !status.conditions.is_empty() {
            WaitState::Done(())
        } else {
            WaitState::NotYet(format!(
                "newest: {newest}, {:?}, {:?}, unwell: {unwell:?}",
                status.last_operation, status.last_errors
            ))
        }
    });
    checked.await.unwrap_or_else(|why| unreachable!("{why}"));
}

/// How often a pod's container was started again, whether it is ready, how it ended last.
fn container(pod: &Pod) -> (i32, bool, String) {
    let statuses = pod
        .status
        .as_ref()
        .and_then(|status| status.container_statuses.as_ref());
    let status = statuses.into_iter().flatten().next().unwrap();
    let ended = status.last_state.as_ref().and_then(|state| state.terminated.as_ref());
    let ended = ended.map(|ended| format!("{}, {:?}", ended.exit_code, ended.message));
    (status.restart_count, status.ready, ended.unwrap_or_default())
}

/// Waits until each of the Shoot's pods that ran before runs again: restarted, once or more, for what waits too long
/// for another on a busy machine ends and is started again.
async fn run_again(seed: &Client, before: &[Pod]) {
    let pods: Api<Pod> = Api::namespaced(seed.clone(), TECHNICAL_ID);
    for old in before {
        let (restarts, ..) = container(old);
        let name = old.name_any();
        let again = wait_until(&pods, &name, PATIENCE, |pod| {
            let Some(pod) = pod.filter(|pod| pod.uid() == old.uid()) else {
                return WaitState::NotYet("it is gone, or another has its name".to_owned());
            };
            match container(pod) {
                (now, true, _) if now > restarts => WaitState::Done(()),
                (now, ready, ended) => WaitState::NotYet(format!(
                    "started again {now} times, {restarts} before; ready: {ready}; it ended with {ended}"
                )),
            }
        });
        again.await.unwrap_or_else(|why| unreachable!("{why}"));
    }
    let now = pods.list(&ListParams::default()).await.unwrap().items;
    let names = |pods: &[Pod]| pods.iter().map(ResourceExt::name_any).collect::<Vec<_>>();
    assert_eq!(names(&now), names(before));
}

async fn pods(seed: &Client) -> Vec<Pod> {
    let pods: Api<Pod> = Api::namespaced(seed.clone(), TECHNICAL_ID);
    pods.list(&ListParams::default()).await.unwrap().items
}

async fn machines(seed: &Client) -> Vec<String> {
    let machines: Api<Machine> = Api::namespaced(seed.clone(), TECHNICAL_ID);
    let list = machines.list(&ListParams::default()).await.unwrap();
    list.items.iter().map(|machine| machine.uid().unwrap()).collect()
}

async fn annotate(garden: &Client, key: &str, value: &str) {
    let shoots: Api<Shoot> = Api::namespaced(garden.clone(), NAMESPACE);
    let patch = Patch::Merge(json!({"metadata": {"annotations": {key: value}}}));
    shoots.patch(NAME, &PatchParams::default(), &patch).await.unwrap();
}

async fn goes(garden: &Client, seed: &Client) {
    annotate(garden, "confirmation.gardener.cloud/deletion", "true").await;
    let shoots: Api<Shoot> = Api::namespaced(garden.clone(), NAMESPACE);
    delete_and_wait(&shoots, NAME, PATIENCE).await.unwrap();
    let namespaces: Api<Namespace> = Api::all(seed.clone());
    assert!(namespaces.get_opt(TECHNICAL_ID).await.unwrap().is_none());
}

/// The names of the volumes on disk.
fn stored(folder: &Path) -> Vec<String> {
    let names = |part: &str| {
        let entries = std::fs::read_dir(folder.join("state/volumes").join(part))
            .into_iter()
            .flatten();
        entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect::<Vec<_>>()
    };
    [names("persistent"), names("pods/seed-local-0")].concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shoot_and_its_users_kubeconfigs_outlive_kill_9_and_a_stop() {
    let folder = tempfile::tempdir().unwrap();
    // The same over restarts, for kubeconfigs name it.
    let port = free_port().unwrap();
    let mut up = Running::up(folder.path(), port, &["--example"]);
    assert!(up.until("garden and seed listen at").contains("state is kept in "));
    up.until("next, in another terminal");
    let garden = client_of(&kubeconfig::path(folder.path(), "garden"));
    let seed = client_of(&kubeconfig::path(folder.path(), "seed"));
    let shoot = client_of(&shoot_kubeconfig(folder.path()));
    let maps: Api<ConfigMap> = Api::namespaced(shoot.clone(), "default");
    let map = serde_json::from_value(json!({"metadata": {"name": "kept"}, "data": {"a": "b"}})).unwrap();
    maps.create(&PostParams::default(), &map).await.unwrap();
    let mut before = pods(&seed).await;
    let machines_before = machines(&seed).await;
    // The volumes of two etcds, and a folder of the machine.
    assert_eq!((machines_before.len(), stored(folder.path()).len()), (1, 3));

    up.kill();
    for killed in [true, false] {
        let mut up = Running::up(folder.path(), port, &["--example"]);
        up.until("next, in another terminal");
        // All clients are those of before.
        run_again(&seed, &before).await;
        let nodes: Api<Node> = Api::all(shoot.clone());
        assert_eq!(nodes.list(&ListParams::default()).await.unwrap().items.len(), 1);
        assert_eq!(maps.get("kept").await.unwrap().data.unwrap()["a"], "b");
        annotate(&garden, "gardener.cloud/operation", "reconcile").await;
        healthy(&garden).await;
        assert_eq!(machines(&seed).await, machines_before);
        before = pods(&seed).await;
        if killed {
            up.stop();
        } else {
            goes(&garden, &seed).await;
            assert_eq!(stored(folder.path()), Vec::<String>::new());
            up.stop();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shoot_that_is_being_made_goes_on_after_kill_9() {
    let folder = tempfile::tempdir().unwrap();
    // The same over restarts, for kubeconfigs name it.
    let port = free_port().unwrap();
    let mut up = Running::up(folder.path(), port, &["--example"]);
    for done in [
        "Deploying main and events ETCDs",
        "Waiting until Kubernetes API server rolled out",
        "Configuring worker pools",
    ] {
        up.until(done);
        up.kill();
        up = Running::up(folder.path(), port, &["--example"]);
    }
    up.until("next, in another terminal");
    let garden = client_of(&kubeconfig::path(folder.path(), "garden"));
    let seed = client_of(&kubeconfig::path(folder.path(), "seed"));
    healthy(&garden).await;
    assert_eq!(machines(&seed).await.len(), 1);
    goes(&garden, &seed).await;
    assert_eq!(stored(folder.path()), Vec::<String>::new());
    up.stop();
}

/// Runs `up`, which must end by itself with this error.
fn refuses(folder: &Path, report: &[&str]) {
    let output = Command::new(env!("CARGO_BIN_EXE_orangery"))
        .args(["up", "--port", "0"])
        .arg("--data-dir")
        .arg(folder)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    for part in report.iter().chain(&["error: ", "hint: "]) {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
}

/// Every file below a folder, but for the locks, which name the last holder.
fn contents(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(contents(&path));
        } else if path.file_name().is_some_and(|name| name != "lock") {
            found.push((path.clone(), std::fs::read(&path).unwrap()));
        }
    }
    found.sort();
    found
}

#[test]
fn an_unusable_folder_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let mut up = Running::up(folder.path(), 0, &[]);
    up.until("ready");
    up.stop();
    // Whole again after each of them.
    let spoiled = |file: &str, spoil: &dyn Fn(&mut Vec<u8>), report: &[&str]| {
        let path = state.join(file);
        let whole = std::fs::read(&path).unwrap();
        let mut bytes = whole.clone();
        spoil(&mut bytes);
        std::fs::write(&path, &bytes).unwrap();
        let name = path.to_string_lossy().into_owned();
        refuses(folder.path(), &[report, &[&name]].concat());
        assert!(std::fs::read(&path).unwrap() == bytes, "{name} was changed");
        std::fs::write(&path, &whole).unwrap();
    };
    let other = |bytes: &mut Vec<u8>| *bytes = br#"{"format":7,"version":"9.0.0"}"#.to_vec();
    spoiled(
        "format",
        &other,
        &["format 7, written by orangery 9.0.0", "reads 2", "--data-dir"],
    );
    spoiled("format", &Vec::clear, &["is damaged", "--data-dir"]);
    // In all objects, for some of those in the file are obsolete and never read.
    let flipped = |bytes: &mut Vec<u8>| {
        bytes
            .iter_mut()
            .filter(|byte| **byte == b'{')
            .for_each(|byte| *byte ^= 0x40)
    };
    spoiled("seed-local/store/store.redb", &flipped, &["is damaged", "--data-dir"]);
    spoiled(
        "garden/store/store.redb",
        &|bytes| bytes.truncate(5000),
        &["is damaged", "--data-dir"],
    );
    spoiled(
        "garden/keys",
        &|bytes| bytes.truncate(300),
        &["is damaged", "--data-dir"],
    );

    let keys = state.join("seed-local/keys");
    std::fs::rename(&keys, folder.path().join("aside")).unwrap();
    refuses(folder.path(), &[&*keys.to_string_lossy(), "it is missing"]);
    std::fs::rename(folder.path().join("aside"), &keys).unwrap();

    // The tests may run as a user who may write everywhere; no user can make a folder in the place of a file.
    std::fs::rename(state.join("volumes"), folder.path().join("aside")).unwrap();
    std::fs::write(state.join("volumes"), "").unwrap();
    refuses(
        folder.path(),
        &[&*state.join("volumes").to_string_lossy(), "--data-dir"],
    );
    std::fs::remove_file(state.join("volumes")).unwrap();
    std::fs::rename(folder.path().join("aside"), state.join("volumes")).unwrap();

    let mut up = Running::up(folder.path(), 0, &[]);
    up.until("ready");
    up.stop();
}

#[test]
fn volumes_are_not_left_to_an_empty_store_which_would_drop_them() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let mut up = Running::up(folder.path(), 0, &[]);
    up.until("ready");
    up.stop();
    for part in ["garden", "seed-local"] {
        std::fs::rename(state.join(part), folder.path().join("aside")).unwrap();
        refuses(
            folder.path(),
            &[&*state.join(part).to_string_lossy(), "it is missing", "--data-dir"],
        );
        assert!(!state.join(part).exists(), "{part} was recreated");
        std::fs::rename(folder.path().join("aside"), state.join(part)).unwrap();
    }
}

#[test]
fn state_is_left_alone_by_a_landscape_in_memory() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let mut up = Running::up(folder.path(), 0, &[]);
    up.until("ready");
    up.stop();
    let before = contents(&state);
    let mut memory = Running::up(folder.path(), 0, &["--memory"]);
    let line = memory.until("garden and seed listen at");
    assert!(
        line.contains("is left alone") && line.contains(&*state.to_string_lossy()),
        "{line}"
    );
    memory.until("ready");
    memory.stop();
    assert!(contents(&state) == before, "what is kept was changed");
}
