//! User data that is a `#cloud-config-archive` (cloud-init, user data formats), as gardener-extension-os-ubuntu writes it:
//! a YAML list of parts, each a text of another form. Parts of other types are skipped and named, archives in archives too.

use serde::Deserialize;

use super::{BYTES_MAX, Born, UserDataError, read_form};

/// What an archive begins with.
const HEADER: &str = "#cloud-config-archive";
/// Types of parts that are read; the first line of a text decides its format.
const TYPES: [&str; 2] = ["text/x-shellscript", "text/cloud-config"];

#[derive(Deserialize)]
#[serde(untagged)]
enum Part {
    Text(String),
    Typed {
        #[serde(default)]
        content: String,
        #[serde(default, rename = "type")]
        type_: Option<String>,
    },
}

/// Whether a text is an archive.
pub(super) fn is(text: &str) -> bool {
    text.trim_start().lines().next().map(str::trim_end) == Some(HEADER)
}

/// Reads an archive.
pub(super) fn read(text: &str, born: &mut Born) -> Result<(), UserDataError> {
    let parts: Option<Vec<Part>> = base_yaml::read_strict(text).map_err(UserDataError::UserData)?;
    let mut bytes = 0;
    for (index, part) in parts.into_iter().flatten().enumerate() {
        let number = index + 1;
        let (content, type_) = match part {
            Part::Text(content) => (content, None),
            Part::Typed { content, type_ } => (content, type_),
        };
        // One text may be given as several parts by YAML's aliases.
        bytes += content.len();
        if bytes > BYTES_MAX {
            return Err(UserDataError::TooLarge);
        }
        match type_ {
            Some(type_) if !TYPES.contains(&type_.as_str()) => {
                born.skip(format!("part {number} is of a type that is not looked at"));
            }
            _ if is(&content) => born.skip(format!("part {number} is an archive itself")),
            _ => read_form(&content, born).map_err(|source| UserDataError::Part {
                number,
                source: Box::new(source),
            })?,
        }
    }
    Ok(())
}
