//! BackupEntry of type `moon`: a ConfigMap that shows what was requested. Put your own work in its place.

use api_extensions::BackupEntry;
use api_meta::Fault;
use async_trait::async_trait;
use base_client::{apply, delete};
use extensions_sdk::{Actuator, Context, Outcome, Saved, decode_config_or_default};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, ResourceExt};
use serde::{Deserialize, Serialize};
use serde_json::{from_value, json};

/// apiVersion of what users configure and of what is reported.
const API_VERSION: &str = "moon.extensions.gardener.cloud/v1alpha1";

/// What users write in spec.providerConfig.
#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
struct Config {
    greeting: String,
}

/// Does the work.
pub struct BackupEntries;

/// What is to be there for an object. It decides and does nothing.
pub fn plan(object: &BackupEntry) -> Result<ConfigMap, Fault> {
    let types = [(API_VERSION, "BackupEntryConfig")];
    let field = "spec.providerConfig";
    let config: Config = decode_config_or_default(object.spec.provider_config.as_ref(), &types, field)?;
    from_value(json!({"metadata": {"name": name(object)}, "data": config})).map_err(Fault::bug)
}

fn name(object: &BackupEntry) -> String {
    format!("backupentry-{}", object.name_any())
}

fn config_maps(context: &Context, _: &BackupEntry) -> Api<ConfigMap> {
    Api::namespaced(context.client.clone(), "garden")
}

#[async_trait]
impl Actuator<BackupEntry> for BackupEntries {
    async fn reconcile(&self, context: &Context, object: &BackupEntry) -> Result<Outcome<BackupEntry>, Fault> {
        apply(&config_maps(context, object), &plan(object)?, env!("CARGO_PKG_NAME")).await?;
        let status = json!({"apiVersion": API_VERSION, "kind": "BackupEntryStatus"});
        Ok(Outcome::provider_status(status.into()))
    }

    async fn delete(&self, context: &Context, object: &BackupEntry) -> Result<(), Fault> {
        delete(&config_maps(context, object), &name(object)).await
    }

    async fn force_delete(&self, context: &Context, object: &BackupEntry) -> Result<(), Fault> {
        self.delete(context, object).await
    }

    async fn migrate(&self, context: &Context, object: &BackupEntry) -> Result<Saved, Fault> {
        self.delete(context, object).await?;
        Ok(Saved::default())
    }
}
