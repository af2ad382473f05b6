//! Tables of connections under policies, as the API's documentation describes them.

#![expect(clippy::unwrap_used, reason = "in these files everything is a test")]

use std::net::IpAddr;

use cluster_network_policy::{Direction, End, Labels, NamedPort, PodFacts, Policies, Protocol, Refusal};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use serde_json::{Value, json};

fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

fn pod(namespace: &str, name: &str, pairs: &[(&str, &str)], address: &str) -> PodFacts {
    PodFacts {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        labels: labels(pairs),
        address: Some(ip(address)),
        ports: Vec::new(),
    }
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// A cluster with two namespaces and these policies: `(namespace, name, spec)`.
fn cluster(policies: &[(&str, &str, Value)]) -> Policies {
    let mut cluster = Policies::default();
    cluster.set_namespace("a", labels(&[("kubernetes.io/metadata.name", "a"), ("team", "one")]));
    cluster.set_namespace("b", labels(&[("kubernetes.io/metadata.name", "b")]));
    for (namespace, name, spec) in policies {
        let policy = json!({"metadata": {"namespace": namespace, "name": name}, "spec": spec});
        cluster.set(&serde_json::from_value::<NetworkPolicy>(policy).unwrap());
    }
    cluster
}

fn client() -> PodFacts {
    pod("a", "client", &[("app", "client")], "10.0.0.2")
}

fn server() -> PodFacts {
    PodFacts {
        ports: vec![
            NamedPort {
                name: "http".to_owned(),
                number: 8080,
                protocol: Protocol::Tcp,
            },
            NamedPort {
                name: "dns".to_owned(),
                number: 53,
                protocol: Protocol::Udp,
            },
        ],
        ..pod("b", "server", &[("app", "server")], "10.0.1.3")
    }
}

/// What the client may do at the server's port.
fn at(cluster: &Policies, port: u16, protocol: Protocol) -> Result<(), Box<Refusal>> {
    cluster.check(End::Pod(&client()), End::Pod(&server()), port, protocol)
}

fn is_open(policies: &[(&str, &str, Value)], port: u16) -> bool {
    at(&cluster(policies), port, Protocol::Tcp).is_ok()
}

#[test]
fn direction_is_closed_only_by_a_policy_that_selects_the_pod() {
    #[rustfmt::skip] // one case a line
    let table = [
        (vec![], true),
        (vec![("b", "deny", json!({"podSelector": {}}))], false),
        (vec![("b", "other", json!({"podSelector": {"matchLabels": {"app": "other"}}}))], true),
        (vec![("a", "ingress-of-the-client", json!({"podSelector": {}}))], true),
        (vec![("a", "deny", json!({"podSelector": {}, "policyTypes": ["Egress"]}))], false),
        (vec![("a", "deny", json!({"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}))], false),
        (vec![("b", "egress-of-the-server", json!({"podSelector": {}, "policyTypes": ["Egress"]}))], true),
        // An empty list of rules closes as no list does; types are derived from rules for egress.
        (vec![("b", "deny", json!({"podSelector": {}, "ingress": []}))], false),
        (vec![("a", "no-egress-rules", json!({"podSelector": {}, "egress": []}))], true),
        (vec![("a", "derived", json!({"podSelector": {}, "egress": [{"ports": [{"port": 1}]}]}))], false),
        (vec![("b", "exists", json!({"podSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]}}))], false),
        (vec![("b", "not-in", json!({"podSelector": {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["server"]}]}}))], true),
        (vec![("b", "absent", json!({"podSelector": {"matchExpressions": [{"key": "x", "operator": "DoesNotExist"}]}}))], false),
    ];
    for (policies, open) in table {
        assert_eq!(is_open(&policies, 8080), open, "{policies:?}");
    }
}

#[test]
fn rule_opens_for_its_peers_and_ports() {
    let rule = |rule: Value| vec![("b", "p", json!({"podSelector": {}, "ingress": [rule]}))];
    #[rustfmt::skip] // one case a line
    let table = [
        (json!({}), true),
        (json!({"from": []}), true),
        (json!({"from": [], "ports": []}), true),
        // A selector of pods alone is of the policy's own namespace.
        (json!({"from": [{"podSelector": {}}]}), false),
        (json!({"from": [{"podSelector": {}, "namespaceSelector": {}}]}), true),
        (json!({"from": [{"namespaceSelector": {}}]}), true),
        (json!({"from": [{"namespaceSelector": {"matchLabels": {"team": "one"}}}]}), true),
        (json!({"from": [{"namespaceSelector": {"matchLabels": {"team": "two"}}}]}), false),
        (json!({"from": [{"namespaceSelector": {"matchLabels": {"team": "one"}}, "podSelector": {"matchLabels": {"app": "client"}}}]}), true),
        (json!({"from": [{"namespaceSelector": {"matchLabels": {"team": "one"}}, "podSelector": {"matchLabels": {"app": "x"}}}]}), false),
        (json!({"from": [{"podSelector": {}}, {"namespaceSelector": {}}]}), true),
        (json!({"from": [{"ipBlock": {"cidr": "10.0.0.0/24"}}]}), true),
        (json!({"from": [{"ipBlock": {"cidr": "10.0.1.0/24"}}]}), false),
        (json!({"from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.0.0.0/30"]}}]}), false),
        (json!({"from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.0.0.4/30"]}}]}), true),
        (json!({"from": [{"ipBlock": {"cidr": "fd00::/8"}}]}), false),
        (json!({"ports": [{}]}), true),
        (json!({"ports": [{"port": 8080}]}), true),
        (json!({"ports": [{"port": 8081}, {"port": 8080}]}), true),
        (json!({"ports": [{"port": 8081}]}), false),
        (json!({"ports": [{"port": 8080, "protocol": "UDP"}]}), false),
        (json!({"ports": [{"protocol": "UDP"}]}), false),
        (json!({"ports": [{"port": 8000, "endPort": 8080}]}), true),
        (json!({"ports": [{"port": 8000, "endPort": 8079}]}), false),
        (json!({"ports": [{"port": "http"}]}), true),
        (json!({"ports": [{"port": "https"}]}), false),
        (json!({"ports": [{"port": 8080}], "from": [{"podSelector": {}}]}), false),
    ];
    for (of, open) in table {
        assert_eq!(is_open(&rule(of.clone()), 8080), open, "{of}");
    }
    let dns = cluster(&rule(json!({"ports": [{"port": "dns", "protocol": "UDP"}]})));
    assert!(at(&dns, 53, Protocol::Udp).is_ok());
    assert!(at(&dns, 53, Protocol::Tcp).is_err());
}

#[test]
fn policies_of_one_pod_allow_together_and_both_ends_must() {
    let deny = json!({"podSelector": {}, "policyTypes": ["Ingress", "Egress"]});
    let to = json!({"podSelector": {"matchLabels": {"app": "client"}}, "policyTypes": ["Egress"],
        "egress": [{"to": [{"namespaceSelector": {}, "podSelector": {"matchLabels": {"app": "server"}}}], "ports": [{"port": "http"}]}]});
    let from = json!({"podSelector": {"matchLabels": {"app": "server"}}, "policyTypes": ["Ingress"],
        "ingress": [{"from": [{"namespaceSelector": {}}], "ports": [{"port": 8080}]}]});
    let whole = vec![
        ("a", "deny-all", deny.clone()),
        ("b", "deny-all", deny),
        ("a", "to-server", to),
        ("b", "from-anywhere", from),
    ];
    assert!(is_open(&whole, 8080));
    assert!(!is_open(&whole, 8081));
    for left_out in [2, 3] {
        let mut part = whole.clone();
        let (_, name, _) = part.remove(left_out);
        let refusal = at(&cluster(&part), 8080, Protocol::Tcp).unwrap_err();
        let direction = if left_out == 2 {
            Direction::Egress
        } else {
            Direction::Ingress
        };
        assert_eq!(refusal.direction, direction, "without {name}");
        assert_eq!(refusal.policies, ["deny-all"]);
        assert_eq!(refusal.remedy, None);
    }
    // Order and repetition do not count.
    let mut policies = cluster(&whole);
    policies.remove("b", "from-anywhere");
    assert!(at(&policies, 8080, Protocol::Tcp).is_err());
    policies.clear();
    assert!(at(&policies, 8080, Protocol::Tcp).is_ok());
}

#[test]
fn ends_that_are_no_pods_are_matched_by_networks_alone() {
    let of = |spec: Value| cluster(&[("b", "p", spec)]);
    let from = |peers: Value| json!({"podSelector": {}, "ingress": [{"from": peers}]});
    let to = |peers: Value| json!({"podSelector": {}, "policyTypes": ["Egress"], "egress": [{"to": peers, "ports": [{"port": 443}]}]});
    let server = server();
    let address = End::Address(ip("192.0.2.7"));
    #[rustfmt::skip] // one case a line
    let ingress = [
        (from(json!([])), true, true),
        (from(json!([{"namespaceSelector": {}}])), false, false),
        (from(json!([{"ipBlock": {"cidr": "0.0.0.0/0"}}])), true, true),
        (from(json!([{"ipBlock": {"cidr": "192.0.2.0/24"}}])), true, false),
        (from(json!([{"ipBlock": {"cidr": "0.0.0.0/0", "except": ["192.0.2.0/24"]}}])), false, false),
    ];
    for (spec, by_address, from_outside) in ingress {
        let cluster = of(spec.clone());
        let open = |end| cluster.check(end, End::Pod(&server), 1, Protocol::Tcp).is_ok();
        assert_eq!(
            (open(address), open(End::Outside)),
            (by_address, from_outside),
            "{spec}"
        );
    }
    #[rustfmt::skip] // one case a line
    let egress = [
        (to(json!([])), true),
        (to(json!([{"ipBlock": {"cidr": "192.0.2.0/24"}}])), true),
        (to(json!([{"ipBlock": {"cidr": "10.0.0.0/8"}}])), false),
        (to(json!([{"podSelector": {}}])), false),
    ];
    for (spec, open) in egress {
        let check = of(spec.clone()).check(End::Pod(&server), address, 443, Protocol::Tcp);
        assert_eq!(check.is_ok(), open, "{spec}");
    }
    assert!(
        of(to(json!([]))).check(address, End::Outside, 1, Protocol::Tcp).is_ok(),
        "no pod, no policy"
    );
}

/// Policies as label-driven default deny has them: the label allows egress and is what ingress selects.
fn label_driven() -> Vec<(&'static str, &'static str, Value)> {
    let deny = json!({"podSelector": {}, "policyTypes": ["Ingress", "Egress"]});
    let ports = json!([{"port": 8080, "protocol": "TCP"}]);
    vec![
        ("a", "deny-all", deny.clone()),
        ("b", "deny-all", deny),
        (
            "a",
            "egress-to-b-server-tcp-8080",
            json!({
                "podSelector": {"matchLabels": {"to-server": "allowed"}}, "policyTypes": ["Egress"],
                "egress": [{"to": [{"podSelector": {"matchLabels": {"app": "server"}}, "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "b"}}}], "ports": ports}],
            }),
        ),
        (
            "b",
            "ingress-to-server-tcp-8080-from-a",
            json!({
                "podSelector": {"matchLabels": {"app": "server"}}, "policyTypes": ["Ingress"],
                "ingress": [{"from": [{"podSelector": {"matchLabels": {"to-server": "allowed"}}, "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "a"}}}], "ports": ports}],
            }),
        ),
    ]
}

#[test]
fn refusal_names_the_label_that_would_allow_the_connection() {
    let cluster = cluster(&label_driven());
    let refusal = at(&cluster, 8080, Protocol::Tcp).unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "egress of pod a/client is not allowed by deny-all; the label to-server: allowed on pod a/client would allow it \
         (policy a/egress-to-b-server-tcp-8080)"
    );
    let mut labelled = client();
    labelled.labels.insert("to-server".to_owned(), "allowed".to_owned());
    let (from, server) = (End::Pod(&labelled), server());
    assert_eq!(cluster.check(from, End::Pod(&server), 8080, Protocol::Tcp), Ok(()));
    // At another port no label helps.
    let refusal = cluster.check(from, End::Pod(&server), 8081, Protocol::Tcp).unwrap_err();
    assert_eq!(refusal.remedy, None);
    assert_eq!(
        refusal.to_string(),
        "egress of pod a/client is not allowed by deny-all, egress-to-b-server-tcp-8080"
    );
}

#[test]
fn refusal_at_the_target_names_the_label_of_the_other_pod() {
    let mut policies = label_driven();
    policies.remove(0);
    let cluster = cluster(&policies);
    let refusal = at(&cluster, 8080, Protocol::Tcp).unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "ingress to pod b/server is not allowed by deny-all, ingress-to-server-tcp-8080-from-a; the label to-server: \
         allowed on pod a/client would allow it (policy b/ingress-to-server-tcp-8080-from-a)"
    );
}
