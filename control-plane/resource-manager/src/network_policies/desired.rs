//! The network policies that one Service requests by its ports and annotations (gardener/gardener v1.150
//! pkg/resourcemanager/controller/networkpolicy/reconciler.go). Pure. Istio's VirtualServices are left out: no seed here
//! has Istio.

use std::collections::{BTreeMap, BTreeSet};

use api_meta::annotations::{self, network as notes};
use api_meta::labels::network as marks;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::networking::v1::{
    Ingress, NetworkPolicy, NetworkPolicyEgressRule, NetworkPolicyIngressRule, NetworkPolicyPeer, NetworkPolicyPort,
    NetworkPolicySpec, ServiceBackendPort,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};

use super::IngressController;

/// The label that every namespace has with its own name.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";
/// Longest name of a label, behind its prefix.
const LABEL_NAME_MAX: usize = 63;
/// The end of a longer one is replaced by `-` and this much of a checksum.
const CHECKSUM_LENGTH: usize = 5;

/// What the policies of a Service depend on, beside the Service.
pub(super) struct Surroundings<'a> {
    /// The namespaces whose pods may connect, the Service's own among them.
    pub(super) namespaces: &'a BTreeSet<String>,
    /// By namespace, the keys of labels by which pods request a connection.
    pub(super) label_keys: &'a BTreeMap<String, BTreeSet<String>>,
    /// The Ingresses of the Service's namespace.
    pub(super) ingresses: &'a [Ingress],
    pub(super) ingress_controller: Option<&'a IngressController>,
}

/// What a Service requests.
#[derive(Debug, Default)]
pub(super) struct Desired {
    pub(super) policies: Vec<NetworkPolicy>,
    /// Labels that are too long, and what they are shortened to.
    pub(super) shortened: BTreeMap<String, String>,
}

/// An annotation that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("annotation {annotation} of Service {service} is not a JSON list as expected")]
pub(super) struct Unreadable {
    service: String,
    annotation: String,
    source: serde_json::Error,
}

/// The policies of a Service; none when it selects no pods.
pub(super) fn desired(service: &Service, around: &Surroundings<'_>) -> Result<Desired, Unreadable> {
    let mut desired = Desired::default();
    let Some(selector) = service.spec.as_ref().and_then(|spec| spec.selector.clone()) else {
        return Ok(desired);
    };
    let maker = Maker {
        service,
        namespace: service.namespace().unwrap_or_default(),
        selector,
    };
    for port in ports(service) {
        maker.for_pods(&port, None, around, &mut desired);
    }
    for (annotation, value) in service.annotations() {
        let custom = annotation.strip_prefix(notes::FROM_PREFIX);
        let Some(custom) = custom.and_then(|rest| rest.strip_suffix(notes::ALLOWED_PORTS_SUFFIX)) else {
            continue;
        };
        for port in read::<NetworkPolicyPort>(service, annotation, value)? {
            maker.for_pods(&port, Some(custom), around, &mut desired);
        }
    }
    if let Some(value) = service.annotations().get(notes::FROM_WORLD_TO_PORTS) {
        let open = read(service, notes::FROM_WORLD_TO_PORTS, value)?;
        desired.policies.push(maker.open_to_world(open));
    }
    if let Some(controller) = around.ingress_controller {
        for port in exposed(service, around.ingresses) {
            maker.for_ingress_controller(&port, controller, &mut desired);
        }
    }
    Ok(desired)
}

/// The annotation with the selectors of namespaces, as it is written.
pub(super) fn selectors_text(service: &Service) -> Option<&str> {
    service
        .annotations()
        .get(notes::NAMESPACE_SELECTORS)
        .map(String::as_str)
}

/// The selectors of the namespaces whose pods may connect, beside the Service's own.
pub(super) fn namespace_selectors(service: &Service) -> Result<Vec<LabelSelector>, Unreadable> {
    match selectors_text(service) {
        Some(value) => read(service, notes::NAMESPACE_SELECTORS, value),
        None => Ok(Vec::new()),
    }
}

fn read<T: DeserializeOwned>(service: &Service, annotation: &str, value: &str) -> Result<Vec<T>, Unreadable> {
    serde_json::from_str(value).map_err(|source| Unreadable {
        service: format!("{}/{}", service.namespace().unwrap_or_default(), service.name_any()),
        annotation: annotation.to_owned(),
        source,
    })
}

/// The ports of the pods behind a Service.
fn ports(service: &Service) -> Vec<NetworkPolicyPort> {
    let ports = service.spec.iter().flat_map(|spec| spec.ports.iter().flatten());
    ports
        .map(|port| NetworkPolicyPort {
            protocol: Some(port.protocol.clone().unwrap_or_else(|| "TCP".to_owned())),
            port: Some(port.target_port.clone().unwrap_or(IntOrString::Int(port.port))),
            end_port: None,
        })
        .collect()
}

/// The ports of a Service that Ingresses name.
fn exposed(service: &Service, ingresses: &[Ingress]) -> Vec<NetworkPolicyPort> {
    let name = service.name_any();
    let rules = ingresses
        .iter()
        .flat_map(|ingress| ingress.spec.iter().flat_map(|spec| spec.rules.iter().flatten()));
    let paths = rules.flat_map(|rule| rule.http.iter().flat_map(|http| &http.paths));
    let backends = paths.filter_map(|path| path.backend.service.as_ref());
    backends
        .filter(|backend| backend.name == name)
        .filter_map(|backend| backend_port(service, backend.port.as_ref()?))
        .collect()
}

fn backend_port(service: &Service, wanted: &ServiceBackendPort) -> Option<NetworkPolicyPort> {
    let mut known = service.spec.as_ref()?.ports.iter().flatten().zip(ports(service));
    let is_it = |name: Option<&String>, number: i32| {
        (wanted.name.is_some() && wanted.name.as_ref() == name) || wanted.number == Some(number)
    };
    let (_, port) = known.find(|(port, _)| is_it(port.name.as_ref(), port.port))?;
    Some(port)
}

/// Which end of a connection a policy belongs to.
#[derive(Clone, Copy)]
enum Direction {
    /// The Service's pods.
    Ingress,
    /// The pods that connect.
    Egress,
}

impl Direction {
    fn policy_type(self) -> &'static str {
        match self {
            Direction::Ingress => "Ingress",
            Direction::Egress => "Egress",
        }
    }
}

struct Maker<'a> {
    service: &'a Service,
    namespace: String,
    selector: BTreeMap<String, String>,
}

impl Maker<'_> {
    /// Both directions between pods that request it by a label and the Service's pods, in each namespace that has any.
    fn for_pods(
        &self,
        port: &NetworkPolicyPort,
        custom: Option<&str>,
        around: &Surroundings<'_>,
        desired: &mut Desired,
    ) {
        let own = self.policy_id(port);
        let (id, label) = match custom {
            Some(custom) => (format!("{own}-via-{custom}"), custom.to_owned()),
            None => (own.clone(), own),
        };
        for namespace in around.namespaces {
            let long = self.label_key(&label, namespace);
            let key = shortened(&long);
            let requested = around.label_keys.get(namespace).is_some_and(|keys| keys.contains(&key));
            if !requested {
                continue;
            }
            let near = *namespace == self.namespace;
            let ingress = match near {
                true => format!("ingress-to-{id}"),
                false => format!("ingress-to-{id}-from-{namespace}"),
            };
            let egress = match near {
                true => format!("egress-to-{id}"),
                false => format!("egress-to-{}-{id}", self.namespace),
            };
            let pods = BTreeMap::from([(key.clone(), marks::ALLOWED.to_owned())]);
            desired
                .policies
                .extend(self.both_ways([&ingress, &egress], port, namespace, &pods));
            if key != long {
                desired.shortened.insert(long, key);
            }
        }
    }

    fn for_ingress_controller(&self, port: &NetworkPolicyPort, controller: &IngressController, desired: &mut Desired) {
        let id = self.policy_id(port);
        let namespace = &controller.namespace;
        let egress = match *namespace == self.namespace {
            true => format!("egress-to-{id}"),
            false => format!("egress-to-{}-{id}", self.namespace),
        };
        let ingress = format!("ingress-to-{id}-from-ingress-controller");
        let egress = format!("{egress}-from-ingress-controller");
        desired
            .policies
            .extend(self.both_ways([&ingress, &egress], port, namespace, &controller.pod_labels));
    }

    /// The policies of both ends, by their names.
    fn both_ways(
        &self,
        [ingress, egress]: [&str; 2],
        port: &NetworkPolicyPort,
        namespace: &str,
        callers: &BTreeMap<String, String>,
    ) -> [NetworkPolicy; 2] {
        [
            self.one_way(Direction::Ingress, ingress, port, namespace, callers),
            self.one_way(Direction::Egress, egress, port, namespace, callers),
        ]
    }

    fn policy_id(&self, port: &NetworkPolicyPort) -> String {
        let protocol = protocol(port).to_lowercase();
        format!("{}-{protocol}-{}", self.service.name_any(), number(port))
    }

    fn label_key(&self, label: &str, namespace: &str) -> String {
        let infix = if *namespace == self.namespace {
            String::new()
        } else {
            let alias = self
                .service
                .annotations()
                .get(notes::POD_LABEL_SELECTOR_NAMESPACE_ALIAS);
            format!("{}-", alias.unwrap_or(&self.namespace))
        };
        format!("{}to-{infix}{label}", marks::PREFIX)
    }

    /// The policy at one end of connections from pods of `namespace` with the labels `callers` to the Service's pods.
    fn one_way(
        &self,
        direction: Direction,
        name: &str,
        port: &NetworkPolicyPort,
        namespace: &str,
        callers: &BTreeMap<String, String>,
    ) -> NetworkPolicy {
        let traffic = format!("{} traffic to port {}", protocol(port), number(port));
        let from = format!(
            "pods running in namespace {namespace} labeled with {}",
            printed(callers)
        );
        let to = format!("pods selected by the {} service selector", self.service_key());
        let ports = Some(vec![port.clone()]);
        let peers = |pods: &BTreeMap<String, String>, home: &str| {
            let peer = NetworkPolicyPeer {
                pod_selector: Some(matching(pods)),
                namespace_selector: self.far_namespace(namespace, home),
                ip_block: None,
            };
            Some(vec![peer])
        };
        let (home, pods, description, ingress, egress) = match direction {
            Direction::Ingress => {
                let rule = NetworkPolicyIngressRule {
                    from: peers(callers, namespace),
                    ports,
                };
                let description = format!("Allows ingress {traffic} for {to} from {from}.");
                (
                    self.namespace.as_str(),
                    &self.selector,
                    description,
                    Some(vec![rule]),
                    None,
                )
            }
            Direction::Egress => {
                let rule = NetworkPolicyEgressRule {
                    to: peers(&self.selector, &self.namespace),
                    ports,
                };
                let description = format!("Allows egress {traffic} from {from} to {to}.");
                (namespace, callers, description, None, Some(vec![rule]))
            }
        };
        let spec = NetworkPolicySpec {
            ingress,
            egress,
            pod_selector: Some(matching(pods)),
            policy_types: Some(vec![direction.policy_type().to_owned()]),
        };
        self.policy(name, home, description, spec)
    }

    fn open_to_world(&self, open: Vec<NetworkPolicyPort>) -> NetworkPolicy {
        let shown: Vec<String> = open
            .iter()
            .map(|port| match &port.protocol {
                Some(protocol) => format!("{protocol}/{}", number(port)),
                None => number(port),
            })
            .collect();
        let description = format!(
            "Allows ingress traffic from everywhere to ports [{}] for pods selected by the {} service selector.",
            shown.join(" "),
            self.service_key()
        );
        // As kube-apiserver stores it: what is applied again is the same.
        let stored = |port: NetworkPolicyPort| NetworkPolicyPort {
            protocol: Some(protocol(&port).to_owned()),
            ..port
        };
        let spec = NetworkPolicySpec {
            ingress: Some(vec![NetworkPolicyIngressRule {
                from: None,
                ports: Some(open.into_iter().map(stored).collect()),
            }]),
            egress: None,
            pod_selector: Some(matching(&self.selector)),
            policy_types: Some(vec![Direction::Ingress.policy_type().to_owned()]),
        };
        let name = format!("ingress-to-{}-from-world", self.service.name_any());
        self.policy(&name, &self.namespace, description, spec)
    }

    fn policy(&self, name: &str, namespace: &str, description: String, spec: NetworkPolicySpec) -> NetworkPolicy {
        NetworkPolicy {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                namespace: Some(namespace.to_owned()),
                labels: Some(BTreeMap::from([
                    (marks::SERVICE_NAME.to_owned(), self.service.name_any()),
                    (marks::SERVICE_NAMESPACE.to_owned(), self.namespace.clone()),
                ])),
                annotations: Some(BTreeMap::from([(annotations::DESCRIPTION.to_owned(), description)])),
                ..ObjectMeta::default()
            },
            spec: Some(spec),
        }
    }

    fn service_key(&self) -> String {
        format!("{}/{}", self.namespace, self.service.name_any())
    }

    /// Selects `wanted` when the pods that connect, in `namespace`, are not the Service's neighbours.
    fn far_namespace(&self, namespace: &str, wanted: &str) -> Option<LabelSelector> {
        let label = (NAMESPACE_NAME.to_owned(), wanted.to_owned());
        (namespace != self.namespace).then(|| matching(&BTreeMap::from([label])))
    }
}

/// The label that a pod needs to connect to a port of a Service in another namespace, or in its own when `alias` is
/// none.
pub(crate) fn label_for(alias: Option<&str>, service: &str, protocol: &str, port: &str) -> String {
    let infix = alias.map(|alias| format!("{alias}-")).unwrap_or_default();
    let protocol = protocol.to_lowercase();
    shortened(&format!("{}to-{infix}{service}-{protocol}-{port}", marks::PREFIX))
}

/// A key that is short enough for a label.
fn shortened(key: &str) -> String {
    let name = key.strip_prefix(marks::PREFIX).unwrap_or(key);
    if name.len() <= LABEL_NAME_MAX {
        return key.to_owned();
    }
    let checksum: String = Sha256::digest(name).iter().map(|byte| format!("{byte:02x}")).collect();
    let beginning: String = name.chars().take(LABEL_NAME_MAX - CHECKSUM_LENGTH - 1).collect();
    format!("{}{beginning}-{}", marks::PREFIX, &checksum[..CHECKSUM_LENGTH])
}

fn matching(labels: &BTreeMap<String, String>) -> LabelSelector {
    LabelSelector {
        match_labels: Some(labels.clone()),
        match_expressions: None,
    }
}

fn protocol(port: &NetworkPolicyPort) -> &str {
    port.protocol.as_deref().unwrap_or("TCP")
}

fn number(port: &NetworkPolicyPort) -> String {
    match &port.port {
        Some(IntOrString::Int(number)) => number.to_string(),
        Some(IntOrString::String(name)) => name.clone(),
        None => String::new(),
    }
}

/// As Go prints a label selector, which is what stands in Gardener's descriptions.
fn printed(labels: &BTreeMap<String, String>) -> String {
    let labels: Vec<String> = labels.iter().map(|(key, value)| format!("{key}:{value}")).collect();
    format!("{{map[{}] []}}", labels.join(" "))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn service(annotations: Value) -> Service {
        serde_json::from_value(json!({
            "metadata": {"name": "etcd", "namespace": "shoot--a", "annotations": annotations},
            "spec": {
                "selector": {"app": "etcd"},
                "ports": [{"name": "client", "port": 2379, "targetPort": 2379, "protocol": "TCP"}],
            },
        }))
        .unwrap()
    }

    fn policies(service: &Service, namespaces: &[&str], keys: &[(&str, &str)]) -> Vec<NetworkPolicy> {
        let namespaces = namespaces.iter().map(|name| (*name).to_owned()).collect();
        let mut label_keys: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (namespace, key) in keys {
            let key = format!("{}{key}", marks::PREFIX);
            label_keys.entry((*namespace).to_owned()).or_default().insert(key);
        }
        let around = Surroundings {
            namespaces: &namespaces,
            label_keys: &label_keys,
            ingresses: &[],
            ingress_controller: None,
        };
        desired(service, &around).unwrap().policies
    }

    fn keys(policies: &[NetworkPolicy]) -> Vec<String> {
        let key = |policy: &NetworkPolicy| format!("{}/{}", policy.namespace().unwrap_or_default(), policy.name_any());
        policies.iter().map(key).collect()
    }

    #[test]
    fn label_of_a_neighbour_gives_one_policy_for_each_direction() {
        let found = policies(&service(json!({})), &["shoot--a"], &[("shoot--a", "to-etcd-tcp-2379")]);
        let label = "networking.resources.gardener.cloud/to-etcd-tcp-2379";
        let metadata = |name: &str, description: &str| {
            json!({
                "name": name, "namespace": "shoot--a",
                "labels": {
                    "networking.resources.gardener.cloud/service-name": "etcd",
                    "networking.resources.gardener.cloud/service-namespace": "shoot--a",
                },
                "annotations": {"gardener.cloud/description": description},
            })
        };
        let ports = json!([{"port": 2379, "protocol": "TCP"}]);
        let expected = json!([
            {
                "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
                "metadata": metadata("ingress-to-etcd-tcp-2379", &format!(
                    "Allows ingress TCP traffic to port 2379 for pods selected by the shoot--a/etcd service selector from \
                     pods running in namespace shoot--a labeled with {{map[{label}:allowed] []}}.")),
                "spec": {
                    "podSelector": {"matchLabels": {"app": "etcd"}}, "policyTypes": ["Ingress"],
                    "ingress": [{"from": [{"podSelector": {"matchLabels": {label: "allowed"}}}], "ports": ports}],
                },
            },
            {
                "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
                "metadata": metadata("egress-to-etcd-tcp-2379", &format!(
                    "Allows egress TCP traffic to port 2379 from pods running in namespace shoot--a labeled with \
                     {{map[{label}:allowed] []}} to pods selected by the shoot--a/etcd service selector.")),
                "spec": {
                    "podSelector": {"matchLabels": {label: "allowed"}}, "policyTypes": ["Egress"],
                    "egress": [{"to": [{"podSelector": {"matchLabels": {"app": "etcd"}}}], "ports": ports}],
                },
            },
        ]);
        assert_eq!(serde_json::to_value(found).unwrap(), expected);
    }

    #[test]
    fn namespaces_without_the_label_get_no_policy() {
        let none: Vec<NetworkPolicy> = Vec::new();
        assert_eq!(policies(&service(json!({})), &["shoot--a"], &[]), none);
        let other = [("shoot--a", "to-etcd-tcp-2380"), ("other", "to-etcd-tcp-2379")];
        assert_eq!(policies(&service(json!({})), &["shoot--a", "other"], &other), none);
    }

    #[test]
    fn other_namespaces_are_named_in_labels_and_policies_or_by_their_alias() {
        let far = ["garden", "shoot--a"];
        let found = policies(&service(json!({})), &far, &[("garden", "to-shoot--a-etcd-tcp-2379")]);
        let expected = [
            "shoot--a/ingress-to-etcd-tcp-2379-from-garden",
            "garden/egress-to-shoot--a-etcd-tcp-2379",
        ];
        assert_eq!(keys(&found), expected);
        let aliased = service(json!({notes::POD_LABEL_SELECTOR_NAMESPACE_ALIAS: "all-shoots"}));
        let found = policies(&aliased, &far, &[("garden", "to-all-shoots-etcd-tcp-2379")]);
        assert_eq!(keys(&found), expected);
        let of = |index: usize| serde_json::to_value(found[index].spec.clone()).unwrap();
        assert_eq!(
            of(0)["ingress"][0]["from"][0]["namespaceSelector"],
            json!({"matchLabels": {"kubernetes.io/metadata.name": "garden"}})
        );
        assert_eq!(
            of(1)["egress"][0]["to"][0]["namespaceSelector"],
            json!({"matchLabels": {"kubernetes.io/metadata.name": "shoot--a"}})
        );
    }

    #[test]
    fn annotations_open_ports_for_labels_of_their_own_and_for_everybody() {
        let ports = json!([{"port": 8080, "protocol": "TCP"}, {"port": "metrics", "protocol": "TCP"}]).to_string();
        let scraped = service(json!({
            "networking.resources.gardener.cloud/from-all-scrape-targets-allowed-ports": ports,
            notes::FROM_WORLD_TO_PORTS: "[{\"port\": 443}]",
        }));
        let found = policies(&scraped, &["shoot--a"], &[("shoot--a", "to-all-scrape-targets")]);
        let expected = [
            "shoot--a/ingress-to-etcd-tcp-8080-via-all-scrape-targets",
            "shoot--a/egress-to-etcd-tcp-8080-via-all-scrape-targets",
            "shoot--a/ingress-to-etcd-tcp-metrics-via-all-scrape-targets",
            "shoot--a/egress-to-etcd-tcp-metrics-via-all-scrape-targets",
            "shoot--a/ingress-to-etcd-from-world",
        ];
        assert_eq!(keys(&found), expected);
        assert_eq!(
            serde_json::to_value(&found[4].spec).unwrap(),
            json!({
                "podSelector": {"matchLabels": {"app": "etcd"}}, "policyTypes": ["Ingress"],
                "ingress": [{"ports": [{"port": 443, "protocol": "TCP"}]}],
            })
        );
    }

    #[test]
    fn annotations_that_are_no_json_are_named() {
        let broken = service(json!({notes::FROM_WORLD_TO_PORTS: "443"}));
        let around = Surroundings {
            namespaces: &BTreeSet::new(),
            label_keys: &BTreeMap::new(),
            ingresses: &[],
            ingress_controller: None,
        };
        let error = desired(&broken, &around).unwrap_err();
        assert_eq!(
            error.to_string(),
            "annotation networking.resources.gardener.cloud/from-world-to-ports of Service shoot--a/etcd is not a JSON list \
             as expected"
        );
    }

    #[test]
    fn long_labels_end_in_a_checksum() {
        let short = label_for(None, "etcd", "TCP", "2379");
        assert_eq!(short, "networking.resources.gardener.cloud/to-etcd-tcp-2379");
        let long = label_for(Some(&"n".repeat(40)), &"s".repeat(40), "TCP", "1");
        let name = long.strip_prefix(marks::PREFIX).unwrap();
        assert_eq!(name.len(), 63);
        assert!(name.starts_with("to-nnn") && name.as_bytes()[57] == b'-', "{name}");
    }

    #[test]
    fn ports_behind_ingresses_are_opened_for_their_controller() {
        let ingress: Ingress = serde_json::from_value(json!({
            "metadata": {"name": "i", "namespace": "shoot--a"},
            "spec": {"rules": [{"http": {"paths": [
                {"pathType": "Prefix", "path": "/", "backend": {"service": {"name": "etcd", "port": {"name": "client"}}}},
                {"pathType": "Prefix", "path": "/o", "backend": {"service": {"name": "other", "port": {"number": 1}}}},
            ]}}]},
        }))
        .unwrap();
        let controller = IngressController {
            namespace: "garden".to_owned(),
            pod_labels: BTreeMap::from([("app".to_owned(), "nginx".to_owned())]),
        };
        let around = Surroundings {
            namespaces: &BTreeSet::from(["shoot--a".to_owned()]),
            label_keys: &BTreeMap::new(),
            ingresses: &[ingress],
            ingress_controller: Some(&controller),
        };
        let found = desired(&service(json!({})), &around).unwrap().policies;
        assert_eq!(
            keys(&found),
            [
                "shoot--a/ingress-to-etcd-tcp-2379-from-ingress-controller",
                "garden/egress-to-shoot--a-etcd-tcp-2379-from-ingress-controller",
            ]
        );
    }
}
