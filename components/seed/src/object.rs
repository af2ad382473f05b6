//! From a literal, which reads like the YAML it stands for, to a typed object.

use serde::de::DeserializeOwned;
use serde_json::Value;

/// Reads a literal of this crate as its kind. Fields that the kind does not have would get lost: the goldens show
/// what is left.
pub(crate) fn typed<T: DeserializeOwned>(literal: Value) -> T {
    serde_json::from_value(literal).expect("a literal of this crate reads as its kind, which the goldens hold")
}
