//! Authentication and RBAC through the public API.

mod authentication;
mod rbac;
