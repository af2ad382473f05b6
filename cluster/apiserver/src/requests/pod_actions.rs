//! `pods/binding` and `pods/eviction`. Running pods is the node's work.

use http::StatusCode;
use kube::client::Body;
use serde_json::{Value, json};

use crate::admission::subresource_body;
use crate::kinds::metadata;
use crate::requests::delete::{self, DeleteOptions};
use crate::requests::path_match::check_namespace;
use crate::requests::write::Refusal;
use crate::state::context::Context;
use crate::state::pending_write::Write;
use crate::wire::answer::{Answer, led_by_warnings};
use crate::wire::decode::{decode, encoding, read_body};
use crate::wire::selector::LabelSelector;
use crate::wire::status::Status;

/// How often a binding is tried again when others write in between.
const TRIES_MAX: usize = 16;

/// `pods/binding`: sets the node, once.
pub(crate) async fn bind(context: &Context, body: Body) -> Result<Answer, Status> {
    let mut binding = decode(&read_body(body).await?, encoding(&context.headers)?)?.value;
    check_named(context, &binding, "Binding")?;
    let kind = ("", "v1", "Binding");
    let warnings = subresource_body::review_body(context, kind, &mut binding, context.query.dry_run()).await?;
    led_by_warnings(set_node(context, &binding).await, warnings)
}

async fn set_node(context: &Context, binding: &Value) -> Result<Answer, Status> {
    let node = binding
        .pointer("/target/name")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let kind = binding
        .pointer("/target/kind")
        .and_then(Value::as_str)
        .unwrap_or("Node");
    if node.is_empty() || !matches!(kind, "" | "Node") {
        let error = cluster_fields::FieldError::required("target.name", "");
        return Err(Status::invalid("", "Binding", context.name(), &[error]));
    }
    let name = context.name();
    for _ in 0..TRIES_MAX {
        let live = context.current(name).await?;
        let mut pod = live.object.value(live.revision);
        let refuse = |why: &str| Err(Status::conflict("", "pods/binding", name, why));
        let uid = metadata::text(binding, "uid");
        if !uid.is_empty() && uid != live.object.meta().uid {
            return refuse(&format!(
                "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
                live.object.meta().uid
            ));
        }
        if metadata::is_deleting(&pod) {
            return refuse(&format!("pod {name} is being deleted, cannot be assigned to a host"));
        }
        let bound = pod
            .pointer("/spec/nodeName")
            .and_then(Value::as_str)
            .unwrap_or_default();
        if !bound.is_empty() {
            return refuse(&format!("pod {name} is already assigned to node {bound:?}"));
        }
        assign(&mut pod, node, binding, context);
        let mut write = Write::new(context);
        // The node of a pod has no owner, as upstream.
        write.manager = None;
        match write.replace(&live, pod).await {
            Ok(_) => {
                let done =
                    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
                return Ok(Answer::value(StatusCode::CREATED, &done).warn(write.warnings));
            }
            Err(Refusal::Stale | Refusal::Overtaken) => {}
            Err(Refusal::Status(status)) => return Err(status),
        }
    }
    Err(context.modified(name))
}

fn assign(pod: &mut Value, node: &str, binding: &Value, context: &Context) {
    let annotations = binding
        .pointer("/metadata/annotations")
        .and_then(Value::as_object)
        .cloned();
    let Some(fields) = pod.as_object_mut() else { return };
    if let Some(spec) = fields.get_mut("spec").and_then(Value::as_object_mut) {
        spec.insert("nodeName".to_owned(), Value::from(node));
    }
    if let (Some(annotations), Some(metadata)) =
        (annotations, fields.get_mut("metadata").and_then(Value::as_object_mut))
    {
        let own = metadata.entry("annotations").or_insert_with(|| json!({}));
        if let Some(own) = own.as_object_mut() {
            own.extend(annotations);
        }
    }
    let status = fields.entry("status").or_insert_with(|| json!({}));
    let Some(status) = status.as_object_mut() else { return };
    let scheduled = json!({
        "type": "PodScheduled", "status": "True", "lastProbeTime": null,
        "lastTransitionTime": metadata::timestamp(context.now),
    });
    let conditions = status.entry("conditions").or_insert_with(|| json!([]));
    if let Some(conditions) = conditions.as_array_mut() {
        conditions.retain(|condition| condition.get("type") != Some(&json!("PodScheduled")));
        conditions.push(scheduled);
    }
}

/// The pod that a body names has to be that of the path. (kubernetes/kubernetes v1.35 pkg/registry/core/pod/storage)
fn check_named(context: &Context, body: &Value, kind: &str) -> Result<(), Status> {
    check_namespace(context, body)?;
    match metadata::text(body, "name") == context.name() {
        true => Ok(()),
        false => Err(Status::bad_request(format!(
            "name in URL does not match name in {kind} object"
        ))),
    }
}

fn check_eviction(context: &Context, eviction: &Value) -> Result<(), Status> {
    let kind = eviction.get("kind").and_then(Value::as_str).unwrap_or("Eviction");
    if !eviction.is_object() || kind != "Eviction" {
        return Err(Status::bad_request(format!("the body is a {kind} and no Eviction")));
    }
    check_named(context, eviction, "Eviction")
}

/// `pods/eviction`: a deletion. Disruption budgets are not evaluated: if one selects the pod, 501.
pub(crate) async fn evict(context: &Context, body: Body) -> Result<Answer, Status> {
    let mut eviction = decode(&read_body(body).await?, encoding(&context.headers)?)?.value;
    check_eviction(context, &eviction)?;
    let kind = ("policy", "v1", "Eviction");
    let warnings = subresource_body::review_body(context, kind, &mut eviction, context.query.dry_run()).await?;
    led_by_warnings(remove(context, &eviction).await, warnings)
}

async fn remove(context: &Context, eviction: &Value) -> Result<Answer, Status> {
    let pod = context.current(context.name()).await?;
    let budgets =
        cluster_store::Range::namespaced("policy/poddisruptionbudgets", context.namespace().unwrap_or_default());
    let budgets = context
        .server
        .store
        .list(&budgets, cluster_store::Page::default())
        .await;
    let budgets = budgets.map_err(crate::storage::errors::store_status)?;
    let labels = &pod.object.meta().labels;
    let selects = |budget: &Value| {
        let selector = budget.pointer("/spec/selector").filter(|selector| !selector.is_null());
        selector.is_some_and(|selector| LabelSelector::of(selector).is_none_or(|it| it.matches(labels)))
    };
    if budgets
        .entries
        .iter()
        .any(|entry| selects(&entry.object.value(entry.revision)))
    {
        return Err(Status::not_implemented("eviction of a pod with a disruption budget"));
    }
    let options = eviction
        .get("deleteOptions")
        .filter(|options| !options.is_null())
        .cloned();
    let options = options.unwrap_or_else(|| json!({}));
    let mut options: DeleteOptions =
        serde_json::from_value(options).map_err(|error| Status::bad_request(format!("deleteOptions: {error}")))?;
    if context.query.dry_run() {
        options.dry_run = Some(vec!["All".to_owned()]);
    }
    options.check()?;
    let (_, warnings) = delete::remove(context, context.name(), &options).await?;
    let done = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    Ok(Answer::value(StatusCode::CREATED, &done).warn(warnings))
}
