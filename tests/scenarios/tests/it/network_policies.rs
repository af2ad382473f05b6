//! Network policies of a seed: who may reach whom is a generated table, every label in it opens exactly its rows, and
//! the pod network holds to it.

mod losses;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::IpAddr;

use cluster_network_policy::{End, Labels, NamedPort, PodFacts, Policies, Protocol};
use cluster_node::{Network, Refused};
use k8s_openapi::api::core::v1::{Namespace, Pod, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use serde_json::json;
use tests_scenarios::{TECHNICAL_ID, World, merge, wait};

/// Labels by which pods request access to something.
const ACCESS_LABELS: [&str; 2] = [
    "networking.gardener.cloud/to-",
    "networking.resources.gardener.cloud/to-",
];
/// Addresses beside the seed's pods. The first is the API server's Service in the seed.
const OUTSIDE: [(&str, &str, u16, Protocol); 4] = [
    ("API server of the seed", "10.2.0.1", 443, Protocol::Tcp),
    ("name server of the seed", "10.2.0.10", 53, Protocol::Udp),
    ("a private network", "10.200.0.1", 443, Protocol::Tcp),
    ("a public network", "198.51.100.7", 443, Protocol::Tcp),
];

/// The seed as policies see it.
#[derive(Clone)]
struct Seen {
    policies: BTreeMap<(String, String), NetworkPolicy>,
    namespaces: BTreeMap<String, Labels>,
    pods: Vec<PodFacts>,
    services: Vec<Service>,
}

/// A place that pods connect to: how the table names it, and the end of connections to it.
#[derive(Clone)]
struct Place {
    name: String,
    /// `service.namespace:port`, where it is a Service.
    service: Option<String>,
    pod: Option<PodFacts>,
    address: IpAddr,
    port: u16,
    protocol: Protocol,
}

impl Seen {
    async fn read(world: &World) -> Self {
        let seed = || world.seed.clone();
        let all = ListParams::default();
        let policies = Api::<NetworkPolicy>::all(seed()).list(&all).await.unwrap().items;
        let namespaces = Api::<Namespace>::all(seed()).list(&all).await.unwrap().items;
        let pods = Api::<Pod>::all(seed()).list(&all).await.unwrap().items;
        let key = |policy: &NetworkPolicy| (policy.namespace().unwrap(), policy.name_any());
        Self {
            policies: policies.into_iter().map(|policy| (key(&policy), policy)).collect(),
            namespaces: namespaces
                .into_iter()
                .map(|namespace| (namespace.name_any(), namespace.metadata.labels.unwrap_or_default()))
                .collect(),
            pods: pods.iter().filter_map(facts).collect(),
            services: Api::<Service>::all(seed()).list(&all).await.unwrap().items,
        }
    }

    fn evaluator(&self, without: Option<&(String, String)>) -> Policies {
        let mut policies = Policies::default();
        for (name, labels) in &self.namespaces {
            policies.set_namespace(name, labels.clone());
        }
        for (key, policy) in &self.policies {
            if Some(key) != without {
                policies.set(policy);
            }
        }
        policies
    }

    /// Every port of every Service with pods behind it, and some addresses outside.
    fn places(&self) -> Vec<Place> {
        let mut places = Vec::new();
        for service in &self.services {
            let spec = service.spec.clone().unwrap_or_default();
            let Some(selector) = spec.selector else { continue };
            let behind = self.pods.iter().find(|pod| {
                Some(&pod.namespace) == service.namespace().as_ref()
                    && selector.iter().all(|(key, value)| pod.labels.get(key) == Some(value))
            });
            let Some(pod) = behind else { continue };
            for port in spec.ports.into_iter().flatten() {
                let Some(IntOrString::Int(number)) = port.target_port else {
                    continue;
                };
                places.push(Place {
                    name: format!(
                        "{} port {}",
                        in_namespace(&pod.namespace, &service.name_any()),
                        port.port
                    ),
                    service: Some(format!("{}.{}:{}", service.name_any(), pod.namespace, port.port)),
                    pod: Some(pod.clone()),
                    address: pod.address.unwrap(),
                    port: u16::try_from(number).unwrap(),
                    protocol: Protocol::Tcp,
                });
            }
        }
        places.extend(OUTSIDE.map(|(name, address, port, protocol)| Place {
            name: format!("{name}, port {port}"),
            service: None,
            pod: None,
            address: address.parse().unwrap(),
            port,
            protocol,
        }));
        places
    }

    /// The connections that are allowed, by what connects and what it connects to.
    fn allowed(&self, policies: &Policies) -> BTreeSet<Connection> {
        let places = self.places();
        let mut allowed = BTreeSet::new();
        for pod in &self.pods {
            for place in &places {
                if may(policies, pod, place) {
                    allowed.insert((in_namespace(&pod.namespace, &program(pod)), place.name.clone()));
                }
            }
        }
        allowed
    }
}

fn may(policies: &Policies, pod: &PodFacts, place: &Place) -> bool {
    if Some(pod.address) == place.pod.as_ref().map(|other| other.address) {
        return false;
    }
    let to = place.pod.as_ref().map_or(End::Address(place.address), End::Pod);
    policies.check(End::Pod(pod), to, place.port, place.protocol).is_ok()
}

fn facts(pod: &Pod) -> Option<PodFacts> {
    let spec = pod.spec.as_ref()?;
    let ports = spec
        .containers
        .iter()
        .flat_map(|container| container.ports.iter().flatten());
    Some(PodFacts {
        namespace: pod.namespace()?,
        name: pod.name_any(),
        labels: pod.labels().clone(),
        address: Some(pod.status.as_ref()?.pod_ip.as_deref()?.parse().ok()?),
        ports: ports
            .filter_map(|port| {
                Some(NamedPort {
                    name: port.name.clone()?,
                    number: u16::try_from(port.container_port).ok()?,
                    protocol: Protocol::named(port.protocol.as_deref()),
                })
            })
            .collect(),
    })
}

/// The program of a pod, by its labels.
fn program(pod: &PodFacts) -> String {
    let named = pod
        .labels
        .get("app.kubernetes.io/name")
        .or_else(|| pod.labels.get("app"));
    named.cloned().unwrap_or_else(|| pod.name.clone())
}

fn in_namespace(namespace: &str, name: &str) -> String {
    format!("`{namespace}` {name}")
}

fn requests_access(label: &str) -> bool {
    ACCESS_LABELS.iter().any(|prefix| label.starts_with(prefix))
}

/// What connects, and what it connects to.
type Connection = (String, String);
/// What a connection hangs on: labels and policies whose loss ends it.
type Row = (BTreeSet<String>, BTreeSet<String>);

fn rows(seen: &Seen) -> BTreeMap<Connection, Row> {
    let whole = seen.evaluator(None);
    let allowed = seen.allowed(&whole);
    let mut rows: BTreeMap<Connection, Row> = allowed
        .iter()
        .map(|connection| (connection.clone(), Row::default()))
        .collect();
    for (index, pod) in seen.pods.iter().enumerate() {
        for label in pod.labels.keys().filter(|label| requests_access(label)) {
            let mut without = seen.clone();
            without.pods[index].labels.remove(label);
            let left = without.allowed(&whole);
            for lost in allowed.difference(&left) {
                rows.get_mut(lost).unwrap().0.insert(label.clone());
            }
            assert!(left.is_subset(&allowed), "without {label} nothing more is allowed");
        }
    }
    for key in seen.policies.keys().filter(|(_, name)| name != "deny-all") {
        let left = seen.allowed(&seen.evaluator(Some(key)));
        for lost in allowed.difference(&left) {
            let (namespace, name) = key;
            rows.get_mut(lost)
                .unwrap()
                .1
                .insert(in_namespace(namespace, &format!("`{name}`")));
        }
    }
    rows
}

fn page(rows: &BTreeMap<Connection, Row>, seen: &Seen) -> String {
    let mut page = String::from(
        "# Who may reach whom in a seed\n\n\
         In `garden` and in the namespaces of Shoots and extensions everything is denied, in both directions, but for what\n\
         pods ask for by labels with the value `allowed`. This table is generated from a landscape with one Shoot: every\n\
         connection that its network policies allow between pods of the seed, and to some addresses outside. A connection\n\
         ends when its label or one of its policies is taken away; nothing else does.\n\n\
         | From | To | Label | Policies |\n| --- | --- | --- | --- |\n",
    );
    let joined = |names: &BTreeSet<String>, quote: &str| {
        let names: Vec<String> = names.iter().map(|name| format!("{quote}{name}{quote}")).collect();
        names.join(", ")
    };
    for ((from, to), (labels, policies)) in rows {
        writeln!(
            page,
            "| {from} | {to} | {} | {} |",
            joined(labels, "`"),
            joined(policies, "")
        )
        .unwrap();
    }
    // Names of installations end in random letters.
    let extensions = seen.namespaces.keys().filter(|name| name.starts_with("extension-"));
    extensions.fold(page, |page, name| page.replace(name, "extension-…"))
}

#[tokio::test(start_paused = true)]
async fn generated_reference_of_network_policies_is_what_a_landscape_allows() {
    let world = World::with_example_shoot().await;
    settled(&world).await;
    let seen = Seen::read(&world).await;
    let rows = rows(&seen);
    for (connection, (labels, policies)) in &rows {
        assert_eq!(labels.len(), 1, "{connection:?} hangs on one label");
        assert!(!policies.is_empty(), "{connection:?} hangs on policies");
    }
    let page = page(&rows, &seen);
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/network-policies.md");
    if std::env::var_os("UPDATE_GOLDENS").is_some_and(|value| value == "1") {
        std::fs::write(file, &page).unwrap();
    }
    let written = std::fs::read_to_string(file).unwrap_or_default();
    assert_eq!(written, page, "run `cargo xtask generate`");
    // The network of the running seed says the same of every connection.
    let allowed: BTreeSet<Connection> = rows.into_keys().collect();
    let differing = differences(&world, &seen, &allowed).await;
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}

/// How the running network differs from what is allowed: whether it lets each pod connect to each place, and whether it
/// makes the connections that lead through Services.
async fn differences(world: &World, seen: &Seen, allowed: &BTreeSet<Connection>) -> Vec<String> {
    let network = world.landscape.seeds[0].api.pods();
    let mut differing = Vec::new();
    for pod in &seen.pods {
        let dialler = network.of_pod(&world.seed, &pod.namespace, pod.address.unwrap());
        for place in seen.places() {
            let connection = (in_namespace(&pod.namespace, &program(pod)), place.name.clone());
            if Some(pod.address) == place.pod.as_ref().map(|other| other.address) {
                continue;
            }
            let mut tried = vec![reaches(world, &network, pod, &place).await];
            if let Some(address) = &place.service {
                tried.push(dialler.dial(address).await.map(drop));
            }
            for outcome in tried {
                let as_expected = match &outcome {
                    Ok(()) => allowed.contains(&connection),
                    // Not every port of a Service has a program behind it here.
                    Err(Refused::Policy { .. } | Refused::NotListening(_)) => !allowed.contains(&connection),
                    Err(_) => false,
                };
                if !as_expected {
                    differing.push(format!("{connection:?}: {outcome:?}"));
                }
            }
        }
    }
    differing
}

#[tokio::test(start_paused = true)]
async fn label_taken_from_a_running_pod_ends_exactly_its_connections() {
    const LABEL: &str = "networking.resources.gardener.cloud/to-kube-apiserver-tcp-443";
    let world = World::with_example_shoot().await;
    settled(&world).await;
    let seen = Seen::read(&world).await;
    let before = rows(&seen);
    let named = |name: &str| seen.pods.iter().find(|pod| program(pod) == name).unwrap().clone();
    let scheduler = named("kube-scheduler");
    let of_label: BTreeSet<&String> = before
        .iter()
        .filter(|((from, _), (labels, _))| from.ends_with("kube-scheduler") && labels.contains(LABEL))
        .map(|((_, to), _)| to)
        .collect();
    assert_eq!(of_label.len(), 1, "{of_label:?}");
    let network = world.landscape.seeds[0].api.pods();
    let pods: Api<Pod> = Api::namespaced(world.seed.clone(), TECHNICAL_ID);
    merge(&pods, &scheduler.name, &json!({"metadata": {"labels": {LABEL: null}}})).await;
    for place in seen.places() {
        let was = before.contains_key(&(in_namespace(TECHNICAL_ID, "kube-scheduler"), place.name.clone()));
        let wanted = was && !of_label.contains(&place.name);
        let refused = until(|| async {
            let reached = reaches(&world, &network, &scheduler, &place).await;
            (reached.is_ok() == wanted).then_some(reached)
        })
        .await;
        if of_label.contains(&place.name) {
            let text = refused.unwrap_err().to_string();
            let remedy = format!(
                "the label {LABEL}: allowed on pod {TECHNICAL_ID}/{} would allow it",
                scheduler.name
            );
            assert!(text.contains(&remedy), "{text}");
        }
    }
    // Those of its neighbour stay.
    let manager = named("kube-controller-manager");
    let api_server = seen
        .places()
        .into_iter()
        .find(|place| of_label.contains(&place.name))
        .unwrap();
    reaches(&world, &network, &manager, &api_server).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn deleted_policies_of_both_controllers_come_back() {
    let world = World::with_example_shoot().await;
    settled(&world).await;
    let policies: Api<NetworkPolicy> = Api::namespaced(world.seed.clone(), TECHNICAL_ID);
    for name in ["deny-all", "egress-to-etcd-main-client-tcp-2379"] {
        let uid = policies.get(name).await.unwrap().uid();
        policies
            .delete(name, &kube::api::DeleteParams::default())
            .await
            .unwrap();
        wait(&policies, name, |policy| (policy?.uid() != uid).then_some(())).await;
    }
}

/// Until the policies that everything hangs on are there.
async fn settled(world: &World) {
    let policies: Api<NetworkPolicy> = Api::namespaced(world.seed.clone(), TECHNICAL_ID);
    for name in [
        "deny-all",
        "allow-to-dns",
        "ingress-to-kube-apiserver-tcp-443",
        "ingress-to-etcd-events-client-tcp-2379",
        "ingress-to-etcd-main-client-tcp-2379",
    ] {
        wait(&policies, name, |policy| policy.map(drop)).await;
    }
    // Pods that joined last and their policies.
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
}

async fn reaches(world: &World, network: &Network, pod: &PodFacts, place: &Place) -> Result<(), Refused> {
    let to = (place.address, place.port);
    network
        .check(&world.seed, pod.address.unwrap(), to, place.protocol)
        .await
}

/// Probes until there is an answer: changes take their way through watches.
async fn until<T, F: Future<Output = Option<T>>>(mut probe: impl FnMut() -> F) -> T {
    loop {
        if let Some(answer) = probe().await {
            return answer;
        }
        tokio::task::yield_now().await;
    }
}
