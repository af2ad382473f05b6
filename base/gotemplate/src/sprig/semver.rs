//! Versions: `semver` makes a value with methods, `semverCompare` checks whether a constraint allows one.

use std::cmp::Ordering;
use std::sync::Arc;

use base_version::{Constraint, Version};

use super::args::{at, text};
use crate::environment::error::Fault;
use crate::value::function::Function;
use crate::value::{Object, Type, UintKind, Value};

const POINTER: &str = "*semver.Version";
const STRUCT: &str = "semver.Version";

pub(super) fn functions() -> Vec<Function> {
    use Type::Str;
    vec![
        Function::new("semver", [Str], |_, args| {
            let original = String::from_utf8_lossy(text(args, 0)).into_owned();
            let version = Version::read(&original).map_err(fault)?;
            Ok(Value::Object(Arc::new(SemVer {
                version,
                original,
                is_pointer: true,
            })))
        }),
        Function::new("semverCompare", [Str, Str], |_, args| {
            let constraint = Constraint::read(&String::from_utf8_lossy(text(args, 0))).map_err(fault)?;
            let version = Version::read(&String::from_utf8_lossy(text(args, 1))).map_err(fault)?;
            Ok(Value::Bool(constraint.allows(&version)))
        }),
    ]
}

fn fault(why: impl ToString) -> Fault {
    Fault::Message(why.to_string())
}

/// `*semver.Version`, and `semver.Version`, which has fewer methods and is what some methods return.
#[derive(Clone, Debug)]
struct SemVer {
    version: Version,
    original: String,
    is_pointer: bool,
}

impl SemVer {
    /// A version as the methods return it.
    fn with(&self, version: Version) -> Value {
        let prefix = if self.original.starts_with('v') { "v" } else { "" };
        let original = format!("{prefix}{version}");
        Value::Object(Arc::new(Self {
            version,
            original,
            is_pointer: false,
        }))
    }

    fn next(&self, place: usize) -> Value {
        let mut numbers = self.version.numbers;
        // The next patch after a pre-release is its release.
        let is_release = self.version.pre_release.is_empty();
        for (at, number) in numbers.iter_mut().enumerate() {
            match at.cmp(&place) {
                Ordering::Less => {}
                Ordering::Equal if at == 2 && !is_release => {}
                Ordering::Equal => *number = number.wrapping_add(1),
                Ordering::Greater => *number = 0,
            }
        }
        self.with(Version {
            numbers,
            pre_release: String::new(),
            metadata: String::new(),
        })
    }

    /// `SetPrerelease` and `SetMetadata`, which validate the part.
    fn set(&self, mark: char, part: &str) -> Result<Value, Fault> {
        let mut version = self.version.clone();
        let fits = part
            .split('.')
            .all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-'));
        if !part.is_empty() && !fits {
            return Err(Fault::from(match mark {
                '-' => "invalid prerelease string",
                _ => "invalid metadata string",
            }));
        }
        if mark == '-' && !part.is_empty() {
            Version::read(&format!("0-{part}")).map_err(fault)?;
        }
        match mark {
            '-' => part.clone_into(&mut version.pre_release),
            _ => part.clone_into(&mut version.metadata),
        }
        Ok(self.with(version))
    }

    /// Methods without arguments.
    fn plain(&self, name: &str) -> Option<Value> {
        let [major, minor, patch] = self.version.numbers;
        let number = |number| Some(Value::Uint(UintKind::Uint64, number));
        match name {
            "Major" => number(major),
            "Minor" => number(minor),
            "Patch" => number(patch),
            "Prerelease" => Some(Value::from(self.version.pre_release.as_str())),
            "Metadata" => Some(Value::from(self.version.metadata.as_str())),
            "String" | "Value" => Some(Value::from(self.version.to_string())),
            "IncMajor" => Some(self.next(0)),
            "IncMinor" => Some(self.next(1)),
            "IncPatch" => Some(self.next(2)),
            "Original" if self.is_pointer => Some(Value::from(self.original.as_str())),
            "MarshalText" => Some(Value::Bytes(self.version.to_string().into_bytes().into())),
            "MarshalJSON" => Some(Value::Bytes(format!("\"{}\"", self.version).into_bytes().into())),
            _ => None,
        }
    }

    /// Methods that compare with another version: only the pointer has them.
    fn comparing(&self, name: &str) -> Option<Function> {
        let outcome: fn(Ordering) -> Value = match name {
            "Compare" => |order| Value::int(order as i64),
            "LessThan" => |order| Value::Bool(order.is_lt()),
            "LessThanEqual" => |order| Value::Bool(order.is_le()),
            "GreaterThan" => |order| Value::Bool(order.is_gt()),
            "GreaterThanEqual" => |order| Value::Bool(order.is_ge()),
            "Equal" => |order| Value::Bool(order.is_eq()),
            _ => return None,
        };
        let own = self.version.clone();
        Some(Function::new(name, [Type::Named(POINTER)], move |_, args| {
            // The signature has checked that it is a version; its text is parsed again.
            let other = match at(args, 0) {
                Value::Object(object) => object.text().and_then(|text| Version::read(&text).ok()),
                _ => None,
            };
            let other = other.ok_or(super::args::NIL_POINTER)?;
            Ok(outcome(own.cmp(&other)))
        }))
    }
}

impl Object for SemVer {
    fn type_name(&self) -> &'static str {
        if self.is_pointer { POINTER } else { STRUCT }
    }

    fn method(&self, name: &str) -> Option<Arc<Function>> {
        if let Some(value) = self.plain(name) {
            return Some(Arc::new(Function::new(name, [], move |_, _| Ok(value.clone()))));
        }
        let mark = match name {
            "SetPrerelease" => '-',
            "SetMetadata" => '+',
            _ if self.is_pointer => return self.comparing(name).map(Arc::new),
            _ => return None,
        };
        let own = self.clone();
        Some(Arc::new(Function::new(name, [Type::Str], move |_, args| {
            own.set(mark, &String::from_utf8_lossy(text(args, 0)))
        })))
    }

    fn fields(&self) -> Vec<(&'static str, Value)> {
        let [major, minor, patch] = self.version.numbers.map(|number| Value::Uint(UintKind::Uint64, number));
        vec![
            ("major", major),
            ("minor", minor),
            ("patch", patch),
            ("pre", Value::from(self.version.pre_release.as_str())),
            ("metadata", Value::from(self.version.metadata.as_str())),
            ("original", Value::from(self.original.as_str())),
        ]
    }

    fn text(&self) -> Option<String> {
        Some(self.version.to_string())
    }

    fn marshalled(&self) -> Option<String> {
        self.text()
    }
}
