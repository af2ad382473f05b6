//! Writing only what is ours: server-side apply under a field manager, or JSON patches that fail when
//! the object has changed since it was read. Raw JSON inside objects is sent byte for byte as it is held.

use std::collections::BTreeMap;
use std::fmt::Debug;

use api_meta::annotations::STATUS_PREFIX;
use api_meta::{Fault, ObjectName};
use http::{HeaderValue, header};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::core::response::StatusDetails;
use kube::{Api, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::fault::{fault_of, is_exists, is_missing};

/// Applies `object` as `manager` by server-side apply and takes over fields that others set: what is in `object`
/// is what we own. Its name must be set. Returns what the server made of it.
pub async fn apply<K>(api: &Api<K>, object: &K, manager: &str) -> Result<K, Fault>
where
    K: Resource<DynamicType = ()> + Clone + Serialize + DeserializeOwned + Debug,
{
    let name = object.name_any();
    let body = typed_body(object)?;
    api.patch(&name, &PatchParams::apply(manager).force(), &Patch::Apply(body))
        .await
        .map_err(|error| fault_about(error, "apply", object))
}

/// Like [`apply`], for the status subresource: only `object`'s status counts.
pub async fn apply_status<K>(api: &Api<K>, object: &K, manager: &str) -> Result<K, Fault>
where
    K: Resource<DynamicType = ()> + Clone + Serialize + DeserializeOwned + Debug,
{
    let name = object.name_any();
    let body = typed_body(object)?;
    api.patch_status(&name, &PatchParams::apply(manager).force(), &Patch::Apply(body))
        .await
        .map_err(|error| fault_about(error, "apply the status of", object))
}

/// Creates `object`, or reads the one that is there already: for what is written once and never changed.
pub async fn create_or_get<K>(api: &Api<K>, object: &K) -> Result<K, Fault>
where
    K: Resource<DynamicType = ()> + Clone + Serialize + DeserializeOwned + Debug,
{
    match api.create(&PostParams::default(), object).await {
        Ok(created) => Ok(created),
        Err(error) if is_exists(&error) => api
            .get(&object.name_any())
            .await
            .map_err(|error| fault_about(error, "read", object)),
        Err(error) => Err(fault_about(error, "create", object)),
    }
}

/// Asks for an object to be deleted; fine when it is gone already. Does not wait.
pub async fn delete<K>(api: &Api<K>, name: &str) -> Result<(), Fault>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    match api.delete(name, &DeleteParams::default()).await {
        Ok(_) => Ok(()),
        Err(error) if is_missing(&error) => Ok(()),
        Err(error) => Err(fault_of(error, &format!("delete {} {name}", K::kind(&())))),
    }
}

/// Writes how the status of `after`, and the annotations that belong to it, differ from those of `before` (the object as it
/// was read), and nothing when they do not. Fails with a transient fault when another writer has changed the object since.
pub async fn patch_status_if_changed<K>(api: &Api<K>, before: &K, after: &K) -> Result<Option<K>, Fault>
where
    K: Resource<DynamicType = ()> + Clone + Serialize + DeserializeOwned + Debug,
{
    patch_field(api, before, after, Part::Status).await
}

/// Writes how everything but the status of `after` differs from `before` (the object as it was read): metadata's
/// labels, annotations, finalizers and owners, and every other field. Nothing when it does not.
pub async fn patch_changed<K>(api: &Api<K>, before: &K, after: &K) -> Result<Option<K>, Fault>
where
    K: Resource<DynamicType = ()> + Clone + Serialize + DeserializeOwned + Debug,
{
    patch_field(api, before, after, Part::Main).await
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Status,
    Main,
}

async fn patch_field<K>(api: &Api<K>, before: &K, after: &K, part: Part) -> Result<Option<K>, Fault>
where
    K: Resource<DynamicType = ()> + Clone + Serialize + DeserializeOwned + Debug,
{
    let operations = match part {
        Part::Status => status_difference(before, after)?,
        Part::Main => main_difference(before, after)?,
    };
    if operations.is_empty() {
        return Ok(None);
    }
    let patched = send_json_patch(api, before, operations, part == Part::Status).await;
    let what = if part == Part::Status {
        "patch the status of"
    } else {
        "patch"
    };
    patched.map(Some).map_err(|error| fault_about(error, what, before))
}

/// Sends JSON patch operations that hold only if the object is still the version `read`. The version is carried
/// as a change of `metadata.resourceVersion` to the version read: the API server answers a stale one with 409,
/// whereas a failed `test` would be a 422, the same as for an invalid object.
pub(crate) async fn send_json_patch<K>(
    api: &Api<K>,
    read: &K,
    mut operations: Vec<Operation>,
    status: bool,
) -> Result<K, kube::Error>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned,
{
    let version = read.resource_version().unwrap_or_default();
    let version =
        RawValue::from_string(serde_json::Value::from(version).to_string()).map_err(kube::Error::SerdeError)?;
    operations.insert(0, Operation::add("/metadata/resourceVersion".to_owned(), version));
    let body = serde_json::to_vec(&operations).map_err(kube::Error::SerdeError)?;
    let request = kube::core::Request::new(api.resource_url());
    let (name, params) = (read.name_any(), PatchParams::default());
    // The typed patch of the client would parse raw JSON; so the request is built with an empty body first.
    let placeholder = Patch::Merge(serde_json::Value::Null);
    let mut request = if status {
        request.patch_subresource("status", &name, &params, &placeholder)
    } else {
        request.patch(&name, &params, &placeholder)
    }
    .map_err(kube::Error::BuildRequest)?;
    *request.body_mut() = body;
    request.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json-patch+json"),
    );
    api.clone()
        .into_client()
        .request(request)
        .await
        .map_err(stale_if_it_did_not_fit)
}

/// Operations that come from comparing with the version read fit that version. The API server applies them before
/// it looks at the version they carry, so a 422 about a path means that the object has changed: a conflict. A 422
/// about the patched object has the object or a cause in its details.
fn stale_if_it_did_not_fit(error: kube::Error) -> kube::Error {
    let has_no_cause = |details: &StatusDetails| details.name.is_empty() && details.causes.is_empty();
    match error {
        kube::Error::Api(mut status) if status.code == 422 && status.details.as_ref().is_none_or(has_no_cause) => {
            status.code = 409;
            status.reason = "Conflict".to_owned();
            kube::Error::Api(status)
        }
        other => other,
    }
}

/// One operation of a JSON patch (RFC 6902) whose value is raw.
#[derive(Debug, Serialize)]
pub(crate) struct Operation {
    op: &'static str,
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<Box<RawValue>>,
}

impl Operation {
    pub(crate) fn add(path: String, value: Box<RawValue>) -> Self {
        Self {
            op: "add",
            path,
            value: Some(value),
        }
    }

    pub(crate) fn remove(path: String) -> Self {
        Self {
            op: "remove",
            path,
            value: None,
        }
    }
}

type Fields = BTreeMap<String, Box<RawValue>>;

fn unserialisable(error: serde_json::Error) -> Fault {
    Fault::new(api_meta::FaultClass::Bug, error).hint("report it: an object of ours cannot be written as JSON")
}

fn fields<T: Serialize>(value: &T) -> Result<Fields, Fault> {
    let text = serde_json::to_string(value).map_err(unserialisable)?;
    serde_json::from_str(&text).map_err(unserialisable)
}

fn members(value: Option<&RawValue>) -> Option<Fields> {
    value.and_then(|raw| serde_json::from_str(raw.get()).ok())
}

/// What turns the member `name` of `before` into that of `after`, looking `depth` levels of objects deep.
fn difference(before: &Fields, after: &Fields, name: &str, depth: usize) -> Vec<Operation> {
    let mut operations = Vec::new();
    compare(
        "",
        name,
        before.get(name).map(Box::as_ref),
        after.get(name).map(Box::as_ref),
        depth,
        &mut operations,
    );
    operations
}

fn compare(
    path: &str,
    name: &str,
    before: Option<&RawValue>,
    after: Option<&RawValue>,
    depth: usize,
    operations: &mut Vec<Operation>,
) {
    let path = format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"));
    match (before, after) {
        (None, None) => {}
        (Some(before), Some(after)) if before.get() == after.get() => {}
        (Some(_), None) => operations.push(Operation::remove(path)),
        (None, Some(after)) => operations.push(Operation::add(path, after.to_owned())),
        (Some(old), Some(new)) => match (depth, members(Some(old)), members(Some(new))) {
            (1.., Some(old), Some(new)) => {
                let names: std::collections::BTreeSet<&String> = old.keys().chain(new.keys()).collect();
                for name in names {
                    let (old, new) = (old.get(name).map(Box::as_ref), new.get(name).map(Box::as_ref));
                    compare(&path, name, old, new, depth - 1, operations);
                }
            }
            _ => operations.push(Operation::add(path, new.to_owned())),
        },
    }
}

fn status_difference<K: Resource + Serialize>(before: &K, after: &K) -> Result<Vec<Operation>, Fault> {
    let mut operations = difference(&fields(before)?, &fields(after)?, "status", 1);
    let of_status = |object: &K| -> BTreeMap<String, String> {
        let mut annotations = object.annotations().clone();
        annotations.retain(|name, _| name.starts_with(STATUS_PREFIX));
        annotations
    };
    let (old, new) = (of_status(before), of_status(after));
    if old == new {
        return Ok(operations);
    }
    // A JSON patch cannot add a member to annotations that are absent.
    let depth = usize::from(!before.annotations().is_empty());
    let raw =
        |annotations: &BTreeMap<String, String>| serde_json::value::to_raw_value(annotations).map_err(unserialisable);
    let (old, new) = (raw(&old)?, raw(&new)?);
    let old = (depth > 0).then_some(&*old);
    compare("/metadata", "annotations", old, Some(&new), depth, &mut operations);
    Ok(operations)
}

/// Members of metadata that the server alone writes.
const SERVERS_METADATA: [&str; 6] = [
    "managedFields",
    "resourceVersion",
    "generation",
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
];

fn main_difference<K: Serialize>(before: &K, after: &K) -> Result<Vec<Operation>, Fault> {
    let (before, after) = (fields(before)?, fields(after)?);
    let names: std::collections::BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let mut operations = Vec::new();
    for name in names {
        if matches!(name.as_str(), "apiVersion" | "kind" | "status") {
            continue;
        }
        // Labels and annotations are compared key by key, so that another writer's keys stay untouched.
        let depth = if name == "metadata" { 2 } else { 1 };
        operations.extend(difference(&before, &after, name, depth));
    }
    operations.retain(|operation| {
        let member = operation.path.strip_prefix("/metadata/").unwrap_or_default();
        !SERVERS_METADATA.contains(&member)
    });
    Ok(operations)
}

/// The object as JSON with `apiVersion` and `kind` (types without them are completed) and without managed
/// fields, which server-side apply refuses.
fn typed_body<K>(object: &K) -> Result<Box<RawValue>, Fault>
where
    K: Resource<DynamicType = ()> + Clone + Serialize,
{
    let mut object = object.clone();
    object.meta_mut().managed_fields = None;
    let mut body = fields(&object)?;
    let text = |text: &str| RawValue::from_string(serde_json::Value::from(text).to_string());
    body.insert(
        "apiVersion".to_owned(),
        text(&K::api_version(&())).map_err(unserialisable)?,
    );
    body.insert("kind".to_owned(), text(&K::kind(&())).map_err(unserialisable)?);
    let body = serde_json::to_string(&body).map_err(unserialisable)?;
    RawValue::from_string(body).map_err(unserialisable)
}

/// The fault of a failed call that does `verb` with `object`.
pub(crate) fn fault_about<K: Resource<DynamicType = ()>>(error: kube::Error, verb: &str, object: &K) -> Fault {
    let metadata = object.meta();
    let (namespace, name) = (metadata.namespace.as_deref(), metadata.name.clone().unwrap_or_default());
    fault_of(error, &doing(verb, object)).about(ObjectName::new(K::kind(&()), namespace, name))
}

/// "apply Secret shoot--a--b/ca", for error texts.
pub(crate) fn doing<K: Resource<DynamicType = ()>>(verb: &str, object: &K) -> String {
    let name = object.meta().name.as_deref().unwrap_or("without a name");
    match &object.meta().namespace {
        Some(namespace) => format!("{verb} {} {namespace}/{name}", K::kind(&())),
        None => format!("{verb} {} {name}", K::kind(&())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(json: &str) -> Fields {
        serde_json::from_str(json).unwrap()
    }

    fn diff(before: &str, after: &str) -> String {
        serde_json::to_string(&difference(&fields(before), &fields(after), "status", 1)).unwrap()
    }

    #[test]
    fn a_patch_of_a_missing_path_conflicts_but_an_invalid_result_does_not() {
        let code = |details: &str| {
            let status = format!(r#"{{"status":"Failure","code":422,"reason":"Invalid","message":"m"{details}}}"#);
            let status: kube::core::Status = serde_json::from_str(&status).unwrap();
            match stale_if_it_did_not_fit(kube::Error::Api(Box::new(status))) {
                kube::Error::Api(status) => status.code,
                other => panic!("{other}"),
            }
        };
        assert_eq!(code(""), 409);
        assert_eq!(code(r#","details":{}"#), 409);
        assert_eq!(code(r#","details":{"name":"a","kind":"Thing"}"#), 422);
        let unreadable = r#"{"reason":"FieldValueInvalid","message":"m","field":"patch"}"#;
        assert_eq!(code(&format!(r#","details":{{"causes":[{unreadable}]}}"#)), 422);
    }

    #[test]
    fn status_changes_are_sent_member_by_member_with_raw_bytes_unchanged() {
        assert_eq!(
            diff(
                r#"{"status":{"a":1,"conditions":[1],"gone":true}}"#,
                r#"{"status":{"a":1,"conditions":[1, 2],"big":{"n":12345678901234567890123}}}"#
            ),
            r#"[{"op":"add","path":"/status/big","value":{"n":12345678901234567890123}},{"op":"add","path":"/status/conditions","value":[1, 2]},{"op":"remove","path":"/status/gone"}]"#
        );
    }

    #[test]
    fn an_equal_status_is_not_sent_and_a_first_one_is_sent_whole() {
        assert_eq!(diff(r#"{"status":{"a":1}}"#, r#"{"status":{"a":1}}"#), "[]");
        assert_eq!(
            diff("{}", r#"{"status":{"a":1}}"#),
            r#"[{"op":"add","path":"/status","value":{"a":1}}]"#
        );
        assert_eq!(
            diff(r#"{"status":{"a":1}}"#, "{}"),
            r#"[{"op":"remove","path":"/status"}]"#
        );
    }

    #[test]
    fn annotations_that_belong_to_the_status_are_sent_with_it_and_no_others() {
        use k8s_openapi::api::core::v1::ConfigMap;
        let object = |annotations: &[(&str, &str)]| -> ConfigMap {
            let annotations: BTreeMap<&str, &str> = annotations.iter().copied().collect();
            serde_json::from_value(serde_json::json!({"metadata": {"annotations": annotations}})).unwrap()
        };
        let sent = |before: &[(&str, &str)], after: &[(&str, &str)]| {
            let operations = status_difference(&object(before), &object(after)).unwrap();
            serde_json::to_string(&operations).unwrap()
        };
        let (own, other) = (("status.orangery.dev/a", "1"), ("other", "x"));
        let changed = ("status.orangery.dev/a", "2");
        assert_eq!(sent(&[own, other], &[own]), "[]");
        assert_eq!(
            sent(&[], &[own, other]),
            r#"[{"op":"add","path":"/metadata/annotations","value":{"status.orangery.dev/a":"1"}}]"#
        );
        assert_eq!(
            sent(&[other], &[own, other]),
            r#"[{"op":"add","path":"/metadata/annotations/status.orangery.dev~1a","value":"1"}]"#
        );
        assert_eq!(
            sent(&[own], &[changed]),
            r#"[{"op":"add","path":"/metadata/annotations/status.orangery.dev~1a","value":"2"}]"#
        );
        assert_eq!(
            sent(&[own, other], &[other]),
            r#"[{"op":"remove","path":"/metadata/annotations/status.orangery.dev~1a"}]"#
        );
    }

    #[test]
    fn metadata_is_compared_key_by_key_and_the_servers_part_left_alone() {
        let before = serde_json::json!({"kind": "X", "metadata": {"resourceVersion": "1", "annotations": {"a/b": "1", "c": "2"}}});
        let after =
            serde_json::json!({"metadata": {"annotations": {"c": "3"}, "labels": {"x": "y"}}, "status": {"z": 1}});
        assert_eq!(
            serde_json::to_string(&main_difference(&before, &after).unwrap()).unwrap(),
            r#"[{"op":"remove","path":"/metadata/annotations/a~1b"},{"op":"add","path":"/metadata/annotations/c","value":"3"},{"op":"add","path":"/metadata/labels","value":{"x":"y"}}]"#
        );
    }
}
