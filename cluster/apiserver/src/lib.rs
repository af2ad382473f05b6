//! Kubernetes API semantics over a store, as a tower service.
//!
//! [`ApiServer`] is a value: any number of them live in one process. Every request, in process or over TLS, goes
//! authenticate, authorize, route, admit, store. Nothing here listens on a socket (those it opens lead to webhooks,
//! to servers behind it, and to nodes and pods), blocks a thread, reads the machine's clock or knows a provider.
//!
//! # Layers
//! A file imports only from its own layer and from layers earlier in this table. `cargo xtask tidy` reads the table and
//! refuses an import from a later layer, and more than five files that import each other in a circle.
//!
//! | layer | what is in it |
//! |---|---|
//! | `wire` | what is read from and written to clients: paths, queries, selectors, content negotiation, bodies, protobuf, errors |
//! | `storage` | the stores of a server: one per resource if configured, metered, and the API server in front as a store |
//! | `connections` | outgoing connections: TLS, Services and their endpoints, kubelets, webhooks |
//! | `kinds` | what is served: the trait, the registry, built-in kinds, custom resources, conversion, rendering |
//! | `access` | authentication, authorization, nodes' rules, audit, limits on requests in flight |
//! | `configuration` | what objects configure, compiled when they are written: webhooks, policies, routes to aggregated servers |
//! | `state` | what all requests of a server share, and one request with all that its handler needs |
//! | `objects` | an object of a request on its way in: decoded, pruned, defaulted, with what an update may not change |
//! | `admission` | who may change or refuse a write: webhooks, policies, quota, the plug-ins of kube-apiserver |
//! | `discovery` | which groups, versions and resources there are, and their schemas |
//! | `relay` | requests that others answer: aggregated servers, `proxy`, logs, exec, port forwarding |
//! | `controllers` | what a server does beside requests: definitions become served, its own objects, what other servers write |
//! | `requests` | the verbs: create, read, list, watch, update, patch, delete, and subresources |
//! | `server` | the server as a value: built, served, shut down; the way of a request through it |

mod access;
mod admission;
mod configuration;
mod connections;
mod controllers;
mod discovery;
mod kinds;
mod objects;
mod relay;
mod requests;
mod server;
mod state;
mod storage;
mod wire;

pub use access::audit_event::AuditSink;
pub use access::audit_log::{AUDIT_RECORDS_MAX, AuditLog, AuditRecord};
pub use access::audit_policy::{AuditLevel, AuditPolicy, AuditStage};
pub use access::authentication::{Authorities, FrontProxies, TokenAuthority};
pub use cluster_access::front_proxy::RequestHeaders;
pub use cluster_access::{
    Attempt, Attributes, ForeignTokenSpec, Gatekeeper, IssuedToken, KEYS_PATH, Objection, Opinion, PeerCertificates,
    ResourceTarget, Selectors, Target, User,
};
/// Field errors and field trees, which [`Kind`] returns.
pub use cluster_fields as fields;
pub use cluster_schema as schema;
pub use connections::addresses::PodPort;
pub use connections::kubelets::KubeletClient;
pub use kinds::kind::{self, Kind};
pub use kinds::resource::{Connect, Proxied, ResourceInfo};
pub use requests::ineffective_kinds::is_ineffective_kind_warning;
pub use server::api_server::{ApiServer, DEFAULT_GIT_VERSION, Identity};
pub use server::builder::Builder;
pub use state::protection::Protection;
pub use state::readiness::Readiness;
pub use wire::request;
pub use wire::status::{Cause, Details, Status};
