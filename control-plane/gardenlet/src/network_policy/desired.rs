//! The network policies that every namespace of a kind has: nothing is allowed, but for what pods request by a label
//! (gardener/gardener v1.150 pkg/controller/networkpolicy/reconciler.go). Pure.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use api_core::v1beta1::{IPFamily, SeedNetworks, Shoot};
use api_meta::labels::network as marks;
use api_meta::{annotations, labels, names};
use ipnet::IpNet;
use k8s_openapi::api::core::v1::{Namespace, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::networking::v1::{
    IPBlock, NetworkPolicy, NetworkPolicyEgressRule, NetworkPolicyPeer, NetworkPolicyPort, NetworkPolicySpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement, ObjectMeta};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt;

const DENY_ALL: &str = "deny-all";
const TO_RUNTIME_API_SERVER: &str = "allow-to-runtime-apiserver";
const TO_PUBLIC_NETWORKS: &str = "allow-to-public-networks";
const TO_PRIVATE_NETWORKS: &str = "allow-to-private-networks";
const TO_BLOCKED_CIDRS: &str = "allow-to-blocked-cidrs";
const TO_DNS: &str = "allow-to-dns";
/// All names of policies that are written and deleted here.
pub(super) const NAMES: [&str; 6] = [
    DENY_ALL,
    TO_RUNTIME_API_SERVER,
    TO_PUBLIC_NETWORKS,
    TO_PRIVATE_NETWORKS,
    TO_BLOCKED_CIDRS,
    TO_DNS,
];

/// RFC 1918 and RFC 6598.
const PRIVATE_V4: [&str; 4] = ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10"];
/// Link-local and unique local addresses.
const PRIVATE_V6: [&str; 2] = ["fe80::/10", "fc00::/7"];
/// Where a node's own DNS cache listens.
const NODE_LOCAL_DNS: [&str; 2] = ["169.254.20.10/32", "fd30:1319:f1e:230b::1/128"];
/// Place of the name server among the addresses of Services.
const DNS_OFFSET: u128 = 10;
/// Ports of the name server: as its Service has them, and as its pods do.
const DNS_PORTS: [i32; 2] = [53, 8053];
/// Labels of namespaces, beside that of shoots and extensions.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";
const EXPOSURE_CLASS_HANDLER: &str = "handler.exposureclass.gardener.cloud/name";
const ISTIO: [&str; 2] = ["istio-system", "istio-ingress"];
/// Before the names of shoots' namespaces.
const SHOOT_PREFIX: &str = "shoot-";

/// What a namespace is, as far as policies differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sort {
    /// `garden`, of a shoot, of an extension.
    Ours,
    Istio,
    /// Only named by the handler of an exposure class.
    Exposure,
    Other,
}

/// What policies are made from, beside the namespace.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Surroundings {
    pub(super) networks: SeedNetworks,
    /// Where the seed's API server is.
    pub(super) api_server: Vec<NetworkPolicyEgressRule>,
}

/// Whether policies of ours belong into a namespace.
pub(super) fn is_handled(namespace: &Namespace) -> bool {
    sort(namespace) != Sort::Other
}

/// The policies of a namespace; the shoot is the one whose namespace it is.
pub(super) fn desired(namespace: &Namespace, shoot: Option<&Shoot>, around: &Surroundings) -> Vec<NetworkPolicy> {
    let sort = sort(namespace);
    let wanted = |name: &&str| match sort {
        Sort::Ours => true,
        Sort::Istio => matches!(*name, DENY_ALL | TO_RUNTIME_API_SERVER | TO_DNS),
        Sort::Exposure => matches!(*name, DENY_ALL | TO_DNS),
        Sort::Other => false,
    };
    let of_shoot = shoot.filter(|_| namespace.name_any().starts_with(SHOOT_PREFIX));
    NAMES
        .into_iter()
        .filter(wanted)
        .map(|name| policy(name, &namespace.name_any(), of_shoot, around))
        .collect()
}

/// Where an API server is, from the endpoints of its Service; from the Service itself where it has none, as that of an
/// embedded API server.
pub(super) fn api_server(slices: &[Arc<EndpointSlice>], service: Option<&Service>) -> Vec<NetworkPolicyEgressRule> {
    let rules: Vec<NetworkPolicyEgressRule> = slices.iter().filter_map(|slice| of_slice(slice)).collect();
    let spec = service.and_then(|service| service.spec.as_ref());
    if !rules.is_empty() {
        return rules;
    }
    let Some(spec) = spec else { return rules };
    let addresses = spec.cluster_ips.iter().flatten();
    let peers: Vec<NetworkPolicyPeer> = addresses
        .filter_map(|ip| Some(block(&single(ip.parse().ok()?))))
        .collect();
    let ports = spec.ports.iter().flatten();
    let ports = ports
        .map(|port| policy_port(port.protocol.as_deref().unwrap_or("TCP"), port.port))
        .collect();
    match peers.is_empty() {
        true => Vec::new(),
        false => vec![rule(peers, Some(ports))],
    }
}

fn of_slice(slice: &EndpointSlice) -> Option<NetworkPolicyEgressRule> {
    let mut addresses: Vec<&String> = slice
        .endpoints
        .iter()
        .flat_map(|endpoint| &endpoint.addresses)
        .collect();
    addresses.sort();
    addresses.dedup();
    let peers: Vec<NetworkPolicyPeer> = addresses
        .into_iter()
        .filter_map(|ip| Some(block(&single(ip.parse().ok()?))))
        .collect();
    let ports = slice.ports.iter().flatten();
    let ports = ports.filter_map(|port| Some(policy_port(port.protocol.as_deref().unwrap_or("TCP"), port.port?)));
    (!peers.is_empty()).then(|| rule(peers, Some(ports.collect())))
}

fn sort(namespace: &Namespace) -> Sort {
    let label = |key: &str| namespace.labels().get(key).map(String::as_str);
    let role = label(labels::ROLE);
    if label(NAMESPACE_NAME) == Some(names::GARDEN_NAMESPACE)
        || matches!(role, Some(labels::role::SHOOT | labels::role::EXTENSION))
    {
        Sort::Ours
    } else if role.is_some_and(|role| ISTIO.contains(&role)) {
        Sort::Istio
    } else if label(EXPOSURE_CLASS_HANDLER).is_some() {
        Sort::Exposure
    } else {
        Sort::Other
    }
}

fn policy(name: &str, namespace: &str, shoot: Option<&Shoot>, around: &Surroundings) -> NetworkPolicy {
    let networks = &around.networks;
    let (label, description, egress) = match name {
        TO_RUNTIME_API_SERVER => (
            marks::TO_RUNTIME_API_SERVER,
            "Allows egress traffic from pods labeled with 'LABEL' to the endpoints in the default namespace of the \
             kube-apiserver of the runtime cluster.",
            around.api_server.clone(),
        ),
        TO_PUBLIC_NETWORKS => (
            marks::TO_PUBLIC_NETWORKS,
            "Allows egress from pods labeled with 'LABEL' to all public network IPs, except for private networks (RFC1918), \
             carrier-grade NAT (RFC6598), and explicitly blocked addresses configured by human operators. In practice, \
             this blocks egress traffic to all networks in the cluster and only allows egress traffic to public IPv4 \
             addresses.",
            vec![rule(public(networks), None)],
        ),
        TO_PRIVATE_NETWORKS => (
            marks::TO_PRIVATE_NETWORKS,
            "Allows egress from pods labeled with 'LABEL' to the private networks (RFC1918) and carrier-grade NAT \
             (RFC6598), except for cluster-specific networks.",
            private(networks, shoot),
        ),
        TO_BLOCKED_CIDRS => (
            marks::TO_BLOCKED_CIDRS,
            "Allows egress from pods labeled with 'LABEL' to explicitly blocked addresses configured by human operators.",
            networks
                .block_cidrs
                .iter()
                .map(|network| rule(vec![block(network)], None))
                .collect(),
        ),
        TO_DNS => (
            marks::TO_DNS,
            "Allows egress from pods labeled with 'LABEL' to DNS running in 'kube-system'. In practice, most of the pods \
             which require network egress need this label.",
            vec![dns(networks)],
        ),
        _ => return deny_all(namespace),
    };
    let selector = LabelSelector {
        match_labels: Some(BTreeMap::from([(label.to_owned(), marks::ALLOWED.to_owned())])),
        ..LabelSelector::default()
    };
    let spec = NetworkPolicySpec {
        pod_selector: Some(selector),
        egress: (!egress.is_empty()).then_some(egress),
        ingress: None,
        policy_types: Some(vec!["Egress".to_owned()]),
    };
    let description = description.replace("LABEL", &format!("{label}={}", marks::ALLOWED));
    object(name, namespace, description, spec)
}

fn deny_all(namespace: &str) -> NetworkPolicy {
    let description = "Disables all ingress and egress traffic into/from this namespace.".to_owned();
    let spec = NetworkPolicySpec {
        pod_selector: Some(LabelSelector::default()),
        policy_types: Some(vec!["Ingress".to_owned(), "Egress".to_owned()]),
        ..NetworkPolicySpec::default()
    };
    object(DENY_ALL, namespace, description, spec)
}

fn object(name: &str, namespace: &str, description: String, spec: NetworkPolicySpec) -> NetworkPolicy {
    NetworkPolicy {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(namespace.to_owned()),
            annotations: Some(BTreeMap::from([(annotations::DESCRIPTION.to_owned(), description)])),
            ..ObjectMeta::default()
        },
        spec: Some(spec),
    }
}

/// The networks of the seed that are closed even where private or public ones are open.
fn blocked(networks: &SeedNetworks, family: &IPFamily) -> Vec<String> {
    let mut blocked = networks.block_cidrs.clone();
    // Left out, the family is IPv4.
    let families = &networks.ip_families;
    let is_only = match families.as_slice() {
        [] => *family == IPFamily::IPv4,
        [only] => only == family,
        _ => false,
    };
    if is_only {
        blocked.extend([networks.pods.clone(), networks.services.clone()]);
        blocked.extend(networks.nodes.clone());
    }
    blocked
}

fn public(networks: &SeedNetworks) -> Vec<NetworkPolicyPeer> {
    let owned = |networks: &[&str]| networks.iter().map(|network| (*network).to_owned()).collect::<Vec<_>>();
    let mut except_v4 = owned(&PRIVATE_V4);
    except_v4.extend(networks.block_cidrs.clone());
    let mut except_v6 = owned(&PRIVATE_V6);
    except_v6.extend(blocked(networks, &IPFamily::IPv6));
    vec![
        block_without("0.0.0.0/0", &except_v4),
        block_without("::/0", &except_v6),
    ]
}

fn private(networks: &SeedNetworks, shoot: Option<&Shoot>) -> Vec<NetworkPolicyEgressRule> {
    let mut except_v4 = blocked(networks, &IPFamily::IPv4);
    let mut except_v6 = blocked(networks, &IPFamily::IPv6);
    if let Some(networking) = shoot.and_then(|shoot| shoot.spec.networking.as_ref()) {
        let is_v4 = matches!(networking.ip_families.as_slice(), [] | [IPFamily::IPv4]);
        let except = if is_v4 { &mut except_v4 } else { &mut except_v6 };
        let mut of_shoot: Vec<String> = [&networking.nodes, &networking.pods, &networking.services]
            .into_iter()
            .filter_map(Clone::clone)
            .collect();
        if let Some(used) = shoot.and_then(|shoot| shoot.status.as_ref()?.networking.as_ref()) {
            of_shoot.extend(used.nodes.iter().chain(&used.pods).chain(&used.services).cloned());
        }
        of_shoot.sort();
        of_shoot.dedup();
        except.extend(of_shoot);
    }
    let peers = |private: &[&str], except: &[String]| {
        private
            .iter()
            .map(|network| block_without(network, except))
            .collect::<Vec<_>>()
    };
    vec![
        rule(peers(&PRIVATE_V4, &except_v4), None),
        rule(peers(&PRIVATE_V6, &except_v6), None),
    ]
}

fn dns(networks: &SeedNetworks) -> NetworkPolicyEgressRule {
    let pods = |app: &str| NetworkPolicyPeer {
        namespace_selector: Some(LabelSelector {
            match_labels: Some(BTreeMap::from([(NAMESPACE_NAME.to_owned(), "kube-system".to_owned())])),
            ..LabelSelector::default()
        }),
        pod_selector: Some(LabelSelector {
            match_expressions: Some(vec![LabelSelectorRequirement {
                key: "k8s-app".to_owned(),
                operator: "In".to_owned(),
                values: Some(vec![app.to_owned()]),
            }]),
            ..LabelSelector::default()
        }),
        ip_block: None,
    };
    let mut peers = vec![pods("kube-dns"), pods("node-local-dns")];
    peers.extend(NODE_LOCAL_DNS.iter().map(|network| block(network)));
    peers.extend(name_server(&networks.services).map(|address| block(&single(address))));
    let ports = DNS_PORTS
        .iter()
        .flat_map(|port| ["UDP", "TCP"].map(|protocol| policy_port(protocol, *port)));
    rule(peers, Some(ports.collect()))
}

/// The address of the name server among those of Services.
fn name_server(services: &str) -> Option<IpAddr> {
    match services.parse().ok()? {
        IpNet::V4(network) => {
            let address = u128::from(u32::from(network.network())) + DNS_OFFSET;
            Some(IpAddr::V4(u32::try_from(address).ok()?.into()))
        }
        IpNet::V6(network) => Some(IpAddr::V6((u128::from(network.network()) + DNS_OFFSET).into())),
    }
}

fn rule(to: Vec<NetworkPolicyPeer>, ports: Option<Vec<NetworkPolicyPort>>) -> NetworkPolicyEgressRule {
    NetworkPolicyEgressRule { to: Some(to), ports }
}

fn policy_port(protocol: &str, port: i32) -> NetworkPolicyPort {
    NetworkPolicyPort {
        protocol: Some(protocol.to_owned()),
        port: Some(IntOrString::Int(port)),
        end_port: None,
    }
}

fn single(address: IpAddr) -> String {
    IpNet::from(address).to_string()
}

fn block(network: &str) -> NetworkPolicyPeer {
    block_without(network, &[])
}

/// A network without those of `except` that lie in it.
fn block_without(network: &str, except: &[String]) -> NetworkPolicyPeer {
    let whole: Option<IpNet> = network.parse().ok();
    let inside = |part: &&String| {
        let part: Option<IpNet> = part.parse().ok();
        whole
            .zip(part)
            .is_some_and(|(whole, part)| whole.contains(&part.network()) && whole.prefix_len() < part.prefix_len())
    };
    let except: Vec<String> = except.iter().filter(inside).cloned().collect();
    NetworkPolicyPeer {
        ip_block: Some(IPBlock {
            cidr: network.to_owned(),
            except: (!except.is_empty()).then_some(except),
        }),
        ..NetworkPolicyPeer::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn namespace(name: &str, role: Option<&str>) -> Namespace {
        let mut labels = json!({"kubernetes.io/metadata.name": name});
        if let Some(role) = role {
            labels["gardener.cloud/role"] = role.into();
        }
        serde_json::from_value(json!({"metadata": {"name": name, "labels": labels}})).unwrap()
    }

    fn around() -> Surroundings {
        let service = json!({"spec": {"clusterIPs": ["10.2.0.1"], "ports": [{"port": 443, "protocol": "TCP"}]}});
        Surroundings {
            networks: SeedNetworks {
                nodes: Some("172.18.0.0/16".into()),
                pods: "10.1.0.0/16".into(),
                services: "10.2.0.0/16".into(),
                block_cidrs: vec!["169.254.169.254/32".into()],
                ..SeedNetworks::default()
            },
            api_server: api_server(&[], Some(&serde_json::from_value(service).unwrap())),
        }
    }

    fn names_of(policies: &[NetworkPolicy]) -> Vec<String> {
        policies.iter().map(ResourceExt::name_any).collect()
    }

    fn spec(policies: &[NetworkPolicy], name: &str) -> Value {
        let policy = policies.iter().find(|policy| policy.name_any() == name).unwrap();
        serde_json::to_value(&policy.spec).unwrap()
    }

    #[test]
    fn each_sort_of_namespace_gets_its_policies() {
        let of = |namespace: Namespace| names_of(&desired(&namespace, None, &around()));
        for namespace in [
            namespace("garden", None),
            namespace("shoot--p--s", Some("shoot")),
            namespace("extension-x", Some("extension")),
        ] {
            assert_eq!(of(namespace), NAMES);
        }
        let istio = [DENY_ALL, TO_RUNTIME_API_SERVER, TO_DNS];
        assert_eq!(of(namespace("istio-system", Some("istio-system"))), istio);
        assert!(of(namespace("kube-system", None)).is_empty());
        assert!(of(namespace("default", Some("anything"))).is_empty());
    }

    #[test]
    fn label_opens_the_way_to_the_api_server_of_the_seed() {
        let policies = desired(&namespace("garden", None), None, &around());
        assert_eq!(
            spec(&policies, TO_RUNTIME_API_SERVER),
            json!({
                "podSelector": {"matchLabels": {"networking.gardener.cloud/to-runtime-apiserver": "allowed"}},
                "policyTypes": ["Egress"],
                "egress": [{"to": [{"ipBlock": {"cidr": "10.2.0.1/32"}}], "ports": [{"port": 443, "protocol": "TCP"}]}],
            })
        );
        let slice = json!({
            "addressType": "IPv4", "endpoints": [{"addresses": ["192.0.2.2"]}, {"addresses": ["192.0.2.1", "192.0.2.2"]}],
            "ports": [{"port": 6443, "protocol": "TCP"}],
        });
        let rules = api_server(&[Arc::new(serde_json::from_value(slice).unwrap())], None);
        assert_eq!(
            serde_json::to_value(rules).unwrap(),
            json!([{
                "to": [{"ipBlock": {"cidr": "192.0.2.1/32"}}, {"ipBlock": {"cidr": "192.0.2.2/32"}}],
                "ports": [{"port": 6443, "protocol": "TCP"}],
            }])
        );
    }

    #[test]
    fn networks_of_clusters_and_blocked_ones_are_left_out() {
        let shoot: Shoot = serde_json::from_value(json!({
            "metadata": {"name": "s"},
            "spec": {"networking": {"pods": "10.3.0.0/16", "services": "10.4.0.0/16"}},
            "status": {"networking": {"nodes": ["192.168.7.0/24"], "pods": ["10.3.0.0/16"]}},
        }))
        .unwrap();
        let policies = desired(&namespace("shoot--p--s", Some("shoot")), Some(&shoot), &around());
        let private = spec(&policies, TO_PRIVATE_NETWORKS);
        assert_eq!(
            private["egress"][0]["to"],
            json!([
                {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16", "10.2.0.0/16", "10.3.0.0/16", "10.4.0.0/16"]}},
                {"ipBlock": {"cidr": "172.16.0.0/12", "except": ["172.18.0.0/16"]}},
                {"ipBlock": {"cidr": "192.168.0.0/16", "except": ["192.168.7.0/24"]}},
                {"ipBlock": {"cidr": "100.64.0.0/10"}},
            ])
        );
        let public = spec(&policies, TO_PUBLIC_NETWORKS);
        assert_eq!(
            public["egress"][0]["to"][0]["ipBlock"]["except"],
            json!([
                "10.0.0.0/8",
                "172.16.0.0/12",
                "192.168.0.0/16",
                "100.64.0.0/10",
                "169.254.169.254/32"
            ])
        );
        let blocked = spec(&policies, TO_BLOCKED_CIDRS);
        assert_eq!(
            blocked["egress"],
            json!([{"to": [{"ipBlock": {"cidr": "169.254.169.254/32"}}]}])
        );
    }

    #[test]
    fn name_server_is_the_tenth_address_of_services() {
        let policies = desired(&namespace("garden", None), None, &around());
        let dns = spec(&policies, TO_DNS);
        let to = dns["egress"][0]["to"].as_array().unwrap();
        assert_eq!(to.last().unwrap(), &json!({"ipBlock": {"cidr": "10.2.0.10/32"}}));
        assert_eq!(dns["egress"][0]["ports"].as_array().unwrap().len(), 4);
    }

    #[test]
    fn deny_all_selects_every_pod_in_both_directions() {
        let policies = desired(&namespace("garden", None), None, &around());
        let expected = json!({"podSelector": {}, "policyTypes": ["Ingress", "Egress"]});
        assert_eq!(spec(&policies, DENY_ALL), expected);
    }
}
