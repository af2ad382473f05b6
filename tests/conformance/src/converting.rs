//! The webhook's answers to a ConversionReview: the first object's `spec.way` selects one, so that one definition serves for
//! all. In a good one `spec.hostPort` of `v1` is `spec.host` and `spec.port` of every other version.

use serde_json::{Map, Value, json};

/// An answer: a review, or something else.
pub(crate) enum Converted {
    Review(Value),
    Text(&'static str),
    Code(u16),
    Closed,
}

/// The annotation in which conversions are recorded, if an object has it.
const TRAIL: &str = "trail";

pub(crate) fn convert(review: &Value) -> Converted {
    let request = &review["request"];
    let objects: Vec<Value> = request["objects"].as_array().cloned().unwrap_or_default();
    let wanted = request["desiredAPIVersion"].as_str().unwrap_or_default();
    let way = objects.iter().find_map(|object| object["spec"]["way"].as_str());
    let way = way.unwrap_or_default().to_owned();
    match way.as_str() {
        "close" => return Converted::Closed,
        "broken" => return Converted::Text("{\"kind\": nonsense"),
        "empty" => return Converted::Text(""),
        "code" => return Converted::Code(500),
        "teapot" => return Converted::Code(418),
        _ => {}
    }
    let description = description(request, &review["apiVersion"]);
    let mut converted: Vec<Value> = objects.into_iter().map(|object| good(object, wanted)).collect();
    let mut answer =
        json!({"kind": "ConversionReview", "apiVersion": review["apiVersion"], "response": {"uid": request["uid"]}});
    let mut result = json!({"status": "Success"});
    match way.as_str() {
        "fail" => result = json!({"status": "Failure", "message": "not convertible today"}),
        "silent" => result = json!({"status": "Failure"}),
        "statusless" => result = json!({"message": "no status at all"}),
        "tell" => result = json!({"status": "Failure", "message": description}),
        "none" => converted.clear(),
        "null" => converted = vec![Value::Null],
        "twice" => converted.extend(converted.clone()),
        "uid" => answer["response"]["uid"] = json!("another"),
        "kind" => answer["kind"] = json!("Other"),
        "group" => answer["apiVersion"] = json!("example.com/v1"),
        "untyped" => {
            for field in ["kind", "apiVersion"] {
                drop(answer.as_object_mut().map(|fields| fields.remove(field)));
            }
        }
        way => converted.iter_mut().for_each(|object| spoil(object, way)),
    }
    if way != "absent" {
        answer["response"]["result"] = result;
        answer["response"]["convertedObjects"] = json!(converted);
    } else {
        drop(answer.as_object_mut().map(|fields| fields.remove("response")));
    }
    Converted::Review(answer)
}

/// The request, as far as it is the same for every server.
fn description(request: &Value, review: &Value) -> String {
    let keys = |value: &Value| {
        let fields = value.as_object().cloned().unwrap_or_default();
        let mut keys: Vec<String> = fields.keys().cloned().collect();
        keys.sort();
        keys.join(" ")
    };
    let first = &request["objects"][0];
    format!(
        "{} asks for {} of {}: {}; {}; {}",
        review.as_str().unwrap_or_default(),
        request["desiredAPIVersion"].as_str().unwrap_or_default(),
        first["apiVersion"].as_str().unwrap_or_default(),
        keys(first),
        keys(&first["metadata"]),
        keys(&first["spec"]),
    )
}

fn good(mut object: Value, wanted: &str) -> Value {
    let from = object["apiVersion"].as_str().unwrap_or_default().to_owned();
    object["apiVersion"] = json!(wanted);
    let (was_first, is_first) = (from.ends_with("/v1"), wanted.ends_with("/v1"));
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
        if was_first && !is_first {
            split(spec);
        } else if is_first && !was_first {
            join(spec);
        }
    }
    let version = wanted.rsplit('/').next().unwrap_or_default();
    let annotation = object.pointer_mut("/metadata/annotations/trail");
    if let Some(trail) = annotation {
        *trail = json!(format!("{} {version}", trail.as_str().unwrap_or_default()).trim());
    }
    object
}

fn split(spec: &mut Map<String, Value>) {
    let Some(both) = spec.remove("hostPort") else { return };
    let both = both.as_str().unwrap_or_default().to_owned();
    let (host, port) = both.split_once(':').unwrap_or((&both, ""));
    spec.insert("host".to_owned(), json!(host));
    spec.insert("port".to_owned(), json!(port));
}

fn join(spec: &mut Map<String, Value>) {
    let mut part = |field: &str| spec.remove(field).and_then(|value| value.as_str().map(str::to_owned));
    if let (Some(host), Some(port)) = (part("host"), part("port")) {
        spec.insert("hostPort".to_owned(), json!(format!("{host}:{port}")));
    }
}

/// Changes of a converted object that a server accepts, drops or refuses.
fn spoil(object: &mut Value, way: &str) {
    let metadata = &mut object["metadata"];
    match way {
        "name" => metadata["name"] = json!("another"),
        "namespace" => metadata["namespace"] = json!("another"),
        "object-uid" => metadata["uid"] = json!("another"),
        "bare" => drop(object.as_object_mut().map(|fields| fields.remove("metadata"))),
        "texts" => object["metadata"] = json!("text"),
        "no-kind" => drop(object.as_object_mut().map(|fields| fields.remove("kind"))),
        "other-kind" => object["kind"] = json!("Other"),
        "same-version" => object["apiVersion"] = json!("converting.example.com/v9"),
        "other-group" => object["apiVersion"] = json!("example.com/v2"),
        "label" => metadata["labels"] = json!({"converted": "yes", TRAIL: "x"}),
        "bad-label" => metadata["labels"] = json!({"converted": "no/t valid"}),
        "bad-annotation" => metadata["annotations"] = json!({"conv erted": "x"}),
        "number-label" => metadata["labels"] = json!({"converted": 1}),
        "list-labels" => metadata["labels"] = json!([1]),
        "null-labels" => metadata["labels"] = Value::Null,
        "metadata" => {
            metadata["finalizers"] = json!(["example.com/hold"]);
            metadata["generation"] = json!(77);
            metadata["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "u"}]);
            metadata["creationTimestamp"] = json!("2001-01-01T00:00:00Z");
            metadata["managedFields"] = Value::Null;
            metadata["resourceVersion"] = json!("1");
        }
        "unknown" => {
            object["unknown"] = json!({"a": 1});
            object["spec"]["unknown"] = json!([1]);
            object["spec"]["host"] = Value::Null;
        }
        "wrong" => object["spec"]["port"] = json!({"not": "text"}),
        _ => {}
    }
}
