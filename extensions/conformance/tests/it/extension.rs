//! An extension that is written by hand against the API, with kube's client alone. It follows the rules of the contract, but
//! for the one that it is switched to break.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::Duration;

use api_extensions::{Cluster, ExtensionClass, ExtensionObject};
use api_meta::{LastOperation, LastOperationState, LastOperationType};
use base_client::api_in;
use base_clock::Clock;
use extensions_conformance::Rule;
use futures::StreamExt;
use jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::cloud::Cloud;

pub(crate) const TYPE: &str = "test";
const OPERATION: &str = "gardener.cloud/operation";
const TIMESTAMP: &str = "gardener.cloud/timestamp";
/// How long the cloud takes for a call.
const CALL: Duration = Duration::from_millis(100);
const PAUSE: Duration = Duration::from_secs(1);
/// How fast a process is called for a change.
const AT_ONCE: Duration = Duration::from_millis(10);

/// The extension, for objects of one kind.
pub(crate) struct Extension {
    pub(crate) client: Client,
    pub(crate) clock: Clock,
    pub(crate) cloud: Cloud,
    pub(crate) breaks: Option<Rule>,
    /// Namespaces whose Shoot was Failed.
    pub(crate) failed: Mutex<BTreeSet<String>>,
}

/// What an operation has to report.
struct Done {
    state: Option<Value>,
    provider_status: Option<Value>,
}

/// Why an operation has failed.
enum Problem {
    Api(kube::Error),
    /// What the user has to mend.
    Configuration(&'static str),
    Other(&'static str),
}

impl From<kube::Error> for Problem {
    fn from(error: kube::Error) -> Self {
        Self::Api(error)
    }
}

impl Extension {
    fn breaks(&self, rule: Rule) -> bool {
        self.breaks == Some(rule)
    }

    /// Works on all objects of a kind, one after the other, until it is dropped.
    pub(crate) async fn run<K: ExtensionObject>(self) {
        let mut events = watcher(Api::<K>::all(self.client.clone()), watcher::Config::default()).boxed();
        let mut due: BTreeMap<(String, String), Instant> = BTreeMap::new();
        loop {
            let next = due
                .iter()
                .min_by_key(|(_, at)| **at)
                .map(|(key, at)| (key.clone(), *at));
            let waits = async {
                match &next {
                    Some((_, at)) => tokio::time::sleep_until(*at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                event = events.next() => {
                    if let Some(Ok(Event::Apply(object) | Event::InitApply(object))) = event {
                        // What has failed is tried again after its pause, and not because its failure was reported.
                        let key = (object.namespace().unwrap(), object.name_any());
                        match self.breaks(Rule::RetriesWithPauses) {
                            false => drop(due.entry(key).or_insert_with(Instant::now)),
                            true => drop(due.insert(key, Instant::now() + AT_ONCE)),
                        }
                    }
                }
                () = waits => {
                    let (key, _) = next.unwrap();
                    due.remove(&key);
                    if let Some(pause) = self.serve::<K>(&key.0, &key.1).await {
                        due.insert(key, Instant::now() + pause);
                    }
                }
            }
        }
    }

    fn is_mine<K: ExtensionObject>(&self, object: &K) -> bool {
        let type_ = object.type_();
        let type_ = type_ == TYPE || self.breaks(Rule::OtherTypesUntouched) && type_.starts_with(TYPE);
        type_ && (object.class() == ExtensionClass::Shoot || self.breaks(Rule::OtherClassesUntouched))
    }

    /// Does what one object asks for; how soon it is to be looked at again.
    async fn serve<K: ExtensionObject>(&self, namespace: &str, name: &str) -> Option<Duration> {
        let api = api_in::<K>(&self.client, namespace);
        let object = api.get_opt(name).await.unwrap()?;
        if !self.is_mine(&object) {
            return None;
        }
        let Some(operation) = self.operation(&object) else {
            return self.settled(&api, &object).await;
        };
        let shoot = self.shoot(namespace).await;
        let leaves = matches!(operation, LastOperationType::Delete | LastOperationType::Migrate);
        if shoot["status"]["lastOperation"]["state"] == "Failed" && !self.breaks(Rule::FailedShootUntouched) {
            self.failed.lock().unwrap().insert(namespace.to_owned());
            return None;
        }
        let remembers = self.failed.lock().unwrap().contains(namespace);
        if self.breaks(Rule::FailedShootResumed) && remembers && !leaves {
            return None;
        }
        match self.operate(&api, object, &operation, &shoot).await {
            Ok(()) => None,
            Err(Problem::Api(kube::Error::Api(status))) if status.code == 404 => None,
            Err(_) if self.breaks(Rule::RecoversAfterCorrection) => None,
            Err(_) => Some(PAUSE),
        }
    }

    /// What is done to an object that requests nothing: nothing, but for breaks.
    async fn settled<K: ExtensionObject>(&self, api: &Api<K>, object: &K) -> Option<Duration> {
        let last = last(object);
        let is_deleting = object.meta().deletion_timestamp.is_some();
        if let (true, Some(last)) = (self.breaks(Rule::QuietWhenSettled), last)
            && !is_deleting
            && annotation(object).is_empty()
        {
            let now = format!("{:.0}", self.clock.now());
            let text = json!({"status": {"lastOperation": {"lastUpdateTime": now}}});
            if last.last_update_time.0.as_second() < self.clock.now().as_second() {
                patch_status(api, object, text).await.unwrap();
            }
            return Some(PAUSE);
        }
        let never = last.is_none() && self.breaks(Rule::UnreconciledObjectDeletable);
        let again = last.is_some_and(|last| self.requested(object) > last.last_update_time.0.as_second())
            && self.breaks(Rule::SecondDeletionHarmless);
        if is_deleting && annotation(object).is_empty() && (never || again) {
            let error = Problem::Other("nothing to delete");
            self.report(api, object, &LastOperationType::Delete, &Err(error))
                .await
                .unwrap();
        }
        None
    }

    fn requested<K: ExtensionObject>(&self, object: &K) -> i64 {
        let stamp = object.annotations().get(TIMESTAMP);
        stamp.map_or(0, |stamp| stamp.parse::<Timestamp>().unwrap().as_second())
    }

    /// The operation that is to be done now.
    fn operation<K: ExtensionObject>(&self, object: &K) -> Option<LastOperationType> {
        use LastOperationType::{Create, Delete, Migrate, Reconcile, Restore};
        let (annotation, last) = (annotation(object), last(object));
        let succeeded = last.is_some_and(|last| last.state == LastOperationState::Succeeded);
        let is = |type_: &LastOperationType| last.is_some_and(|last| last.type_ == *type_);
        let left = last.is_some_and(|last| last.state == LastOperationState::Processing);
        if left && self.breaks(Rule::CrashInDeletionSurvived) && is(&Delete)
            || left && self.breaks(Rule::CrashInReconcileSurvived) && !is(&Delete)
        {
            return None;
        }
        // It would begin again and again.
        if self.breaks(Rule::FinalizerGoneAfterDeletion) && is(&Delete) && succeeded {
            return None;
        }
        if annotation == "wait-for-state" && !self.breaks(Rule::WaitForStateIgnored) {
            return None;
        }
        if annotation == "migrate" {
            return Some(Migrate);
        }
        let migrated = is(&Migrate) && succeeded;
        if object.meta().deletion_timestamp.is_some() {
            let held = object.finalizers().iter().any(|name| name == &finalizer::<K>());
            let deletes = held && !migrated || migrated && self.breaks(Rule::MigratedObjectIgnored);
            return deletes.then_some(Delete);
        }
        match annotation {
            "restore" => Some(Restore),
            _ if last.is_none() => Some(Create),
            _ if migrated => None,
            "reconcile" if succeeded => Some(Reconcile),
            _ if succeeded => None,
            _ if self.breaks(Rule::RecoversAfterCorrection) && annotation != "reconcile" && !left => None,
            _ if is(&Create) || is(&Migrate) || is(&Restore) => last.map(|last| last.type_.clone()),
            _ => Some(Reconcile),
        }
    }

    async fn shoot(&self, namespace: &str) -> Value {
        let clusters: Api<Cluster> = Api::all(self.client.clone());
        let cluster = clusters.get_opt(namespace).await.unwrap();
        cluster.map_or(Value::Null, |cluster| cluster.spec.shoot.value())
    }

    async fn operate<K: ExtensionObject>(
        &self,
        api: &Api<K>,
        object: K,
        operation: &LastOperationType,
        shoot: &Value,
    ) -> Result<(), Problem> {
        use LastOperationType::{Delete, Migrate, Reconcile, Restore};
        let leaves = matches!(operation, Delete | Migrate);
        let restores = *operation == Restore && self.breaks(Rule::RestoreAnnotationRemovedLast);
        let migrates = *operation == Migrate && self.breaks(Rule::MigrateAnnotationRemovedLast);
        let early = restores || migrates || !self.breaks(Rule::ReconcileAnnotationRemovedFirst);
        let first = if restores || migrates {
            annotation(&object).to_owned()
        } else {
            "reconcile".to_owned()
        };
        let mut object = object;
        if early {
            object = without(api, object, &first).await?;
        }
        let late = self.breaks(Rule::FinalizerBeforeProcessing);
        if !leaves && !late {
            object = edit_finalizers(api, object, |all| all.push(finalizer::<K>())).await?;
        }
        object = self.meddle(api, object, operation).await?;
        if self.breaks(Rule::CrashDoublesNothing) && object.status().is_none_or(|status| status.state.is_none()) {
            self.cloud.create(&tag(&object));
        }
        if !self.breaks(Rule::ProcessingBeforeResult) {
            object = self.begin(api, &object, operation).await?;
        }
        if !leaves && late {
            object = edit_finalizers(api, object, |all| all.push(finalizer::<K>())).await?;
        }
        let before = object.status().map(|status| status.to_owned()).unwrap_or_default();
        let done = self.work(&object, operation, shoot).await;
        if self.breaks(Rule::ConcurrentWritesKept) && *operation == Reconcile {
            let conditions = json!({"status": {"conditions": before.conditions}});
            patch_status(api, &object, conditions).await?;
        }
        if self.breaks(Rule::ConflictsSurvived) && *operation == Reconcile {
            let read = json!({"metadata": {"resourceVersion": object.resource_version()}});
            if api
                .patch(&object.name_any(), &PatchParams::default(), &Patch::Merge(read))
                .await
                .is_err()
            {
                return Ok(());
            }
        }
        object = self.report(api, &object, operation, &done).await?;
        done?;
        let last = match operation {
            Migrate => "migrate",
            Restore => "restore",
            _ if early => "",
            _ => "reconcile",
        };
        object = without(api, object, last).await?;
        let stays = self.breaks(Rule::FinalizerGoneAfterDeletion) && *operation == Delete
            || self.breaks(Rule::FinalizerGoneAfterMigration) && *operation == Migrate;
        if leaves && !stays {
            edit_finalizers(api, object, |all| all.retain(|name| *name != finalizer::<K>())).await?;
        }
        Ok(())
    }

    /// What is done in the cloud.
    async fn work<K: ExtensionObject>(
        &self,
        object: &K,
        operation: &LastOperationType,
        shoot: &Value,
    ) -> Result<Done, Problem> {
        use LastOperationType::{Create, Delete, Migrate, Reconcile, Restore};
        let forced = shoot["metadata"]["annotations"]["confirmation.gardener.cloud/force-deletion"] == "true";
        match operation {
            Delete if forced && self.breaks(Rule::ForceDeletionEnds) => {
                Err(Problem::Other("a forced deletion is not supported"))
            }
            Delete => Ok(self.delete(object).await),
            Migrate => Ok(self.migrate(object).await),
            Create | Reconcile | Restore => self.reconcile(object, *operation == Restore).await,
            _ => Err(Problem::Other("unknown")),
        }
    }

    /// Writes what belongs to others, for the rules about that.
    async fn meddle<K: ExtensionObject>(
        &self,
        api: &Api<K>,
        object: K,
        operation: &LastOperationType,
    ) -> Result<K, kube::Error> {
        let patch = if self.breaks(Rule::SpecUntouched) && *operation == LastOperationType::Create {
            json!({"spec": {"providerConfig": {"defaulted": true}}})
        } else if self.breaks(Rule::MetadataOfOthersKept) {
            json!({"metadata": {"labels": null}})
        } else if self.breaks(Rule::ConditionsOfOthersKept) {
            let patch = json!({"status": {"conditions": []}});
            return patch_status(api, &object, patch).await;
        } else {
            return Ok(object);
        };
        api.patch(&object.name_any(), &PatchParams::default(), &Patch::Merge(patch))
            .await
    }

    async fn begin<K: ExtensionObject>(
        &self,
        api: &Api<K>,
        object: &K,
        operation: &LastOperationType,
    ) -> Result<K, kube::Error> {
        let mut status = json!({"lastOperation": self.last_operation(operation, "Processing", 1, "at work")});
        if self.breaks(Rule::ObservedGenerationWithResult) {
            status["observedGeneration"] = json!(object.meta().generation);
        }
        if self.breaks(Rule::ErrorKeptUntilSuccess) {
            status["lastError"] = Value::Null;
        }
        patch_status(api, object, json!({"status": status})).await
    }

    fn last_operation(&self, operation: &LastOperationType, state: &str, progress: i32, text: &str) -> Value {
        let mut now = format!("{:.0}", self.clock.now());
        if self.breaks(Rule::AnswerNotOlderThanRequest) {
            now = tests_kit::EPOCH.to_owned();
        }
        let reconcile = self.breaks(Rule::OperationType) && *operation == LastOperationType::Create;
        let type_ = if reconcile {
            &LastOperationType::Reconcile
        } else {
            operation
        };
        let text = if self.breaks(Rule::DescriptionPresent) {
            ""
        } else {
            text
        };
        json!({"type": type_, "state": state, "progress": progress, "description": text, "lastUpdateTime": now})
    }

    async fn report<K: ExtensionObject>(
        &self,
        api: &Api<K>,
        object: &K,
        operation: &LastOperationType,
        done: &Result<Done, Problem>,
    ) -> Result<K, kube::Error> {
        let mut status = json!({"observedGeneration": object.meta().generation});
        match done {
            Ok(done) => {
                let progress = if self.breaks(Rule::ProgressInBounds) { 90 } else { 100 };
                status["lastOperation"] = self.last_operation(operation, "Succeeded", progress, "done");
                if !self.breaks(Rule::ErrorGoneAfterSuccess) {
                    status["lastError"] = Value::Null;
                }
                if let Some(state) = &done.state {
                    status["state"] = state.clone();
                }
                if let Some(provider_status) = &done.provider_status {
                    status["providerStatus"] = provider_status.clone();
                }
            }
            Err(problem) => {
                let (text, codes) = match problem {
                    Problem::Api(_) => ("the API server refused", json!([])),
                    Problem::Other(text) => (*text, json!([])),
                    Problem::Configuration(text) if self.breaks(Rule::BadConfigCode) => (*text, json!([])),
                    Problem::Configuration(text) if self.breaks(Rule::KnownErrorCodes) => {
                        (*text, json!(["ERR_CONFIGURATION_PROBLEM", "ERR_MADE_UP"]))
                    }
                    Problem::Configuration(text) => (*text, json!(["ERR_CONFIGURATION_PROBLEM"])),
                };
                status["lastOperation"] = self.last_operation(operation, "Error", 50, text);
                status["lastError"] = json!({"description": text, "codes": codes});
            }
        }
        patch_status(api, object, json!({"status": status})).await
    }

    async fn reconcile<K: ExtensionObject>(&self, object: &K, restores: bool) -> Result<Done, Problem> {
        if self.breaks(Rule::RequestAnswered) {
            std::future::pending::<()>().await;
        }
        let config = object
            .provider_config()
            .map(api_meta::RawJson::value)
            .unwrap_or_default();
        tokio::time::sleep(CALL).await;
        if config.get("kind").is_some_and(|kind| kind != "Config") && !self.breaks(Rule::BadConfigReported) {
            return Err(Problem::Configuration("spec.providerConfig.kind: only Config is known"));
        }
        let tag = tag(object);
        let state = object
            .status()
            .and_then(|status| status.state.map(api_meta::RawJson::value));
        let known = state.as_ref().and_then(|state| state["id"].as_str().map(str::to_owned));
        let mut id = known.or_else(|| self.cloud.find(&tag));
        if restores && self.breaks(Rule::RestoreKeepsState) {
            self.cloud.delete(&tag);
            id = None;
        }
        if restores && self.breaks(Rule::RestoreTakesOver) {
            self.cloud.create(&tag);
        }
        if self.breaks(Rule::CrashDoublesNothing) {
            id = self.cloud.find(&tag);
        }
        let id = id.unwrap_or_else(|| self.cloud.create(&tag));
        tokio::time::sleep(CALL).await;
        let mut new_state = json!({"id": id});
        if self.breaks(Rule::ReconcileIsIdempotent) {
            let count = state.and_then(|state| state["count"].as_i64()).unwrap_or_default();
            new_state["count"] = json!(count + 1);
        }
        Ok(Done {
            state: Some(new_state),
            provider_status: Some(json!({"network": id})),
        })
    }

    async fn delete<K: ExtensionObject>(&self, object: &K) -> Done {
        tokio::time::sleep(CALL).await;
        if !self.breaks(Rule::DeletionCleansUp) {
            self.cloud.delete(&tag(object));
        }
        Done {
            state: None,
            provider_status: None,
        }
    }

    async fn migrate<K: ExtensionObject>(&self, object: &K) -> Done {
        tokio::time::sleep(CALL).await;
        if self.breaks(Rule::MigrateLeavesCloud) {
            self.cloud.delete(&tag(object));
        }
        Done {
            state: self.breaks(Rule::MigrateLeavesState).then_some(Value::Null),
            provider_status: None,
        }
    }
}

impl Extension {
    /// Adds a condition to the objects of a kind that another extension is primary for.
    pub(crate) async fn observe<K: ExtensionObject>(self, type_: &'static str) {
        let mut events = watcher(Api::<K>::all(self.client.clone()), watcher::Config::default()).boxed();
        while let Some(event) = events.next().await {
            let Ok(Event::Apply(object) | Event::InitApply(object)) = event else {
                continue;
            };
            let status = object.status().map(|status| status.to_owned()).unwrap_or_default();
            let done = status.conditions.iter().any(|condition| condition.type_ == "Observed");
            if object.type_() != type_ || done || status.last_operation.is_none() {
                continue;
            }
            let now = format!("{:.0}", self.clock.now());
            let condition = json!({
                "type": "Observed", "status": "True", "reason": "Looked", "message": "",
                "lastTransitionTime": now, "lastUpdateTime": now,
            });
            let mut status = json!({"conditions": [condition]});
            if self.breaks(Rule::SecondaryWritesConditionsOnly) {
                status["lastOperation"] = json!({"description": "looked at"});
            }
            let api = api_in::<K>(&self.client, &object.namespace().unwrap());
            patch_status(&api, &object, json!({"status": status})).await.unwrap();
        }
    }
}

fn finalizer<K: ExtensionObject>() -> String {
    format!("extensions.gardener.cloud/{}", K::ROW.finalizer_suffix())
}

/// What a resource in the cloud is found by.
fn tag<K: ExtensionObject>(object: &K) -> String {
    format!("{}/{}", object.namespace().unwrap(), object.name_any())
}

fn annotation<K: ExtensionObject>(object: &K) -> &str {
    object.annotations().get(OPERATION).map_or("", String::as_str)
}

fn last<K: ExtensionObject>(object: &K) -> Option<&LastOperation> {
    object.status().and_then(|status| status.last_operation)
}

async fn patch_status<K: ExtensionObject>(api: &Api<K>, object: &K, patch: Value) -> Result<K, kube::Error> {
    api.patch_status(&object.name_any(), &PatchParams::default(), &Patch::Merge(patch))
        .await
}

/// Removes the operation annotation if it has this value.
async fn without<K: ExtensionObject>(api: &Api<K>, object: K, value: &str) -> Result<K, kube::Error> {
    if value.is_empty() || annotation(&object) != value {
        return Ok(object);
    }
    let patch = json!({"metadata": {"annotations": {OPERATION: null}}});
    api.patch(&object.name_any(), &PatchParams::default(), &Patch::Merge(patch))
        .await
}

/// Writes the finalizers at the version that they were read at.
async fn edit_finalizers<K: ExtensionObject>(
    api: &Api<K>,
    mut object: K,
    edit: impl Fn(&mut Vec<String>),
) -> Result<K, kube::Error> {
    loop {
        let before = object.finalizers().to_vec();
        let mut after = before.clone();
        edit(&mut after);
        let mut seen = BTreeSet::new();
        after.retain(|name| seen.insert(name.clone()));
        if after == before {
            return Ok(object);
        }
        let patch = json!({"metadata": {"resourceVersion": object.resource_version(), "finalizers": after}});
        match api
            .patch(&object.name_any(), &PatchParams::default(), &Patch::Merge(patch))
            .await
        {
            Ok(written) => return Ok(written),
            Err(kube::Error::Api(status)) if status.code == 409 => object = api.get(&object.name_any()).await?,
            Err(error) => return Err(error),
        }
    }
}
