//! Cases of merge, order, deletion, ownership, health and collection as texts: `tests/cases/*.yaml`, one document per
//! case. The runner knows nothing of where its clients lead, so that the same texts can be run against other API servers.

use std::collections::BTreeMap;
use std::time::Duration;

use api_meta::{Condition, GoDuration, LocalObjectReference};
use api_resources::{ManagedResource, ManagedResourceSpec};
use base_client::is_conflict;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use serde::Deserialize;
use serde_json::{Value, json};
use tests_kit::until_gone;

/// How long an expectation may take to come true.
const EXPECT_MAX: Duration = Duration::from_secs(120);
/// The pause between two looks; virtual in process.
const LOOK_PAUSE: Duration = Duration::from_millis(500);
/// All files.
pub(crate) const FILES: [(&str, &str); 6] = [
    ("merge", include_str!("../cases/merge.yaml")),
    ("order", include_str!("../cases/order.yaml")),
    ("deletion", include_str!("../cases/deletion.yaml")),
    ("ownership", include_str!("../cases/ownership.yaml")),
    ("health", include_str!("../cases/health.yaml")),
    ("collection", include_str!("../cases/collection.yaml")),
];

/// One case.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Case {
    /// A sentence.
    pub(crate) name: String,
    /// Whether it waits so long that only virtual time will do.
    #[serde(default)]
    pub(crate) needs_virtual_time: bool,
    /// What happens.
    pub(crate) steps: Vec<Step>,
}

/// What happens. Objects are whole with `apiVersion` and `kind`; those that are named only have these and `metadata`.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) enum Step {
    /// Another client creates objects in the target.
    Create(Vec<Value>),
    /// Another client merges these into objects of the target.
    Edit(Vec<Value>),
    /// Another client merges these into the status of objects of the target.
    Status(Vec<Value>),
    /// Another client deletes objects of the target.
    Delete(Vec<Value>),
    /// A ManagedResource lists these from now on.
    Apply(Apply),
    /// A ManagedResource is deleted, and gone.
    Remove(Named),
    /// A ManagedResource is deleted; it may take longer.
    Removing(Named),
    /// Time passes.
    Wait(GoDuration),
    /// What is so now, or soon.
    Expect(Box<Expect>),
}

/// A ManagedResource by name.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Named {
    by: String,
}

impl Default for Named {
    fn default() -> Self {
        Self { by: "mr".to_owned() }
    }
}

/// What a ManagedResource lists.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Apply {
    by: Option<String>,
    pub(crate) objects: Vec<Value>,
    /// Annotations that it gets.
    annotations: BTreeMap<String, String>,
    /// More of its spec.
    spec: ManagedResourceSpec,
}

/// What is so.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Expect {
    by: Option<String>,
    /// Status and reason of each condition, such as `True ApplySucceeded`.
    applied: Option<String>,
    healthy: Option<String>,
    progressing: Option<String>,
    /// Parts of the conditions' messages.
    says: Vec<String>,
    /// What no condition's message contains.
    never: Vec<String>,
    /// Kinds in the order in which they are applied.
    order: Vec<String>,
    /// Objects of the target that have at least these fields; null is a field that is not there.
    there: Vec<Value>,
    /// Objects that the target does not have.
    gone: Vec<Value>,
    /// Objects that are gone, or wait for a controller of Kubernetes to go.
    going: Vec<Value>,
}

/// Where a case is run.
pub(crate) struct Ground {
    /// Has ManagedResources.
    pub(crate) source: Client,
    /// Gets their objects.
    pub(crate) target: Client,
    /// Where ManagedResources and their Secrets are.
    pub(crate) namespace: String,
}

/// All cases of a file.
pub(crate) fn cases(text: &str) -> Vec<Case> {
    let documents: Vec<Value> = base_yaml::read_all_strict(text).unwrap();
    let read = |document: Value| {
        let name = document["name"].clone();
        serde_json::from_value(document).unwrap_or_else(|error| panic!("case {name}: {error}"))
    };
    documents
        .into_iter()
        .filter(|document| !document.is_null())
        .map(read)
        .collect()
}

/// Runs a case to its end; what was not as expected.
pub(crate) async fn run_case(case: &Case, ground: &Ground) -> Result<(), String> {
    let mut secrets = 0;
    for (index, step) in case.steps.iter().enumerate() {
        let reported = |error: String| format!("step {}: {error}", index + 1);
        take(step, ground, &mut secrets).await.map_err(reported)?;
    }
    Ok(())
}

async fn take(step: &Step, ground: &Ground, secrets: &mut usize) -> Result<(), String> {
    let params = PatchParams::default();
    match step {
        Step::Create(objects) => {
            for object in objects {
                let (api, _) = ground.api(object);
                let object: DynamicObject = serde_json::from_value(object.clone()).map_err(text)?;
                api.create(&PostParams::default(), &object).await.map_err(text)?;
            }
        }
        Step::Edit(objects) => {
            for object in objects {
                let (api, name) = ground.api(object);
                api.patch(&name, &params, &Patch::Merge(object)).await.map_err(text)?;
            }
        }
        Step::Status(objects) => {
            for object in objects {
                let (api, name) = ground.api(object);
                api.patch_status(&name, &params, &Patch::Merge(object))
                    .await
                    .map_err(text)?;
            }
        }
        Step::Delete(objects) => {
            for object in objects {
                let (api, name) = ground.api(object);
                api.delete(&name, &DeleteParams::default()).await.map_err(text)?;
            }
        }
        Step::Apply(apply) => {
            *secrets += 1;
            ground.apply(apply, *secrets).await.map_err(text)?;
        }
        Step::Remove(Named { by }) => {
            ground
                .resources()
                .delete(by, &DeleteParams::default())
                .await
                .map_err(text)?;
            until_gone(&ground.resources(), by).await;
        }
        Step::Removing(Named { by }) => {
            ground
                .resources()
                .delete(by, &DeleteParams::default())
                .await
                .map_err(text)?;
        }
        Step::Wait(duration) => tokio::time::sleep(duration.to_std()).await,
        Step::Expect(expect) => {
            let began = tokio::time::Instant::now();
            while let Err(problem) = ground.look(expect).await {
                if began.elapsed() > EXPECT_MAX {
                    return Err(problem);
                }
                tokio::time::sleep(LOOK_PAUSE).await;
            }
        }
    }
    Ok(())
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

impl Ground {
    pub(crate) fn resources(&self) -> Api<ManagedResource> {
        Api::namespaced(self.source.clone(), &self.namespace)
    }

    /// The way to an object of the target, and its name.
    pub(crate) fn api(&self, object: &Value) -> (Api<DynamicObject>, String) {
        let field = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        let version = field("/apiVersion").unwrap_or_default();
        let (group, version) = version.split_once('/').unwrap_or(("", &version));
        let kind = GroupVersionKind::gvk(group, version, &field("/kind").unwrap_or_default());
        let resource = ApiResource::from_gvk(&kind);
        let api = match field("/metadata/namespace") {
            Some(namespace) => Api::namespaced_with(self.target.clone(), &namespace, &resource),
            None => Api::all_with(self.target.clone(), &resource),
        };
        (api, field("/metadata/name").unwrap_or_default())
    }

    /// As gardenlet does it: a Secret of its own for each state.
    async fn apply(&self, apply: &Apply, number: usize) -> Result<(), kube::Error> {
        let by = apply.by.as_deref().unwrap_or("mr");
        let secret = format!("{by}-{number}");
        let texts = apply.objects.iter().enumerate();
        let data: BTreeMap<String, ByteString> = texts
            .map(|(index, object)| (format!("{index:02}.yaml"), ByteString(object.to_string().into_bytes())))
            .collect();
        let mut body = Secret {
            data: Some(data),
            ..Secret::default()
        };
        body.metadata.name = Some(secret.clone());
        let secrets: Api<Secret> = Api::namespaced(self.source.clone(), &self.namespace);
        secrets.create(&PostParams::default(), &body).await?;
        let mut resource = ManagedResource {
            spec: apply.spec.clone(),
            ..ManagedResource::default()
        };
        resource.metadata.name = Some(by.to_owned());
        resource.metadata.annotations = Some(apply.annotations.clone());
        resource.spec.secret_refs = vec![LocalObjectReference { name: secret }];
        loop {
            let written = match self.resources().get_opt(by).await? {
                Some(there) => {
                    resource.metadata = there.metadata;
                    let annotations = resource.metadata.annotations.get_or_insert_default();
                    annotations.extend(apply.annotations.clone());
                    self.resources().replace(by, &PostParams::default(), &resource).await
                }
                None => self.resources().create(&PostParams::default(), &resource).await,
            };
            match written {
                // Its status was written meanwhile.
                Err(error) if is_conflict(&error) => {}
                written => return written.map(drop),
            }
        }
    }

    async fn look(&self, expect: &Expect) -> Result<(), String> {
        let by = expect.by.as_deref().unwrap_or("mr");
        if let Some(resource) = self.resources().get_opt(by).await.map_err(text)? {
            look_at_resource(expect, &resource)?;
        } else if expect.applied.is_some() {
            return Err(format!("there is no ManagedResource {by}"));
        }
        for wanted in &expect.there {
            let (api, name) = self.api(wanted);
            let Some(live) = api.get_opt(&name).await.map_err(text)? else {
                return Err(format!("{} {name} is not there", wanted["kind"]));
            };
            let live = serde_json::to_value(live).map_err(text)?;
            lacks(wanted, &live, "").map_or(Ok(()), |path| Err(format!("{name}: {path}; it is {live}")))?;
        }
        for unwanted in &expect.gone {
            let (api, name) = self.api(unwanted);
            if api.get_opt(&name).await.map_err(text)?.is_some() {
                return Err(format!("{} {name} is there", unwanted["kind"]));
            }
        }
        for unwanted in &expect.going {
            let (api, name) = self.api(unwanted);
            let live = api.get_opt(&name).await.map_err(text)?;
            if live.is_some_and(|live| live.metadata.deletion_timestamp.is_none()) {
                return Err(format!("{} {name} is there to stay", unwanted["kind"]));
            }
        }
        Ok(())
    }
}

fn look_at_resource(expect: &Expect, resource: &ManagedResource) -> Result<(), String> {
    let status = resource.status.clone().unwrap_or_default();
    // The manager leaves the generation of an ignored one as it was.
    let is_ignored = expect.applied.as_deref() == Some("True ManagedResourceIgnored");
    let is_observed = is_ignored || status.observed_generation == resource.metadata.generation;
    if resource.metadata.deletion_timestamp.is_none() && !is_observed {
        return Err("its newest form was not seen".to_owned());
    }
    let wanted = [
        ("ResourcesApplied", &expect.applied),
        ("ResourcesHealthy", &expect.healthy),
        ("ResourcesProgressing", &expect.progressing),
    ];
    for (type_, wanted) in wanted {
        let Some(wanted) = wanted else { continue };
        let found = Condition::find(&status.conditions, type_);
        let found = found
            .map(|found| format!("{:?} {}", found.status, found.reason))
            .unwrap_or_default();
        if found != *wanted {
            return Err(format!("{type_} is {found:?}, not {wanted:?}: {:?}", status.conditions));
        }
    }
    for part in &expect.says {
        if !status
            .conditions
            .iter()
            .any(|condition| condition.message.contains(part))
        {
            return Err(format!("no condition says {part:?}: {:?}", status.conditions));
        }
    }
    for part in &expect.never {
        if status
            .conditions
            .iter()
            .any(|condition| condition.message.contains(part))
        {
            return Err(format!("a condition contains {part:?}: {:?}", status.conditions));
        }
    }
    let order: Vec<String> = status
        .resources
        .iter()
        .filter_map(|reference| reference.kind.clone())
        .collect();
    if !expect.order.is_empty() && order != expect.order {
        return Err(format!("the order is {order:?}"));
    }
    Ok(())
}

/// Where a live object has not what is wanted of it.
pub(crate) fn lacks(wanted: &Value, live: &Value, path: &str) -> Option<String> {
    let nothing = json!({});
    match (
        wanted,
        if wanted.is_object() && live.is_null() {
            &nothing
        } else {
            live
        },
    ) {
        (Value::Object(wanted), Value::Object(live)) => wanted
            .iter()
            .find_map(|(key, wanted)| lacks(wanted, live.get(key).unwrap_or(&Value::Null), &format!("{path}/{key}"))),
        (Value::Array(wanted), Value::Array(live)) if wanted.len() == live.len() => {
            let mut pairs = wanted.iter().zip(live).enumerate();
            pairs.find_map(|(index, (wanted, live))| lacks(wanted, live, &format!("{path}/{index}")))
        }
        _ => (wanted != live).then(|| format!("{path} is {live}, not {wanted}")),
    }
}
