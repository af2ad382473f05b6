//! ControlPlane of type `moon`: a ConfigMap that shows what was requested. Put your own work in its place.

use api_extensions::ControlPlane;
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

/// What users write in spec.provider.controlPlaneConfig.
#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
struct Config {
    greeting: String,
}

/// Does the work.
pub struct ControlPlanes;

/// What is to be there for an object. It decides and does nothing.
pub fn plan(object: &ControlPlane) -> Result<ConfigMap, Fault> {
    let types = [(API_VERSION, "ControlPlaneConfig")];
    let field = "spec.provider.controlPlaneConfig";
    let config: Config = decode_config_or_default(object.spec.provider_config.as_ref(), &types, field)?;
    from_value(json!({"metadata": {"name": name(object)}, "data": config})).map_err(Fault::bug)
}

fn name(object: &ControlPlane) -> String {
    format!("controlplane-{}", object.name_any())
}

fn config_maps(context: &Context, object: &ControlPlane) -> Api<ConfigMap> {
    Api::namespaced(context.client.clone(), &object.namespace().unwrap_or_default())
}

#[async_trait]
impl Actuator<ControlPlane> for ControlPlanes {
    async fn reconcile(&self, context: &Context, object: &ControlPlane) -> Result<Outcome<ControlPlane>, Fault> {
        apply(&config_maps(context, object), &plan(object)?, env!("CARGO_PKG_NAME")).await?;
        let status = json!({"apiVersion": API_VERSION, "kind": "ControlPlaneStatus"});
        Ok(Outcome::provider_status(status.into()))
    }

    async fn delete(&self, context: &Context, object: &ControlPlane) -> Result<(), Fault> {
        delete(&config_maps(context, object), &name(object)).await
    }

    async fn force_delete(&self, context: &Context, object: &ControlPlane) -> Result<(), Fault> {
        self.delete(context, object).await
    }

    async fn migrate(&self, _: &Context, _: &ControlPlane) -> Result<Saved, Fault> {
        Ok(Saved::default()) // The ConfigMap goes with the namespace.
    }
}
