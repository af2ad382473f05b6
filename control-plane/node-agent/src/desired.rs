//! What a machine should have: the files and units of an OperatingSystemConfig, decoded once. Pure.

use std::collections::BTreeMap;
use std::fmt;

use api_extensions::{OperatingSystemConfig, UnitCommand};
use api_meta::{Classified, FaultClass};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use sha2::{Digest, Sha256};

/// File mode where none is given (gardener/gardener v1.150 pkg/nodeagent/controller/operatingsystemconfig).
const DEFAULT_PERMISSIONS: u32 = 0o600;

/// Why an OperatingSystemConfig cannot be applied.
#[derive(Debug, thiserror::Error)]
pub enum OscError {
    /// It is no YAML of that form.
    #[error("read the operating system config")]
    Malformed(#[source] base_yaml::YamlError),
    /// A file's content does not decode.
    #[error("decode file {path}: {why}")]
    Content {
        /// Which file.
        path: String,
        /// What is wrong with it.
        why: String,
    },
}

impl Classified for OscError {
    fn class(&self) -> FaultClass {
        FaultClass::User
    }

    fn hint(&self) -> String {
        "correct the files of the OperatingSystemConfig or the extension that writes them".to_owned()
    }
}

/// Files and units by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Desired {
    /// By absolute path.
    pub files: BTreeMap<String, DesiredFile>,
    /// By unit name.
    pub units: BTreeMap<String, DesiredUnit>,
}

/// One file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DesiredFile {
    /// Its mode.
    pub permissions: u32,
    /// What is in it.
    pub content: Content,
}

/// Where a file's bytes are.
#[derive(Clone, PartialEq, Eq)]
pub enum Content {
    /// Here.
    Bytes(Bytes),
    /// In a container image.
    Image {
        /// Its full reference.
        image: String,
        /// The path inside.
        path: String,
    },
}

impl fmt::Debug for Content {
    // Files hold credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Content::Bytes(bytes) => write!(f, "{} bytes", bytes.len()),
            Content::Image { image, path } => write!(f, "{path} of {image}"),
        }
    }
}

/// One unit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DesiredUnit {
    /// The unit file; None when only drop-ins or a command are given for a unit that the system has.
    pub content: Option<String>,
    /// Drop-ins by name.
    pub drop_ins: BTreeMap<String, String>,
    /// Whether it starts with the system.
    pub enabled: bool,
    /// Whether it should be stopped.
    pub stopped: bool,
    /// Restarted when one of these files changes.
    pub file_paths: Vec<String>,
}

impl DesiredFile {
    /// Identifies content and mode.
    pub fn digest(&self) -> String {
        let mut hash = Sha256::new();
        hash.update(self.permissions.to_le_bytes());
        match &self.content {
            Content::Bytes(bytes) => {
                hash.update([0]);
                hash.update(bytes);
            }
            Content::Image { image, path } => {
                hash.update([1]);
                hash.update(image.as_bytes());
                hash.update([0]);
                hash.update(path.as_bytes());
            }
        }
        hex(&hash.finalize())
    }
}

impl DesiredUnit {
    /// Identifies unit file and drop-ins.
    pub fn digest(&self) -> String {
        let mut hash = Sha256::new();
        for (name, text) in std::iter::once(("", self.content.as_deref().unwrap_or_default()))
            .chain(self.drop_ins.iter().map(|(name, text)| (name.as_str(), text.as_str())))
        {
            hash.update((name.len() as u64).to_le_bytes());
            hash.update(name.as_bytes());
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text.as_bytes());
        }
        hex(&hash.finalize())
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads `osc.yaml` and decodes what `host_name` should have of it: spec and the extensions' additions.
pub fn parse_osc(text: &str, host_name: &str) -> Result<Desired, OscError> {
    let osc: OperatingSystemConfig = base_yaml::read_strict(text).map_err(OscError::Malformed)?;
    let status = osc.status.unwrap_or_default();
    let mut desired = Desired::default();
    for file in osc.spec.files.into_iter().chain(status.extension_files) {
        if file.host_name.as_deref().is_some_and(|name| name != host_name) {
            continue;
        }
        let wrong = |why: &str| OscError::Content {
            path: file.path.clone(),
            why: why.to_owned(),
        };
        let content = match (&file.content.inline, &file.content.image_ref) {
            (Some(inline), _) => Content::Bytes(match inline.encoding.as_str() {
                "" => Bytes::from(inline.data.clone()),
                "b64" => STANDARD
                    .decode(inline.data.trim())
                    .map_err(|_| wrong("its data is not base64"))?
                    .into(),
                _ => return Err(wrong("its encoding is neither empty nor b64")),
            }),
            (None, Some(image)) => Content::Image {
                image: image.image.clone(),
                path: image.file_path_in_image.clone(),
            },
            (None, None) => return Err(wrong("it has neither inline content nor an image")),
        };
        let permissions = file.permissions.unwrap_or(DEFAULT_PERMISSIONS);
        desired.files.insert(file.path, DesiredFile { permissions, content });
    }
    for unit in osc.spec.units.into_iter().chain(status.extension_units) {
        // Extensions add to units that the spec has: content and command of the later one win, drop-ins add up.
        let known = desired.units.entry(unit.name).or_insert_with(|| DesiredUnit {
            enabled: true,
            ..DesiredUnit::default()
        });
        known.content = unit.content.or(known.content.take());
        known.enabled = unit.enable.unwrap_or(known.enabled);
        known.stopped = unit
            .command
            .map_or(known.stopped, |command| command == UnitCommand::Stop);
        known
            .drop_ins
            .extend(unit.drop_ins.into_iter().map(|drop_in| (drop_in.name, drop_in.content)));
        known.file_paths.extend(unit.file_paths);
    }
    Ok(desired)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operating_system_config_is_decoded_with_what_extensions_add() {
        let desired = parse_osc(
            "spec:\n  type: local\n  purpose: reconcile\n  files:\n  - path: /a\n    permissions: 0644\n    content: {inline: {encoding: b64, data: aGk=}}\n  - path: /other\n    hostName: node-b\n    content: {inline: {encoding: '', data: x}}\n  - path: /bin/kubelet\n    content: {imageRef: {image: k8s/hyperkube, filePathInImage: /kubelet}}\n  units:\n  - {name: kubelet.service, content: one, filePaths: [/a]}\nstatus:\n  extensionUnits:\n  - {name: kubelet.service, dropIns: [{name: 10.conf, content: two}]}\n  - {name: old.service, command: stop, enable: false}\n",
            "node-a",
        )
        .unwrap();
        assert_eq!(desired.files.keys().collect::<Vec<_>>(), ["/a", "/bin/kubelet"]);
        assert_eq!(
            desired.files["/a"],
            DesiredFile {
                permissions: 0o644,
                content: Content::Bytes("hi".into())
            }
        );
        let kubelet = &desired.units["kubelet.service"];
        assert_eq!(
            (kubelet.content.as_deref(), kubelet.drop_ins.len(), kubelet.enabled),
            (Some("one"), 1, true)
        );
        assert!(desired.units["old.service"].stopped && !desired.units["old.service"].enabled);
    }

    #[test]
    fn malformed_input_is_reported_without_the_content_of_files() {
        let file = "spec:\n  files:\n  - path: /a\n    content: {inline: {encoding: '', data: hunter2}}\n";
        for end in ["    other: [oops\n", "  - hunter2\n", "  units: hunter2\n"] {
            let error = parse_osc(&format!("{file}{end}"), "n").unwrap_err();
            let reported = api_meta::Fault::from(error).chain();
            assert!(
                reported.starts_with("read the operating system config: line "),
                "{reported}"
            );
            assert!(
                !reported.contains("hunter2") && reported.lines().count() == 1,
                "{reported}"
            );
        }
    }

    #[test]
    fn undecodable_content_names_its_file() {
        let text = "spec:\n  files:\n  - path: /a\n    content: {inline: {encoding: b64, data: '***'}}\n";
        assert_eq!(
            parse_osc(text, "n").unwrap_err().to_string(),
            "decode file /a: its data is not base64"
        );
    }
}
