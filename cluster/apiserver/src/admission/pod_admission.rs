//! What kube-apiserver's admission does to every pod: its service account with a token, its priority, and
//! how long it stays on a node that is not ready. It creates no accounts and no tokens.
//! (kubernetes/kubernetes v1.35 plugin/pkg/admission/{serviceaccount,priority,defaulttolerationseconds})

use std::time::Duration;

use api_meta::names::SERVICE_ACCOUNT_FOLDER;
use cluster_store::{Entry, Key, Page, Range};
use futures::StreamExt;
use serde_json::{Map, Value, json};

use crate::kinds::metadata;
use crate::kinds::registry::Role;
use crate::state::context::Context;
use crate::storage::errors::store_status;
use crate::wire::status::Status;

/// The account of pods that name none.
const DEFAULT_ACCOUNT: &str = "default";
/// How long a pod waits for the account `default` of a new namespace; a controller creates it.
const ACCOUNT_WAIT: Duration = Duration::from_secs(1);
/// What the names of token volumes begin with.
const TOKEN_VOLUME: &str = "kube-api-access-";
/// Lifetime of a token in seconds: an odd number by which upstream recognizes the tokens that it has mounted.
const TOKEN_SECONDS: i64 = 3607;
/// The annotation of mirror pods, by which a node shows its static pods.
const MIRROR: &str = "kubernetes.io/config.mirror";
/// Letters of generated names.
const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
/// Taints of an unhealthy node, and for how many seconds pods tolerate them.
const UNHEALTHY_TAINTS: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];
const TOLERATION_SECONDS: i64 = 300;
/// What the stored JSON of a class contains that is the default.
const GLOBAL_DEFAULT: &[u8] = b"\"globalDefault\":true";
/// The resource of priority classes in the store.
const CLASSES: &str = "scheduling.k8s.io/priorityclasses";

/// Admits a pod that is created (`old` is none) or changed; other kinds and parts of pods pass.
pub(crate) async fn admit(context: &Context, pod: &mut Value, old: Option<&Value>) -> Result<(), Status> {
    if context.served.role != Role::Pod || context.subresource().is_some() {
        return Ok(());
    }
    match old {
        None => {
            if context.server.accounts {
                account(context, pod).await?;
            }
            priority(context, pod).await?;
        }
        Some(old) => keep_priority(pod, old),
    }
    if old.is_none_or(has_default_tolerations) {
        add_default_tolerations(pod);
    }
    Ok(())
}

fn spec(pod: &mut Value) -> Option<&mut Map<String, Value>> {
    pod.get_mut("spec")?.as_object_mut()
}

fn spec_text<'v>(pod: &'v Value, field: &str) -> &'v str {
    pod.get("spec")
        .and_then(|spec| spec.get(field)?.as_str())
        .unwrap_or_default()
}

fn refuse(pod: &Value, why: &str) -> Status {
    let base = metadata::text(pod, "generateName");
    let name = if base.is_empty() {
        metadata::text(pod, "name")
    } else {
        base
    };
    Status::forbidden("", "pods", name, why)
}

async fn account(context: &Context, pod: &mut Value) -> Result<(), Status> {
    let annotations = pod.pointer("/metadata/annotations");
    if annotations.is_some_and(|annotations| annotations.get(MIRROR).is_some()) {
        return match spec_text(pod, "serviceAccountName") {
            "" => Ok(()),
            _ => Err(refuse(pod, "a mirror pod may not reference service accounts")),
        };
    }
    if spec_text(pod, "serviceAccountName").is_empty()
        && let Some(spec) = spec(pod)
    {
        for field in ["serviceAccountName", "serviceAccount"] {
            spec.insert(field.to_owned(), DEFAULT_ACCOUNT.into());
        }
    }
    let (namespace, name) = (
        context.namespace().unwrap_or_default(),
        spec_text(pod, "serviceAccountName"),
    );
    let Some(found) = find_account(context, namespace, name).await? else {
        let why = format!("error looking up service account {namespace}/{name}: serviceaccount \"{name}\" not found");
        return Err(refuse(pod, &why));
    };
    let account = found.object.value(found.revision);
    let automount = |object: &Value| object.get("automountServiceAccountToken").and_then(Value::as_bool);
    if pod
        .get("spec")
        .and_then(automount)
        .or_else(|| automount(&account))
        .unwrap_or(true)
    {
        mount_token(pod);
    }
    let secrets = account.get("imagePullSecrets").and_then(Value::as_array);
    let secrets = secrets.filter(|secrets| !secrets.is_empty());
    if let (Some(secrets), Some(spec)) = (secrets, spec(pod)) {
        let own = spec.get("imagePullSecrets").and_then(Value::as_array);
        if own.is_none_or(Vec::is_empty) {
            spec.insert("imagePullSecrets".to_owned(), Value::Array(secrets.clone()));
        }
    }
    Ok(())
}

async fn find_account(context: &Context, namespace: &str, name: &str) -> Result<Option<Entry>, Status> {
    let store = &context.server.store;
    let key = Key::new("serviceaccounts", Some(namespace), name);
    let found = store.get(&key).await.map_err(store_status)?;
    if found.is_some() || name != DEFAULT_ACCOUNT {
        return Ok(found);
    }
    let range = Range {
        resource: key.resource.clone(),
        namespace: key.namespace.clone(),
        name: Some(key.name.clone()),
    };
    let from = store.revision(&range.resource).await.map_err(store_status)?;
    let mut changes = store.watch(&range, from).await.map_err(store_status)?;
    // It may have been created before the watch began.
    let found = store.get(&key).await.map_err(store_status)?;
    if found.is_none() {
        let _ = tokio::time::timeout(ACCOUNT_WAIT, changes.next()).await;
    }
    store.get(&key).await.map_err(store_status)
}

fn mount_token(pod: &mut Value) {
    let uid = metadata::text(pod, "uid");
    let letters = uid.bytes().rev().take(5).enumerate();
    let suffix: String = letters
        .map(|(place, byte)| char::from(LETTERS[(usize::from(byte) * 5 + place * 7) % LETTERS.len()]))
        .collect();
    let Some(spec) = spec(pod) else { return };
    let of_token = |volume: &Value| {
        let name = volume.get("name").and_then(Value::as_str)?;
        name.starts_with(TOKEN_VOLUME).then(|| name.to_owned())
    };
    let there = spec.get("volumes").and_then(Value::as_array);
    let there = there.and_then(|volumes| volumes.iter().find_map(of_token));
    let name = there.clone().unwrap_or_else(|| format!("{TOKEN_VOLUME}{suffix}"));
    let mut needed = false;
    for list in ["initContainers", "containers"] {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            let Some(container) = container.as_object_mut() else {
                continue;
            };
            let mounts = container.entry("volumeMounts").or_insert_with(|| json!([]));
            let Some(mounts) = mounts.as_array_mut() else { continue };
            if mounts
                .iter()
                .all(|mount| mount.get("mountPath") != Some(&json!(SERVICE_ACCOUNT_FOLDER)))
            {
                mounts.push(json!({"name": name, "readOnly": true, "mountPath": SERVICE_ACCOUNT_FOLDER}));
                needed = true;
            }
        }
    }
    if needed && there.is_none() {
        let volumes = spec.entry("volumes").or_insert_with(|| json!([]));
        if let Some(volumes) = volumes.as_array_mut() {
            volumes.push(token_volume(&name));
        }
    }
}

fn token_volume(name: &str) -> Value {
    json!({"name": name, "projected": {"defaultMode": 0o644, "sources": [
        {"serviceAccountToken": {"expirationSeconds": TOKEN_SECONDS, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [
            {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}},
        ]}},
    ]}})
}

async fn priority(context: &Context, pod: &mut Value) -> Result<(), Status> {
    let name = spec_text(pod, "priorityClassName").to_owned();
    let class = if name.is_empty() {
        default_class(context).await?
    } else {
        let key = Key::new(CLASSES, None, name.as_str());
        let found = context.server.store.get(&key).await.map_err(store_status)?;
        let found = found.ok_or_else(|| refuse(pod, &format!("no PriorityClass with name {name} was found")))?;
        Some(found.object.value(found.revision))
    };
    let value = class
        .as_ref()
        .and_then(|class| class.get("value")?.as_i64())
        .unwrap_or_default();
    let policy = class.as_ref().map_or("PreemptLowerPriority", |class| {
        class
            .get("preemptionPolicy")
            .and_then(Value::as_str)
            .unwrap_or_default()
    });
    let given = pod.pointer("/spec/priority").and_then(Value::as_i64);
    if let Some(given) = given.filter(|given| *given != value) {
        let why = format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller computed {value} from the given PriorityClass name"
        );
        return Err(refuse(pod, &why));
    }
    let given = spec_text(pod, "preemptionPolicy");
    if !given.is_empty() && !policy.is_empty() && given != policy {
        let why = format!(
            "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission controller computed {policy} from the given PriorityClass name"
        );
        return Err(refuse(pod, &why));
    }
    let Some(spec) = spec(pod) else { return Ok(()) };
    if let Some(class) = class.as_ref().filter(|_| name.is_empty()) {
        spec.insert("priorityClassName".to_owned(), metadata::text(class, "name").into());
    }
    spec.insert("priority".to_owned(), value.into());
    if !policy.is_empty() {
        spec.insert("preemptionPolicy".to_owned(), policy.into());
    }
    Ok(())
}

/// The class of pods that name none: of several defaults the one with the lowest value.
async fn default_class(context: &Context) -> Result<Option<Value>, Status> {
    let listing = context.server.store.list(&Range::all(CLASSES), Page::default()).await;
    let listing = listing.map_err(store_status)?;
    let classes = listing.entries.iter().filter_map(|entry| {
        // Few classes are defaults; the others need not be parsed.
        let has_field = entry
            .object
            .bytes()
            .windows(GLOBAL_DEFAULT.len())
            .any(|text| text == GLOBAL_DEFAULT);
        let class = has_field.then(|| entry.object.value(entry.revision))?;
        (class.get("globalDefault") == Some(&json!(true))).then_some(class)
    });
    Ok(classes.min_by_key(|class| class.get("value").and_then(Value::as_i64)))
}

fn keep_priority(pod: &mut Value, old: &Value) {
    for field in ["priority", "preemptionPolicy"] {
        let before = old.get("spec").and_then(|spec| spec.get(field)).cloned();
        if let (Some(before), Some(spec)) = (before, spec(pod)) {
            spec.entry(field).or_insert(before);
        }
    }
}

/// The taints among [`UNHEALTHY_TAINTS`] that these tolerations do not mention.
fn untolerated(tolerations: &[Value]) -> Vec<&'static str> {
    let text = |toleration: &Value, field: &str| toleration[field].as_str().unwrap_or_default().to_owned();
    let untolerated = UNHEALTHY_TAINTS.into_iter().filter(|taint| {
        let matches = |toleration: &Value| {
            let (key, effect) = (text(toleration, "key"), text(toleration, "effect"));
            (key.is_empty() || key == *taint) && (effect.is_empty() || effect == "NoExecute")
        };
        !tolerations.iter().any(matches)
    });
    untolerated.collect()
}

/// True of every pod that was created with this admission; a pod of an earlier version stays as it is.
fn has_default_tolerations(pod: &Value) -> bool {
    let tolerations = pod.pointer("/spec/tolerations").and_then(Value::as_array);
    untolerated(tolerations.map(Vec::as_slice).unwrap_or_default()).is_empty()
}

fn add_default_tolerations(pod: &mut Value) {
    let Some(spec) = spec(pod) else { return };
    let tolerations = spec.entry("tolerations").or_insert_with(|| json!([]));
    let Some(tolerations) = tolerations.as_array_mut() else {
        return;
    };
    let missing = untolerated(tolerations);
    tolerations.extend(missing.into_iter().map(
        |key| json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TOLERATION_SECONDS}),
    ));
}
