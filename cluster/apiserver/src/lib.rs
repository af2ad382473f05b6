//! Kubernetes API semantics over a store, as a tower service.
//!
//! [`ApiServer`] is a value: any number of them live in one process. Every request, in process or over TLS, goes
//! authenticate, authorize, route, admit, store. Nothing here listens on a socket (the only ones it opens lead to webhooks,
//! to servers behind it, and to nodes and pods that are asked for), blocks a thread, reads the machine's clock or knows a provider.

mod access;
mod action;
mod admission;
mod aggregation;
mod answer;
mod applied;
mod audit;
mod audit_event;
mod audit_policy;
mod bootstrap;
mod builder;
mod builtin;
mod collection;
mod connect;
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
mod fairness;
mod filter;
mod forms;
mod forward;
mod gatekeepers;
mod health;
mod in_front;
mod incoming;
mod inert;
mod judge;
mod keeping;
pub mod kind;
mod kubelets;
mod kubernetes_service;
mod label_text;
mod lines;
mod list;
mod measured;
mod metadata;
mod metrics;
mod namespaces;
mod negotiate;
mod nodes;
mod objects;
mod openapi;
mod others;
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
mod reach;
mod read;
mod registry;
mod relay;
mod render;
mod replaced;
pub mod request;
mod resource;
mod reviews;
mod route;
mod scale;
mod selector;
mod server;
mod services;
mod signing_requests;
mod status;
mod stores;
mod strategies;
mod tables;
mod tokens;
mod unversioned;
mod update;
mod watch;
mod write;
mod writing;

pub use access::{Authorities, FrontProxies, TokenAuthority};
pub use audit::{AUDIT_RECORDS_MAX, AuditLog, AuditRecord};
pub use audit_event::AuditSink;
pub use audit_policy::{AuditLevel, AuditPolicy, AuditStage};
pub use builder::Builder;
pub use cluster_access::front_proxy::RequestHeaders;
pub use cluster_access::{
    Attempt, Attributes, ForeignTokenSpec, Gatekeeper, IssuedToken, KEYS_PATH, Objection, Opinion, PeerCertificates,
    ResourceTarget, Selectors, Target, User,
};
/// Field trees and field errors: what [`Kind`] is asked for.
pub use cluster_schema as schema;
pub use connect::Connect;
pub use health::Readiness;
pub use inert::is_of_embedded;
pub use kind::Kind;
pub use kubelets::KubeletClient;
pub use protection::Protection;
pub use relay::{PodPort, Proxied};
pub use resource::ResourceInfo;
pub use server::{ApiServer, DEFAULT_GIT_VERSION, Identity};
pub use status::{Cause, Details, Status};
