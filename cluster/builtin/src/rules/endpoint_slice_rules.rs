//! Rules of EndpointSlices (Kubernetes v1.35 `pkg/apis/discovery/validation/validation.go`).

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr};

use cluster_fields::{FieldError, FieldPath, names};
use serde_json::Value;

use crate::json::fields::{elements, text};

const ENDPOINTS_MAX: u64 = 1000;
const ADDRESSES_MAX: u64 = 100;
const PORTS_MAX: u64 = 20_000;
const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];
/// The error for an invalid address, everywhere in Kubernetes.
pub(crate) const NO_ADDRESS: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";

pub(crate) fn validate(object: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let root = FieldPath::Root;
    let family = text(object, "addressType");
    let allowed = ["FQDN", "IPv4", "IPv6"];
    if family.is_empty() {
        errors.push(FieldError::required(root.field("addressType"), ""));
    } else if !allowed.contains(&family) {
        errors.push(FieldError::not_supported(root.field("addressType"), family, &allowed));
    }
    ports(object, &root.field("ports"), errors);
    // What was stored before these rules were made may stay.
    if old.is_none_or(|old| old.get("endpoints") != object.get("endpoints")) {
        endpoints(object, family, &root.field("endpoints"), errors);
    }
}

fn ports(object: &Value, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    let mut seen = HashSet::new();
    if too_many(object, "ports", PORTS_MAX, path, errors) {
        return;
    }
    for (index, port) in elements(object, "ports").enumerate() {
        let at = path.index(index);
        let name = text(port, "name");
        if let Some(why) = names::dns_label(name).filter(|_| !name.is_empty()) {
            errors.push(FieldError::invalid(at.field("name"), name, why));
        }
        if !seen.insert(name) {
            errors.push(FieldError::duplicate(at.field("name"), name));
        }
        let protocol = text(port, "protocol");
        if !PROTOCOLS.contains(&protocol) {
            errors.push(FieldError::not_supported(at.field("protocol"), protocol, &PROTOCOLS));
        }
    }
}

fn endpoints(object: &Value, family: &str, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    if too_many(object, "endpoints", ENDPOINTS_MAX, path, errors) {
        return;
    }
    for (index, endpoint) in elements(object, "endpoints").enumerate() {
        let at = path.index(index);
        let list = at.field("addresses");
        if elements(endpoint, "addresses").next().is_none() {
            errors.push(FieldError::required(list, "must contain at least 1 address"));
        }
        too_many(endpoint, "addresses", ADDRESSES_MAX, &list, errors);
        for (index, address) in elements(endpoint, "addresses").filter_map(Value::as_str).enumerate() {
            endpoint_address(address, family, &list, index, errors);
        }
        for name in ["nodeName", "hostname"] {
            let Some(value) = endpoint.get(name).and_then(Value::as_str) else {
                continue;
            };
            let why = if name == "nodeName" {
                names::dns_subdomain(value)
            } else {
                names::dns_label(value)
            };
            errors.extend(why.map(|why| FieldError::invalid(at.field(name), value, why)));
        }
    }
}

fn endpoint_address(address: &str, family: &str, list: &FieldPath<'_>, index: usize, errors: &mut Vec<FieldError>) {
    let at = list.index(index);
    let parsed = address.parse::<IpAddr>();
    match (family, parsed) {
        ("IPv4" | "IPv6", Err(_)) => errors.push(FieldError::invalid(at, address, NO_ADDRESS)),
        ("IPv4" | "IPv6", Ok(ip)) => {
            if ip.is_ipv4() != (family == "IPv4") {
                let article = format!("must be an {family} address");
                errors.push(FieldError::invalid(list, address, article));
            }
            errors.extend(unusable(ip).map(|why| FieldError::invalid(at, address, why)));
        }
        ("FQDN", _) => {
            let name = address.strip_suffix('.').unwrap_or(address);
            if let Some(why) = names::dns_subdomain(name) {
                errors.push(FieldError::invalid(at, address, why));
            } else if !name.contains('.') {
                let words = "should be a domain with at least two segments separated by dots";
                errors.push(FieldError::invalid(at, address, words));
            }
        }
        _ => {}
    }
}

/// Addresses that lead nowhere from another machine.
fn unusable(ip: IpAddr) -> Option<String> {
    let link_local = match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    let link_multicast = match ip {
        IpAddr::V4(ip) => ip.octets()[..3] == Ipv4Addr::new(224, 0, 0, 0).octets()[..3],
        IpAddr::V6(ip) => ip.segments()[0] & 0xff0f == 0xff02,
    };
    if ip.is_unspecified() {
        Some(format!("may not be unspecified ({ip})"))
    } else if ip.is_loopback() {
        Some("may not be in the loopback range (127.0.0.0/8, ::1/128)".to_owned())
    } else if link_local {
        Some("may not be in the link-local range (169.254.0.0/16, fe80::/10)".to_owned())
    } else if link_multicast {
        Some("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)".to_owned())
    } else {
        None
    }
}

fn too_many(object: &Value, list: &str, most: u64, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) -> bool {
    let count = elements(object, list).count();
    let refused = count as u64 > most;
    if refused {
        errors.push(FieldError::too_many(path, count, most));
    }
    refused
}
