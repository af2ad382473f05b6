//! Which ReplicaSets there should be and how large. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec, ReplicaSet, ReplicaSetSpec};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt;

use super::{REVISION, Seen};
use crate::pods::{owner_reference, template_hash};

/// The label that distinguishes the pods of one template from those of another.
const TEMPLATE_HASH: &str = "pod-template-hash";
/// What the Deployment requested when the set was scaled last, for kubectl and for proportional scaling.
const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
/// How many pods there may be during the rollout.
const MAX: &str = "deployment.kubernetes.io/max-replicas";
/// kubectl's memory, which belongs to the Deployment alone.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Old sets retained for a rollback unless the Deployment says otherwise.
const HISTORY: i32 = 10;

/// What to write.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) create: Option<ReplicaSet>,
    pub(crate) change: Vec<(Arc<ReplicaSet>, ReplicaSet)>,
    pub(crate) delete: Vec<String>,
    /// The Deployment's revision.
    pub(crate) revision: Option<String>,
    /// A set of the name that this template hashes to was made from another template.
    pub(crate) collision: bool,
}

/// How many pods more and fewer than requested there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) surge: i32,
    pub(crate) unavailable: i32,
}

impl Bounds {
    pub(crate) fn of(spec: &DeploymentSpec) -> Bounds {
        if is_recreate(spec) {
            return Bounds {
                surge: 0,
                unavailable: 0,
            };
        }
        let rolling = spec
            .strategy
            .as_ref()
            .and_then(|strategy| strategy.rolling_update.clone())
            .unwrap_or_default();
        let replicas = spec.replicas.unwrap_or(1);
        let quarter = IntOrString::String("25%".to_owned());
        let surge = share(rolling.max_surge.as_ref().unwrap_or(&quarter), replicas, true);
        let unavailable = share(rolling.max_unavailable.as_ref().unwrap_or(&quarter), replicas, false);
        // Both zero would mean that nothing may ever change.
        let unavailable = if surge == 0 && unavailable == 0 { 1 } else { unavailable };
        Bounds {
            surge,
            unavailable: unavailable.min(replicas.max(1)),
        }
    }
}

/// A number, or a percentage of `total`.
pub(crate) fn share(value: &IntOrString, total: i32, round_up: bool) -> i32 {
    match value {
        IntOrString::Int(number) => (*number).max(0),
        IntOrString::String(text) => {
            let percent: i64 = text.trim_end_matches('%').parse().unwrap_or(0).max(0);
            let scaled = percent.saturating_mul(i64::from(total));
            i32::try_from(if round_up {
                scaled.saturating_add(99) / 100
            } else {
                scaled / 100
            })
            .unwrap_or(i32::MAX)
        }
    }
}

pub(crate) fn is_recreate(spec: &DeploymentSpec) -> bool {
    spec.strategy.as_ref().and_then(|strategy| strategy.type_.as_deref()) == Some("Recreate")
}

/// Whether the set was made from the Deployment's present template.
pub(crate) fn is_made_from(set: &ReplicaSet, deployment: &Deployment) -> bool {
    let Some(mut template) = set.spec.as_ref().and_then(|spec| spec.template.clone()) else {
        return false;
    };
    if let Some(labels) = template.metadata.as_mut().and_then(|meta| meta.labels.as_mut()) {
        labels.remove(TEMPLATE_HASH);
    }
    let meta_of = |template: &PodTemplateSpec| template.metadata.clone().unwrap_or_default();
    deployment.spec.as_ref().is_some_and(|spec| {
        let (mut ours, mut theirs) = (meta_of(&spec.template), meta_of(&template));
        for meta in [&mut ours, &mut theirs] {
            meta.creation_timestamp = None;
            meta.labels = meta.labels.take().filter(|labels| !labels.is_empty());
        }
        ours == theirs && spec.template.spec == template.spec
    })
}

fn revision_of(set: &ReplicaSet) -> i64 {
    set.annotations()
        .get(REVISION)
        .and_then(|revision| revision.parse().ok())
        .unwrap_or(0)
}

/// How many pods the set requests.
pub(crate) fn size(set: &ReplicaSet) -> i32 {
    set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(0)
}

fn available(set: &ReplicaSet) -> i32 {
    set.status
        .as_ref()
        .and_then(|status| status.available_replicas)
        .unwrap_or(0)
}

/// What to write next. Once everything stands as it should, nothing.
pub(crate) fn plan(seen: &Seen) -> Plan {
    let Some(spec) = &seen.deployment.spec else {
        return Plan::default();
    };
    let newest = seen.newest().cloned();
    let is_newest = |set: &Arc<ReplicaSet>| {
        newest
            .as_ref()
            .is_some_and(|newest| newest.name_any() == set.name_any())
    };
    let old: Vec<Arc<ReplicaSet>> = seen.sets.iter().filter(|set| !is_newest(set)).cloned().collect();
    let revision = old.iter().map(|set| revision_of(set)).max().unwrap_or(0) + 1;
    if spec.paused == Some(true) {
        return plan_paused(seen, spec);
    }
    let mut sizes: BTreeMap<String, i32> = seen.sets.iter().map(|set| (set.name_any(), size(set))).collect();
    let mut plan = Plan::default();
    match &newest {
        None => {
            let replicas = if is_recreate(spec) && (seen.old_pods_run || old.iter().any(|set| size(set) > 0)) {
                None
            } else {
                Some(size_of_newest(spec, 0, old.iter().map(|set| size(set)).sum()))
            };
            if let Some(replicas) = replicas {
                let set = new_set(&seen.deployment, spec, replicas, revision);
                plan.collision = seen.sets.iter().any(|other| other.name_any() == set.name_any());
                plan.create = Some(set).filter(|_| !plan.collision);
                plan.revision = Some(revision.to_string());
            }
            if is_recreate(spec) {
                sizes.extend(old.iter().map(|set| (set.name_any(), 0)));
            }
        }
        Some(newest) => {
            let wanted = revision.max(revision_of(newest));
            plan.revision = Some(wanted.to_string());
            if is_recreate(spec) {
                sizes.extend(old.iter().map(|set| (set.name_any(), 0)));
                if !seen.old_pods_run {
                    sizes.insert(newest.name_any(), spec.replicas.unwrap_or(1));
                }
            } else {
                roll(spec, newest, &old, &mut sizes);
            }
        }
    }
    for set in &seen.sets {
        let revision = if is_newest(set) { plan.revision.clone() } else { None };
        let replicas = sizes.get(&set.name_any()).copied().unwrap_or_else(|| size(set));
        let after = resized(set, &seen.deployment, spec, replicas, revision, is_newest(set));
        if after != **set {
            plan.change.push((set.clone(), after));
        }
    }
    if newest
        .as_ref()
        .is_some_and(|newest| available(newest) >= spec.replicas.unwrap_or(1))
    {
        plan.delete = obsolete(spec, old);
    }
    plan
}

/// A paused Deployment is only scaled, and only where that means one thing.
fn plan_paused(seen: &Seen, spec: &DeploymentSpec) -> Plan {
    let active: Vec<&Arc<ReplicaSet>> = seen.sets.iter().filter(|set| size(set) > 0).collect();
    let target = match active.as_slice() {
        [only] => Some(*only),
        [] => seen.newest(),
        _ => None,
    };
    let change = target.filter(|set| size(set) != spec.replicas.unwrap_or(1)).map(|set| {
        (
            set.clone(),
            resized(set, &seen.deployment, spec, spec.replicas.unwrap_or(1), None, false),
        )
    });
    Plan {
        change: change.into_iter().collect(),
        ..Plan::default()
    }
}

/// How large the newest set may be beside `others` pods of old ones.
fn size_of_newest(spec: &DeploymentSpec, now: i32, others: i32) -> i32 {
    let replicas = spec.replicas.unwrap_or(1);
    if is_recreate(spec) {
        return replicas;
    }
    let room = (replicas.saturating_add(Bounds::of(spec).surge) - now.saturating_add(others)).max(0);
    now + room.min((replicas - now).max(0))
}

/// One step of a rolling update: grow the newest within the surge, or shrink old ones within what may be unavailable.
fn roll(spec: &DeploymentSpec, newest: &Arc<ReplicaSet>, old: &[Arc<ReplicaSet>], sizes: &mut BTreeMap<String, i32>) {
    let replicas = spec.replicas.unwrap_or(1);
    let others: i32 = old.iter().map(|set| size(set)).sum();
    let now = size(newest);
    if now > replicas {
        sizes.insert(newest.name_any(), replicas);
    } else {
        let grown = size_of_newest(spec, now, others);
        sizes.insert(newest.name_any(), grown);
        if grown > now {
            // Old ones shrink when the new pods have come up.
            return;
        }
    }
    let newest_size = sizes[&newest.name_any()];
    let available_min = replicas - Bounds::of(spec).unavailable;
    let unavailable = (newest_size - available(newest)).max(0);
    let mut room = others + newest_size - available_min - unavailable;
    if room <= 0 {
        return;
    }
    // Pods that do not work serve no requests: they go first.
    for set in old {
        let broken = (size(set) - available(set)).clamp(0, room);
        sizes.insert(set.name_any(), size(set) - broken);
        room -= broken;
    }
    // A status may lag behind a set that was just made smaller.
    let serving = |set: &Arc<ReplicaSet>| available(set).min(sizes[&set.name_any()]);
    let total = old.iter().map(serving).sum::<i32>() + serving(newest);
    let mut room = total - available_min;
    for set in old {
        let left = sizes[&set.name_any()];
        let fewer = left.min(room.max(0));
        sizes.insert(set.name_any(), left - fewer);
        room -= fewer;
    }
}

fn new_set(deployment: &Deployment, spec: &DeploymentSpec, replicas: i32, revision: i64) -> ReplicaSet {
    let collisions = deployment
        .status
        .as_ref()
        .and_then(|status| status.collision_count)
        .unwrap_or(0);
    let hash = template_hash(&spec.template, collisions);
    let mut template = spec.template.clone();
    let labels = template.metadata.get_or_insert_default().labels.get_or_insert_default();
    labels.insert(TEMPLATE_HASH.to_owned(), hash.clone());
    let labels = labels.clone();
    let mut selector = spec.selector.clone();
    selector
        .match_labels
        .get_or_insert_default()
        .insert(TEMPLATE_HASH.to_owned(), hash.clone());
    let set = ReplicaSet {
        metadata: ObjectMeta {
            name: Some(format!("{}-{hash}", deployment.name_any())),
            namespace: deployment.namespace(),
            labels: Some(labels),
            owner_references: Some(vec![owner_reference(deployment)]),
            ..ObjectMeta::default()
        },
        spec: Some(ReplicaSetSpec {
            min_ready_seconds: spec.min_ready_seconds,
            replicas: Some(replicas),
            selector,
            template: Some(template),
        }),
        status: None,
    };
    resized(&set, deployment, spec, replicas, Some(revision.to_string()), true)
}

/// The set with another size, and what it inherits from the Deployment.
fn resized(
    set: &ReplicaSet,
    deployment: &Deployment,
    spec: &DeploymentSpec,
    replicas: i32,
    revision: Option<String>,
    is_newest: bool,
) -> ReplicaSet {
    let mut after = set.clone();
    if let Some(set) = after.spec.as_mut() {
        set.replicas = Some(replicas);
        if is_newest {
            set.min_ready_seconds = spec.min_ready_seconds;
        }
    }
    let annotations = after.annotations_mut();
    if is_newest {
        let inherited = deployment
            .annotations()
            .iter()
            .filter(|(key, _)| *key != REVISION && *key != LAST_APPLIED);
        annotations.extend(inherited.map(|(key, value)| (key.clone(), value.clone())));
    }
    let wanted = spec.replicas.unwrap_or(1);
    annotations.insert(DESIRED.to_owned(), wanted.to_string());
    annotations.insert(
        MAX.to_owned(),
        wanted.saturating_add(Bounds::of(spec).surge).to_string(),
    );
    if let Some(revision) = revision {
        annotations.insert(REVISION.to_owned(), revision);
    }
    after
}

/// Old empty sets beyond the history that is retained, oldest revision first.
fn obsolete(spec: &DeploymentSpec, mut old: Vec<Arc<ReplicaSet>>) -> Vec<String> {
    old.retain(|set| {
        let observed = set
            .status
            .as_ref()
            .is_some_and(|status| status.replicas == 0 && status.observed_generation >= set.metadata.generation);
        size(set) == 0 && observed && set.metadata.deletion_timestamp.is_none()
    });
    old.sort_by_key(|set| revision_of(set));
    let retained = usize::try_from(spec.revision_history_limit.unwrap_or(HISTORY)).unwrap_or(0);
    old.truncate(old.len().saturating_sub(retained));
    old.iter().map(|set| set.name_any()).collect()
}

#[cfg(test)]
#[path = "rollout_tests.rs"]
mod tests;
