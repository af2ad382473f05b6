//! Admission that objects configure: webhooks, policies, quota. What is configured is compiled once, when it is written, and
//! shared by all requests; a server without any spends one atomic load per write. No lock is held while a webhook is waited for.
//! (kubernetes/kubernetes v1.35 staging/src/k8s.io/apiserver/pkg/admission)

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use cluster_cel::Work;
use cluster_store::Entry;
use serde_json::Value;

use crate::configuration::policy::{Binding, Policy};
use crate::configuration::webhook::Webhook;
use crate::connections::webhook_client::Clients;
use crate::storage::resource_names::{ADMISSION, BINDINGS, MUTATING, POLICIES, VALIDATING};

/// All that is configured, compiled.
#[derive(Default)]
pub(crate) struct Hooks {
    /// By name of their configurations, then in order.
    pub(crate) mutating: Vec<Arc<Webhook>>,
    pub(crate) validating: Vec<Arc<Webhook>>,
    /// By name, each with its bindings by theirs; those that nothing binds are left out.
    pub(crate) policies: Vec<(Arc<Policy>, Vec<Arc<Binding>>)>,
}

/// Admission as one server is configured.
#[derive(Default)]
pub(crate) struct Admission {
    /// Whether anything is configured at all.
    any: AtomicBool,
    hooks: RwLock<Arc<Hooks>>,
    sources: Mutex<Sources>,
    pub(crate) clients: Clients,
    /// Whether there is any quota, or was.
    quotas: AtomicBool,
    /// Held by the write whose quota is counted.
    pub(crate) quota_lock: tokio::sync::Mutex<()>,
}

/// What is configured, by the names of the objects.
#[derive(Default)]
struct Sources {
    mutating: BTreeMap<String, Vec<Arc<Webhook>>>,
    validating: BTreeMap<String, Vec<Arc<Webhook>>>,
    policies: BTreeMap<String, Arc<Policy>>,
    bindings: BTreeMap<String, Arc<Binding>>,
}

impl Sources {
    fn hooks(&self) -> Hooks {
        let bound = |policy: &Arc<Policy>| {
            let bindings = self.bindings.values().filter(|binding| binding.policy == policy.name);
            (policy.clone(), bindings.cloned().collect::<Vec<_>>())
        };
        let policies = self.policies.values().map(bound);
        Hooks {
            mutating: self.mutating.values().flatten().cloned().collect(),
            validating: self.validating.values().flatten().cloned().collect(),
            policies: policies.filter(|(_, bindings)| !bindings.is_empty()).collect(),
        }
    }
}

impl Admission {
    /// What is configured; none if nothing is.
    pub(crate) fn hooks(&self) -> Option<Arc<Hooks>> {
        if !self.any.load(Ordering::Acquire) {
            return None;
        }
        Some(self.hooks.read().unwrap_or_else(PoisonError::into_inner).clone())
    }

    pub(crate) fn has_quotas(&self) -> bool {
        self.quotas.load(Ordering::Acquire)
    }

    /// A quota was written: from now on they are looked for.
    pub(crate) fn note_quota(&self) {
        self.quotas.store(true, Ordering::Release);
    }

    /// Compiles a configuration that was written, or forgets one that was removed.
    pub(crate) fn recompile(&self, entry: &Entry, removed: bool) {
        let Some((ADMISSION, resource)) = entry.key.resource.split_once('/') else {
            return;
        };
        let name = entry.key.name.to_string();
        let mut sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        let found = (!removed).then(|| entry.object.value(entry.revision));
        let compiled = |mutating| {
            found.as_ref().map(|object| {
                let list = object.get("webhooks").and_then(Value::as_array);
                let list = list.into_iter().flatten().enumerate();
                let mut work = Work::of_stored_admission();
                list.map(|(index, value)| {
                    Arc::new(Webhook::of((&name, index), value, mutating, &self.clients, &mut work))
                })
                .collect()
            })
        };
        match resource {
            MUTATING => put(&mut sources.mutating, &name, compiled(true)),
            VALIDATING => put(&mut sources.validating, &name, compiled(false)),
            POLICIES => {
                let policy = found.as_ref().map(|object| Arc::new(Policy::of(&name, object)));
                put(&mut sources.policies, &name, policy);
            }
            BINDINGS => {
                let binding = found.as_ref().map(|object| Arc::new(Binding::of(&name, object)));
                put(&mut sources.bindings, &name, binding);
            }
            _ => return,
        }
        let hooks = sources.hooks();
        let any = !hooks.mutating.is_empty() || !hooks.validating.is_empty() || !hooks.policies.is_empty();
        *self.hooks.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(hooks);
        self.any.store(any, Ordering::Release);
        self.clients.forget_unused();
    }
}

fn put<T>(map: &mut BTreeMap<String, T>, name: &str, value: Option<T>) {
    match value {
        Some(value) => map.insert(name.to_owned(), value),
        None => map.remove(name),
    };
}
