//! Extension of type `moon`: a ConfigMap that shows what was requested. Put your own work in its place.

use api_extensions::Extension;
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

/// What users write in spec.extensions[].providerConfig.
#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
struct Config {
    greeting: String,
}

/// Does the work.
pub struct Extensions;

/// What is to be there for an object. It decides and does nothing.
pub fn plan(object: &Extension) -> Result<ConfigMap, Fault> {
    let types = [(API_VERSION, "ExtensionConfig")];
    let field = "spec.extensions[].providerConfig";
    let config: Config = decode_config_or_default(object.spec.provider_config.as_ref(), &types, field)?;
    from_value(json!({"metadata": {"name": name(object)}, "data": config})).map_err(Fault::bug)
}

fn name(object: &Extension) -> String {
    format!("extension-{}", object.name_any())
}

fn config_maps(context: &Context, object: &Extension) -> Api<ConfigMap> {
    Api::namespaced(context.client.clone(), &object.namespace().unwrap_or_default())
}

#[async_trait]
impl Actuator<Extension> for Extensions {
    async fn reconcile(&self, context: &Context, object: &Extension) -> Result<Outcome<Extension>, Fault> {
        apply(&config_maps(context, object), &plan(object)?, env!("CARGO_PKG_NAME")).await?;
        let status = json!({"apiVersion": API_VERSION, "kind": "ExtensionStatus"});
        Ok(Outcome::provider_status(status.into()))
    }

    async fn delete(&self, context: &Context, object: &Extension) -> Result<(), Fault> {
        delete(&config_maps(context, object), &name(object)).await
    }

    async fn force_delete(&self, context: &Context, object: &Extension) -> Result<(), Fault> {
        self.delete(context, object).await
    }

    async fn migrate(&self, _: &Context, _: &Extension) -> Result<Saved, Fault> {
        Ok(Saved::default()) // The ConfigMap goes with the namespace.
    }
}
