//! Mirrors namespaces, quotas and admission configuration of the API server in front until this server stops, with one watch
//! for each resource. A watch that ends is resumed, or begins again with a list.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError};

use base_client::watch_dynamic;
use cluster_store::{Entry, Key, StoreError};
use futures::StreamExt;
use kube::Api;
use kube::api::{ApiResource, DynamicObject};
use kube::runtime::watcher::{Config, Event};

use crate::state::server_state::ServerState;
use crate::storage::front_server::{InFront, Mirror};
use crate::storage::resource_names::{self, QUOTAS};

/// Starts the watches, and adds a check to `/readyz` that all resources were listed, under the name that aggregated API servers
/// have for that.
pub(crate) fn start(server: &Arc<ServerState>) {
    let Some(front) = &server.in_front else { return };
    let synced = front.clone();
    server.readiness.add("informer-sync", move || match synced.is_synced() {
        true => Ok(()),
        false => Err("the API server in front has not listed what is followed there yet".to_owned()),
    });
    for resource in front.mirrors.keys() {
        let (server, front, resource) = (server.clone(), front.clone(), resource.clone());
        server.tasks.clone().spawn(async move {
            let stop = server.stop.clone();
            stop.run_until_cancelled(follow(&server, &front, &front.mirrors[&resource]))
                .await;
        });
    }
}

async fn follow(server: &Arc<ServerState>, front: &InFront, mirror: &Mirror) {
    let place = &mirror.place;
    let resource = ApiResource {
        group: place.group.clone(),
        version: place.version.clone(),
        api_version: place.api_version(),
        kind: place.kind.clone(),
        plural: place.plural.clone(),
    };
    let api: Api<DynamicObject> = Api::all_with(front.client.clone(), &resource);
    let mut events = Box::pin(watch_dynamic(api, Config::default()));
    let mut listed = BTreeSet::new();
    let mut is_first = true;
    let mut reports_failures = true;
    while let Some(event) = events.next().await {
        let event = match event {
            Ok(event) => event,
            Err(error) => {
                // Once per outage, which may last for many attempts.
                if std::mem::take(&mut reports_failures) {
                    let resource = &place.plural;
                    tracing::warn!(resource, %error, "the watch of the API server in front ended");
                }
                continue;
            }
        };
        match event {
            Event::Init => listed.clear(),
            Event::InitApply(object) => {
                if let Some(key) = put(server, mirror, &object) {
                    listed.insert(key);
                }
            }
            Event::InitDone => {
                retain(server, mirror, &listed);
                reports_failures = true;
                if std::mem::take(&mut is_first) {
                    front.pending.send_modify(|pending| *pending -= 1);
                }
            }
            Event::Apply(object) => {
                put(server, mirror, &object);
                reports_failures = true;
            }
            Event::Delete(object) => {
                if let Ok(entry) = entry(mirror, &object) {
                    remove(server, mirror, &entry);
                }
            }
        }
    }
}

fn entry(mirror: &Mirror, object: &DynamicObject) -> Result<Entry, StoreError> {
    let value = serde_json::to_value(object).map_err(|error| StoreError::Malformed(error.to_string()))?;
    mirror.place.entry(value)
}

/// Adds or replaces an object. None: it cannot be read.
fn put(server: &Arc<ServerState>, mirror: &Mirror, object: &DynamicObject) -> Option<Key> {
    let entry = match entry(mirror, object) {
        Ok(entry) => entry,
        Err(error) => {
            tracing::warn!(resource = mirror.place.plural, %error, "an object of the API server in front cannot be read");
            return None;
        }
    };
    let key = entry.key.clone();
    let mut objects = mirror.objects.write().unwrap_or_else(PoisonError::into_inner);
    objects.insert(key.clone(), entry.clone());
    drop(objects);
    apply_mirrored_write(server, &entry, false);
    Some(key)
}

fn remove(server: &Arc<ServerState>, mirror: &Mirror, entry: &Entry) {
    let mut objects = mirror.objects.write().unwrap_or_else(PoisonError::into_inner);
    objects.remove(&entry.key);
    drop(objects);
    apply_mirrored_write(server, entry, true);
}

/// One task applies all changes of a resource, in order, so versions are not compared: they may start again when the server in
/// front was restored.
fn apply_mirrored_write(server: &Arc<ServerState>, entry: &Entry, removed: bool) {
    match entry.key.resource.split_once('/') {
        Some((resource_names::ADMISSION, _)) => server.admission.recompile(entry, removed),
        None if &*entry.key.resource == QUOTAS => server.admission.note_quota(),
        _ => {}
    }
}

/// Removes the objects that a new list does not have.
fn retain(server: &Arc<ServerState>, mirror: &Mirror, listed: &BTreeSet<Key>) {
    let objects = mirror.objects.read().unwrap_or_else(PoisonError::into_inner);
    let gone: Vec<Entry> = objects
        .values()
        .filter(|entry| !listed.contains(&entry.key))
        .cloned()
        .collect();
    drop(objects);
    for entry in gone {
        remove(server, mirror, &entry);
    }
}
