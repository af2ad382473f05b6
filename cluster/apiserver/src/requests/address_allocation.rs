//! Allocates cluster IPs and node ports to Services that are written. Addresses are never stored in a list of their own: those in
//! use are read from the Services in the store (`storage/service_addresses`), with those reserved for writes in progress.

use std::collections::BTreeSet;
use std::net::IpAddr;

use cluster_fields::FieldError;
use ipnet::IpNet;
use serde_json::{Map, Value, json};

use crate::kinds::registry::Role;
use crate::state::context::Context;
use crate::storage::service_addresses::{
    InUse, Reservation, Taken, health_check_node_port, needs_health_check, node_port,
};
use crate::wire::status::Status;

/// Kubernetes' range of node ports.
const NODE_PORTS: std::ops::RangeInclusive<u64> = 30_000..=32_767;
/// The field with the port at which nodes answer whether they have endpoints of a Service, for its load balancer.
const HEALTH_CHECK: &str = "healthCheckNodePort";
/// Fields that decide which addresses and ports a Service gets.
const REQUESTS: [&str; 6] = [
    "type",
    "clusterIP",
    "ports",
    "allocateLoadBalancerNodePorts",
    "externalTrafficPolicy",
    HEALTH_CHECK,
];
const ALREADY_ALLOCATED: &str = "provided port is already allocated";
const OUT_OF_RANGE: &str = "the provided network does not match the current range";
/// Addresses that are tried: more Services than any landscape in a process has.
const ADDRESSES_TRIED_MAX: usize = 65_536;

/// Gives a Service the addresses it lacks. The reservation must live until the Service is stored.
pub(crate) async fn prepare(
    context: &Context,
    service: &mut Value,
    old: Option<&Value>,
) -> Result<Option<Reservation>, Status> {
    if context.served.role != Role::Service || context.subresource().is_some() {
        return Ok(None);
    }
    let addresses = &context.server.addresses;
    let mut stored = addresses.stored.lock().await;
    keep_old(service, old);
    drop_with_type(service, old);
    let in_use = match requests_more(service, old) {
        true => InUse::read(addresses, &context.server.store, &mut stored).await?,
        false => InUse::default(),
    };
    cluster_ip(context, service, old, &in_use)?;
    node_ports(service, old, &in_use)?;
    health_check(service, old, &in_use)?;
    Ok(Some(addresses.reserve(service)))
}

/// What an update leaves out stays (kubernetes/kubernetes v1.35 pkg/registry/core/service/strategy.go,
/// patchAllocatedValues).
fn keep_old(service: &mut Value, old: Option<&Value>) {
    let Some(old_spec) = old.and_then(|old| old.get("spec")) else {
        return;
    };
    let Some(spec) = service.get_mut("spec").and_then(Value::as_object_mut) else {
        return;
    };
    if needs_cluster_ip(spec.get("type")) && needs_cluster_ip(old_spec.get("type")) {
        for field in ["clusterIP", "clusterIPs", "ipFamilyPolicy"] {
            if let (true, Some(value)) = (spec.get(field).is_none_or(is_blank), old_spec.get(field)) {
                spec.insert(field.to_owned(), value.clone());
            }
        }
    }
    if needs_health_check(spec) && spec.get(HEALTH_CHECK).is_none_or(|given| given == &json!(0)) {
        let old_port = old_spec.as_object().filter(|old_spec| needs_health_check(old_spec));
        if let Some(port) = old_port.and_then(|old_spec| old_spec.get(HEALTH_CHECK)) {
            spec.insert(HEALTH_CHECK.to_owned(), port.clone());
        }
    }
    if !needs_node_port(spec.get("type")) {
        return;
    }
    let old_ports = old_spec
        .get("ports")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    for port in spec
        .get_mut("ports")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        let same =
            |other: &&Value| other.get("port") == port.get("port") && other.get("protocol") == port.get("protocol");
        let node_port = old_ports
            .iter()
            .find(same)
            .and_then(|other| other.get("nodePort"))
            .cloned();
        let lacks = port.get("nodePort").is_none_or(|given| given == &json!(0));
        if let (true, Some(port), Some(node_port)) = (lacks, port.as_object_mut(), node_port) {
            port.insert("nodePort".to_owned(), node_port);
        }
    }
}

/// Removes unchanged fields that do not apply to the type (kubernetes/kubernetes v1.35 pkg/registry/core/service/strategy.go,
/// dropTypeDependentFields). Addresses and node ports are handled where they are allocated.
fn drop_with_type(service: &mut Value, old: Option<&Value>) {
    let Some(old_spec) = old.and_then(|old| old.get("spec")) else {
        return;
    };
    let Some(spec) = service.get_mut("spec").and_then(Value::as_object_mut) else {
        return;
    };
    let balanced = spec.get("type") == Some(&json!("LoadBalancer"));
    let checked = needs_health_check(spec);
    let open = needs_node_port(spec.get("type"))
        || spec.get("type") == Some(&json!("ClusterIP")) && spec.get("externalIPs").is_some_and(|ips| !is_blank(ips));
    for (field, applies) in [
        ("externalTrafficPolicy", open),
        ("allocateLoadBalancerNodePorts", balanced),
        ("loadBalancerClass", balanced),
        (HEALTH_CHECK, checked),
    ] {
        if !applies && spec.get(field) == old_spec.get(field) {
            spec.remove(field);
        }
    }
}

/// Whether it means no more than a missing field: `""`, `[]`, `[""]`, null.
fn is_blank(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.iter().all(is_blank),
        _ => false,
    }
}

/// Whether a Service may get an address or a port that it did not have.
fn requests_more(service: &Value, old: Option<&Value>) -> bool {
    let Some(old) = old else { return true };
    let of = |service: &Value| REQUESTS.map(|field| service.get("spec")?.get(field).cloned());
    let type_ = service.pointer("/spec/type");
    let ports = service.pointer("/spec/ports").and_then(Value::as_array);
    let lacks_address = needs_cluster_ip(type_) && service.pointer("/spec/clusterIP").is_none_or(is_blank);
    let lacks_port = needs_node_port(type_) && ports.into_iter().flatten().any(|port| node_port(port) == 0);
    let spec = service.get("spec").and_then(Value::as_object);
    let lacks_check = spec.is_some_and(needs_health_check) && health_check_node_port(service) == 0;
    lacks_address || lacks_port || lacks_check || of(service) != of(old)
}

fn needs_cluster_ip(type_: Option<&Value>) -> bool {
    type_.and_then(Value::as_str) != Some("ExternalName")
}

fn needs_node_port(type_: Option<&Value>) -> bool {
    matches!(type_.and_then(Value::as_str), Some("NodePort" | "LoadBalancer"))
}

fn cluster_ip(context: &Context, service: &mut Value, old: Option<&Value>, in_use: &InUse<'_>) -> Result<(), Status> {
    let before = old
        .and_then(|old| old.pointer("/spec/clusterIP"))
        .and_then(Value::as_str)
        .map(str::to_owned);
    let name = crate::kinds::metadata::text(service, "name").to_owned();
    let Some(spec) = service.get_mut("spec").and_then(Value::as_object_mut) else {
        return Ok(());
    };
    if !needs_cluster_ip(spec.get("type")) {
        for field in [
            "clusterIP",
            "clusterIPs",
            "ipFamilies",
            "ipFamilyPolicy",
            "internalTrafficPolicy",
        ] {
            spec.remove(field);
        }
        return Ok(());
    }
    let given = spec
        .get("clusterIP")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    let range = context.server.addresses.range;
    if given == "None" {
        spec.insert("clusterIPs".to_owned(), json!(["None"]));
    } else if given.is_empty() || Some(&given) != before.as_ref() {
        let Some(address) = address(&given, &name, range, in_use)? else {
            return Ok(());
        };
        spec.insert("clusterIP".to_owned(), json!(address.to_string()));
        spec.insert("clusterIPs".to_owned(), json!([address.to_string()]));
    }
    let clash = families(spec, range);
    match clash.is_empty() {
        true => Ok(()),
        false => Err(Status::invalid("", "Service", &name, &clash)),
    }
}

/// The requested address, or a free one if none is requested; none without a range.
fn address(given: &str, name: &str, range: Option<IpNet>, in_use: &InUse<'_>) -> Result<Option<IpAddr>, Status> {
    let refuse = |why: String| {
        let error = FieldError::invalid("spec.clusterIPs", json!([given]), why);
        Err(Status::invalid("", "Service", name, &[error]))
    };
    if given.is_empty() {
        let Some(range) = range else { return Ok(None) };
        let mut free = range.hosts().skip(1).take(ADDRESSES_TRIED_MAX);
        return match free.find(|address| !in_use.has_address(address)) {
            None => Err(Status::internal("failed to allocate a serviceIP: range is full")),
            found => Ok(found),
        };
    }
    let Ok(address) = given.parse::<IpAddr>() else {
        let why = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
        let error = FieldError::invalid("spec.clusterIPs[0]", given, why);
        return Err(Status::invalid("", "Service", name, &[error]));
    };
    if in_use.has_address(&address) {
        return refuse(format!(
            "failed to allocate IP {address}: provided IP is already allocated"
        ));
    }
    if range.is_some_and(|range| !range.contains(&address)) {
        return refuse(format!("failed to allocate IP {address}: {OUT_OF_RANGE}"));
    }
    Ok(Some(address))
}

/// Sets the families: that of the range; a headless Service without a selector may have both. Returns what is not possible
/// (kubernetes/kubernetes v1.35 pkg/registry/core/service/storage/alloc.go, initIPFamilyFields).
fn families(spec: &mut Map<String, Value>, range: Option<IpNet>) -> Vec<FieldError> {
    let mut all = ["IPv4", "IPv6"];
    if matches!(range, Some(IpNet::V6(_))) {
        all.reverse();
    }
    let selects = spec
        .get("selector")
        .and_then(Value::as_object)
        .is_some_and(|of| !of.is_empty());
    let free = !selects && spec.get("clusterIP") == Some(&json!("None"));
    let policy = if free { "RequireDualStack" } else { "SingleStack" };
    let policy = spec.entry("ipFamilyPolicy").or_insert_with(|| json!(policy));
    let both = free && policy != "SingleStack";
    let mut clash = Vec::new();
    if !free && policy == "RequireDualStack" {
        let why = "this cluster is not configured for dual-stack services";
        clash.push(FieldError::invalid("spec.ipFamilyPolicy", "RequireDualStack", why));
    }
    let families = spec.entry("ipFamilies").or_insert_with(|| json!([]));
    let Some(families) = families.as_array_mut() else {
        return clash;
    };
    for (index, family) in families
        .iter()
        .enumerate()
        .filter(|(_, family)| !free && *family != all[0])
    {
        let why = "not configured on this cluster";
        clash.push(FieldError::invalid(
            format!("spec.ipFamilies[{index}]"),
            family.clone(),
            why,
        ));
    }
    for family in all.into_iter().take(if both { 2 } else { 1 }) {
        if families.is_empty() || both && !families.iter().any(|given| given == family) {
            families.push(json!(family));
        }
    }
    clash
}

fn node_ports(service: &mut Value, old: Option<&Value>, in_use: &InUse<'_>) -> Result<(), Status> {
    let wanted = needs_node_port(service.pointer("/spec/type"));
    let off = service.pointer("/spec/allocateLoadBalancerNodePorts") == Some(&json!(false));
    let mut given = if wanted {
        given_node_ports(service, old, in_use)?
    } else {
        BTreeSet::new()
    };
    given.insert(health_check_node_port(service));
    for port in service
        .pointer_mut("/spec/ports")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        let lacks = node_port(port) == 0;
        let Some(port) = port.as_object_mut() else { continue };
        if !wanted {
            port.remove("nodePort");
        } else if !off && lacks {
            let free = free_port(in_use, &given);
            let free = free.ok_or_else(|| Status::internal("failed to allocate a nodePort: range is full"))?;
            given.insert(free);
            port.insert("nodePort".to_owned(), json!(free));
        }
    }
    Ok(())
}

/// Allocates the port of the health checks, or checks the requested one. That which the Service had before stays.
/// (kubernetes/kubernetes v1.35 pkg/registry/core/service/storage/alloc.go, allocHealthCheckNodePort.)
fn health_check(service: &mut Value, old: Option<&Value>, in_use: &InUse<'_>) -> Result<(), Status> {
    let number = health_check_node_port(service);
    let Some(spec) = service.get_mut("spec").and_then(Value::as_object_mut) else {
        return Ok(());
    };
    if !needs_health_check(spec) || number != 0 && old.is_some_and(|old| health_check_node_port(old) == number) {
        return Ok(());
    }
    spec.remove(HEALTH_CHECK);
    let own = Taken::of(service).ports;
    let refuse = |why: &str| {
        Err(Status::internal(format!(
            "failed to allocate requested HealthCheck NodePort {number}: {why}"
        )))
    };
    let port = match number {
        0 => free_port(in_use, &own)
            .ok_or_else(|| Status::internal("failed to allocate a HealthCheck NodePort 0: range is full"))?,
        _ if !NODE_PORTS.contains(&number) => return refuse(&not_in_range()),
        _ if in_use.has_port(&number) || own.contains(&number) => return refuse(ALREADY_ALLOCATED),
        _ => number,
    };
    service["spec"][HEALTH_CHECK] = json!(port);
    Ok(())
}

/// The first port that no Service has, this one included.
fn free_port(in_use: &InUse<'_>, own: &BTreeSet<u64>) -> Option<u64> {
    NODE_PORTS
        .clone()
        .find(|port| !in_use.has_port(port) && !own.contains(port))
}

fn not_in_range() -> String {
    let (first, last) = (NODE_PORTS.start(), NODE_PORTS.end());
    format!("provided port is not in the valid range. The range of valid ports is {first}-{last}")
}

/// The node ports that the Service requests: in the range, not those of another Service, and none twice.
/// Those that it had before stay (kubernetes/kubernetes v1.35 pkg/registry/core/service/portallocator).
fn given_node_ports(service: &Value, old: Option<&Value>, in_use: &InUse<'_>) -> Result<BTreeSet<u64>, Status> {
    let ports_of = |service: &Value| {
        let ports = service.pointer("/spec/ports").and_then(Value::as_array);
        ports.cloned().unwrap_or_default()
    };
    let before: BTreeSet<u64> = old.map(ports_of).unwrap_or_default().iter().map(node_port).collect();
    let (mut given, mut seen, mut errors) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
    for (index, port) in ports_of(service).iter().enumerate() {
        let number = node_port(port);
        if number == 0 {
            continue;
        }
        let field = format!("spec.ports[{index}].nodePort");
        let protocol = port.get("protocol").and_then(Value::as_str).unwrap_or("TCP");
        if !seen.insert((number, protocol.to_owned())) {
            errors.push(FieldError::duplicate(field, number));
        } else if before.contains(&number) {
            given.insert(number);
        } else if !NODE_PORTS.contains(&number) {
            errors.push(FieldError::invalid(field, number, not_in_range()));
        } else if in_use.has_port(&number) {
            errors.push(FieldError::invalid(field, number, ALREADY_ALLOCATED));
        } else {
            given.insert(number);
        }
    }
    if errors.is_empty() {
        return Ok(given);
    }
    let name = crate::kinds::metadata::text(service, "name");
    Err(Status::invalid("", "Service", name, &errors))
}
