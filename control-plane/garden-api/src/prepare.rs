//! What the server itself writes into objects after admission (gardener/gardener v1.150
//! pkg/apiserver/registry/*/*/strategy.go, `PrepareForCreate` and `Canonicalize`). It never refuses anything.

use api_core::v1beta1::CloudProfileSpec;
use api_meta::annotations::{CONFIRMATION_FORCE_DELETION, OPERATION, is_true, operation};
use cluster_apiserver::kind::{Call, spec_differs};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::convert::{annotation, decode, encode_over, text};

/// Prefix of the labels that name the seeds of an object.
pub(crate) const SEED_LABELS: &str = "name.seed.gardener.cloud/";
const SEED_PROVIDER: &str = "seed.gardener.cloud/provider";
const SEED_REGION: &str = "seed.gardener.cloud/region";

/// Writes a label.
pub(crate) fn label(object: &mut Value, label: &str, value: &str) {
    let labels = &mut object["metadata"]["labels"];
    if !labels.is_object() {
        *labels = Value::Object(Map::new());
    }
    labels[label] = json!(value);
}

/// Writes an annotation.
pub(crate) fn annotate(object: &mut Value, annotation: &str, value: &str) {
    let annotations = &mut object["metadata"]["annotations"];
    if !annotations.is_object() {
        *annotations = Value::Object(Map::new());
    }
    annotations[annotation] = json!(value);
}

/// References of a new object that stay in its namespace. Defaults cannot write them if only the path of the request has
/// the namespace: they come before the server writes it.
pub(crate) fn references_of_new<T>(object: &mut Value, old: Option<&Value>, default: fn(&mut T))
where
    T: DeserializeOwned + Serialize,
{
    if let (None, Ok(mut typed)) = (old, decode::<T>(object)) {
        default(&mut typed);
        encode_over(&typed, object);
    }
}

/// Labels by which seeds are found, beside the one that a plug-in writes.
pub(crate) fn seed(call: &Call<'_>, object: &mut Value, _old: Option<&Value>) {
    if call.subresource.is_some() {
        return;
    }
    let values = ["/spec/provider/type", "/spec/provider/region"].map(|pointer| text(object, pointer).to_owned());
    label(object, SEED_PROVIDER, &values[0]);
    label(object, SEED_REGION, &values[1]);
}

/// The labels of the seeds that a backup is on, now and before it moves.
pub(crate) fn backup_entry(_call: &Call<'_>, object: &mut Value, _old: Option<&Value>) {
    label_seeds(object);
}

/// Labels of the seeds in spec and status, and no others of that sort.
pub(crate) fn label_seeds(object: &mut Value) {
    let names = ["/spec/seedName", "/status/seedName"].map(|pointer| text(object, pointer).to_owned());
    if let Some(labels) = object["metadata"]["labels"].as_object_mut() {
        labels.retain(|label, _| !label.starts_with(SEED_LABELS));
    }
    for name in names.iter().filter(|name| !name.is_empty()) {
        label(object, &format!("{SEED_LABELS}{name}"), "true");
    }
}

/// Some operations raise the generation of a Seed, and `reconcile` is used up by that.
pub(crate) fn changes_generation_of_seed(_call: &Call<'_>, object: &mut Value, old: &Value) -> bool {
    const RAISING: [&str; 4] = [
        "renew-garden-access-secrets",
        "renew-workload-identity-tokens",
        "renew-kubeconfig",
        operation::RECONCILE,
    ];
    let requested = annotation(object, OPERATION).to_owned();
    let raises = requested != annotation(old, OPERATION) && RAISING.contains(&requested.as_str());
    if raises && requested == operation::RECONCILE {
        remove_annotation(object, OPERATION);
    }
    raises || spec_differs(object, old)
}

/// How long a Bastion is retained after its last sign of use, in seconds.
const BASTION_LIFETIME_S: i64 = 60 * 60;

/// A Bastion is in use when it is made and when its user renews it; how long it stays is the server's decision.
pub(crate) fn bastion(call: &Call<'_>, object: &mut Value, old: Option<&Value>) {
    const HEARTBEAT: &str = "lastHeartbeatTimestamp";
    const END: &str = "expirationTimestamp";
    let end_of = |heartbeat: Timestamp| heartbeat.saturating_add(SignedDuration::from_secs(BASTION_LIFETIME_S));
    if call.subresource == Some("status") {
        let heartbeat = text(object, "/status/lastHeartbeatTimestamp").parse::<Timestamp>();
        if let Some(end) = heartbeat.ok().and_then(|heartbeat| end_of(heartbeat).ok()) {
            object["status"][END] = json!(Time(end));
        }
        return;
    }
    let keeps = annotation(object, OPERATION) == operation::KEEPALIVE;
    if old.is_some() && !keeps {
        return;
    }
    if !object["status"].is_object() {
        object["status"] = Value::Object(Map::new());
    }
    let now = Timestamp::from_second(call.now.as_second()).unwrap_or(call.now);
    object["status"][HEARTBEAT] = json!(Time(now));
    object["status"][END] = json!(end_of(now).ok().map(Time));
    if keeps {
        remove_annotation(object, OPERATION);
    }
}

/// Two annotations raise the generation of a Bastion: `reconcile` at each update that leaves it there.
pub(crate) fn changes_generation_of_bastion(_call: &Call<'_>, object: &mut Value, old: &Value) -> bool {
    let given_up = |object: &Value| is_true(annotation(object, CONFIRMATION_FORCE_DELETION));
    spec_differs(object, old)
        || annotation(object, OPERATION) == operation::RECONCILE
        || (given_up(object) && !given_up(old))
}

/// Clients in Go read the status of managed seeds and gardenlets without looking whether it is there.
pub(crate) fn gardenlet(_call: &Call<'_>, object: &mut Value, _old: Option<&Value>) {
    if !object["status"].is_object() {
        object["status"] = Value::Object(Map::new());
    }
}

/// As [`gardenlet`], with the number that a set's status always has.
pub(crate) fn managed_seed_set(call: &Call<'_>, object: &mut Value, old: Option<&Value>) {
    gardenlet(call, object, old);
    if let Some(status) = object["status"].as_object_mut() {
        status.entry("replicas").or_insert(json!(0));
    }
}

/// Operations raise the generation of a managed seed or gardenlet at each update that leaves them there.
pub(crate) fn changes_generation_of_gardenlet(call: &Call<'_>, object: &mut Value, old: &Value) -> bool {
    changes_generation_of_managed_seed_set(call, object, old)
        || ["renew-kubeconfig", "force-redeploy"].contains(&annotation(object, OPERATION))
}

/// `reconcile` raises the generation and is used up by that.
pub(crate) fn changes_generation_of_managed_seed_set(_call: &Call<'_>, object: &mut Value, old: &Value) -> bool {
    if spec_differs(object, old) {
        return true;
    }
    let reconciles = annotation(object, OPERATION) == operation::RECONCILE;
    if reconciles {
        remove_annotation(object, OPERATION);
    }
    reconciles
}

/// Removes an annotation, and the list of annotations with the last one.
pub(crate) fn remove_annotation(object: &mut Value, key: &str) {
    let Some(metadata) = object["metadata"].as_object_mut() else {
        return;
    };
    let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) else {
        return;
    };
    annotations.remove(key);
    if annotations.is_empty() {
        metadata.remove("annotations");
    }
}

/// A new profile keeps no version that no Shoot could use.
pub(crate) fn cloud_profile(call: &Call<'_>, object: &mut Value, old: Option<&Value>) {
    if old.is_some() {
        return;
    }
    if let Ok(mut spec) = CloudProfileSpec::deserialize(&object["spec"]) {
        api_rules::drop_inactive_versions(&mut spec, call.now);
        if let Ok(spec) = serde_json::to_value(spec) {
            object["spec"] = spec;
        }
    }
}

/// The status of a project's profile always has a profile; an empty one until it is merged with its parent.
pub(crate) fn namespaced_cloud_profile(_call: &Call<'_>, object: &mut Value, _old: Option<&Value>) {
    if !object["status"].is_object() {
        object["status"] = Value::Object(Map::new());
    }
    if object["status"]["cloudProfileSpec"].is_null() {
        object["status"]["cloudProfileSpec"] =
            json!({"kubernetes": {}, "machineImages": null, "machineTypes": null, "regions": null, "type": ""});
    }
}

/// The subject of an identity's tokens.
pub(crate) fn workload_identity(call: &Call<'_>, object: &mut Value, old: Option<&Value>) {
    if old.is_none() && text(object, "/status/sub").is_empty() {
        let (namespace, uid) = (call.namespace.unwrap_or_default(), text(object, "/metadata/uid"));
        let subject = api_rules::subject_of_workload_identity(namespace, call.name, uid);
        object["status"] = json!({ "sub": subject });
    }
}
