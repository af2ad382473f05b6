//! Rules of NetworkPolicies (Kubernetes v1.35 `pkg/apis/networking/validation/validation.go`, and the warnings of
//! `pkg/registry/networking/networkpolicy/strategy.go`). What a policy does is not decided here.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr};

use cluster_fields::{FieldError, FieldPath, names};
use serde_json::Value;

use crate::json::fields::{elements, text};
use crate::rules::checks::label_selector;

const PROTOCOLS: [&str; 3] = ["TCP", "UDP", "SCTP"];
const POLICY_TYPES: [&str; 2] = ["Ingress", "Egress"];
/// The bits of an address of IPv6 that mark the rest as one of IPv4.
const MAPPED_BITS: u32 = 96;
const NO_PORT: &str = "must be between 1 and 65535, inclusive";
const NO_CIDR: &str = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
/// The lists of rules, and where the peers of one stand.
const DIRECTIONS: [(&str, &str); 2] = [("ingress", "from"), ("egress", "to")];

/// What an update may leave as it was.
struct Allowed<'v> {
    /// Values of label selectors that are no values of labels.
    selector_values: bool,
    /// Networks of the old object, well-formed or not.
    networks: HashSet<&'v str>,
}

pub(crate) fn validate(object: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let root = FieldPath::Root;
    let path = root.field("spec");
    let spec = &object["spec"];
    let allowed = Allowed::by(old);
    selector(&spec["podSelector"], &path.field("podSelector"), &allowed, errors);
    for (direction, peers) in DIRECTIONS {
        let list = path.field(direction);
        for (index, rule) in elements(spec, direction).enumerate() {
            let at = list.index(index);
            let ports = at.field("ports");
            for (index, value) in elements(rule, "ports").enumerate() {
                port(value, &ports.index(index), errors);
            }
            let list = at.field(peers);
            for (index, value) in elements(rule, peers).enumerate() {
                peer(value, &list.index(index), &allowed, errors);
            }
        }
    }
    let types = path.field("policyTypes");
    if elements(spec, "policyTypes").count() > POLICY_TYPES.len() {
        let words = "may not specify more than two policyTypes";
        errors.push(FieldError::invalid(types, spec["policyTypes"].clone(), words));
        return;
    }
    for (index, policy_type) in elements(spec, "policyTypes").filter_map(Value::as_str).enumerate() {
        if !POLICY_TYPES.contains(&policy_type) {
            errors.push(FieldError::not_supported(
                types.index(index),
                policy_type,
                &POLICY_TYPES,
            ));
        }
    }
}

/// What is accepted and may mean something else than was intended.
pub(crate) fn warnings(object: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    for (path, network) in networks(&object["spec"]) {
        warnings.extend(network_warnings(&path, network));
    }
    warnings
}

impl<'v> Allowed<'v> {
    fn by(old: Option<&'v Value>) -> Self {
        let Some(old) = old else {
            return Allowed {
                selector_values: false,
                networks: HashSet::new(),
            };
        };
        let mut wrong = Vec::new();
        let path = FieldPath::Root;
        label_selector(&old["spec"]["podSelector"], &path.field("podSelector"), &mut wrong);
        Allowed {
            selector_values: !wrong.is_empty(),
            networks: networks(&old["spec"]).into_iter().map(|(_, network)| network).collect(),
        }
    }
}

/// All networks of a policy with their paths, in the order in which they are validated.
fn networks(spec: &Value) -> Vec<(String, &str)> {
    let mut found = Vec::new();
    for (direction, peers) in DIRECTIONS {
        for (rule_index, rule) in elements(spec, direction).enumerate() {
            for (peer_index, peer) in elements(rule, peers).enumerate() {
                let Some(block) = peer.get("ipBlock").filter(|block| block.is_object()) else {
                    continue;
                };
                let at = format!("spec.{direction}[{rule_index}].{peers}[{peer_index}].ipBlock");
                found.push((format!("{at}.cidr"), text(block, "cidr")));
                let excepted = elements(block, "except").filter_map(Value::as_str).enumerate();
                found.extend(excepted.map(|(index, network)| (format!("{at}.except[{index}]"), network)));
            }
        }
    }
    found
}

fn selector(selector: &Value, path: &FieldPath<'_>, allowed: &Allowed<'_>, errors: &mut Vec<FieldError>) {
    let mut found = Vec::new();
    label_selector(selector, path, &mut found);
    let is_value = |error: &FieldError| error.path.contains(".matchExpressions[") && error.path.contains("].values[");
    errors.extend(
        found
            .into_iter()
            .filter(|error| !(allowed.selector_values && is_value(error))),
    );
}

fn port(port: &Value, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    if let Some(protocol) = port.get("protocol").and_then(Value::as_str)
        && !PROTOCOLS.contains(&protocol)
    {
        errors.push(FieldError::not_supported(path.field("protocol"), protocol, &PROTOCOLS));
    }
    let is_port = |number: i64| (1..=65535).contains(&number);
    let end = port.get("endPort").and_then(Value::as_i64);
    let last = path.field("endPort");
    match port.get("port").filter(|port| !port.is_null()) {
        Some(Value::String(name)) => {
            if let Some(end) = end {
                let words = "may not be specified when `port` is non-numeric";
                errors.push(FieldError::invalid(last, end, words));
            }
            let wrong = names::port_name(name).into_iter();
            errors.extend(wrong.map(|why| FieldError::invalid(path.field("port"), name.as_str(), why)));
        }
        Some(number) => {
            let first = number.as_i64().unwrap_or_default();
            if !is_port(first) {
                errors.push(FieldError::invalid(path.field("port"), first, NO_PORT));
            }
            let Some(end) = end else { return };
            if end < first {
                let words = "must be greater than or equal to `port`";
                // The number that is shown is that of `port`, as upstream shows it.
                errors.push(FieldError::invalid(last, first, words));
            }
            if !is_port(end) {
                errors.push(FieldError::invalid(last, end, NO_PORT));
            }
        }
        None => {
            if let Some(end) = end {
                let words = "may not be specified when `port` is not specified";
                errors.push(FieldError::invalid(last, end, words));
            }
        }
    }
}

fn peer(peer: &Value, path: &FieldPath<'_>, allowed: &Allowed<'_>, errors: &mut Vec<FieldError>) {
    let given = |name: &str| peer.get(name).filter(|value| value.is_object());
    for name in ["podSelector", "namespaceSelector"] {
        if let Some(value) = given(name) {
            selector(value, &path.field(name), allowed, errors);
        }
    }
    let selects = given("podSelector").is_some() || given("namespaceSelector").is_some();
    let block = given("ipBlock");
    if let Some(block) = block {
        ip_block(block, &path.field("ipBlock"), allowed, errors);
    }
    match (selects, block) {
        (false, None) => errors.push(FieldError::required(path, "must specify a peer")),
        (true, Some(_)) => {
            let words = "may not specify both ipBlock and another peer";
            errors.push(FieldError::forbidden(path, words));
        }
        _ => {}
    }
}

fn ip_block(block: &Value, path: &FieldPath<'_>, allowed: &Allowed<'_>, errors: &mut Vec<FieldError>) {
    let cidr = text(block, "cidr");
    if cidr.is_empty() {
        errors.push(FieldError::required(path.field("cidr"), ""));
        return;
    }
    let network = well_formed(cidr, &path.field("cidr"), allowed, errors);
    let Some(network) = network else { return };
    let list = path.field("except");
    for (index, excepted) in elements(block, "except").filter_map(Value::as_str).enumerate() {
        let at = list.index(index);
        if let Some(part) = well_formed(excepted, &at, allowed, errors)
            && !network.contains_strictly(&part)
        {
            errors.push(FieldError::invalid(at, excepted, "must be a strict subset of `cidr`"));
        }
    }
}

fn well_formed(
    cidr: &str,
    path: &FieldPath<'_>,
    allowed: &Allowed<'_>,
    errors: &mut Vec<FieldError>,
) -> Option<Network> {
    let network = Network::parse(cidr);
    if network.is_none() && !allowed.networks.contains(cidr) {
        errors.push(FieldError::invalid(path, cidr, NO_CIDR));
    }
    network
}

/// A network as Go's `ParseCIDRSloppy` reads it: zeros may stand before the numbers of an address. An IPv4 address that is
/// written as one of IPv6 (`::ffff:10.0.0.0`) stays one of IPv6, whose mask has 128 bits, but is compared and printed as
/// IPv4.
#[derive(Debug, PartialEq, Eq)]
struct Network {
    /// The address as it is written, which may have bits behind the prefix.
    address: IpAddr,
    prefix: u32,
    /// Whether strict readers take it too.
    is_strict: bool,
}

impl Network {
    fn parse(text: &str) -> Option<Self> {
        let (address, prefix) = text.split_once('/')?;
        let strict = address.parse::<IpAddr>().ok();
        let parsed = strict.or_else(|| sloppy(address))?;
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let length = prefix.parse::<u32>().ok().filter(|_| digits(prefix))?;
        let is_strict = strict.is_some() && (prefix == "0" || !prefix.starts_with('0')) && !is_mapped(parsed);
        (length <= width(parsed)).then_some(Network {
            address: parsed,
            prefix: length,
            is_strict,
        })
    }

    fn first(&self) -> IpAddr {
        match self.address {
            IpAddr::V4(ip) => {
                let mask = u32::MAX.checked_shl(32 - self.prefix).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from(u32::from(ip) & mask))
            }
            IpAddr::V6(ip) => {
                let mask = u128::MAX.checked_shl(128 - self.prefix).unwrap_or(0);
                IpAddr::V6((u128::from(ip) & mask).into())
            }
        }
    }

    fn contains_strictly(&self, part: &Network) -> bool {
        let (own, prefix) = self.canonical();
        let (other, _) = part.canonical();
        let within = Network {
            address: other,
            prefix,
            is_strict: true,
        };
        own.is_ipv4() == other.is_ipv4() && within.first() == own && self.prefix < part.prefix
    }

    /// Its first address and its prefix, of IPv4 where it is one of IPv4 that is written as one of IPv6.
    fn canonical(&self) -> (IpAddr, u32) {
        let first = self.first();
        match is_mapped(first) {
            // The mask covers at least the 96 bits that make it one.
            true => (first.to_canonical(), self.prefix - MAPPED_BITS),
            false => (first, self.prefix),
        }
    }
}

/// Whether an address is one of IPv4 that is written as one of IPv6.
fn is_mapped(address: IpAddr) -> bool {
    address != address.to_canonical()
}

fn width(address: IpAddr) -> u32 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn sloppy(text: &str) -> Option<IpAddr> {
    if !text.contains(':') {
        return sloppy_v4(text).map(IpAddr::V4);
    }
    let group = |group: &str| match group.contains('.') {
        true => Some(sloppy_v4(group)?.to_string()),
        false if group.is_empty() => Some(String::new()),
        false => Some(format!("{:0>1}", group.trim_start_matches('0'))),
    };
    let groups: Option<Vec<String>> = text.split(':').map(group).collect();
    groups?.join(":").parse().ok().map(IpAddr::V6)
}

fn sloppy_v4(text: &str) -> Option<Ipv4Addr> {
    let mut numbers = text.split('.').map(|number| {
        let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        number.parse::<u8>().ok().filter(|_| is_number)
    });
    let octets = [numbers.next()??, numbers.next()??, numbers.next()??, numbers.next()??];
    numbers.next().is_none().then(|| Ipv4Addr::from(octets))
}

/// As Go's `GetWarningsForCIDR`.
fn network_warnings(path: &str, cidr: &str) -> Vec<String> {
    let mut warnings = Vec::new();
    let Some(network) = Network::parse(cidr) else {
        return warnings;
    };
    let (address, prefix) = (network.address, network.prefix);
    let (canonical, canonical_prefix) = network.canonical();
    let first = format!("{canonical}/{canonical_prefix}");
    if address != network.first() {
        let single = format!("{}/{}", address.to_canonical(), width(address));
        warnings.push(format!(
            "{path}: CIDR value \"{cidr}\" is ambiguous in this context (should be \"{first}\" or \"{single}\"?)"
        ));
    }
    if !network.is_strict {
        warnings.push(format!(
            "{path}: non-standard CIDR value \"{cidr}\" will be considered invalid in a future Kubernetes release: use \"{first}\""
        ));
    }
    let canonical = format!("{address}/{prefix}");
    if warnings.is_empty() && address.is_ipv6() && canonical != cidr {
        warnings.push(format!(
            "{path}: IPv6 CIDR value \"{cidr}\" should be in RFC 5952 canonical format (\"{canonical}\")"
        ));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn refused(spec: Value, old: Option<Value>) -> Vec<String> {
        let (object, old) = (json!({"spec": spec}), old.map(|old| json!({"spec": old})));
        let mut errors = Vec::new();
        validate(&object, old.as_ref(), &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    fn with_port(port: Value) -> Vec<String> {
        refused(json!({"podSelector": {}, "ingress": [{"ports": [port]}]}), None)
    }

    fn with_peer(peer: Value) -> Vec<String> {
        refused(json!({"podSelector": {}, "egress": [{}, {"to": [peer]}]}), None)
    }

    #[test]
    fn ports_are_validated_as_kube_apiserver_does() {
        const AT: &str = "spec.ingress[0].ports[0]";
        for good in [
            json!({}),
            json!({"protocol": "SCTP"}),
            json!({"port": 80, "endPort": 80}),
            json!({"port": "http", "protocol": "UDP"}),
        ] {
            assert_eq!(with_port(good), Vec::<String>::new());
        }
        for (port, expected) in [
            (
                json!({"protocol": "ICMP"}),
                vec![".protocol: Unsupported value: \"ICMP\": supported values: \"TCP\", \"UDP\", \"SCTP\""],
            ),
            (
                json!({"port": 0}),
                vec![".port: Invalid value: 0: must be between 1 and 65535, inclusive"],
            ),
            (
                json!({"port": 80, "endPort": 79}),
                vec![".endPort: Invalid value: 80: must be greater than or equal to `port`"],
            ),
            (
                json!({"port": 80, "endPort": 123_456}),
                vec![".endPort: Invalid value: 123456: must be between 1 and 65535, inclusive"],
            ),
            (
                json!({"port": "http", "endPort": 90}),
                vec![".endPort: Invalid value: 90: may not be specified when `port` is non-numeric"],
            ),
            (
                json!({"endPort": 90}),
                vec![".endPort: Invalid value: 90: may not be specified when `port` is not specified"],
            ),
            (
                json!({"port": "much-too-long-name"}),
                vec![".port: Invalid value: \"much-too-long-name\": must be no more than 15 characters"],
            ),
        ] {
            let expected: Vec<String> = expected.into_iter().map(|text| format!("{AT}{text}")).collect();
            assert_eq!(with_port(port), expected);
        }
    }

    #[test]
    fn peers_are_validated_as_kube_apiserver_does() {
        const AT: &str = "spec.egress[1].to[0]";
        for good in [
            json!({"podSelector": {}}),
            json!({"podSelector": {"matchLabels": {"a": "b"}}, "namespaceSelector": {}}),
            json!({"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16", "10.2.3.4/32"]}}),
            json!({"ipBlock": {"cidr": "::/0", "except": ["fe80::/10"]}}),
            json!({"ipBlock": {"cidr": "010.000.0.7/08"}}),
        ] {
            assert_eq!(with_peer(good), Vec::<String>::new());
        }
        for (peer, expected) in [
            (json!({}), ": Required value: must specify a peer"),
            (
                json!({"podSelector": {}, "ipBlock": {"cidr": "10.0.0.0/8"}}),
                ": Forbidden: may not specify both ipBlock and another peer",
            ),
            (json!({"ipBlock": {"cidr": ""}}), ".ipBlock.cidr: Required value"),
            (
                json!({"ipBlock": {"cidr": "10.0.0.0"}}),
                ".ipBlock.cidr: Invalid value: \"10.0.0.0\": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
            ),
            (
                json!({"ipBlock": {"cidr": "10.0.0.0/33"}}),
                ".ipBlock.cidr: Invalid value: \"10.0.0.0/33\": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
            ),
            (
                json!({"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.0.0.0/8"]}}),
                ".ipBlock.except[0]: Invalid value: \"10.0.0.0/8\": must be a strict subset of `cidr`",
            ),
            (
                json!({"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16", "11.0.0.0/16"]}}),
                ".ipBlock.except[1]: Invalid value: \"11.0.0.0/16\": must be a strict subset of `cidr`",
            ),
            (
                json!({"ipBlock": {"cidr": "10.0.0.0/8", "except": ["fe80::/64"]}}),
                ".ipBlock.except[0]: Invalid value: \"fe80::/64\": must be a strict subset of `cidr`",
            ),
            (
                json!({"podSelector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}}),
                ".podSelector.matchExpressions[0].operator: Invalid value: \"Is\": not a valid selector operator",
            ),
        ] {
            assert_eq!(with_peer(peer), [format!("{AT}{expected}")]);
        }
    }

    #[test]
    fn policy_types_are_at_most_two_and_known() {
        let of = |types: Value| refused(json!({"podSelector": {}, "policyTypes": types}), None);
        assert_eq!(of(json!(["Egress", "Ingress"])), Vec::<String>::new());
        assert_eq!(
            of(json!(["Egress", "Both"])),
            ["spec.policyTypes[1]: Unsupported value: \"Both\": supported values: \"Ingress\", \"Egress\""]
        );
        assert_eq!(
            of(json!(["Egress", "Ingress", "Egress"])),
            [
                "spec.policyTypes: Invalid value: [\"Egress\",\"Ingress\",\"Egress\"]: may not specify more than two policyTypes"
            ]
        );
    }

    #[test]
    fn update_may_leave_networks_that_are_no_longer_valid() {
        let spec = |cidr: &str| json!({"podSelector": {}, "ingress": [{"from": [{"ipBlock": {"cidr": cidr}}]}]});
        assert_eq!(refused(spec("old"), Some(spec("old"))), Vec::<String>::new());
        assert_eq!(refused(spec("new"), Some(spec("old"))).len(), 1);
    }

    #[test]
    fn networks_written_unusually_are_warned_of() {
        let of = |cidr: &str| {
            warnings(&json!({"spec": {"egress": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": [cidr]}}]}]}}))
        };
        const AT: &str = "spec.egress[0].to[0].ipBlock.except[0]";
        assert_eq!(of("10.1.0.0/16"), Vec::<String>::new());
        assert_eq!(
            of("10.1.2.3/16"),
            [format!(
                "{AT}: CIDR value \"10.1.2.3/16\" is ambiguous in this context (should be \"10.1.0.0/16\" or \"10.1.2.3/32\"?)"
            )]
        );
        assert_eq!(
            of("010.1.0.0/16"),
            [format!(
                "{AT}: non-standard CIDR value \"010.1.0.0/16\" will be considered invalid in a future Kubernetes release: use \"10.1.0.0/16\""
            )]
        );
        assert_eq!(
            of("::ffff:10.1.2.3/112"),
            [
                format!(
                    "{AT}: CIDR value \"::ffff:10.1.2.3/112\" is ambiguous in this context (should be \"10.1.0.0/16\" or \"10.1.2.3/128\"?)"
                ),
                format!(
                    "{AT}: non-standard CIDR value \"::ffff:10.1.2.3/112\" will be considered invalid in a future Kubernetes release: use \"10.1.0.0/16\""
                )
            ]
        );
        assert_eq!(
            of("FE80::/10"),
            [format!(
                "{AT}: IPv6 CIDR value \"FE80::/10\" should be in RFC 5952 canonical format (\"fe80::/10\")"
            )]
        );
    }
}
