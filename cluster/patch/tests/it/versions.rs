//! Applies to what others have written in another version of the kind: a field is `size` in v1 and `count` in v2.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use cluster_patch::{Versions, server_side_apply_in};
use cluster_schema::Scalar;
use serde_json::json;

use super::*;

const NAMES: [(&str, &str); 2] = [("e.com/v1", "size"), ("e.com/v2", "count")];

struct Renamed;

fn name_in(api_version: &str) -> Option<&'static str> {
    NAMES
        .iter()
        .find(|(version, _)| *version == api_version)
        .map(|(_, name)| *name)
}

impl Versions for Renamed {
    async fn convert(&self, object: &Value, api_version: &str) -> Result<Value, String> {
        let wanted = name_in(api_version).ok_or_else(|| format!("there is no {api_version}"))?;
        let mut object = object.clone();
        object["apiVersion"] = api_version.into();
        // What has lost all of its fields is null.
        if let Some(spec) = object["spec"].as_object_mut() {
            for (_, name) in NAMES {
                if let Some(value) = spec.remove(name) {
                    spec.insert(wanted.to_owned(), value);
                }
            }
        }
        Ok(object)
    }

    fn schema(&self, api_version: &str) -> Schema {
        let text = || Schema::scalar(Scalar::String);
        let fields = name_in(api_version).into_iter().chain(["a", "b"]);
        let spec = Schema::object(fields.map(|name| (name, text())));
        Schema::object([("apiVersion", text()), ("metadata", Schema::any()), ("spec", spec)])
    }
}

fn apply(
    live: Option<&Value>,
    manager: &str,
    api_version: &str,
    spec: Value,
    force: bool,
) -> Result<Value, PatchError> {
    let applied = json!({"apiVersion": api_version, "metadata": {"name": "t"}, "spec": spec});
    // The object is read in the version of the request.
    let live = live.map(|live| ready(Renamed.convert(live, api_version)).expect("a version"));
    let options = ApplyOptions {
        manager,
        force,
        subresource: "",
        time: at(0),
        api_version,
        reset: &[],
    };
    let schema = Renamed.schema(api_version);
    ready(server_side_apply_in(
        live.as_ref(),
        &applied,
        options,
        &schema,
        &Renamed,
    ))
}

fn ready<T>(future: impl Future<Output = T>) -> T {
    let Poll::Ready(value) = pin!(future).poll(&mut Context::from_waker(Waker::noop())) else {
        unreachable!("nothing here waits")
    };
    value
}

fn owned(object: &Value) -> Vec<(String, Value)> {
    let entries = object["metadata"]["managedFields"].as_array().expect("a list");
    let of_one = |entry: &Value| {
        let fields = entry["fieldsV1"]["f:spec"].clone();
        (format!("{} {}", entry["manager"], entry["apiVersion"]), fields)
    };
    entries.iter().map(of_one).collect()
}

#[test]
fn a_field_of_another_version_is_the_same_field_by_another_name() {
    let live = apply(None, "one", "e.com/v1", json!({"size": "1", "a": "1"}), false).unwrap();
    let same = apply(Some(&live), "two", "e.com/v2", json!({"count": "1"}), false).unwrap();
    assert_eq!(owned(&same).len(), 2, "both own it");
    let error = apply(Some(&live), "two", "e.com/v2", json!({"count": "2"}), false).unwrap_err();
    assert_eq!(
        error.to_string(),
        r#"Apply failed with 1 conflict: conflict with "one": .spec.size"#
    );
    let taken = apply(Some(&live), "two", "e.com/v2", json!({"count": "2"}), true).unwrap();
    let expected = [
        (r#""one" "e.com/v1""#.to_owned(), json!({"f:a": {}})),
        (r#""two" "e.com/v2""#.to_owned(), json!({"f:count": {}})),
    ];
    assert_eq!(owned(&taken), expected);
}

#[test]
fn fields_of_another_version_go_unless_another_manager_owns_them() {
    let live = apply(None, "one", "e.com/v1", json!({"size": "1", "a": "1", "b": "1"}), false).unwrap();
    let live = apply(Some(&live), "two", "e.com/v1", json!({"a": "1"}), false).unwrap();
    let live = apply(Some(&live), "one", "e.com/v2", json!({"b": "2"}), false).unwrap();
    assert_eq!(live["spec"], json!({"a": "1", "b": "2"}), "the size has no owner");
    let live = apply(Some(&live), "one", "e.com/v1", json!({"size": "3", "b": "2"}), false).unwrap();
    let live = apply(Some(&live), "two", "e.com/v2", json!({"count": "3", "a": "1"}), false).unwrap();
    let live = apply(Some(&live), "one", "e.com/v2", json!({"b": "2"}), false).unwrap();
    assert_eq!(
        live["spec"],
        json!({"a": "1", "b": "2", "count": "3"}),
        "the other one owns it"
    );
}

#[test]
fn an_object_that_does_not_fit_a_managers_version_is_an_error() {
    let mut live = apply(None, "one", "e.com/v1", json!({"size": "1"}), false).unwrap();
    let error = apply(Some(&live), "two", "e.com/v2", json!({"count": "1", "c": "1"}), false);
    assert!(
        matches!(&error, Err(PatchError::Failed(why)) if why.contains(".spec.c")),
        "{error:?}"
    );
    live["metadata"]["managedFields"][0]["apiVersion"] = "e.com/v3".into();
    let error = apply(Some(&live), "two", "e.com/v2", json!({"count": "1"}), false);
    assert_eq!(error, Err(PatchError::Failed("there is no e.com/v3".to_owned())));
}
