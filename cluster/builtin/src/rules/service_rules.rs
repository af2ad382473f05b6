//! Rules of Services (Kubernetes v1.35 `pkg/apis/core/validation/validation.go`).
//! Addresses and node ports are allocated by the API server, not here.

use std::collections::HashSet;

use cluster_fields::{FieldError, FieldPath, names};
use serde_json::{Value, json};

use crate::defaults::service_defaults::is_externally_accessible;
use crate::json::fields::{elements, text};
use crate::rules::checks::port_number;

const TYPES: [&str; 4] = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];

/// Warnings for a Service that is accepted (`pkg/api/service/warnings.go`).
pub(crate) fn warnings(object: &Value) -> Vec<String> {
    let spec = &object["spec"];
    let mut warnings = Vec::new();
    let mut warn = |is: bool, why: &str| warnings.extend(is.then(|| why.to_owned()));
    let external = text(spec, "type") == "ExternalName";
    let has_addresses = elements(spec, "externalIPs").next().is_some();
    if text(spec, "type") == "ClusterIP" && text(spec, "clusterIP") == "None" {
        let balanced = !text(spec, "loadBalancerIP").is_empty();
        warn(balanced, "spec.loadBalancerIP is ignored for headless services");
        warn(has_addresses, "spec.externalIPs is ignored for headless services");
        let sticky = text(spec, "sessionAffinity") != "None";
        warn(sticky, "spec.SessionAffinity is ignored for headless services");
    }
    warn(
        external && has_addresses,
        "spec.externalIPs is ignored when spec.type is \"ExternalName\"",
    );
    warn(
        !external && !text(spec, "externalName").is_empty(),
        "spec.externalName is ignored when spec.type is not \"ExternalName\"",
    );
    warn(
        text(spec, "trafficDistribution") == "PreferClose",
        "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"",
    );
    warnings
}

pub(crate) fn validate(object: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let root = FieldPath::Root;
    let path = root.field("spec");
    let spec = &object["spec"];
    let kind = text(spec, "type");
    if !TYPES.contains(&kind) {
        errors.push(FieldError::not_supported(path.field("type"), kind, &TYPES));
    }
    let headless = text(spec, "clusterIP") == "None";
    let ports: Vec<&Value> = elements(spec, "ports").collect();
    if ports.is_empty() && !headless && kind != "ExternalName" {
        errors.push(FieldError::required(path.field("ports"), ""));
    }
    if kind == "ExternalName" {
        let name = text(spec, "externalName").trim_end_matches('.');
        let at = path.field("externalName");
        match names::dns_subdomain(name) {
            _ if name.is_empty() => errors.push(FieldError::required(at, "")),
            Some(why) => errors.push(FieldError::invalid(at, name, why)),
            None => {}
        }
    }
    let at = path.field("ports");
    ports_errors(&ports, &at, errors);
    affinity_errors(spec, &path, errors);
    external_traffic_errors(spec, old.map(|old| &old["spec"]), &path, errors);
    let address = text(spec, "clusterIP");
    if !address.is_empty() && !headless && address.parse::<std::net::IpAddr>().is_err() {
        let words = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
        errors.push(FieldError::invalid(path.field("clusterIPs").index(0), address, words));
    }
    if let Some(old) = old {
        let before = text(&old["spec"], "clusterIP");
        let typed_before = text(&old["spec"], "type");
        let keeps = kind != "ExternalName" && typed_before != "ExternalName";
        if keeps && !before.is_empty() && before != address {
            let words = "may not change once set";
            errors.push(FieldError::invalid(
                path.field("clusterIPs").index(0),
                spec["clusterIPs"].clone(),
                words,
            ));
        }
    }
}

fn ports_errors(ports: &[&Value], path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    let (mut seen_names, mut seen_ports) = (HashSet::new(), HashSet::new());
    for (index, port) in ports.iter().enumerate() {
        let at = path.index(index);
        let name = text(port, "name");
        if name.is_empty() && ports.len() > 1 {
            errors.push(FieldError::required(at.field("name"), ""));
        }
        if !name.is_empty() {
            if let Some(why) = names::dns_label(name) {
                errors.push(FieldError::invalid(at.field("name"), name, why));
            }
            if !seen_names.insert(name) {
                errors.push(FieldError::duplicate(at.field("name"), name));
            }
        }
        port_number(port.get("port"), &at.field("port"), errors);
        if let Some(app_protocol) = port.get("appProtocol").and_then(Value::as_str) {
            names::validate_qualified_name(app_protocol, &at.field("appProtocol"), errors);
        }
        let protocol = text(port, "protocol");
        if !["SCTP", "TCP", "UDP"].contains(&protocol) {
            errors.push(FieldError::not_supported(
                at.field("protocol"),
                protocol,
                &["SCTP", "TCP", "UDP"],
            ));
        }
        match port.get("targetPort") {
            Some(Value::String(name)) => {
                let wrong = names::port_name(name).into_iter();
                errors.extend(wrong.map(|why| FieldError::invalid(at.field("targetPort"), name.as_str(), why)));
            }
            target => port_number(target, &at.field("targetPort"), errors),
        }
        if !seen_ports.insert((protocol, port["port"].as_i64())) {
            let value = json!({"port": port["port"], "protocol": protocol});
            // Upstream shows its own type.
            let shown = format!(
                r#"{{"Name":"","Protocol":"{protocol}","AppProtocol":null,"Port":{},"TargetPort":0,"NodePort":0}}"#,
                port["port"].as_i64().unwrap_or_default()
            );
            errors.push(FieldError::duplicate(at, value).shown_as(shown));
        }
    }
}

fn affinity_errors(spec: &Value, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    for (name, allowed) in [
        ("sessionAffinity", &["ClientIP", "None"]),
        ("internalTrafficPolicy", &["Cluster", "Local"]),
    ] {
        let value = text(spec, name);
        if !value.is_empty() && !allowed.contains(&value) {
            errors.push(FieldError::not_supported(path.field(name), value, allowed));
        }
    }
    if let Some(selector) = spec.get("selector").and_then(Value::as_object) {
        names::validate_labels(selector, &path.field("selector"), errors);
    }
}

/// Fields that only Services with external traffic have (validateServiceExternalTrafficPolicy), and the one that is immutable
/// (validateServiceExternalTrafficFieldsUpdate). A missing port of health checks was allocated before, but for a write of the
/// status alone: a Service that was stored without one remains writable.
fn external_traffic_errors(spec: &Value, old: Option<&Value>, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    if old == Some(spec) {
        return;
    }
    let (at, policy) = (path.field("externalTrafficPolicy"), text(spec, "externalTrafficPolicy"));
    match policy {
        "" => {}
        _ if !is_externally_accessible(spec) => {
            let why = "may only be set for externally-accessible services";
            errors.push(FieldError::invalid(at, policy, why));
        }
        "Cluster" | "Local" => {}
        _ => errors.push(FieldError::not_supported(at, policy, &["Cluster", "Local"])),
    }
    let port = |spec: &Value| spec["healthCheckNodePort"].as_i64().unwrap_or_default();
    let (at, given) = (path.field("healthCheckNodePort"), port(spec));
    let needs_check =
        |spec: &Value| text(spec, "type") == "LoadBalancer" && text(spec, "externalTrafficPolicy") == "Local";
    match (needs_check(spec), given) {
        (true, _) => port_number(spec.get("healthCheckNodePort"), &at, errors),
        (false, 0) => {}
        (false, _) => {
            let why = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
            errors.push(FieldError::invalid(at, given, why));
        }
    }
    let allocated = |old: &Value| needs_check(old) && port(old) != 0;
    if needs_check(spec) && old.is_some_and(|old| allocated(old) && port(old) != given) {
        errors.push(FieldError::forbidden(at, "field is immutable"));
    }
}
