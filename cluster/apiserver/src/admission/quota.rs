//! ResourceQuota for numbers of objects: a create is counted in the status of every quota of its namespace that limits it, or
//! refused. It never counts down and never counts again: a controller does, and sets what is limited.
//! (kubernetes/kubernetes v1.35 staging/src/k8s.io/apiserver/pkg/admission/plugin/resourcequota, pkg/quota/v1/evaluator/core)

use std::collections::BTreeMap;

use cluster_fields::quantity::Quantity;
use cluster_patch::{UpdateOptions, track_update};
use cluster_schema::Schema;
use cluster_store::{Entry, Object, Page, Range, StoreError};
use serde_json::{Map, Value};

use crate::admission::attributes::{AdmissionAttributes, AdmissionOperation};
use crate::kinds::kind::Call;
use crate::kinds::registry::Role;
use crate::state::context::Context;
use crate::state::pending_write::Write;
use crate::storage::errors::store_status;
use crate::storage::resource_names::QUOTAS;
use crate::wire::status::Status;

/// The field manager of their status.
const MANAGER: &str = "kube-apiserver";
/// How often a status is written again when others write in between.
const TRIES_MAX: usize = 16;
/// Core resources that a quota may limit by their own names too.
const PLAIN: [&str; 7] = [
    "configmaps",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
];

/// Whether a quota may limit this by number.
pub(crate) fn is_counted(name: &str) -> bool {
    name.starts_with("count/") || name.starts_with("services.") || PLAIN.contains(&name)
}

/// Numbers by the names under which quotas limit them.
type Counts = BTreeMap<String, i64>;

impl Write<'_> {
    /// Counts a write that is about to be stored. `old`: what it replaces.
    pub(crate) async fn count_in_quotas(
        &self,
        call: &Call<'_>,
        object: &Value,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        let context = self.context;
        let Some(namespace) = context.namespace().filter(|_| context.server.admission.has_quotas()) else {
            return Ok(());
        };
        let of_events = context.served.plural() == "events";
        let counts_updates = context.served.role == Role::Service;
        if of_events || context.subresource().is_some() || old.is_some() && !counts_updates {
            return Ok(());
        }
        let mut delta = usage(context, object);
        for (name, before) in old.map(|old| usage(context, old)).unwrap_or_default() {
            let left = delta.entry(name).or_default();
            *left = (*left - before).max(0);
        }
        delta.retain(|_, count| *count != 0);
        if delta.is_empty() {
            return Ok(());
        }
        let attributes = AdmissionAttributes::write(context, AdmissionOperation::of(old), call.name, self.dry_run);
        // One at a time, so that writes of this server do not conflict with each other.
        let _held = context.server.admission.quota_lock.lock().await;
        for _ in 0..TRIES_MAX {
            match count_in_all(&attributes, namespace, object, &delta).await {
                Err(StoreError::Conflict { .. } | StoreError::Missing { .. }) => {}
                Err(error) => return Err(store_status(error)),
                Ok(outcome) => return outcome,
            }
        }
        Err(Status::internal(
            "the status of a quota was written too often by others",
        ))
    }
}

/// Under which names an object counts, and how much.
fn usage(context: &Context, object: &Value) -> Counts {
    let (group, plural) = (context.served.group(), context.served.plural());
    let name = crate::wire::status::qualified(group, plural);
    let mut counts = Counts::from([(format!("count/{name}"), 1)]);
    if group.is_empty() && PLAIN.contains(&plural) {
        counts.insert(plural.to_owned(), 1);
    }
    if context.served.role == Role::Service {
        let type_ = object.pointer("/spec/type").and_then(Value::as_str).unwrap_or_default();
        let ports = object.pointer("/spec/ports").and_then(Value::as_array);
        let ports: Vec<&Value> = ports.into_iter().flatten().collect();
        let given = ports.iter().filter(|port| {
            port.get("nodePort")
                .and_then(Value::as_i64)
                .is_some_and(|port| port != 0)
        });
        let off = object.pointer("/spec/allocateLoadBalancerNodePorts") == Some(&Value::Bool(false));
        let node_ports = match type_ {
            "LoadBalancer" if off => given.count(),
            "NodePort" | "LoadBalancer" => ports.len(),
            _ => 0,
        };
        counts.insert(
            "services.nodeports".to_owned(),
            i64::try_from(node_ports).unwrap_or(i64::MAX),
        );
        counts.insert("services.loadbalancers".to_owned(), i64::from(type_ == "LoadBalancer"));
    }
    counts
}

/// Checks all quotas before any is written.
async fn count_in_all(
    attributes: &AdmissionAttributes<'_>,
    namespace: &str,
    object: &Value,
    delta: &Counts,
) -> Result<Result<(), Status>, StoreError> {
    let store = &attributes.context.server.store;
    let listing = store
        .list(&Range::namespaced(QUOTAS, namespace), Page::default())
        .await?;
    let mut changes: Vec<(&Entry, Value, Value)> = Vec::new();
    for entry in &listing.entries {
        let quota = entry.object.value(entry.revision);
        match used_after(attributes, &entry.key.name, &quota, object, delta) {
            Err(refusal) => return Ok(Err(refusal)),
            Ok(Some(used)) => changes.push((entry, quota, used)),
            Ok(None) => {}
        }
    }
    if attributes.dry_run {
        return Ok(Ok(()));
    }
    for (entry, before, used) in changes {
        let mut quota = before.clone();
        quota["status"]["used"] = used;
        note_manager(attributes.context, &before, &mut quota);
        store
            .update(&entry.key, entry.revision, Object::from_value(quota)?)
            .await?;
    }
    Ok(Ok(()))
}

/// What is used of a quota after the write; none if it does not count there.
fn used_after(
    attributes: &AdmissionAttributes<'_>,
    name: &str,
    quota: &Value,
    object: &Value,
    delta: &Counts,
) -> Result<Option<Value>, Status> {
    let limits = |part: &str| {
        let map = quota.get("status").and_then(|status| status.get(part)?.as_object());
        map.cloned().unwrap_or_default()
    };
    let (hard, used) = (limits("hard"), limits("used"));
    let known = usage_names(attributes.context);
    let limited: Vec<&String> = hard.keys().filter(|name| known.contains(name)).collect();
    if limited.is_empty() || !in_scope(attributes.context, quota, object) {
        return Ok(None);
    }
    if limited.iter().any(|name| !used.contains_key(*name)) {
        let names: Vec<&str> = limited.iter().map(|name| name.as_str()).collect();
        let names = names.join(",");
        return Err(attributes.forbidden(&format!("status unknown for quota: {name}, resources: {names}")));
    }
    let mut after = used.clone();
    let (mut requested, mut in_use, mut allowed) = (Vec::new(), Vec::new(), Vec::new());
    for resource in limited {
        let Some(more) = delta.get(resource) else { continue };
        let (now, most) = (number(used.get(resource)), number(hard.get(resource)));
        // A user may have written any number into the status.
        let after_this = i128::from(now) + i128::from(*more);
        if after_this > i128::from(most) {
            requested.push(format!("{resource}={more}"));
            in_use.push(format!("{resource}={now}"));
            allowed.push(format!("{resource}={most}"));
        }
        after.insert(resource.clone(), Value::from(after_this.to_string()));
    }
    if !requested.is_empty() {
        return Err(attributes.forbidden(&format!(
            "exceeded quota: {name}, requested: {}, used: {}, limited: {}",
            requested.join(","),
            in_use.join(","),
            allowed.join(",")
        )));
    }
    Ok((after != used).then_some(Value::Object(after)))
}

/// All names under which objects of this resource may count.
fn usage_names(context: &Context) -> Vec<String> {
    usage(context, &Value::Object(Map::new())).into_keys().collect()
}

/// A quantity as a whole number; 0 for none.
fn number(quantity: Option<&Value>) -> i64 {
    quantity.and_then(Quantity::of).map_or(0, Quantity::value)
}

/// Whether the scopes of a quota, which limit it to some pods, include this object.
fn in_scope(context: &Context, quota: &Value, object: &Value) -> bool {
    let spec = &quota["spec"];
    let scopes = spec.get("scopes").and_then(Value::as_array).into_iter().flatten();
    let selected = spec
        .pointer("/scopeSelector/matchExpressions")
        .and_then(Value::as_array);
    let selected = selected
        .into_iter()
        .flatten()
        .map(|expression| &expression["scopeName"]);
    let mut scopes = scopes.chain(selected).filter_map(Value::as_str);
    let is_pod = context.served.role == Role::Pod;
    let ends = object.pointer("/spec/activeDeadlineSeconds").is_some_and(Value::is_i64);
    let best_effort = || cluster_builtin::qos_class(object.get("spec").unwrap_or(&Value::Null)) == "BestEffort";
    scopes.all(|scope| {
        is_pod
            && match scope {
                "Terminating" => ends,
                "NotTerminating" => !ends,
                "BestEffort" => best_effort(),
                "NotBestEffort" => !best_effort(),
                "PriorityClass" => object.pointer("/spec/priorityClassName").is_some_and(Value::is_string),
                _ => false,
            }
    })
}

fn note_manager(context: &Context, before: &Value, quota: &mut Value) {
    let options = UpdateOptions {
        manager: MANAGER,
        subresource: "status",
        time: context.now,
        api_version: "v1",
    };
    let schema = cluster_builtin::schema("", "v1", "ResourceQuota").unwrap_or_else(Schema::any);
    track_update(Some(before), quota, options, &schema);
}
