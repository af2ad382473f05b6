//! Sources of values, in their order of precedence: files, then `--set-json`, `--set`, `--set-string`, `--set-file`,
//! `--set-literal`, as Helm 4.1 puts them together (`pkg/cli/values`, `pkg/chart/v2/loader`).

mod coalesce;
mod copies;
mod strvals;

use base_yaml::go::{self, GoYamlError};
pub use coalesce::{CoalesceError, coalesce_values};
pub(crate) use coalesce::{Null, add_table, with_defaults};
pub use copies::CopiesError;
pub(crate) use copies::{Copies, bytes_of, bytes_of_value};
use serde_json::{Map, Value};
use strvals::{Mode, parse_into};

/// Values by their names. Numbers of `--set` are integers, those of YAML and JSON floats.
pub type Values = Map<String, Value>;

/// The largest file of values. Helm has no limit; the file is in memory several times.
pub const FILE_BYTES_MAX: usize = 64 << 20;

/// Why values cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ValuesError {
    /// A document of a file is no YAML, or no map.
    #[error("cannot unmarshal yaml document: {0}")]
    Document(#[from] GoYamlError),
    /// Something other than a comment follows `---`.
    #[error("error reading yaml document: invalid Yaml document separator: {0}")]
    Separator(String),
    /// A file is larger than [`FILE_BYTES_MAX`].
    #[error("{bytes} bytes of values, at most {FILE_BYTES_MAX} are read")]
    TooLarge {
        /// How large it is
        bytes: usize,
    },
    /// A file that the user names has no values.
    #[error("failed to parse {file}: {why}")]
    File {
        /// Its name
        file: String,
        /// What is wrong in it
        why: Box<ValuesError>,
    },
    /// A file that the user names cannot be read.
    #[error("{0}")]
    Unreadable(String),
    /// An argument of `--set` or a similar option is wrong.
    #[error("failed parsing --{option} data: {why}")]
    Argument {
        /// Which option
        option: &'static str,
        /// Helm's message
        why: String,
    },
    /// An argument of `--set-json` is wrong.
    #[error("failed parsing --set-json data {argument}")]
    Json {
        /// The argument, with what Helm puts before it
        argument: String,
    },
}

/// What a user gives as values, in the order in which it was given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// `--values`: names of files
    pub files: Vec<String>,
    /// `--set-json`
    pub json: Vec<String>,
    /// `--set`
    pub set: Vec<String>,
    /// `--set-string`
    pub string: Vec<String>,
    /// `--set-file`
    pub file: Vec<String>,
    /// `--set-literal`
    pub literal: Vec<String>,
}

impl Options {
    /// The values. `read` reads a file that is named.
    ///
    /// # Errors
    /// A file or argument that Helm refuses: its message.
    pub fn merge(&self, read: &dyn Fn(&str) -> Result<Vec<u8>, String>) -> Result<Values, ValuesError> {
        let mut values = Values::new();
        for file in &self.files {
            let text = read(file).map_err(ValuesError::Unreadable)?;
            let more = load_values(&text).map_err(|why| ValuesError::File {
                file: file.clone(),
                why: Box::new(why),
            })?;
            merge_maps(&mut values, more);
        }
        for argument in &self.json {
            merge_json(argument, &mut values)?;
        }
        let read_text = |name: &str| Ok(String::from_utf8_lossy(&read(name)?).into_owned().into());
        let steps = [
            ("set", &self.set, Mode::Typed),
            ("set-string", &self.string, Mode::Text),
            ("set-file", &self.file, Mode::Read(&read_text)),
            ("set-literal", &self.literal, Mode::Literal),
        ];
        for (option, arguments, mode) in steps {
            for argument in arguments {
                parse_into(argument, mode, &mut values).map_err(|why| ValuesError::Argument { option, why })?;
            }
        }
        Ok(values)
    }
}

fn merge_json(argument: &str, values: &mut Values) -> Result<(), ValuesError> {
    if argument.trim().starts_with('{') {
        let map = serde_json::from_str(argument.trim()).map_err(|_| ValuesError::Json {
            argument: format!("JSON: {argument}"),
        })?;
        let mut map = Value::Object(map);
        go::as_floats(&mut map);
        if let Value::Object(map) = map {
            merge_maps(values, map);
        }
        return Ok(());
    }
    parse_into(argument, Mode::Json, values).map_err(|_| ValuesError::Json {
        argument: argument.to_owned(),
    })
}

/// A file of values: its documents, of which later ones win.
///
/// # Errors
/// A document that Go refuses or that is no map, or a file that is too large.
pub fn load_values(text: &[u8]) -> Result<Values, ValuesError> {
    if text.len() > FILE_BYTES_MAX {
        return Err(ValuesError::TooLarge { bytes: text.len() });
    }
    let mut values = Values::new();
    for document in documents(text)? {
        merge_maps(&mut values, go::read_map(&document)?);
    }
    Ok(values)
}

/// Merges `more` into `values`: maps are merged, all else is replaced. Null is a value like others.
pub fn merge_maps(values: &mut Values, more: Values) {
    for (key, value) in more {
        match (values.get_mut(&key), value) {
            (Some(Value::Object(known)), Value::Object(value)) => merge_maps(known, value),
            (_, value) => {
                values.insert(key, value);
            }
        }
    }
}

/// The table that lies below others under the names of a path, if there is one.
pub(crate) fn table_at<'v>(values: &'v Values, path: &str) -> Option<&'v Values> {
    path.split('.')
        .try_fold(values, |table, name| table.get(name)?.as_object())
}

/// The documents of a text as `YAMLReader` of k8s.io/apimachinery splits them: at lines of `---` with nothing but a comment
/// behind it.
fn documents(text: &[u8]) -> Result<Vec<Vec<u8>>, ValuesError> {
    let mut documents = Vec::new();
    let mut document = Vec::new();
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if let Some(after) = line.strip_prefix(b"---") {
            let after = String::from_utf8_lossy(after);
            let after = after.trim();
            if !after.is_empty() && !after.starts_with('#') {
                return Err(ValuesError::Separator(after.to_owned()));
            }
            if !document.is_empty() {
                documents.push(std::mem::take(&mut document));
                continue;
            }
            // The first line of all belongs to the first document.
        }
        document.extend_from_slice(line);
        document.push(b'\n');
    }
    if !document.is_empty() {
        documents.push(document);
    }
    Ok(documents)
}

#[cfg(test)]
mod tests;
