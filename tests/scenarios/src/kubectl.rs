//! The real kubectl against a landscape over TLS, in real time. One landscape serves all tests of a process; each
//! test works in a namespace of its own.

use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::LazyLock;

use landscape_data_folder::kubeconfig;
use landscape_local::{Landscape, Settings, State};

use crate::{NAME, NAMESPACE, PATIENCE, SHOOT, SURROUNDINGS};

/// The landscape that all kubectl tests share, with the example Shoot in it.
static SHARED: LazyLock<Shared> = LazyLock::new(Shared::start);

struct Shared {
    folder: PathBuf,
    _runtime: tokio::runtime::Runtime,
}

impl Shared {
    fn start() -> Self {
        let folder = std::env::temp_dir().join(format!("orangery-kubectl-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let settings = Settings::real(folder.clone(), 0);
            let state = State::memory(&settings).unwrap();
            let landscape = Landscape::start(&settings, &state)
                .await
                .unwrap_or_else(|fault| panic!("{fault}"));
            landscape
                .ready(PATIENCE)
                .await
                .unwrap_or_else(|fault| panic!("{fault}"));
            let write = |part: &str, config| {
                let text = base_secrets::to_yaml(&config).unwrap();
                std::fs::write(kubeconfig::path(&folder, part), text.expose()).unwrap();
            };
            write("garden", landscape.garden_kubeconfig().unwrap());
            write("seed", landscape.seed_kubeconfig().unwrap());
            // It runs for as long as the process of the tests.
            std::mem::forget(landscape);
        });
        Self {
            folder,
            _runtime: runtime,
        }
    }
}

/// Where the prepared kubectl is.
fn program() -> PathBuf {
    if let Some(path) = std::env::var_os("ORANGERY_KUBECTL") {
        return path.into();
    }
    let path = tests_kit::cache_folder().unwrap().join("real/kubectl/kubectl");
    assert!(
        path.exists(),
        "{} is missing: run `cargo xtask real kubectl`",
        path.display()
    );
    path
}

/// kubectl for one part of the landscape.
#[derive(Clone)]
pub struct Kubectl {
    kubeconfig: PathBuf,
}

impl Kubectl {
    /// Against the garden.
    #[must_use]
    pub fn garden() -> Self {
        Self {
            kubeconfig: kubeconfig::path(&SHARED.folder, "garden"),
        }
    }

    /// Against the seed: an ordinary cluster.
    #[must_use]
    pub fn seed() -> Self {
        Self {
            kubeconfig: kubeconfig::path(&SHARED.folder, "seed"),
        }
    }

    /// Against the example Shoot, with the kubeconfig that the binary prints.
    #[must_use]
    pub fn shoot() -> Self {
        static SHOOT_KUBECONFIG: LazyLock<PathBuf> = LazyLock::new(|| {
            let garden = Kubectl::garden();
            for manifest in SURROUNDINGS.iter().chain([&SHOOT]) {
                garden.feed(&["apply", "-f", "-"], manifest);
            }
            let shoot = format!("shoot/{NAME}");
            garden.ok(&[
                "wait",
                "--for=jsonpath={.status.lastOperation.state}=Succeeded",
                &shoot,
                "-n",
                NAMESPACE,
                "--timeout=120s",
            ]);
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            let text = runtime
                .block_on(kubeconfig::of_shoot(&SHARED.folder, NAMESPACE, NAME))
                .unwrap_or_else(|fault| panic!("{fault}"));
            let path = kubeconfig::path(&SHARED.folder, "shoot");
            std::fs::write(&path, text).unwrap();
            path
        });
        Self {
            kubeconfig: SHOOT_KUBECONFIG.clone(),
        }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(program());
        command.arg("--kubeconfig").arg(&self.kubeconfig).args(arguments);
        // Each landscape has a port of its own; discovery kept from another would mislead.
        command.arg("--cache-dir").arg(SHARED.folder.join("discovery"));
        command
    }

    /// Runs a command and returns all it said.
    #[must_use]
    pub fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Runs a command that must succeed; returns its standard output.
    pub fn ok(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        succeeded(arguments, &output)
    }

    /// Runs a command that must fail; returns its standard error.
    pub fn fails(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(
            !output.status.success(),
            "kubectl {arguments:?} succeeded: {}",
            String::from_utf8_lossy(&output.stdout)
        );
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    /// Runs a command with `input` on its standard input; it must succeed.
    pub fn feed(&self, arguments: &[&str], input: &str) -> String {
        let output = self.feed_any(arguments, input);
        succeeded(arguments, &output)
    }

    /// The same, whatever comes of it.
    #[must_use]
    pub fn feed_any(&self, arguments: &[&str], input: &str) -> Output {
        tests_kit::fed(&mut self.command(arguments), input).unwrap()
    }

    /// Starts a command that goes on.
    #[must_use]
    pub fn spawn(&self, arguments: &[&str]) -> Child {
        let mut command = self.command(arguments);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }
}

fn succeeded(arguments: &[&str], output: &Output) -> String {
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "kubectl {arguments:?} failed: {error}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
