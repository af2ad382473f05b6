//! OperatingSystemConfig: user data for machines about to be made (purpose provision), and what the operating
//! system adds on running nodes (purpose reconcile). The user data are YAML with `files` and `units`, which is
//! all that local machines read.

use std::collections::BTreeMap;

use api_extensions::{
    CloudConfig, File, FileContent, FileContentInline, OperatingSystemConfig, OperatingSystemConfigPurpose, Unit,
};
use api_meta::{ErrorCode, Fault, SecretReference, names};
use async_trait::async_trait;
use base_client::{delete, get};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use extensions_sdk::{Actuator, Context, OperatingSystemConfigOwn, Outcome};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, ResourceExt};
use serde::Serialize;

use crate::objects::{apply_secret, meta};

const MADE_FOR: &str = "operatingsystemconfig";
/// Prefix of the Secret with the user data (gardener/gardener v1.150 extensions/pkg/controller/operatingsystemconfig).
const RESULT_PREFIX: &str = "osc-result-";
/// Encoding of inline content that is base64.
const BASE64: &str = "b64";
/// What the operating system adds on every node.
const RELEASE_FILE: &str = "/etc/local-release";

/// The actuator of OperatingSystemConfigs.
pub(crate) struct OperatingSystemConfigs;

/// The user data of a machine.
#[derive(Debug, Serialize)]
struct UserData<'a> {
    files: Vec<UserFile<'a>>,
    units: Vec<UserUnit<'a>>,
}

#[derive(Debug, Serialize)]
struct UserFile<'a> {
    path: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    permissions: Option<u32>,
    content: String,
}

#[derive(Debug, Serialize)]
struct UserUnit<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    enable: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<String>,
}

fn user_unit(unit: &Unit) -> UserUnit<'_> {
    UserUnit {
        name: &unit.name,
        content: unit.content.as_deref(),
        enable: unit.enable,
        command: unit.command.as_ref().map(ToString::to_string),
    }
}

fn wrong(path: &str, what: &str) -> Fault {
    Fault::user(format!("file {path}: {what}")).code(ErrorCode::ConfigurationProblem)
}

/// Inline content as text.
fn inline_text(path: &str, inline: &FileContentInline) -> Result<String, Fault> {
    match inline.encoding.as_str() {
        "" => Ok(inline.data.clone()),
        BASE64 => STANDARD
            .decode(&inline.data)
            .ok()
            .and_then(|bytes| String::from_utf8(bytes).ok())
            .ok_or_else(|| wrong(path, "its content is not base64 of text")),
        other => Err(wrong(path, &format!("its encoding {other:?} is not known"))),
    }
}

/// The content of a file, read from its Secret where it is there.
async fn content_of(context: &Context, namespace: &str, file: &File) -> Result<String, Fault> {
    match &file.content {
        FileContent {
            inline: Some(inline), ..
        } => inline_text(&file.path, inline),
        FileContent {
            secret_ref: Some(reference),
            ..
        } => {
            let secrets: Api<Secret> = Api::namespaced(context.client.clone(), namespace);
            let secret = get(&secrets, &reference.name).await?;
            let bytes = secret
                .and_then(|secret| secret.data)
                .and_then(|mut data| data.remove(&reference.data_key));
            let missing = || {
                Fault::dependency(format!(
                    "file {}: Secret {} has no key {}",
                    file.path, reference.name, reference.data_key
                ))
            };
            String::from_utf8(bytes.ok_or_else(missing)?.0).map_err(|_| wrong(&file.path, "its Secret holds no text"))
        }
        _ => Err(wrong(
            &file.path,
            "user data can only hold inline content and content of Secrets",
        )),
    }
}

impl OperatingSystemConfigs {
    async fn provision(context: &Context, object: &OperatingSystemConfig) -> Result<OperatingSystemConfigOwn, Fault> {
        let namespace = object.namespace().unwrap_or_default();
        let mut files = Vec::new();
        for file in &object.spec.files {
            let content = content_of(context, &namespace, file).await?;
            files.push(UserFile {
                path: &file.path,
                permissions: file.permissions,
                content,
            });
        }
        let units = object.spec.units.iter().map(user_unit).collect();
        // JSON is YAML, and quotes without rules of its own.
        let text = serde_json::to_string_pretty(&UserData { files, units }).map_err(Fault::bug)?;
        let name = format!("{RESULT_PREFIX}{}", object.name_any());
        let data = BTreeMap::from([(names::CLOUD_CONFIG_DATA_KEY.to_owned(), text.into_bytes())]);
        apply_secret(&context.client, meta(&namespace, &name, MADE_FOR), data).await?;
        let secret_ref = SecretReference {
            name: Some(name),
            namespace: Some(namespace),
        };
        Ok(OperatingSystemConfigOwn {
            cloud_config: Some(CloudConfig { secret_ref }),
            ..Default::default()
        })
    }
}

/// What the operating system adds on running nodes.
fn additions(object: &OperatingSystemConfig) -> OperatingSystemConfigOwn {
    let release = File {
        path: RELEASE_FILE.to_owned(),
        permissions: Some(0o644),
        content: FileContent {
            inline: Some(FileContentInline {
                encoding: String::new(),
                data: format!("ID={}\n", object.spec.type_),
            }),
            ..Default::default()
        },
        host_name: None,
    };
    OperatingSystemConfigOwn {
        extension_files: vec![release],
        ..Default::default()
    }
}

#[async_trait]
impl Actuator<OperatingSystemConfig> for OperatingSystemConfigs {
    async fn reconcile(
        &self,
        context: &Context,
        object: &OperatingSystemConfig,
    ) -> Result<Outcome<OperatingSystemConfig>, Fault> {
        match &object.spec.purpose {
            OperatingSystemConfigPurpose::Provision => Self::provision(context, object).await.map(Outcome::own),
            OperatingSystemConfigPurpose::Reconcile => Ok(Outcome::own(additions(object))),
            other => {
                Err(Fault::user(format!("spec.purpose {other} is not known")).code(ErrorCode::ConfigurationProblem))
            }
        }
    }

    async fn delete(&self, context: &Context, object: &OperatingSystemConfig) -> Result<(), Fault> {
        let namespace = object.namespace().unwrap_or_default();
        let name = format!("{RESULT_PREFIX}{}", object.name_any());
        delete::<Secret>(&Api::namespaced(context.client.clone(), &namespace), &name).await
    }

    async fn force_delete(&self, context: &Context, object: &OperatingSystemConfig) -> Result<(), Fault> {
        self.delete(context, object).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_plain_or_base64_of_text_and_nothing_else() {
        let text = |encoding: &str, data: &str| {
            inline_text(
                "/x",
                &FileContentInline {
                    encoding: encoding.into(),
                    data: data.into(),
                },
            )
        };
        assert_eq!(text("", "a: \"b\"\n").unwrap(), "a: \"b\"\n");
        assert_eq!(text("b64", "aGk=").unwrap(), "hi");
        for (encoding, data) in [("b64", "?"), ("b64", "/w=="), ("gzip", "")] {
            assert!(text(encoding, data).unwrap_err().to_string().starts_with("file /x: "));
        }
    }
}
