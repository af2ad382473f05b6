//! The image `local-machine`: a machine of the local provider. Its pod is its hardware: the user data is mounted, the
//! node agent makes it a node of the cluster that the user data names, and its kubelet is an in-process node whose pods
//! are simulated, but for images that are programs there. Stopping the container is switching the machine off; what is on its
//! disk is there when it is switched on again.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use api_meta::Fault;
use base_clock::{Clock, Entropy};
use bytes::Bytes;
use cluster_node::{ContainerContext, Exit, Files, ImageCatalogue, NodeOptions, PodAddresses, image_tag};
use control_plane_node_agent::{
    AgentOptions, Disk, JoinError, KUBECONFIG_PATH, KUBELET_UNIT, MemoryMachine, UnitContext, UnitImplementation,
};
use extensions_provider_local::{DISK_PATH, EXIT_TOKEN_REFUSED, MACHINE_ADDRESS_ENV, MACHINE_NAME_ENV, USER_DATA_PATH};
use k8s_openapi::api::core::v1::Taint;
use kube::config::Kubeconfig;
use serde::Deserialize;

use super::Host;
use super::flags::Flags;
use super::kubelet::{self, Kubelet};
use super::shoot_nodes::Node;

/// What the provider puts before a machine's name to name its pod.
const POD_PREFIX: &str = "machine-";
/// The kubelet's program among the files of an operating system config: its image's tag is its version.
const KUBELET_PROGRAM: &str = "/opt/bin/kubelet";
/// Where an operating system config without a program says the kubelet's version.
const KUBELET_VERSION: &str = "/var/lib/kubelet/version";
/// Who signs the certificates of those that the kubelet answers.
const KUBELET_CLIENT_CA: &str = "/var/lib/kubelet/ca.crt";
/// The kubelet's configuration.
const KUBELET_CONFIG: &str = "/var/lib/kubelet/config/kubelet";

/// Runs until the machine is switched off, or cannot become a node.
pub async fn local_machine(host: Arc<Host>, context: ContainerContext) -> Exit {
    match live(&host, &context).await {
        Ok(()) => Exit::done(),
        Err(exit) => exit,
    }
}

async fn live(host: &Arc<Host>, context: &ContainerContext) -> Result<(), Exit> {
    let flags = Flags::parse("local-machine", &context.args, &["user-data"])?;
    let path = flags.get("user-data").unwrap_or(USER_DATA_PATH);
    let user_data = context.files.read_text(path).map_err(|error| Exit::failed_by(&error))?;
    let pod = context.pod.metadata.name.as_deref().unwrap_or_default();
    let of_pod = || pod.strip_prefix(POD_PREFIX).unwrap_or(pod).to_owned();
    let name = context.env.get(MACHINE_NAME_ENV).cloned().unwrap_or_else(of_pod);
    let address = address(context.env.get(MACHINE_ADDRESS_ENV), context.network.pod_ip())?;

    let units = BTreeMap::from([(KUBELET_UNIT.to_owned(), kubelet(host, context, &name, address))]);
    let machine = match MachineDisk::of(&context.files) {
        Some(disk) => MemoryMachine::on_disk(units, Arc::new(disk)),
        None => MemoryMachine::new(units),
    };
    let options = AgentOptions {
        machine_name: name,
        user_data,
        machine: Arc::new(machine.clone()),
        connector: Arc::clone(&host.connector),
        entropy: context.entropy.clone(),
    };
    // A machine is up once it is on; whether its node is ready, the node says.
    context.ready.set(true);
    let lived = control_plane_node_agent::run(options, context.stop.clone()).await;
    machine.stop().await;
    lived.map_err(|fault| Exit {
        code: match JoinError::is_token_refused(&fault) {
            true => EXIT_TOKEN_REFUSED,
            false => 1,
        },
        message: fault.chain(),
    })
}

/// The machine's disk: the volume that is mounted for it, with each file at its own path.
struct MachineDisk(Files);

impl MachineDisk {
    /// None of a pod that has no such volume: it forgets all when its container ends.
    fn of(files: &Files) -> Option<Self> {
        files.is_writable(DISK_PATH).then(|| Self(files.clone()))
    }
}

impl Disk for MachineDisk {
    fn files(&self) -> Vec<(String, Bytes)> {
        let paths = self.0.list_all(DISK_PATH).into_iter();
        paths
            .filter_map(|path| {
                let bytes = self.0.read(&format!("{DISK_PATH}/{path}")).ok()?;
                Some((format!("/{path}"), bytes))
            })
            .collect()
    }

    fn write(&self, path: &str, bytes: &Bytes) -> Result<(), String> {
        let written = self.0.write(&format!("{DISK_PATH}{path}"), bytes.clone());
        written.map_err(|error| error.to_string())
    }

    fn remove(&self, path: &str) -> Result<(), String> {
        let removed = self.0.remove(&format!("{DISK_PATH}{path}"));
        removed.map_err(|error| error.to_string())
    }
}

/// The machine's address in the network of its nodes; a machine that was given none has its pod's.
fn address(given: Option<&String>, pod: IpAddr) -> Result<IpAddr, Exit> {
    let Some(given) = given else { return Ok(pod) };
    given.parse().map_err(|_| {
        Exit::failed(format!(
            "local-machine: {MACHINE_ADDRESS_ENV} {given:?} is no IP address"
        ))
    })
}

/// The kubelet's unit: a node that pretends to run every image that is no program there.
fn kubelet(host: &Arc<Host>, context: &ContainerContext, name: &str, address: IpAddr) -> UnitImplementation {
    let (host, name) = (Arc::clone(host), name.to_owned());
    let (clock, entropy) = (context.clock.clone(), context.entropy.clone());
    let namespace = context.network.namespace().to_owned();
    Arc::new(move |unit: UnitContext| {
        let (host, name, namespace) = (Arc::clone(&host), name.clone(), namespace.clone());
        let (clock, entropy) = (clock.clone(), entropy.clone());
        Box::pin(async move {
            let kubeconfig = kubeconfig(&unit)?;
            let cluster = server_name(&kubeconfig);
            let node = Node {
                name: &name,
                namespace: &namespace,
                server_name: &cluster,
            };
            let catalogue = Arc::new(images(&host, &node)?);
            let served = served(
                &host,
                &unit,
                &kubeconfig,
                (&namespace, &name, address),
                (&clock, &entropy),
            )?;
            let mut options = NodeOptions::new(
                name.clone(),
                kubeconfig,
                Arc::clone(&host.connector),
                catalogue,
                clock,
                entropy,
            );
            options.network = host.networks.of(&cluster);
            options.addresses = vec![address];
            options.pod_addresses = PodAddresses::OfNode;
            options.labels = node_labels(&unit.content);
            options.taints = taints(&unit)?;
            if let Some(kubelet) = &served {
                options.services = kubelet.services.clone();
                options.port = Some(kubelet::PORT);
            }
            if let Some(version) = version(&unit) {
                options.kubelet_version = version;
            }
            let ran = cluster_node::run(options, unit.stop).await;
            drop(served);
            ran
        })
    })
}

/// What the node's pods can be.
fn images(host: &Host, node: &Node<'_>) -> Result<ImageCatalogue, Fault> {
    let pretended = ImageCatalogue::new().simulating();
    let Some(programs) = &host.node_programs else {
        return Ok(pretended);
    };
    let machines = host.machines.clone().unwrap_or_default();
    Ok(programs.of(node, &host.front, &machines)?.add_to(pretended))
}

/// The kubelet's server, where API servers need one.
fn served(
    host: &Host,
    unit: &UnitContext,
    kubeconfig: &Kubeconfig,
    (namespace, node, address): (&str, &str, IpAddr),
    (clock, entropy): (&Clock, &Entropy),
) -> Result<Option<Kubelet>, Fault> {
    let (Some(machines), Some(authorities)) = (&host.machines, unit.files.read(KUBELET_CLIENT_CA)) else {
        return Ok(None);
    };
    let settings = kubelet::Settings {
        node,
        namespace,
        address,
        client: host.connector.client(kubeconfig)?,
        client_authorities: &String::from_utf8_lossy(&authorities),
        clock,
        entropy,
    };
    Kubelet::serve(machines, settings).map(Some)
}

fn kubeconfig(unit: &UnitContext) -> Result<Kubeconfig, Fault> {
    let bytes = unit
        .files
        .read(KUBECONFIG_PATH)
        .ok_or_else(|| Fault::user(format!("no file {KUBECONFIG_PATH}")))?;
    // The parser's words would quote the file, and with it the node's key.
    Kubeconfig::from_yaml(&String::from_utf8_lossy(&bytes))
        .map_err(|_| Fault::user(format!("file {KUBECONFIG_PATH} is not a kubeconfig")))
}

/// What tells the machine's cluster from others of this process.
fn server_name(kubeconfig: &Kubeconfig) -> String {
    base_client::Target::of(kubeconfig)
        .map(|target| target.server_name().to_owned())
        .unwrap_or_default()
}

/// The kubelet's version, `v1.35.0`.
fn version(unit: &UnitContext) -> Option<String> {
    let of_image = unit
        .files
        .image(KUBELET_PROGRAM)
        .and_then(|image| image_tag(&image).map(str::to_owned));
    let of_file = || {
        Some(
            String::from_utf8_lossy(&unit.files.read(KUBELET_VERSION)?)
                .trim()
                .to_owned(),
        )
    };
    let version = of_image.or_else(of_file)?;
    Some(if version.starts_with('v') {
        version
    } else {
        format!("v{version}")
    })
}

/// What of the kubelet's configuration a node without processes can heed.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct KubeletConfiguration {
    #[serde(default)]
    register_with_taints: Option<Vec<Taint>>,
}

fn taints(unit: &UnitContext) -> Result<Vec<Taint>, Fault> {
    match unit.files.read(KUBELET_CONFIG) {
        Some(bytes) => registered_with(&String::from_utf8_lossy(&bytes)),
        None => Ok(Vec::new()),
    }
}

fn registered_with(configuration: &str) -> Result<Vec<Taint>, Fault> {
    let configuration: KubeletConfiguration = base_yaml::read_strict(configuration)
        .map_err(|error| Fault::user(format!("file {KUBELET_CONFIG}: {error}")))?;
    Ok(configuration.register_with_taints.unwrap_or_default())
}

/// The labels of `--node-labels=a=b,c=d` in the kubelet's unit file.
fn node_labels(unit: &str) -> BTreeMap<String, String> {
    let flags = unit
        .split_whitespace()
        .filter_map(|word| word.strip_prefix("--node-labels="));
    flags
        .flat_map(|labels| labels.split(','))
        .filter_map(|label| label.split_once('='))
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_of_a_broken_configuration_does_not_quote_it() {
        let fault = registered_with("registerWithTaints: []\nstaticToken: hunter2\nother: [oops\n").unwrap_err();
        let text = fault.chain();
        assert!(text.starts_with(&format!("file {KUBELET_CONFIG}: line ")), "{text}");
        assert!(!text.contains("hunter2") && text.lines().count() == 1, "{text}");
    }

    #[test]
    fn a_machine_has_the_address_it_was_given() {
        let pod: IpAddr = "10.1.0.2".parse().unwrap();
        assert_eq!(address(None, pod).unwrap(), pod);
        assert_eq!(
            address(Some(&"10.68.0.2".to_owned()), pod).unwrap().to_string(),
            "10.68.0.2"
        );
        let wrong = address(Some(&"10.68.0".to_owned()), pod).unwrap_err();
        assert!(
            wrong.message.contains("MACHINE_ADDRESS \"10.68.0\""),
            "{}",
            wrong.message
        );
    }

    #[test]
    fn labels_are_read_from_the_unit_file() {
        let unit = "[Service]\nExecStart=/opt/bin/kubelet \\\n    --node-labels=worker.gardener.cloud/pool=a,x=y \\\n    --v=2";
        let labels: Vec<_> = node_labels(unit).into_iter().collect();
        assert_eq!(
            labels,
            [
                ("worker.gardener.cloud/pool".into(), "a".into()),
                ("x".into(), "y".into())
            ]
        );
        assert!(node_labels("").is_empty());
    }
}
