//! Small objects of a garden: a project with what a Shoot in it needs.

use serde_json::{Value, json};

/// What the garden's kinds are called in paths.
pub const CORE: &str = "/apis/core.gardener.cloud/v1beta1";
/// The same for bindings.
pub const SECURITY: &str = "/apis/security.gardener.cloud/v1alpha1";
/// The project's namespace.
pub const NAMESPACE: &str = "garden-p";

/// A registration of all that the Shoot needs.
#[must_use]
pub fn registration() -> Value {
    let own = ["Infrastructure", "ControlPlane", "Worker"].map(|kind| json!({"kind": kind, "type": "prov"}));
    let others = [
        ("Network", "net"),
        ("OperatingSystemConfig", "linux"),
        ("DNSRecord", "names"),
    ];
    let others = others.map(|(kind, type_)| json!({"kind": kind, "type": type_}));
    let resources: Vec<Value> = own.into_iter().chain(others).collect();
    json!({"apiVersion": "core.gardener.cloud/v1beta1", "kind": "ControllerRegistration", "metadata": {"name": "prov"},
        "spec": {"resources": resources}})
}

/// The project.
#[must_use]
pub fn project() -> Value {
    json!({"apiVersion": "core.gardener.cloud/v1beta1", "kind": "Project", "metadata": {"name": "p"},
        "spec": {"namespace": NAMESPACE}})
}

/// The cloud profile.
#[must_use]
pub fn profile() -> Value {
    json!({"apiVersion": "core.gardener.cloud/v1beta1", "kind": "CloudProfile", "metadata": {"name": "cloud"}, "spec": {
        "type": "prov", "regions": [{"name": "r"}],
        "kubernetes": {"versions": [{"version": "1.35.0", "classification": "supported"}]},
        "machineTypes": [{"name": "small", "cpu": 1, "gpu": 0, "memory": "1Gi", "architecture": "amd64"}],
        "machineImages": [{"name": "linux", "versions": [
            {"version": "1.0.0", "architectures": ["amd64"], "cri": [{"name": "containerd"}]}]}]}})
}

/// The seed.
#[must_use]
pub fn seed() -> Value {
    json!({"apiVersion": "core.gardener.cloud/v1beta1", "kind": "Seed", "metadata": {"name": "seed"}, "spec": {
        "provider": {"type": "prov", "region": "r"},
        "networks": {"pods": "10.1.0.0/16", "services": "10.2.0.0/16", "nodes": "10.3.0.0/16"},
        "dns": {"internal": {"domain": "internal.example", "type": "names",
            "credentialsRef": {"apiVersion": "v1", "kind": "Secret", "name": "n", "namespace": "garden"}},
            "provider": {"type": "names", "secretRef": {"name": "n", "namespace": "garden"}}}}})
}

/// A Secret of the project.
#[must_use]
pub fn secret(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": NAMESPACE}})
}

/// A binding to that Secret.
#[must_use]
pub fn binding(name: &str, secret: &str) -> Value {
    json!({"apiVersion": "security.gardener.cloud/v1alpha1", "kind": "CredentialsBinding",
        "metadata": {"name": name, "namespace": NAMESPACE}, "provider": {"type": "prov"},
        "credentialsRef": {"apiVersion": "v1", "kind": "Secret", "name": secret, "namespace": NAMESPACE}})
}

/// A Shoot with the binding `b`.
#[must_use]
pub fn shoot(name: &str) -> Value {
    json!({"apiVersion": "core.gardener.cloud/v1beta1", "kind": "Shoot", "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"cloudProfile": {"kind": "CloudProfile", "name": "cloud"}, "region": "r", "credentialsBindingName": "b",
            "kubernetes": {"version": "1.35"}, "networking": {"type": "net", "nodes": "10.250.0.0/16"},
            "provider": {"type": "prov", "workers": [{"name": "w", "minimum": 1, "maximum": 2, "machine": {"type": "small"}}]}}})
}

/// The smallest namespaced object of the garden: nothing is checked about it but its namespace.
#[must_use]
pub fn internal_secret(name: &str) -> Value {
    json!({"apiVersion": "core.gardener.cloud/v1beta1", "kind": "InternalSecret",
        "metadata": {"name": name, "namespace": NAMESPACE}})
}
