//! What becomes of a kubelet's request for the certificate of its port. The addresses that it is compared with are what the
//! kubelet itself has written into the status of its Node, as upstream: so a name or address that another Node has as well is
//! not approved.

use std::collections::BTreeSet;
use std::net::IpAddr;

use base_client::is_decided;
use base_secrets::SigningRequest;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::Node;

/// The signer of these certificates.
pub(super) const SIGNER: &str = "kubernetes.io/kubelet-serving";
/// On a machine: the name of its node (gardener/machine-controller-manager pkg/apis/machine/v1alpha1).
pub(super) const NODE_LABEL: &str = "node";
/// What stands before the name of a node in the name of its user.
const USER_PREFIX: &str = "system:node:";
/// The one organization of the certificate.
const NODES_GROUP: &str = "system:nodes";
/// The usage that the certificate is for, and those that may be requested beside it.
const SERVER: &str = "server auth";
const USAGES: [&str; 3] = [SERVER, "digital signature", "key encipherment"];
/// The types of a node's addresses that a kubelet requests as DNS names, and those that it requests as IP addresses
/// (kubernetes/kubernetes v1.35 pkg/kubelet/certificate/kubelet.go).
const NAME_TYPES: [&str; 3] = ["Hostname", "InternalDNS", "ExternalDNS"];
const ADDRESS_TYPES: [&str; 2] = ["InternalIP", "ExternalIP"];
/// The longest name of a node that a label of its machine can hold.
const NODE_NAME_MAX: usize = 63;

/// What a request by itself shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Checked {
    /// It has another signer, or is decided.
    NotOurs,
    /// It is denied, for this reason, whatever the node is.
    Deny(String),
    /// What it is for.
    Of(Wanted),
}

/// What a certificate is to be for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    /// Name of the node.
    pub(super) node: String,
    names: Vec<String>,
    addresses: Vec<IpAddr>,
}

/// What becomes of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is approved.
    Approve,
    /// It is denied, for this reason. The kubelet requests again.
    Deny(String),
    /// It is looked at again later: what it is compared with is not there yet.
    Wait(String),
}

/// Looks at the request alone.
pub(super) fn check(request: &CertificateSigningRequest) -> Checked {
    if request.spec.signer_name != SIGNER || is_decided(request) {
        return Checked::NotOurs;
    }
    content(request).map_or_else(Checked::Deny, Checked::Of)
}

fn content(request: &CertificateSigningRequest) -> Result<Wanted, String> {
    let user = request.spec.username.as_deref().unwrap_or_default();
    let groups = request.spec.groups.as_deref().unwrap_or_default();
    let node = user
        .strip_prefix(USER_PREFIX)
        .filter(|node| is_node_name(node) && groups.iter().any(|group| group == NODES_GROUP))
        .ok_or_else(|| {
            format!(
                "the requester is {user:?} of groups {groups:?}; a kubelet is {USER_PREFIX}NODE of group {NODES_GROUP}, NODE \
                 being of at most {NODE_NAME_MAX} lower case letters, digits, '-' and '.'"
            )
        })?;
    let usages = request.spec.usages.as_deref().unwrap_or_default();
    let is_known = |usage: &String| USAGES.contains(&usage.as_str());
    if !usages.iter().all(is_known) || !usages.iter().any(|usage| usage == SERVER) {
        return Err(format!(
            "the usages are {usages:?}; {SERVER:?} is needed, and of others {:?} may stand beside it",
            &USAGES[1..]
        ));
    }
    let pem = String::from_utf8_lossy(&request.spec.request.0);
    let wanted = SigningRequest::from_pem(&pem).map_err(|error| error.to_string())?;
    if wanted.common_name() != user {
        return Err(format!(
            "the common name is {:?}; the requester {user:?} gets a certificate for itself alone",
            wanted.common_name()
        ));
    }
    if wanted.organizations() != [NODES_GROUP] {
        return Err(format!(
            "the organizations are {:?}; a node's certificate has {NODES_GROUP:?} alone",
            wanted.organizations()
        ));
    }
    if wanted.has_other_names() {
        return Err("it has names that are neither DNS names nor IP addresses".to_owned());
    }
    let (names, addresses) = (wanted.dns_names(), wanted.ip_addresses());
    if let Some(name) = names.iter().find(|name| name.contains('*')) {
        return Err(format!("the DNS name {name:?} stands for many"));
    }
    if names.is_empty() && addresses.is_empty() {
        return Err("it has neither a DNS name nor an IP address".to_owned());
    }
    Ok(Wanted {
        node: node.to_owned(),
        names,
        addresses,
    })
}

/// It becomes a part of a path and the value of a label.
fn is_node_name(name: &str) -> bool {
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.');
    let is_end = |c: char| c.is_ascii_alphanumeric();
    name.len() <= NODE_NAME_MAX && name.chars().all(is_name) && name.starts_with(is_end) && name.ends_with(is_end)
}

/// The addresses of a node that have one of these types.
fn addresses_of<'a>(node: &'a Node, types: &[&str]) -> BTreeSet<&'a str> {
    let all = node.status.iter().flat_map(|status| status.addresses.iter().flatten());
    let of_type = all.filter(|one| types.contains(&one.type_.as_str()));
    of_type.map(|one| one.address.as_str()).collect()
}

impl Wanted {
    /// The first other node that has one of its names or addresses as well, and which one.
    pub(super) fn shared<'a>(&self, nodes: &'a [Node]) -> Option<(&'a str, String)> {
        let others = nodes
            .iter()
            .filter_map(|node| Some((node.metadata.name.as_deref()?, node)));
        others.filter(|(name, _)| *name != self.node).find_map(|(name, node)| {
            let all = addresses_of(node, &[NAME_TYPES.as_slice(), ADDRESS_TYPES.as_slice()].concat());
            let named = self.names.iter().find(|one| all.contains(one.as_str())).cloned();
            let is_of = |ip: &&IpAddr| all.iter().any(|own| own.parse() == Ok(**ip));
            let shared = named.or_else(|| self.addresses.iter().find(is_of).map(ToString::to_string));
            Some((name, shared?))
        })
    }

    /// Compares it with the node and the names of the machines that have the node's label.
    pub(super) fn verdict(&self, node: Option<&Node>, machines: &[String], namespace: &str) -> Verdict {
        let Some(node) = node else {
            return Verdict::Wait(format!("there is no node {:?} yet", self.node));
        };
        if machines.len() != 1 {
            return Verdict::Wait(format!(
                "{} machines in namespace {namespace} have label {NODE_LABEL}={}; it is approved once exactly one has it",
                machines.len(),
                self.node
            ));
        }
        let (names, addresses) = (addresses_of(node, &NAME_TYPES), addresses_of(node, &ADDRESS_TYPES));
        if let Some(strange) = self.names.iter().find(|name| !names.contains(name.as_str())) {
            return Verdict::Deny(format!("the DNS name {strange:?} is not one of the node's: {names:?}"));
        }
        let is_own = |ip: &IpAddr| addresses.iter().any(|own| own.parse() == Ok(*ip));
        if let Some(strange) = self.addresses.iter().find(|ip| !is_own(ip)) {
            return Verdict::Deny(format!(
                "the IP address {strange} is not one of the node's: {addresses:?}"
            ));
        }
        Verdict::Approve
    }
}

#[cfg(test)]
mod tests {
    use base_clock::Entropy;
    use base_secrets::PrivateKey;
    use serde_json::{Value, json};

    use super::*;

    const USER: &str = "system:node:n";

    fn named(
        common_name: &str,
        organizations: &[&str],
        names: &[&str],
        addresses: &[&str],
    ) -> CertificateSigningRequest {
        let owned = |all: &[&str]| -> Vec<String> { all.iter().map(|&one| one.to_owned()).collect() };
        let key = PrivateKey::generate(&Entropy::seeded(1));
        let addresses: Vec<IpAddr> = addresses.iter().map(|one| one.parse().unwrap()).collect();
        let wanted = SigningRequest::create(&key, common_name, &owned(organizations), &owned(names), &addresses);
        let mut request: CertificateSigningRequest = serde_json::from_value(json!({
            "metadata": {"name": "csr-1"},
            "spec": {"request": "", "signerName": SIGNER, "username": USER,
                "groups": [NODES_GROUP], "usages": ["digital signature", "server auth"]},
        }))
        .unwrap();
        request.spec.request.0 = wanted.unwrap().to_pem().into_bytes();
        request
    }

    fn of(names: &[&str], addresses: &[&str]) -> CertificateSigningRequest {
        named(USER, &[NODES_GROUP], names, addresses)
    }

    fn node(addresses: Value) -> Node {
        serde_json::from_value(json!({"metadata": {"name": "n"}, "status": {"addresses": addresses}})).unwrap()
    }

    /// What becomes of a request of a node that has a name, an IP address of each family and one machine.
    fn verdict(request: &CertificateSigningRequest) -> Verdict {
        let node = node(json!([
            {"type": "Hostname", "address": "n"},
            {"type": "InternalDNS", "address": "n.internal"},
            {"type": "InternalIP", "address": "10.0.0.7"},
            {"type": "ExternalIP", "address": "2001:db8::7"},
        ]));
        match check(request) {
            Checked::Of(wanted) => wanted.verdict(Some(&node), &["m".to_owned()], "shoot--a--b"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn names_and_addresses_of_the_node_are_approved() {
        for (names, addresses) in [
            (&["n"][..], &["10.0.0.7"][..]),
            (&["n", "n.internal"], &["10.0.0.7", "2001:db8:0::7"]),
            (&[], &["10.0.0.7"]),
        ] {
            assert_eq!(verdict(&of(names, addresses)), Verdict::Approve, "{names:?}");
        }
    }

    #[test]
    fn names_and_addresses_of_others_are_denied() {
        for (request, value) in [
            (of(&["n", "api.example"], &[]), "\"api.example\""),
            // An address is no name.
            (of(&["10.0.0.7"], &[]), "\"10.0.0.7\""),
            (of(&["n"], &["10.0.0.8"]), "10.0.0.8"),
        ] {
            match verdict(&request) {
                Verdict::Deny(why) => assert!(why.contains(value), "{why}"),
                other => panic!("{value}: {other:?}"),
            }
        }
    }

    #[test]
    fn each_rule_about_the_request_denies_what_no_other_does() {
        let changed = |change: fn(&mut CertificateSigningRequest)| {
            let mut request = of(&["n"], &[]);
            change(&mut request);
            request
        };
        let cases = [
            (
                changed(|one| one.spec.username = Some("alice".into())),
                "the requester is \"alice\"",
            ),
            (
                changed(|one| one.spec.username = Some("system:node:".into())),
                "the requester is",
            ),
            (
                changed(|one| one.spec.username = Some("system:node:m".into())),
                "common name",
            ),
            (changed(|one| one.spec.usages = None), "usages"),
            (
                changed(|one| one.spec.usages = Some(vec!["digital signature".into()])),
                "usages",
            ),
            (
                changed(|one| one.spec.usages = Some(vec!["server auth".into(), "client auth".into()])),
                "usages",
            ),
            (changed(|one| one.spec.request.0 = b"x".to_vec()), "signing request"),
            (named("system:node:m", &[NODES_GROUP], &["n"], &[]), "common name"),
            (
                named(USER, &[NODES_GROUP, "system:masters"], &["n"], &[]),
                "organizations",
            ),
            (of(&[], &[]), "neither"),
        ];
        for (request, why) in cases {
            match check(&request) {
                Checked::Deny(reason) => assert!(reason.contains(why), "{reason}"),
                other => panic!("{why}: {other:?}"),
            }
        }
    }

    #[test]
    fn a_name_or_address_that_another_node_has_is_found() {
        let Checked::Of(wanted) = check(&of(&["n"], &["10.0.0.7"])) else {
            panic!("it is in order");
        };
        let named = |name: &str, type_: &str, address: &str| -> Node {
            let mut node = node(json!([{"type": type_, "address": address}]));
            node.metadata.name = Some(name.to_owned());
            node
        };
        let own = named("n", "InternalIP", "10.0.0.7");
        let other = named("a", "InternalIP", "10.0.0.8");
        assert_eq!(wanted.shared(&[own.clone(), other.clone()]), None);
        for (type_, address) in [("ExternalIP", "10.0.0.7"), ("Hostname", "n")] {
            let nodes = [own.clone(), other.clone(), named("b", type_, address)];
            assert_eq!(wanted.shared(&nodes), Some(("b", address.to_owned())));
        }
    }

    #[test]
    fn a_node_or_machine_that_is_not_there_yet_is_waited_for() {
        let Checked::Of(wanted) = check(&of(&["n"], &[])) else {
            panic!("it is in order");
        };
        let node = node(json!([{"type": "Hostname", "address": "n"}]));
        let two = ["a".to_owned(), "b".to_owned()];
        for (node, machines) in [(None, &two[..1]), (Some(&node), &[]), (Some(&node), &two)] {
            let verdict = wanted.verdict(node, machines, "shoot--a--b");
            assert!(matches!(verdict, Verdict::Wait(_)), "{verdict:?}");
        }
    }

    #[test]
    fn requests_of_other_signers_and_decided_ones_are_left_alone() {
        let mut signer = of(&["n"], &[]);
        signer.spec.signer_name = "kubernetes.io/kube-apiserver-client-kubelet".to_owned();
        let decided = |status: Value| {
            let mut request = of(&["n"], &[]);
            request.status = serde_json::from_value(status).unwrap();
            request
        };
        let condition = |type_: &str| json!({"conditions": [{"type": type_, "status": "True"}]});
        for request in [
            signer,
            decided(condition("Approved")),
            decided(condition("Denied")),
            decided(condition("Failed")),
            decided(json!({"certificate": "eA=="})),
        ] {
            assert_eq!(check(&request), Checked::NotOurs, "{request:?}");
        }
    }
}
