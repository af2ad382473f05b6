//! A webhook as an extension author writes it: its name, where it is registered, which objects it is called for, who decides.
//! It never makes a request.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::decide::{Decide, Mutating, Validating};
use crate::refusal::Refusal;
use crate::request::{ObjectKind, Request};

/// How long an API server waits for an answer (gardener/gardener v1.150 extensions/pkg/webhook/registration.go).
const TIMEOUT_SECONDS: u8 = 10;
/// The longest time that API servers accept.
const TIMEOUT_SECONDS_MAX: u8 = 30;

/// Changes objects of one kind.
#[async_trait]
pub trait Mutator<K>: Send + Sync + 'static {
    /// Makes of `new` what it shall be. `old` is the object before an update. Only what differs afterwards is written; fields
    /// that the type does not know stay. It is not called for objects in deletion. API servers call it again with what it
    /// has made: then it has nothing to change.
    async fn mutate(&self, request: &Request, new: &mut K, old: Option<&K>) -> Result<(), Refusal>;
}

/// Accepts or refuses objects of one kind.
#[async_trait]
pub trait Validator<K>: Send + Sync + 'static {
    /// Returns warnings that the client of the API server shows, or a refusal.
    async fn validate(&self, request: &Request, new: &K, old: Option<&K>) -> Result<Vec<String>, Refusal>;
}

/// In whose API server a webhook is registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// The cluster that the extension runs in: a seed, or with a registration in the garden's API server, the garden.
    Seed,
    /// Every shoot of the extension, by a ManagedResource.
    Shoot,
}

/// What an API server does when a webhook does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailurePolicy {
    /// The request fails.
    Fail,
    /// The request passes.
    Ignore,
}

impl FailurePolicy {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Fail => "Fail",
            Self::Ignore => "Ignore",
        }
    }
}

/// Which objects a webhook is called for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) group: String,
    pub(crate) version: String,
    /// Plural, and behind a slash the subresource.
    pub(crate) resource: String,
}

/// A webhook. It is called when objects are created and updated.
#[derive(Clone)]
pub struct Webhook {
    pub(crate) name: String,
    pub(crate) path: String,
    /// Whether one of the deciders may change objects.
    pub(crate) changes: bool,
    pub(crate) target: Target,
    pub(crate) rules: Vec<Rule>,
    pub(crate) deciders: BTreeMap<ObjectKind, Arc<dyn Decide>>,
    pub(crate) namespaces: Option<LabelSelector>,
    pub(crate) objects: Option<LabelSelector>,
    pub(crate) failure_policy: Option<FailurePolicy>,
    pub(crate) timeout_seconds: u8,
}

impl Webhook {
    /// A webhook without objects yet. `name` is its own part of the whole name, such as `controlplane`, and its path. With a
    /// mutator it belongs to a MutatingWebhookConfiguration, else to a ValidatingWebhookConfiguration.
    #[must_use]
    pub fn new(name: &str, target: Target) -> Self {
        Self {
            name: name.to_owned(),
            path: format!("/{name}"),
            changes: false,
            target,
            rules: Vec::new(),
            deciders: BTreeMap::new(),
            namespaces: None,
            objects: None,
            failure_policy: None,
            timeout_seconds: TIMEOUT_SECONDS,
        }
    }

    /// Calls `mutator` for objects of a kind.
    #[must_use]
    pub fn mutates<K>(mut self, mutator: impl Mutator<K>) -> Self
    where
        K: Resource<DynamicType = ()> + DeserializeOwned + Serialize + Clone + Send + Sync + 'static,
    {
        self.changes = true;
        self.decides::<K>(Arc::new(Mutating::<K, _>::new(mutator)))
    }

    /// Calls `validator` for objects of a kind.
    #[must_use]
    pub fn validates<K>(self, validator: impl Validator<K>) -> Self
    where
        K: Resource<DynamicType = ()> + DeserializeOwned + Send + Sync + 'static,
    {
        self.decides::<K>(Arc::new(Validating::<K, _>::new(validator)))
    }

    fn decides<K: Resource<DynamicType = ()>>(mut self, decider: Arc<dyn Decide>) -> Self {
        let kind = ObjectKind {
            group: K::group(&()).into_owned(),
            version: K::version(&()).into_owned(),
            kind: K::kind(&()).into_owned(),
        };
        self.rules.push(Rule {
            group: kind.group.clone(),
            version: kind.version.clone(),
            resource: K::plural(&()).into_owned(),
        });
        self.deciders.insert(kind, decider);
        self
    }

    /// Another path than the webhook's name; it begins with a slash.
    #[must_use]
    pub fn path(self, path: &str) -> Self {
        Self {
            path: format!("/{}", path.trim_start_matches('/')),
            ..self
        }
    }

    /// Only objects in namespaces with such labels.
    #[must_use]
    pub fn in_namespaces(self, selector: LabelSelector) -> Self {
        Self {
            namespaces: Some(selector),
            ..self
        }
    }

    /// Only objects with such labels.
    #[must_use]
    pub fn of_objects(self, selector: LabelSelector) -> Self {
        Self {
            objects: Some(selector),
            ..self
        }
    }

    /// What happens when nothing answers. Without it, requests fail in a seed and pass in a shoot.
    #[must_use]
    pub fn failure_policy(self, policy: FailurePolicy) -> Self {
        Self {
            failure_policy: Some(policy),
            ..self
        }
    }

    /// How long API servers wait for an answer: 1 to 30 s, 10 s without it. The deciders have a second less.
    #[must_use]
    pub fn timeout_seconds(self, seconds: u8) -> Self {
        Self {
            timeout_seconds: seconds.clamp(1, TIMEOUT_SECONDS_MAX),
            ..self
        }
    }

    /// What applies when nothing answers.
    pub(crate) fn effective_failure_policy(&self) -> FailurePolicy {
        self.failure_policy.unwrap_or(match self.target {
            Target::Seed => FailurePolicy::Fail,
            Target::Shoot => FailurePolicy::Ignore,
        })
    }

    /// How long deciders may take: an answer that says so is worth more than none.
    pub(crate) fn patience(&self) -> Duration {
        match self.timeout_seconds {
            1 => Duration::from_millis(500),
            seconds => Duration::from_secs(u64::from(seconds) - 1),
        }
    }
}

/// Selects what has this label.
#[must_use]
pub fn labelled(key: &str, value: &str) -> LabelSelector {
    LabelSelector {
        match_labels: Some(BTreeMap::from([(key.to_owned(), value.to_owned())])),
        ..LabelSelector::default()
    }
}
