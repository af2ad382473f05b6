//! StatefulSets: pods with ordinals and claims of their own, in order. Never deletes claims, and adopts only pods that
//! have no owner and stand under its pods' names.
//! After kubernetes v1.35 `pkg/controller/statefulset`.
//!
//! Unlike upstream, a pod of an old template that does not become ready is replaced by an update instead of holding it
//! up for ever. Old templates are not stored (no ControllerRevisions): below `partition`, pods that are lost come back
//! from the present template.

use std::collections::BTreeMap;
use std::sync::Arc;

use api_meta::Fault;
use base_client::patch_status_if_changed;
use base_controller::{Controller, Next, ObjectKey};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{StatefulSet, StatefulSetSpec, StatefulSetStatus};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, PersistentVolumeClaimVolumeSource, Pod, Volume};
use kube::{Api, ResourceExt};
use tokio_util::sync::CancellationToken;

use crate::Context;
use crate::pods::{
    BURST_MAX, REVISION, Readiness, add_labels, create_pod, delete_pod, from_template, is_finished, is_ready,
    managed_by, template_hash,
};
use crate::seen::{create_seen, pods_of};

pub(crate) async fn run(context: Context, stop: CancellationToken) {
    let (sets, pods, claims) = (
        context.caches.stateful_sets(),
        context.caches.pods(),
        context.caches.claims(),
    );
    if stop
        .run_until_cancelled(async { tokio::join!(pods.ready(), claims.ready()) })
        .await
        .is_none()
    {
        return;
    }
    let all = sets.clone();
    let controller = Controller::new("statefulset", sets)
        .owns(&pods)
        .watches(&claims, move |change| {
            let (namespace, name) = (change.object.namespace().unwrap_or_default(), change.object.name_any());
            all.list_in(&namespace)
                .iter()
                .filter(|set| change.deleted && is_claimed(set, &name))
                .map(|set| ObjectKey::of(&**set))
                .collect()
        });
    controller.run(stop, move |set| reconcile(set, context.clone())).await;
}

async fn reconcile(set: Arc<StatefulSet>, context: Context) -> Result<Next, Fault> {
    if set.metadata.deletion_timestamp.is_some() {
        return Ok(Next::Change);
    }
    let (pods, claims) = (context.caches.pods(), context.caches.claims());
    for step in plan(&set, &pods_of(&context, &*set).await?) {
        match step {
            Step::Create(pod, wanted) => {
                let mut is_going = false;
                for claim in wanted {
                    create_seen(&context.client, &claims, &claim).await?;
                    let there = claims.get(&ObjectKey::of(&claim));
                    is_going |= there.is_some_and(|claim| claim.metadata.deletion_timestamp.is_some());
                }
                // Its end calls again; a pod that named it would keep it from ending.
                if is_going || !create_pod(&context, &*set, &pod).await? {
                    break;
                }
            }
            Step::Delete(pod) => delete_pod(&context, &*set, &pod).await?,
        }
    }
    let (after, next) = report(&set, &managed_by(&pods, &*set), context.clock.now());
    let api: Api<StatefulSet> = Api::namespaced(context.client.clone(), &set.namespace().unwrap_or_default());
    patch_status_if_changed(&api, &*set, &after).await?;
    Ok(next)
}

/// Whether the name is that of a claim of one of the set's pods.
fn is_claimed(set: &StatefulSet, claim: &str) -> bool {
    let templates = set
        .spec
        .iter()
        .flat_map(|spec| spec.volume_claim_templates.iter().flatten());
    templates
        .into_iter()
        .any(|template| claim.starts_with(&format!("{}-{}-", template.name_any(), set.name_any())))
}

#[derive(Debug)]
enum Step {
    /// A pod and the claims it needs, which may exist already.
    Create(Box<Pod>, Vec<PersistentVolumeClaim>),
    Delete(Arc<Pod>),
}

fn revision(set: &StatefulSet, spec: &StatefulSetSpec) -> String {
    format!("{}-{}", set.name_any(), template_hash(&spec.template, 0))
}

fn ordinal(set: &StatefulSet, pod: &Pod) -> Option<i32> {
    let name = pod.name_any();
    let number = name.strip_prefix(&set.name_any())?.strip_prefix('-')?;
    // `x-01` is not the pod of ordinal 1.
    number
        .parse()
        .ok()
        .filter(|ordinal: &i32| ordinal.to_string() == number)
}

fn plan(set: &StatefulSet, pods: &[Arc<Pod>]) -> Vec<Step> {
    let Some(spec) = &set.spec else { return Vec::new() };
    let in_order = spec.pod_management_policy.as_deref() != Some("Parallel");
    let by_ordinal: BTreeMap<i32, &Arc<Pod>> = pods.iter().filter_map(|pod| Some((ordinal(set, pod)?, pod))).collect();
    let first = spec.ordinals.as_ref().and_then(|ordinals| ordinals.start).unwrap_or(0);
    let end = first.saturating_add(spec.replicas.unwrap_or(1).max(0));
    let is_leaving = |pod: &Pod| pod.metadata.deletion_timestamp.is_some();
    let mut steps = Vec::new();
    for ordinal in first..end {
        let is_healthy = match by_ordinal.get(&ordinal) {
            None => {
                steps.push(create(set, spec, ordinal));
                false
            }
            Some(pod) if is_finished(pod) && !is_leaving(pod) => {
                steps.push(Step::Delete((*pod).clone()));
                false
            }
            Some(pod) => is_ready(pod) && !is_leaving(pod),
        };
        if in_order && !is_healthy {
            if steps.is_empty() {
                steps.extend(replace_broken(set, spec, &by_ordinal, ordinal));
            }
            return steps;
        }
        if steps.len() >= BURST_MAX {
            return steps;
        }
    }
    for (_, pod) in by_ordinal
        .iter()
        .rev()
        .filter(|(ordinal, _)| !(first..end).contains(*ordinal))
    {
        if !is_leaving(pod) {
            steps.push(Step::Delete((*pod).clone()));
        }
        // One at a time, the highest first, and the next when it is gone.
        if in_order {
            return steps;
        }
    }
    if steps.is_empty() {
        steps.extend(update(set, spec, &by_ordinal, first..end));
    }
    steps
}

/// The lowest ordinal that an update may replace; none when only users replace pods.
fn partition(spec: &StatefulSetSpec) -> Option<i32> {
    let strategy = spec.update_strategy.clone().unwrap_or_default();
    let is_rolling = strategy.type_.as_deref() != Some("OnDelete");
    is_rolling.then(|| {
        strategy
            .rolling_update
            .and_then(|rolling| rolling.partition)
            .unwrap_or(0)
    })
}

fn is_old(set: &StatefulSet, spec: &StatefulSetSpec, pod: &Pod) -> bool {
    pod.labels().get(REVISION) != Some(&revision(set, spec))
}

/// The pod that holds up all others, if an update would replace it anyway.
fn replace_broken(
    set: &StatefulSet,
    spec: &StatefulSetSpec,
    pods: &BTreeMap<i32, &Arc<Pod>>,
    ordinal: i32,
) -> Option<Step> {
    let pod = pods.get(&ordinal)?;
    let may_go = partition(spec).is_some_and(|partition| ordinal >= partition);
    let is_leaving = pod.metadata.deletion_timestamp.is_some();
    (may_go && !is_leaving && is_old(set, spec, pod)).then(|| Step::Delete((*pod).clone()))
}

/// One step of a rolling update: the highest pod of an old template, when all above it are healthy.
fn update(
    set: &StatefulSet,
    spec: &StatefulSetSpec,
    pods: &BTreeMap<i32, &Arc<Pod>>,
    ordinals: std::ops::Range<i32>,
) -> Option<Step> {
    let partition = partition(spec)?;
    for ordinal in ordinals.rev().take_while(|ordinal| *ordinal >= partition) {
        let pod = pods.get(&ordinal)?;
        if pod.metadata.deletion_timestamp.is_some() {
            return None;
        }
        if is_old(set, spec, pod) {
            return Some(Step::Delete((*pod).clone()));
        }
        if !is_ready(pod) {
            return None;
        }
    }
    None
}

fn create(set: &StatefulSet, spec: &StatefulSetSpec, ordinal: i32) -> Step {
    let name = format!("{}-{ordinal}", set.name_any());
    let mut pod = from_template(&spec.template, set);
    pod.metadata.generate_name = None;
    pod.metadata.name = Some(name.clone());
    add_labels(
        &mut pod.metadata.labels,
        [
            (REVISION, revision(set, spec)),
            ("statefulset.kubernetes.io/pod-name", name.clone()),
            ("apps.kubernetes.io/pod-index", ordinal.to_string()),
        ],
    );
    let claims: Vec<PersistentVolumeClaim> = spec
        .volume_claim_templates
        .iter()
        .flatten()
        .map(|template| claim(set, template, &name))
        .collect();
    let pod_spec = pod.spec.get_or_insert_default();
    pod_spec.hostname = Some(name);
    pod_spec.subdomain = spec.service_name.clone().filter(|name| !name.is_empty());
    let volumes = pod_spec.volumes.get_or_insert_default();
    for (template, claim) in spec.volume_claim_templates.iter().flatten().zip(&claims) {
        volumes.retain(|volume| volume.name != template.name_any());
        volumes.push(Volume {
            name: template.name_any(),
            persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
                claim_name: claim.name_any(),
                read_only: None,
            }),
            ..Volume::default()
        });
    }
    Step::Create(Box::new(pod), claims)
}

fn claim(set: &StatefulSet, template: &PersistentVolumeClaim, pod: &str) -> PersistentVolumeClaim {
    let mut claim = template.clone();
    claim.metadata.name = Some(format!("{}-{pod}", template.name_any()));
    claim.metadata.namespace = set.namespace();
    let selector = set
        .spec
        .as_ref()
        .and_then(|spec| spec.selector.match_labels.clone())
        .unwrap_or_default();
    claim.metadata.labels.get_or_insert_default().extend(selector);
    claim.status = None;
    claim
}

fn report(set: &StatefulSet, pods: &[Arc<Pod>], now: Timestamp) -> (StatefulSet, Next) {
    let spec = set.spec.clone().unwrap_or_default();
    let before = set.status.clone().unwrap_or_default();
    let update = revision(set, &spec);
    let live: Vec<&Arc<Pod>> = pods.iter().filter(|pod| ordinal(set, pod).is_some()).collect();
    let staying = live
        .iter()
        .copied()
        .filter(|pod| pod.metadata.deletion_timestamp.is_none());
    let readiness = Readiness::of(staying, spec.min_ready_seconds.unwrap_or(0), now);
    let count = |number: usize| i32::try_from(number).unwrap_or(i32::MAX);
    let of_revision = |revision: &str| {
        let is_it = |pod: &&&Arc<Pod>| {
            pod.metadata.deletion_timestamp.is_none() && pod.labels().get(REVISION).is_some_and(|it| it == revision)
        };
        count(live.iter().filter(is_it).count())
    };
    let (replicas, updated) = (count(live.len()), of_revision(&update));
    let is_rolled_out = updated == replicas && readiness.ready == replicas && replicas == spec.replicas.unwrap_or(1);
    let current = before
        .current_revision
        .filter(|_| !is_rolled_out)
        .unwrap_or_else(|| update.clone());
    let status = StatefulSetStatus {
        replicas,
        ready_replicas: Some(readiness.ready),
        available_replicas: Some(readiness.available),
        current_replicas: Some(of_revision(&current)),
        updated_replicas: Some(updated),
        current_revision: Some(current),
        update_revision: Some(update),
        collision_count: Some(0),
        observed_generation: set.metadata.generation,
        conditions: before.conditions,
    };
    let next = readiness.next_available.map_or(Next::Change, Next::After);
    (
        StatefulSet {
            status: Some(status),
            ..set.clone()
        },
        next,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn set(replicas: i32, image: &str) -> StatefulSet {
        serde_json::from_value(json!({
            "metadata": {"name": "etcd-main", "namespace": "n", "uid": "u"},
            "spec": {"replicas": replicas, "serviceName": "etcd", "selector": {"matchLabels": {"a": "b"}},
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": image}]}},
                "volumeClaimTemplates": [{"metadata": {"name": "etcd-main"}, "spec": {"accessModes": ["ReadWriteOnce"]}}]},
        }))
        .unwrap()
    }

    /// Plays the plan: created pods come up ready when `works`, deleted ones are gone at once.
    fn settle(set: &StatefulSet, pods: &mut Vec<Arc<Pod>>, works: bool) -> Vec<String> {
        let mut log = Vec::new();
        for _ in 0..50 {
            let steps = plan(set, pods);
            if steps.is_empty() {
                return log;
            }
            for step in steps {
                match step {
                    Step::Create(mut pod, claims) => {
                        assert_eq!(claims[0].name_any(), format!("etcd-main-{}", pod.name_any()));
                        log.push(format!("+{}", pod.name_any()));
                        let ready = if works { "True" } else { "False" };
                        let status = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]});
                        pod.status = Some(serde_json::from_value(status).unwrap());
                        pods.push(Arc::new(*pod));
                    }
                    Step::Delete(gone) => {
                        log.push(format!("-{}", gone.name_any()));
                        pods.retain(|pod| pod.name_any() != gone.name_any());
                    }
                }
            }
            pods.sort_by_key(|pod| pod.name_any());
        }
        panic!("does not settle: {log:?}");
    }

    #[test]
    fn pods_start_in_order_and_are_updated_and_deleted_in_reverse() {
        let mut pods = Vec::new();
        assert_eq!(
            settle(&set(2, "one"), &mut pods, true),
            ["+etcd-main-0", "+etcd-main-1"]
        );
        assert_eq!(pods[0].spec.as_ref().unwrap().hostname.as_deref(), Some("etcd-main-0"));
        let volumes = pods[1].spec.as_ref().unwrap().volumes.clone().unwrap();
        assert_eq!(
            volumes[0].persistent_volume_claim.as_ref().unwrap().claim_name,
            "etcd-main-etcd-main-1"
        );
        let log = settle(&set(2, "two"), &mut pods, true);
        assert_eq!(log, ["-etcd-main-1", "+etcd-main-1", "-etcd-main-0", "+etcd-main-0"]);
        assert_eq!(
            settle(&set(0, "two"), &mut pods, true),
            ["-etcd-main-1", "-etcd-main-0"]
        );
    }

    #[test]
    fn pod_that_never_gets_ready_stops_its_successors_until_an_update_replaces_it() {
        let mut pods = Vec::new();
        assert_eq!(settle(&set(3, "broken"), &mut pods, false), ["+etcd-main-0"]);
        let log = settle(&set(3, "good"), &mut pods, true);
        assert_eq!(log, ["-etcd-main-0", "+etcd-main-0", "+etcd-main-1", "+etcd-main-2"]);
    }

    #[test]
    fn partition_and_on_delete_hold_an_update_back() {
        let mut pods = Vec::new();
        settle(&set(2, "one"), &mut pods, true);
        let with = |strategy: serde_json::Value| {
            let mut set = set(2, "two");
            set.spec.as_mut().unwrap().update_strategy = serde_json::from_value(strategy).unwrap();
            set
        };
        assert!(plan(&with(json!({"type": "OnDelete"})), &pods).is_empty());
        let partition = with(json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}));
        assert_eq!(settle(&partition, &mut pods, true), ["-etcd-main-1", "+etcd-main-1"]);
        let (after, _) = report(&partition, &pods, Timestamp::UNIX_EPOCH);
        let status = after.status.unwrap();
        assert_eq!(
            (status.updated_replicas, status.ready_replicas, status.replicas),
            (Some(1), Some(2), 2)
        );
    }

    #[test]
    fn names_that_only_look_like_ordinals_are_not_its_pods() {
        let set = set(1, "one");
        for (name, expected) in [
            ("etcd-main-1", Some(1)),
            ("etcd-main-01", None),
            ("etcd-main-x", None),
            ("etcd-main", None),
            ("etcd-main--1", Some(-1)),
        ] {
            let pod: Pod = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
            assert_eq!(
                ordinal(&set, &pod).filter(|o| expected.is_some() || *o >= 0),
                expected,
                "{name}"
            );
        }
    }
}
