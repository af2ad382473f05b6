//! Kubernetes API semantics over a store, as a tower service.
//!
//! [`ApiServer`] is a value: any number of them live in one process. Every request, in process or over TLS, goes
//! authenticate, authorize, route, admit, store. Nothing here listens on a socket (the only ones it opens lead to webhooks
//! and to servers behind it), blocks a thread, reads the machine's clock or knows a provider.

mod access;
mod action;
mod admission;
mod aggregation;
mod answer;
mod applied;
mod audit;
mod bootstrap;
mod builtin;
mod collection;
mod context;
mod conversion;
mod crds;
mod create;
mod custom;
mod decode;
mod default_policy;
mod delegation;
mod delete;
mod discovery;
mod establish;
mod event_age;
mod events;
mod filter;
mod forms;
mod health;
mod incoming;
mod inert;
mod judge;
pub mod kind;
mod label_text;
mod list;
mod metadata;
mod metrics;
mod namespaces;
mod negotiate;
mod nodes;
mod objects;
mod openapi;
mod ownership;
mod patch;
mod path;
mod pipeline;
mod plain;
mod pod_admission;
mod pods;
mod policy;
mod protection;
mod protobuf;
mod query;
mod read;
mod registry;
mod render;
mod resource;
mod reviews;
mod route;
mod scale;
mod selector;
mod server;
mod services;
mod signing_requests;
mod status;
mod strategies;
mod tables;
mod tokens;
mod update;
mod watch;
mod write;
mod writing;

pub use access::{Authorities, FrontProxies, TokenAuthority};
pub use audit::{AUDIT_RECORDS_MAX, AuditLog, AuditRecord};
pub use cluster_access::{PeerCertificates, User};
/// Field trees and field errors: what [`Kind`] is asked for.
pub use cluster_schema as schema;
pub use health::Readiness;
pub use kind::Kind;
pub use protection::Protection;
pub use resource::ResourceInfo;
pub use server::{ApiServer, Builder, DEFAULT_GIT_VERSION, Identity};
pub use status::{Cause, Details, Status};
