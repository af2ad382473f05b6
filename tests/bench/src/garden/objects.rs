//! The garden's objects and the requests about them. A Shoot here is complete enough to be accepted and placed; no extension
//! and no gardenlet stands behind it.

use http::Method;
use serde_json::{Value, json};
use tests_conformance::Call;

/// Shoots in a page of a list, as kubectl asks for.
pub(super) const PAGE: u32 = 500;

const CORE: &str = "/apis/core.gardener.cloud/v1beta1";
const SECURITY: &str = "/apis/security.gardener.cloud/v1alpha1";
const NAMESPACE: &str = "garden-bench";
const JSON: &str = "application/json";
const MERGE_PATCH: &str = "application/merge-patch+json";
/// Kinds and types that a Shoot and its Seed need.
const REGISTERED: [(&str, &str); 6] = [
    ("Infrastructure", "prov"),
    ("ControlPlane", "prov"),
    ("Worker", "prov"),
    ("Network", "net"),
    ("OperatingSystemConfig", "linux"),
    ("DNSRecord", "names"),
];
/// When the Seed's gardenlet has reported last: in the future, so that the garden does not miss it meanwhile.
const REPORTED: &str = "2200-01-01T00:00:00Z";

/// What must be there before the first Shoot, in this order.
pub(super) fn preparations() -> Vec<Call> {
    let mut calls: Vec<Call> = [
        (format!("{CORE}/controllerregistrations"), registration()),
        ("/api/v1/namespaces".to_owned(), namespace()),
        (format!("{CORE}/projects"), project()),
        (format!("{CORE}/cloudprofiles"), cloud_profile()),
        (format!("{CORE}/seeds"), seed("seed")),
        (
            format!("/api/v1/namespaces/{NAMESPACE}/secrets"),
            json!({"metadata": {"name": "account"}}),
        ),
        (
            format!("/api/v1/namespaces/{NAMESPACE}/configmaps"),
            json!({"metadata": {"name": "settings"}}),
        ),
        (
            format!("{SECURITY}/namespaces/{NAMESPACE}/credentialsbindings"),
            binding(),
        ),
    ]
    .into_iter()
    .map(|(path, body)| post(path, &body))
    .collect();
    let condition = json!({"type": "GardenletReady", "status": "True", "reason": "Measured", "message": "",
        "lastTransitionTime": REPORTED, "lastUpdateTime": REPORTED});
    let status = json!({"status": {"conditions": [condition]}});
    let path = format!("{CORE}/seeds/seed/status");
    calls.push(Call::new(Method::PATCH, path).with_body(MERGE_PATCH, status.to_string()));
    calls
}

/// Creates the Shoot of that number.
pub(super) fn create(number: u32) -> Call {
    create_one(&shoot(&name(number)))
}

/// Creates the Shoot of that number on a seed.
pub(super) fn create_on(number: u32, seed: &str) -> Call {
    let mut shoot = shoot(&name(number));
    shoot["spec"]["seedName"] = seed.into();
    create_one(&shoot)
}

/// Creates the Shoot of that number on a seed, with an extension of this type.
pub(super) fn create_with_extension(number: u32, seed: &str, type_: &str) -> Call {
    let mut shoot = shoot(&name(number));
    shoot["spec"]["seedName"] = seed.into();
    shoot["spec"]["extensions"] = json!([{"type": type_}]);
    create_one(&shoot)
}

/// Registers an extension of this type for Shoots that name it.
pub(super) fn register_extension(type_: &str) -> Call {
    let resources = json!([{"kind": "Extension", "type": type_}]);
    let registration = json!({"apiVersion": "core.gardener.cloud/v1beta1", "kind": "ControllerRegistration",
        "metadata": {"name": type_}, "spec": {"resources": resources}});
    post(format!("{CORE}/controllerregistrations"), &registration)
}

/// Notes a text in the Shoot of that number, as annotation `patched`.
pub(super) fn note(number: u32, text: &str) -> Call {
    let body = json!({"metadata": {"annotations": {"patched": text}}});
    Call::new(Method::PATCH, format!("{}/{}", shoots(), name(number))).with_body(MERGE_PATCH, body.to_string())
}

/// Creates a Seed of this name.
pub(super) fn create_seed(name: &str) -> Call {
    post(format!("{CORE}/seeds"), &seed(name))
}

/// Follows the Shoots of a seed from a version on, as its gardenlet does.
pub(super) fn watch_of_seed(seed: &str, version: &str) -> Call {
    let selector = format!("name.seed.gardener.cloud%2F{seed}%3Dtrue");
    let from = format!("watch=1&allowWatchBookmarks=true&resourceVersion={version}");
    Call::new(Method::GET, format!("{CORE}/shoots?{from}&labelSelector={selector}"))
}

/// Creates this Shoot.
pub(super) fn create_one(shoot: &Value) -> Call {
    post(shoots(), shoot)
}

/// Changes one field of the spec.
pub(super) fn patch(number: u32) -> Call {
    let body = json!({"spec": {"purpose": "development"}});
    Call::new(Method::PATCH, format!("{}/{}", shoots(), name(number))).with_body(MERGE_PATCH, body.to_string())
}

/// Reads all Shoots.
pub(super) fn list() -> Call {
    Call::new(Method::GET, shoots())
}

/// Reads the page that begins at a token; the first one where it is empty.
pub(super) fn page(token: &str) -> Call {
    Call::new(Method::GET, format!("{}?limit={PAGE}&continue={token}", shoots()))
}

/// Reads one Shoot that has no seed.
pub(super) fn without_seed() -> Call {
    Call::new(
        Method::GET,
        format!("{}?fieldSelector=spec.seedName%3D&limit=1", shoots()),
    )
}

/// Where the next page begins: the `continue` of the list itself, whose metadata come before its items.
pub(super) fn continue_token(list: &[u8]) -> Option<String> {
    let head = &list[..memchr::memmem::find(list, br#""items":"#)?];
    let mark: &[u8] = br#""continue":""#;
    let token = &head[memchr::memmem::find(head, mark)? + mark.len()..];
    let end = memchr::memchr(b'"', token)?;
    (end > 0).then(|| String::from_utf8_lossy(&token[..end]).into_owned())
}

/// Whether a list has no items.
pub(super) fn is_empty_list(list: &[u8]) -> bool {
    memchr::memmem::find(list, br#""items":[]"#).is_some()
}

/// A Shoot with one pool of workers.
pub(super) fn shoot(name: &str) -> Value {
    let workers = json!([{"name": "pool", "minimum": 1, "maximum": 2, "machine": {"type": "small"}}]);
    json!({"apiVersion": "core.gardener.cloud/v1beta1", "kind": "Shoot",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "cloudProfile": {"kind": "CloudProfile", "name": "cloud"}, "region": "r",
            "credentialsBindingName": "account", "kubernetes": {"version": "1.35.0"},
            "networking": {"type": "net", "nodes": "10.250.0.0/16"},
            "provider": {"type": "prov", "workers": workers}}})
}

fn shoots() -> String {
    format!("{CORE}/namespaces/{NAMESPACE}/shoots")
}

/// At most 21 characters may be in the names of a project and of its Shoot together.
fn name(number: u32) -> String {
    format!("s{number:07}")
}

fn post(path: String, body: &Value) -> Call {
    Call::new(Method::POST, path).with_body(JSON, body.to_string())
}

fn registration() -> Value {
    let resources = REGISTERED.map(|(kind, type_)| json!({"kind": kind, "type": type_}));
    json!({"apiVersion": "core.gardener.cloud/v1beta1", "kind": "ControllerRegistration",
        "metadata": {"name": "all"}, "spec": {"resources": resources}})
}

/// As the garden makes it for a project, so that it does not have to be waited for.
fn namespace() -> Value {
    let labels = json!({"gardener.cloud/role": "project", "project.gardener.cloud/name": "bench"});
    json!({"metadata": {"name": NAMESPACE, "labels": labels}})
}

fn project() -> Value {
    json!({"apiVersion": "core.gardener.cloud/v1beta1", "kind": "Project",
        "metadata": {"name": "bench"}, "spec": {"namespace": NAMESPACE}})
}

fn cloud_profile() -> Value {
    let image = json!({"version": "1.0.0", "architectures": ["amd64"], "cri": [{"name": "containerd"}]});
    json!({"apiVersion": "core.gardener.cloud/v1beta1", "kind": "CloudProfile", "metadata": {"name": "cloud"},
        "spec": {
            "type": "prov", "regions": [{"name": "r"}],
            "kubernetes": {"versions": [{"version": "1.35.0", "classification": "supported"}]},
            "machineTypes": [{"name": "small", "cpu": 1, "gpu": 0, "memory": "1Gi", "architecture": "amd64"}],
            "machineImages": [{"name": "linux", "versions": [image]}]}})
}

fn seed(name: &str) -> Value {
    let account = json!({"name": "names", "namespace": "garden"});
    let internal = json!({"domain": "internal.example", "type": "names",
        "credentialsRef": {"apiVersion": "v1", "kind": "Secret", "name": "names", "namespace": "garden"}});
    json!({"apiVersion": "core.gardener.cloud/v1beta1", "kind": "Seed", "metadata": {"name": name},
        "spec": {
            "provider": {"type": "prov", "region": "r"},
            "networks": {"pods": "10.1.0.0/16", "services": "10.2.0.0/16", "nodes": "10.3.0.0/16"},
            "dns": {"internal": internal, "provider": {"type": "names", "secretRef": account}}}})
}

fn binding() -> Value {
    json!({"apiVersion": "security.gardener.cloud/v1alpha1", "kind": "CredentialsBinding",
        "metadata": {"name": "account"}, "provider": {"type": "prov"},
        "credentialsRef": {"apiVersion": "v1", "kind": "Secret", "name": "account", "namespace": NAMESPACE}})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn continue_token_is_read_from_the_list_and_not_from_an_item() {
        let item = r#""items":[{"metadata":{"annotations":{"continue":"no"}}}]}"#;
        let with = format!(r#"{{"kind":"ShootList","metadata":{{"continue":"abc","resourceVersion":"7"}},{item}"#);
        assert_eq!(continue_token(with.as_bytes()).as_deref(), Some("abc"));
        let last = format!(r#"{{"kind":"ShootList","metadata":{{"continue":"","resourceVersion":"7"}},{item}"#);
        assert_eq!(continue_token(last.as_bytes()), None);
        let without = format!(r#"{{"kind":"ShootList","metadata":{{"resourceVersion":"7"}},{item}"#);
        assert_eq!(continue_token(without.as_bytes()), None);
    }

    #[test]
    fn list_with_an_item_is_not_empty() {
        assert!(is_empty_list(br#"{"metadata":{},"items":[]}"#));
        assert!(!is_empty_list(br#"{"metadata":{},"items":[{"metadata":{}}]}"#));
    }
}
