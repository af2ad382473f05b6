//! A seed of a landscape: Kubernetes with our node, and a gardenlet, each a process; beside them the replica of
//! gardener-resource-manager that answers the webhooks of an API server that reaches no pods.

use std::path::{Path, PathBuf};

use base_client::{Connector as _, Https, WaitState, wait_until};
use components_seed::CONFIGURATION_FILE;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{ConfigMap, Node, ServiceAccount};
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::api::PostParams;
use kube::config::Kubeconfig;
use kube::{Api, Client};
use landscape_local::SeedSettings;
use serde_json::{Value, json};
use tests_conformance::real::{Place, Real};
use tests_parts::Outcome;

use super::configuration::{process, write};
use super::garden_side::apply;
use super::part::{Health, Part};
use super::ports::Ports;
use super::serving::serving;
use super::{Settings, rights};
use crate::confinement::Webhooks;
use crate::garden::{Garden, VALIDITY, with_token};
use crate::{PATIENCE, local, write_private};

/// Name of the seed's gardener-resource-manager: its Deployment, service account and Lease.
const RESOURCE_MANAGER: &str = components_seed::RESOURCE_MANAGER;
/// Where it lives.
const NAMESPACE: &str = "garden";

/// A seed, until it is dropped; its parts end before what they work on.
pub struct OfSeed {
    /// `orangery gardenlet`.
    pub gardenlet: Part,
    /// `orangery resource-manager`: a replica beside the one that runs in a pod.
    pub resource_manager: Part,
    /// `orangery node`.
    pub node: Part,
    /// Name of the Seed.
    pub name: String,
    /// A client of `system:masters`.
    pub admin: Client,
    /// Kubernetes.
    pub real: Real,
    /// Its files.
    pub folder: PathBuf,
    /// The port of loopback where the API servers of its Shoots listen, routed by the TLS server name.
    pub of_shoots: u16,
}

impl OfSeed {
    /// Starts Kubernetes, our node, and a gardenlet that registers the seed in the garden.
    pub(super) async fn start(
        settings: &Settings,
        seed: &SeedSettings,
        garden: &Garden,
        ports: &mut Ports,
    ) -> Outcome<Self> {
        let folder = settings.folder.join("seeds").join(&seed.name);
        let port = ports.of(&format!("{}/kube-apiserver", seed.name))?;
        let place = Place {
            folder: folder.join("kubernetes"),
            port,
            service_range: seed.networks.services,
            flags: Vec::new(),
        };
        let real = Real::start_at(&place, settings.of_kubernetes(true)).await?;
        let text = real.endpoint.kubeconfig.expose();
        write_private(&folder.join("admin.kubeconfig"), text)?;
        let kubeconfig = Kubeconfig::from_yaml(text).map_err(|error| error.to_string())?;
        let admin = Https::new("tests").client(&kubeconfig).map_err(|fault| fault.chain())?;
        apply(&admin, rights::of_seed()?).await?;
        let mut starting = Starting {
            settings,
            seed,
            folder: &folder,
            real: &real,
            admin: &admin,
            ports,
        };
        let (node, of_shoots) = starting.node().await?;
        let webhooks = starting.webhooks()?;
        let gardenlet = starting.gardenlet(garden, of_shoots, &webhooks)?;
        let resource_manager = starting.resource_manager(&webhooks).await?;
        Ok(Self {
            gardenlet,
            resource_manager,
            node,
            name: seed.name.clone(),
            admin,
            real,
            folder,
            of_shoots,
        })
    }

    /// The parts that can be killed and started again.
    pub fn parts(&mut self) -> [&mut Part; 3] {
        [&mut self.gardenlet, &mut self.resource_manager, &mut self.node]
    }

    /// Waits until our node is ready.
    ///
    /// # Errors
    /// It is not in time.
    pub async fn until_node_ready(&self) -> Outcome {
        node_ready(&self.admin, &node_name(&self.name)).await
    }
}

/// What the parts are started in.
struct Starting<'a> {
    settings: &'a Settings,
    seed: &'a SeedSettings,
    folder: &'a Path,
    real: &'a Real,
    admin: &'a Client,
    ports: &'a mut Ports,
}

impl Starting<'_> {
    fn port(&mut self, of: &str) -> Outcome<u16> {
        self.ports.of(&format!("{}/{of}", self.seed.name))
    }

    fn kubeconfig(&self, name: &str, user: &str, groups: &[&str]) -> Outcome<String> {
        let path = rights::kubeconfig(self.folder, name, self.real, user, groups)?;
        Ok(path.display().to_string())
    }

    /// The node, and the port of the API servers that its pods run.
    async fn node(&mut self) -> Outcome<(Part, u16)> {
        let name = node_name(&self.seed.name);
        let (of_shoots, of_node) = (self.port("shoots")?, self.port("node")?);
        let kubeconfig = self.kubeconfig("node", &format!("system:node:{name}"), &rights::NODES)?;
        let provisioner = self.kubeconfig("provisioner", rights::PROVISIONER, &[])?;
        let arguments = vec![
            "node".to_owned(),
            format!("--kubeconfig={kubeconfig}"),
            format!("--name={name}"),
            format!("--port={of_shoots}"),
            format!("--kubelet-port={of_node}"),
            format!("--pod-cidr={}", self.seed.networks.pods),
            format!("--provisioner-kubeconfig={provisioner}"),
            format!("--data-dir={}", self.folder.join("node").display()),
        ];
        let mut node = Part::start("node", self.folder, arguments, Health::Listens(of_node))?;
        node.until_ready().await?;
        node_ready(self.admin, &name).await?;
        Ok((node, of_shoots))
    }

    /// Where the replica that answers webhooks does.
    fn webhooks(&mut self) -> Outcome<Webhooks> {
        let port = self.port("webhooks")?;
        serving(&self.folder.join("webhooks"), RESOURCE_MANAGER, port)
    }

    fn gardenlet(&mut self, garden: &Garden, of_shoots: u16, webhooks: &Webhooks) -> Outcome<Part> {
        let health = [self.port("gardenlet/health")?, self.port("gardenlet/metrics")?];
        let api = "gardenlet.config.gardener.cloud/v1alpha1";
        let mut configuration = process(api, "GardenletConfiguration", health, self.settings.election);
        let seed = landscape_local::seed_object(self.seed);
        configuration["seedConfig"] = json!({"metadata": seed["metadata"], "spec": seed["spec"]});
        configuration["orangery"] = json!({
            "addressing": {"type": "Shared", "url": format!("https://127.0.0.1:{of_shoots}"), "address": "127.0.0.1"},
            "seedWebhooks": {"url": format!("https://127.0.0.1:{}", webhooks.port), "caBundle": webhooks.authority},
        });
        let configuration = write(self.folder, "gardenlet", &configuration)?;
        let user = rights::of_gardenlet(&self.seed.name);
        let in_garden = rights::kubeconfig(self.folder, "gardenlet-garden", &garden.real, &user, &[rights::SEEDS])?;
        let in_seed = self.kubeconfig("gardenlet-seed", rights::GARDENLET, &[])?;
        let arguments = vec![
            "gardenlet".to_owned(),
            format!("--config={}", configuration.display()),
            format!("--garden-kubeconfig={}", in_garden.display()),
            format!("--kubeconfig={in_seed}"),
        ];
        Part::start("gardenlet", self.folder, arguments, Health::Ready(health[0]))
    }

    /// A further replica of what gardenlet has deployed: the same settings, the same service account, the same Lease.
    async fn resource_manager(&mut self, webhooks: &Webhooks) -> Outcome<Part> {
        let config_maps: Api<ConfigMap> = Api::namespaced(self.admin.clone(), NAMESPACE);
        let deployed = wait_until(&config_maps, RESOURCE_MANAGER, PATIENCE, there).await;
        let deployed = deployed.map_err(|waited| waited.to_string())?;
        let bindings: Api<ClusterRoleBinding> = Api::all(self.admin.clone());
        let bound = wait_until(&bindings, components_seed::CLUSTER_ROLE, PATIENCE, there).await;
        bound.map_err(|waited| waited.to_string())?;

        let health = [
            self.port("resource-manager/health")?,
            self.port("resource-manager/metrics")?,
        ];
        let api = "resourcemanager.config.gardener.cloud/v1alpha1";
        let mut configuration = process(api, "ResourceManagerConfiguration", health, self.settings.election);
        configuration["leaderElection"]["resourceNamespace"] = NAMESPACE.into();
        configuration["server"]["webhooks"] = local(webhooks.port);
        configuration["server"]["webhooks"]["tls"] = json!({"serverCertDir": webhooks.certificates});
        configuration["controllers"] = controllers(&deployed)?;
        let configuration = write(self.folder, "resource-manager", &configuration)?;
        let kubeconfig = self.folder.join("resource-manager.kubeconfig");
        write_private(
            &kubeconfig,
            &with_token(self.real, &self.token(RESOURCE_MANAGER).await?),
        )?;
        let arguments = vec![
            "resource-manager".to_owned(),
            format!("--config={}", configuration.display()),
            format!("--kubeconfig={}", kubeconfig.display()),
        ];
        let mut started = Part::start("resource-manager", self.folder, arguments, Health::Ready(health[0]))?;
        started.until_ready().await?;
        Ok(started)
    }

    /// A token of a service account.
    async fn token(&self, account: &str) -> Outcome<String> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.admin.clone(), NAMESPACE);
        let request = TokenRequest {
            spec: TokenRequestSpec {
                expiration_seconds: i64::try_from(VALIDITY.as_secs()).ok(),
                ..TokenRequestSpec::default()
            },
            ..TokenRequest::default()
        };
        let issued = accounts
            .create_token_request(account, &PostParams::default(), &request)
            .await;
        let issued = issued.map_err(|error| format!("no token of service account {account}: {error}"))?;
        issued
            .status
            .map(|status| status.token)
            .ok_or_else(|| format!("no token of service account {account}: the answer has no status"))
    }
}

fn node_name(seed: &str) -> String {
    format!("seed-{seed}-0")
}

fn there<K: Clone>(object: Option<&K>) -> WaitState<K> {
    object.map_or_else(
        || WaitState::NotYet("it is not there yet".to_owned()),
        |object| WaitState::Done(object.clone()),
    )
}

async fn node_ready(admin: &Client, name: &str) -> Outcome {
    let nodes: Api<Node> = Api::all(admin.clone());
    let waited = wait_until(&nodes, name, PATIENCE, |node| {
        let status = node.and_then(|node| node.status.as_ref());
        let mut conditions = status.into_iter().flat_map(|status| status.conditions.iter().flatten());
        match conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True") {
            true => WaitState::Done(()),
            false => WaitState::NotYet("it is not ready".to_owned()),
        }
    });
    waited.await.map_err(|waited| waited.to_string())
}

/// The `controllers` of the configuration that gardenlet has deployed.
fn controllers(deployed: &ConfigMap) -> Outcome<Value> {
    let file = deployed.data.as_ref().and_then(|data| data.get(CONFIGURATION_FILE));
    let file = file.ok_or_else(|| format!("ConfigMap {RESOURCE_MANAGER} has no {CONFIGURATION_FILE}"))?;
    let configuration: Value =
        serde_json::from_str(file).map_err(|error| format!("{CONFIGURATION_FILE} of {RESOURCE_MANAGER}: {error}"))?;
    Ok(configuration["controllers"].clone())
}
