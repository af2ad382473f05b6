//! Cases of merge, order, deletion, ownership, health and collection as texts: `tests/cases/*.yaml`, one document per
//! case. The runner knows nothing of where its clients lead, so that the same texts can be run against other API servers.

use std::collections::BTreeMap;
use std::time::Duration;

use api_meta::{Condition, GoDuration, LocalObjectReference};
use api_resources::{ManagedResource, ManagedResourceSpec};
use control_plane_resource_manager::Options;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use serde::Deserialize;
use serde_json::{Value, json};
use tests_kit::{Embedded, embedded_with, until_gone};

use crate::{Landscape, NAMESPACE};

/// How long an expectation may take to come true.
const EXPECT_MAX: Duration = Duration::from_secs(120);
/// The pause between two looks; virtual in process.
const LOOK_PAUSE: Duration = Duration::from_millis(500);
/// How many cases there are to be at least.
const CASES_MIN: usize = 60;

const FILES: [(&str, &str); 6] = [
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
    /// A ManagedResource asks for these from now on.
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

/// What a ManagedResource asks for.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Apply {
    by: Option<String>,
    objects: Vec<Value>,
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
    let documents: Vec<Value> = base_yaml::read_all(text).unwrap();
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
        let told = |error: String| format!("step {}: {error}", index + 1);
        take(step, ground, &mut secrets).await.map_err(told)?;
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
    fn resources(&self) -> Api<ManagedResource> {
        Api::namespaced(self.source.clone(), &self.namespace)
    }

    /// The way to an object of the target, and its name.
    fn api(&self, object: &Value) -> (Api<DynamicObject>, String) {
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
        resource.spec.secret_refs = vec![LocalObjectReference { name: secret }];
        match self.resources().get_opt(by).await? {
            Some(there) => {
                resource.metadata = there.metadata;
                self.resources()
                    .replace(by, &PostParams::default(), &resource)
                    .await
                    .map(drop)
            }
            None => self
                .resources()
                .create(&PostParams::default(), &resource)
                .await
                .map(drop),
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
    if resource.metadata.deletion_timestamp.is_none() && status.observed_generation != resource.metadata.generation {
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
fn lacks(wanted: &Value, live: &Value, path: &str) -> Option<String> {
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

/// Runs all cases of a file in process, each between servers of its own.
async fn run_file(name: &str) {
    let text = FILES.iter().find(|(known, _)| *known == name).unwrap().1;
    let mut failed = Vec::new();
    for case in cases(text) {
        let target: Embedded = embedded_with("target", Vec::new(), |builder| builder).await;
        let client = target.admin();
        let options = Options {
            namespace: Some(NAMESPACE.to_owned()),
            garbage_collection: name == "collection",
            ..Options::default()
        };
        let landscape = Landscape::start_as(target, client, options).await;
        let ground = Ground {
            source: landscape.source.admin(),
            target: landscape.target.admin(),
            namespace: NAMESPACE.to_owned(),
        };
        if let Err(problem) = run_case(&case, &ground).await {
            failed.push(format!("{}: {problem}", case.name));
        }
    }
    assert!(failed.is_empty(), "{} failed:\n{}", failed.len(), failed.join("\n"));
}

#[tokio::test(start_paused = true)]
async fn cases_of_merge_end_as_written() {
    run_file("merge").await;
}

#[tokio::test(start_paused = true)]
async fn cases_of_order_end_as_written() {
    run_file("order").await;
}

#[tokio::test(start_paused = true)]
async fn cases_of_deletion_end_as_written() {
    run_file("deletion").await;
}

#[tokio::test(start_paused = true)]
async fn cases_of_ownership_end_as_written() {
    run_file("ownership").await;
}

#[tokio::test(start_paused = true)]
async fn cases_of_health_end_as_written() {
    run_file("health").await;
}

#[tokio::test(start_paused = true)]
async fn cases_of_collection_end_as_written() {
    run_file("collection").await;
}

#[test]
fn there_are_enough_cases_and_each_has_a_name_of_its_own() {
    let all: Vec<Case> = FILES.iter().flat_map(|(_, text)| cases(text)).collect();
    let mut names: Vec<&str> = all.iter().map(|case| case.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all.len());
    assert!(all.len() >= CASES_MIN, "{} cases", all.len());
    let plain = all.iter().filter(|case| !case.needs_virtual_time).count();
    assert!(plain >= 40, "{plain} that any API server can run");
}

#[test]
fn an_expectation_is_a_part_of_what_is_there() {
    let live = json!({"a": {"b": [1, 2]}, "c": "d"});
    assert_eq!(lacks(&json!({"a": {"b": [1, 2]}, "x": null}), &live, ""), None);
    assert_eq!(
        lacks(&json!({"a": {"b": [1]}}), &live, "").unwrap(),
        "/a/b is [1,2], not [1]"
    );
}
