//! What a machine is born with: files and units, among them where to find its cluster and the token to join it with.
//! Operating systems take them in several forms; all lead to the same. Pure.

mod archive;
mod born;
mod cloud_config;
mod ignition;
mod script;
mod shell;

use api_meta::{Classified, FaultClass};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use crate::desired::Desired;
use born::Born;

/// Where the agent's configuration lies.
pub const CONFIG_PATH: &str = "/var/lib/gardener-node-agent/config.yaml";
/// Where the bootstrap token lies, until the machine has joined.
pub const TOKEN_PATH: &str = "/var/lib/gardener-node-agent/credentials/bootstrap-token";
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
    /// It is larger than what a machine can be given.
    #[error("the user data is larger than {BYTES_MAX} bytes")]
    TooLarge,
    /// It names more than a machine can need.
    #[error("the user data has more than {ENTRIES_MAX} files and units")]
    TooMany,
    /// A script is cut off.
    #[error("line {line} of the user data: a quote or substitution never ends")]
    Script {
        /// Where it begins.
        line: usize,
    },
    /// JSON of another form.
    #[error("line {line} of the user data is no Ignition configuration")]
    Ignition {
        /// Where reading it ended.
        line: usize,
    },
    /// An Ignition configuration of another time.
    #[error("Ignition configurations of version {version:?} are not known")]
    IgnitionVersion {
        /// What it says.
        version: String,
    },
    /// A part of an archive cannot be used.
    #[error("read part {number} of the user data")]
    Part {
        /// Which one, from 1.
        number: usize,
        /// Why.
        #[source]
        source: Box<UserDataError>,
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

/// Most bytes of user data: those of the Secret that it comes in.
const BYTES_MAX: usize = 1 << 20;
/// Most files and units that user data may name: a hundred times what operating systems' extensions write.
const ENTRIES_MAX: usize = 2_000;

/// What user data contains.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserData {
    /// Files and units.
    pub desired: Desired,
    /// What else it contains, and is not done: one note each, without content.
    pub skipped: Vec<String>,
}

/// Files and units of user data: a shell script, an Ignition configuration, YAML, or an archive of scripts and YAML.
///
/// # Errors
/// [`UserDataError`] for what is too large or has none of these forms. It never repeats content.
pub fn parse_user_data(text: &str) -> Result<UserData, UserDataError> {
    if text.len() > BYTES_MAX {
        return Err(UserDataError::TooLarge);
    }
    let mut born = Born::default();
    if archive::is(text) {
        archive::read(text, &mut born)?;
    } else {
        read_form(text, &mut born)?;
    }
    Ok(born.into_user_data())
}

fn read_form(text: &str, born: &mut Born) -> Result<(), UserDataError> {
    match text.trim_start() {
        script if script.starts_with("#!") => script::read(text, born),
        configuration if ignition::is(configuration) => ignition::read(text, born),
        _ => cloud_config::read(text, born),
    }
}

/// Where the machine's cluster is and what it should become there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentConfig {
    /// URL of the API server.
    pub server: String,
    /// The server name to request where it is not the URL's host.
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
    let file: ConfigFile = base_yaml::read_strict(text).map_err(UserDataError::Config)?;
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
    use crate::desired::{Content, DesiredFile};

    #[test]
    fn user_data_gives_files_and_units() {
        let text = "files:\n- path: /a\n  permissions: 0600\n  content: x\n- path: /b\n  permissions: '0755'\n  content: |\n    y\nunits:\n- {name: a.service, content: u, enable: true, command: start}\n";
        let desired = parse_user_data(text).unwrap().desired;
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
    fn a_cloud_config_gives_files_and_units_and_names_the_rest() {
        let text = "#cloud-config\nwrite_files:\n- {path: /a, encoding: b64, permissions: '0600', content: aGk=}\n\
            - {path: /b, encoding: gz+b64, content: aGk=}\ncoreos:\n  units:\n  - name: a.service\n    command: start\n\
            \x20   drop_ins: [{name: 1.conf, content: x}]\nruncmd: [[ls, hunter2]]\n";
        let data = parse_user_data(text).unwrap();
        assert_eq!(data.desired.files.keys().collect::<Vec<_>>(), ["/a"]);
        assert_eq!(data.desired.files["/a"].content, Content::Bytes("hi".into()));
        assert_eq!(data.desired.units["a.service"].drop_ins["1.conf"], "x");
        assert_eq!(data.skipped.len(), 2, "{:?}", data.skipped);
        assert!(data.skipped[1].contains("\"runcmd\"") && !data.skipped.concat().contains("hunter2"));
    }

    /// As gardener-extension-os-ubuntu writes it.
    const ARCHIVE: &str = "#cloud-config-archive\n- content: |\n    #!/bin/bash\n    if [ -f \"/var/lib/osc/provision-osc-applied\" ]; then\n      exit 0\n    fi\n\n\
        \x20   mkdir -p \"/some\"\n\n    cat << EOF | base64 -d > \"/some/file\"\n    YmFy\n    EOF\n\n\
        \x20   cat << EOF | base64 -d > \"/etc/systemd/system/some-unit.service\"\n    Zm9v\n    EOF\n\n\
        \x20   systemctl daemon-reload\n    systemctl enable 'some-unit' && systemctl restart --no-block 'some-unit'\n  type: text/x-shellscript\n\
        - content: |\n    #cloud-config\n    apt: {preserve_sources_list: true}\n    write_files: [{path: /b, content: b}]\n  type: text/cloud-config\n\
        - content: http://example.org\n  type: text/x-include-url\n";

    #[test]
    fn an_archive_gives_what_its_scripts_and_cloud_configs_give() {
        let data = parse_user_data(ARCHIVE).unwrap();
        assert_eq!(data.desired.files["/some/file"].content, Content::Bytes("bar".into()));
        assert_eq!(data.desired.files["/b"].content, Content::Bytes("b".into()));
        let unit = &data.desired.units["some-unit.service"];
        assert_eq!(
            (unit.content.as_deref(), unit.enabled, unit.stopped),
            (Some("foo"), true, false)
        );
        let skipped = data.skipped.join("\n");
        assert!(
            skipped.contains("key \"apt\"") && skipped.contains("part 3 is of a type"),
            "{skipped}"
        );
        assert!(!skipped.contains("example.org"), "{skipped}");
        let plain = parse_user_data("#cloud-config-archive\n- \"#!/bin/sh\\necho a > /a\"\n- {content: 'files: []'}\n")
            .unwrap();
        assert_eq!(plain.desired.files.keys().collect::<Vec<_>>(), ["/a"]);
        assert_eq!(parse_user_data("#cloud-config-archive\n").unwrap(), UserData::default());
    }

    #[test]
    fn what_cannot_be_read_of_an_archive_is_named_by_its_part() {
        let of = |parts: &str| parse_user_data(&format!("#cloud-config-archive\n{parts}"));
        let reported = |parts: &str| api_meta::Fault::from(of(parts).unwrap_err()).chain();
        let broken = reported("- content: ''\n- content: \"#!/bin/sh\\necho 'hunter2\"\n");
        assert!(
            broken.starts_with("read part 2 of the user data") && !broken.contains("hunter2"),
            "{broken}"
        );
        assert!(!reported("- [hunter2]\n").contains("hunter2") && !reported("hunter2: x\n").contains("hunter2"));
        let nested = of("- \"#cloud-config-archive\\n- x\"\n").unwrap();
        assert_eq!(nested.skipped, ["part 1 is an archive itself"]);
        let long = "x".repeat(BYTES_MAX / 3);
        let alias = "- *a\n".repeat(5);
        assert!(matches!(
            of(&format!("- &a \"#{long}\"\n{alias}")),
            Err(UserDataError::TooLarge)
        ));
    }

    #[test]
    fn files_can_be_appended_to() {
        let file = |append: bool, content: &str| format!("- {{path: /a, append: {append}, content: {content}}}\n");
        let of = |files: &[String]| parse_user_data(&format!("#cloud-config\nwrite_files:\n{}", files.concat()));
        let content = |files: &[String]| of(files).unwrap().desired.files["/a"].content.clone();
        let files = [file(true, "one"), file(true, "two"), file(true, "three")];
        assert_eq!(content(&files), Content::Bytes("onetwothree".into()));
        assert_eq!(
            content(&[file(true, "one"), file(false, "two")]),
            Content::Bytes("two".into())
        );
        let unit = "#cloud-config\nwrite_files:\n- {path: /etc/systemd/system/a.service, content: x}\n- {path: /etc/systemd/system/a.service, append: true, content: y}\n";
        let unit = parse_user_data(unit).unwrap().desired.units["a.service"]
            .content
            .clone();
        assert_eq!(unit.as_deref(), Some("xy"));
        let long = "x".repeat(BYTES_MAX / 3);
        let first = format!("- {{path: /a, content: &a \"{long}\"}}\n");
        let more = "- {path: /a, append: true, content: *a}\n".repeat(5);
        assert!(matches!(of(&[first, more]), Err(UserDataError::TooLarge)));
    }

    #[test]
    fn hostile_user_data_ends_at_a_limit() {
        let script = |text: &str| parse_user_data(&format!("#!/bin/sh\n{text}"));
        assert!(matches!(script(&" ".repeat(BYTES_MAX)), Err(UserDataError::TooLarge)));
        let many = |path: &str, suffix: &str| -> String {
            let lines = (0..=ENTRIES_MAX).map(|n| format!("echo > {path}{n}{suffix}\n"));
            lines.collect()
        };
        assert!(matches!(script(&many("/", "")), Err(UserDataError::TooMany)));
        let drop_ins = many("/etc/systemd/system/a.service.d/", ".conf");
        assert!(matches!(script(&drop_ins), Err(UserDataError::TooMany)));
        let noisy = script(&"unknown\n".repeat(1_000)).unwrap();
        assert_eq!(
            (noisy.skipped.len(), noisy.skipped[100].as_str()),
            (101, "and 900 more")
        );
        let deep = script(&"$(".repeat(100_000));
        assert!(matches!(deep, Err(UserDataError::Script { line: 2 })));
        assert!(script(&"if ".repeat(100_000)).unwrap().desired.files.is_empty());
        assert!(script(&"cat <<E >/a\n".repeat(10_000)).is_ok());
        assert!(parse_user_data(&format!("{{\"ignition\": {}", "[".repeat(100_000))).is_err());
    }

    #[test]
    fn unreadable_user_data_is_reported_without_its_token() {
        let broken = [
            parse_user_data("files:\n- path: /token\n  content: hunter2\nunits: [oops\n").unwrap_err(),
            parse_user_data("files:\n- path: /token\n  content: x\nunits: hunter2\n").unwrap_err(),
            parse_config("apiServer: {server: hunter2}\nsecretName: [hunter2]\n").unwrap_err(),
        ];
        for error in broken {
            let reported = api_meta::Fault::from(error).chain();
            assert!(
                reported.contains(": line ") && reported.lines().count() == 1,
                "{reported}"
            );
            assert!(!reported.contains("hunter2"), "{reported}");
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
