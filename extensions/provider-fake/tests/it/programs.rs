//! The programs: their flags, and a provider that reaches the cloud of another process.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;

use extensions_provider_fake::cloud::{
    Calls, Cloud, CloudApi, CloudConnector, HttpCloud, Keys, Kind, Reason, Settings, Tags,
};

use crate::world::{REGION, World, config};

const FAKE_CLOUD: &str = env!("CARGO_BIN_EXE_fake-cloud");
const PROVIDER: &str = env!("CARGO_BIN_EXE_provider-fake");
const ADMISSION: &str = env!("CARGO_BIN_EXE_admission-fake");

/// A `fake-cloud` that ends with the test.
struct Served {
    child: Child,
    url: String,
    keys: Keys,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Served {
    fn new(flags: &[&str]) -> Self {
        let mut command = Command::new(FAKE_CLOUD);
        command
            .args(["--listen", "127.0.0.1:0"])
            .args(flags)
            .stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut value = |key: &str| lines.next().unwrap().unwrap().strip_prefix(key).unwrap().to_owned();
        Self {
            url: value("url: "),
            keys: Keys {
                access_key_id: value("accessKeyID: "),
                secret_access_key: value("secretAccessKey: "),
            },
            child,
        }
    }

    fn api(&self) -> Arc<dyn CloudApi> {
        HttpCloud::new(&self.url).unwrap().connect(&self.keys, REGION)
    }
}

fn run(program: &str, words: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.env_remove("FAKE_CLOUD_URL").args(words).output().unwrap()
}

#[test]
fn help_names_the_flags_of_each_program() {
    for (program, flags) in [
        (FAKE_CLOUD, ["--listen", "--seed", "--faults"]),
        (PROVIDER, ["--cloud-url", "--webhook-config-mode", "--kubeconfig"]),
        (
            ADMISSION,
            ["--garden-kubeconfig", "--webhook-config-url", "--kubeconfig"],
        ),
    ] {
        let output = run(program, &["--help"]);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(
            output.status.success() && flags.iter().all(|flag| text.contains(flag)),
            "{text}"
        );
    }
}

#[test]
fn wrong_flags_are_refused_with_flag_value_and_what_is_allowed() {
    for (program, words, expected) in [
        (FAKE_CLOUD, &["--listen", "9090"][..], &["--listen", "'9090'"][..]),
        (FAKE_CLOUD, &["--faults", "many"], &["--faults", "'many'"]),
        (FAKE_CLOUD, &["--keys", "id"], &["--keys", "a colon and its secret"]),
        (FAKE_CLOUD, &["--port", "1"], &["'--port'"]),
        (PROVIDER, &[], &["--cloud-url"]),
        (
            PROVIDER,
            &["--cloud-url", "localhost"],
            &["--cloud-url", "'localhost'", "http://127.0.0.1:8080"],
        ),
        (
            ADMISSION,
            &["--webhook-config-mode=url"],
            &["--webhook-config-url <HOST:PORT>"],
        ),
        (
            ADMISSION,
            &["--webhook-config-mode", "tunnel"],
            &["--webhook-config-mode", "'tunnel'", "service, url-service, url"],
        ),
    ] {
        let output = run(program, words);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(expected.iter().all(|part| text.contains(part)), "{text}");
    }
}

#[test]
fn a_port_that_is_taken_is_named() {
    let served = Served::new(&[]);
    let address = served.url.strip_prefix("http://").unwrap();
    let output = run(FAKE_CLOUD, &["--listen", address]);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text.contains(address) && text.contains("--listen"), "{text}");
}

#[tokio::test]
async fn faults_of_a_served_cloud_are_those_of_its_seed() {
    const CALLS: u32 = 100;
    let failures = async |seed: &str| {
        let served = Served::new(&["--seed", seed, "--faults", "80"]);
        let api = served.api();
        let mut reasons: Vec<Option<Reason>> = Vec::new();
        for _ in 0..CALLS {
            reasons.push(
                api.list(Kind::Network, &Tags::new())
                    .await
                    .err()
                    .map(|error| error.reason),
            );
        }
        reasons
    };
    let first = failures("1").await;
    assert_eq!(first, failures("1").await);
    assert_ne!(first, failures("2").await);
    assert!(first[..80].iter().flatten().count() > 5, "{first:?}");
    assert_eq!(first[80..].iter().flatten().count(), 0, "{first:?}");
}

#[tokio::test]
async fn an_infrastructure_is_made_in_a_cloud_of_another_process() {
    let served = Served::new(&["--list-lag", "1"]);
    let world = World::with_cloud(Cloud::new(Settings::default())).await;
    world.give_keys(&served.keys).await;
    let cloud = Arc::new(HttpCloud::new(&served.url).unwrap());
    let _runs_on = world.start_through(world.embedded.admin(), cloud, Calls::new(None));
    let count = async || {
        // The first list may miss something.
        let mut found = 0;
        for kind in Kind::ALL {
            for _ in 0..2 {
                let _of_before = served.api().list(kind, &Tags::new()).await.unwrap();
            }
            found += served.api().list(kind, &Tags::new()).await.unwrap().len();
        }
        found
    };
    world
        .create(config(&[("fake-1a", "10.250.0.0/20")], &[]), "ssh-ed25519 AAAA key")
        .await;
    world.succeeds().await;
    assert_eq!(count().await, 4);
    world.delete().await;
    world.goes().await;
    assert_eq!(count().await, 0);
}
