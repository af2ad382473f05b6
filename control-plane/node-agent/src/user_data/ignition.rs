//! User data that is an Ignition configuration (coreos/ignition, specifications 2.x and 3.x): files with their content
//! in data URLs, units with drop-ins. All else is skipped and named; nothing is fetched.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use percent_encoding::percent_decode_str;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::{Born, UserDataError};

/// Mode of files that name none.
const MODE_DEFAULT: u32 = 0o644;

#[derive(Deserialize)]
struct Configuration {
    ignition: Header,
    #[serde(default)]
    storage: Storage,
    #[serde(default)]
    systemd: Systemd,
}

#[derive(Deserialize)]
struct Header {
    #[serde(default)]
    version: String,
}

#[derive(Default, Deserialize)]
struct Storage {
    #[serde(default)]
    files: Vec<File>,
}

#[derive(Deserialize)]
struct File {
    path: String,
    #[serde(default)]
    mode: Option<u32>,
    #[serde(default)]
    contents: Contents,
    /// A switch in 2.x, a list of contents in 3.x.
    #[serde(default)]
    append: serde_json::Value,
}

#[derive(Default, Deserialize)]
struct Contents {
    #[serde(default)]
    source: Option<String>,
    #[serde(default)]
    compression: Option<String>,
}

#[derive(Default, Deserialize)]
struct Systemd {
    #[serde(default)]
    units: Vec<Unit>,
}

#[derive(Deserialize)]
struct Unit {
    name: String,
    #[serde(default)]
    contents: Option<String>,
    #[serde(default)]
    enabled: Option<bool>,
    /// A field of 2.0; later `enabled`.
    #[serde(default)]
    enable: Option<bool>,
    #[serde(default)]
    mask: Option<bool>,
    #[serde(default)]
    dropins: Vec<DropIn>,
}

#[derive(Deserialize)]
struct DropIn {
    name: String,
    #[serde(default)]
    contents: Option<String>,
}

/// Whether a text is such a configuration, however wrong the rest of it may be.
pub(super) fn is(text: &str) -> bool {
    #[derive(Deserialize)]
    struct Any {
        #[serde(rename = "ignition")]
        _header: IgnoredAny,
    }
    text.starts_with('{') && serde_json::from_str::<Any>(text).is_ok()
}

/// Reads a configuration.
pub(super) fn read(text: &str, born: &mut Born) -> Result<(), UserDataError> {
    // The parser's words would quote the text, and with it what is secret in it.
    let wrong = |error: serde_json::Error| UserDataError::Ignition { line: error.line() };
    let configuration: Configuration = serde_json::from_str(text).map_err(wrong)?;
    let version = configuration.ignition.version;
    if !version.starts_with("2.") && !version.starts_with("3.") {
        return Err(UserDataError::IgnitionVersion { version });
    }
    for file in configuration.storage.files {
        match content_of(&file) {
            Ok(content) if born.write(&file.path, file.mode.unwrap_or(MODE_DEFAULT), content.clone())? => {}
            Ok(_) => born.skip(format!("file {:?} has a path that no file can have", file.path)),
            Err(why) => born.skip(format!("file {:?} {why}", file.path)),
        }
    }
    for unit in configuration.systemd.units {
        read_unit(unit, born)?;
    }
    Ok(())
}

fn read_unit(unit: Unit, born: &mut Born) -> Result<(), UserDataError> {
    let Some(desired) = born.unit(&unit.name)? else {
        born.skip(format!("unit {:?} has a name that no unit can have", unit.name));
        return Ok(());
    };
    desired.enabled = unit.enabled.or(unit.enable) == Some(true) && unit.mask != Some(true);
    desired.stopped = !desired.enabled;
    desired.content = unit.contents.or(desired.content.take());
    for drop_in in unit.dropins {
        let path = Born::drop_in_path(&unit.name, &drop_in.name);
        let content = Bytes::from(drop_in.contents.unwrap_or_default());
        if !born.write(&path, MODE_DEFAULT, content)? {
            born.skip(format!(
                "drop-in {:?} has a name that no drop-in can have",
                drop_in.name
            ));
        }
    }
    Ok(())
}

/// A file's content, or why it is not to be had.
fn content_of(file: &File) -> Result<Bytes, &'static str> {
    let appends = match &file.append {
        serde_json::Value::Bool(append) => *append,
        serde_json::Value::Array(parts) => !parts.is_empty(),
        _ => false,
    };
    if appends {
        return Err("adds to a file");
    }
    let Contents { source, compression } = &file.contents;
    if compression.as_ref().is_some_and(|compression| !compression.is_empty()) {
        return Err("is compressed");
    }
    match source.as_deref() {
        None | Some("") => Ok(Bytes::new()),
        Some(source) => data_of(source),
    }
}

/// What a data URL holds (RFC 2397).
fn data_of(source: &str) -> Result<Bytes, &'static str> {
    let data = source.strip_prefix("data:").ok_or("has its content elsewhere")?;
    let (kind, data) = data.split_once(',').ok_or("has a data URL without data")?;
    let bytes: Vec<u8> = percent_decode_str(data).collect();
    if kind.ends_with(";base64") {
        return STANDARD.decode(bytes).map(Bytes::from).map_err(|_| "is not base64");
    }
    Ok(Bytes::from(bytes))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::{UserData, parse_user_data};
    use super::*;
    use crate::desired::Content;

    fn read(configuration: &Value) -> Result<UserData, UserDataError> {
        parse_user_data(&format!("\n{configuration}"))
    }

    #[test]
    fn both_specifications_give_files_and_units() {
        for version in ["2.3.0", "3.4.0"] {
            let data = read(&json!({
                "ignition": {"version": version},
                "storage": {"files": [
                    {"filesystem": "root", "path": "/a", "mode": 384, "contents": {"source": "data:,hello%20you%0A"}},
                    {"path": "/b", "contents": {"source": "data:text/plain;charset=utf-8;base64,aGk="}},
                    {"path": "/empty"},
                    {"path": "/etc/systemd/system/of-file.service", "contents": {"source": "data:,u"}},
                ]},
                "systemd": {"units": [
                    {"name": "a.service", "enabled": true, "contents": "[Unit]",
                        "dropins": [{"name": "10.conf", "contents": "[Service]"}]},
                    {"name": "idle.service", "contents": "[Unit]"},
                    {"name": "masked.service", "enabled": true, "mask": true},
                    {"name": "of-file.service", "enabled": true},
                ]},
            }))
            .unwrap();
            let desired = data.desired;
            let bytes = |path: &str| desired.files[path].content.clone();
            assert_eq!(bytes("/a"), Content::Bytes("hello you\n".into()));
            assert_eq!(desired.files["/a"].permissions, 0o600);
            assert_eq!(bytes("/b"), Content::Bytes("hi".into()));
            assert_eq!(bytes("/empty"), Content::Bytes(Bytes::new()));
            let runs = |name: &str| desired.units[name].enabled && !desired.units[name].stopped;
            assert!(runs("a.service") && runs("of-file.service"));
            assert!(!runs("idle.service") && !runs("masked.service"));
            assert_eq!(desired.units["a.service"].drop_ins["10.conf"], "[Service]");
            assert_eq!(desired.units["of-file.service"].content.as_deref(), Some("u"));
            assert_eq!(data.skipped, [""; 0]);
        }
    }

    #[test]
    fn what_is_elsewhere_compressed_or_misplaced_is_skipped_and_named() {
        let files = json!([
            {"path": "/far", "contents": {"source": "https://example.com/x"}},
            {"path": "/small", "contents": {"source": "data:;base64,aGk=", "compression": "gzip"}},
            {"path": "/more", "append": true, "contents": {"source": "data:,x"}},
            {"path": "/broken", "contents": {"source": "data:;base64,***"}},
            {"path": "../up", "contents": {"source": "data:,x"}},
        ]);
        let units = json!([
            {"name": "../a.service"},
            {"name": "b.service", "dropins": [{"name": "../../x.conf", "contents": ""}]},
        ]);
        let data = read(&json!({"ignition": {"version": "3.0.0"}, "storage": {"files": files},
            "systemd": {"units": units}}))
        .unwrap();
        assert!(data.desired.files.is_empty());
        assert_eq!(data.desired.units.keys().collect::<Vec<_>>(), ["b.service"]);
        assert_eq!(data.skipped.len(), 7, "{:?}", data.skipped);
    }

    #[test]
    fn unreadable_ignition_is_reported_without_its_content() {
        let broken = json!({"ignition": {"version": "3.0.0"}, "storage": {"files": "hunter2"}});
        let reported = read(&broken).unwrap_err().to_string();
        assert_eq!(reported, "line 2 of the user data is no Ignition configuration");
        let version = read(&json!({"ignition": {"version": "9.0.0"}})).unwrap_err();
        assert!(version.to_string().contains("9.0.0"));
    }
}
