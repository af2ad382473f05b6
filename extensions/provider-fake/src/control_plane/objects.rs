//! The objects of a control plane: the cloud controller manager in the seed and its rights in the shoot. Pure.

use std::collections::BTreeMap;

use api_meta::annotations;
use api_meta::labels::{self, network, role};
use extensions_sdk::ClusterView;
use extensions_sdk::shoot_client::ShootAccess;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::provider_status::InfrastructureStatus;

/// The program, its Deployment and its service account.
pub(crate) const NAME: &str = "cloud-controller-manager";
/// The ConfigMap that it reads, which webhooks of others look for too (gardener/gardener v1.150
/// extensions/pkg/webhook/controlplane/genericmutator).
const CONFIG: &str = "cloud-provider-config";
const CONFIG_KEY: &str = "cloudprovider.conf";
/// The Secret with the user's credentials.
pub(crate) const CREDENTIALS: &str = "cloudprovider";
const PORT: u16 = 10_258;
/// User and group of the program: `nonroot` of the images that Kubernetes is released in.
const USER: u32 = 65_532;

/// What the objects are made from.
pub(crate) struct Input<'a> {
    pub(crate) cluster: &'a ClusterView,
    pub(crate) region: &'a str,
    pub(crate) infrastructure: &'a InfrastructureStatus,
    pub(crate) feature_gates: &'a BTreeMap<String, bool>,
    pub(crate) image: &'a str,
    pub(crate) replicas: i32,
    pub(crate) credentials: &'a Secret,
    pub(crate) server: &'a Secret,
}

impl Input<'_> {
    /// What runs in the seed.
    pub(crate) fn in_seed(&self) -> Vec<Value> {
        let config = self.config();
        let config_map = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": CONFIG, "namespace": self.cluster.name},
            "data": {CONFIG_KEY: config},
        });
        vec![config_map, self.deployment(&config)]
    }

    /// What the program may do in the shoot (kubernetes/kubernetes v1.35
    /// staging/src/k8s.io/cloud-provider: nodes, Services of type LoadBalancer, events, Leases).
    pub(crate) fn in_shoot(&self) -> Vec<Value> {
        let access = ShootAccess::new(NAME);
        let (namespace, account) = access.service_account();
        let rule = |group: &str, resources: &[&str], verbs: &[&str]| json!({"apiGroups": [group], "resources": resources, "verbs": verbs});
        let read = &["get", "list", "watch"];
        let name = format!("extensions.gardener.cloud:provider-fake:{NAME}");
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": name},
            "rules": [
                rule("", &["nodes"], &["get", "list", "watch", "update", "patch", "delete"]),
                rule("", &["nodes/status", "services/status"], &["patch", "update"]),
                rule("", &["services"], &["get", "list", "watch", "update", "patch"]),
                rule("", &["endpoints", "serviceaccounts"], read),
                rule("", &["events"], &["create", "patch", "update"]),
                rule("coordination.k8s.io", &["leases"], &["get", "list", "watch", "create", "update"]),
            ],
        });
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
        });
        vec![role, binding]
    }

    fn config(&self) -> String {
        let InfrastructureStatus {
            network,
            nodes_security_group,
            zones,
            ..
        } = self.infrastructure;
        let subnets: Vec<&str> = zones.iter().map(|zone| zone.subnet.as_str()).collect();
        let config = json!({
            "cluster": self.cluster.name, "network": network, "region": self.region,
            "securityGroup": nodes_security_group, "subnets": subnets,
        });
        config.to_string()
    }

    fn command(&self) -> Vec<String> {
        let mut command = vec![
            "/fake-cloud-controller-manager".to_owned(),
            "--authentication-kubeconfig=/var/run/secrets/kubeconfig/kubeconfig".to_owned(),
            format!("--cloud-config=/etc/kubernetes/cloudprovider/{CONFIG_KEY}"),
            format!("--cluster-name={}", self.cluster.name),
            "--kubeconfig=/var/run/secrets/kubeconfig/kubeconfig".to_owned(),
            "--leader-elect=true".to_owned(),
            format!("--secure-port={PORT}"),
            "--tls-cert-file=/var/lib/server/tls.crt".to_owned(),
            "--tls-private-key-file=/var/lib/server/tls.key".to_owned(),
            "--use-service-account-credentials=false".to_owned(),
        ];
        if !self.feature_gates.is_empty() {
            let gates: Vec<String> = self
                .feature_gates
                .iter()
                .map(|(name, on)| format!("{name}={on}"))
                .collect();
            command.push(format!("--feature-gates={}", gates.join(",")));
        }
        command
    }

    fn deployment(&self, config: &str) -> Value {
        let labels = json!({labels::APP: "kubernetes", labels::COMPONENT_ROLE: NAME});
        let mut of_pod = labels.clone();
        for key in [network::TO_DNS, network::TO_PUBLIC_NETWORKS, &to_api_server()] {
            of_pod[key] = network::ALLOWED.into();
        }
        of_pod[labels::ROLE] = role::CONTROLPLANE.into();
        // The token is left out: the program reads it again when it is renewed.
        let checksums = json!({
            "checksum/configmap-cloud-provider-config": checksum([("", config.as_bytes())]),
            "checksum/secret-cloudprovider": checksum_of(self.credentials),
            "checksum/secret-cloud-controller-manager-server": checksum_of(self.server),
        });
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": NAME, "namespace": self.cluster.name, "labels": of_pod},
            "spec": {
                "replicas": self.replicas,
                "revisionHistoryLimit": 1,
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": of_pod, "annotations": checksums},
                    "spec": {
                        "automountServiceAccountToken": false,
                        "priorityClassName": "gardener-system-300",
                        "securityContext": {
                            "runAsNonRoot": true, "runAsUser": USER, "runAsGroup": USER, "fsGroup": USER,
                            "seccompProfile": {"type": "RuntimeDefault"},
                        },
                        "containers": [self.container()],
                        "volumes": self.volumes(),
                    },
                },
            },
        })
    }

    fn container(&self) -> Value {
        json!({
            "name": NAME,
            "image": self.image,
            "imagePullPolicy": "IfNotPresent",
            "command": self.command(),
            "livenessProbe": {
                "httpGet": {"path": "/healthz", "port": PORT, "scheme": "HTTPS"},
                "initialDelaySeconds": 15, "periodSeconds": 10, "timeoutSeconds": 15, "failureThreshold": 2,
            },
            "ports": [{"name": "metrics", "containerPort": PORT, "protocol": "TCP"}],
            "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}},
            "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
            "volumeMounts": [
                {"name": "kubeconfig", "mountPath": "/var/run/secrets/kubeconfig", "readOnly": true},
                {"name": "config", "mountPath": "/etc/kubernetes/cloudprovider", "readOnly": true},
                {"name": "credentials", "mountPath": "/var/run/secrets/cloudprovider", "readOnly": true},
                {"name": "server", "mountPath": "/var/lib/server", "readOnly": true},
            ],
        })
    }

    fn volumes(&self) -> Value {
        let annotations = self.cluster.object().metadata.annotations.as_ref();
        let generic = annotations.and_then(|all| all.get(annotations::GENERIC_TOKEN_KUBECONFIG_SECRET_NAME));
        let generic = generic.map_or("generic-token-kubeconfig", String::as_str);
        let item = |secret: &str, key: &str| json!({"secret": {"name": secret, "items": [{"key": key, "path": key}], "optional": false}});
        json!([
            {"name": "kubeconfig", "projected": {"defaultMode": 0o640, "sources": [
                item(generic, "kubeconfig"),
                item(&ShootAccess::new(NAME).secret(), "token"),
            ]}},
            {"name": "config", "configMap": {"name": CONFIG}},
            {"name": "credentials", "secret": {"secretName": CREDENTIALS, "defaultMode": 0o640}},
            {"name": "server", "secret": {
                "secretName": self.server.metadata.name.as_deref().unwrap_or_default(), "defaultMode": 0o640,
            }},
        ])
    }
}

/// The label that lets a pod connect to the shoot's API server.
fn to_api_server() -> String {
    format!("{}to-kube-apiserver-tcp-443", network::PREFIX)
}

fn checksum_of(secret: &Secret) -> String {
    let data = secret.data.iter().flatten();
    checksum(data.map(|(key, ByteString(value))| (key.as_str(), value.as_slice())))
}

/// Changes with each key and each value.
fn checksum<'a>(parts: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> String {
    let mut digest = Sha256::new();
    for (key, value) in parts {
        for part in [key.as_bytes(), value] {
            // Lengths first, so that no two lists run into the same bytes.
            digest.update((part.len() as u64).to_be_bytes());
            digest.update(part);
        }
    }
    digest
        .finalize()
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_change_with_keys_and_values_and_where_one_ends() {
        let of = |parts: &[(&str, &str)]| checksum(parts.iter().map(|(key, value)| (*key, value.as_bytes())));
        assert_eq!(of(&[("a", "1")]), of(&[("a", "1")]));
        assert_ne!(of(&[("a", "1")]), of(&[("a", "2")]));
        assert_ne!(of(&[("a", "1")]), of(&[("b", "1")]));
        assert_ne!(of(&[("a", "1b"), ("c", "")]), of(&[("a", "1"), ("bc", "")]));
    }
}
