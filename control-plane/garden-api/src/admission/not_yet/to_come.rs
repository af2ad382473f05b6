//! The list of the fields of a Shoot's spec that have no effect yet, and which values of each request one. Fields that
//! promise safety, isolation or savings are refused; the others are stored and answered with a warning, so that manifests
//! carry over.

use serde_json::Value;

/// How a field is answered that requests something still to come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Answer {
    /// The Shoot is not stored.
    Refused,
    /// It is stored with a warning.
    Warned,
    /// It is on by default, and described in the documentation alone.
    Documented,
}

type IsRequested = fn(&Value, &Value) -> bool;

/// A field with everything below it.
pub(super) struct ToCome {
    /// Where it stands; `[]` for each entry of a list.
    pub(super) path: &'static str,
    /// Whether a value requests anything, given the object around it: defaults and empty values do not.
    pub(super) is_requested: IsRequested,
    pub(super) answer: Answer,
    /// What does not happen yet.
    pub(super) what: &'static str,
}

const fn to_come(answer: Answer, path: &'static str, is_requested: IsRequested, what: &'static str) -> ToCome {
    ToCome {
        path,
        is_requested,
        answer,
        what,
    }
}

const fn refused(path: &'static str, is_requested: IsRequested, what: &'static str) -> ToCome {
    to_come(Answer::Refused, path, is_requested, what)
}

const fn warned(path: &'static str, is_requested: IsRequested, what: &'static str) -> ToCome {
    to_come(Answer::Warned, path, is_requested, what)
}

const fn documented(path: &'static str, what: &'static str) -> ToCome {
    to_come(Answer::Documented, path, given, what)
}

const ADDONS: &str = "addons are not installed";
const API_SERVER: &str = "API servers run with settings of their own";
const AUTOSCALER: &str = "pools are not scaled by load";
const CONTROL_PLANE: &str = "control plane components run with settings of their own";
const KUBELET: &str = "kubelets run with settings of their own";
const MAINTENANCE: &str = "nothing is maintained by itself";

/// All of them.
pub(super) const TO_COME: &[ToCome] = &[
    refused(
        "spec.controlPlane.highAvailability",
        given,
        "control planes have one replica",
    ),
    refused(
        "spec.maintenance.confineSpecUpdateRollout",
        on,
        "changes cannot wait for the maintenance window",
    ),
    refused(
        "spec.kubernetes.kubeAPIServer.auditConfig",
        given,
        "API servers follow no audit policy",
    ),
    refused(
        "spec.kubernetes.kubeAPIServer.encryptionConfig",
        given,
        "etcd's content is not encrypted; the provider aescbc that each Shoot shows is Gardener's default and changes nothing",
    ),
    refused(
        "spec.kubernetes.kubeAPIServer.structuredAuthentication",
        given,
        "API servers know no authenticators but their own",
    ),
    refused(
        "spec.kubernetes.kubeAPIServer.structuredAuthorization",
        given,
        "API servers know no authorizers but their own",
    ),
    refused(
        "spec.kubernetes.kubeAPIServer.admissionPlugins",
        given,
        "API servers take no admission plugins",
    ),
    warned("spec.addons.kubernetesDashboard", on, ADDONS),
    warned("spec.addons.nginxIngress", on, ADDONS),
    warned("spec.controlPlane.zones", given, "the seed chooses the zones"),
    warned(
        "spec.exposureClassName",
        given,
        "beyond the choice of a seed, API servers are exposed in one way only",
    ),
    warned("spec.monitoring", given, "no alerts are sent"),
    warned(
        "spec.systemComponents.coreDNS",
        given,
        "CoreDNS runs with settings of its own",
    ),
    warned("spec.systemComponents.nodeLocalDNS", on, "nodes have no DNS cache"),
    documented("spec.maintenance.autoUpdate", MAINTENANCE),
    warned("spec.maintenance.autoRotation", given, MAINTENANCE),
    warned("spec.kubernetes.clusterAutoscaler", given, AUTOSCALER),
    warned("spec.kubernetes.kubeAPIServer.featureGates", given, API_SERVER),
    warned("spec.kubernetes.kubeAPIServer.apiAudiences", given, API_SERVER),
    warned("spec.kubernetes.kubeAPIServer.runtimeConfig", given, API_SERVER),
    warned("spec.kubernetes.kubeAPIServer.serviceAccountConfig", given, API_SERVER),
    warned("spec.kubernetes.kubeAPIServer.watchCacheSizes", given, API_SERVER),
    warned("spec.kubernetes.kubeAPIServer.requests", given, API_SERVER),
    warned(
        "spec.kubernetes.kubeAPIServer.enableAnonymousAuthentication",
        on,
        API_SERVER,
    ),
    warned("spec.kubernetes.kubeAPIServer.eventTTL", given, API_SERVER),
    warned("spec.kubernetes.kubeAPIServer.logging", given, API_SERVER),
    warned(
        "spec.kubernetes.kubeAPIServer.defaultNotReadyTolerationSeconds",
        given,
        API_SERVER,
    ),
    warned(
        "spec.kubernetes.kubeAPIServer.defaultUnreachableTolerationSeconds",
        given,
        API_SERVER,
    ),
    warned("spec.kubernetes.kubeAPIServer.autoscaling", given, API_SERVER),
    warned("spec.kubernetes.kubeAPIServer.tlsMinVersion", given, API_SERVER),
    warned(
        "spec.kubernetes.kubeControllerManager.featureGates",
        given,
        CONTROL_PLANE,
    ),
    warned(
        "spec.kubernetes.kubeControllerManager.horizontalPodAutoscaler",
        given,
        CONTROL_PLANE,
    ),
    warned(
        "spec.kubernetes.kubeControllerManager.podEvictionTimeout",
        given,
        CONTROL_PLANE,
    ),
    warned(
        "spec.kubernetes.kubeControllerManager.nodeMonitorGracePeriod",
        given,
        CONTROL_PLANE,
    ),
    warned(
        "spec.kubernetes.kubeControllerManager.nodeCIDRMaskSizeIPv6",
        given,
        CONTROL_PLANE,
    ),
    warned("spec.kubernetes.kubeScheduler", given, CONTROL_PLANE),
    warned("spec.kubernetes.etcd", given, CONTROL_PLANE),
    warned(
        "spec.kubernetes.kubeProxy.featureGates",
        given,
        "Services are served without kube-proxy",
    ),
    warned(
        "spec.kubernetes.kubeProxy.mode",
        other_than_iptables,
        "Services are served without kube-proxy",
    ),
    warned(
        "spec.kubernetes.kubeProxy.enabled",
        off,
        "Services are served in any case",
    ),
    warned("spec.kubernetes.kubelet", given, KUBELET),
    warned(
        "spec.kubernetes.verticalPodAutoscaler",
        on,
        "pods are not scaled by load",
    ),
    warned(
        "spec.provider.workers[].caBundle",
        given,
        "machines trust no further authorities",
    ),
    warned("spec.provider.workers[].kubernetes.kubelet", given, KUBELET),
    warned("spec.provider.workers[].maximum", above_minimum, AUTOSCALER),
    warned(
        "spec.provider.workers[].sysctls",
        given,
        "kernels run with settings of their own",
    ),
    warned(
        "spec.provider.workers[].controlPlane",
        given,
        "control planes live in the seed",
    ),
    documented(
        "spec.provider.workersSettings.sshAccess",
        "machines have no key for SSH",
    ),
];

fn given(value: &Value, _: &Value) -> bool {
    is_set(value)
}

fn is_set(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(all) => all.iter().any(is_set),
        Value::Object(all) => all.values().any(is_set),
        Value::Bool(_) | Value::Number(_) => true,
    }
}

/// A switch, or something that has one called `enabled`.
fn on(value: &Value, _: &Value) -> bool {
    value.get("enabled").unwrap_or(value) == &Value::Bool(true)
}

fn off(value: &Value, _: &Value) -> bool {
    value == &Value::Bool(false)
}

/// A pool that may grow beyond what it begins with.
fn above_minimum(maximum: &Value, pool: &Value) -> bool {
    maximum.as_i64() > pool.get("minimum").and_then(Value::as_i64)
}

fn other_than_iptables(value: &Value, _: &Value) -> bool {
    is_set(value) && value != "IPTables"
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use api_core::v1beta1::ShootSpec;

    use super::*;

    /// Fields that a component acts on or that go into the extensions' objects, each with everything below it.
    const SERVED: &[&str] = &[
        "spec.accessRestrictions",
        "spec.cloudProfile",
        "spec.cloudProfileName",
        "spec.credentialsBindingName",
        "spec.dns",
        "spec.extensions",
        "spec.hibernation",
        "spec.kubernetes.kubeControllerManager.nodeCIDRMaskSize",
        "spec.kubernetes.version",
        "spec.maintenance.timeWindow",
        "spec.networking",
        "spec.provider.controlPlaneConfig",
        "spec.provider.infrastructureConfig",
        "spec.provider.type",
        "spec.provider.workers[].annotations",
        "spec.provider.workers[].clusterAutoscaler",
        "spec.provider.workers[].cri",
        "spec.provider.workers[].dataVolumes",
        "spec.provider.workers[].kubeletDataVolumeName",
        "spec.provider.workers[].kubernetes.version",
        "spec.provider.workers[].labels",
        "spec.provider.workers[].machine",
        "spec.provider.workers[].machineControllerManager",
        "spec.provider.workers[].maxSurge",
        "spec.provider.workers[].maxUnavailable",
        "spec.provider.workers[].minimum",
        "spec.provider.workers[].name",
        "spec.provider.workers[].priority",
        "spec.provider.workers[].providerConfig",
        "spec.provider.workers[].systemComponents",
        "spec.provider.workers[].taints",
        "spec.provider.workers[].updateStrategy",
        "spec.provider.workers[].volume",
        "spec.provider.workers[].zones",
        "spec.purpose",
        "spec.region",
        "spec.resources",
        "spec.schedulerName",
        "spec.secretBindingName",
        "spec.seedName",
        "spec.seedSelector",
        "spec.tolerations",
    ];

    /// Every path of `schema` that has no fields of its own.
    fn leaves(root: &Value, schema: &Value, path: &str, found: &mut Vec<String>) {
        let schema = match schema["$ref"].as_str() {
            Some(reference) => root.pointer(reference.trim_start_matches('#')).unwrap(),
            None => schema,
        };
        let one_of = schema["anyOf"].as_array().into_iter().flatten();
        let mut inner = one_of.chain([schema]).filter(|schema| schema["type"] != "null");
        if let Some(referring) = inner.clone().find(|schema| schema["$ref"].is_string()) {
            leaves(root, referring, path, found);
        } else if let Some(list) = inner.clone().find(|schema| schema["items"]["$ref"].is_string()) {
            leaves(root, &list["items"], &format!("{path}[]"), found);
        } else if let Some(fields) = inner.find_map(|schema| schema["properties"].as_object()) {
            for (name, field) in fields {
                leaves(root, field, &format!("{path}.{name}"), found);
            }
        } else {
            found.push(path.to_owned());
        }
    }

    #[test]
    fn every_field_of_a_shoot_is_served_or_listed_as_to_come() {
        let schema = serde_json::to_value(schemars::schema_for!(ShootSpec)).unwrap();
        let mut fields = Vec::new();
        leaves(&schema, &schema, "spec", &mut fields);
        assert!(fields.len() > 150, "{fields:?}");
        let below = |field: &str, row: &str| {
            let rest = field.strip_prefix(row);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        let rows = || TO_COME.iter().map(|row| row.path).chain(SERVED.iter().copied());
        let known = |field: &&String| rows().filter(|row| below(field, row)).count() != 1;
        let doubtful: Vec<&String> = fields.iter().filter(known).collect();
        assert!(doubtful.is_empty(), "not in exactly one list: {doubtful:#?}");
        let idle: Vec<&str> = rows()
            .filter(|row| !fields.iter().any(|field| below(field, row)))
            .collect();
        assert!(idle.is_empty(), "no such field: {idle:#?}");
    }

    #[test]
    fn the_reference_lists_what_is_to_come() {
        let mut page = String::from(
            "# Fields of a Shoot that do nothing yet\n\n\
             Orangery reads Gardener's Shoots as they are. These fields have no effect yet. A Shoot with fields that \
             promise\nsafety, isolation or savings is refused; with the others it is stored, and kubectl shows a \
             warning. Fields that are not\nlisted are served here or passed to the extensions.\n\n\
             | Field | What is so instead | Answer |\n| --- | --- | --- |\n",
        );
        for row in TO_COME {
            let answer = match row.answer {
                Answer::Refused => "refused",
                Answer::Warned => "warning",
                Answer::Documented => "none: it is on by default",
            };
            writeln!(page, "| `{}` | {} | {answer} |", row.path, row.what).unwrap();
        }
        let file = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../docs/reference/shoot-fields-to-come.md"
        );
        tests_kit::assert_golden(file, &page);
    }
}
