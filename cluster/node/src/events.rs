//! Events about pods, as kubectl describe shows them. Losing one is no error: they are for people.

use std::collections::BTreeMap;

pub(crate) use base_controller::EventType;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;

use crate::node::Host;

/// Different events remembered per pod for counting repetitions; a pod repeats few, and beyond that each is new.
const REMEMBERED_MAX: usize = 16;
/// The name of the reporter, which programs look for.
const COMPONENT: &str = "kubelet";

/// Writes the events of one pod; a repeated one is counted up instead of written again.
pub(crate) struct Recorder {
    events: Api<Event>,
    about: ObjectReference,
    written: BTreeMap<(String, String), (String, i32)>,
}

impl Recorder {
    pub(crate) fn new(host: &Host, pod: &Pod) -> Self {
        let meta = &pod.metadata;
        Recorder {
            events: Api::namespaced(host.client.clone(), meta.namespace.as_deref().unwrap_or_default()),
            about: ObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Pod".to_owned()),
                namespace: meta.namespace.clone(),
                name: meta.name.clone(),
                uid: meta.uid.clone(),
                ..ObjectReference::default()
            },
            written: BTreeMap::new(),
        }
    }

    /// Records an event of the pod, or about one of its containers.
    pub(crate) async fn record(
        &mut self,
        host: &Host,
        event_type: EventType,
        reason: &str,
        container: Option<&str>,
        message: &str,
    ) {
        let key = (reason.to_owned(), message.to_owned());
        let written = match self.written.get(&key).cloned() {
            Some((name, count)) => self.count_up(host, &name, count + 1).await.map(|()| (name, count + 1)),
            None => self
                .create(host, event_type, reason, container, message)
                .await
                .map(|name| (name, 1)),
        };
        match written {
            Ok(written) => {
                if self.written.len() < REMEMBERED_MAX || self.written.contains_key(&key) {
                    self.written.insert(key, written);
                }
            }
            Err(error) => {
                // An expired event is created again next time.
                self.written.remove(&key);
                tracing::debug!(%error, reason, "event was not written");
            }
        }
    }

    async fn create(
        &self,
        host: &Host,
        event_type: EventType,
        reason: &str,
        container: Option<&str>,
        message: &str,
    ) -> Result<String, kube::Error> {
        let now = Time(host.clock.now());
        let name = format!(
            "{}.{}",
            self.about.name.as_deref().unwrap_or_default(),
            host.entropy.suffix(10)
        );
        let field_path = container.map(|name| format!("spec.containers{{{name}}}"));
        let event = Event {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                namespace: self.about.namespace.clone(),
                ..ObjectMeta::default()
            },
            involved_object: ObjectReference {
                field_path,
                ..self.about.clone()
            },
            type_: Some(event_type.as_str().to_owned()),
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
            count: Some(1),
            first_timestamp: Some(now.clone()),
            last_timestamp: Some(now),
            source: Some(EventSource {
                component: Some(COMPONENT.to_owned()),
                host: Some(host.name.clone()),
            }),
            reporting_component: Some(COMPONENT.to_owned()),
            reporting_instance: Some(host.name.clone()),
            ..Event::default()
        };
        self.events.create(&PostParams::default(), &event).await.map(|_| name)
    }

    async fn count_up(&self, host: &Host, name: &str, count: i32) -> Result<(), kube::Error> {
        let patch = json!({"count": count, "lastTimestamp": Time(host.clock.now())});
        self.events
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .map(|_| ())
    }
}
