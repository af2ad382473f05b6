//! Defaults of pods and pod templates (Kubernetes v1.35 `pkg/apis/core/v1/defaults.go`).
//! Nothing here reads other objects: what admission adds to pods is the API server's business.

use cluster_fields::quantity::Quantity;
use serde_json::{Value, json};

use crate::defaults::image_tag;
use crate::json::fields::{child, elements, elements_mut, is_unset, set_default, set_default_number, text};

/// `0644`: the mode of files in secret, config map, downward API and projected volumes.
const FILE_MODE: i64 = 0o644;

/// The resources that a pod's class depends on.
const NAMES: [&str; 2] = ["cpu", "memory"];

const CONTAINER_LISTS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];

/// Defaults of a Pod beyond those of its spec.
pub(crate) fn pod(object: &mut Value) {
    let Some(spec) = child(object, "spec") else {
        return;
    };
    pod_spec(spec);
    set_default(spec, "enableServiceLinks", true);
    // A negative grace period becomes one second, in pods alone (pkg/apis/core/v1/conversion.go).
    let grace = "terminationGracePeriodSeconds";
    if spec[grace].as_i64().is_some_and(|seconds| seconds < 0) {
        spec[grace] = 1.into();
    }
    let host_network = spec["hostNetwork"] == true;
    for list in ["containers", "initContainers"] {
        for container in elements_mut(spec, list) {
            request_what_is_limited(container);
            for port in elements_mut(container, "ports").filter(|_| host_network) {
                let number = port["containerPort"].as_i64().unwrap_or_default();
                set_default_number(port, "hostPort", number);
            }
        }
    }
    let class = qos_class(&object["spec"]);
    if let Some(status) = child(object, "status") {
        set_default(status, "phase", "Pending");
        set_default(status, "qosClass", class);
    }
}

/// Defaults of the pod template below `spec.template` (or wherever `owner` holds one).
pub(crate) fn template(owner: &mut Value) {
    if let Some(spec) = owner.pointer_mut("/template/spec").filter(|spec| spec.is_object()) {
        pod_spec(spec);
    }
}

fn pod_spec(spec: &mut Value) {
    set_default(spec, "dnsPolicy", "ClusterFirst");
    set_default(spec, "restartPolicy", "Always");
    set_default(spec, "securityContext", json!({}));
    set_default(spec, "terminationGracePeriodSeconds", 30);
    set_default(spec, "schedulerName", "default-scheduler");
    // The deprecated alias and the field always agree (pkg/apis/core/v1/conversion.go).
    if is_unset(spec, "serviceAccountName") {
        let alias = text(spec, "serviceAccount").to_owned();
        if !alias.is_empty() {
            set_default(spec, "serviceAccountName", alias);
        }
    }
    let account = text(spec, "serviceAccountName").to_owned();
    if !account.is_empty() {
        spec["serviceAccount"] = account.into();
    }
    for list in CONTAINER_LISTS {
        elements_mut(spec, list).for_each(container);
    }
    elements_mut(spec, "volumes").for_each(volume);
}

fn container(container: &mut Value) {
    if !container.is_object() {
        return;
    }
    let policy = match image_tag::tag(text(container, "image")) {
        Some("latest") => "Always",
        _ => "IfNotPresent",
    };
    set_default(container, "imagePullPolicy", policy);
    set_default(container, "terminationMessagePath", "/dev/termination-log");
    set_default(container, "terminationMessagePolicy", "File");
    set_default(container, "resources", json!({}));
    for port in elements_mut(container, "ports") {
        set_default(port, "protocol", "TCP");
    }
    for variable in elements_mut(container, "env") {
        if let Some(field) = variable.pointer_mut("/valueFrom/fieldRef") {
            set_default(field, "apiVersion", "v1");
        }
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = container.get_mut(name).filter(|probe| probe.is_object()) {
            set_default_number(probe, "timeoutSeconds", 1);
            set_default_number(probe, "periodSeconds", 10);
            set_default_number(probe, "successThreshold", 1);
            set_default_number(probe, "failureThreshold", 3);
            http_get(probe);
            if let Some(grpc) = probe
                .get_mut("grpc")
                .filter(|grpc| grpc.is_object() && grpc.get("service").is_none())
            {
                grpc["service"] = "".into();
            }
        }
    }
    for hook in ["postStart", "preStop"] {
        if let Some(handler) = container.pointer_mut(&format!("/lifecycle/{hook}")) {
            http_get(handler);
        }
    }
}

fn http_get(handler: &mut Value) {
    if let Some(get) = handler.get_mut("httpGet").filter(|get| get.is_object()) {
        set_default(get, "path", "/");
        set_default(get, "scheme", "HTTP");
    }
}

fn volume(volume: &mut Value) {
    let Some(map) = volume.as_object_mut() else { return };
    if map.iter().all(|(name, source)| name == "name" || source.is_null()) {
        map.insert("emptyDir".to_owned(), json!({}));
    }
    for name in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = volume.get_mut(name).filter(|source| source.is_object()) {
            set_default(source, "defaultMode", FILE_MODE);
        }
    }
    if let Some(source) = volume.get_mut("downwardAPI") {
        field_refs(source);
    }
    if let Some(source) = volume
        .get_mut("hostPath")
        .filter(|source| source.is_object() && source.get("type").is_none())
    {
        source["type"] = "".into();
    }
    if let Some(claim) = volume.pointer_mut("/ephemeral/volumeClaimTemplate/spec") {
        set_default(claim, "volumeMode", "Filesystem");
    }
    if let Some(projected) = volume.get_mut("projected") {
        for source in elements_mut(projected, "sources") {
            if let Some(token) = source.get_mut("serviceAccountToken") {
                set_default(token, "expirationSeconds", 3600);
            }
            if let Some(downward) = source.get_mut("downwardAPI") {
                field_refs(downward);
            }
        }
    }
}

fn field_refs(source: &mut Value) {
    for item in elements_mut(source, "items") {
        if let Some(field) = item.get_mut("fieldRef") {
            set_default(field, "apiVersion", "v1");
        }
    }
}

fn request_what_is_limited(container: &mut Value) {
    let Some(limits) = container
        .pointer("/resources/limits")
        .and_then(Value::as_object)
        .cloned()
    else {
        return;
    };
    let Some(requests) = container
        .get_mut("resources")
        .and_then(|resources| child(resources, "requests"))
    else {
        return;
    };
    for (name, limit) in limits {
        set_default(requests, &name, limit);
    }
}

/// Which pods go first when a node runs short: BestEffort without requests and limits, Guaranteed when all containers limit
/// cpu and memory to what they request, else Burstable. `spec` is that of a pod with its defaults.
/// (Kubernetes v1.35 `pkg/apis/core/v1/helper/qos/qos.go`)
pub fn qos_class(spec: &Value) -> &'static str {
    let containers = || elements(spec, "containers").chain(elements(spec, "initContainers"));
    // Resources of the pod as a whole, where it has any, are the only ones that count.
    let of_pod = NAMES.iter().any(|name| {
        amount(spec, "requests", name)
            .or(amount(spec, "limits", name))
            .is_some()
    });
    let counted: Vec<&Value> = if of_pod { vec![spec] } else { containers().collect() };
    let total = |list: &str, name: &str| {
        let amounts = counted.iter().filter_map(|one| amount(one, list, name));
        amounts.fold(Quantity::ZERO, Quantity::plus)
    };
    let is_limited = |one: &&Value| NAMES.iter().all(|name| amount(one, "limits", name).is_some());
    let totals = NAMES.map(|name| (total("requests", name), total("limits", name)));
    if totals.iter().all(|total| *total == (Quantity::ZERO, Quantity::ZERO)) {
        "BestEffort"
    } else if counted.iter().all(is_limited) && totals.iter().all(|(requests, limits)| requests == limits) {
        "Guaranteed"
    } else {
        "Burstable"
    }
}

/// The amount of a resource in requests or limits, if it is more than nothing.
fn amount(one: &Value, list: &str, name: &str) -> Option<Quantity> {
    let amount = one.get("resources")?.get(list)?.get(name)?;
    Quantity::of(amount).filter(|amount| *amount > Quantity::ZERO)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_class_goes_by_amounts_and_not_by_how_they_are_written() {
        let of = |resources: &[Value]| {
            let containers: Vec<Value> = resources.iter().map(|it| json!({"resources": it})).collect();
            qos_class(&json!({ "containers": containers }))
        };
        let both = |requests: Value, limits: Value| json!({"requests": requests, "limits": limits});
        let guaranteed = both(
            json!({"cpu": "0.5", "memory": "1Gi"}),
            json!({"cpu": "500m", "memory": "1024Mi"}),
        );
        assert_eq!(of(std::slice::from_ref(&guaranteed)), "Guaranteed");
        assert_eq!(of(&[guaranteed.clone(), json!({})]), "Burstable");
        assert_eq!(
            of(&[json!({}), json!({"requests": {"nvidia.com/gpu": "1"}})]),
            "BestEffort"
        );
        assert_eq!(of(&[json!({"requests": {"cpu": "0", "memory": 0}})]), "BestEffort");
        assert_eq!(of(&[json!({"requests": {"cpu": 1}})]), "Burstable");
        let less = both(json!({"cpu": 1, "memory": "1G"}), json!({"cpu": 1, "memory": "1Gi"}));
        assert_eq!(of(&[less]), "Burstable");
        let of_pod = json!({"containers": [{}], "resources": guaranteed});
        assert_eq!(qos_class(&of_pod), "Guaranteed");
    }
}
