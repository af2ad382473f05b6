//! The garden's kinds: `core.gardener.cloud` (v1beta1, v1), `security`, `operations`, `authentication`.
//! It only describes what can be asked for: no defaults, no validation, no I/O.

pub mod authentication;
pub mod operations;
pub mod security;
pub mod v1;
pub mod v1beta1;
