//! The real `orangery up` on a folder of its own, for tests beside it: started, talked to with kubectl and by watch, and
//! compared at the end with how it began.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use base_client::{Connector, Https, WaitState, Waited, wait_until};
use kube::api::{DynamicObject, ListParams};
use kube::config::Kubeconfig;
use kube::discovery::{Discovery, verbs};
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tempfile::TempDir;
use tests_kit::{cache_folder, fed};

/// Real time: many times what a slow machine needs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
/// Between two looks at everything: many kinds cannot be watched as one.
const LOOK_PAUSE: Duration = Duration::from_millis(200);

/// A process that does not outlive the test.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    /// As `kill -9` does.
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A landscape, and what was there at one moment.
pub(crate) struct Up {
    pub(crate) folder: TempDir,
    pub(crate) garden: Client,
    pub(crate) seed: Client,
    before: [BTreeSet<String>; 2],
    _running: Running,
}

impl Up {
    /// Starts it with further arguments.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let running = start_up(folder.path(), arguments);
        let client = |part: &str| {
            let kubeconfig = Kubeconfig::read_from(folder.path().join(format!("{part}.kubeconfig"))).unwrap();
            Https::new("test").client(&kubeconfig).unwrap()
        };
        let (garden, seed) = (client("garden"), client("seed"));
        Self {
            before: Default::default(),
            garden,
            seed,
            folder,
            _running: running,
        }
    }

    /// Notes what is there, for [`Up::until_nothing_is_left`].
    pub(crate) async fn remember(&mut self) {
        self.before = [inventory(&self.garden).await, inventory(&self.seed).await];
    }

    /// The kubeconfig of this name.
    pub(crate) fn kubeconfig(&self, name: &str) -> PathBuf {
        self.folder.path().join(format!("{name}.kubeconfig"))
    }

    /// What kubectl prints when it succeeds, started in a folder.
    pub(crate) fn kubectl_in(&self, folder: &Path, part: &str, words: &[&str], input: &str) -> String {
        let mut command = self.kubectl(part, words);
        let output = fed(command.current_dir(folder), input).unwrap();
        assert!(
            output.status.success(),
            "kubectl {words:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    }

    /// kubectl with a kubeconfig of this name.
    pub(crate) fn kubectl(&self, part: &str, words: &[&str]) -> Command {
        let mut command = Command::new(cache_folder().unwrap().join("real/kubectl/kubectl"));
        // Garden and seed share an address, by which kubectl would mix up what it has cached of them.
        command
            .arg("--cache-dir")
            .arg(self.folder.path().join(format!("{part}.cache")))
            // Behind a `--` of theirs nothing is kubectl's.
            .args(words);
        command
            .env("KUBECONFIG", self.kubeconfig(part))
            .env("HOME", self.folder.path());
        command
    }

    /// Waits until garden and seed have nothing but what [`Up::remember`] saw.
    pub(crate) async fn until_nothing_is_left(&self) {
        let began = Instant::now();
        loop {
            let now = [inventory(&self.garden).await, inventory(&self.seed).await];
            let left: Vec<String> = now
                .iter()
                .zip(&self.before)
                .flat_map(|(now, before)| now - before)
                .collect();
            if left.is_empty() {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "left behind: {left:#?}");
            tokio::time::sleep(LOOK_PAUSE).await;
        }
    }
}

/// Waits until an object of the garden is gone.
pub(crate) async fn gone<K>(api: Api<K>, name: &str) -> Result<(), Waited>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let judge = |found: Option<&K>| match found {
        None => WaitState::Done(()),
        Some(found) => WaitState::NotYet(format!("{found:?}")),
    };
    wait_until(&api, name, PATIENCE, judge).await
}

/// The program that is tested.
pub(crate) fn binary() -> PathBuf {
    let here = std::env::current_exe().unwrap();
    let mut found = here.ancestors().skip(1).take(2).map(|folder| folder.join("orangery"));
    let binary = found.find(|path| path.is_file());
    binary.expect("`cargo xtask test clients` builds orangery beside the tests")
}

/// `orangery up`, once a Shoot can be taken.
fn start_up(folder: &Path, arguments: &[&str]) -> Running {
    let mut command = Command::new(binary());
    command.args(["up", "--port", "0", "--data-dir"]).arg(folder);
    let mut up = Running(command.args(arguments).stdout(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(up.0.stdout.as_mut().unwrap()).lines();
    let is_ready = lines.any(|line| line.is_ok_and(|line| line.starts_with("ready: ")));
    assert!(is_ready, "it ended before it was ready");
    up
}

/// The names of all objects but events, which go by themselves.
async fn inventory(client: &Client) -> BTreeSet<String> {
    let discovery = Discovery::new(client.clone()).run().await.unwrap();
    let mut found = BTreeSet::new();
    for (resource, capabilities) in discovery.groups().flat_map(|group| group.recommended_resources()) {
        if !capabilities.supports_operation(verbs::LIST) || resource.kind == "Event" {
            continue;
        }
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
        for object in api.list(&ListParams::default()).await.unwrap() {
            let namespace = object.namespace().unwrap_or_default();
            found.insert(format!(
                "{}.{} {namespace}/{}",
                resource.kind,
                resource.group,
                object.name_any()
            ));
        }
    }
    found
}
