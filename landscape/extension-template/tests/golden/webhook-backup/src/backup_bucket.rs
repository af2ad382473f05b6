//! BackupBucket of type `moon`: a ConfigMap that shows what was requested. Put your own work in its place.

use api_extensions::BackupBucket;
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

/// What users write in spec.backup.providerConfig of the Seed.
#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
struct Config {
    greeting: String,
}

/// Does the work.
pub struct BackupBuckets;

/// What is to be there for an object. It decides and does nothing.
pub fn plan(object: &BackupBucket) -> Result<ConfigMap, Fault> {
    let types = [(API_VERSION, "BackupBucketConfig")];
    let field = "spec.backup.providerConfig of the Seed";
    let config: Config = decode_config_or_default(object.spec.provider_config.as_ref(), &types, field)?;
    from_value(json!({"metadata": {"name": name(object)}, "data": config})).map_err(Fault::bug)
}

fn name(object: &BackupBucket) -> String {
    format!("backupbucket-{}", object.name_any())
}

fn config_maps(context: &Context, _: &BackupBucket) -> Api<ConfigMap> {
    Api::namespaced(context.client.clone(), "garden")
}

#[async_trait]
impl Actuator<BackupBucket> for BackupBuckets {
    async fn reconcile(&self, context: &Context, object: &BackupBucket) -> Result<Outcome<BackupBucket>, Fault> {
        apply(&config_maps(context, object), &plan(object)?, env!("CARGO_PKG_NAME")).await?;
        let status = json!({"apiVersion": API_VERSION, "kind": "BackupBucketStatus"});
        Ok(Outcome::provider_status(status.into()))
    }

    async fn delete(&self, context: &Context, object: &BackupBucket) -> Result<(), Fault> {
        delete(&config_maps(context, object), &name(object)).await
    }

    async fn force_delete(&self, context: &Context, object: &BackupBucket) -> Result<(), Fault> {
        self.delete(context, object).await
    }

    async fn migrate(&self, context: &Context, object: &BackupBucket) -> Result<Saved, Fault> {
        self.delete(context, object).await?;
        Ok(Saved::default())
    }
}
