//! Objects of built-in kinds as Go has them: how kube-apiserver decodes, fills in and prints them, and the errors of its
//! decoders.

pub(crate) mod decode_errors;
pub(crate) mod go_types;
pub(crate) mod json_syntax;
pub(crate) mod metadata_errors;
pub(crate) mod normalize;
pub(crate) mod print_patched;
pub(crate) mod texts;
pub(crate) mod whole_numbers;
pub(crate) mod zero_values;
