//! Files and units of nodes. Pure but for what the operation already holds.

use api_core::v1beta1::{CRIName, Worker as ShootWorker};
use api_extensions::{
    CRIConfig, CgroupDriverName, ContainerdConfig, File, FileContent, FileContentInline, OperatingSystemConfig,
    OperatingSystemConfigPurpose, OperatingSystemConfigStatus, Unit, UnitCommand,
};
use api_meta::Fault;
use base_secrets::BootstrapToken;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use components_hosted::shoot::{NODE_AGENT_CONFIG_PATH, NODE_AGENT_TOKEN_PATH};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::json;

use super::super::super::operation::Operation;
use super::super::secrets::{CA, CA_CLIENT, ShootSecrets};
use crate::config::Addressing;

type Content = (Vec<File>, Vec<Unit>);

/// The image of the container that holds a pod's namespaces (gardener/gardener v1.150 `imagevector/containers.yaml`).
const PAUSE_IMAGE: &str = "registry.k8s.io/pause:3.10";

fn file(path: &str, permissions: u32, text: &str) -> File {
    File {
        path: path.to_owned(),
        permissions: Some(permissions),
        content: FileContent {
            inline: Some(FileContentInline {
                encoding: "b64".to_owned(),
                data: STANDARD.encode(text),
            }),
            ..FileContent::default()
        },
        host_name: None,
    }
}

fn unit(name: &str, content: &str, file_paths: &[&str]) -> Unit {
    Unit {
        name: name.to_owned(),
        command: Some(UnitCommand::Start),
        enable: Some(true),
        content: Some(content.to_owned()),
        file_paths: file_paths.iter().map(|path| (*path).to_owned()).collect(),
        ..Unit::default()
    }
}

/// What a machine is born with: where its cluster is, how to join it, and what starts the node agent.
pub(crate) fn init(
    op: &Operation,
    secrets: &ShootSecrets,
    key: &str,
    token: &BootstrapToken,
) -> Result<Content, Fault> {
    let host = op.shoot.api_host();
    let mut api_server = json!({"caBundle": STANDARD.encode(authorities(secrets)?)});
    match &op.context.config.addressing {
        Addressing::PerService => api_server["server"] = format!("https://{host}").into(),
        Addressing::Shared { url, .. } => {
            api_server["server"] = url.clone().into();
            api_server["tlsServerName"] = host.into();
        }
    }
    let config = json!({
        "apiVersion": "nodeagent.config.gardener.cloud/v1alpha1",
        "kind": "NodeAgentConfiguration",
        "apiServer": api_server,
        "secretName": key,
    });
    let files = vec![
        // JSON is YAML, and quotes everything that must be quoted.
        file(NODE_AGENT_CONFIG_PATH, 0o600, &config.to_string()),
        file(NODE_AGENT_TOKEN_PATH, 0o640, token.text().expose()),
    ];
    Ok((
        files,
        vec![unit(
            "gardener-node-init.service",
            NODE_INIT_UNIT,
            &[NODE_AGENT_CONFIG_PATH],
        )],
    ))
}

const NODE_INIT_UNIT: &str = "[Unit]
Description=Downloads and starts the gardener-node-agent
After=network-online.target
Wants=network-online.target
[Service]
Type=oneshot
Restart=on-failure
RestartSec=5
ExecStart=/opt/bin/gardener-node-agent bootstrap --config=/var/lib/gardener-node-agent/config.yaml
[Install]
WantedBy=multi-user.target
";

const NODE_AGENT_UNIT: &str = "[Unit]
Description=Gardener Node Agent
After=network-online.target
[Service]
LimitMEMLOCK=infinity
Restart=always
RestartSec=5
ExecStart=/opt/bin/gardener-node-agent --config=/var/lib/gardener-node-agent/config.yaml
[Install]
WantedBy=multi-user.target
";

const KUBELET_UNIT: &str = "[Unit]
Description=kubelet daemon
After=containerd.service
[Service]
Restart=always
RestartSec=5
ExecStart=/opt/bin/kubelet --bootstrap-kubeconfig=/var/lib/kubelet/kubeconfig-bootstrap \\
  --config=/var/lib/kubelet/config/kubelet --kubeconfig=/var/lib/kubelet/kubeconfig-real
[Install]
WantedBy=multi-user.target
";

const KUBELET_CONFIG_PATH: &str = "/var/lib/kubelet/config/kubelet";
const KUBELET_CA_PATH: &str = "/var/lib/kubelet/ca.crt";
const KUBELET_VERSION_PATH: &str = "/var/lib/kubelet/version";

/// What the node agent makes of a machine.
pub(crate) fn original(
    op: &Operation,
    secrets: &ShootSecrets,
    worker: &ShootWorker,
    version: &str,
) -> Result<Content, Fault> {
    let kubelet = json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {"anonymous": {"enabled": false}, "webhook": {"enabled": true}, "x509": {"clientCAFile": KUBELET_CA_PATH}},
        "authorization": {"mode": "Webhook"},
        "cgroupDriver": "systemd",
        "clusterDomain": "cluster.local",
        "clusterDNS": dns_addresses(&op.shoot.services),
        "rotateCertificates": true,
        "serverTLSBootstrap": true,
        "registerWithTaints": worker.taints,
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
    });
    let client_authorities = secrets
        .get(CA_CLIENT)?
        .authorities()
        .map_err(|error| Fault::bug(error).hint("look at the Secret of the authority ca-client"))?;
    let files = vec![
        file(KUBELET_CONFIG_PATH, 0o644, &kubelet.to_string()),
        file(KUBELET_CA_PATH, 0o640, &client_authorities),
        file(KUBELET_VERSION_PATH, 0o644, version),
    ];
    let units = vec![
        unit(
            "gardener-node-agent.service",
            NODE_AGENT_UNIT,
            &[NODE_AGENT_CONFIG_PATH],
        ),
        // A kubelet of another version is restarted, as for a new program.
        unit(
            "kubelet.service",
            KUBELET_UNIT,
            &[KUBELET_CONFIG_PATH, KUBELET_CA_PATH, KUBELET_VERSION_PATH],
        ),
    ];
    Ok((files, units))
}

/// CoreDNS has the tenth address of the services' network (convention of Kubernetes' installers).
fn dns_addresses(services: &[String]) -> Vec<String> {
    let tenth = |network: &String| {
        let (address, _) = network.split_once('/')?;
        let address: std::net::Ipv4Addr = address.parse().ok()?;
        Some(std::net::Ipv4Addr::from(u32::from(address).checked_add(10)?).to_string())
    };
    services.iter().filter_map(tenth).collect()
}

fn authorities(secrets: &ShootSecrets) -> Result<String, Fault> {
    secrets
        .get(CA)?
        .authorities()
        .map_err(|error| Fault::bug(error).hint("look at the Secret of the authority ca"))
}

/// The container runtime interface of a pool. Only a machine that has its node agent is given settings of containerd
/// (gardener/gardener v1.150 `pkg/component/extensions/operatingsystemconfig`). Further runtimes are not named here: their
/// extensions find the machines by the labels of the pool's nodes.
pub(crate) fn cri(worker: &ShootWorker, purpose: &OperatingSystemConfigPurpose) -> Option<CRIConfig> {
    let name = worker.cri.as_ref()?.name.clone();
    let configures = name == CRIName::Containerd && *purpose == OperatingSystemConfigPurpose::Reconcile;
    Some(CRIConfig {
        name,
        cgroup_driver: configures.then_some(CgroupDriverName::Systemd),
        containerd: configures.then(|| ContainerdConfig {
            sandbox_image: PAUSE_IMAGE.to_owned(),
            ..ContainerdConfig::default()
        }),
    })
}

/// The configuration with what the extension added, as the node agent reads it: without what only the seed needs.
pub(crate) fn for_node_agent(config: &OperatingSystemConfig) -> Result<String, Fault> {
    let status = config.status.clone().unwrap_or_default();
    let reduced = OperatingSystemConfig {
        metadata: ObjectMeta {
            name: config.metadata.name.clone(),
            ..ObjectMeta::default()
        },
        spec: config.spec.clone(),
        status: Some(OperatingSystemConfigStatus {
            extension_units: status.extension_units,
            extension_files: status.extension_files,
            ..OperatingSystemConfigStatus::default()
        }),
    };
    serde_json::to_string(&reduced)
        .map_err(|error| Fault::bug(error).hint("report it: an object of ours cannot be written as JSON"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containerd_is_set_up_once_a_machine_has_its_node_agent() {
        let pool = json!({"cri": {"name": "containerd", "containerRuntimes": [{"type": "gvisor"}]}});
        let pool: ShootWorker = serde_json::from_value(pool).unwrap();
        let made = |purpose| serde_json::to_value(cri(&pool, &purpose)).unwrap();
        assert_eq!(
            made(OperatingSystemConfigPurpose::Provision),
            json!({"name": "containerd"})
        );
        assert_eq!(
            made(OperatingSystemConfigPurpose::Reconcile),
            json!({"name": "containerd", "cgroupDriver": "systemd", "containerd": {"sandboxImage": "registry.k8s.io/pause:3.10"}})
        );
        let without = ShootWorker::default();
        assert_eq!(cri(&without, &OperatingSystemConfigPurpose::Reconcile), None);
    }

    #[test]
    fn dns_has_the_tenth_address() {
        assert_eq!(dns_addresses(&["100.64.0.0/13".to_owned()]), ["100.64.0.10"]);
        assert!(dns_addresses(&["nonsense".to_owned()]).is_empty());
    }

    #[test]
    fn the_node_agent_sees_what_the_extension_added_and_nothing_of_the_seed() {
        let mut config = OperatingSystemConfig::default();
        config.metadata.namespace = Some("shoot--a--b".into());
        config.spec.files = vec![file("/a", 0o600, "x")];
        config.status = Some(OperatingSystemConfigStatus {
            extension_units: vec![unit("b.service", "y", &[])],
            observed_generation: Some(3),
            ..OperatingSystemConfigStatus::default()
        });
        let text = for_node_agent(&config).unwrap();
        assert!(text.contains("b.service") && text.contains("\"/a\""));
        assert!(!text.contains("shoot--a--b") && !text.contains("observedGeneration"));
    }
}
