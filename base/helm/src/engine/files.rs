//! Files of a chart for its templates: `.Files`. `pkg/engine/files.go` of Helm 4.1.

use std::collections::BTreeMap;
use std::sync::Arc;

use base_gotemplate::{Fault, Function, List, Map, Named, Scope, Type, Value, path_base};
use base_yaml::go::{self, Text};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;

use super::glob::matcher;
use crate::chart::File;

/// The type of `.Files`: a map from file names to their content.
static FILES: Named = Named {
    name: "engine.files",
    method,
};

/// `.Files` of a chart.
pub(super) fn files(of: &[File]) -> Value {
    let entries = of
        .iter()
        .map(|file| (file.name.as_str(), Value::Bytes(Arc::clone(&file.data).into())));
    Value::Map(Map::new(Type::Bytes, entries).named(&FILES))
}

fn method(map: &Map, name: &str) -> Option<Arc<Function>> {
    type Body = fn(&Map, &mut Scope<'_>, &[Value]) -> Result<Value, Fault>;
    let (takes, body): (bool, Body) = match name {
        "Get" => (true, |map, _, args| Ok(Value::Str(data_or_empty(map, args)))),
        "GetBytes" => (true, |map, _, args| Ok(Value::Bytes(data_or_empty(map, args)))),
        "Glob" => (true, glob),
        "Lines" => (true, lines),
        "AsConfig" => (false, |map, scope, _| as_yaml(map, scope, |text| text)),
        "AsSecrets" => (false, |map, scope, _| {
            let encode = |data: Data| STANDARD.encode(&*data).into();
            as_yaml(map, scope, encode)
        }),
        _ => return None,
    };
    let params = if takes { vec![Type::Str] } else { Vec::new() };
    let map = map.clone();
    Some(Arc::new(Function::new(name, params, move |scope, args| {
        body(&map, scope, args)
    })))
}

/// The content of a file, as it is or encoded.
type Data = base_gotemplate::Str;

fn data_of(map: &Map, args: &[Value]) -> Option<Data> {
    match args {
        [Value::Str(name)] => match map.get(name)? {
            Value::Bytes(data) => Some(data),
            _ => None,
        },
        _ => None,
    }
}

/// Empty if there is no such file.
fn data_or_empty(map: &Map, args: &[Value]) -> Data {
    data_of(map, args).unwrap_or_default()
}

fn glob(map: &Map, scope: &mut Scope<'_>, args: &[Value]) -> Result<Value, Fault> {
    scope.spend(map.len())?;
    let pattern = match args {
        [Value::Str(pattern)] => pattern.lossy(),
        _ => "".into(),
    };
    let is_matched = matcher(&pattern);
    let found = map.entries().into_iter().filter(|(name, _)| is_matched(&name.lossy()));
    Ok(Value::Map(Map::new(Type::Bytes, found).named(&FILES)))
}

fn lines(map: &Map, scope: &mut Scope<'_>, args: &[Value]) -> Result<Value, Fault> {
    let text = match data_of(map, args) {
        None => return Ok(Value::List(List::new(Type::Str, Vec::new()))),
        Some(text) if text.is_empty() => return Err(Fault::from("runtime error: index out of range [-1]")),
        Some(text) => text,
    };
    scope.spend_bytes(text.len())?;
    let text = text.strip_suffix(b"\n").unwrap_or(&text);
    let lines = text.split(|byte| *byte == b'\n').map(Value::string);
    Ok(Value::List(List::new(Type::Str, lines.collect())))
}

/// A map as YAML, from the last part of each file's name to its encoded data.
fn as_yaml(map: &Map, scope: &Scope<'_>, encode: fn(Data) -> Data) -> Result<Value, Fault> {
    let entries = map.entries();
    let files = entries.into_iter().filter_map(|(name, data)| match data {
        Value::Bytes(data) => Some((String::from_utf8_lossy(path_base(&name)).into_owned(), data)),
        _ => None,
    });
    let files: BTreeMap<String, Data> = files.collect();
    let bytes: usize = files.iter().map(|(name, data)| name.len() + data.len()).sum();
    scope.check_length(bytes)?;
    scope.spend_bytes(bytes)?;
    let files = files.into_iter().map(|(name, data)| (name, encode(data))).collect();
    // As in Helm, an error gives an empty text.
    let yaml = go::write(&Encoded(&files)).unwrap_or_default();
    Ok(Value::from(yaml.strip_suffix('\n').unwrap_or(&yaml)))
}

struct Encoded<'f>(&'f BTreeMap<String, Data>);

impl Serialize for Encoded<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, data)| (name, Text(data))))
    }
}
