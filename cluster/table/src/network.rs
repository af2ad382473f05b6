//! Services, endpoints, endpoint slices, ingresses, network policies.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::Builtin;
use crate::cell::{NONE, UNSET, age, first_three, has, join, list, name, number, pairs, selector, text, text_or};

pub(crate) fn core_printer(resource: &str) -> Option<Builtin> {
    match resource {
        "services" => Some(Builtin {
            columns: SERVICE,
            cells: service,
        }),
        "endpoints" => Some(Builtin {
            columns: ENDPOINTS,
            cells: endpoints,
        }),
        _ => None,
    }
}

pub(crate) fn printer(group: &str, resource: &str) -> Option<Builtin> {
    match (group, resource) {
        ("discovery.k8s.io", "endpointslices") => Some(Builtin {
            columns: SLICE,
            cells: slice,
        }),
        ("networking.k8s.io", "ingresses") => Some(Builtin {
            columns: INGRESS,
            cells: ingress,
        }),
        ("networking.k8s.io", "networkpolicies") => Some(Builtin {
            columns: POLICY,
            cells: policy,
        }),
        _ => None,
    }
}

type Columns = &'static [(&'static str, &'static str, i32)];

const SERVICE: Columns = &[
    ("Name", "string", 0),
    ("Type", "string", 0),
    ("Cluster-IP", "string", 0),
    ("External-IP", "string", 0),
    ("Port(s)", "string", 0),
    ("Age", "string", 0),
    ("Selector", "string", 1),
];

fn service(object: &Value, now: Timestamp) -> Vec<Value> {
    let ip = list(object, "/spec/clusterIPs")
        .first()
        .and_then(Value::as_str)
        .unwrap_or_else(|| text(object, "/spec/clusterIP"));
    let ports = list(object, "/spec/ports").iter().map(|port| {
        let node = match number(port, "/nodePort") {
            0 => String::new(),
            node => format!(":{node}"),
        };
        format!("{}{node}/{}", number(port, "/port"), text_or(port, "/protocol", "TCP"))
    });
    vec![
        name(object),
        json!(text_or(object, "/spec/type", "ClusterIP")),
        json!(if ip.is_empty() { NONE } else { ip }),
        json!(external_ip(object)),
        json!(join(ports, ",", NONE)),
        age(object, now),
        json!(pairs(object, "/spec/selector")),
    ]
}

fn external_ip(service: &Value) -> String {
    let external = list(service, "/spec/externalIPs").iter().filter_map(Value::as_str);
    match text(service, "/spec/type") {
        "ExternalName" => text(service, "/spec/externalName").to_owned(),
        "LoadBalancer" => {
            let ingress = list(service, "/status/loadBalancer/ingress")
                .iter()
                .map(|ingress| text_or(ingress, "/ip", text(ingress, "/hostname")));
            join(ingress.chain(external), ",", "<pending>")
        }
        _ => join(external, ",", NONE),
    }
}

const ENDPOINTS: Columns = &[("Name", "string", 0), ("Endpoints", "string", 0), ("Age", "string", 0)];

fn endpoints(object: &Value, now: Timestamp) -> Vec<Value> {
    let mut all = Vec::new();
    for subset in list(object, "/subsets") {
        let ports = list(subset, "/ports");
        if ports.is_empty() {
            all.extend(
                list(subset, "/addresses")
                    .iter()
                    .map(|address| text(address, "/ip").to_owned()),
            );
        }
        for port in ports {
            all.extend(
                list(subset, "/addresses")
                    .iter()
                    .map(|address| host_port(text(address, "/ip"), number(port, "/port"))),
            );
        }
    }
    vec![name(object), json!(first_three(&all, NONE)), age(object, now)]
}

fn host_port(ip: &str, port: i64) -> String {
    if ip.contains(':') {
        format!("[{ip}]:{port}")
    } else {
        format!("{ip}:{port}")
    }
}

const SLICE: Columns = &[
    ("Name", "string", 0),
    ("AddressType", "string", 0),
    ("Ports", "string", 0),
    ("Endpoints", "string", 0),
    ("Age", "string", 0),
];

fn slice(object: &Value, now: Timestamp) -> Vec<Value> {
    let port = |port: &Value| {
        if has(port, "/port") {
            number(port, "/port").to_string()
        } else if has(port, "/name") {
            text(port, "/name").to_owned()
        } else {
            "*".to_owned()
        }
    };
    let ports: Vec<String> = list(object, "/ports").iter().map(port).collect();
    let addresses = list(object, "/endpoints")
        .iter()
        .flat_map(|endpoint| list(endpoint, "/addresses"));
    let addresses: Vec<String> = addresses
        .filter_map(|address| address.as_str().map(str::to_owned))
        .collect();
    vec![
        name(object),
        json!(text(object, "/addressType")),
        json!(first_three(&ports, UNSET)),
        json!(first_three(&addresses, UNSET)),
        age(object, now),
    ]
}

const INGRESS: Columns = &[
    ("Name", "string", 0),
    ("Class", "string", 0),
    ("Hosts", "string", 0),
    ("Address", "string", 0),
    ("Ports", "string", 0),
    ("Age", "string", 0),
];

fn ingress(object: &Value, now: Timestamp) -> Vec<Value> {
    let hosts: Vec<String> = list(object, "/spec/rules")
        .iter()
        .map(|rule| text(rule, "/host").to_owned())
        .filter(|host| !host.is_empty())
        .collect();
    let addresses = list(object, "/status/loadBalancer/ingress")
        .iter()
        .map(|ingress| text_or(ingress, "/ip", text(ingress, "/hostname")));
    let ports = if list(object, "/spec/tls").is_empty() {
        "80"
    } else {
        "80, 443"
    };
    vec![
        name(object),
        json!(text_or(object, "/spec/ingressClassName", NONE)),
        json!(first_three(&hosts, "*")),
        json!(join(addresses, ",", "")),
        json!(ports),
        age(object, now),
    ]
}

const POLICY: Columns = &[
    ("Name", "string", 0),
    ("Pod-Selector", "string", 0),
    ("Age", "string", 0),
];

fn policy(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        name(object),
        json!(selector(object, "/spec/podSelector")),
        age(object, now),
    ]
}
