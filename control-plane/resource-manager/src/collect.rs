//! Deletes Secrets and ConfigMaps of the target that are labelled as collectable and that nothing refers to any more
//! (gardener/gardener v1.150 pkg/resourcemanager/controller/garbagecollector). Others refer to them by annotations
//! `reference.resources.gardener.cloud/<kind>-<hash>: <name>`, and ManagedResources also by their `spec.secretRefs`.
//!
//! It reads metadata only, whatever is collectable; and deletes nothing unless all that may refer could be read.

use std::collections::BTreeSet;
use std::time::Duration;

use api_meta::{Fault, labels};
use api_resources::ManagedResource;
use base_client::{fault_of, is_missing};
use base_clock::Clock;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{DeleteParams, ListParams, Preconditions};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind, PartialObjectMeta};
use kube::{Api, Client, Resource, ResourceExt};

use crate::naming::REFERENCE_PREFIX;

/// How often it looks (upstream's period of the seed's instance).
const PERIOD: Duration = Duration::from_secs(3600);
/// Objects that are younger are left alone: who refers to them may be on its way (upstream's minimum).
const AGE_MIN: Duration = Duration::from_secs(600);
/// Objects per answer, so that a large cluster does not come in one piece.
const PAGE: u32 = 500;
/// Kinds whose annotations refer (as upstream): group, version, kind. Those that are not served have no objects.
const REFERRERS: [(&str, &str, &str); 8] = [
    ("apps", "v1", "Deployment"),
    ("apps", "v1", "StatefulSet"),
    ("apps", "v1", "DaemonSet"),
    ("batch", "v1", "Job"),
    ("batch", "v1", "CronJob"),
    ("", "v1", "Pod"),
    ("resources.gardener.cloud", "v1alpha1", "ManagedResource"),
    ("monitoring.coreos.com", "v1", "Prometheus"),
];
const SECRET: &str = "secret";
const CONFIG_MAP: &str = "configmap";

/// Kind, namespace and name of what may be collected.
type Identity = (&'static str, String, String);

/// Looks again and again.
pub(crate) async fn run(target: Client, clock: Clock) {
    loop {
        if let Err(fault) = collect(&target, &clock).await {
            tracing::warn!("unused Secrets and ConfigMaps stay: {}", fault.chain());
        }
        tokio::time::sleep(PERIOD).await;
    }
}

async fn collect(target: &Client, clock: &Clock) -> Result<(), Fault> {
    let secrets = old_enough::<Secret>(target, clock, SECRET).await?;
    let maps = old_enough::<ConfigMap>(target, clock, CONFIG_MAP).await?;
    let unused: Vec<(Identity, Option<String>)> = secrets.into_iter().chain(maps).collect();
    if unused.is_empty() {
        return Ok(());
    }
    // Read after the candidates: what begins to refer to one of them meanwhile is seen.
    let used = used(target).await?;
    for (identity, uid) in unused.into_iter().filter(|(identity, _)| !used.contains(identity)) {
        let (kind, namespace, name) = &identity;
        let params = DeleteParams::default().preconditions(Preconditions {
            uid,
            resource_version: None,
        });
        let deleted = match *kind {
            SECRET => Api::<Secret>::namespaced(target.clone(), namespace)
                .delete(name, &params)
                .await
                .map(drop),
            _ => Api::<ConfigMap>::namespaced(target.clone(), namespace)
                .delete(name, &params)
                .await
                .map(drop),
        };
        match deleted {
            Err(error) if !is_missing(&error) => {
                let fault = fault_of(error, &format!("delete unused {kind} {namespace}/{name}"));
                tracing::warn!("{}", fault.chain());
            }
            _ => tracing::info!("deleted unused {kind} {namespace}/{name}"),
        }
    }
    Ok(())
}

async fn old_enough<K>(
    target: &Client,
    clock: &Clock,
    kind: &'static str,
) -> Result<Vec<(Identity, Option<String>)>, Fault>
where
    K: Resource<DynamicType = ()>,
{
    let selector = format!("{}=true", labels::GARBAGE_COLLECTABLE_REFERENCE);
    let all = metadata(target, &ApiResource::erase::<K>(&()), Some(&selector)).await?;
    let is_old = |object: &PartialObjectMeta<DynamicObject>| {
        let created = object.metadata.creation_timestamp.as_ref();
        object.metadata.deletion_timestamp.is_none() && created.is_some_and(|created| clock.since(created.0) >= AGE_MIN)
    };
    let identity = |object: PartialObjectMeta<DynamicObject>| {
        (
            (kind, object.namespace().unwrap_or_default(), object.name_any()),
            object.uid(),
        )
    };
    Ok(all.into_iter().filter(is_old).map(identity).collect())
}

async fn used(target: &Client) -> Result<BTreeSet<Identity>, Fault> {
    let mut used = BTreeSet::new();
    for (group, version, kind) in REFERRERS {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        for object in metadata(target, &resource, None).await? {
            let namespace = object.namespace().unwrap_or_default();
            used.extend(
                object
                    .annotations()
                    .iter()
                    .filter_map(|(key, name)| Some((referred_kind(key)?, namespace.clone(), name.clone()))),
            );
        }
    }
    let resources: Api<ManagedResource> = Api::all(target.clone());
    match resources.list(&ListParams::default()).await {
        Ok(all) => used.extend(all.items.iter().flat_map(|resource| {
            let namespace = resource.namespace().unwrap_or_default();
            let refs = resource.spec.secret_refs.iter();
            refs.map(move |reference| (SECRET, namespace.clone(), reference.name.clone()))
        })),
        Err(error) if is_missing(&error) => {}
        Err(error) => return Err(fault_of(error, "list ManagedResources")),
    }
    Ok(used)
}

/// The kind that an annotation refers to: `secret` of `reference.resources.gardener.cloud/secret-1a2b3c4d`.
fn referred_kind(key: &str) -> Option<&'static str> {
    let (kind, _) = key.strip_prefix(REFERENCE_PREFIX)?.split_once('-')?;
    [SECRET, CONFIG_MAP].into_iter().find(|known| *known == kind)
}

/// All objects of a kind, page by page; none when the kind is not served.
async fn metadata(
    target: &Client,
    resource: &ApiResource,
    selector: Option<&str>,
) -> Result<Vec<PartialObjectMeta<DynamicObject>>, Fault> {
    let api: Api<DynamicObject> = Api::all_with(target.clone(), resource);
    let mut params = ListParams::default().limit(PAGE);
    params.label_selector = selector.map(str::to_owned);
    let mut all = Vec::new();
    loop {
        match api.list_metadata(&params).await {
            Ok(mut page) => {
                all.append(&mut page.items);
                params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
            }
            Err(error) if is_missing(&error) => return Ok(Vec::new()),
            Err(error) => return Err(fault_of(error, &format!("list {}", resource.plural))),
        }
        if params.continue_token.is_none() {
            return Ok(all);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_annotations_of_secrets_and_config_maps_refer() {
        let kind = |rest: &str| referred_kind(&format!("{REFERENCE_PREFIX}{rest}"));
        assert_eq!(
            (kind("secret-1a2b"), kind("configmap-1a2b")),
            (Some("secret"), Some("configmap"))
        );
        assert_eq!(
            (kind("pod-1a2b"), kind("secret"), referred_kind("secret-1a2b")),
            (None, None, None)
        );
    }
}
