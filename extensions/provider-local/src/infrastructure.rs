//! Infrastructure: a network of the nodes' own, distinct from every other in the seed. There is no cloud behind
//! it; the record of the network is a ConfigMap in the shoot's namespace.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use api_core::v1beta1::Worker;
use api_extensions::{Infrastructure, InfrastructureStatusNetworking};
use api_meta::{ErrorCode, Fault, RawJson};
use async_trait::async_trait;
use base_client::delete;
use base_controller::Cache;
use extensions_sdk::{Actuator, Change, ClusterView, Context, InfrastructureOwn, Outcome, Saved};
use ipnet::{IpNet, Ipv4Net};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, ResourceExt};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::objects::{apply_config_map, meta};
use crate::provider_status::{InfrastructureStatus, NetworkStatus, Subnet};

const MADE_FOR: &str = "infrastructure";
/// The record of the network.
const RECORD: &str = "local-network";
/// Networks are parts of 10.0.0.0/8.
const ALL_NETWORKS: Ipv4Net = Ipv4Net::new_assert(Ipv4Addr::new(10, 0, 0, 0), 8);
/// Prefix length of a network for up to four zones: a thousand Shoots have one each.
const NETWORK_PREFIX: u8 = 18;
/// Prefix length of a zone's part of a network.
const SUBNET_PREFIX: u8 = 20;

/// The actuator of Infrastructures.
pub(crate) struct Infrastructures {
    others: Cache<Infrastructure>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct InfrastructureConfig {
    networks: NetworksConfig,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NetworksConfig {
    nodes: Option<String>,
}

impl Infrastructures {
    pub(crate) fn new(others: Cache<Infrastructure>) -> Self {
        Self { others }
    }

    /// The network it has, the configured one, or a free one.
    fn network_of(
        &self,
        object: &Infrastructure,
        cluster: &ClusterView,
        known: Option<&NetworkStatus>,
    ) -> Result<Ipv4Net, Fault> {
        let networking = cluster.shoot.spec.networking.as_ref();
        let shown = networking.and_then(|networking| networking.nodes.clone());
        let configured = config_of(object)?.networks.nodes;
        if let Some(cidr) = shown
            .or(configured)
            .or_else(|| known.map(|network| network.cidr.clone()))
        {
            return parse(&cidr);
        }
        let mut taken: Vec<IpNet> = Vec::new();
        let shoot = networking
            .into_iter()
            .flat_map(|n| [n.pods.clone(), n.services.clone()])
            .flatten();
        let seed = cluster.seed()?.map(|seed| seed.spec.networks);
        let seed = seed
            .into_iter()
            .flat_map(|n| [n.nodes, Some(n.pods), Some(n.services)])
            .flatten();
        let others = self.others.list();
        let others = others
            .iter()
            .filter(|other| other.metadata.uid != object.metadata.uid)
            .filter_map(|other| other.status.as_ref().and_then(|status| status.nodes_cidr.clone()));
        taken.extend(
            shoot
                .chain(seed)
                .chain(others)
                .filter_map(|cidr| cidr.parse::<IpNet>().ok()),
        );
        let prefix = prefix_for(zones_of(&cluster.shoot.spec.provider.workers).len());
        allocate(&object.namespace().unwrap_or_default(), prefix, &taken).ok_or_else(|| {
            Fault::quota(format!("no /{prefix} of {ALL_NETWORKS} is left for the nodes"))
                .code(ErrorCode::InfraResourcesDepleted)
                .hint("delete Shoots that are not needed, or choose spec.networking.nodes of the Shoot yourself")
        })
    }
}

fn config_of(object: &Infrastructure) -> Result<InfrastructureConfig, Fault> {
    let Some(raw) = &object.spec.provider_config else {
        return Ok(InfrastructureConfig::default());
    };
    raw.decode().map_err(|error| {
        Fault::user(format!("infrastructureConfig cannot be read: {error}"))
            .code(ErrorCode::ConfigurationProblem)
            .hint("correct spec.provider.infrastructureConfig of the Shoot")
    })
}

fn parse(cidr: &str) -> Result<Ipv4Net, Fault> {
    let network: Result<Ipv4Net, _> = cidr.parse();
    match network {
        Ok(network) if network.prefix_len() <= SUBNET_PREFIX => Ok(network.trunc()),
        Ok(_) => Err(format!("the nodes' network {cidr} is smaller than a /{SUBNET_PREFIX}")),
        Err(_) => Err(format!("the nodes' network {cidr} is not an IPv4 network")),
    }
    .map_err(|text| {
        Fault::user(text)
            .code(ErrorCode::ConfigurationProblem)
            .hint("correct spec.networking.nodes of the Shoot, or leave it out")
    })
}

/// Prefix length of a network with a part for each zone.
fn prefix_for(zones: usize) -> u8 {
    (ALL_NETWORKS.prefix_len()..=NETWORK_PREFIX)
        .rev()
        .find(|prefix| 1_usize << (SUBNET_PREFIX - prefix) >= zones)
        .unwrap_or(ALL_NETWORKS.prefix_len())
}

/// A network that meets none of `taken`: where to begin looking depends on `name`, so that shoots made at the same
/// time rarely look at the same one.
fn allocate(name: &str, prefix: u8, taken: &[IpNet]) -> Option<Ipv4Net> {
    let candidates = 1_usize << (prefix - ALL_NETWORKS.prefix_len());
    let digest = Sha256::digest(name);
    let begin = usize::from(u16::from_be_bytes([digest[0], digest[1]])) * candidates / (1 << 16);
    let all = || ALL_NETWORKS.subnets(prefix).ok().into_iter().flatten();
    all().skip(begin).chain(all().take(begin)).find(|candidate| {
        let candidate = IpNet::V4(*candidate);
        !taken
            .iter()
            .any(|net| net.contains(&candidate) || candidate.contains(net))
    })
}

/// The zones of all pools; one without name for pools that have none.
fn zones_of(workers: &[Worker]) -> BTreeSet<String> {
    let unnamed = || vec![String::new()];
    let zones = workers.iter().flat_map(|worker| match worker.zones.is_empty() {
        true => unnamed(),
        false => worker.zones.clone(),
    });
    let zones: BTreeSet<String> = zones.collect();
    if zones.is_empty() {
        return unnamed().into_iter().collect();
    }
    zones
}

/// A /20 per zone. A zone keeps the one that it has, because machines stand in it; new ones follow in the zones' order.
/// A zone that is wanted no more keeps its own as well: its machines go later. Only when nothing else is free, it is given
/// to another.
fn subnets(network: Ipv4Net, zones: BTreeSet<String>, known: &[Subnet]) -> Result<Vec<Subnet>, Fault> {
    let wanted = zones.len();
    let parts: Vec<String> = (network.subnets(SUBNET_PREFIX).map_err(Fault::bug)?)
        .map(|part| part.to_string())
        .collect();
    let known: Vec<&Subnet> = known.iter().filter(|subnet| parts.contains(&subnet.cidr)).collect();
    let retained = |zone: &str| known.iter().find(|subnet| subnet.zone == zone);
    let is_known = |part: &&String| known.iter().any(|subnet| subnet.cidr == **part);
    let former: Vec<&Subnet> = (known.iter().copied())
        .filter(|subnet| !zones.contains(&subnet.zone))
        .collect();
    let never_given = parts.iter().filter(|part| !is_known(part));
    let mut free = never_given.chain(former.iter().map(|subnet| &subnet.cidr));
    let mut subnets: Vec<Subnet> = zones
        .into_iter()
        .map_while(|zone| {
            let cidr = retained(&zone)
                .map(|subnet| &subnet.cidr)
                .or_else(|| free.next())?
                .clone();
            Some(Subnet { zone, cidr })
        })
        .collect();
    if subnets.len() < wanted {
        return Err(
            Fault::user(format!("the nodes' network {network} is too small for {wanted} zones"))
                .code(ErrorCode::ConfigurationProblem)
                .hint("choose a larger spec.networking.nodes, or fewer zones"),
        );
    }
    for subnet in former {
        if subnets.iter().all(|given| given.cidr != subnet.cidr) {
            subnets.push(subnet.clone());
        }
    }
    Ok(subnets)
}

/// The address traffic comes from: out of the network that is reserved for examples, so that no real host is hit.
fn egress_of(namespace: &str) -> String {
    format!("203.0.113.{}/32", Sha256::digest(namespace)[1])
}

#[async_trait]
impl Actuator<Infrastructure> for Infrastructures {
    async fn reconcile(&self, context: &Context, object: &Infrastructure) -> Result<Outcome<Infrastructure>, Fault> {
        let cluster = context.cluster()?;
        let namespace = object.namespace().unwrap_or_default();
        // After a migration there is the state alone, which is the same.
        let reported = object
            .status
            .as_ref()
            .and_then(|status| status.provider_status.as_ref().or(status.state.as_ref()));
        let known = reported.and_then(|raw| InfrastructureStatus::read(Some(raw), "the Infrastructure").ok());
        let network = self.network_of(object, cluster, known.as_ref().map(|known| &known.network))?;
        let zones = zones_of(&cluster.shoot.spec.provider.workers);
        let parts = known.as_ref().map_or(&[][..], |known| &known.network.subnets);
        let id = known.as_ref().map_or_else(
            || context.entropy.next_u64().cast_signed() & i64::MAX,
            |known| known.network.id,
        );
        let status = InfrastructureStatus::new(
            &namespace,
            NetworkStatus {
                id,
                cidr: network.to_string(),
                subnets: subnets(network, zones, parts)?,
                egress_cidrs: vec![egress_of(&namespace)],
            },
        );
        let raw = match (reported, &known) {
            (Some(reported), Some(known)) if *known == status => reported.clone(),
            _ => RawJson::of(&status).map_err(Fault::bug)?,
        };
        let record = BTreeMap::from([("network.json".to_owned(), raw.get().to_owned())]);
        apply_config_map(&context.client, meta(&namespace, RECORD, MADE_FOR), record).await?;
        let networking = cluster.shoot.spec.networking.as_ref();
        let own = InfrastructureOwn {
            nodes_cidr: Some(status.network.cidr.clone()),
            egress_cidrs: status.network.egress_cidrs.clone(),
            networking: Some(InfrastructureStatusNetworking {
                nodes: vec![status.network.cidr.clone()],
                pods: networking
                    .and_then(|networking| networking.pods.clone())
                    .into_iter()
                    .collect(),
                services: networking
                    .and_then(|networking| networking.services.clone())
                    .into_iter()
                    .collect(),
            }),
        };
        Ok(Outcome {
            provider_status: Change::Set(raw.clone()),
            state: Change::Set(raw),
            ..Outcome::own(own)
        })
    }

    async fn delete(&self, context: &Context, object: &Infrastructure) -> Result<(), Fault> {
        let namespace = object.namespace().unwrap_or_default();
        delete::<ConfigMap>(&Api::namespaced(context.client.clone(), &namespace), RECORD).await
    }

    async fn force_delete(&self, context: &Context, object: &Infrastructure) -> Result<(), Fault> {
        self.delete(context, object).await
    }

    async fn migrate(&self, _: &Context, _: &Infrastructure) -> Result<Saved, Fault> {
        // The network is the same in the other seed: it stands in the state.
        Ok(Saved::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nets(cidrs: &[&str]) -> Vec<IpNet> {
        cidrs.iter().map(|cidr| cidr.parse().unwrap()).collect()
    }

    #[test]
    fn a_network_meets_no_other_and_stays_put_for_a_name() {
        let first = allocate("shoot--a--b", 18, &[]).unwrap();
        assert_eq!(allocate("shoot--a--b", 18, &[]), Some(first));
        let second = allocate("shoot--a--b", 18, &[IpNet::V4(first)]).unwrap();
        assert_ne!(first, second);
        let lower_half = nets(&["10.0.0.0/9"]);
        assert!((0..50).all(|n| allocate(&n.to_string(), 18, &lower_half).unwrap().addr().octets()[1] >= 128));
        assert_eq!(allocate("x", 18, &nets(&["10.0.0.0/8"])), None);
    }

    #[test]
    fn the_last_free_network_of_a_thousand_is_found() {
        let mut taken: Vec<IpNet> = ALL_NETWORKS.subnets(18).unwrap().map(IpNet::V4).collect();
        assert!(taken.len() > 1000);
        let free = taken.remove(700);
        assert_eq!(allocate("x", 18, &taken).map(IpNet::V4), Some(free));
    }

    #[test]
    fn a_network_has_a_part_for_each_zone() {
        assert_eq!([1, 4, 5, 16, 17].map(prefix_for), [18, 18, 17, 16, 15]);
    }

    /// Subnets as `<zone> <network>`.
    fn parts(network: &str, zones: &[&str], known: &[Subnet]) -> Result<(Vec<Subnet>, Vec<String>), Fault> {
        let zones = zones.iter().map(|name| (*name).to_owned()).collect();
        let made = subnets(network.parse().unwrap(), zones, known)?;
        let message = made.iter().map(|subnet| format!("{} {}", subnet.zone, subnet.cidr));
        let message = message.collect();
        Ok((made, message))
    }

    #[test]
    fn each_zone_gets_a_part_keeps_it_and_too_many_are_refused() {
        let (made, message) = parts("10.3.0.0/16", &["c", "b"], &[]).unwrap();
        assert_eq!(message, ["b 10.3.0.0/20", "c 10.3.16.0/20"]);
        let (made, message) = parts("10.3.0.0/16", &["a", "c", "b"], &made).unwrap();
        assert_eq!(message, ["a 10.3.32.0/20", "b 10.3.0.0/20", "c 10.3.16.0/20"]);
        assert!(parts("10.3.0.0/20", &["a", "b"], &[]).is_err());
        let (_, message) = parts("10.4.0.0/16", &["a"], &made).unwrap();
        assert_eq!(message, ["a 10.4.0.0/20"], "of another network nothing is retained");
    }

    #[test]
    fn a_zones_former_range_is_reused_only_when_no_other_is_free() {
        let (made, _) = parts("10.3.0.0/18", &["a", "b", "c"], &[]).unwrap();
        let (made, message) = parts("10.3.0.0/18", &["b"], &made).unwrap();
        assert_eq!(message, ["b 10.3.16.0/20", "a 10.3.0.0/20", "c 10.3.32.0/20"]);
        let (made, message) = parts("10.3.0.0/18", &["b", "d"], &made).unwrap();
        assert_eq!(
            message,
            ["b 10.3.16.0/20", "d 10.3.48.0/20", "a 10.3.0.0/20", "c 10.3.32.0/20"]
        );
        let (made, message) = parts("10.3.0.0/18", &["c", "d"], &made).unwrap();
        assert_eq!(message[..2], ["c 10.3.32.0/20", "d 10.3.48.0/20"], "back where it was");
        let (_, message) = parts("10.3.0.0/18", &["c", "d", "e"], &made).unwrap();
        assert_eq!(
            message,
            ["c 10.3.32.0/20", "d 10.3.48.0/20", "e 10.3.16.0/20", "a 10.3.0.0/20"]
        );
    }

    #[test]
    fn a_pool_without_zones_has_one_without_name() {
        let pool = |zones: &[&str]| Worker {
            zones: zones.iter().map(|zone| (*zone).to_owned()).collect(),
            ..Worker::default()
        };
        let of = |pools: &[Worker]| zones_of(pools).into_iter().collect::<Vec<_>>();
        assert_eq!(of(&[]), [""]);
        assert_eq!(of(&[pool(&[])]), [""]);
        assert_eq!(of(&[pool(&["b", "a"]), pool(&["a"]), pool(&[])]), ["", "a", "b"]);
    }

    #[test]
    fn a_network_that_cannot_be_divided_is_refused() {
        assert!(parse("10.0.0.0/24").is_err() && parse("fd00::/48").is_err());
    }
}
