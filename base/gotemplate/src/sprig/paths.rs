//! Paths with slashes: Go's package `path`, and `path/filepath` as it is on Unix.

use super::args::text;
use crate::value::function::Function;
use crate::value::{Type, Value};

/// Computes a value of a path.
type OfPath = fn(&[u8]) -> Value;

pub(super) fn functions() -> Vec<Function> {
    let pairs: [(&str, &str, OfPath); 5] = [
        ("base", "osBase", |path| Value::string(base(path))),
        ("dir", "osDir", |path| Value::string(dir(path))),
        ("clean", "osClean", |path| Value::string(clean(path))),
        ("ext", "osExt", |path| Value::string(ext(path))),
        ("isAbs", "osIsAbs", |path| Value::Bool(path.starts_with(b"/"))),
    ];
    let named =
        |name, what: fn(&[u8]) -> Value| Function::new(name, [Type::Str], move |_, args| Ok(what(text(args, 0))));
    pairs
        .into_iter()
        .flat_map(|(name, os, what)| [named(name, what), named(os, what)])
        .collect()
}

/// The shortest name of the same path.
fn clean(path: &[u8]) -> Vec<u8> {
    let is_rooted = path.starts_with(b"/");
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in path.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." if parts.last().is_some_and(|last| *last != b"..") => {
                parts.pop();
            }
            b".." if is_rooted => {}
            part => parts.push(part),
        }
    }
    let mut out = if is_rooted { b"/".to_vec() } else { Vec::new() };
    out.extend(parts.join(&b'/'));
    if out.is_empty() { b".".to_vec() } else { out }
}

/// The last part of a path with slashes: `path.Base` of Go.
pub fn base(path: &[u8]) -> &[u8] {
    if path.is_empty() {
        return b".";
    }
    let end = path.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
    let path = path.get(..end).unwrap_or_default();
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    if name.is_empty() { b"/" } else { name }
}

fn dir(path: &[u8]) -> Vec<u8> {
    let end = path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    clean(path.get(..end).unwrap_or_default())
}

fn ext(path: &[u8]) -> &[u8] {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let point = name.iter().rposition(|byte| *byte == b'.');
    point.and_then(|point| name.get(point..)).unwrap_or_default()
}
