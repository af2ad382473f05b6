//! Network policies of a shoot's `kube-system`: nothing is allowed but what pods request by labels (gardener/gardener
//! v1.150 `pkg/component/shoot/system`). Those of the VPN come with it; those of the name server, which does not exist here,
//! are left out.

use std::collections::BTreeMap;

use api_meta::annotations;
use api_meta::labels::network;
use serde_json::{Value, json};

use super::Object;

/// All networks, of both families.
pub(super) const EVERYWHERE: [&str; 2] = ["0.0.0.0/0", "::/0"];

/// The policies. A shoot without workers has no pods to open anything for.
pub(super) fn policies(with_workers: bool) -> Vec<Object> {
    let deny_all = policy(
        "deny-all",
        "Disables all ingress and egress traffic into/from this namespace.".to_owned(),
        json!({"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}),
    );
    if !with_workers {
        return vec![deny_all];
    }
    let tcp = |port: u16| json!([{"port": port, "protocol": "TCP"}]);
    let everywhere = EVERYWHERE.map(|cidr| json!({"ipBlock": {"cidr": cidr}}));
    vec![
        deny_all,
        egress(
            "allow-to-apiserver",
            network::TO_API_SERVER,
            "Allows traffic to the API server in TCP port 443 for pods labeled with 'LABEL'.",
            json!([{"ports": tcp(443)}]),
        ),
        egress(
            "allow-to-dns",
            network::TO_DNS,
            "Allows egress traffic from pods labeled with 'LABEL' to DNS running in the 'kube-system' namespace.",
            dns(),
        ),
        egress(
            "allow-to-kubelet",
            network::TO_KUBELET,
            "Allows egress traffic to kubelet in TCP port 10250 for pods labeled with 'LABEL'.",
            json!([{"ports": tcp(10250)}]),
        ),
        egress(
            "allow-to-public-networks",
            network::TO_PUBLIC_NETWORKS,
            "Allows egress traffic to all networks for pods labeled with 'LABEL'.",
            json!([{"to": everywhere}]),
        ),
    ]
}

/// To the name server's pods, and to whatever a node uses as name server.
fn dns() -> Value {
    let ports = |port: u16| json!([{"port": port, "protocol": "UDP"}, {"port": port, "protocol": "TCP"}]);
    let pods = |app: &str| {
        let expression = json!({"key": "k8s-app", "operator": "In", "values": [app]});
        json!({"podSelector": {"matchExpressions": [expression]}})
    };
    let mut others: Vec<Value> = EVERYWHERE
        .iter()
        .map(|cidr| json!({"ipBlock": {"cidr": cidr}}))
        .collect();
    others.push(pods("node-local-dns"));
    json!([{"to": [pods("kube-dns")], "ports": ports(8053)}, {"to": others, "ports": ports(53)}])
}

fn egress(name: &str, label: &str, description: &str, rules: Value) -> Object {
    let selector = BTreeMap::from([(label, network::ALLOWED)]);
    policy(
        name,
        description.replace("LABEL", &format!("{label}={}", network::ALLOWED)),
        json!({"podSelector": {"matchLabels": selector}, "policyTypes": ["Egress"], "egress": rules}),
    )
}

fn policy(name: &str, description: String, spec: Value) -> Object {
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {
            "name": format!("gardener.cloud--{name}"),
            "namespace": "kube-system",
            "annotations": {annotations::DESCRIPTION: description},
        },
        "spec": spec,
    })
}
