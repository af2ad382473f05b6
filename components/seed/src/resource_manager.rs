//! The seed's gardener-resource-manager: applies the ManagedResources of class `seed` in all namespaces to the seed
//! itself, and collects Secrets and ConfigMaps that nothing refers to any more. What it applies is whatever extensions'
//! charts hold, so it may do everything there. It is the program `orangery resource-manager` with a configuration file in a
//! ConfigMap, the same in a pod of a real kubelet and in one of the embedded node.

use std::time::Duration;

use api_meta::labels::network;
use api_meta::{labels, names};
use base_secrets::{CertificateSpec, Wanted};
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Service, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::object::typed;

/// Name of its Deployment and its ServiceAccount.
pub const RESOURCE_MANAGER: &str = "gardener-resource-manager";
/// Name of its ClusterRole and ClusterRoleBinding.
pub const CLUSTER_ROLE: &str = "gardener-resource-manager-seed";
/// The class of the ManagedResources that it applies.
pub const RESOURCE_CLASS: &str = "seed";

/// Name of its MutatingWebhookConfiguration.
const WEBHOOKS: &str = "gardener-resource-manager";
/// Where it mounts tokens into pods whose account opts out of Kubernetes' own mount.
pub const TOKEN_MOUNT_PATH: &str = "/webhooks/mount-projected-service-account-token";

/// Signs the certificate of its webhooks.
pub const SEED_AUTHORITY: &str = "ca-seed";
/// The certificate of its webhooks.
pub const SERVING_CERTIFICATE: &str = "gardener-resource-manager-server";
/// How long that is valid. It is renewed after 80 % of it, by a gardenlet that looks every day.
const VALIDITY: Duration = Duration::from_secs(90 * 24 * 3600);

/// The subcommand of the program that it is.
const SUBCOMMAND: &str = "resource-manager";
const HEALTH_PORT: u16 = 8081;
const METRICS_PORT: u16 = 8080;
const WEBHOOK_PORT: u16 = 10_250;
/// The folder of its configuration, and the file in it.
const CONFIGURATION_FOLDER: &str = "/etc/gardener-resource-manager/config";
/// The key of its configuration in [`ResourceManagerObjects::config_map`].
pub const CONFIGURATION_FILE: &str = "config.yaml";
/// The folder of its webhooks' certificate.
const CERTIFICATE_FOLDER: &str = "/etc/gardener-resource-manager/tls";

/// Settings of the seed's gardener-resource-manager.
#[derive(Clone, Debug)]
pub struct ResourceManagerSettings {
    /// Full reference of the image with the program `orangery`.
    pub image: String,
    /// How many pods; one of them leads.
    pub replicas: i32,
    /// The certificate of its webhooks.
    pub serving: Serving,
    /// Where its webhooks are reached instead of at its Service.
    pub webhooks: Option<WebhookServer>,
}

/// A certificate of [`serving_secrets`], as it is now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Serving {
    /// Name of the Secret with the certificate and its key; another one when it is renewed.
    pub secret: String,
    /// PEM of the authorities that it may come from.
    pub ca_bundle: String,
}

/// A server of webhooks that is not behind a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookServer {
    /// `https://host:port`.
    pub url: String,
    /// PEM of the authorities that its certificate may come from.
    pub ca_bundle: String,
}

/// The authority and the certificate of its webhooks.
#[must_use]
pub fn serving_secrets() -> Vec<Wanted> {
    let namespace = names::GARDEN_NAMESPACE;
    let host_names = vec![
        RESOURCE_MANAGER.to_owned(),
        format!("{RESOURCE_MANAGER}.{namespace}"),
        format!("{RESOURCE_MANAGER}.{namespace}.svc"),
        format!("{RESOURCE_MANAGER}.{namespace}.svc.cluster.local"),
    ];
    let spec = CertificateSpec::server(RESOURCE_MANAGER, host_names, Vec::new(), VALIDITY);
    vec![
        Wanted::authority(SEED_AUTHORITY, "seed"),
        Wanted::certificate(SERVING_CERTIFICATE, SEED_AUTHORITY, spec),
    ]
}

/// Everything that makes up the seed's gardener-resource-manager.
#[derive(Clone, Debug)]
pub struct ResourceManagerObjects {
    /// Who it is.
    pub service_account: ServiceAccount,
    /// What it may do.
    pub cluster_role: ClusterRole,
    /// Gives it the role.
    pub cluster_role_binding: ClusterRoleBinding,
    /// Its configuration.
    pub config_map: ConfigMap,
    /// The program.
    pub deployment: Deployment,
    /// Leads to its webhooks.
    pub service: Service,
    /// Its webhooks; to be applied once the program runs, because no pod of an extension is created without them.
    pub webhooks: MutatingWebhookConfiguration,
}

/// Builds the seed's gardener-resource-manager.
#[must_use]
pub fn resource_manager(settings: &ResourceManagerSettings) -> ResourceManagerObjects {
    let inside = json!({
        "name": RESOURCE_MANAGER,
        "namespace": names::GARDEN_NAMESPACE,
        "labels": all_labels(),
    });
    let beside = json!({"name": CLUSTER_ROLE, "labels": all_labels()});
    ResourceManagerObjects {
        service_account: typed(json!({"metadata": inside, "automountServiceAccountToken": false})),
        cluster_role: typed(json!({
            "metadata": beside,
            "rules": [
                {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
                {"nonResourceURLs": ["*"], "verbs": ["*"]},
            ],
        })),
        cluster_role_binding: typed(json!({
            "metadata": beside,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": CLUSTER_ROLE},
            "subjects": [
                {"kind": "ServiceAccount", "name": RESOURCE_MANAGER, "namespace": names::GARDEN_NAMESPACE},
            ],
        })),
        config_map: typed(json!({"metadata": inside, "data": {CONFIGURATION_FILE: configuration()}})),
        deployment: deployment(settings),
        service: service(),
        webhooks: webhooks(settings),
    }
}

fn service() -> Service {
    typed(json!({
        "metadata": {"name": RESOURCE_MANAGER, "namespace": names::GARDEN_NAMESPACE, "labels": all_labels()},
        "spec": {
            "type": "ClusterIP",
            "selector": selector(),
            "ports": [{"name": "server", "port": 443, "protocol": "TCP", "targetPort": WEBHOOK_PORT}],
        },
    }))
}

/// Upstream's first webhook of pods (gardener/gardener v1.149 pkg/component/gardener/resourcemanager), for the namespaces
/// in which extensions and control planes run: its own pods need it to be there.
fn webhooks(settings: &ResourceManagerSettings) -> MutatingWebhookConfiguration {
    let client_config = match &settings.webhooks {
        None => json!({
            "service": {
                "namespace": names::GARDEN_NAMESPACE, "name": RESOURCE_MANAGER, "path": TOKEN_MOUNT_PATH, "port": 443,
            },
            "caBundle": ByteString(settings.serving.ca_bundle.clone().into_bytes()),
        }),
        Some(WebhookServer { url, ca_bundle }) => json!({
            "url": format!("{}{TOKEN_MOUNT_PATH}", url.trim_end_matches('/')),
            "caBundle": ByteString(ca_bundle.clone().into_bytes()),
        }),
    };
    typed(json!({
        "metadata": {"name": WEBHOOKS, "labels": all_labels()},
        "webhooks": [{
            "name": "projected-token-mount.resources.gardener.cloud",
            "admissionReviewVersions": ["v1"],
            "clientConfig": client_config,
            "failurePolicy": "Fail",
            "sideEffects": "None",
            "timeoutSeconds": 10,
            "namespaceSelector": {"matchExpressions": [
                {"key": labels::ROLE, "operator": "In", "values": [labels::role::EXTENSION, labels::role::SHOOT]},
            ]},
            "objectSelector": {"matchExpressions": [
                {"key": "projected-token-mount.resources.gardener.cloud/skip", "operator": "DoesNotExist"},
                {"key": labels::APP, "operator": "NotIn", "values": [RESOURCE_MANAGER]},
            ]},
            "rules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"], "scope": "Namespaced"},
            ],
        }],
    }))
}

/// What selectors match: never changes once deployed.
fn selector() -> Value {
    json!({labels::APP: RESOURCE_MANAGER})
}

/// All labels of the objects. The role is that of control planes: caches with this selector include it.
fn all_labels() -> Value {
    json!({
        labels::APP: RESOURCE_MANAGER,
        labels::ROLE: labels::role::CONTROLPLANE,
        "app.kubernetes.io/name": RESOURCE_MANAGER,
        "app.kubernetes.io/part-of": "seed-system",
        "app.kubernetes.io/managed-by": "gardenlet",
    })
}

/// Labels of the pods, with those by which network policies let them connect somewhere.
fn pod_labels() -> Value {
    let mut labels = all_labels();
    for key in [network::TO_DNS, network::TO_RUNTIME_API_SERVER] {
        labels[key] = network::ALLOWED.into();
    }
    labels
}

/// The namespaces whose Services get network policies (gardener/gardener v1.150
/// pkg/component/gardener/resourcemanager).
fn network_policy_namespaces() -> Value {
    let with = |key: &str, value: &str| json!({"matchLabels": {key: value}});
    json!([
        with(labels::ROLE, labels::role::SHOOT),
        with(labels::ROLE, labels::role::EXTENSION),
        with(labels::ROLE, "istio-system"),
        with(labels::ROLE, "istio-ingress"),
        {"matchExpressions": [{"key": "handler.exposureclass.gardener.cloud/name", "operator": "Exists"}]},
        with("kubernetes.io/metadata.name", names::GARDEN_NAMESPACE),
    ])
}

/// `ResourceManagerConfiguration`, as JSON, which is YAML.
fn configuration() -> String {
    let configuration = json!({
        "apiVersion": "resourcemanager.config.gardener.cloud/v1alpha1",
        "kind": "ResourceManagerConfiguration",
        "leaderElection": {"leaderElect": true, "resourceNamespace": names::GARDEN_NAMESPACE},
        "server": {
            "healthProbes": {"port": HEALTH_PORT},
            "metrics": {"port": METRICS_PORT},
            "webhooks": {"port": WEBHOOK_PORT, "tls": {"serverCertDir": CERTIFICATE_FOLDER}},
        },
        "controllers": {
            "resourceClass": RESOURCE_CLASS,
            "garbageCollector": {"enabled": true},
            "networkPolicy": {"enabled": true, "namespaceSelectors": network_policy_namespaces()},
        },
    });
    format!("{configuration:#}\n")
}

fn deployment(settings: &ResourceManagerSettings) -> Deployment {
    let ResourceManagerSettings {
        image,
        replicas,
        serving,
        webhooks: _,
    } = settings;
    let probe = |path: &str, every_seconds: u32, tries: u32| {
        json!({
            "httpGet": {"path": path, "port": HEALTH_PORT, "scheme": "HTTP"},
            "periodSeconds": every_seconds,
            "failureThreshold": tries,
        })
    };
    typed(json!({
        "metadata": {"name": RESOURCE_MANAGER, "namespace": names::GARDEN_NAMESPACE, "labels": all_labels()},
        "spec": {
            "replicas": replicas,
            "revisionHistoryLimit": 2,
            "selector": {"matchLabels": selector()},
            "template": {
                "metadata": {
                    "labels": pod_labels(),
                    "annotations": {"checksum/configmap-config": checksum(&configuration())},
                },
                "spec": {
                    "serviceAccountName": RESOURCE_MANAGER,
                    "automountServiceAccountToken": true,
                    // What Pod Security's level `restricted` demands, as for components of Shoots. The group reads the mounted
                    // certificate.
                    "securityContext": {
                        "runAsNonRoot": true,
                        "runAsUser": 65_532,
                        "runAsGroup": 65_532,
                        "fsGroup": 65_532,
                        "seccompProfile": {"type": "RuntimeDefault"},
                    },
                    "priorityClassName": "gardener-system-critical",
                    "containers": [{
                        "name": RESOURCE_MANAGER,
                        "image": image,
                        "imagePullPolicy": "IfNotPresent",
                        "args": [SUBCOMMAND, format!("--config={CONFIGURATION_FOLDER}/{CONFIGURATION_FILE}")],
                        "ports": [
                            {"name": "health", "containerPort": HEALTH_PORT, "protocol": "TCP"},
                            {"name": "metrics", "containerPort": METRICS_PORT, "protocol": "TCP"},
                            {"name": "webhook", "containerPort": WEBHOOK_PORT, "protocol": "TCP"},
                        ],
                        // It holds the others back, which would look ten seconds later again.
                        "startupProbe": probe("/readyz", 1, 600),
                        "livenessProbe": probe("/healthz", 10, 3),
                        "readinessProbe": probe("/readyz", 10, 3),
                        "resources": {"requests": {"cpu": "23m", "memory": "47Mi"}},
                        "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
                        "volumeMounts": [
                            {"name": "config", "mountPath": CONFIGURATION_FOLDER, "readOnly": true},
                            {"name": "certificate", "mountPath": CERTIFICATE_FOLDER, "readOnly": true},
                        ],
                    }],
                    "volumes": [
                        {"name": "config", "configMap": {"name": RESOURCE_MANAGER}},
                        {"name": "certificate", "secret": {"secretName": serving.secret, "defaultMode": 0o640}},
                    ],
                },
            },
        },
    }))
}

/// 8 hex digits that change with the text: pods are replaced when their configuration changes.
fn checksum(text: &str) -> String {
    let digest = Sha256::digest(text);
    digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect()
}
