//! What this provider hands to itself through `providerStatus`: the Infrastructure writes it, ControlPlane and Worker
//! read it back from their own specs. No component in between reads it.

use api_meta::{ErrorCode, Fault, RawJson};
use ipnet::Ipv4Net;
use serde::{Deserialize, Serialize};

/// apiVersion of the provider's own types.
pub(crate) const API_VERSION: &str = "local.provider.extensions.gardener.cloud/v1alpha1";
const KIND: &str = "InfrastructureStatus";

/// `status.providerStatus` of an Infrastructure of this provider. One of another extension, for whose other kinds this provider
/// stands in, is read as far as it has the same fields: `network.cidr` at least.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InfrastructureStatus {
    /// That of the extension which wrote it.
    pub api_version: String,
    /// Always `InfrastructureStatus`.
    pub kind: String,
    /// For people.
    #[serde(default)]
    pub description: String,
    /// The network of the nodes.
    pub network: NetworkStatus,
}

/// The network of a shoot's nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NetworkStatus {
    /// 63 random bits, as clouds number their networks: most do not fit a float.
    #[serde(default)]
    pub id: i64,
    /// The whole network.
    pub cidr: String,
    /// A part of it per zone; one without name where the shoot has no zones. Zones that are wanted no more are last.
    #[serde(default)]
    pub subnets: Vec<Subnet>,
    /// Addresses that traffic from the nodes comes from.
    #[serde(default)]
    pub egress_cidrs: Vec<String>,
}

/// The part of a network in one zone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Subnet {
    /// The zone's name.
    pub zone: String,
    /// Its addresses.
    pub cidr: String,
}

impl NetworkStatus {
    /// The part of a zone, and its place among the network's parts, from 1. No two zones share one.
    pub(crate) fn subnet(&self, zone: &str) -> Option<(u32, &Subnet)> {
        let subnet = self.subnets.iter().find(|subnet| subnet.zone == zone)?;
        let (network, part): (Ipv4Net, Ipv4Net) = (self.cidr.parse().ok()?, subnet.cidr.parse().ok()?);
        let place = network
            .subnets(part.prefix_len())
            .ok()?
            .position(|other| other == part)?;
        Some((u32::try_from(place + 1).ok()?, subnet))
    }
}

impl InfrastructureStatus {
    /// A status of this provider.
    pub(crate) fn new(namespace: &str, network: NetworkStatus) -> Self {
        Self {
            api_version: API_VERSION.to_owned(),
            kind: KIND.to_owned(),
            description: format!("network of \"{namespace}\""),
            network,
        }
    }

    /// Reads what an Infrastructure reported, from the spec of `what` that it was copied into.
    pub(crate) fn read(raw: Option<&RawJson>, what: &str) -> Result<Self, Fault> {
        let wrong = |why: String| {
            Fault::dependency(format!("{what} has no usable infrastructureProviderStatus: {why}"))
                .code(ErrorCode::RetryableConfigurationProblem)
                .hint("wait until the Infrastructure has succeeded and gardenlet has copied its providerStatus")
        };
        let raw = raw.ok_or_else(|| wrong("it is not set".to_owned()))?;
        let mut status: Self = raw.decode().map_err(|error| wrong(error.to_string()))?;
        if status.kind != KIND {
            return Err(wrong(format!("it is a {} of {}", status.kind, status.api_version)));
        }
        // Another extension's status has a network in one piece, for pools without zones.
        let network = &mut status.network;
        if status.api_version != API_VERSION && network.subnets.is_empty() {
            network.subnets.push(Subnet {
                zone: String::new(),
                cidr: network.cidr.clone(),
            });
        }
        Ok(status)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(status: serde_json::Value) -> Result<InfrastructureStatus, Fault> {
        InfrastructureStatus::read(Some(&RawJson::from(status)), "the Worker")
    }

    #[test]
    fn a_network_of_another_extension_is_one_subnet_for_pools_without_zones() {
        let network = json!({"cidr": "10.250.0.0/16"});
        let status = json!({"apiVersion": "moon/v1", "kind": "InfrastructureStatus", "network": network, "more": 1});
        let read = read(status).unwrap();
        let (place, subnet) = read.network.subnet("").unwrap();
        assert_eq!((place, subnet.cidr.as_str()), (1, "10.250.0.0/16"));
        assert!(read.network.subnet("a").is_none());
    }

    #[test]
    fn a_status_without_a_network_or_of_another_kind_is_refused_by_name() {
        let of = |kind: &str| json!({"apiVersion": "moon/v1", "kind": kind});
        let fault = read(of("InfrastructureStatus")).unwrap_err();
        assert!(fault.to_string().contains("missing field `network`"), "{fault}");
        let mut other = of("Other");
        other["network"] = json!({"cidr": "10.250.0.0/16"});
        let fault = read(other).unwrap_err();
        assert!(fault.to_string().contains("it is a Other of moon/v1"), "{fault}");
    }
}
