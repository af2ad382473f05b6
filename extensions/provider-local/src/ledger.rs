//! What this extension has made and not removed. For tests and for people who clean up: nothing in it decides by it.

use api_machine::{Machine, MachineClass, MachineDeployment, MachineSet};
use api_meta::Fault;
use api_resources::ManagedResource;
use base_client::list;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;

use crate::objects::MADE_FOR_LABEL;

/// Everything of this extension in a namespace of the seed, as `Kind/name`, in order of kinds.
pub async fn ledger(client: &Client, namespace: &str) -> Result<Vec<String>, Fault> {
    let mut found = Vec::new();
    found.extend(ours::<ConfigMap>(client, namespace).await?);
    found.extend(ours::<Secret>(client, namespace).await?);
    found.extend(ours::<ManagedResource>(client, namespace).await?);
    found.extend(ours::<MachineClass>(client, namespace).await?);
    found.extend(ours::<MachineDeployment>(client, namespace).await?);
    found.extend(ours::<MachineSet>(client, namespace).await?);
    found.extend(ours::<Machine>(client, namespace).await?);
    found.extend(ours::<Pod>(client, namespace).await?);
    Ok(found)
}

async fn ours<K>(client: &Client, namespace: &str) -> Result<Vec<String>, Fault>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + std::fmt::Debug,
{
    let api: Api<K> = Api::namespaced(client.clone(), namespace);
    let objects = list(&api, MADE_FOR_LABEL).await?;
    Ok(objects
        .iter()
        .map(|object| format!("{}/{}", K::kind(&()), object.name_any()))
        .collect())
}
