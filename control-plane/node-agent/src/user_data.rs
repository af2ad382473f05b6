//! What a machine is born with: files and units in YAML, among them where to find its cluster and the token to join it
//! with. Pure.

use std::collections::BTreeMap;

use api_meta::{Classified, FaultClass};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::Deserialize;

use crate::desired::{Content, Desired, DesiredFile, DesiredUnit};

/// Where the agent's configuration lies.
pub const CONFIG_PATH: &str = "/var/lib/gardener-node-agent/config.yaml";
/// Where the bootstrap token lies, until the machine has joined.
pub const TOKEN_PATH: &str = "/var/lib/gardener-node-agent/credentials/bootstrap-token";
/// File mode where none is given.
const DEFAULT_PERMISSIONS: u32 = 0o644;

/// Why user data cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum UserDataError {
    /// The user data is no YAML of that form.
    #[error("read the user data")]
    UserData(#[source] base_yaml::YamlError),
    /// The agent's configuration is no YAML of that form.
    #[error("read {CONFIG_PATH}")]
    Config(#[source] base_yaml::YamlError),
    /// A mode is no number.
    #[error("file {path}: permissions {permissions} are not an octal number")]
    Permissions {
        /// Which file.
        path: String,
        /// What it says.
        permissions: String,
    },
    /// The authority is not base64 of text.
    #[error("read {CONFIG_PATH}: apiServer.caBundle is not base64 of PEM")]
    Authority,
}

impl Classified for UserDataError {
    fn class(&self) -> FaultClass {
        FaultClass::User
    }

    fn hint(&self) -> String {
        "correct the user data that the machine was given".to_owned()
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct UserData {
    #[serde(default)]
    files: Vec<UserFile>,
    #[serde(default)]
    units: Vec<UserUnit>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct UserFile {
    path: String,
    #[serde(default)]
    permissions: Option<Permissions>,
    #[serde(default)]
    content: String,
}

/// As a number (YAML 1.1 octal included) or as octal text.
#[derive(Deserialize)]
#[serde(untagged)]
enum Permissions {
    Number(u32),
    Text(String),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct UserUnit {
    name: String,
    #[serde(default)]
    content: Option<String>,
    #[serde(default)]
    enable: Option<bool>,
    #[serde(default)]
    command: Option<String>,
}

/// Files and units of user data.
pub fn parse_user_data(text: &str) -> Result<Desired, UserDataError> {
    let data: UserData = base_yaml::read(text).map_err(UserDataError::UserData)?;
    let mut files = BTreeMap::new();
    for file in data.files {
        let permissions = match file.permissions {
            None => DEFAULT_PERMISSIONS,
            Some(Permissions::Number(mode)) => mode,
            Some(Permissions::Text(text)) => {
                u32::from_str_radix(text.trim_start_matches("0o"), 8).map_err(|_| UserDataError::Permissions {
                    path: file.path.clone(),
                    permissions: text,
                })?
            }
        };
        let content = Content::Bytes(Bytes::from(file.content));
        files.insert(file.path, DesiredFile { permissions, content });
    }
    let unit = |unit: UserUnit| {
        let desired = DesiredUnit {
            content: unit.content,
            enabled: unit.enable.unwrap_or(true),
            stopped: unit.command.as_deref() == Some("stop"),
            ..DesiredUnit::default()
        };
        (unit.name, desired)
    };
    Ok(Desired {
        files,
        units: data.units.into_iter().map(unit).collect(),
    })
}

/// Where the machine's cluster is and what it should become there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentConfig {
    /// URL of the API server.
    pub server: String,
    /// The name to ask the server for where it is not the URL's host.
    pub server_name: Option<String>,
    /// PEM bundle of its authorities; empty for the platform's.
    pub authorities: String,
    /// The Secret in `kube-system` with this machine's OperatingSystemConfig.
    pub secret_name: String,
    /// The node's name where it is not the machine's.
    pub node_name: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ConfigFile {
    api_server: ApiServer,
    secret_name: String,
    #[serde(default)]
    node_name: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ApiServer {
    server: String,
    #[serde(default)]
    tls_server_name: Option<String>,
    #[serde(default)]
    ca_bundle: Option<String>,
}

/// Reads the agent's configuration: `apiServer: {server, caBundle, tlsServerName?}`, `secretName`, `nodeName?`.
/// `caBundle` is base64 of PEM, or PEM itself.
pub fn parse_config(text: &str) -> Result<AgentConfig, UserDataError> {
    let file: ConfigFile = base_yaml::read(text).map_err(UserDataError::Config)?;
    let authorities = match file.api_server.ca_bundle {
        None => String::new(),
        Some(pem) if pem.contains("-----BEGIN") => pem,
        Some(encoded) => {
            let dense: String = encoded.split_whitespace().collect();
            let bytes = STANDARD.decode(dense).map_err(|_| UserDataError::Authority)?;
            String::from_utf8(bytes).map_err(|_| UserDataError::Authority)?
        }
    };
    Ok(AgentConfig {
        server: file.api_server.server,
        server_name: file.api_server.tls_server_name,
        authorities,
        secret_name: file.secret_name,
        node_name: file.node_name,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_data_gives_files_and_units() {
        let text = "files:\n- path: /a\n  permissions: 0600\n  content: x\n- path: /b\n  permissions: '0755'\n  content: |\n    y\nunits:\n- {name: a.service, content: u, enable: true, command: start}\n";
        let desired = parse_user_data(text).unwrap();
        assert_eq!(desired.files["/a"].permissions, 0o600);
        assert_eq!(
            desired.files["/b"],
            DesiredFile {
                permissions: 0o755,
                content: Content::Bytes("y\n".into())
            }
        );
        assert!(desired.units["a.service"].enabled);
        assert!(parse_user_data("files:\n- {path: /a, permissions: rwx}\n").is_err());
    }

    #[test]
    fn what_cannot_be_read_is_told_without_the_token_in_it() {
        let broken = [
            parse_user_data("files:\n- path: /token\n  content: hunter2\nunits: [oops\n").unwrap_err(),
            parse_user_data("files:\n- path: /token\n  content: x\nunits: hunter2\n").unwrap_err(),
            parse_config("apiServer: {server: hunter2}\nsecretName: [hunter2]\n").unwrap_err(),
        ];
        for error in broken {
            let told = api_meta::Fault::from(error).chain();
            assert!(told.contains(": line ") && told.lines().count() == 1, "{told}");
            assert!(!told.contains("hunter2"), "{told}");
        }
    }

    #[test]
    fn the_authority_comes_encoded_or_plain() {
        let config = |bundle: &str| {
            parse_config(&format!(
                "apiServer: {{server: 'https://a', caBundle: '{bundle}'}}\nsecretName: s\n"
            ))
        };
        assert_eq!(config("cGVt").unwrap().authorities, "pem");
        assert!(config("***").is_err());
        let plain = parse_config("apiServer: {server: 'https://a'}\nsecretName: s\nnodeName: n\n").unwrap();
        assert_eq!(
            (plain.authorities.as_str(), plain.node_name.as_deref()),
            ("", Some("n"))
        );
    }
}
