//! Groups and versions that another server serves behind this one: an APIService says which and where. A request has been
//! authenticated and authorized here before it is sent on, and goes on as the user that it has here.
//! (kubernetes/kubernetes v1.35 staging/src/k8s.io/kube-aggregator/pkg/apiserver)

mod available;
mod backend;
mod local;
mod pass;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use cluster_store::{Entry, Page, Range};
use serde_json::Value;
use tokio::sync::Notify;

pub(crate) use available::start;
pub(crate) use backend::Backend;
pub(crate) use local::{follow, make, priority};
pub(crate) use pass::pass;

use crate::admission::identity::ClientIdentity;
use crate::context::store_status;
use crate::server::Inner;
use crate::status::Status;

/// The group of APIServices. It is always this server's own.
pub(crate) const GROUP: &str = "apiregistration.k8s.io";
/// As in the store's keys.
pub(crate) const STORE_NAME: &str = "apiregistration.k8s.io/apiservices";

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

/// What other servers do for one server.
#[derive(Default)]
pub(crate) struct Aggregation {
    /// Whether there is any route.
    any: AtomicBool,
    routes: RwLock<Arc<Routes>>,
    /// As whom this server shows itself to the others.
    identity: Option<ClientIdentity>,
    /// Something was written that a check may judge otherwise.
    changed: Notify,
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

    /// Who serves a path, or describes what is there, if it is another server.
    pub(crate) fn route(&self, path: &str) -> Option<Route> {
        if !self.is_used() {
            return None;
        }
        let path = path.strip_prefix("/openapi/v3").unwrap_or(path);
        // What is authorized is what stands in the path: a path with holes in it belongs to nobody.
        let mut parts = path.strip_prefix('/')?.split('/');
        let place = match (parts.next()?, parts.next()?) {
            ("api", version) => (String::new(), version.to_owned()),
            ("apis", group) if group != GROUP => (group.to_owned(), parts.next()?.to_owned()),
            _ => return None,
        };
        self.routes().get(&place).cloned()
    }

    /// Something was written by which a server behind this one may be reached, or not any more.
    pub(crate) fn note_change(&self) {
        self.changed.notify_one();
    }

    /// Takes in a write of an APIService.
    pub(crate) fn written(&self, entry: &Entry, removed: bool) {
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
            let available = available::is_available(&object);
            all.insert(place, Route { backend, available });
        }
        self.any.store(!all.is_empty(), Ordering::Release);
        *routes = Arc::new(all);
        drop(routes);
        self.note_change();
    }
}

/// Takes in what the store holds when the server starts.
pub(crate) async fn load(server: &Inner) -> Result<(), Status> {
    let listing = server.store.list(&Range::all(STORE_NAME), Page::default()).await;
    for entry in &listing.map_err(store_status)?.entries {
        server.aggregation.written(entry, false);
    }
    Ok(())
}

/// A number of the specification.
fn number(object: &Value, field: &str) -> i64 {
    object["spec"][field].as_i64().unwrap_or_default()
}
