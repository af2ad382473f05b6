//! Admission that objects configure: webhooks, policies, quota. What is configured is compiled once, when it is written, and
//! shared by all requests; a server without any pays one load per write. No lock is held while a webhook is waited for.
//! (kubernetes/kubernetes v1.35 staging/src/k8s.io/apiserver/pkg/admission)

mod asked;
pub(crate) mod client;
mod delete;
mod exchange;
pub(crate) mod identity;
mod mutating;
mod own_body;
mod patching;
mod policies;
mod policy;
mod quota;
pub(crate) mod reply;
mod rules;
mod validating;
mod webhook;

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use cluster_schema::cel::Work;
use cluster_store::{Entry, Page, Range};
use serde_json::Value;

pub(crate) use delete::review_deletion;
pub(crate) use own_body::{review_body, review_connection};

use crate::context::store_status;
use crate::server::Inner;
use crate::status::Status;
use asked::Asked;
use client::{Client, Clients};
use policy::{Binding, Policy};
pub(crate) use quota::{QUOTAS, is_counted};
use webhook::Webhook;

/// What configures admission, as the store names it.
pub(crate) const CONFIGURATION: [&str; 4] = [MUTATING, VALIDATING, POLICIES, BINDINGS];
/// The group of the kinds that configure admission. They are exempt from it themselves.
pub(crate) const GROUP: &str = "admissionregistration.k8s.io";
const MUTATING: &str = "mutatingwebhookconfigurations";
const VALIDATING: &str = "validatingwebhookconfigurations";
const POLICIES: &str = "validatingadmissionpolicies";
const BINDINGS: &str = "validatingadmissionpolicybindings";

/// All that is configured, compiled.
#[derive(Default)]
pub(crate) struct Hooks {
    /// By name of their configurations, then in order.
    mutating: Vec<Arc<Webhook>>,
    validating: Vec<Arc<Webhook>>,
    /// By name, each with its bindings by theirs; those that nothing binds are left out.
    policies: Vec<(Arc<Policy>, Vec<Arc<Binding>>)>,
}

impl Hooks {
    /// Whether a mutating webhook may want to hear of the request, by its rules.
    fn may_change(&self, asked: &Asked<'_>) -> bool {
        self.mutating.iter().any(|hook| hook.matching.version(asked).is_some())
    }

    /// Whether a validating webhook or a policy may, by its rules.
    fn may_refuse(&self, asked: &Asked<'_>) -> bool {
        self.validating
            .iter()
            .any(|hook| hook.matching.version(asked).is_some())
            || self
                .policies
                .iter()
                .any(|(policy, _)| policy.matching.version(asked).is_some())
    }
}

/// What one server is configured to ask.
#[derive(Default)]
pub(crate) struct Admission {
    /// Whether anything is configured at all.
    any: AtomicBool,
    hooks: RwLock<Arc<Hooks>>,
    sources: Mutex<Sources>,
    clients: Clients,
    /// Whether there is any quota, or was.
    quotas: AtomicBool,
    /// Whose turn it is to be counted.
    quota_turn: tokio::sync::Mutex<()>,
}

/// The webhooks of each configuration, by its name.
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

    fn has_quotas(&self) -> bool {
        self.quotas.load(Ordering::Acquire)
    }

    /// A quota was written: from now on they are looked for.
    pub(crate) fn note_quota(&self) {
        self.quotas.store(true, Ordering::Release);
    }

    /// How a webhook is reached, whoever asks it. Errors: why it cannot be.
    pub(crate) fn client(&self, config: &Value) -> Result<Arc<Client>, String> {
        self.clients.client(config)
    }

    /// Takes in a write of a configuration.
    pub(crate) fn written(&self, entry: &Entry, removed: bool) {
        let Some((GROUP, resource)) = entry.key.resource.split_once('/') else {
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

/// What was asked and answered apart from a write: the warnings of all who let it pass, or the refusal with them before its
/// own.
fn told(outcome: Result<(), Status>, mut warnings: Vec<String>) -> Result<Vec<String>, Status> {
    match outcome {
        Ok(()) => Ok(warnings),
        Err(mut status) => {
            warnings.extend(status.take_warnings());
            Err(status.warned(warnings))
        }
    }
}

/// Takes in what the store holds when the server starts.
pub(crate) async fn load(server: &Inner) -> Result<(), Status> {
    for resource in CONFIGURATION {
        let range = Range::all(format!("{GROUP}/{resource}"));
        let listing = server.store.list(&range, Page::default()).await.map_err(store_status)?;
        for entry in &listing.entries {
            server.admission.written(entry, false);
        }
    }
    let one = Page {
        limit: NonZeroUsize::new(1),
        ..Page::default()
    };
    let quotas = server
        .store
        .list(&Range::all(QUOTAS), one)
        .await
        .map_err(store_status)?;
    if !quotas.entries.is_empty() {
        server.admission.note_quota();
    }
    Ok(())
}
