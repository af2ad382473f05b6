//! The files of /etc that a container engine gives every container: names of the pod, and its name server. Pure
//! (kubernetes/kubernetes v1.35 pkg/kubelet/kubelet_pods.go, pkg/kubelet/network/dns/dns.go).

use std::net::{IpAddr, Ipv4Addr};

use k8s_openapi::api::core::v1::Pod;

/// The longest hostname (kubernetes/kubernetes v1.35 pkg/kubelet/util/util.go).
const HOSTNAME_BYTES_MAX: usize = 63;

/// The pod's hostname: the requested one, or its name, cut to the length of a hostname.
pub(crate) fn hostname(pod: &Pod) -> String {
    let requested = pod.spec.as_ref().and_then(|spec| spec.hostname.clone());
    let mut name = requested.or_else(|| pod.metadata.name.clone()).unwrap_or_default();
    name.truncate(HOSTNAME_BYTES_MAX);
    name.trim_end_matches(['-', '.']).to_owned()
}

/// `/etc/hosts`.
pub(crate) fn hosts(pod: &Pod, ip: IpAddr) -> String {
    let spec = pod.spec.as_ref();
    let name = hostname(pod);
    let own = match spec.and_then(|spec| spec.subdomain.as_deref()) {
        Some(subdomain) => {
            let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
            format!("{ip}\t{name}.{subdomain}.{namespace}.svc.cluster.local\t{name}\n")
        }
        None => format!("{ip}\t{name}\n"),
    };
    let mut text = format!(
        "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n{own}"
    );
    for alias in spec.into_iter().flat_map(|spec| spec.host_aliases.iter().flatten()) {
        let names = alias.hostnames.iter().flatten();
        let names: Vec<&str> = names.map(String::as_str).collect();
        text += &format!("{}\t{}\n", alias.ip, names.join("\t"));
    }
    text
}

/// `/etc/resolv.conf` with the cluster's name server, and the pod's own search domains and options.
pub(crate) fn resolv_conf(pod: &Pod, server: Ipv4Addr) -> String {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let spec = pod.spec.as_ref();
    let own = spec.and_then(|spec| spec.dns_config.as_ref());
    let mut searches = match spec.and_then(|spec| spec.dns_policy.as_deref()) {
        Some("None" | "Default") => Vec::new(),
        _ => vec![
            format!("{namespace}.svc.cluster.local"),
            "svc.cluster.local".to_owned(),
            "cluster.local".to_owned(),
        ],
    };
    searches.extend(own.iter().flat_map(|own| own.searches.iter().flatten().cloned()));
    let mut options = match searches.is_empty() {
        true => Vec::new(),
        false => vec!["ndots:5".to_owned()],
    };
    for option in own.iter().flat_map(|own| own.options.iter().flatten()) {
        let name = option.name.clone().unwrap_or_default();
        options.retain(|known| known.split(':').next() != Some(name.as_str()));
        options.push(match &option.value {
            Some(value) => format!("{name}:{value}"),
            None => name,
        });
    }
    let mut text = format!("nameserver {server}\n");
    if !searches.is_empty() {
        text += &format!("search {}\n", searches.join(" "));
    }
    if !options.is_empty() {
        text += &format!("options {}\n", options.join(" "));
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(spec: serde_json::Value) -> Pod {
        serde_json::from_value(json!({"metadata": {"name": "p", "namespace": "ns"}, "spec": spec})).unwrap()
    }

    #[test]
    fn hosts_file_names_the_pod_and_its_aliases() {
        let ip = IpAddr::from([10, 1, 0, 2]);
        let plain = hosts(&pod(json!({"containers": []})), ip);
        assert!(
            plain.contains("127.0.0.1\tlocalhost\n") && plain.ends_with("10.1.0.2\tp\n"),
            "{plain}"
        );
        let more = json!({"containers": [], "hostname": "h", "subdomain": "s", "hostAliases": [
            {"ip": "10.9.9.9", "hostnames": ["a", "b"]}]});
        let more = hosts(&pod(more), ip);
        assert!(
            more.ends_with("10.1.0.2\th.s.ns.svc.cluster.local\th\n10.9.9.9\ta\tb\n"),
            "{more}"
        );
    }

    #[test]
    fn names_are_searched_in_the_pods_namespace_first() {
        let server = Ipv4Addr::new(169, 254, 20, 10);
        assert_eq!(
            resolv_conf(&pod(json!({"containers": []})), server),
            "nameserver 169.254.20.10\nsearch ns.svc.cluster.local svc.cluster.local cluster.local\noptions ndots:5\n"
        );
        let own = json!({"containers": [], "dnsPolicy": "None", "dnsConfig": {
            "searches": ["example.org"], "options": [{"name": "ndots", "value": "1"}]}});
        assert_eq!(
            resolv_conf(&pod(own), server),
            "nameserver 169.254.20.10\nsearch example.org\noptions ndots:1\n"
        );
    }
}
