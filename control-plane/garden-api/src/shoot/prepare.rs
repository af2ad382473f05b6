//! What the server itself writes into a Shoot after admission: the zero values of its status, one form of references to
//! DNS credentials, the labels of its seeds, older fields that repeat newer ones (gardener/gardener v1.150
//! pkg/apiserver/registry/core/shoot/strategy.go). It never refuses anything.

use api_core::v1beta1::{Shoot, ShootStatus};
use cluster_apiserver::kind::Call;
use serde_json::{Map, Value};

use crate::convert::{decode, encode_over};
use crate::prepare::{self, label};

/// Label of a Shoot whose control plane runs on its own nodes.
const SELF_HOSTED: &str = "shoot.gardener.cloud/self-hosted";

pub(super) fn prepare(_call: &Call<'_>, object: &mut Value, _old: Option<&Value>) {
    complete_status(object);
    if let Ok(mut shoot) = decode::<Shoot>(object)
        && api_rules::settle_shoot(&mut shoot)
    {
        encode_over(&shoot, object);
    }
    label_seeds(object);
}

/// Clients in Go read these fields without looking whether they are there.
fn complete_status(object: &mut Value) {
    let Ok(Value::Object(zero)) = serde_json::to_value(ShootStatus::default()) else {
        return;
    };
    if !object["status"].is_object() {
        object["status"] = Value::Object(Map::new());
    }
    let Some(status) = object["status"].as_object_mut() else {
        return;
    };
    for (field, value) in zero {
        status.entry(field).or_insert(value);
    }
}

fn label_seeds(object: &mut Value) {
    prepare::label_seeds(object);
    let pools = object.pointer("/spec/provider/workers").and_then(Value::as_array);
    let is_self_hosted = pools
        .into_iter()
        .flatten()
        .any(|pool| pool.get("controlPlane").is_some_and(|part| !part.is_null()));
    if let Some(labels) = object["metadata"]["labels"].as_object_mut() {
        labels.remove(SELF_HOSTED);
    }
    if is_self_hosted {
        label(object, SELF_HOSTED, "true");
    }
}
