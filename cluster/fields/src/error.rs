//! Field errors as Kubernetes words them. Nothing here decides whether a value is valid; it only states how an error is
//! written.

use std::fmt;

use serde_json::Value;

/// Whole numbers below it are printed with all their digits.
const WHOLE_MAX: f64 = 1e21;

/// Errors reported for one object; more would not be read by anyone.
pub const ERRORS_MAX: usize = 100;

/// Longest rendering of a bad value inside an error, in bytes: an error text must not carry a whole object.
const SHOWN_VALUE_BYTES_MAX: usize = 64 << 10;

/// What is wrong with a field (apimachinery v0.35 `pkg/util/validation/field/errors.go`, `ErrorType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldErrorKind {
    /// Something that the field refers to does not exist.
    NotFound,
    /// The field is missing or empty.
    Required,
    /// The value stands elsewhere already.
    Duplicate,
    /// The value is malformed or out of range.
    Invalid,
    /// The value is not one of the allowed ones.
    NotSupported,
    /// The value is well-formed, but not allowed under these circumstances.
    Forbidden,
    /// The text is too long.
    TooLong,
    /// The list or map has too many elements.
    TooMany,
    /// The check itself failed.
    Internal,
    /// The value has the wrong JSON type.
    TypeInvalid,
}

impl FieldErrorKind {
    /// The words that open the error's text.
    pub fn title(self) -> &'static str {
        match self {
            Self::NotFound => "Not found",
            Self::Required => "Required value",
            Self::Duplicate => "Duplicate value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
            Self::Internal => "Internal error",
        }
    }

    /// The machine-readable word in `status.details.causes[].reason`.
    pub fn reason(self) -> &'static str {
        match self {
            Self::NotFound => "FieldValueNotFound",
            Self::Required => "FieldValueRequired",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::Internal => "InternalError",
            Self::TypeInvalid => "FieldValueTypeInvalid",
        }
    }
}

/// One error at one field. Prints as Kubernetes does: `spec.replicas: Invalid value: -1: must be ...`.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldError {
    /// Where: `spec.containers[0].name`, `metadata.labels[a/b]`, or `<nil>` for the whole object.
    pub path: String,
    /// What kind of error.
    pub kind: FieldErrorKind,
    /// The bad value; `None` where there is none to show (required, forbidden).
    pub value: Option<Value>,
    /// What is allowed, or why; may be empty.
    pub detail: String,
    /// The type or format that the value should have had, where that is what is wrong.
    pub wanted: Option<Box<str>>,
    /// How the value is shown, where not as JSON.
    shown: Option<Box<str>>,
}

impl FieldError {
    /// An error of any kind.
    pub fn new(path: impl Into<String>, kind: FieldErrorKind, value: Option<Value>, detail: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            kind,
            value,
            detail: detail.into(),
            wanted: None,
            shown: None,
        }
    }

    /// Sets the type or format that the value should have had.
    #[must_use]
    pub fn wanting(mut self, type_: &str) -> Self {
        self.wanted = Some(type_.into());
        self
    }

    /// Shows the value as this text, where it is not shown as JSON has it.
    #[must_use]
    pub fn shown_as(mut self, text: impl Into<String>) -> Self {
        self.shown = Some(text.into().into());
        self
    }

    /// The field is missing or empty.
    pub fn required(path: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(path, FieldErrorKind::Required, None, detail)
    }

    /// The value is malformed or out of range.
    pub fn invalid(path: impl Into<String>, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self::new(path, FieldErrorKind::Invalid, Some(value.into()), detail)
    }

    /// The value has the wrong JSON type.
    pub fn type_invalid(path: impl Into<String>, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self::new(path, FieldErrorKind::TypeInvalid, Some(value.into()), detail)
    }

    /// Not allowed under these circumstances.
    pub fn forbidden(path: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(path, FieldErrorKind::Forbidden, None, detail)
    }

    /// The value stands elsewhere already.
    pub fn duplicate(path: impl Into<String>, value: impl Into<Value>) -> Self {
        Self::new(path, FieldErrorKind::Duplicate, Some(value.into()), "")
    }

    /// What the field names does not exist.
    pub fn not_found(path: impl Into<String>, value: impl Into<Value>) -> Self {
        Self::new(path, FieldErrorKind::NotFound, Some(value.into()), "")
    }

    /// The text is longer than `bytes_max`.
    pub fn too_long(path: impl Into<String>, bytes_max: usize) -> Self {
        let bytes = if bytes_max == 1 { "byte" } else { "bytes" };
        let detail = format!("may not be more than {bytes_max} {bytes}");
        Self::new(path, FieldErrorKind::TooLong, None, detail)
    }

    /// The list or map has `count` elements where `count_max` are allowed.
    pub fn too_many(path: impl Into<String>, count: usize, count_max: u64) -> Self {
        let items = if count_max == 1 { "item" } else { "items" };
        let detail = format!("must have at most {count_max} {items}");
        Self::new(path, FieldErrorKind::TooMany, Some(Value::from(count)), detail)
    }

    /// The value is not one of `allowed`, which are named in the detail.
    pub fn not_supported<A: AsRef<str>>(path: impl Into<String>, value: impl Into<Value>, allowed: &[A]) -> Self {
        let quoted: Vec<String> = allowed.iter().map(|a| format!("{:?}", a.as_ref())).collect();
        let detail = if quoted.is_empty() {
            String::new()
        } else {
            format!("supported values: {}", quoted.join(", "))
        };
        Self::new(path, FieldErrorKind::NotSupported, Some(value.into()), detail)
    }

    /// Whether other errors may only show once this one is corrected: the rules of a custom resource are not evaluated
    /// beside it.
    pub fn hides_others(&self) -> bool {
        matches!(
            self.kind,
            FieldErrorKind::NotSupported
                | FieldErrorKind::Required
                | FieldErrorKind::TooLong
                | FieldErrorKind::TooMany
                | FieldErrorKind::TypeInvalid
        )
    }

    /// The text without the path, as it stands in `status.details.causes[].message`.
    pub fn body(&self) -> String {
        let mut text = self.kind.title().to_owned();
        if let Some(value) = &self.value {
            text.push_str(": ");
            match &self.shown {
                Some(shown) => text.push_str(shown),
                None => text.push_str(&shown(value)),
            }
        }
        if !self.detail.is_empty() {
            text.push_str(": ");
            text.push_str(&self.detail);
        }
        text
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.body())
    }
}

impl std::error::Error for FieldError {}

/// What validation of a value found.
#[derive(Debug, Default)]
pub struct ValidationResult {
    /// What is wrong; at most [`ERRORS_MAX`].
    pub errors: Vec<FieldError>,
    /// What was wrong before and has not changed: rules that fail as they did.
    pub warnings: Vec<String>,
}

/// Several errors as one text: a single one plain, more of them in brackets, as Kubernetes aggregates them.
pub fn aggregate(errors: &[FieldError]) -> String {
    let mut texts: Vec<String> = Vec::new();
    for error in errors {
        let text = error.to_string();
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    match texts.len() {
        1 => texts.remove(0),
        _ => format!("[{}]", texts.join(", ")),
    }
}

fn shown(value: &Value) -> String {
    let mut text = match value.as_f64().filter(|_| value.is_f64()) {
        // As Go prints it.
        Some(number) if number.fract() == 0.0 && number.abs() < WHOLE_MAX => format!("{number:.0}"),
        _ => value.to_string(),
    };
    if text.len() > SHOWN_VALUE_BYTES_MAX {
        let mut end = SHOWN_VALUE_BYTES_MAX;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push_str("...");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_print_as_kubernetes_prints_them() {
        let table = [
            (FieldError::required("spec.foo", ""), "spec.foo: Required value"),
            (
                FieldError::required("spec.foo", "say why"),
                "spec.foo: Required value: say why",
            ),
            (
                FieldError::invalid("spec.replicas", -1, "must be greater than or equal to 0"),
                "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
            ),
            (
                FieldError::not_supported("spec.type", "x", &["a", "b"]),
                "spec.type: Unsupported value: \"x\": supported values: \"a\", \"b\"",
            ),
            (
                FieldError::duplicate("a[1].name", "n"),
                "a[1].name: Duplicate value: \"n\"",
            ),
            (
                FieldError::too_long("metadata.name", 63),
                "metadata.name: Too long: may not be more than 63 bytes",
            ),
            (
                FieldError::too_many("spec.l", 3, 2),
                "spec.l: Too many: 3: must have at most 2 items",
            ),
        ];
        for (error, text) in table {
            assert_eq!(error.to_string(), text);
        }
    }

    #[test]
    fn a_long_value_is_cut_in_the_text() {
        let text = FieldError::invalid("a", "ä".repeat(1 << 20), "x").to_string();
        assert!(text.len() < 70_000, "{}", text.len());
    }
}
