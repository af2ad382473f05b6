//! Infrastructure: a network, a subnet for each zone, a security group and a key pair for the machines. What exists in the
//! cloud stands in `status.state`, which the SDK's inventory writes; nothing else is remembered.

mod config;

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::Arc;

use api_core::v1beta1::Shoot;
use api_extensions::{Infrastructure, InfrastructureStatusNetworking};
use api_meta::{ErrorCode, Fault, RawJson};
use async_trait::async_trait;
use extensions_sdk::inventory::{Inventory, Resource};
use extensions_sdk::{Actuator, Change, Context, InfrastructureOwn, Outcome, Saved};
use futures::future::try_join_all;
use ipnet::Ipv4Net;
use kube::ResourceExt;
use sha2::{Digest, Sha256};

use crate::cloud::{
    CloudApi, CloudConnector, KeyPairSpec, Kind, NetworkSpec, Rule, SecurityGroupSpec, Spec, SubnetSpec, Tags,
};
use crate::credentials::connect;
use crate::provider_status::{InfrastructureStatus, ZoneStatus};
use crate::resource::{CLUSTER_TAG, CloudResource};
use config::Zone;
pub(crate) use config::{FIELD, ValidatedConfig, Vpc, vpc_of};

/// Slots of the inventory.
const NETWORK: &str = "network";
const SUBNET: &str = "subnet";
const SECURITY_GROUP: &str = "security-group";
const KEY_PAIR: &str = "key-pair";
/// Ports of Services of type NodePort (kubernetes/kubernetes v1.35 pkg/cluster/ports).
const NODE_PORTS: (u16, u16) = (30_000, 32_767);

/// The actuator of Infrastructures.
pub(crate) struct Infrastructures {
    cloud: Arc<dyn CloudConnector>,
}

/// One operation.
struct Flow<'a> {
    api: Arc<dyn CloudApi>,
    cluster: String,
    inventory: Inventory<'a>,
}

impl Infrastructures {
    pub(crate) fn new(cloud: Arc<dyn CloudConnector>) -> Self {
        Self { cloud }
    }

    async fn flow<'a>(&self, context: &'a Context, object: &'a Infrastructure) -> Result<Flow<'a>, Fault> {
        let spec = &object.spec;
        Ok(Flow {
            api: connect(context, &*self.cloud, &spec.secret_ref, &spec.region).await?,
            cluster: object.namespace().unwrap_or_default(),
            inventory: Inventory::open(context, object)?,
        })
    }
}

#[async_trait]
impl Actuator<Infrastructure> for Infrastructures {
    async fn reconcile(&self, context: &Context, object: &Infrastructure) -> Result<Outcome<Infrastructure>, Fault> {
        let cluster = context.cluster()?;
        let config = ValidatedConfig::read(object.spec.provider_config.as_ref(), &zones_of(&cluster.shoot))?;
        let public_key = public_key_of(object)?;
        let flow = self.flow(context, object).await?;
        let status = flow.ensure(&config, public_key).await?;
        let (address, range) = flow.network(&status.network).await?;
        let networking = cluster.shoot.spec.networking.as_ref();
        let own = InfrastructureOwn {
            nodes_cidr: Some(range.to_string()),
            egress_cidrs: vec![Ipv4Net::from(address).to_string()],
            networking: Some(InfrastructureStatusNetworking {
                nodes: vec![range.to_string()],
                pods: networking.and_then(|net| net.pods.clone()).into_iter().collect(),
                services: networking.and_then(|net| net.services.clone()).into_iter().collect(),
            }),
        };
        Ok(Outcome {
            provider_status: Change::Set(RawJson::of(&status).map_err(Fault::bug)?),
            ..Outcome::own(own)
        })
    }

    async fn delete(&self, context: &Context, object: &Infrastructure) -> Result<(), Fault> {
        // What never made anything goes without credentials, which may be what was wrong with it.
        if Inventory::open(context, object)?.slots().is_empty() {
            return Ok(());
        }
        let flow = self.flow(context, object).await?;
        flow.inventory.remove_all(&|slot| flow.unwanted(slot)).await
    }

    async fn force_delete(&self, _: &Context, _: &Infrastructure) -> Result<(), Fault> {
        Ok(())
    }

    async fn migrate(&self, _: &Context, _: &Infrastructure) -> Result<Saved, Fault> {
        // The state goes with the shoot, and the cloud stays as it is.
        Ok(Saved::default())
    }
}

impl Flow<'_> {
    /// Makes what is wanted, then removes what is not.
    async fn ensure(&self, config: &ValidatedConfig, public_key: Option<&str>) -> Result<InfrastructureStatus, Fault> {
        let network = self.ensure_network(&config.vpc).await?;
        let subnets: Vec<CloudResource> = config.zones.iter().map(|zone| self.subnet(&network, zone)).collect();
        let group = self.security_group(&network, config);
        let key_pair = public_key.map(|key| self.key_pair(key));
        let ensured = subnets.iter().chain([&group]).chain(&key_pair);
        let ids = try_join_all(ensured.map(|resource| self.inventory.ensure(resource))).await?;
        self.remove_unwanted(subnets.iter().chain([&group]).chain(&key_pair))
            .await?;
        let mut ids = ids.into_iter();
        let zones = config.zones.iter().zip(ids.by_ref()).map(|(zone, subnet)| ZoneStatus {
            name: zone.name.clone(),
            subnet,
        });
        let zones: Vec<ZoneStatus> = zones.collect();
        let group = ids.next().ok_or_else(|| Fault::bug("the security group has no id"))?;
        Ok(InfrastructureStatus::new(network, group, ids.next(), zones))
    }

    async fn ensure_network(&self, vpc: &Vpc) -> Result<String, Fault> {
        match vpc {
            Vpc::Own(cidr) => {
                let spec = Spec::Network(NetworkSpec { cidr: *cidr });
                self.inventory.ensure(&self.wanted(NETWORK.to_owned(), spec)).await
            }
            Vpc::Existing(id) => match self.inventory.id(NETWORK) {
                None => Ok(id.clone()),
                Some(own) => Err(
                    Fault::user(format!("the shoot has the network {own} and cannot move to {id}"))
                        .code(ErrorCode::ConfigurationProblem)
                        .hint(format!("set {}.networks.vpc.cidr again, without vpc.id", FIELD)),
                ),
            },
        }
    }

    /// What is outside of the network, and the range inside.
    async fn network(&self, id: &str) -> Result<(Ipv4Addr, Ipv4Net), Fault> {
        let item = self.api.get(Kind::Network, id).await?;
        let found = item.and_then(|item| match (item.address, item.spec) {
            (Some(address), Spec::Network(spec)) => Some((address, spec.cidr)),
            _ => None,
        });
        found.ok_or_else(|| {
            Fault::user(format!("there is no network {id} in the account of the credentials"))
                .code(ErrorCode::ConfigurationProblem)
                .hint(format!("name a network of the account in {}.networks.vpc.id", FIELD))
        })
    }

    /// Removes what an earlier configuration wanted. A subnet in which machines stand stays until they are gone: Workers are
    /// reconciled after the Infrastructure.
    async fn remove_unwanted(&self, wanted: impl Iterator<Item = &CloudResource>) -> Result<(), Fault> {
        let mut retained: BTreeSet<String> = wanted.map(|resource| resource.slot().to_owned()).collect();
        retained.insert(NETWORK.to_owned());
        let unwanted = |slot: &String| !retained.contains(slot) && slot.starts_with(SUBNET);
        let former: Vec<String> = self.inventory.slots().into_iter().filter(unwanted).collect();
        if !former.is_empty() {
            let in_use = self.subnets_in_use().await?;
            let used = |slot: &String| self.inventory.id(slot).is_some_and(|id| in_use.contains(&id));
            retained.extend(former.into_iter().filter(used));
        }
        let retained: Vec<&str> = retained.iter().map(String::as_str).collect();
        self.inventory
            .remove_others(&retained, &|slot| self.unwanted(slot))
            .await
    }

    async fn subnets_in_use(&self) -> Result<BTreeSet<String>, Fault> {
        let tags = Tags::from([(CLUSTER_TAG.to_owned(), self.cluster.clone())]);
        let instances = self.api.list(Kind::Instance, &tags).await?;
        let subnets = instances.into_iter().filter_map(|item| match item.spec {
            Spec::Instance(spec) => Some(spec.subnet),
            _ => None,
        });
        Ok(subnets.collect())
    }

    fn wanted(&self, slot: String, spec: Spec) -> CloudResource {
        CloudResource::wanted(&self.api, &self.cluster, slot, spec)
    }

    fn subnet(&self, network: &str, zone: &Zone) -> CloudResource {
        let spec = SubnetSpec {
            network: network.to_owned(),
            zone: zone.name.clone(),
            cidr: zone.workers,
        };
        self.wanted(format!("{SUBNET}/{}", zone.name), Spec::Subnet(spec))
    }

    fn security_group(&self, network: &str, config: &ValidatedConfig) -> CloudResource {
        let among_nodes = config.zones.iter().map(|zone| Rule {
            source: zone.workers,
            port: 1,
            port_end: u16::MAX,
        });
        let node_ports = config.node_port_sources.iter().map(|source| Rule {
            source: *source,
            port: NODE_PORTS.0,
            port_end: NODE_PORTS.1,
        });
        let spec = SecurityGroupSpec {
            network: network.to_owned(),
            rules: among_nodes.chain(node_ports).collect(),
        };
        self.wanted(SECURITY_GROUP.to_owned(), Spec::SecurityGroup(spec))
    }

    /// The cloud never changes a key, so each key has a slot of its own.
    fn key_pair(&self, public_key: &str) -> CloudResource {
        let digest: String = Sha256::digest(public_key)[..4]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let spec = KeyPairSpec {
            public_key: public_key.to_owned(),
        };
        self.wanted(format!("{KEY_PAIR}/{digest}"), Spec::KeyPair(spec))
    }

    /// The resource of a slot that is to be removed.
    fn unwanted(&self, slot: &str) -> Option<Box<dyn Resource>> {
        let kind = match slot.split('/').next()? {
            NETWORK => Kind::Network,
            SUBNET => Kind::Subnet,
            SECURITY_GROUP => Kind::SecurityGroup,
            KEY_PAIR => Kind::KeyPair,
            _ => return None,
        };
        Some(Box::new(CloudResource::unwanted(&self.api, &self.cluster, slot, kind)))
    }
}

/// The zones of all worker pools.
pub(crate) fn zones_of(shoot: &Shoot) -> BTreeSet<String> {
    let workers = &shoot.spec.provider.workers;
    workers.iter().flat_map(|worker| worker.zones.clone()).collect()
}

fn public_key_of(object: &Infrastructure) -> Result<Option<&str>, Fault> {
    let key = object
        .spec
        .ssh_public_key
        .as_ref()
        .map(|key| std::str::from_utf8(&key.0));
    let key = key
        .transpose()
        .map_err(|_| Fault::bug("spec.sshPublicKey is no text"))?;
    Ok(key.map(str::trim_end).filter(|key| !key.is_empty()))
}
