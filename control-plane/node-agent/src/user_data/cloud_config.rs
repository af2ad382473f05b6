//! User data that is YAML: `files` and `units`, as local machines are given them, or `write_files` and `coreos.units` of
//! a `#cloud-config`. Other keys of that are skipped and named.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::{Born, UserDataError};

/// File mode where none is given.
const MODE_DEFAULT: u32 = 0o644;

#[derive(Deserialize)]
struct Document {
    #[serde(default)]
    files: Vec<File>,
    #[serde(default)]
    units: Vec<Unit>,
    #[serde(default)]
    write_files: Vec<File>,
    #[serde(default)]
    coreos: CoreOs,
}

#[derive(Default, Deserialize)]
struct CoreOs {
    #[serde(default)]
    units: Vec<Unit>,
}

#[derive(Deserialize)]
struct File {
    path: String,
    #[serde(default)]
    permissions: Option<Permissions>,
    #[serde(default)]
    encoding: Option<String>,
    #[serde(default)]
    content: String,
    #[serde(default)]
    append: bool,
}

/// As a number (YAML 1.1 octal included) or as octal text.
#[derive(Deserialize)]
#[serde(untagged)]
enum Permissions {
    Number(u32),
    Text(String),
}

#[derive(Deserialize)]
struct Unit {
    name: String,
    #[serde(default)]
    content: Option<String>,
    #[serde(default)]
    enable: Option<bool>,
    #[serde(default)]
    command: Option<String>,
    #[serde(default, alias = "drop-ins", alias = "dropIns")]
    drop_ins: Vec<DropIn>,
}

#[derive(Deserialize)]
struct DropIn {
    name: String,
    content: String,
}

/// Reads a document.
pub(super) fn read(text: &str, born: &mut Born) -> Result<(), UserDataError> {
    let document: Document = base_yaml::read_strict(text).map_err(UserDataError::UserData)?;
    for file in document.files.into_iter().chain(document.write_files) {
        read_file(file, born)?;
    }
    for unit in document.units.into_iter().chain(document.coreos.units) {
        read_unit(unit, born)?;
    }
    let keys: BTreeMap<String, IgnoredAny> = base_yaml::read_strict(text).unwrap_or_default();
    let known = ["files", "units", "write_files", "coreos"];
    for key in keys.into_keys().filter(|key| !known.contains(&key.as_str())) {
        born.skip(format!("key {key:?} is not looked at"));
    }
    Ok(())
}

fn read_file(file: File, born: &mut Born) -> Result<(), UserDataError> {
    let mode = match file.permissions {
        None => MODE_DEFAULT,
        Some(Permissions::Number(mode)) => mode,
        Some(Permissions::Text(text)) => {
            u32::from_str_radix(text.trim_start_matches("0o"), 8).map_err(|_| UserDataError::Permissions {
                path: file.path.clone(),
                permissions: text,
            })?
        }
    };
    let content = match file.encoding.as_deref() {
        None | Some("" | "text/plain") => Some(Bytes::from(file.content)),
        Some("b64" | "base64") => {
            let dense: String = file.content.split_whitespace().collect();
            STANDARD.decode(dense).ok().map(Bytes::from)
        }
        Some(_) => None,
    };
    let Some(content) = content else {
        born.skip(format!("file {:?} has content that cannot be decoded", file.path));
        return Ok(());
    };
    let written = match file.append {
        true => born.append(&file.path, mode, &content)?,
        false => born.write(&file.path, mode, content)?,
    };
    if !written {
        born.skip(format!("file {:?} has a path that no file can have", file.path));
    }
    Ok(())
}

fn read_unit(unit: Unit, born: &mut Born) -> Result<(), UserDataError> {
    let Some(desired) = born.unit(&unit.name)? else {
        born.skip(format!("unit {:?} has a name that no unit can have", unit.name));
        return Ok(());
    };
    desired.content = unit.content.or(desired.content.take());
    desired.enabled = unit.enable.unwrap_or(true);
    desired.stopped = unit.command.as_deref() == Some("stop");
    for drop_in in unit.drop_ins {
        let path = Born::drop_in_path(&unit.name, &drop_in.name);
        if !born.write(&path, MODE_DEFAULT, Bytes::from(drop_in.content))? {
            born.skip(format!(
                "drop-in {:?} has a name that no drop-in can have",
                drop_in.name
            ));
        }
    }
    Ok(())
}
