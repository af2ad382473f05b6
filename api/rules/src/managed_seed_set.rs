//! Defaults and rules of ManagedSeedSets (gardener/gardener v1.150 pkg/apis/seedmanagement/v1alpha1/defaults_managedseedset.go,
//! pkg/api/seedmanagement/validation/managedseedset.go).

use std::collections::BTreeMap;

use api_core::seedmanagement::{
    ManagedSeedSet, ManagedSeedSetSpec, ManagedSeedSetStatus, ManagedShootTemplate, PendingReplica,
};
use api_core::v1beta1::Shoot;
use api_meta::names::GARDEN_NAMESPACE;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};

use crate::checks::{added, known, name};
use crate::dual_approval::selects;
use crate::gardenlet::{default_deployment, managed_seed_change, validate_managed_gardenlet};
use crate::gardenlet_config::seed_labels;
use crate::registration::validate_selector;
use crate::shoot::validate_shoot;
use crate::shoot_defaults::{ShootDefaults, default_shoot};
use crate::shoot_update::validate_shoot_update;
use crate::{FieldError, Path};

const ROLLING_UPDATE: &str = "RollingUpdate";
const REPLICAS_DEFAULT: i32 = 1;
const HISTORY_DEFAULT: i32 = 10;
/// Names of Shoots of a template, which the controller sets.
const NAME: &str = "shoot";
const REASONS: [&str; 8] = [
    "ManagedSeedDeleting",
    "ManagedSeedPreparing",
    "SeedNotReady",
    "ShootDeleteFailed",
    "ShootDeleting",
    "ShootNotHealthy",
    "ShootReconcileFailed",
    "ShootReconciling",
];

/// Writes today's defaults into a set.
pub fn default_managed_seed_set(set: &mut ManagedSeedSet) {
    let spec = &mut set.spec;
    spec.replicas.get_or_insert(REPLICAS_DEFAULT);
    spec.revision_history_limit.get_or_insert(HISTORY_DEFAULT);
    let strategy = spec.update_strategy.get_or_insert_default();
    strategy.type_.get_or_insert_with(|| ROLLING_UPDATE.to_owned());
    if let Some(rolling) = &mut strategy.rolling_update {
        rolling.partition.get_or_insert(0);
    }
    if let Some(deployment) = &mut spec.template.spec.gardenlet.deployment {
        default_deployment(deployment);
    }
}

/// Everything that is wrong with a set by itself.
pub fn validate_managed_seed_set(set: &ManagedSeedSet) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let namespace = set.metadata.namespace.as_deref().unwrap_or_default();
    if namespace != GARDEN_NAMESPACE {
        errors.push(
            Path::new("metadata.namespace")
                .invalid(namespace, format!("must be {GARDEN_NAMESPACE:?}; create it there")),
        );
    }
    if name(&set.metadata).contains("--") {
        let words = "must not contain two consecutive hyphens; take another name";
        errors.push(Path::new("metadata.name").invalid(name(&set.metadata), words));
    }
    let (spec, path) = (&set.spec, Path::new("spec"));
    not_negative(&mut errors, &path.child("replicas"), spec.replicas);
    not_negative(
        &mut errors,
        &path.child("revisionHistoryLimit"),
        spec.revision_history_limit,
    );
    let selector = path.child("selector");
    if is_empty(&spec.selector) {
        errors.push(selector.invalid(
            &spec.selector,
            "must select by at least one label of both templates; set matchLabels",
        ));
    } else {
        validate_selector(&mut errors, &selector, &spec.selector);
    }
    validate_template(&mut errors, &path.child("template"), spec);
    validate_shoot_template(&mut errors, &path.child("shootTemplate"), spec);
    if let Some(strategy) = &spec.update_strategy {
        let path = path.child("updateStrategy");
        match strategy.type_.as_deref() {
            None => {}
            Some("") => errors.push(path.child("type").required(format!("set it to {ROLLING_UPDATE:?}"))),
            Some(ROLLING_UPDATE) => {
                let partition = strategy.rolling_update.as_ref().and_then(|rolling| rolling.partition);
                not_negative(&mut errors, &path.child("rollingUpdate.partition"), partition);
            }
            Some(other) => errors.push(path.child("type").not_supported(other, &[ROLLING_UPDATE])),
        }
    }
    errors
}

/// Everything that is wrong with a change of a set.
pub fn validate_managed_seed_set_update(new: &ManagedSeedSet, old: &ManagedSeedSet) -> Vec<FieldError> {
    let path = Path::new("spec");
    let (now, before) = (&new.spec, &old.spec);
    let mut errors: Vec<FieldError> = [
        path.child("selector").immutable(&now.selector, &before.selector),
        path.child("revisionHistoryLimit")
            .immutable(&now.revision_history_limit, &before.revision_history_limit),
    ]
    .into_iter()
    .flatten()
    .collect();
    let template = path.child("template.spec");
    errors.extend(managed_seed_change(
        &template,
        &now.template.spec,
        &before.template.spec,
    ));
    let path = path.child("shootTemplate");
    if let (Ok(new), Ok(old)) = (
        shoot_of(&path, &now.shoot_template),
        shoot_of(&path, &before.shoot_template),
    ) {
        let changed = added(validate_shoot_update(&new, &old), &validate_shoot(&new));
        errors.extend(changed.into_iter().map(|error| error.below(&path)));
    }
    errors.extend(validate_managed_seed_set(new));
    errors
}

/// Everything that is wrong with a change of a set's status.
pub fn validate_managed_seed_set_status(new: &ManagedSeedSet, old: &ManagedSeedSet) -> Vec<FieldError> {
    let (Some(status), path) = (&new.status, Path::new("status")) else {
        return Vec::new();
    };
    let before = old.status.clone().unwrap_or_default();
    let mut errors = validate_status(&path, status, name(&new.metadata));
    for (field, now, before) in [
        (
            "nextReplicaNumber",
            status.next_replica_number,
            before.next_replica_number,
        ),
        ("collisionCount", status.collision_count, before.collision_count),
    ] {
        if now.unwrap_or_default() < before.unwrap_or_default() {
            let words = format!(
                "must not go below {}; keep that or raise it",
                before.unwrap_or_default()
            );
            errors.push(path.child(field).invalid(now.unwrap_or_default(), words));
        }
    }
    errors
}

fn validate_status(path: &Path, status: &ManagedSeedSetStatus, name: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if let Some(generation) = status.observed_generation.filter(|generation| *generation < 0) {
        errors.push(
            path.child("observedGeneration")
                .invalid(generation, "must not be negative; take 0 or more"),
        );
    }
    for (field, number) in [
        ("replicas", Some(status.replicas)),
        ("nextReplicaNumber", status.next_replica_number),
        ("collisionCount", status.collision_count),
        ("readyReplicas", status.ready_replicas),
        ("currentReplicas", status.current_replicas),
        ("updatedReplicas", status.updated_replicas),
    ] {
        not_negative(&mut errors, &path.child(field), number);
    }
    for (field, number) in [
        ("readyReplicas", status.ready_replicas),
        ("currentReplicas", status.current_replicas),
        ("updatedReplicas", status.updated_replicas),
    ] {
        if let Some(number) = number.filter(|number| *number > status.replicas) {
            let words = format!("must not be above status.replicas, {}; lower it", status.replicas);
            errors.push(path.child(field).invalid(number, words));
        }
    }
    if let Some(pending) = &status.pending_replica {
        validate_pending(&mut errors, &path.child("pendingReplica"), pending, name);
    }
    errors
}

fn validate_pending(errors: &mut Vec<FieldError>, path: &Path, pending: &PendingReplica, name: &str) {
    let number = pending.name.strip_prefix(name).and_then(|rest| rest.strip_prefix('-'));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<i32>().is_ok();
    if !number.is_some_and(is_number) {
        let words = format!("must be {name:?} with a hyphen and a number behind it; write it as \"{name}-0\"");
        errors.push(path.child("name").invalid(&pending.name, words));
    }
    let is_known = REASONS.contains(&pending.reason.as_str());
    known(errors, &path.child("reason"), is_known, &pending.reason, &REASONS);
    not_negative(errors, &path.child("retries"), pending.retries);
}

fn validate_template(errors: &mut Vec<FieldError>, path: &Path, spec: &ManagedSeedSetSpec) {
    let template = &spec.template;
    validate_labels(
        errors,
        &path.child("metadata.labels"),
        &template.metadata,
        &spec.selector,
    );
    let of_seed = path.child("spec");
    if template.spec.shoot.is_some() {
        errors.push(
            of_seed
                .child("shoot")
                .forbidden("each managed seed gets a Shoot of its own; leave it out"),
        );
    }
    let path = of_seed.child("gardenlet");
    errors.extend(validate_managed_gardenlet(&path, &template.spec.gardenlet));
    if let Some(config) = &template.spec.gardenlet.config {
        let path = path.child("config.seedConfig");
        match seed_labels(config) {
            Some(labels) if is_selected(&spec.selector, &labels) => {}
            Some(labels) => errors.push(unselected(&path.child("metadata.labels"), labels)),
            None => errors.push(path.required("set the template of the Seed")),
        }
    }
}

fn validate_shoot_template(errors: &mut Vec<FieldError>, path: &Path, spec: &ManagedSeedSetSpec) {
    let template = &spec.shoot_template;
    validate_labels(
        errors,
        &path.child("metadata.labels"),
        &template.metadata,
        &spec.selector,
    );
    let shoot = match shoot_of(path, template) {
        Ok(shoot) => shoot,
        Err(error) => return errors.push(error),
    };
    if shoot.spec.provider.workers.is_empty() {
        let words = "a Shoot that is a seed needs workers; set at least one pool";
        errors.push(
            path.child("spec.provider.workers")
                .invalid(&shoot.spec.provider.workers, words),
        );
        return;
    }
    errors.extend(validate_shoot(&shoot).into_iter().map(|error| error.below(path)));
}

/// A Shoot of the template, with the defaults that it will have.
fn shoot_of(path: &Path, template: &ManagedShootTemplate) -> Result<Shoot, FieldError> {
    let spec = template.spec.decode().map_err(|error| {
        path.child("spec").invalid(
            &template.spec,
            format!("must be the spec of a Shoot: {error}; correct the field that it names"),
        )
    })?;
    let mut shoot = Shoot {
        metadata: template.metadata.clone(),
        spec,
        status: None,
    };
    shoot.metadata.name = Some(NAME.to_owned());
    shoot.metadata.namespace = Some(GARDEN_NAMESPACE.to_owned());
    let with = ShootDefaults {
        seed: None,
        cloud_profile: None,
        now: Timestamp::UNIX_EPOCH,
        entropy: 0,
        rotates_key: true,
        scales_vertically: true,
        reserves: true,
    };
    default_shoot(&mut shoot, with);
    Ok(shoot)
}

fn validate_labels(errors: &mut Vec<FieldError>, path: &Path, metadata: &ObjectMeta, selector: &LabelSelector) {
    let labels = metadata.labels.clone().unwrap_or_default();
    if !is_selected(selector, &labels) {
        errors.push(unselected(path, labels));
    }
}

fn unselected(path: &Path, labels: BTreeMap<String, String>) -> FieldError {
    path.invalid(labels, "must match spec.selector; add its labels")
}

/// An empty selector is refused at its own field.
fn is_selected(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> bool {
    is_empty(selector) || selects(selector, labels)
}

fn is_empty(selector: &LabelSelector) -> bool {
    selector.match_labels.iter().flatten().next().is_none()
        && selector.match_expressions.iter().flatten().next().is_none()
}

fn not_negative(errors: &mut Vec<FieldError>, path: &Path, number: Option<i32>) {
    if let Some(number) = number.filter(|number| *number < 0) {
        errors.push(path.invalid(number, "must not be negative; take 0 or more"));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn set(pointer: &str, value: Value) -> ManagedSeedSet {
        let labels = json!({"labels": {"a": "b"}});
        let shoot = serde_json::to_value(crate::shoot::tests::shoot()).unwrap()["spec"].clone();
        let mut set = json!({"metadata": {"name": "s", "namespace": "garden"}, "spec": {
            "selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": labels, "spec": {"gardenlet": {}}},
            "shootTemplate": {"metadata": labels, "spec": shoot}}});
        if let Some((parent, field)) = pointer.rsplit_once('/') {
            set.pointer_mut(parent).unwrap()[field] = value;
        }
        let mut set = serde_json::from_value(set).unwrap();
        default_managed_seed_set(&mut set);
        set
    }

    fn paths(errors: Vec<FieldError>) -> Vec<String> {
        errors.into_iter().map(|error| error.path).collect()
    }

    #[test]
    fn each_rule_names_its_field() {
        assert_eq!(paths(validate_managed_seed_set(&set("", Value::Null))), [""; 0]);
        let of_seed = "/spec/template/spec/gardenlet";
        for (pointer, value, path) in [
            ("/metadata/namespace", json!("garden-p"), "metadata.namespace"),
            ("/metadata/name", json!("a--b"), "metadata.name"),
            ("/spec/replicas", json!(-1), "spec.replicas"),
            ("/spec/revisionHistoryLimit", json!(-1), "spec.revisionHistoryLimit"),
            ("/spec/selector", json!({}), "spec.selector"),
            ("/spec/template/metadata", json!({}), "spec.template.metadata.labels"),
            (
                "/spec/template/spec/shoot",
                json!({"name": "s"}),
                "spec.template.spec.shoot",
            ),
            (
                of_seed,
                json!({"bootstrap": "x"}),
                "spec.template.spec.gardenlet.bootstrap",
            ),
            (
                of_seed,
                json!({"config": {}}),
                "spec.template.spec.gardenlet.config.seedConfig",
            ),
            (
                "/spec/shootTemplate/metadata",
                json!({}),
                "spec.shootTemplate.metadata.labels",
            ),
            (
                "/spec/shootTemplate/spec/provider/workers",
                json!([]),
                "spec.shootTemplate.spec.provider.workers",
            ),
            (
                "/spec/shootTemplate/spec/region",
                json!(""),
                "spec.shootTemplate.spec.region",
            ),
            ("/spec/shootTemplate/spec", json!("text"), "spec.shootTemplate.spec"),
            ("/spec/updateStrategy", json!({"type": ""}), "spec.updateStrategy.type"),
            ("/spec/updateStrategy", json!({"type": "x"}), "spec.updateStrategy.type"),
            (
                "/spec/updateStrategy",
                json!({"rollingUpdate": {"partition": -1}}),
                "spec.updateStrategy.rollingUpdate.partition",
            ),
        ] {
            assert_eq!(paths(validate_managed_seed_set(&set(pointer, value))), [path]);
        }
        let unselected = json!({"config": {"seedConfig": {"spec": {"dns": {"internal": {"type": "t", "domain": "d.example",
            "credentialsRef": {"apiVersion": "v1", "kind": "Secret", "name": "n", "namespace": "garden"}}}}}}});
        assert_eq!(
            paths(validate_managed_seed_set(&set(of_seed, unselected))),
            ["spec.template.spec.gardenlet.config.seedConfig.metadata.labels"]
        );
    }

    #[test]
    fn defaults_are_those_of_gardener_and_stay() {
        let rolling = json!({"rollingUpdate": {}});
        let made = set("/spec/updateStrategy", rolling);
        let written = serde_json::to_value(&made).unwrap();
        assert_eq!(written["spec"]["replicas"], 1);
        assert_eq!(written["spec"]["revisionHistoryLimit"], 10);
        assert_eq!(
            written["spec"]["updateStrategy"],
            json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 0}})
        );
        assert_eq!(written["spec"]["template"]["spec"]["gardenlet"], json!({}));
        let mut again = made.clone();
        default_managed_seed_set(&mut again);
        assert_eq!(again, made);
        let deployed = set("/spec/template/spec/gardenlet", json!({"deployment": {}}));
        let deployment = deployed.spec.template.spec.gardenlet.deployment.unwrap();
        assert_eq!(deployment.replica_count, Some(2));
    }

    #[test]
    fn selector_history_and_what_stays_of_the_templates_is_immutable() {
        let old = set("", Value::Null);
        for (pointer, value, path) in [
            (
                "/spec/selector/matchExpressions",
                json!([{"key": "a", "operator": "Exists"}]),
                "spec.selector",
            ),
            ("/spec/revisionHistoryLimit", json!(3), "spec.revisionHistoryLimit"),
            (
                "/spec/template/spec/gardenlet",
                json!({"bootstrap": "None"}),
                "spec.template.spec.gardenlet.bootstrap",
            ),
            (
                "/spec/shootTemplate/spec/region",
                json!("r2"),
                "spec.shootTemplate.spec.region",
            ),
        ] {
            assert_eq!(
                paths(validate_managed_seed_set_update(&set(pointer, value), &old)),
                [path]
            );
        }
        assert_eq!(
            paths(validate_managed_seed_set_update(&set("/spec/replicas", json!(3)), &old)),
            [""; 0]
        );
    }

    #[test]
    fn each_rule_of_the_status_names_its_field() {
        let with = |status: Value| set("/status", status);
        let old = with(json!({"replicas": 2, "nextReplicaNumber": 2, "collisionCount": 1}));
        let checked = |field: &str, value: Value| {
            let mut status = json!({"replicas": 2, "nextReplicaNumber": 2, "collisionCount": 1});
            status[field] = value;
            paths(validate_managed_seed_set_status(&with(status), &old))
        };
        assert_eq!(checked("readyReplicas", json!(2)), [""; 0]);
        for field in [
            "observedGeneration",
            "readyReplicas",
            "currentReplicas",
            "updatedReplicas",
            "replicas",
        ] {
            assert_eq!(checked(field, json!(-1)), [format!("status.{field}")]);
        }
        for field in ["readyReplicas", "currentReplicas", "updatedReplicas"] {
            assert_eq!(checked(field, json!(3)), [format!("status.{field}")]);
        }
        assert_eq!(checked("nextReplicaNumber", json!(1)), ["status.nextReplicaNumber"]);
        assert_eq!(checked("collisionCount", json!(0)), ["status.collisionCount"]);
        let pending = |field: &str, value: Value| {
            let mut pending = json!({"name": "s-0", "reason": "SeedNotReady", "since": "2026-01-01T00:00:00Z"});
            pending[field] = value;
            checked("pendingReplica", pending)
        };
        assert_eq!(pending("retries", json!(1)), [""; 0]);
        for (field, value) in [
            ("name", json!("t-0")),
            ("name", json!("s-x")),
            ("reason", json!("x")),
            ("retries", json!(-1)),
        ] {
            assert_eq!(pending(field, value), [format!("status.pendingReplica.{field}")]);
        }
    }
}
