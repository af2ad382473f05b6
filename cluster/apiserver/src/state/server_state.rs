//! What all requests of a server share. It does nothing by itself.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use base_clock::{Clock, Entropy};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::access::audit_event::Auditing;
use crate::access::audit_log::AuditLog;
use crate::access::fairness::Fairness;
use crate::access::server_access::Access;
use crate::configuration::admission_hooks::Admission;
use crate::configuration::aggregation::Aggregation;
use crate::connections::network::Network;
use crate::kinds::registry::Registry;
use crate::state::applied::Applied;
use crate::state::extracts::Extracts;
use crate::state::metrics::Metrics;
use crate::state::parsed_objects::ParsedObjects;
use crate::state::protection::Protection;
use crate::state::readiness::Readiness;
use crate::state::relay_limit::RelayLimit;
use crate::storage::front_server::InFront;
use crate::storage::metered::StoreMetrics;
use crate::storage::service_addresses::Addresses;
use crate::storage::stores::Stores;

/// What all requests share.
pub(crate) struct ServerState {
    pub(crate) name: String,
    pub(crate) git_version: String,
    pub(crate) store: Arc<Stores>,
    pub(crate) registry: Registry,
    pub(crate) clock: Clock,
    pub(crate) entropy: Entropy,
    pub(crate) access: Access,
    pub(crate) audit: AuditLog,
    /// Audit events for a log, if there is one.
    pub(crate) auditing: Option<Arc<Auditing>>,
    pub(crate) readiness: Readiness,
    pub(crate) metrics: Metrics,
    pub(crate) store_metrics: Arc<StoreMetrics>,
    pub(crate) addresses: Arc<Addresses>,
    pub(crate) extracts: Extracts,
    pub(crate) parsed: ParsedObjects,
    /// Where the Service `kubernetes` leads.
    pub(crate) advertised: Option<SocketAddr>,
    pub(crate) watches: AtomicUsize,
    pub(crate) fairness: Fairness,
    pub(crate) applied: Applied,
    pub(crate) admission: Admission,
    pub(crate) aggregation: Aggregation,
    /// Held by the write that is validated against other objects, one at a time.
    pub(crate) exclusive_writes: tokio::sync::Mutex<()>,
    pub(crate) protection: Option<Protection>,
    /// Whether pods run as service accounts.
    pub(crate) accounts: bool,
    /// How other servers are reached.
    pub(crate) network: Network,
    /// The server that this one stands behind.
    pub(crate) in_front: Option<Arc<InFront>>,
    pub(crate) relay_limit: RelayLimit,
    pub(crate) stop: CancellationToken,
    pub(crate) tasks: TaskTracker,
}
