//! Addresses as containers dial them.

use std::net::IpAddr;

use super::Refused;

/// What an address names.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Target {
    Pod(IpAddr, u16),
    Service { namespace: String, name: String, port: u16 },
}

impl Target {
    pub(super) fn parse(address: &str, own_namespace: &str) -> Result<Self, Refused> {
        let malformed = || Refused::Malformed(address.to_owned());
        let rest = address
            .split_once("://")
            .map_or(address, |(_scheme, rest)| rest)
            .trim_end_matches('/');
        let (host, port) = rest.rsplit_once(':').ok_or_else(malformed)?;
        let port = port.parse().map_err(|_| malformed())?;
        if let Ok(ip) = host.trim_start_matches('[').trim_end_matches(']').parse() {
            return Ok(Target::Pod(ip, port));
        }
        let mut parts = host.split('.');
        let name = parts
            .next()
            .filter(|name| !name.is_empty())
            .ok_or_else(malformed)?
            .to_owned();
        let namespace = parts.next().unwrap_or(own_namespace).to_owned();
        if parts.next().is_some_and(|part| part != "svc") {
            return Err(malformed());
        }
        Ok(Target::Service { namespace, name, port })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_name_services_near_and_far_or_pods() {
        let service = |namespace: &str, name: &str, port| Target::Service {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            port,
        };
        for (address, target) in [
            ("etcd:2379", service("own", "etcd", 2379)),
            ("https://etcd.other:1", service("other", "etcd", 1)),
            ("etcd.other.svc.cluster.local:1/", service("other", "etcd", 1)),
            ("10.0.0.1:80", Target::Pod("10.0.0.1".parse().unwrap(), 80)),
            ("[fd00::1]:80", Target::Pod("fd00::1".parse().unwrap(), 80)),
        ] {
            assert_eq!(Target::parse(address, "own").unwrap(), target, "{address}");
        }
        for address in ["etcd", "etcd:http", ":80", "etcd.other.pod:1"] {
            assert!(Target::parse(address, "own").is_err(), "{address}");
        }
    }
}
