//! What a garden and a seed hold before their first component starts: manifests that anyone can read, in
//! `manifests/`, and the few objects whose names the settings choose. Applied once by the bootstrap identity.

use api_meta::Fault;
use base_client::fault_of;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client};
use serde_json::{Value, json};

use super::settings::{SeedSettings, Settings};

/// Field manager of the bootstrap.
const MANAGER: &str = "orangery-bootstrap";

const GARDEN: &str = include_str!("../../manifests/garden.yaml");
const SEED: &str = include_str!("../../manifests/seed.yaml");

/// Domain of the addresses that components use; every Shoot gets a name below it.
const DOMAIN_INTERNAL: &str = "internal.local.gardener.cloud";
/// Domain of the addresses that people use.
const DOMAIN_EXTERNAL: &str = "external.local.gardener.cloud";
/// The Secret behind the seed's DNS provider. The local one needs no credentials, but the reference must hold.
const DNS_SECRET: &str = "dns-local";
/// The Secret behind the seed's backup provider.
const BACKUP_SECRET: &str = "backup-local";

/// Folder of backup buckets, below the data folder.
pub const BACKUPS: &str = "backups";

/// Applies what the garden needs.
///
/// # Errors
/// Any object that the garden refuses, by name.
pub(super) async fn garden(client: &Client, settings: &Settings) -> Result<(), Fault> {
    apply_all(client, documents(GARDEN)?).await?;
    apply_all(client, vec![secret(DNS_SECRET), secret(BACKUP_SECRET)]).await?;
    apply_all(client, provider(settings)).await
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
    let object: DynamicObject =
        serde_json::from_value(object).map_err(|error| Fault::bug(format!("a manifest is no object: {error}")))?;
    let types = object.types.clone().unwrap_or_default();
    let gvk =
        GroupVersionKind::try_from(&types).map_err(|error| Fault::bug(format!("a manifest has no kind: {error}")))?;
    let resource = ApiResource::from_gvk(&gvk);
    let name = object.metadata.name.clone().unwrap_or_default();
    let api: Api<DynamicObject> = match &object.metadata.namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    api.patch(&name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(&object))
        .await
        .map_err(|error| fault_of(error, &format!("apply {} {name}", types.kind)))?;
    Ok(())
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

/// How the local provider is made known: it is primary for every kind that the first Shoot needs.
fn provider(settings: &Settings) -> Vec<Value> {
    let seed = &settings.seed;
    let mut args = vec![
        format!("--provider-type={}", seed.provider_type),
        format!("--data-dir={}", settings.data_dir.join(BACKUPS).display()),
    ];
    args.extend(settings.dns.map(|address| format!("--dns-address={address}")));
    let name = format!("provider-{}", seed.provider_type.to_lowercase());
    let kinds = [
        "BackupBucket",
        "BackupEntry",
        "ControlPlane",
        "DNSRecord",
        "Infrastructure",
        "Network",
        "OperatingSystemConfig",
        "Worker",
    ];
    let resources: Vec<Value> = kinds
        .into_iter()
        .map(|kind| json!({"kind": kind, "type": seed.provider_type, "primary": true}))
        .chain([json!({"kind": "Extension", "type": format!("{}-ext", seed.provider_type), "primary": true})])
        .collect();
    vec![
        json!({
            "apiVersion": "core.gardener.cloud/v1beta1",
            "kind": "ControllerDeployment",
            "metadata": {"name": name},
            "type": "builtin",
            "providerConfig": {
                "image": "provider-local",
                "args": args,
                "replicas": seed.provider_replicas,
            },
        }),
        json!({
            "apiVersion": "core.gardener.cloud/v1beta1",
            "kind": "ControllerRegistration",
            "metadata": {"name": name},
            "spec": {"deployment": {"deploymentRefs": [{"name": name}]}, "resources": resources},
        }),
    ]
}

/// The Seed that the gardenlet registers.
pub(super) fn seed_object(seed: &SeedSettings) -> Value {
    let backup =
        json!({"provider": seed.provider_type, "region": seed.region, "credentialsRef": secret_ref(BACKUP_SECRET)});
    let mut object = json!({
        "apiVersion": "core.gardener.cloud/v1beta1",
        "kind": "Seed",
        "metadata": {"name": seed.name},
        "spec": {
            "provider": {"type": seed.provider_type, "region": seed.region},
            "dns": {
                "provider": {"type": seed.provider_type, "credentialsRef": secret_ref(DNS_SECRET)},
                "internal": {"type": seed.provider_type, "domain": DOMAIN_INTERNAL, "credentialsRef": secret_ref(DNS_SECRET)},
                "defaults": [{"type": seed.provider_type, "domain": DOMAIN_EXTERNAL, "credentialsRef": secret_ref(DNS_SECRET)}],
            },
            "networks": {"nodes": "172.18.0.0/16", "pods": "10.1.0.0/16", "services": "10.2.0.0/16"},
        },
    });
    if seed.backup {
        object["spec"]["backup"] = backup;
    }
    object
}

#[cfg(test)]
mod tests {
    use super::{GARDEN, SEED, documents};

    #[test]
    fn every_manifest_names_its_kind_and_itself() {
        for text in [GARDEN, SEED] {
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
    fn no_role_is_handed_to_system_masters() {
        for text in [GARDEN, SEED] {
            assert!(!text.contains("system:masters"));
        }
    }
}
