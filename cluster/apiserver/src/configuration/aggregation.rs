//! Groups and versions that another server serves behind this one: an APIService names them and the server. It forwards no
//! request.
//! (kubernetes/kubernetes v1.35 staging/src/k8s.io/kube-aggregator/pkg/apiserver)

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use cluster_store::Entry;
use tokio::sync::Notify;

use crate::configuration::backend::{self, Backend};
use crate::connections::identity::ClientIdentity;
use crate::storage::resource_names::API_REGISTRATION;

/// Group and version.
type Place = (String, String);

/// A group and version that another server serves.
#[derive(Clone)]
pub(crate) struct Route {
    /// The server.
    pub(crate) backend: Arc<Backend>,
    /// Whether its last check was passed.
    pub(crate) available: bool,
}

/// All of them, by group and version.
pub(crate) type Routes = BTreeMap<Place, Route>;

/// The aggregated servers of one server.
#[derive(Default)]
pub(crate) struct Aggregation {
    /// Whether there is any route.
    any: AtomicBool,
    routes: RwLock<Arc<Routes>>,
    /// The certificate that this server presents to the others.
    identity: Option<ClientIdentity>,
    /// Something was written that may change the result of a check.
    pub(crate) changed: Notify,
}

impl Aggregation {
    pub(crate) fn new(identity: Option<ClientIdentity>) -> Self {
        Self {
            identity,
            ..Self::default()
        }
    }

    /// All routes.
    pub(crate) fn routes(&self) -> Arc<Routes> {
        self.routes.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether there is any route at all.
    pub(crate) fn is_used(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// The other server that serves a path, or describes what is there; none if it is this one.
    pub(crate) fn route(&self, path: &str) -> Option<Route> {
        if !self.is_used() {
            return None;
        }
        let path = path.strip_prefix("/openapi/v3").unwrap_or(path);
        // What is authorized is what stands in the path: a path with empty parts has no route.
        let mut parts = path.strip_prefix('/')?.split('/');
        let place = match (parts.next()?, parts.next()?) {
            ("api", version) => (String::new(), version.to_owned()),
            ("apis", group) if group != API_REGISTRATION => (group.to_owned(), parts.next()?.to_owned()),
            _ => return None,
        };
        self.routes().get(&place).cloned()
    }

    /// Something was written by which a server behind this one may be reached, or not any more.
    pub(crate) fn note_change(&self) {
        self.changed.notify_one();
    }

    /// Changes the routes after a write of an APIService.
    pub(crate) fn update_routes(&self, entry: &Entry, removed: bool) {
        let object = entry.object.value(entry.revision);
        let text = |field: &str| object["spec"][field].as_str().unwrap_or_default().to_owned();
        let place = (text("group"), text("version"));
        let mut routes = self.routes.write().unwrap_or_else(PoisonError::into_inner);
        let mut all = (**routes).clone();
        let before = all.remove(&place);
        if !removed && object["spec"]["service"].is_object() {
            let backend = before
                .map(|route| route.backend)
                .filter(|backend| backend.is_of(&object));
            let backend = backend.unwrap_or_else(|| Arc::new(Backend::of(&object, self.identity.as_ref())));
            let available = backend::is_available(&object);
            all.insert(place, Route { backend, available });
        }
        self.any.store(!all.is_empty(), Ordering::Release);
        *routes = Arc::new(all);
        drop(routes);
        self.note_change();
    }
}
