//! The agent's life: provisioned, joined, reconciled. Each step names what it waits for.

use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use api_meta::{Fault, FaultClass, annotations};
use base_client::{Connector, WaitState, Waited, fault_of, wait_until};
use base_clock::Entropy;
use base_secrets::to_yaml;
use bytes::Bytes;
use k8s_openapi::api::core::v1::{Node, Secret};
use kube::Api;
use kube::api::{Patch, PatchParams};
use kube::config::Kubeconfig;
use serde_json::json;
use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

use crate::allowed::once_allowed;
use crate::desired::{Content, Desired, DesiredFile, hex, parse_osc};
use crate::join::{JoinError, bootstrap_kubeconfig, join};
use crate::machine::Machine;
use crate::plan::{Planned, plan};
use crate::user_data::{AgentConfig, CONFIG_PATH, TOKEN_PATH, UserData, parse_config, parse_user_data};

/// The unit that runs pods.
pub const KUBELET_UNIT: &str = "kubelet.service";
/// Where the node's own kubeconfig lies once it has joined.
pub const KUBECONFIG_PATH: &str = "/var/lib/kubelet/kubeconfig-real";
/// The key of the OperatingSystemConfig in its Secret.
const OSC_KEY: &str = "osc.yaml";
/// The namespace of that Secret.
const NAMESPACE: &str = "kube-system";
/// How long a new machine waits for its configuration or its Node before it reports that and starts over: a control
/// plane that is being made is there by then.
const PATIENCE: Duration = Duration::from_secs(10 * 60);
/// How long one watch on the configuration may see nothing new; only a bound for a wait that has none of its own.
const QUIET_MAX: Duration = Duration::from_secs(30 * 24 * 3600);
/// The pause after a failure while the node runs anyway.
const RETRY_PAUSE: Duration = Duration::from_secs(10);

/// What the agent works with.
#[derive(Clone)]
pub struct AgentOptions {
    /// The machine's name: the node's, where the configuration names no other.
    pub machine_name: String,
    /// What the machine was born with.
    pub user_data: String,
    /// The machine.
    pub machine: Arc<dyn Machine>,
    /// Makes clients.
    pub connector: Arc<dyn Connector>,
    /// Randomness, for the node's key.
    pub entropy: Entropy,
}

/// Runs until `stop`. The units it started are the machine's: they go on until that stops.
///
/// Errors: the user data is unusable, the cluster cannot be joined (the reason names who refused what), or a unit failed.
pub async fn run(options: AgentOptions, stop: CancellationToken) -> Result<(), Fault> {
    let machine = Arc::clone(&options.machine);
    tokio::select! {
        biased;
        () = stop.cancelled() => Ok(()),
        failed = machine.failed() => Err(failed.into()),
        lived = live(options) => lived,
    }
}

async fn live(options: AgentOptions) -> Result<(), Fault> {
    let UserData {
        desired: mut born,
        skipped,
    } = parse_user_data(&options.user_data)?;
    for note in skipped {
        tracing::info!(machine = %options.machine_name, "user data: {note}");
    }
    let before = joined_before(&options).await?;
    if before.is_none() {
        apply(&options, &born).await?;
    }
    let config = read_text(&options, CONFIG_PATH).await?;
    let config = parse_config(&config)?;
    let node = config.node_name.clone().unwrap_or_else(|| options.machine_name.clone());
    let (secret, kubeconfig) = match before {
        Some(kubeconfig) => (refetch(&options, &config, &kubeconfig, &node).await?, kubeconfig),
        None => {
            let token = read_text(&options, TOKEN_PATH).await?;
            let secret = fetch(&options, &config, &token).await?;
            let kubeconfig = join(&config, &token, &node, options.connector.as_ref(), &options.entropy).await?;
            tracing::info!(node, "joined");
            (secret, kubeconfig)
        }
    };
    born.files.remove(TOKEN_PATH);
    let text = to_yaml(&kubeconfig).map_err(|error| Fault::new(FaultClass::Bug, error))?;
    let content = Content::Bytes(Bytes::from(text.expose().to_owned()));
    born.files.insert(
        KUBECONFIG_PATH.to_owned(),
        DesiredFile {
            permissions: 0o600,
            content,
        },
    );

    let joined = Joined {
        options,
        config,
        node,
        kubeconfig,
        born,
    };
    joined.keep(secret).await
}

/// The kubeconfig of a machine that joined before it was switched on. One that cannot be read is none: then the machine
/// joins again.
async fn joined_before(options: &AgentOptions) -> Result<Option<Kubeconfig>, Fault> {
    let machine = &options.machine;
    let config = machine.read_file(CONFIG_PATH).await?;
    let Some(bytes) = machine.read_file(KUBECONFIG_PATH).await?.filter(|_| config.is_some()) else {
        return Ok(None);
    };
    match Kubeconfig::from_yaml(&String::from_utf8_lossy(&bytes)) {
        Ok(kubeconfig) => Ok(Some(kubeconfig)),
        // The parser's words would quote the file, and with it the node's key.
        Err(_) => {
            tracing::warn!(machine = %options.machine_name, "joining again: {KUBECONFIG_PATH} is not a kubeconfig");
            Ok(None)
        }
    }
}

/// Waits for the pool's configuration with the bootstrap identity.
async fn fetch(options: &AgentOptions, config: &AgentConfig, token: &str) -> Result<Secret, Fault> {
    let client = options.connector.client(&bootstrap_kubeconfig(config, token))?;
    configuration(client, config)
        .await
        .map_err(|fault| JoinError::with_token(config, fault))
}

/// The same as the node that the machine is already.
async fn refetch(
    options: &AgentOptions,
    config: &AgentConfig,
    kubeconfig: &Kubeconfig,
    node: &str,
) -> Result<Secret, Fault> {
    let client = options.connector.client(kubeconfig)?;
    let found = configuration(client, config).await;
    found.map_err(|fault| match fault.class {
        FaultClass::Access => fault
            .doing(&format!("read the configuration as node {node}"))
            .hint("the node's certificate has expired or its cluster was recreated: replace the machine"),
        _ => fault,
    })
}

async fn configuration(client: kube::Client, config: &AgentConfig) -> Result<Secret, Fault> {
    let secrets: Api<Secret> = Api::namespaced(client, NAMESPACE);
    let read = || async {
        let found = wait_until(&secrets, &config.secret_name, PATIENCE, |secret| match secret {
            Some(secret) => WaitState::Done(secret.clone()),
            None => WaitState::NotYet("it is not there".to_owned()),
        });
        Ok(found.await?)
    };
    once_allowed(read).await
}

/// A machine that has joined.
struct Joined {
    options: AgentOptions,
    config: AgentConfig,
    node: String,
    kubeconfig: Kubeconfig,
    /// What the machine was born with, without what joining used up, and with what it brought.
    born: Desired,
}

impl Joined {
    /// Applies the configuration now and after every change, and reports it until that is done. What fails later leaves
    /// the node as it is: its pods matter more than its newest configuration.
    async fn keep(&self, first: Secret) -> Result<(), Fault> {
        let client = self.options.connector.client(&self.kubeconfig)?;
        let secrets: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
        self.apply_secret(&first).await?;
        let (mut applied, mut is_reported) = (first, false);
        loop {
            let changed = wait_until(&secrets, &self.config.secret_name, QUIET_MAX, |secret| match secret {
                Some(secret) if version(secret) != version(&applied) => WaitState::Done(secret.clone()),
                _ => WaitState::NotYet("it has not changed".to_owned()),
            });
            // The Node may never come of a configuration that is wrong: its correction is seen meanwhile.
            let changed = tokio::select! {
                biased;
                changed = changed => changed,
                never = self.report_until_allowed(&client, &applied, &mut is_reported) => match never {},
            };
            let ended = match changed {
                Ok(secret) => {
                    let ended = self.apply_secret(&secret).await;
                    if ended.is_ok() {
                        (applied, is_reported) = (secret, false);
                    }
                    ended
                }
                Err(Waited::TimedOut { .. }) => Ok(()),
                Err(Waited::Failed(fault)) => Err(fault),
            };
            if ended.is_err() {
                self.warn(ended, "configuration was not read or not applied");
                tokio::time::sleep(RETRY_PAUSE).await;
            }
        }
    }

    /// Reports the configuration, again until that is done, and then does nothing forever.
    async fn report_until_allowed(
        &self,
        client: &kube::Client,
        applied: &Secret,
        is_reported: &mut bool,
    ) -> Infallible {
        while !*is_reported {
            let report = once_allowed(|| self.report(client, applied)).await;
            *is_reported = report.is_ok();
            self.warn(report, "configuration was not reported");
            if !*is_reported {
                tokio::time::sleep(RETRY_PAUSE).await;
            }
        }
        pending().await
    }

    fn warn(&self, ended: Result<(), Fault>, what: &str) {
        if let Err(fault) = ended {
            tracing::warn!(node = %self.node, fault = %fault.chain(), "{what}");
        }
    }

    async fn apply_secret(&self, secret: &Secret) -> Result<(), Fault> {
        let text = secret
            .data
            .as_ref()
            .and_then(|data| data.get(OSC_KEY))
            .ok_or_else(|| Fault::user(format!("secret {} has no key {OSC_KEY}", self.config.secret_name)))?;
        let osc = parse_osc(&String::from_utf8_lossy(&text.0), &self.node)?;
        if !osc.units.contains_key(KUBELET_UNIT) {
            return Err(Fault::user(format!(
                "the operating system config has no unit {KUBELET_UNIT}"
            )));
        }
        let mut desired = self.born.clone();
        desired.files.extend(osc.files);
        desired.units.extend(osc.units);
        apply(&self.options, &desired).await
    }

    /// Annotates the Node with the configuration that it has.
    async fn report(&self, client: &kube::Client, secret: &Secret) -> Result<(), Fault> {
        let nodes: Api<Node> = Api::all(client.clone());
        let checksum = checksum(secret);
        let reported = wait_until(&nodes, &self.node, PATIENCE, |node| match node {
            Some(node) => WaitState::Done(
                node.metadata
                    .annotations
                    .as_ref()
                    .and_then(|all| all.get(annotations::NODE_CLOUD_CONFIG_CHECKSUM))
                    .cloned(),
            ),
            None => WaitState::NotYet("the kubelet has not registered it".to_owned()),
        })
        .await?;
        if reported.as_ref() == Some(&checksum) {
            return Ok(());
        }
        let patch = json!({"metadata": {"annotations": {annotations::NODE_CLOUD_CONFIG_CHECKSUM: checksum}}});
        nodes
            .patch(&self.node, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .map(|_| ())
            .map_err(|error| fault_of(error, &format!("report the configuration of node {}", self.node)))
    }
}

/// What gardenlet compares with: the checksum it wrote, else one of the data.
fn checksum(secret: &Secret) -> String {
    let annotations = secret.metadata.annotations.as_ref();
    annotations
        .and_then(|all| all.get(annotations::DATA_SCRIPT_CHECKSUM))
        .cloned()
        .unwrap_or_else(|| {
            let data = secret.data.as_ref().and_then(|data| data.get(OSC_KEY));
            hex(&Sha256::digest(data.map(|data| data.0.as_slice()).unwrap_or_default()))
        })
}

fn version(secret: &Secret) -> Option<String> {
    secret.metadata.resource_version.clone()
}

async fn apply(options: &AgentOptions, desired: &Desired) -> Result<(), Fault> {
    let seen = options.machine.seen().await?;
    for Planned { action, why } in plan(desired, &seen) {
        tracing::debug!(machine = %options.machine_name, ?action, why, "applying");
        options.machine.perform(&action).await?;
    }
    Ok(())
}

async fn read_text(options: &AgentOptions, path: &str) -> Result<String, Fault> {
    let missing = || Fault::user(format!("the user data has no file {path}"));
    let bytes = options.machine.read_file(path).await?.ok_or_else(missing)?;
    String::from_utf8(bytes.into()).map_err(|_| Fault::user(format!("file {path} is not text")))
}
