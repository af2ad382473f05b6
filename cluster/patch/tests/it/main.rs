//! Server-side apply as a client sees it: tables of live object, request and result, and laws that random ones obey.

mod laws;
mod migration;
mod ownership;
mod versions;

use cluster_patch::{ApplyOptions, PatchError, UpdateOptions, server_side_apply, track_update};
use cluster_schema::{Kind, ListType, MapType, Object, Scalar, Schema};
use jiff::Timestamp;
use serde_json::{Value, json};

/// A kind with every way of merging: named fields, maps, atomic and keyed lists with a default key, sets, unknown parts.
fn schema() -> Schema {
    let text = || Schema::scalar(Scalar::String);
    let whole = || Schema::scalar(Scalar::Integer);
    let mut protocol = text().node().clone();
    protocol.default = Some(json!("TCP"));
    let keys = |keys: &[&str]| ListType::Map {
        keys: keys.iter().map(|key| (*key).into()).collect(),
    };
    let port = Schema::object([("port", whole()), ("protocol", Schema::new(protocol)), ("name", text())]);
    let container = Schema::object([
        ("name", text()),
        ("image", text()),
        ("args", Schema::list(text(), ListType::Atomic)),
        ("ports", Schema::list(port, keys(&["port", "protocol"]))),
    ]);
    let mut atomic = Schema::map(text()).node().clone();
    atomic.kind = Kind::Object(Object {
        additional: Some(text()),
        map_type: MapType::Atomic,
        ..Object::default()
    });
    let spec = Schema::object([
        ("replicas", whole()),
        ("containers", Schema::list(container, keys(&["name"]))),
        ("set", Schema::list(text(), ListType::Set)),
        ("selector", Schema::new(atomic)),
        (
            "strategy",
            Schema::object([("type", text()), ("rolling", Schema::object([("surge", whole())]))]),
        ),
        ("raw", Schema::any()),
        ("map", Schema::map(Schema::map(text()))),
    ]);
    Schema::object([("spec", spec), ("status", Schema::object([("ready", whole())]))]).with_type_and_object_meta()
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + second).expect("in range")
}

/// A whole object from its spec.
fn spec(spec: Value) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Thing", "metadata": {"name": "t"}, "spec": spec})
}

fn options(manager: &str, second: i64) -> ApplyOptions<'_> {
    ApplyOptions {
        manager,
        force: false,
        subresource: "",
        time: at(second),
        api_version: "apps/v1",
        reset: &["status"],
    }
}

fn apply(live: Option<&Value>, manager: &str, applied: Value) -> Result<Value, PatchError> {
    server_side_apply(live, &spec(applied), options(manager, 0), &schema())
}

fn apply_by_force(live: &Value, manager: &str, applied: Value) -> Value {
    let options = ApplyOptions {
        force: true,
        ..options(manager, 0)
    };
    server_side_apply(Some(live), &spec(applied), options, &schema()).expect("forced")
}

fn update(live: Option<&Value>, manager: &str, new: Value) -> Value {
    let mut new = new;
    let options = UpdateOptions {
        manager,
        subresource: "",
        time: at(0),
        api_version: "apps/v1",
    };
    track_update(live, &mut new, options, &schema());
    new
}

/// An update that changes the spec alone.
fn update_spec(live: &Value, manager: &str, spec: Value) -> Value {
    let mut new = live.clone();
    new["spec"] = spec;
    update(Some(live), manager, new)
}

fn managed(object: &Value) -> Vec<Value> {
    object["metadata"]["managedFields"]
        .as_array()
        .cloned()
        .unwrap_or_default()
}

/// The fields of a manager's spec.
fn owned(object: &Value, manager: &str) -> Value {
    managed(object)
        .iter()
        .find(|entry| entry["manager"] == manager)
        .map_or(Value::Null, |entry| entry["fieldsV1"]["f:spec"].clone())
}

fn refusal(result: Result<Value, PatchError>) -> String {
    result.expect_err("refused").to_string()
}
