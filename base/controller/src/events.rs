//! Kubernetes events, for people who type `kubectl describe`. The same event about the same object becomes one
//! with a count. It never fails its caller: an event that cannot be written is a line in the log.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base_clock::Clock;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Resource};
use serde_json::json;

/// An event that comes again within this time is counted up instead of written as a new one (client-go's window).
const REPEAT_WINDOW: Duration = Duration::from_secs(600);
/// Events remembered for counting up; beyond it the oldest is forgotten.
const REMEMBERED_MAX: usize = 1024;

/// The type of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventType {
    /// As it should be.
    Normal,
    /// A person should look at it.
    Warning,
}

impl EventType {
    /// As the API has it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// Writes events of one component. Clones share the memory of events.
#[derive(Clone)]
pub struct Recorder {
    client: kube::Client,
    component: Arc<str>,
    clock: Clock,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
struct Seen {
    events: BTreeMap<Identity, Written>,
    counter: u64,
}

/// The object (uid or name), type, reason, message.
type Identity = (String, EventType, String, String);

struct Written {
    namespace: String,
    name: String,
    count: i32,
    last: Timestamp,
}

enum Todo {
    Count {
        namespace: String,
        name: String,
        count: i32,
    },
    Create {
        name: String,
    },
}

impl Recorder {
    /// A recorder whose events come from `component`.
    pub fn new(client: kube::Client, component: impl Into<Arc<str>>, clock: Clock) -> Self {
        Self {
            client,
            component: component.into(),
            clock,
            seen: Arc::default(),
        }
    }

    /// Records `message` about `object`. `reason` is one CamelCase word. No secrets in either.
    pub async fn record<K>(&self, object: &K, type_: EventType, reason: &str, message: &str)
    where
        K: Resource<DynamicType = ()>,
    {
        let meta = object.meta();
        let about = ObjectReference {
            api_version: Some(K::api_version(&()).into_owned()),
            kind: Some(K::kind(&()).into_owned()),
            name: meta.name.clone(),
            namespace: meta.namespace.clone(),
            uid: meta.uid.clone(),
            resource_version: meta.resource_version.clone(),
            field_path: None,
        };
        self.record_about(about, type_, reason, message).await;
    }

    /// Like [`Recorder::record`], for an object known by reference.
    pub async fn record_about(&self, about: ObjectReference, type_: EventType, reason: &str, message: &str) {
        let now = self.clock.now();
        let who = about.uid.clone().or_else(|| about.name.clone()).unwrap_or_default();
        let identity = (who, type_, reason.to_owned(), message.to_owned());
        // Events about objects without namespace live in `default`, as upstream's recorder puts them.
        let namespace = about.namespace.clone().unwrap_or_else(|| "default".to_owned());
        let todo = self.remember(&identity, &namespace, about.name.as_deref().unwrap_or_default(), now);
        let written = match todo {
            Todo::Count { namespace, name, count } => {
                let patch = json!({"count": count, "lastTimestamp": Time(now)});
                let api: Api<Event> = Api::namespaced(self.client.clone(), &namespace);
                api.patch(&name, &PatchParams::default(), &Patch::Merge(patch))
                    .await
                    .map(drop)
            }
            Todo::Create { name } => {
                let event = Event {
                    metadata: ObjectMeta {
                        name: Some(name),
                        namespace: Some(namespace.clone()),
                        ..Default::default()
                    },
                    involved_object: about,
                    type_: Some(type_.as_str().to_owned()),
                    reason: Some(reason.to_owned()),
                    message: Some(message.to_owned()),
                    count: Some(1),
                    first_timestamp: Some(Time(now)),
                    last_timestamp: Some(Time(now)),
                    source: Some(EventSource {
                        component: Some(self.component.to_string()),
                        host: None,
                    }),
                    reporting_component: Some(self.component.to_string()),
                    ..Default::default()
                };
                let api: Api<Event> = Api::namespaced(self.client.clone(), &namespace);
                api.create(&PostParams::default(), &event).await.map(drop)
            }
        };
        if let Err(error) = written {
            self.lock().events.remove(&identity);
            tracing::debug!(reason, "event not written: {error}");
        }
    }

    fn remember(&self, identity: &Identity, namespace: &str, about: &str, now: Timestamp) -> Todo {
        let mut seen = self.lock();
        if let Some(written) = seen.events.get_mut(identity)
            && now.duration_since(written.last) < REPEAT_WINDOW.try_into().unwrap_or_default()
        {
            written.count = written.count.saturating_add(1);
            written.last = now;
            let Written {
                namespace, name, count, ..
            } = written;
            return Todo::Count {
                namespace: namespace.clone(),
                name: name.clone(),
                count: *count,
            };
        }
        if seen.events.len() >= REMEMBERED_MAX
            && let Some(oldest) = seen
                .events
                .iter()
                .min_by_key(|(_, written)| written.last)
                .map(|(key, _)| key.clone())
        {
            seen.events.remove(&oldest);
        }
        seen.counter += 1;
        // Upstream's form: the object's name and a hexadecimal time; the counter keeps events of one instant apart.
        let stamp = now
            .as_nanosecond()
            .unsigned_abs()
            .wrapping_add(u128::from(seen.counter));
        let name = format!("{about}.{stamp:x}");
        let written = Written {
            namespace: namespace.to_owned(),
            name: name.clone(),
            count: 1,
            last: now,
        };
        seen.events.insert(identity.clone(), written);
        Todo::Create { name }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
