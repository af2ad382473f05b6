//! Which addresses and ports the pods of a Service have. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{
    EndpointAddress, EndpointPort as LegacyPort, EndpointSubset, Endpoints, ObjectReference, Pod, Service, ServicePort,
};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt;

use crate::pods::{controller_of, is_finished, is_ready, owner_reference};

/// The label with the Service's name.
pub(super) const SERVICE: &str = "kubernetes.io/service-name";
/// The label with the writer's name.
pub(super) const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// Our name there: upstream's, because it is the same job.
pub(super) const MANAGER: &str = "endpointslice-controller.k8s.io";
/// Addresses per slice, as upstream's default.
const ADDRESSES_MAX: usize = 100;

type Ports = Vec<(Option<String>, i32, String)>;

/// Name, number and protocol of each of the Service's ports as this pod serves them; a named port that the pod does
/// not have is left out.
fn ports_of(service: &Service, pod: &Pod) -> Ports {
    let ports = service
        .spec
        .as_ref()
        .and_then(|spec| spec.ports.clone())
        .unwrap_or_default();
    let resolved = ports.iter().filter_map(|port| {
        let number = target(port, pod)?;
        Some((port.name.clone(), number, protocol(port.protocol.as_deref()).to_owned()))
    });
    resolved.collect()
}

fn protocol(protocol: Option<&str>) -> &str {
    protocol.unwrap_or("TCP")
}

fn target(port: &ServicePort, pod: &Pod) -> Option<i32> {
    match port.target_port.as_ref() {
        None | Some(IntOrString::Int(0)) => Some(port.port),
        Some(IntOrString::Int(number)) => Some(*number),
        Some(IntOrString::String(name)) => {
            let containers = &pod.spec.as_ref()?.containers;
            let named = containers
                .iter()
                .flat_map(|container| container.ports.iter().flatten())
                .find(|candidate| {
                    candidate.name.as_ref() == Some(name)
                        && protocol(candidate.protocol.as_deref()) == protocol(port.protocol.as_deref())
                });
            named.map(|port| port.container_port)
        }
    }
}

fn reference(pod: &Pod) -> ObjectReference {
    ObjectReference {
        kind: Some("Pod".to_owned()),
        name: pod.metadata.name.clone(),
        namespace: pod.metadata.namespace.clone(),
        uid: pod.metadata.uid.clone(),
        ..ObjectReference::default()
    }
}

/// Pods that have an address, with it, by ports; ordered by name.
fn by_ports<'p>(service: &Service, pods: &'p [Arc<Pod>]) -> BTreeMap<Ports, Vec<(String, &'p Pod)>> {
    let mut groups: BTreeMap<Ports, Vec<(String, &Pod)>> = BTreeMap::new();
    for pod in pods.iter().filter(|pod| !is_finished(pod)) {
        let address = pod
            .status
            .as_ref()
            .and_then(|status| status.pod_ip.clone())
            .filter(|ip| !ip.is_empty());
        if let Some(address) = address {
            groups.entry(ports_of(service, pod)).or_default().push((address, pod));
        }
    }
    groups
}

fn publishes_unready(service: &Service) -> bool {
    service.spec.as_ref().and_then(|spec| spec.publish_not_ready_addresses) == Some(true)
}

/// Whether a slice is one that this controller writes for the Service. The owner alone does not decide: users may give
/// their slices any. Upstream selects by the labels, too.
pub(super) fn is_ours(service: &Service, slice: &EndpointSlice) -> bool {
    let owner = controller_of(&slice.metadata);
    let is_owned = owner.is_some_and(|owner| Some(&owner.uid) == service.metadata.uid.as_ref());
    let is_labelled = slice.labels().get(SERVICE) == Some(&service.name_any());
    let manager = slice.labels().get(MANAGED_BY);
    manager.is_some_and(|manager| manager == MANAGER) && (is_owned || is_labelled)
}

/// The slices that there should be: at least one, so that readers can distinguish an empty Service from an unknown one.
/// `there`: all slices of the Service's namespace.
pub(super) fn slices_of(service: &Service, pods: &[Arc<Pod>], there: &[Arc<EndpointSlice>]) -> Vec<EndpointSlice> {
    let mut slices = Vec::new();
    for (ports, members) in by_ports(service, pods) {
        for family in ["IPv4", "IPv6"] {
            let is_family = |address: &str| address.contains(':') == (family == "IPv6");
            let members: Vec<_> = members.iter().filter(|(address, _)| is_family(address)).collect();
            for chunk in members.chunks(ADDRESSES_MAX) {
                let endpoints = chunk
                    .iter()
                    .map(|(address, pod)| endpoint(service, address, pod))
                    .collect();
                slices.push(slice(service, family, endpoints, &ports));
            }
        }
    }
    if slices.is_empty() {
        slices.push(slice(service, "IPv4", Vec::new(), &Vec::new()));
    }
    name(service, &mut slices, there);
    slices
}

/// Gives each slice the name of one of ours with its address type, which cannot change, or the first number that is free.
fn name(service: &Service, slices: &mut [EndpointSlice], there: &[Arc<EndpointSlice>]) {
    let taken: BTreeSet<String> = there.iter().map(|slice| slice.name_any()).collect();
    let mut free = (0_u32..)
        .map(|number| format!("{}-{number}", service.name_any()))
        .filter(|name| !taken.contains(name));
    let mut ours: Vec<_> = there.iter().filter(|slice| is_ours(service, slice)).collect();
    ours.sort_by_key(|slice| (slice.name_any().len(), slice.name_any()));
    for slice in slices {
        let mut same_type = ours.extract_if(.., |found| found.address_type == slice.address_type);
        slice.metadata.name = same_type.next().map(|found| found.name_any()).or_else(|| free.next());
    }
}

fn endpoint(service: &Service, address: &str, pod: &Pod) -> Endpoint {
    let is_leaving = pod.metadata.deletion_timestamp.is_some();
    let serving = is_ready(pod) || publishes_unready(service);
    let hostname = pod.spec.as_ref().and_then(|spec| {
        spec.hostname
            .clone()
            .filter(|_| spec.subdomain == service.metadata.name)
    });
    Endpoint {
        addresses: vec![address.to_owned()],
        conditions: Some(EndpointConditions {
            ready: Some((serving && !is_leaving) || publishes_unready(service)),
            serving: Some(serving),
            terminating: Some(is_leaving),
        }),
        hostname,
        node_name: pod.spec.as_ref().and_then(|spec| spec.node_name.clone()),
        target_ref: Some(reference(pod)),
        ..Endpoint::default()
    }
}

fn slice(service: &Service, family: &str, endpoints: Vec<Endpoint>, ports: &Ports) -> EndpointSlice {
    let mut labels = service.metadata.labels.clone().unwrap_or_default();
    labels.insert(SERVICE.to_owned(), service.name_any());
    labels.insert(MANAGED_BY.to_owned(), MANAGER.to_owned());
    let ports = ports.iter().map(|(name, port, protocol)| EndpointPort {
        name: Some(name.clone().unwrap_or_default()),
        port: Some(*port),
        protocol: Some(protocol.clone()),
        app_protocol: None,
    });
    EndpointSlice {
        metadata: ObjectMeta {
            namespace: service.namespace(),
            labels: Some(labels),
            owner_references: Some(vec![owner_reference(service)]),
            ..ObjectMeta::default()
        },
        address_type: family.to_owned(),
        endpoints,
        ports: Some(ports.collect()),
    }
}

/// The older kind with the same content, for readers that know no slices.
pub(super) fn endpoints_of(service: &Service, pods: &[Arc<Pod>]) -> Endpoints {
    let subsets: Vec<EndpointSubset> = by_ports(service, pods)
        .into_iter()
        .map(|(ports, members)| {
            let staying = members
                .into_iter()
                .filter(|(_, pod)| pod.metadata.deletion_timestamp.is_none());
            let (ready, not_ready): (Vec<_>, Vec<_>) =
                staying.partition(|(_, pod)| is_ready(pod) || publishes_unready(service));
            let addresses = |members: Vec<(String, &Pod)>| {
                let address = |(ip, pod): (String, &Pod)| EndpointAddress {
                    ip,
                    hostname: None,
                    node_name: pod.spec.as_ref().and_then(|spec| spec.node_name.clone()),
                    target_ref: Some(reference(pod)),
                };
                Some(members.into_iter().map(address).collect::<Vec<_>>()).filter(|list| !list.is_empty())
            };
            let ports = ports.into_iter().map(|(name, port, protocol)| LegacyPort {
                name,
                port,
                protocol: Some(protocol),
                app_protocol: None,
            });
            EndpointSubset {
                addresses: addresses(ready),
                not_ready_addresses: addresses(not_ready),
                ports: Some(ports.collect()),
            }
        })
        .filter(|subset| subset.addresses.is_some() || subset.not_ready_addresses.is_some())
        .collect();
    Endpoints {
        metadata: ObjectMeta {
            name: service.metadata.name.clone(),
            namespace: service.namespace(),
            labels: service.metadata.labels.clone(),
            owner_references: Some(vec![owner_reference(service)]),
            ..ObjectMeta::default()
        },
        subsets: Some(subsets).filter(|subsets| !subsets.is_empty()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn service(extra: Value) -> Service {
        let mut spec = json!({"selector": {"a": "b"}, "ports": [{"name": "web", "port": 80, "targetPort": "http"}, {"name": "raw", "port": 9}]});
        spec.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        serde_json::from_value(json!({"metadata": {"name": "svc", "namespace": "n", "uid": "u"}, "spec": spec}))
            .unwrap()
    }

    fn pod(name: &str, ip: Option<&str>, port: i32, ready: &str) -> Arc<Pod> {
        let pod = json!({
            "metadata": {"name": name, "namespace": "n", "labels": {"a": "b"}},
            "spec": {"nodeName": "node", "containers": [{"name": "c", "ports": [{"name": "http", "containerPort": port}]}]},
            "status": {"podIP": ip, "phase": "Running", "conditions": [{"type": "Ready", "status": ready}]},
        });
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    fn ready(slice: &EndpointSlice) -> Vec<(String, bool)> {
        let of = |endpoint: &Endpoint| {
            (
                endpoint.addresses[0].clone(),
                endpoint.conditions.as_ref().and_then(|c| c.ready).unwrap(),
            )
        };
        slice.endpoints.iter().map(of).collect()
    }

    #[test]
    fn pods_are_grouped_by_what_their_named_ports_mean() {
        let pods = [
            pod("a", Some("10.0.0.1"), 8080, "True"),
            pod("b", Some("10.0.0.2"), 8080, "False"),
            pod("c", Some("10.0.0.3"), 9090, "True"),
            pod("d", None, 8080, "True"),
            pod("e", Some("fd00::1"), 8080, "True"),
        ];
        let slices = slices_of(&service(json!({})), &pods, &[]);
        let shown: Vec<_> = slices
            .iter()
            .map(|slice| {
                (
                    slice.address_type.as_str(),
                    slice.ports.as_ref().unwrap()[1].port.unwrap(),
                    ready(slice),
                )
            })
            .map(|(family, raw, ready)| format!("{family} {raw} {ready:?}"))
            .collect();
        assert_eq!(
            shown,
            [
                r#"IPv4 9 [("10.0.0.1", true), ("10.0.0.2", false)]"#,
                r#"IPv6 9 [("fd00::1", true)]"#,
                r#"IPv4 9 [("10.0.0.3", true)]"#,
            ]
        );
        assert_eq!(slices[2].ports.as_ref().unwrap()[0].port, Some(9090));
        let endpoints = endpoints_of(&service(json!({})), &pods).subsets.unwrap();
        assert_eq!(endpoints[0].not_ready_addresses.as_ref().unwrap()[0].ip, "10.0.0.2");
        assert_eq!(endpoints.len(), 2);
    }

    #[test]
    fn leaving_pods_stop_being_ready_unless_the_service_publishes_all() {
        let mut leaving = (*pod("a", Some("10.0.0.1"), 80, "True")).clone();
        leaving.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
        let pods = [Arc::new(leaving)];
        assert_eq!(
            ready(&slices_of(&service(json!({})), &pods, &[])[0]),
            [("10.0.0.1".to_owned(), false)]
        );
        assert!(endpoints_of(&service(json!({})), &pods).subsets.is_none());
        let all = service(json!({"publishNotReadyAddresses": true}));
        assert_eq!(ready(&slices_of(&all, &pods, &[])[0]), [("10.0.0.1".to_owned(), true)]);
    }

    #[test]
    fn service_without_pods_has_one_empty_slice() {
        let slices = slices_of(&service(json!({})), &[], &[]);
        assert_eq!(
            (slices.len(), slices[0].endpoints.len(), slices[0].name_any()),
            (1, 0, "svc-0".to_owned())
        );
    }

    #[test]
    fn slices_keep_their_names_unless_their_address_type_or_manager_is_another() {
        let there = |name: &str, family: &str, metadata: Value| {
            let mut slice =
                json!({"addressType": family, "endpoints": [], "metadata": {"name": name, "namespace": "n"}});
            slice["metadata"]
                .as_object_mut()
                .unwrap()
                .extend(metadata.as_object().unwrap().clone());
            Arc::new(serde_json::from_value::<EndpointSlice>(slice).unwrap())
        };
        let labels = |manager: &str| json!({"labels": {SERVICE: "svc", MANAGED_BY: manager}});
        let ours = |name: &str, family: &str| there(name, family, labels(MANAGER));
        let reference = json!({"apiVersion": "v1", "kind": "Service", "name": "svc", "uid": "u", "controller": true});
        let unlabelled = there("svc-0", "IPv4", json!({"ownerReferences": [&reference]}));
        let of_no_service = there(
            "svc-0",
            "IPv4",
            json!({"ownerReferences": [&reference], "labels": {MANAGED_BY: MANAGER}}),
        );
        let by_hand = there("svc-0", "IPv4", json!({"labels": {SERVICE: "svc"}}));
        let names = |pods: &[&str], there: &[Arc<EndpointSlice>]| {
            let pods: Vec<_> = pods.iter().map(|ip| pod(ip, Some(ip), 80, "True")).collect();
            let slices = slices_of(&service(json!({})), &pods, there);
            let shown = |slice: &EndpointSlice| format!("{} {}", slice.name_any(), slice.address_type);
            slices.iter().map(shown).collect::<Vec<_>>()
        };
        let (v4, v6) = ("10.0.0.1", "fd00::1");
        for (pods, there, expected) in [
            (vec![v4, v6], vec![], vec!["svc-0 IPv4", "svc-1 IPv6"]),
            (vec![v6], vec![ours("svc-0", "IPv4")], vec!["svc-1 IPv6"]),
            (vec![v6], vec![ours("svc-1", "IPv6")], vec!["svc-1 IPv6"]),
            (
                vec![v6],
                vec![ours("svc-0", "IPv4"), ours("svc-1", "IPv6")],
                vec!["svc-1 IPv6"],
            ),
            (
                vec![v4, v6],
                vec![ours("svc-1", "IPv6")],
                vec!["svc-0 IPv4", "svc-1 IPv6"],
            ),
            (
                vec![v4],
                vec![ours("svc-10", "IPv4"), ours("svc-2", "IPv4")],
                vec!["svc-2 IPv4"],
            ),
            (vec![v4], vec![unlabelled], vec!["svc-1 IPv4"]),
            (vec![v4], vec![of_no_service], vec!["svc-0 IPv4"]),
            (vec![v4], vec![by_hand], vec!["svc-1 IPv4"]),
            (
                vec![v4],
                vec![there("svc-0", "IPv4", labels("example.com"))],
                vec!["svc-1 IPv4"],
            ),
            (vec![v4], vec![there("svc-0", "IPv4", json!({}))], vec!["svc-1 IPv4"]),
        ] {
            assert_eq!(names(&pods, &there), expected, "{there:?}");
        }
    }
}
