//! CustomResourceDefinitions: the kinds that they add and remove, and the removal of instances
//! when one is deleted. All in the write path: a created CRD is served when the response is sent.
//! (kubernetes/kubernetes v1.35 staging/src/k8s.io/apiextensions-apiserver)

use std::sync::Arc;
use std::time::Duration;

use cluster_store::{Entry, Key, Object, Page, Range, StoreError};
use futures::StreamExt;
use serde_json::Value;

use crate::controllers::{api_services, definition_conditions};
use crate::kinds::custom::CustomKind;
use crate::kinds::definition::{self, CLEANUP};
use crate::kinds::metadata;
use crate::kinds::registry::{Role, Served, ServedPeriod};
use crate::state::server_state::ServerState;

/// The pause after the first failed attempt to remove the instances, doubled up to the maximum: a brief failure of the store
/// causes little delay, and a store that is down gets few requests.
const CLEAN_UP_AFTER: Duration = Duration::from_millis(100);
const CLEAN_UP_AFTER_MAX: Duration = Duration::from_secs(30);

/// Whether what a CRD defines is served.
pub(crate) fn is_served(server: &ServerState, entry: &Entry) -> bool {
    let definition = entry.object.value(entry.revision);
    let (group, plural) = (
        definition::text(&definition, "/spec/group"),
        definition::text(&definition, "/spec/names/plural"),
    );
    let kinds = server.registry.snapshot();
    let served = kinds.find(group, plural);
    served.is_some_and(|served| served.custom.is_some() && served.period.uid == entry.object.meta().uid)
}

/// Serves what a CRD defines, after a write of it.
pub(crate) fn update_served_kinds(server: &Arc<ServerState>, entry: &Entry, removed: bool) {
    let definition = entry.object.value(entry.revision);
    let text = |path: &str| definition::text(&definition, path).to_owned();
    let (group, plural) = (text("/spec/group"), text("/spec/names/plural"));
    let current = server.registry.snapshot().find(&group, &plural).cloned();
    if current.as_ref().is_some_and(|served| served.role != Role::Custom) {
        // A CRD never replaces a kind that the server was built with.
        return;
    }
    if removed {
        server.registry.remove(&group, &plural, entry.revision);
        api_services::sync_later(server, &group);
        definition_conditions::retry_later(server, group);
        return;
    }
    let uid = metadata::text(&definition, "uid");
    let period = match current.as_ref().map(|served| served.period.clone()) {
        Some(period) if period.uid == uid => period,
        other => {
            if other.is_some() {
                // The removal of the previous CRD has not been observed yet.
                server.registry.remove(&group, &plural, entry.revision);
            }
            Arc::new(ServedPeriod::of(uid))
        }
    };
    if metadata::is_deleting(&definition) {
        period.close();
    }
    if definition::is_established(&definition) {
        serve(server, entry, &definition, &period, current);
        api_services::sync_later(server, &group);
    }
    let waits = metadata::is_deleting(&definition) && metadata::finalizers(&definition).contains(&CLEANUP);
    if waits && period.begin_clean_up() {
        let (server, key) = (server.clone(), entry.key.clone());
        let tasks = server.tasks.clone();
        tasks.spawn(async move {
            let stop = server.stop.clone();
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = clean_up(&server, &key, &group, &plural) => {}
            }
        });
    }
}

fn serve(
    server: &ServerState,
    entry: &Entry,
    definition: &Value,
    period: &Arc<ServedPeriod>,
    before: Option<Arc<Served>>,
) {
    match CustomKind::new(definition) {
        Ok(kind) => {
            let kind = kind.converted(definition, &server.admission.clients);
            for rule in kind.skipped_rules() {
                tracing::warn!(server = %server.name, crd = %entry.key.name, rule, "a rule of a CRD cannot be run");
            }
            let same = |served: &Arc<Served>| {
                Arc::ptr_eq(&served.period, period)
                    && served.custom.as_ref().is_some_and(|before| before.reads_as(&kind))
            };
            let as_of = before.filter(same).map_or(entry.revision, |served| served.as_of);
            server
                .registry
                .put(Arc::new(Served::custom(Arc::new(kind), period.clone(), as_of)));
        }
        Err(error) => tracing::warn!(server = %server.name, crd = %entry.key.name, error, "a CRD cannot be served"),
    }
}

/// Tries until the instances are gone.
async fn clean_up(server: &Arc<ServerState>, crd: &Key, group: &str, plural: &str) {
    let mut pause = CLEAN_UP_AFTER;
    while let Err(error) = try_clean_up(server, crd, group, plural).await {
        tracing::warn!(server = %server.name, crd = %crd.name, %error, ?pause, "instances of a CRD are left; trying again");
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(CLEAN_UP_AFTER_MAX);
    }
}

/// Deletes all instances, waits until they are gone, then takes the finalizer off the CRD.
async fn try_clean_up(server: &Arc<ServerState>, crd: &Key, group: &str, plural: &str) -> Result<(), StoreError> {
    let range = Range::all(format!("{group}/{plural}"));
    loop {
        let listing = server.store.list(&range, Page::default()).await?;
        if listing.entries.is_empty() {
            break;
        }
        for entry in &listing.entries {
            delete_instance(server, entry).await?;
        }
        let mut changes = server.store.watch(&range, listing.revision).await?;
        // The deletions above are changes too: each iteration lists all instances again.
        match changes.next().await {
            Some(Ok(_)) => {}
            Some(Err(StoreError::Expired { .. })) => {}
            Some(Err(error)) => return Err(error),
            None => return Err(StoreError::Unavailable("a watch has ended".to_owned())),
        }
    }
    loop {
        let Some(entry) = server.store.get(crd).await? else {
            return Ok(());
        };
        let mut definition = entry.object.value(entry.revision);
        let left: Vec<String> = metadata::finalizers(&definition)
            .into_iter()
            .filter(|f| *f != CLEANUP)
            .map(str::to_owned)
            .collect();
        let gone = left.is_empty();
        if let Ok(metadata) = metadata::of_mut(&mut definition) {
            metadata::set_finalizers(metadata, &left);
        }
        let outcome = if gone {
            server.store.delete(crd, entry.revision).await
        } else {
            server
                .store
                .update(crd, entry.revision, Object::from_value(definition)?)
                .await
        };
        match outcome {
            Ok(entry) => {
                if gone {
                    update_served_kinds(server, &entry, true);
                }
                return Ok(());
            }
            Err(StoreError::Conflict { .. }) => {}
            Err(StoreError::Missing { .. }) => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

async fn delete_instance(server: &Arc<ServerState>, entry: &Entry) -> Result<(), StoreError> {
    let meta = entry.object.meta();
    let outcome = if meta.finalizers.is_empty() {
        server.store.delete(&entry.key, entry.revision).await.map(|_| ())
    } else if meta.deletion_timestamp.is_none() {
        let mut object = entry.object.value(entry.revision);
        if let Ok(metadata) = metadata::of_mut(&mut object) {
            let now = metadata::timestamp(server.clock.now());
            metadata.insert("deletionTimestamp".to_owned(), Value::String(now));
            metadata.insert("deletionGracePeriodSeconds".to_owned(), Value::from(0));
            let generation = metadata.get("generation").and_then(Value::as_i64).unwrap_or_default();
            metadata.insert("generation".to_owned(), Value::from(generation + 1));
        }
        server
            .store
            .update(&entry.key, entry.revision, Object::from_value(object)?)
            .await
            .map(|_| ())
    } else {
        Ok(())
    };
    match outcome {
        Err(StoreError::Conflict { .. } | StoreError::Missing { .. }) => Ok(()),
        outcome => outcome,
    }
}
