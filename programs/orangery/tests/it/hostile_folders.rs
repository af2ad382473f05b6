//! Folders that are full, read-only, or another user's: the real binary reports what is wrong and
//! what to do, and loses nothing that it has acknowledged.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use base_client::{Connector, Https};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ListParams, PostParams};
use kube::config::Kubeconfig;
use kube::{Api, Client, ResourceExt};
use landscape_data_folder::kubeconfig;
use serde_json::json;
use tests_kit::free_port;
use tokio::time::Instant;

use crate::process::Running;

/// Real time: many times what a slow machine needs.
const PATIENCE: Duration = Duration::from_secs(120);
/// Room for a landscape that has come up, and not for much more.
const LITTLE: &str = "size=8m";
/// Room for all that these tests store.
const ENOUGH: &str = "remount,size=256m";
/// The same where a file's size is limited: kilobytes for the largest file.
const LITTLE_FILE_KB: u32 = 8192;
/// How long a request may take before it counts as refused.
const GIVES_UP: Duration = Duration::from_secs(5);
/// Bytes of a Secret's value.
const LOAD: usize = 64 * 1024;
/// A user without rights, by the number that Linux reserves for that.
const UNPRIVILEGED: u32 = 65534;

fn is_root() -> bool {
    fs::metadata("/proc/self").unwrap().uid() == 0
}

/// A file system of its own; it goes with this value.
struct Mounted<'f>(&'f Path);

impl<'f> Mounted<'f> {
    /// `None` where nothing may be mounted.
    fn new(folder: &'f Path, options: &str) -> Option<Self> {
        let mounted = mount(&["-t", "tmpfs", "-o", options, "tmpfs"], folder);
        mounted.status.success().then_some(Self(folder))
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        // What still runs in it keeps it until its end.
        let _ = Command::new("umount").arg("--lazy").arg(self.0).status();
    }
}

fn mount(how: &[&str], folder: &Path) -> Output {
    Command::new("mount").args(how).arg(folder).output().unwrap()
}

fn client_of(folder: &Path) -> Client {
    let text = fs::read_to_string(kubeconfig::path(folder, "garden")).unwrap();
    Https::new("test")
        .client(&Kubeconfig::from_yaml(&text).unwrap())
        .unwrap()
}

async fn create(secrets: &Api<Secret>, name: &str) -> Result<Secret, kube::Error> {
    let secret = json!({"metadata": {"name": name}, "stringData": {"load": "x".repeat(LOAD)}});
    let secret = serde_json::from_value(secret).unwrap();
    secrets.create(&PostParams::default(), &secret).await
}

/// Stores until there is no room; returns how many were acknowledged, and the answer to the next.
async fn fill(secrets: &Api<Secret>) -> (usize, String) {
    for number in 0..10_000 {
        if let Err(refused) = create(secrets, &format!("load-{number}")).await {
            return (number, refused.to_string());
        }
    }
    unreachable!("there is always room")
}

async fn assert_stored(secrets: &Api<Secret>, acknowledged: usize) {
    let list = secrets.list(&ListParams::default()).await.unwrap();
    let names: BTreeSet<String> = list.items.iter().map(ResourceExt::name_any).collect();
    for number in 0..acknowledged {
        assert!(names.contains(&format!("load-{number}")), "load-{number} is lost");
    }
}

/// Room has been made: what was refused is taken without a restart.
async fn goes_on(secrets: &Api<Secret>) {
    let begun = Instant::now();
    while !matches!(tokio::time::timeout(GIVES_UP, create(secrets, "room")).await, Ok(Ok(_))) {
        assert!(begun.elapsed() < PATIENCE, "it does not go on");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_space_nothing_acknowledged_is_lost_and_space_lets_it_continue() {
    let outer = tempfile::tempdir().unwrap();
    let folder = outer.path().join("data");
    let port = free_port().unwrap();
    let mounted = Mounted::new(outer.path(), LITTLE);
    let mut command = if mounted.is_some() {
        let mut command = Command::new(env!("CARGO_BIN_EXE_orangery"));
        command
            .args(["up", "--port", &port.to_string(), "--data-dir"])
            .arg(&folder);
        command
    } else {
        limited(&folder, port, LITTLE_FILE_KB)
    };
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut up = Running(child.unwrap());
    up.until("ready");
    let secrets: Api<Secret> = Api::namespaced(client_of(&folder), "garden");
    // So that the process never waits for a reader.
    let logs = BufReader::new(up.0.stderr.take().unwrap()).lines();
    let reading = std::thread::spawn(move || logs.count());
    let (acknowledged, printed) = fill(&secrets).await;
    assert!(acknowledged > 0, "there was no room at all");
    let store = folder.join("state/garden/store/store.redb");
    for part in [&*store.to_string_lossy(), "nothing that was stored is lost"] {
        assert!(printed.contains(part), "{printed}");
    }
    if mounted.is_some() {
        assert!(printed.contains("free space"), "{printed}");
        let made = mount(&["-o", ENOUGH], outer.path());
        assert!(made.status.success(), "{made:?}");
        goes_on(&secrets).await;
    }
    assert_stored(&secrets, acknowledged).await;
    up.kill();
    reading.join().unwrap();

    let mut up = Running::up(&folder, port, &[]);
    up.until("ready");
    assert_stored(&secrets, acknowledged).await;
    create(&secrets, "more").await.unwrap();
    up.stop();
}

/// `up` whose files cannot grow beyond a limit, for where nothing may be mounted.
fn limited(folder: &Path, port: u16, kilobytes: u32) -> Command {
    let script = format!("trap '' XFSZ; ulimit -f {}; exec \"$@\"", kilobytes * 2);
    let mut command = Command::new("sh");
    command
        .args(["-c", &script, "sh", env!("CARGO_BIN_EXE_orangery"), "up", "--port"])
        .arg(port.to_string())
        .arg("--data-dir")
        .arg(folder);
    command
}

#[test]
fn a_landscape_without_disk_space_ends_in_order_and_reports_it() {
    let outer = tempfile::tempdir().unwrap();
    let folder = outer.path().join("data");
    let mounted = Mounted::new(outer.path(), "size=200k");
    let (output, why) = if mounted.is_some() {
        (run(&folder), "No space left on device")
    } else {
        (limited(&folder, 0, 4).output().unwrap(), "File too large")
    };
    let printed = printed(&output);
    assert!(printed.contains(why), "{printed}");
    assert!(printed.contains("free space on its disk and try again"), "{printed}");
    // Parts that are stopped in order do not lose the servers under their feet.
    for word in ["connection refused", "worker closed", "panicked"] {
        assert!(!printed.contains(word), "{printed}");
    }
}

#[test]
fn a_folder_on_a_read_only_file_system_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = match Mounted::new(folder.path(), "ro,size=1m") {
        Some(mounted) => {
            let output = run(&folder.path().join("data"));
            drop(mounted);
            printed(&output)
        }
        // The kernel's own files are there everywhere, and no folder can be made among them.
        None => printed(&run(Path::new("/proc/self/data"))),
    };
    assert!(path.starts_with("error: cannot create the data folder "), "{path}");
    assert!(
        path.ends_with("hint: name a folder that you may write to with --data-dir\n"),
        "{path}"
    );
}

/// Runs `up`, which must end by itself with an error.
fn run(folder: &Path) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_orangery"))
        .args(["up", "--port", "0", "--data-dir"])
        .arg(folder)
        .env_remove("RUST_LOG")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    output
}

fn printed(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The error for a user who is not the folder's owner.
fn refusal(folder: &Path, words: &[&str]) -> String {
    // The binary may lie where others cannot look.
    let place = tempfile::tempdir().unwrap();
    let binary = place.path().join("orangery");
    if fs::hard_link(env!("CARGO_BIN_EXE_orangery"), &binary).is_err() {
        fs::copy(env!("CARGO_BIN_EXE_orangery"), &binary).unwrap();
    }
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new(&binary);
    command
        .args(words)
        .arg("--data-dir")
        .arg(folder)
        .env_remove("RUST_LOG")
        .current_dir("/");
    if is_root() {
        command.uid(UNPRIVILEGED).gid(UNPRIVILEGED);
    }
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    printed(&output)
}

#[test]
fn a_folder_of_another_user_is_refused_with_both_users() {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    // A user without rights has none in the root folder.
    let foreign = if is_root() { folder.path() } else { Path::new("/") };
    let own = if is_root() {
        UNPRIVILEGED
    } else {
        fs::metadata("/proc/self").unwrap().uid()
    };
    let whose = format!(
        "; {} belongs to user 0, and this process is of user {own}\n",
        foreign.display()
    );
    let text = refusal(foreign, &["up", "--port", "0"]);
    assert_eq!(
        text,
        format!(
            "error: cannot lock {}: Permission denied (os error 13){whose}\
             hint: run it as that user, or name a folder of your own with --data-dir\n",
            foreign.join("lock").display()
        )
    );
    if is_root() {
        let mut landscape = Running::up(folder.path(), 0, &[]);
        landscape.until("ready");
        let path = kubeconfig::path(folder.path(), "garden");
        for words in [["kubeconfig", "garden"], ["why", "garden-local/local"]] {
            assert_eq!(
                refusal(folder.path(), &words),
                format!(
                    "error: cannot read the kubeconfig {path}: Permission denied (os error 13); \
                     {path} belongs to user 0, and this process is of user {UNPRIVILEGED}\n\
                     hint: run this as that user\n",
                    path = path.display()
                )
            );
        }
        landscape.stop();
    }
}

#[test]
fn a_used_port_leaves_nothing_behind_and_a_used_folder_is_named_first() {
    let folder = tempfile::tempdir().unwrap();
    let (taken, fresh) = (folder.path().join("taken"), folder.path().join("fresh"));
    let port = free_port().unwrap();
    let mut landscape = Running::up(&taken, port, &[]);
    landscape.until("ready");
    let up = |folder: &Path| {
        let output = Command::new(env!("CARGO_BIN_EXE_orangery"))
            .args(["up", "--port", &port.to_string(), "--data-dir"])
            .arg(folder)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1));
        printed(&output)
    };
    let text = up(&fresh);
    assert!(
        text.starts_with(&format!("error: cannot listen on 127.0.0.1:{port}")),
        "{text}"
    );
    assert!(!fresh.exists());
    let text = up(&taken);
    assert!(text.contains("is in use by another `orangery up`"), "{text}");
    landscape.stop();
}

#[test]
fn a_wish_to_end_that_arrives_twice_at_once_is_one_wish() {
    let folder = tempfile::tempdir().unwrap();
    let mut process = Command::new(env!("CARGO_BIN_EXE_orangery"))
        .args(["up", "--port", "0", "--data-dir"])
        .arg(folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(process.stdout.as_mut().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().starts_with("ready")));
    // As `timeout` does: the process, then its group. The signals differ, so that neither hides the other.
    let id = process.id();
    for words in [
        ["-TERM".to_owned(), id.to_string()],
        ["-INT".to_owned(), format!("-{id}")],
    ] {
        let requested = Command::new("kill").arg(&words[0]).arg("--").arg(&words[1]).status();
        assert!(requested.unwrap().success());
    }
    let output = process.wait_with_output().unwrap();
    assert_eq!((output.status.code(), &*printed(&output)), (Some(0), ""));
}
