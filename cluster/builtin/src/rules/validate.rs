//! Rules of built-in kinds beyond their fields' types (Kubernetes v1.35 `pkg/apis/*/validation`), for objects that are
//! already defaulted: which rules a kind has. A first set: what people and controllers run into. It never reads other objects.

use cluster_fields::{FieldError, FieldPath, names};
use serde_json::Value;

use crate::rules::checks::{immutable, kube_finalizers, require};
use crate::rules::{
    admission_rules, api_service_rules, autoscaler_rules, certificate_rules, claim_rules, core_rules, definition_rules,
    disruption_budget_rules, endpoint_slice_rules, ingress_rules, lease_rules, network_policy_rules, pod_rules,
    policy_rules, priority_class_rules, rbac_rules, service_rules, workload_rules,
};

const ADMISSION_GROUP: &str = "admissionregistration.k8s.io";

/// All errors of a defaulted object of `group` (empty for core), `version`, `kind`; `old` on update. Metadata is not
/// validated here: its rules are the same for all kinds, but for the name ([`refuse_name`]).
pub fn validate(group: &str, version: &str, kind: &str, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if !matches!(group, "apiextensions.k8s.io" | "apiregistration.k8s.io") {
        finalizers(object, &mut errors);
    }
    match (group, version, kind) {
        ("", "v1", _) => core_rules::validate(kind, object, old, &mut errors),
        ("apps", "v1", "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet") => {
            workload_rules::apps(kind, object, old, &mut errors);
        }
        ("batch", "v1", "Job") => workload_rules::job(object, old, &mut errors),
        ("batch", "v1", "CronJob") => workload_rules::cron_job(object, &mut errors),
        (rbac_rules::GROUP, "v1", "Role" | "ClusterRole") => rbac_rules::role(kind, object, &mut errors),
        (rbac_rules::GROUP, "v1", "RoleBinding" | "ClusterRoleBinding") => {
            rbac_rules::binding(kind, object, old, &mut errors)
        }
        ("networking.k8s.io", "v1", "Ingress") => ingress_rules::validate(object, &mut errors),
        ("networking.k8s.io", "v1", "NetworkPolicy") => network_policy_rules::validate(object, old, &mut errors),
        ("coordination.k8s.io", "v1", "Lease") => lease_rules::validate(object, &mut errors),
        ("certificates.k8s.io", "v1", "CertificateSigningRequest") => {
            certificate_rules::validate(object, old, &mut errors)
        }
        ("apiextensions.k8s.io", "v1", "CustomResourceDefinition") => {
            definition_rules::validate(object, old, &mut errors)
        }
        ("apiregistration.k8s.io", "v1", "APIService") => api_service_rules::validate(object, &mut errors),
        ("storage.k8s.io", "v1", "StorageClass") => {
            require(object, "provisioner", &FieldPath::Root, &mut errors);
            immutable(
                object,
                old,
                &["provisioner", "parameters", "reclaimPolicy", "volumeBindingMode"],
                &mut errors,
            );
        }
        ("scheduling.k8s.io", "v1", "PriorityClass") => priority_class_rules::validate(object, old, &mut errors),
        ("discovery.k8s.io", "v1", "EndpointSlice") => {
            endpoint_slice_rules::validate(object, old, &mut errors);
            immutable(object, old, &["addressType"], &mut errors);
        }
        (ADMISSION_GROUP, "v1", _) => match kind {
            "MutatingWebhookConfiguration" => admission_rules::webhooks(true, object, old, &mut errors),
            "ValidatingWebhookConfiguration" => admission_rules::webhooks(false, object, old, &mut errors),
            "ValidatingAdmissionPolicy" => policy_rules::policy(object, old, &mut errors),
            "ValidatingAdmissionPolicyBinding" => policy_rules::policy_binding(object, &mut errors),
            _ => {}
        },
        ("policy", "v1", "PodDisruptionBudget") => disruption_budget_rules::validate(object, &mut errors),
        ("autoscaling", "v2", "HorizontalPodAutoscaler") => autoscaler_rules::validate(object, old, &mut errors),
        _ => {}
    }
    errors
}

/// Warnings for an object that is accepted. Those on templates of pods are only given for new templates
/// (`pkg/registry/*/*/strategy.go`, `WarningsOnUpdate`).
pub fn warnings(group: &str, kind: &str, object: &Value, old: Option<&Value>) -> Vec<String> {
    let has_warnings = match (kind, old) {
        (_, None) => true,
        ("Service" | "PersistentVolumeClaim" | "NetworkPolicy", _) => true,
        ("DaemonSet", Some(old)) => object["spec"]["template"] != old["spec"]["template"],
        (_, Some(old)) => object["metadata"]["generation"] != old["metadata"]["generation"],
    };
    if !has_warnings {
        return Vec::new();
    }
    match (group, kind) {
        ("", "Service") => service_rules::warnings(object),
        ("", "PersistentVolumeClaim") => claim_rules::warnings(object),
        ("networking.k8s.io", "NetworkPolicy") => network_policy_rules::warnings(object),
        ("", "PodTemplate") => pod_rules::warnings(&object["template"], "template."),
        ("", "ReplicationController") | ("apps", _) | ("batch", "Job") => {
            pod_rules::warnings(&object["spec"]["template"], "spec.template.")
        }
        ("batch", "CronJob") => {
            let template = &object["spec"]["jobTemplate"]["spec"]["template"];
            pod_rules::warnings(template, "spec.jobTemplate.spec.template.")
        }
        _ => Vec::new(),
    }
}

/// Why `name` cannot be the name of an object of this kind; `None` when it can.
pub fn refuse_name(group: &str, kind: &str, name: &str) -> Option<String> {
    match (group, kind) {
        (rbac_rules::GROUP | "apiregistration.k8s.io", _) => names::path_segment(name),
        ("", "Namespace") => names::dns_label(name),
        ("", "Service") => names::dns_label_1035(name),
        _ => names::dns_subdomain(name),
    }
}

/// Kubernetes' own kinds take finalizers of Kubernetes' own and of domains (`validateKubeFinalizerName`).
fn finalizers(object: &Value, errors: &mut Vec<FieldError>) {
    let root = FieldPath::Root;
    let path = root.field("metadata");
    kube_finalizers(&object["metadata"], &path, errors);
}
