//! OperatingSystemConfig of type `moon`: user data for new machines, in a Secret. Put the form of your system in its place.

use api_extensions::{CloudConfig, File, OperatingSystemConfig, OperatingSystemConfigPurpose};
use api_meta::{Fault, SecretReference};
use async_trait::async_trait;
use base_client::{apply, delete};
use extensions_sdk::{Actuator, Context, OperatingSystemConfigOwn, Outcome};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, ResourceExt};
use serde_json::{Value, from_value, json};

/// Does the work.
pub struct OperatingSystemConfigs;

/// The Secret that is to be there for an object: of machines that run, nothing is needed. It decides and does nothing.
pub fn plan(object: &OperatingSystemConfig) -> Result<Option<Secret>, Fault> {
    if object.spec.purpose != OperatingSystemConfigPurpose::Provision {
        return Ok(None);
    }
    let files = object
        .spec
        .files
        .iter()
        .map(user_file)
        .collect::<Result<Vec<Value>, Fault>>()?;
    let units = object.spec.units.iter();
    let units: Vec<Value> = units
        .map(|unit| json!({"name": unit.name, "content": unit.content, "enable": true, "command": "start"}))
        .collect();
    let text = format!(
        "#cloud-config\n{}\n",
        json!({"write_files": files, "coreos": {"units": units}})
    );
    from_value(json!({"metadata": {"name": name(object)}, "stringData": {"cloud_config": text}}))
        .map(Some)
        .map_err(Fault::bug)
}

fn user_file(file: &File) -> Result<Value, Fault> {
    let inline = file
        .content
        .inline
        .as_ref()
        .ok_or_else(|| Fault::user(format!("{} has no inline content", file.path)))?;
    let mode = format!("{:04o}", file.permissions.unwrap_or(0o644));
    Ok(json!({"path": file.path, "permissions": mode, "encoding": inline.encoding, "content": inline.data}))
}

fn name(object: &OperatingSystemConfig) -> String {
    format!("osc-result-{}", object.name_any())
}

fn secrets(context: &Context, object: &OperatingSystemConfig) -> Api<Secret> {
    Api::namespaced(context.client.clone(), &object.namespace().unwrap_or_default())
}

#[async_trait]
impl Actuator<OperatingSystemConfig> for OperatingSystemConfigs {
    async fn reconcile(
        &self,
        context: &Context,
        object: &OperatingSystemConfig,
    ) -> Result<Outcome<OperatingSystemConfig>, Fault> {
        let Some(secret) = plan(object)? else {
            return Ok(Outcome::default());
        };
        apply(&secrets(context, object), &secret, env!("CARGO_PKG_NAME")).await?;
        let secret_ref = SecretReference {
            name: Some(name(object)),
            namespace: object.namespace(),
        };
        let cloud_config = Some(CloudConfig { secret_ref });
        Ok(Outcome::own(OperatingSystemConfigOwn {
            cloud_config,
            ..OperatingSystemConfigOwn::default()
        }))
    }

    async fn delete(&self, context: &Context, object: &OperatingSystemConfig) -> Result<(), Fault> {
        delete(&secrets(context, object), &name(object)).await
    }
}
