//! The extensions of the seed as the test plays them: they answer at once, keep silent, fail or lie, each kind by itself.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use api_extensions::ExtensionObject;
use api_meta::annotations;
use base_clock::Clock;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams};
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::world::start_cache;

/// What keeps an object until its extension has let go of what belongs to it.
pub(crate) const FINALIZER: &str = "extensions.gardener.cloud/played";

/// What a false status is about: the object, and the time.
pub(crate) struct Seen {
    pub(crate) generation: i64,
    pub(crate) now: String,
}

/// The status that an extension writes; null if it takes the request up and writes nothing.
pub(crate) type Lie = Arc<dyn Fn(&Seen) -> Value + Send + Sync>;

/// How one extension kind behaves.
#[derive(Clone, Default)]
enum Mood {
    #[default]
    Answers,
    Silent,
    Fails(String, String),
    Lies(Lie),
}

/// All extensions of the seed.
#[derive(Clone)]
pub(crate) struct Extensions {
    client: Client,
    clock: Clock,
    moods: Arc<Mutex<BTreeMap<String, Mood>>>,
    moved: Arc<tokio::sync::Notify>,
    stop: CancellationToken,
}

impl Extensions {
    pub(crate) fn new(client: Client, clock: Clock, stop: CancellationToken) -> Self {
        Self {
            client,
            clock,
            moods: Arc::default(),
            moved: Arc::default(),
            stop,
        }
    }

    fn mood(&self, kind: &str, mood: Mood) {
        let mut moods = self.moods.lock().expect("no holder of the lock panics");
        moods.insert(kind.to_owned(), mood);
        self.moved.notify_waiters();
    }

    pub(crate) fn silence(&self, kind: &str) {
        self.mood(kind, Mood::Silent);
    }

    pub(crate) fn speak(&self, kind: &str) {
        self.mood(kind, Mood::Answers);
    }

    pub(crate) fn fail(&self, kind: &str, text: &str, code: &str) {
        self.mood(kind, Mood::Fails(text.to_owned(), code.to_owned()));
    }

    pub(crate) fn lie(&self, kind: &str, lie: &Lie) {
        self.mood(kind, Mood::Lies(lie.clone()));
    }

    /// Plays the extension of kind `K`; `extra` is what it answers beside the common fields.
    pub(crate) fn answer<K: ExtensionObject>(&self, extra: impl Fn(&K) -> Value + Send + 'static) {
        let this = self.clone();
        let cache = start_cache::<K>(&self.client, &self.stop);
        tokio::spawn(self.stop.clone().run_until_cancelled_owned(async move {
            let mut changes = cache.subscribe();
            loop {
                for object in cache.list() {
                    this.turn(&*object, extra(&object)).await;
                }
                tokio::select! {
                    _ = changes.next() => {}
                    () = this.moved.notified() => {}
                }
            }
        }));
    }

    async fn turn<K: ExtensionObject>(&self, object: &K, extra: Value) {
        let moods = self.moods.lock().expect("no holder of the lock panics").clone();
        let mood = moods.get(&*<K as Resource>::kind(&())).cloned().unwrap_or_default();
        let now = self.clock.now().to_string();
        let held = object.finalizers().iter().any(|finalizer| finalizer == FINALIZER);
        if object.meta().deletion_timestamp.is_some() && held {
            self.let_go(object, &mood, &now).await;
            return;
        }
        let mut status = extra;
        let report = |state: &str, error: Value| {
            json!({"observedGeneration": object.meta().generation, "lastError": error, "lastOperation":
                {"type": "Reconcile", "state": state, "progress": 100, "description": "d", "lastUpdateTime": now}})
        };
        let common = match &mood {
            Mood::Silent => return,
            Mood::Answers => report("Succeeded", Value::Null),
            Mood::Fails(text, code) => report(
                "Error",
                json!({"description": text, "codes": [code], "lastUpdateTime": now}),
            ),
            Mood::Lies(lie) => {
                status = json!({});
                lie(&Seen {
                    generation: object.meta().generation.unwrap_or_default(),
                    now,
                })
            }
        };
        if !object.annotations().contains_key(annotations::OPERATION) {
            return;
        }
        // It may be gone by now, whatever is written.
        let taken_up = json!({"metadata": {"annotations": {annotations::OPERATION: null}, "finalizers": [FINALIZER]}});
        let api = self.api(object);
        let name = object.name_any();
        let _ = api.patch(&name, &PatchParams::default(), &Patch::Merge(taken_up)).await;
        if let (Some(status), Value::Object(common)) = (status.as_object_mut(), common) {
            status.extend(common);
            self.write(object, &Value::Object(status.clone())).await;
        }
    }

    /// The end of an object: nothing is left, or why not; that is reported once.
    async fn let_go<K: ExtensionObject>(&self, object: &K, mood: &Mood, now: &str) {
        match mood {
            Mood::Silent => {}
            Mood::Answers | Mood::Lies(_) => {
                let gone = json!({"metadata": {"finalizers": null}});
                let _ = self
                    .api(object)
                    .patch(&object.name_any(), &PatchParams::default(), &Patch::Merge(gone))
                    .await;
            }
            Mood::Fails(text, code) => {
                let message = object
                    .status()
                    .and_then(|status| Some(status.last_error?.description == *text));
                if message != Some(true) {
                    let status = json!({"lastError": {"description": text, "codes": [code], "lastUpdateTime": now},
                        "lastOperation": {"type": "Delete", "state": "Error", "progress": 50, "description": text, "lastUpdateTime": now}});
                    self.write(object, &status).await;
                }
            }
        }
    }

    async fn write<K: ExtensionObject>(&self, object: &K, status: &Value) {
        let patch = Patch::Merge(json!({"status": status}));
        let _ = self
            .api(object)
            .patch_status(&object.name_any(), &PatchParams::default(), &patch)
            .await;
    }

    fn api<K: ExtensionObject>(&self, object: &K) -> Api<DynamicObject> {
        let resource = ApiResource::erase::<K>(&());
        match object.namespace() {
            Some(namespace) => Api::namespaced_with(self.client.clone(), &namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        }
    }
}
