//! Defaults and rules of ManagedSeeds and Gardenlets (gardener/gardener v1.150 pkg/apis/seedmanagement/v1alpha1/defaults_*.go,
//! pkg/api/seedmanagement/validation). Of a GardenletConfiguration only what is written here is checked: the Shoot of a
//! managed seed completes the rest.

use api_core::seedmanagement::{
    Gardenlet, GardenletConfig, GardenletDeployment, GardenletImage, ManagedSeed, ManagedSeedSpec,
};
use api_meta::RawJson;
use api_meta::annotations::OPERATION;
use api_meta::names::GARDEN_NAMESPACE;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::checks::{dns_name, known, not_empty};
use crate::deployment::validate_repository;
use crate::gardenlet_config::{self, Access};
use crate::shoot_values::{is_label_word, wrong_key};
use crate::{FieldError, Path};

const BOOTSTRAPS: [&str; 3] = [SERVICE_ACCOUNT, BOOTSTRAP_TOKEN, NO_BOOTSTRAP];
const SERVICE_ACCOUNT: &str = "ServiceAccount";
const BOOTSTRAP_TOKEN: &str = "BootstrapToken";
const NO_BOOTSTRAP: &str = "None";
const ALWAYS: &str = "Always";
const IF_NOT_PRESENT: &str = "IfNotPresent";
const PULL_POLICIES: [&str; 3] = [ALWAYS, IF_NOT_PRESENT, "Never"];
const REPLICAS_DEFAULT: i32 = 2;
const HISTORY_DEFAULT: i32 = 2;

/// Writes today's defaults into a managed seed.
pub fn default_managed_seed(seed: &mut ManagedSeed) {
    let gardenlet = &mut seed.spec.gardenlet;
    default_deployment(gardenlet.deployment.get_or_insert_default());
    gardenlet_config::default(&mut gardenlet.config);
    gardenlet.bootstrap.get_or_insert_with(|| BOOTSTRAP_TOKEN.to_owned());
    gardenlet.merge_with_parent.get_or_insert(true);
}

/// Writes today's defaults into a gardenlet.
pub fn default_gardenlet(gardenlet: &mut Gardenlet) {
    default_deployment(&mut gardenlet.spec.deployment.common);
    gardenlet_config::default(&mut gardenlet.spec.config);
}

/// Writes today's defaults into a Deployment.
pub(crate) fn default_deployment(deployment: &mut GardenletDeployment) {
    deployment.replica_count.get_or_insert(REPLICAS_DEFAULT);
    deployment.revision_history_limit.get_or_insert(HISTORY_DEFAULT);
    deployment.enable_health_probes.get_or_insert(true);
    let image = deployment.image.get_or_insert_default();
    let policy = if image.tag.as_deref() == Some("latest") {
        ALWAYS
    } else {
        IF_NOT_PRESENT
    };
    image.pull_policy.get_or_insert_with(|| policy.to_owned());
}

/// Everything that is wrong with a managed seed by itself.
pub fn validate_managed_seed(seed: &ManagedSeed) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let namespace = seed.metadata.namespace.as_deref().unwrap_or_default();
    if namespace != GARDEN_NAMESPACE {
        errors.push(Path::new("metadata.namespace").invalid(namespace, format!("must be {GARDEN_NAMESPACE:?}")));
    }
    operation(&mut errors, &seed.metadata, &["reconcile", "renew-kubeconfig"]);
    let spec = Path::new("spec");
    match &seed.spec.shoot {
        None => errors.push(spec.child("shoot").required("name a Shoot of this namespace")),
        Some(shoot) => not_empty(&mut errors, &spec.child("shoot.name"), &shoot.name),
    }
    errors.extend(validate_managed_gardenlet(
        &spec.child("gardenlet"),
        &seed.spec.gardenlet,
    ));
    errors
}

/// Everything that is wrong with the gardenlet of a managed seed.
pub(crate) fn validate_managed_gardenlet(path: &Path, gardenlet: &GardenletConfig) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if let Some(deployment) = &gardenlet.deployment {
        validate_deployment(&mut errors, &path.child("deployment"), deployment);
    }
    let bootstrap = gardenlet.bootstrap.as_deref().unwrap_or(NO_BOOTSTRAP);
    if let Some(config) = &gardenlet.config {
        let access = access(bootstrap, gardenlet.merge_with_parent.unwrap_or(false));
        errors.extend(gardenlet_config::validate(&path.child("config"), config, access));
    }
    let is_known = BOOTSTRAPS.contains(&bootstrap);
    known(&mut errors, &path.child("bootstrap"), is_known, bootstrap, &BOOTSTRAPS);
    errors
}

fn access(bootstrap: &str, merged: bool) -> Option<Access> {
    match bootstrap {
        SERVICE_ACCOUNT | BOOTSTRAP_TOKEN => Some(Access::Bootstrapped),
        NO_BOOTSTRAP => Some(Access::OfItsOwn { merged }),
        _ => None,
    }
}

/// Everything that is wrong with a change of a managed seed.
pub fn validate_managed_seed_update(new: &ManagedSeed, old: &ManagedSeed) -> Vec<FieldError> {
    let mut errors: Vec<FieldError> = operation_change(&new.metadata, &old.metadata).into_iter().collect();
    errors.extend(managed_seed_change(&Path::new("spec"), &new.spec, &old.spec));
    errors.extend(validate_managed_seed(new));
    errors
}

/// What must stay of a managed seed or of a template of one.
pub(crate) fn managed_seed_change(path: &Path, new: &ManagedSeedSpec, old: &ManagedSeedSpec) -> Vec<FieldError> {
    let (now, before) = (&new.gardenlet, &old.gardenlet);
    let shoot = path.child("shoot").immutable(&new.shoot, &old.shoot);
    let path = path.child("gardenlet");
    let mut errors: Vec<FieldError> = [
        shoot,
        path.child("bootstrap").immutable(&now.bootstrap, &before.bootstrap),
        path.child("mergeWithParent")
            .immutable(&now.merge_with_parent, &before.merge_with_parent),
    ]
    .into_iter()
    .flatten()
    .collect();
    errors.extend(config_change(
        &path.child("config"),
        now.config.as_ref(),
        before.config.as_ref(),
    ));
    errors
}

/// Everything that is wrong with a gardenlet by itself.
pub fn validate_gardenlet(gardenlet: &Gardenlet) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if gardenlet.metadata.namespace.as_deref() != Some(GARDEN_NAMESPACE) {
        errors.push(Path::new("metadata.namespace").forbidden(format!("must be {GARDEN_NAMESPACE:?}")));
    }
    operation(
        &mut errors,
        &gardenlet.metadata,
        &["force-redeploy", "reconcile", "renew-kubeconfig"],
    );
    let (spec, path) = (&gardenlet.spec, Path::new("spec"));
    let deployment = path.child("deployment");
    validate_deployment(&mut errors, &deployment, &spec.deployment.common);
    let repository = deployment.child("helm.ociRepository");
    validate_repository(&mut errors, &repository, &spec.deployment.helm.oci_repository);
    if let Some(config) = &spec.config {
        let access = Some(Access::Bootstrapped);
        errors.extend(gardenlet_config::validate(&path.child("config"), config, access));
    }
    errors
}

/// Everything that is wrong with a change of a gardenlet.
pub fn validate_gardenlet_update(new: &Gardenlet, old: &Gardenlet) -> Vec<FieldError> {
    let mut errors: Vec<FieldError> = operation_change(&new.metadata, &old.metadata).into_iter().collect();
    let configs = (new.spec.config.as_ref(), old.spec.config.as_ref());
    errors.extend(config_change(&Path::new("spec.config"), configs.0, configs.1));
    errors.extend(validate_gardenlet(new));
    errors
}

/// Everything that is wrong with the status of either kind.
pub fn validate_observed_generation(generation: Option<i64>) -> Vec<FieldError> {
    let negative = generation.filter(|generation| *generation < 0);
    negative
        .map(|generation| Path::new("status.observedGeneration").invalid(generation, "must not be negative"))
        .into_iter()
        .collect()
}

fn validate_deployment(errors: &mut Vec<FieldError>, path: &Path, deployment: &GardenletDeployment) {
    for (field, number) in [
        ("replicaCount", deployment.replica_count),
        ("revisionHistoryLimit", deployment.revision_history_limit),
    ] {
        if let Some(number) = number.filter(|number| *number < 0) {
            errors.push(path.child(field).invalid(number, "must not be negative"));
        }
    }
    if let Some(account) = &deployment.service_account_name {
        let path = path.child("serviceAccountName");
        match account.as_str() {
            "" => errors.push(path.invalid("", "must be a lower case DNS name; leave it out for the default")),
            name => dns_name(errors, &path, name),
        }
    }
    if let Some(image) = &deployment.image {
        validate_image(errors, &path.child("image"), image);
    }
    for (field, words) in [
        ("podLabels", &deployment.pod_labels),
        ("podAnnotations", &deployment.pod_annotations),
    ] {
        errors.extend(words.keys().filter_map(|key| wrong_key(&path.child(field), key)));
    }
    for (key, value) in &deployment.pod_labels {
        if !value.is_empty() && !is_label_word(value) {
            let words = format!("the value of {key:?} must be at most 63 letters, digits, '-', '_' and '.'");
            errors.push(path.child("podLabels").invalid(value, words));
        }
    }
}

fn validate_image(errors: &mut Vec<FieldError>, path: &Path, image: &GardenletImage) {
    for (field, text) in [
        ("ref", &image.reference),
        ("repository", &image.repository),
        ("tag", &image.tag),
    ] {
        if text.as_ref().is_some_and(String::is_empty) {
            errors.push(path.child(field).invalid("", "must not be empty; leave it out"));
        }
    }
    if image.reference.is_some() && (image.repository.is_some() || image.tag.is_some()) {
        errors.push(path.forbidden("ref excludes repository and tag; leave one of them out"));
    }
    if let Some(policy) = &image.pull_policy {
        let is_known = PULL_POLICIES.contains(&policy.as_str());
        known(errors, &path.child("pullPolicy"), is_known, policy, &PULL_POLICIES);
    }
}

fn requested(metadata: &ObjectMeta) -> &str {
    let annotations = metadata.annotations.as_ref();
    annotations
        .and_then(|annotations| annotations.get(OPERATION))
        .map_or("", String::as_str)
}

fn operation(errors: &mut Vec<FieldError>, metadata: &ObjectMeta, supported: &[&str]) {
    let requested = requested(metadata);
    let path = Path::new("metadata.annotations").key(OPERATION);
    known(
        errors,
        &path,
        requested.is_empty() || supported.contains(&requested),
        requested,
        supported,
    );
}

/// An operation that is still to be done is not replaced by another.
fn operation_change(new: &ObjectMeta, old: &ObjectMeta) -> Option<FieldError> {
    let (now, before) = (requested(new), requested(old));
    (!now.is_empty() && !before.is_empty() && now != before).then(|| {
        Path::new("metadata.annotations").key(OPERATION).forbidden(format!(
            "{before:?} is still to be done; wait until it is, then ask for {now:?}"
        ))
    })
}

fn config_change(path: &Path, new: Option<&RawJson>, old: Option<&RawJson>) -> Vec<FieldError> {
    match (new, old) {
        (Some(new), Some(old)) => gardenlet_config::validate_update(path, new, old),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn paths(errors: Vec<FieldError>) -> Vec<String> {
        errors.into_iter().map(|error| error.path).collect()
    }

    /// A managed seed with a value at a pointer, with defaults.
    fn managed(pointer: &str, value: Value) -> ManagedSeed {
        let mut seed = json!({"metadata": {"name": "s", "namespace": "garden", "annotations": {}}, "spec": {
            "shoot": {"name": "s"}, "gardenlet": {"deployment": {"image": {}}}}});
        put(&mut seed, pointer, value);
        let mut seed = serde_json::from_value(seed).unwrap();
        default_managed_seed(&mut seed);
        seed
    }

    fn gardenlet(pointer: &str, value: Value) -> Gardenlet {
        let mut gardenlet = json!({"metadata": {"name": "s", "namespace": "garden", "annotations": {}},
            "spec": {"deployment": {"helm": {"ociRepository": {"ref": "r"}}}}});
        put(&mut gardenlet, pointer, value);
        let mut gardenlet = serde_json::from_value(gardenlet).unwrap();
        default_gardenlet(&mut gardenlet);
        gardenlet
    }

    fn put(object: &mut Value, pointer: &str, value: Value) {
        if let Some((parent, field)) = pointer.rsplit_once('/') {
            let field = field.replace("~1", "/");
            object.pointer_mut(parent).unwrap()[field] = value;
        }
    }

    #[test]
    fn defaults_are_those_of_gardener_and_stay() {
        let seed = managed("", Value::Null);
        let written = serde_json::to_value(&seed).unwrap();
        assert_eq!(
            written["spec"]["gardenlet"]["deployment"],
            json!({"replicaCount": 2, "revisionHistoryLimit": 2, "enableHealthProbes": true,
                "image": {"pullPolicy": "IfNotPresent"}})
        );
        assert_eq!(written["spec"]["gardenlet"]["bootstrap"], "BootstrapToken");
        assert_eq!(written["spec"]["gardenlet"]["mergeWithParent"], true);
        let mut again = seed.clone();
        default_managed_seed(&mut again);
        assert_eq!(again, seed);
        let latest = managed("/spec/gardenlet/deployment/image/tag", json!("latest"));
        let image = latest.spec.gardenlet.deployment.unwrap().image.unwrap();
        assert_eq!(image.pull_policy.as_deref(), Some("Always"));
        let own = serde_json::to_value(gardenlet("", Value::Null)).unwrap();
        assert_eq!(own["spec"]["deployment"]["replicaCount"], 2);
        assert_eq!(own["spec"]["config"]["kind"], "GardenletConfiguration");
    }

    #[test]
    fn each_rule_of_managed_seeds_names_its_field() {
        assert_eq!(paths(validate_managed_seed(&managed("", Value::Null))), [""; 0]);
        const OF: &str = "/spec/gardenlet/deployment";
        for (pointer, value, path) in [
            ("/metadata/namespace", json!("garden-p"), "metadata.namespace"),
            ("/spec/shoot", Value::Null, "spec.shoot"),
            ("/spec/shoot/name", json!(""), "spec.shoot.name"),
            ("/spec/gardenlet/bootstrap", json!("x"), "spec.gardenlet.bootstrap"),
            (
                &format!("{OF}/replicaCount"),
                json!(-1),
                "spec.gardenlet.deployment.replicaCount",
            ),
            (
                &format!("{OF}/revisionHistoryLimit"),
                json!(-1),
                "spec.gardenlet.deployment.revisionHistoryLimit",
            ),
            (
                &format!("{OF}/serviceAccountName"),
                json!("A"),
                "spec.gardenlet.deployment.serviceAccountName",
            ),
            (
                &format!("{OF}/serviceAccountName"),
                json!(""),
                "spec.gardenlet.deployment.serviceAccountName",
            ),
            (
                &format!("{OF}/podLabels"),
                json!({"a b": ""}),
                "spec.gardenlet.deployment.podLabels",
            ),
            (
                &format!("{OF}/podLabels"),
                json!({"a": "b c"}),
                "spec.gardenlet.deployment.podLabels",
            ),
            (
                &format!("{OF}/podAnnotations"),
                json!({"a b": ""}),
                "spec.gardenlet.deployment.podAnnotations",
            ),
            (
                &format!("{OF}/image/ref"),
                json!(""),
                "spec.gardenlet.deployment.image.ref",
            ),
            (
                &format!("{OF}/image/tag"),
                json!(""),
                "spec.gardenlet.deployment.image.tag",
            ),
            (
                &format!("{OF}/image"),
                json!({"ref": "r", "tag": "t"}),
                "spec.gardenlet.deployment.image",
            ),
            (
                &format!("{OF}/image/pullPolicy"),
                json!("x"),
                "spec.gardenlet.deployment.image.pullPolicy",
            ),
            (
                "/metadata/annotations/gardener.cloud~1operation",
                json!("force-redeploy"),
                "metadata.annotations[gardener.cloud/operation]",
            ),
        ] {
            assert_eq!(paths(validate_managed_seed(&managed(pointer, value))), [path]);
        }
    }

    #[test]
    fn what_a_managed_seed_was_made_with_stays() {
        let old = managed("/metadata/annotations/gardener.cloud~1operation", json!("reconcile"));
        for (pointer, value, path) in [
            ("/spec/shoot/name", json!("t"), "spec.shoot"),
            (
                "/spec/gardenlet/bootstrap",
                json!("ServiceAccount"),
                "spec.gardenlet.bootstrap",
            ),
            (
                "/spec/gardenlet/mergeWithParent",
                json!(false),
                "spec.gardenlet.mergeWithParent",
            ),
            (
                "/metadata/annotations/gardener.cloud~1operation",
                json!("renew-kubeconfig"),
                "metadata.annotations[gardener.cloud/operation]",
            ),
        ] {
            assert_eq!(
                paths(validate_managed_seed_update(&managed(pointer, value), &old)),
                [path]
            );
        }
        let more = managed("/spec/gardenlet/deployment/replicaCount", json!(3));
        assert_eq!(paths(validate_managed_seed_update(&more, &old)), [""; 0]);
    }

    #[test]
    fn each_rule_of_gardenlets_names_its_field() {
        assert_eq!(paths(validate_gardenlet(&gardenlet("", Value::Null))), [""; 0]);
        let operation = "/metadata/annotations/gardener.cloud~1operation";
        for (pointer, value, path) in [
            ("/metadata/namespace", json!("garden-p"), "metadata.namespace"),
            (
                "/spec/deployment/replicaCount",
                json!(-1),
                "spec.deployment.replicaCount",
            ),
            (
                "/spec/deployment/helm/ociRepository",
                json!({"repository": "r"}),
                "spec.deployment.helm.ociRepository",
            ),
            (operation, json!("x"), "metadata.annotations[gardener.cloud/operation]"),
            (
                "/spec/config",
                json!({"gardenClientConnection": {"kubeconfig": "/k"}}),
                "spec.config.gardenClientConnection.kubeconfig",
            ),
        ] {
            assert_eq!(paths(validate_gardenlet(&gardenlet(pointer, value))), [path]);
        }
        assert_eq!(
            paths(validate_gardenlet(&gardenlet(operation, json!("force-redeploy")))),
            [""; 0]
        );
        let old = gardenlet(operation, json!("reconcile"));
        let changed = validate_gardenlet_update(&gardenlet(operation, json!("force-redeploy")), &old);
        assert_eq!(paths(changed), ["metadata.annotations[gardener.cloud/operation]"]);
        assert_eq!(
            paths(validate_observed_generation(Some(-1))),
            ["status.observedGeneration"]
        );
        assert_eq!(paths(validate_observed_generation(None)), [""; 0]);
    }
}
