//! What is wrong with a field: where, what it holds, what is allowed. It never names the caller.

use std::fmt;

use serde::Serialize;
use serde_json::Value;

/// Values that an error lists at most: what a person reads at a glance.
const ALLOWED_SHOWN_MAX: usize = 20;

/// The path of a field from the object's root, printed as Kubernetes prints it: `spec.workers[0].name`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path(String);

impl Path {
    /// A field of the object itself; may be dotted.
    pub fn new(name: &str) -> Self {
        Self(name.to_owned())
    }

    /// A field below; may be dotted.
    #[must_use]
    pub fn child(&self, name: &str) -> Self {
        if self.0.is_empty() {
            Self::new(name)
        } else {
            Self(format!("{}.{name}", self.0))
        }
    }

    /// An item of a list.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        Self(format!("{}[{index}]", self.0))
    }

    /// An entry of a map.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        Self(format!("{}[{key}]", self.0))
    }

    /// Nothing stands here, though something must.
    pub fn required(&self, detail: impl Into<String>) -> FieldError {
        self.error(FieldErrorKind::Required, Value::Null, detail)
    }

    /// What stands here is wrong.
    pub fn invalid(&self, value: impl Serialize, detail: impl Into<String>) -> FieldError {
        self.error(FieldErrorKind::Invalid, json(value), detail)
    }

    /// What stands here is none of the words allowed.
    pub fn not_supported(&self, value: impl Serialize, allowed: &[&str]) -> FieldError {
        let mut allowed: Vec<String> = allowed.iter().map(|word| format!("{word:?}")).collect();
        allowed.sort();
        let more = allowed.len().saturating_sub(ALLOWED_SHOWN_MAX);
        allowed.truncate(ALLOWED_SHOWN_MAX);
        let detail = match (allowed.is_empty(), more) {
            (true, _) => "there is none to choose from; leave the field out".to_owned(),
            (false, 0) => format!("supported values: {}", allowed.join(", ")),
            (false, more) => format!("supported values: {} and {more} more", allowed.join(", ")),
        };
        self.error(FieldErrorKind::NotSupported, json(value), detail)
    }

    /// What stands here stands elsewhere already.
    pub fn duplicate(&self, value: impl Serialize) -> FieldError {
        self.error(
            FieldErrorKind::Duplicate,
            json(value),
            "must stand here once; remove or rename one",
        )
    }

    /// Something stands here, though nothing may.
    pub fn forbidden(&self, detail: impl Into<String>) -> FieldError {
        self.error(FieldErrorKind::Forbidden, Value::Null, detail)
    }

    /// What stands here names something that is not there.
    pub fn not_found(&self, value: impl Serialize) -> FieldError {
        self.error(FieldErrorKind::NotFound, json(value), "")
    }

    /// What stands here is longer than `max` bytes.
    pub fn too_long(&self, text: &str, max: usize) -> FieldError {
        let words = format!(
            "may not be more than {max} bytes, has {}; take a shorter one",
            text.len()
        );
        self.error(FieldErrorKind::TooLong, json(text), words)
    }

    /// An error if the two differ.
    pub fn immutable<T: PartialEq + Serialize>(&self, new: &T, old: &T) -> Option<FieldError> {
        (new != old).then(|| {
            let words = match json(old) {
                Value::Null => "field is immutable; leave it out".to_owned(),
                Value::Array(_) | Value::Object(_) => "field is immutable; keep it as it is".to_owned(),
                scalar => format!("field is immutable; keep {scalar}"),
            };
            self.invalid(new, words)
        })
    }

    fn error(&self, kind: FieldErrorKind, value: Value, detail: impl Into<String>) -> FieldError {
        FieldError {
            path: self.0.clone(),
            kind,
            value,
            detail: detail.into(),
        }
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn json(value: impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or(Value::Null)
}

/// The kinds of field errors; texts as in Kubernetes' apimachinery pkg/util/validation/field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldErrorKind {
    /// Missing.
    Required,
    /// Wrong.
    Invalid,
    /// Not one of the allowed words.
    NotSupported,
    /// Twice.
    Duplicate,
    /// Not allowed here.
    Forbidden,
    /// Names something that is not there.
    NotFound,
    /// Too long.
    TooLong,
}

impl FieldErrorKind {
    /// The words before the value.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Required => "Required value",
            Self::Invalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Duplicate => "Duplicate value",
            Self::Forbidden => "Forbidden",
            Self::NotFound => "Not found",
            Self::TooLong => "Too long",
        }
    }

    /// The `reason` of a Kubernetes status cause.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Forbidden => "FieldValueForbidden",
            Self::NotFound => "FieldValueNotFound",
            Self::TooLong => "FieldValueTooLong",
        }
    }
}

/// One thing that is wrong with an object.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldError {
    /// Where.
    pub path: String,
    /// What kind of wrong.
    pub kind: FieldErrorKind,
    /// What stands there; null where nothing does.
    pub value: Value,
    /// What is allowed or what to do.
    pub detail: String,
}

impl FieldError {
    /// The same error of a field below `path`.
    #[must_use]
    pub fn below(self, path: &Path) -> Self {
        Self {
            path: path.child(&self.path).to_string(),
            ..self
        }
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.kind.as_str())?;
        let silent = matches!(
            self.kind,
            FieldErrorKind::Required | FieldErrorKind::Forbidden | FieldErrorKind::TooLong
        );
        if !silent {
            write!(f, ": {}", self.value)?;
        }
        if !self.detail.is_empty() {
            write!(f, ": {}", self.detail)?;
        }
        Ok(())
    }
}

impl std::error::Error for FieldError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_print_as_kubernetes_prints_them() {
        let path = Path::new("spec").child("workers").index(0).child("name");
        let cases = [
            (
                path.required("name the pool"),
                "spec.workers[0].name: Required value: name the pool",
            ),
            (
                path.invalid("x", "field is immutable"),
                "spec.workers[0].name: Invalid value: \"x\": field is immutable",
            ),
            (
                path.invalid(3, "too many"),
                "spec.workers[0].name: Invalid value: 3: too many",
            ),
            (
                path.not_supported("c", &["b", "a"]),
                "spec.workers[0].name: Unsupported value: \"c\": supported values: \"a\", \"b\"",
            ),
            (
                path.duplicate("x"),
                "spec.workers[0].name: Duplicate value: \"x\": must stand here once; remove or rename one",
            ),
            (path.forbidden("not here"), "spec.workers[0].name: Forbidden: not here"),
            (
                path.too_long("xxxx", 3),
                "spec.workers[0].name: Too long: may not be more than 3 bytes, has 4; take a shorter one",
            ),
            (
                Path::new("metadata.labels").key("a/b").not_found(1),
                "metadata.labels[a/b]: Not found: 1",
            ),
        ];
        for (error, text) in cases {
            assert_eq!(error.to_string(), text);
        }
        assert_eq!(path.immutable(&1, &1), None);
    }

    #[test]
    fn a_change_of_an_immutable_field_names_the_value_to_restore() {
        let detail = |new: Value, old: Value| Path::new("a").immutable(&new, &old).map(|error| error.detail);
        let cases = [
            (Value::from("r1"), "field is immutable; keep \"r1\""),
            (Value::Null, "field is immutable; leave it out"),
            (Value::Array(Vec::new()), "field is immutable; keep it as it is"),
        ];
        for (old, words) in cases {
            assert_eq!(detail(Value::from(1), old).as_deref(), Some(words));
        }
    }

    #[test]
    fn long_lists_of_what_is_allowed_are_cut() {
        let words: Vec<String> = (10..35).map(|number| format!("v{number}")).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let detail = |allowed: &[&str]| Path::new("a").not_supported("x", allowed).detail;
        assert!(
            detail(&words).ends_with("\"v28\", \"v29\" and 5 more"),
            "{}",
            detail(&words)
        );
        assert!(detail(&words[..20]).ends_with("\"v28\", \"v29\""));
        assert_eq!(detail(&[]), "there is none to choose from; leave the field out");
    }
}
