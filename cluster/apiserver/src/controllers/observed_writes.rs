//! What the server applies to itself of writes, its own and those of others on the same store: access rules, admission and served
//! kinds, each in the order of the store.

use std::sync::{Arc, PoisonError};

use cluster_store::Entry;

use crate::controllers::{aggregated_roles, definitions};
use crate::kinds::registry::{Role, Served};
use crate::state::applied::is_newest;
use crate::state::server_state::ServerState;
use crate::storage::resource_names;

impl ServerState {
    /// Called after every write of the store by this server.
    pub(crate) fn observe_own_write(self: &Arc<Self>, served: &Served, entry: &Entry, removed: bool) {
        if &*served.store_name == resource_names::QUOTAS {
            self.admission.note_quota();
        }
        let leads_there = served.role == Role::Service || served.plural() == "endpointslices";
        if leads_there && self.aggregation.is_used() {
            self.aggregation.note_change();
        }
        let definition = served.role == Role::CustomResourceDefinition;
        if definition
            || matches!(
                served.group(),
                resource_names::RBAC | resource_names::ADMISSION | resource_names::API_REGISTRATION
            )
        {
            self.apply_if_newest(entry, removed);
        }
    }

    /// Applies a write of what changes how this server behaves, unless a newer write of the object was applied before.
    fn apply_if_newest(self: &Arc<Self>, entry: &Entry, removed: bool) {
        let mut applied = self.applied.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !is_newest(&mut applied, entry) {
            return;
        }
        if &*entry.key.resource == resource_names::DEFINITIONS {
            definitions::update_served_kinds(self, entry, removed);
        } else if entry.key.resource.starts_with(resource_names::ADMISSION) {
            self.admission.recompile(entry, removed);
        } else if entry.key.resource.starts_with(resource_names::API_REGISTRATION) {
            self.aggregation.update_routes(entry, removed);
        } else {
            self.access
                .update_rbac(&entry.key, if removed { None } else { Some(&entry.object) });
            aggregated_roles::aggregate_later(self, entry);
        }
    }

    /// Called for every write that a watch of the store reports, this server's own among them.
    pub(crate) fn observe_stored_write(self: &Arc<Self>, entry: &Entry, removed: bool) {
        if &*entry.key.resource == resource_names::QUOTAS {
            return self.admission.note_quota();
        }
        let known = {
            let applied = self.applied.0.lock().unwrap_or_else(PoisonError::into_inner);
            applied.get(&entry.key).copied()
        };
        // An own write is applied already.
        if known.is_none_or(|known| known < entry.revision) {
            self.apply_if_newest(entry, removed);
        }
    }
}
