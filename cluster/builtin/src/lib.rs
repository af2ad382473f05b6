//! The built-in kinds of Kubernetes 1.35: their field trees and OpenAPI documents, from tables; their defaults ([`default()`])
//! and rules ([`validate`]) as kube-apiserver has them in code. A table is unpacked on the first request for its group and
//! version. This crate does no I/O and never reads the clock.
//!
//! # Layers
//! A file imports only from its own layer and from layers earlier in this table. `cargo xtask tidy` reads the table and
//! refuses an import from a later layer, and more than five files that import each other in a circle.
//!
//! | layer | what is in it |
//! |---|---|
//! | `json` | reading and setting single fields of objects |
//! | `tables` | kinds, documents and structs of Go, unpacked when they are first needed |
//! | `messages` | how errors show objects: as the internal types of kube-apiserver, and as differences |
//! | `defaults` | defaults, by kind |
//! | `rules` | validation and warnings, by kind; what its checks share is in `rules/checks.rs` |

mod defaults;
mod json;
mod messages;
mod rules;
mod tables;

pub use defaults::default::{TEMPLATE_GENERATION, default};
pub use defaults::pod_defaults::qos_class;
pub use rules::ephemeral_container_rules::ephemeral_containers;
pub use rules::priority_class_rules::SYSTEM_PRIORITIES;
pub use rules::validate::{refuse_name, validate, warnings};
pub use tables::documents::{openapi_roots, openapi_v3, schema};
pub use tables::kinds::{BuiltinKind, kinds};
