//! Who may write the status of extension objects, as cases that hold on any API server: the policy and its parameters alone,
//! without a gardenlet. Here they run on the embedded one, in `tests/clients` on real kube-apiserver.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api_extensions::{ExtensionKind, ExtensionObject, ForKind};
use api_meta::schema::{full_sample, structural};
use base_client::{WaitState, api_in, apply, wait_until};
use components_seed::{
    PRIMARY_FIELDS, StatusWriters, extension_status_binding, extension_status_policy, extension_status_writers,
};
use futures::FutureExt;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

const GARDENLET: &str = "system:serviceaccount:garden:gardenlet";
const PRIMARY: &str = "system:serviceaccount:extension-moon-a:moon";
const SUCCESSOR: &str = "system:serviceaccount:extension-moon-b:moon";
const SECONDARY: &str = "system:serviceaccount:extension-watcher:watcher";
/// Its namespace begins as that of the primary extension does.
const NEIGHBOUR: &str = "system:serviceaccount:extension-moon-a2:moon";
const PERSON: &str = "person@example.org";
/// Types are compared without regard to case.
const TYPE: &str = "Moon";
const OTHER_TYPE: &str = "unregistered";
const MANAGER: &str = "tests";
/// Real kube-apiserver sees a policy within a second or two; each look is a write.
const EFFECTIVE_TRIES_MAX: u32 = 600;
const EFFECTIVE_PAUSE: Duration = Duration::from_millis(100);
const ESTABLISHED_TIMEOUT: Duration = Duration::from_secs(60);

/// Where the cases run.
pub(crate) struct Ground {
    pub(crate) admin: Client,
    /// Makes a client of a user that no role stands in the way of.
    pub(crate) user: Box<dyn Fn(&str) -> Client + Send + Sync>,
    /// Who writes the policy.
    pub(crate) gardenlet: Client,
}

/// An object of a kind with every field of its spec, lists empty.
pub(crate) fn sample<K: ExtensionObject>(name: &str, type_: &str, class: &str) -> K {
    let mut object = full_sample(&structural::<K>());
    object["metadata"] = json!({"name": name});
    for field in object["spec"].as_object_mut().unwrap().values_mut() {
        if field.is_array() {
            *field = json!([]);
        }
    }
    object["spec"]["type"] = type_.into();
    object["spec"]["class"] = class.into();
    serde_json::from_value(object).unwrap()
}

struct Create<'a>(&'a Client, &'a str, &'a str, &'a str);

impl<'a> ForKind for Create<'a> {
    type Output = BoxFuture<'a, ()>;

    fn call<K: ExtensionObject>(self) -> Self::Output {
        async move {
            let Self(client, name, type_, class) = self;
            let api = api_in::<K>(client, "default");
            let object = sample(name, type_, class);
            api.create(&PostParams::default(), &object).await.unwrap();
            let status = json!({"status": {"lastOperation": operation("Succeeded"), "observedGeneration": 1,
                "providerStatus": {"a": 1}, "state": {"a": {"deep": [1, 2]}}}});
            let (params, patch) = (PatchParams::default(), Patch::Merge(status));
            api.patch_status(name, &params, &patch).await.unwrap();
        }
        .boxed()
    }
}

/// A merge patch of the status of an object, and the message if it is refused.
struct Write<'a>(&'a Client, &'a str, Value);

impl<'a> ForKind for Write<'a> {
    type Output = BoxFuture<'a, Result<(), String>>;

    fn call<K: ExtensionObject>(self) -> Self::Output {
        async move {
            let Self(client, name, status) = self;
            let patch = Patch::Merge(json!({"status": status}));
            let api = api_in::<K>(client, "default");
            match api.patch_status(name, &PatchParams::default(), &patch).await {
                Err(kube::Error::Api(refusal)) => {
                    assert_eq!(refusal.code, 403, "{} {name}: {}", K::ROW, refusal.message);
                    Err(refusal.message.clone())
                }
                written => {
                    written.unwrap();
                    Ok(())
                }
            }
        }
        .boxed()
    }
}

/// The status as it was read, replaced with other conditions.
struct Replace<'a>(&'a Client, &'a str);

impl<'a> ForKind for Replace<'a> {
    type Output = BoxFuture<'a, ()>;

    fn call<K: ExtensionObject>(self) -> Self::Output {
        async move {
            let Self(client, name) = self;
            let api = api_in::<K>(client, "default");
            let mut object = serde_json::to_value(api.get(name).await.unwrap()).unwrap();
            object["status"]["conditions"] = json!([condition("Replaced")]);
            let object: K = serde_json::from_value(object).unwrap();
            api.replace_status(name, &PostParams::default(), &object).await.unwrap();
        }
        .boxed()
    }
}

fn operation(state: &str) -> Value {
    json!({"type": "Reconcile", "state": state, "progress": 50, "description": "d", "lastUpdateTime": "2026-01-01T00:00:00Z"})
}

fn condition(reason: &str) -> Value {
    json!({"type": "SystemComponentsHealthy", "status": "True", "reason": reason, "message": "m",
        "lastTransitionTime": "2026-01-01T00:00:00Z", "lastUpdateTime": "2026-01-01T00:00:00Z"})
}

/// Another value of a primary field, and none.
fn changes(field: &str) -> Vec<Value> {
    let value = match field {
        "lastError" => return vec![json!({"description": "no quota"})],
        "lastOperation" => operation("Error"),
        "observedGeneration" => json!(7),
        _ => json!({"b": {"deep": [2, 1]}}),
    };
    vec![value, Value::Null]
}

impl Ground {
    async fn write(&self, kind: ExtensionKind, user: &str, name: &str, status: Value) -> Result<(), String> {
        kind.with(Write(&(self.user)(user), name, status)).await
    }

    async fn accepted(&self, kind: ExtensionKind, user: &str, name: &str, status: Value) {
        let written = self.write(kind, user, name, status.clone()).await;
        assert_eq!(written, Ok(()), "{user} writes {status} into {kind} {name}");
    }

    async fn refused(&self, kind: ExtensionKind, user: &str, name: &str, status: Value) -> String {
        let written = self.write(kind, user, name, status.clone()).await;
        written.expect_err(&format!("{user} writes {status} into {kind} {name}"))
    }

    async fn prepare(&self) {
        let definitions: Api<CustomResourceDefinition> = Api::all(self.admin.clone());
        for definition in api_extensions::crds() {
            apply(&definitions, &definition, MANAGER).await.unwrap();
        }
        for definition in api_extensions::crds() {
            let established = |one: Option<&CustomResourceDefinition>| {
                let conditions = one.and_then(|one| one.status.as_ref()?.conditions.as_ref());
                let mut conditions = conditions.into_iter().flatten();
                match conditions.any(|one| one.type_ == "Established" && one.status == "True") {
                    true => WaitState::Done(()),
                    false => WaitState::NotYet("not established".to_owned()),
                }
            };
            let name = definition.name_any();
            wait_until(&definitions, &name, ESTABLISHED_TIMEOUT, established)
                .await
                .unwrap();
        }
        let garden: Namespace = serde_json::from_value(json!({"metadata": {"name": "garden"}})).unwrap();
        apply(&Api::all(self.admin.clone()), &garden, MANAGER).await.unwrap();
        for kind in ExtensionKind::ALL {
            kind.with(Create(&self.admin, "one", TYPE, "shoot")).await;
            kind.with(Create(&self.admin, "other", OTHER_TYPE, "shoot")).await;
            if *kind == ExtensionKind::Extension {
                kind.with(Create(&self.admin, "of-garden", TYPE, "garden")).await;
            }
        }
    }

    /// Writes that the primary extension of every kind is installed there.
    async fn install(&self, namespaces: &[&str]) {
        let names: BTreeSet<String> = namespaces.iter().map(|name| (*name).to_owned()).collect();
        let keys = ExtensionKind::ALL.iter().map(|kind| (*kind, TYPE.to_owned()));
        let namespaces: BTreeMap<_, _> = keys.map(|key| (key, names.clone())).collect();
        let writers = StatusWriters {
            gardenlet: GARDENLET.to_owned(),
            namespaces,
        };
        let maps: Api<ConfigMap> = Api::namespaced(self.gardenlet.clone(), "garden");
        apply(&maps, &extension_status_writers(&writers), MANAGER)
            .await
            .unwrap();
    }

    /// Waits until a write that leaves nothing behind is refused, or no longer is. A server may see policies and parameters a
    /// moment later than they are written.
    async fn effective(&self, user: &str, is_refused: bool) {
        for tries in 0.. {
            assert!(tries < EFFECTIVE_TRIES_MAX, "{user}: refused is not {is_refused}");
            let client = (self.user)(user);
            let api = api_in::<api_extensions::Worker>(&client, "default");
            let patch = Patch::Merge(json!({"status": {"observedGeneration": 99}}));
            let params = PatchParams {
                dry_run: true,
                ..PatchParams::default()
            };
            if api.patch_status("one", &params, &patch).await.is_err() == is_refused {
                return;
            }
            tokio::time::sleep(EFFECTIVE_PAUSE).await;
        }
    }
}

/// Runs all cases.
pub(crate) async fn run_all(ground: &Ground) {
    ground.prepare().await;
    ground.install(&["extension-moon-a"]).await;
    let gardenlet = || ground.gardenlet.clone();
    let policy = extension_status_policy();
    apply(&Api::all(gardenlet()), &policy, MANAGER).await.unwrap();
    let binding = extension_status_binding();
    apply(&Api::all(gardenlet()), &binding, MANAGER).await.unwrap();
    ground.effective(SECONDARY, true).await;
    for kind in ExtensionKind::ALL {
        confined(ground, *kind).await;
        free(ground, *kind).await;
    }
    messages(ground).await;
    successor(ground).await;
}

/// What secondaries may not and may.
async fn confined(ground: &Ground, kind: ExtensionKind) {
    for field in PRIMARY_FIELDS {
        for value in changes(field) {
            for user in [SECONDARY, NEIGHBOUR] {
                let status = json!({field: value, "conditions": [condition("Beside")]});
                let message = ground.refused(kind, user, "one", status).await;
                let named = message.contains(&format!("{user} may not write status.{field} of {kind} "));
                assert!(
                    named && message.contains("of namespace extension-moon-a may"),
                    "{message}"
                );
            }
        }
    }
    let beside = json!({"conditions": [condition("Beside")]});
    ground.accepted(kind, SECONDARY, "one", beside).await;
    kind.with(Replace(&(ground.user)(SECONDARY), "one")).await;
}

/// What the primary extension, gardenlet and people may, and any writer where no primary extension is known.
async fn free(ground: &Ground, kind: ExtensionKind) {
    for field in PRIMARY_FIELDS {
        for value in changes(field) {
            let status = || json!({field: value.clone()});
            for (user, name) in [
                (PRIMARY, "one"),
                (PERSON, "one"),
                (SECONDARY, "other"),
                (GARDENLET, "other"),
            ] {
                ground.accepted(kind, user, name, status()).await;
                ground.accepted(kind, user, name, json!({field: null})).await;
            }
        }
    }
    ground
        .accepted(kind, GARDENLET, "one", json!({"state": {"restored": 1}}))
        .await;
    let message = ground
        .refused(kind, GARDENLET, "one", json!({"state": null, "observedGeneration": 3}))
        .await;
    assert!(
        message.contains("status.observedGeneration of") && !message.contains("status.state of"),
        "{message}"
    );
    if kind == ExtensionKind::Extension {
        let status = json!({"observedGeneration": 3});
        ground.accepted(kind, SECONDARY, "of-garden", status).await;
    }
}

async fn messages(ground: &Ground) {
    let kind = ExtensionKind::Worker;
    let status = json!({"lastError": {"description": "d"}, "observedGeneration": 9, "state": {"x": 1}});
    let message = ground.refused(kind, SECONDARY, "one", status).await;
    let expected = "system:serviceaccount:extension-watcher:watcher may not write status.lastError, status.observedGeneration, \
                    status.state of Worker default/one of type Moon: service accounts of namespace extension-moon-a may, where the \
                    primary extension of this kind and type is installed, and gardenlet status.state; to do: write \
                    status.conditions alone";
    assert!(message.ends_with(expected), "{message}");
}

/// Another extension becomes primary; both may write in between.
async fn successor(ground: &Ground) {
    let kind = ExtensionKind::Network;
    let status = |generation: i64| json!({"observedGeneration": generation});
    ground.refused(kind, SUCCESSOR, "one", status(11)).await;
    ground.install(&["extension-moon-a", "extension-moon-b"]).await;
    ground.effective(SUCCESSOR, false).await;
    ground.accepted(kind, PRIMARY, "one", status(12)).await;
    ground.accepted(kind, SUCCESSOR, "one", status(13)).await;
    ground.install(&["extension-moon-b"]).await;
    ground.effective(PRIMARY, true).await;
    ground.accepted(kind, SUCCESSOR, "one", status(14)).await;
    // Without any, every extension works.
    ground.install(&[]).await;
    ground.effective(SECONDARY, false).await;
}
