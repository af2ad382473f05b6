//! What a garden and a seed hold before their first component starts: manifests that anyone can read, in
//! `manifests/`, and the few objects whose names the settings choose. Applied once by the bootstrap identity.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;

use api_extensions::ExtensionKind;
use api_meta::Fault;
use base_client::fault_of;
use k8s_openapi::ByteString;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client};
use serde_json::{Value, json};

use super::provider_chart;
use super::settings::{SeedNetworks, SeedSettings, Settings};

/// Field manager of the bootstrap.
const MANAGER: &str = "orangery-bootstrap";
/// Why a server refuses a field of an apply that another manager has set otherwise.
const CONFLICT: &str = "FieldManagerConflict";

const GARDEN: &str = include_str!("../manifests/garden.yaml");
const SEED: &str = include_str!("../manifests/seed.yaml");
const GARDEN_PROCESSES: &str = include_str!("../manifests/garden-processes.yaml");
const SEED_PROCESSES: &str = include_str!("../manifests/seed-processes.yaml");

/// Objects that only a landscape in one process has: its people are cluster-admin, and an operator installs what has no chart.
const OF_ONE_PROCESS: [&str; 2] = [super::ADMINS, "orangery:builtin-operator"];

/// Domain of the addresses that components use; every Shoot gets a name below it.
const DOMAIN_INTERNAL: &str = "internal.local.gardener.cloud";
/// Domain of the addresses that people use.
const DOMAIN_EXTERNAL: &str = "external.local.gardener.cloud";
/// The Secret behind a seed's DNS provider, before the seed's name: no seed may read another's. The local one needs no
/// credentials, but the reference must hold.
const DNS_SECRET_PREFIX: &str = "dns-";
/// The Secret behind a seed's backup provider, alike.
const BACKUP_SECRET_PREFIX: &str = "backup-";

/// Folder of backup buckets, below the data folder.
pub const BACKUPS: &str = "backups";

/// Applies what every garden needs, with or without a seed: namespaces, and the rights of its parts.
///
/// # Errors
/// Any object that the garden refuses, by name.
pub async fn apply_garden(client: &Client) -> Result<(), Fault> {
    apply_all(client, documents(GARDEN)?).await
}

/// What a garden holds whose components are processes of their own.
///
/// # Errors
/// A manifest that is not YAML, which is a bug.
pub fn manifests_of_garden() -> Result<Vec<Value>, Fault> {
    of_processes(GARDEN, GARDEN_PROCESSES)
}

/// What a seed holds that is a cluster elsewhere.
///
/// # Errors
/// A manifest that is not YAML, which is a bug.
pub fn manifests_of_seed() -> Result<Vec<Value>, Fault> {
    of_processes(SEED, SEED_PROCESSES)
}

fn of_processes(shared: &str, more: &str) -> Result<Vec<Value>, Fault> {
    let mut objects = documents(shared)?;
    objects.retain(|object| !OF_ONE_PROCESS.iter().any(|name| object["metadata"]["name"] == *name));
    objects.extend(documents(more)?);
    Ok(objects)
}

/// Applies what the garden of a landscape needs.
///
/// # Errors
/// Any object that the garden refuses, by name.
pub(super) async fn garden(client: &Client, settings: &Settings) -> Result<(), Fault> {
    apply_garden(client).await?;
    for seed in &settings.seeds {
        apply_all(client, secrets_of_seed(&seed.name).into()).await?;
    }
    for type_ in provider_types(settings) {
        let replicas = settings.provider_replicas;
        for object in provider_objects(type_, &settings.data_dir.join(BACKUPS), settings.dns, replicas)? {
            offer(client, object).await?;
        }
    }
    Ok(())
}

fn provider_types(settings: &Settings) -> BTreeSet<&str> {
    settings.seeds.iter().map(|seed| seed.provider_type.as_str()).collect()
}

fn provider_name(provider_type: &str) -> String {
    format!("provider-{}", provider_type.to_lowercase())
}

/// Names of the registrations that the landscape brings.
pub(super) fn registrations(settings: &Settings) -> BTreeSet<String> {
    provider_types(settings).into_iter().map(provider_name).collect()
}

/// Applies what the seed needs.
///
/// # Errors
/// Any object that the seed refuses, by name.
pub(super) async fn seed(client: &Client) -> Result<(), Fault> {
    apply_all(client, documents(SEED)?).await
}

/// Applies manifests in their order with server-side apply.
///
/// # Errors
/// The first object that is refused, by kind and name.
pub async fn apply_all(client: &Client, objects: Vec<Value>) -> Result<(), Fault> {
    for object in objects {
        apply(client, object).await?;
    }
    Ok(())
}

async fn apply(client: &Client, object: Value) -> Result<(), Fault> {
    let (api, name) = place(client, &object)?;
    let ours = PatchParams::apply(MANAGER).force();
    match api.patch(&name, &ours, &Patch::Apply(&object)).await {
        Ok(_) => Ok(()),
        Err(error) => Err(refused(error, &object)),
    }
}

/// Applies what its users may change: a field that another manager has set keeps its value.
async fn offer(client: &Client, mut object: Value) -> Result<(), Fault> {
    let (api, name) = place(client, &object)?;
    let ours = PatchParams::apply(MANAGER);
    while let Err(error) = api.patch(&name, &ours, &Patch::Apply(&object)).await {
        let before = object.clone();
        for field in conflicts(&error) {
            leave_out(&mut object, &field);
            leave_out(&mut object, &in_v1beta1(&field));
        }
        if object == before {
            return Err(refused(error, &object));
        }
    }
    Ok(())
}

/// Where an object is written, and its name.
fn place(client: &Client, object: &Value) -> Result<(Api<DynamicObject>, String), Fault> {
    let object: DynamicObject = serde_json::from_value(object.clone())
        .map_err(|error| Fault::bug(format!("a manifest is no object: {error}")))?;
    let types = object.types.unwrap_or_default();
    let gvk =
        GroupVersionKind::try_from(&types).map_err(|error| Fault::bug(format!("a manifest has no kind: {error}")))?;
    let resource = ApiResource::from_gvk(&gvk);
    let api = match &object.metadata.namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    Ok((api, object.metadata.name.unwrap_or_default()))
}

fn refused(error: kube::Error, object: &Value) -> Fault {
    let text = |pointer| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    fault_of(error, &format!("apply {} {}", text("/kind"), text("/metadata/name")))
}

/// The fields that others have set otherwise, as a refused apply names them: `.spec.replicas`.
fn conflicts(error: &kube::Error) -> Vec<String> {
    let kube::Error::Api(status) = error else {
        return Vec::new();
    };
    let causes = status.details.iter().flat_map(|details| &details.causes);
    causes
        .filter(|cause| cause.reason == CONFLICT)
        .map(|cause| cause.field.clone())
        .collect()
}

/// Where a field of a ControllerDeployment's other version stands in the version that is offered: a conflict names it as
/// whoever set it wrote it.
fn in_v1beta1(field: &str) -> String {
    let Some(rest) = field.strip_prefix(".helm") else {
        return field.to_owned();
    };
    format!(".providerConfig{}", rest.replacen(".rawChart", ".chart", 1))
}

/// Takes a field away; of an item of a list, the list.
fn leave_out(object: &mut Value, field: &str) {
    let field = field.split('[').next().unwrap_or_default().trim_start_matches('.');
    let (parents, name) = field.rsplit_once('.').unwrap_or(("", field));
    let mut parents = parents.split('.').filter(|name| !name.is_empty());
    let parent = parents.try_fold(object, |at, name| at.get_mut(name));
    if let Some(parent) = parent.and_then(Value::as_object_mut) {
        parent.remove(name);
    }
}

/// The documents of a manifest file.
///
/// # Errors
/// Text that is not YAML.
pub fn documents(yaml: &str) -> Result<Vec<Value>, Fault> {
    serde_saphyr::from_multiple(yaml).map_err(|error| Fault::bug(format!("a manifest is not YAML: {error}")))
}

fn secret(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "garden"}, "type": "Opaque"})
}

fn secret_ref(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "name": name, "namespace": "garden"})
}

/// The Secrets of the garden that the Seed of this name refers to.
#[must_use]
pub fn secrets_of_seed(name: &str) -> [Value; 2] {
    [DNS_SECRET_PREFIX, BACKUP_SECRET_PREFIX].map(|prefix| secret(&format!("{prefix}{name}")))
}

/// How the local provider is made known, by its own chart: it is primary for every kind that the first Shoot needs. Its buckets
/// are folders below `backups`; it answers DNS queries at `dns` if there is one.
///
/// # Errors
/// The chart cannot be packed, which is a bug.
pub fn provider_objects(
    provider_type: &str,
    backups: &Path,
    dns: Option<SocketAddr>,
    replicas: i32,
) -> Result<Vec<Value>, Fault> {
    let mut args = vec![
        format!("--provider-type={provider_type}"),
        format!("--data-dir={}", backups.display()),
    ];
    args.extend(dns.map(|address| format!("--dns-address={address}")));
    let name = provider_name(provider_type);
    let resource = |kind: &ExtensionKind| {
        let type_ = match kind {
            ExtensionKind::Extension => format!("{provider_type}-ext"),
            _ => provider_type.to_owned(),
        };
        json!({"kind": kind.kind(), "type": type_, "primary": true})
    };
    let resources: Vec<Value> = extensions_provider_local::KINDS.iter().map(resource).collect();
    Ok(vec![
        json!({
            "apiVersion": "core.gardener.cloud/v1beta1",
            "kind": "ControllerDeployment",
            "metadata": {"name": name},
            "type": "helm",
            "providerConfig": {
                "chart": ByteString(provider_chart::archive()?),
                "values": {"args": args, "replicas": replicas},
            },
        }),
        json!({
            "apiVersion": "core.gardener.cloud/v1beta1",
            "kind": "ControllerRegistration",
            "metadata": {"name": name},
            "spec": {"deployment": {"deploymentRefs": [{"name": name}]}, "resources": resources},
        }),
    ])
}

/// The Seed that the gardenlet registers.
#[must_use]
pub fn seed_object(seed: &SeedSettings) -> Value {
    let SeedNetworks { nodes, pods, services } = seed.networks;
    let of_seed = |prefix: &str| secret_ref(&format!("{prefix}{}", seed.name));
    let (backup, dns) = (of_seed(BACKUP_SECRET_PREFIX), of_seed(DNS_SECRET_PREFIX));
    let backup = json!({"provider": seed.provider_type, "region": seed.region, "credentialsRef": backup});
    let mut object = json!({
        "apiVersion": "core.gardener.cloud/v1beta1",
        "kind": "Seed",
        "metadata": {"name": seed.name, "labels": seed.labels},
        "spec": {
            "provider": {"type": seed.provider_type, "region": seed.region},
            "dns": {
                "provider": {"type": seed.provider_type, "credentialsRef": dns},
                "internal": {"type": seed.provider_type, "domain": DOMAIN_INTERNAL, "credentialsRef": dns},
                "defaults": [{"type": seed.provider_type, "domain": DOMAIN_EXTERNAL, "credentialsRef": dns}],
            },
            "networks": {"nodes": nodes, "pods": pods, "services": services},
        },
    });
    if seed.backup {
        object["spec"]["backup"] = backup;
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_manifest_names_its_kind_and_itself() {
        for text in [GARDEN, SEED, GARDEN_PROCESSES, SEED_PROCESSES] {
            for document in documents(text).unwrap() {
                assert!(
                    document["apiVersion"].is_string() && document["kind"].is_string(),
                    "{document}"
                );
                assert!(document["metadata"]["name"].is_string(), "{document}");
            }
        }
    }

    #[test]
    fn a_field_is_left_out_by_the_path_that_a_conflict_names() {
        let mut object = json!({"a": {"b": {"c": 1, "d": 2}, "list": [{"k": 1}]}, "e": 3});
        for field in [".a.b.c", ".a.list[k=\"x\"].v", ".a.list[k=\"y\"].v", ".not.there", ".e"] {
            leave_out(&mut object, field);
        }
        assert_eq!(object, json!({"a": {"b": {"d": 2}}}));
    }

    #[tokio::test(start_paused = true)]
    async fn an_offer_keeps_what_users_changed_in_either_version() {
        let settings = control_plane_garden_api::GardenSettings {
            entropy: base_clock::Entropy::seeded(1),
            gateway: None,
            plugins: control_plane_garden_api::AdmissionPlugins::default(),
        };
        let kinds = control_plane_garden_api::kinds(&settings);
        let garden = tests_kit::embedded_with("garden", kinds, |builder| builder).await;
        let client = garden.admin();
        let offered = |chart: &str| {
            json!({"apiVersion": "core.gardener.cloud/v1beta1", "kind": "ControllerDeployment", "metadata": {"name": "d"},
                "type": "helm", "providerConfig": {"chart": chart, "values": {"args": ["a"], "replicas": 1, "size": 1}}})
        };
        offer(&client, offered("b25l")).await.unwrap();
        let v1: Api<api_core::v1::ControllerDeployment> = Api::all(client.clone());
        let v1beta1: Api<api_core::v1beta1::ControllerDeployment> = Api::all(client.clone());
        let user = PatchParams {
            field_manager: Some("user".to_owned()),
            ..PatchParams::default()
        };
        let in_v1 = Patch::Merge(json!({"helm": {"values": {"replicas": 2}}}));
        v1.patch("d", &user, &in_v1).await.unwrap();
        let in_v1beta1 = Patch::Merge(json!({"providerConfig": {"values": {"args": ["b"]}}}));
        v1beta1.patch("d", &user, &in_v1beta1).await.unwrap();

        offer(&client, offered("dHdv")).await.unwrap();
        let after = v1beta1.get("d").await.unwrap().provider_config.value();
        assert_eq!(
            after,
            json!({"chart": "dHdv", "values": {"args": ["b"], "replicas": 2, "size": 1}}),
            "the chart is the new one"
        );
        let chart_of_user = Patch::Merge(json!({"helm": {"rawChart": "bWluZQ=="}}));
        v1.patch("d", &user, &chart_of_user).await.unwrap();
        offer(&client, offered("dGhyZWU=")).await.unwrap();
        let after = v1beta1.get("d").await.unwrap().provider_config.value();
        assert_eq!(after["chart"], "bWluZQ==");
    }

    #[test]
    fn processes_of_their_own_get_no_cluster_admin() {
        for objects in [manifests_of_garden().unwrap(), manifests_of_seed().unwrap()] {
            assert!(objects.len() > 5);
            assert!(
                objects
                    .iter()
                    .all(|object| object["roleRef"]["name"] != "cluster-admin")
            );
        }
    }

    #[test]
    fn no_role_is_handed_to_system_masters() {
        for text in [GARDEN, SEED] {
            assert!(!text.contains("system:masters"));
        }
    }
}
