//! Defaults and rules of ControllerRegistrations (gardener/gardener v1.150
//! pkg/apis/core/v1beta1/defaults_controllerregistration.go, pkg/api/core/validation/controllerregistration.go).
//! Types are compared without regard to case everywhere.

use std::collections::BTreeSet;

use api_core::v1beta1::{
    ClusterType, ControllerDeploymentPolicy, ControllerRegistration, ControllerResource, ControllerResourceLifecycle,
    ControllerResourceLifecycleStrategy as Strategy,
};
use api_extensions::ExtensionKind;
use api_meta::GoDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use crate::checks::{distinct, dns_label, frozen, known, name, not_empty};
use crate::old_spellings::enabled_otherwise;
use crate::{FieldError, Path};

/// How long an Extension may take to reconcile when its registration sets no time.
const RECONCILE_TIMEOUT: GoDuration = GoDuration::from_mins(3);

/// Longest name of a registration: `extension-`, the name, a hyphen and 5 characters are the name of a namespace.
const NAME_BYTES_MAX: usize = 47;

/// Whether this entry has the main word; nothing means yes.
pub fn is_primary(resource: &ControllerResource) -> bool {
    resource.primary.unwrap_or(true)
}

/// Writes today's defaults into a registration.
pub fn default_controller_registration(registration: &mut ControllerRegistration) {
    for resource in &mut registration.spec.resources {
        resource.primary.get_or_insert(true);
        match ExtensionKind::of(&resource.kind) {
            Some(ExtensionKind::Extension) => default_extension(resource),
            Some(ExtensionKind::SelfHostedShootExposure) => {
                resource.continuous_endpoint_update.get_or_insert(true);
            }
            _ => {}
        }
    }
    if let Some(deployment) = &mut registration.spec.deployment {
        deployment.policy.get_or_insert(ControllerDeploymentPolicy::OnDemand);
    }
}

fn default_extension(resource: &mut ControllerResource) {
    if resource.cluster_compatibility.is_empty() {
        resource.cluster_compatibility = vec![ClusterType::Shoot];
    }
    resource.reconcile_timeout.get_or_insert(RECONCILE_TIMEOUT);
    let ControllerResourceLifecycle {
        reconcile,
        delete,
        migrate,
    } = resource.lifecycle.get_or_insert_default();
    reconcile.get_or_insert(Strategy::AfterKubeAPIServer);
    delete.get_or_insert(Strategy::BeforeKubeAPIServer);
    migrate.get_or_insert(Strategy::BeforeKubeAPIServer);
}

/// Everything that is wrong with a registration by itself.
pub fn validate_controller_registration(registration: &ControllerRegistration) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let (path, own) = (Path::new("metadata.name"), name(&registration.metadata));
    dns_label(&mut errors, &path, own);
    if own.len() > NAME_BYTES_MAX {
        errors.push(path.invalid(
            own,
            format!(
                "has {} characters, and the namespace of its installations contains it; take {NAME_BYTES_MAX} at most",
                own.len()
            ),
        ));
    }
    let spec = Path::new("spec");
    let mut seen = BTreeSet::new();
    for (index, resource) in registration.spec.resources.iter().enumerate() {
        let path = spec.child("resources").index(index);
        validate_resource(&mut errors, &path, resource);
        if !seen.insert((resource.kind.as_str(), resource.type_.to_lowercase())) {
            errors.push(path.duplicate(format!("{}/{}", resource.kind, resource.type_)));
        }
    }
    validate_deployment(&mut errors, &spec.child("deployment"), registration);
    errors
}

fn validate_resource(errors: &mut Vec<FieldError>, path: &Path, resource: &ControllerResource) {
    not_empty(errors, &path.child("kind"), &resource.kind);
    let kind = ExtensionKind::of(&resource.kind);
    known(
        errors,
        &path.child("kind"),
        kind.is_some(),
        &resource.kind,
        ExtensionKind::NAMES,
    );
    not_empty(errors, &path.child("type"), &resource.type_);
    let is_extension = kind == Some(ExtensionKind::Extension);
    let only_extension = [
        ("autoEnable", !resource.auto_enable.is_empty()),
        ("clusterCompatibility", !resource.cluster_compatibility.is_empty()),
        ("reconcileTimeout", resource.reconcile_timeout.is_some()),
        ("lifecycle", resource.lifecycle.is_some()),
    ];
    for (field, set) in only_extension {
        if set && !is_extension {
            errors.push(
                path.child(field)
                    .forbidden("field must not be set when kind != Extension"),
            );
        }
    }
    if resource.continuous_endpoint_update.is_some() && kind != Some(ExtensionKind::SelfHostedShootExposure) {
        errors.push(
            path.child("continuousEndpointUpdate")
                .forbidden("field must not be set when kind != SelfHostedShootExposure"),
        );
    }
    for (field, values) in [
        ("autoEnable", &resource.auto_enable),
        ("clusterCompatibility", &resource.cluster_compatibility),
    ] {
        let list = path.child(field);
        distinct(errors, values.iter().map(ClusterType::as_str), |index| {
            list.index(index)
        });
        for (index, value) in values.iter().enumerate() {
            let path = path.child(field).index(index);
            known(errors, &path, value.is_known(), value.as_str(), ClusterType::KNOWN);
        }
    }
    for (index, value) in resource.auto_enable.iter().enumerate() {
        if is_extension && !resource.cluster_compatibility.contains(value) {
            errors.push(path.child("autoEnable").index(index).forbidden(format!(
                "autoEnable must be a subset of clusterCompatibility: add {value:?} there",
                value = value.as_str()
            )));
        }
    }
    enabled_otherwise(errors, path, resource);
    validate_lifecycle(errors, path, resource);
}

fn validate_lifecycle(errors: &mut Vec<FieldError>, path: &Path, resource: &ControllerResource) {
    const AROUND_API_SERVER: [&str; 2] = ["BeforeKubeAPIServer", "AfterKubeAPIServer"];
    let Some(ControllerResourceLifecycle {
        reconcile,
        delete,
        migrate,
    }) = &resource.lifecycle
    else {
        return;
    };
    let points = [
        ("reconcile", reconcile, Strategy::KNOWN),
        ("delete", delete, &AROUND_API_SERVER),
        ("migrate", migrate, &AROUND_API_SERVER),
    ];
    for (field, value, allowed) in points {
        if let Some(value) = value {
            let path = path.child("lifecycle").child(field);
            known(
                errors,
                &path,
                allowed.contains(&value.as_str()),
                value.as_str(),
                allowed,
            );
        }
    }
}

fn validate_deployment(errors: &mut Vec<FieldError>, path: &Path, registration: &ControllerRegistration) {
    let Some(deployment) = &registration.spec.deployment else {
        return;
    };
    if let Some(policy) = &deployment.policy {
        known(
            errors,
            &path.child("policy"),
            policy.is_known(),
            policy.as_str(),
            ControllerDeploymentPolicy::KNOWN,
        );
    }
    if let Some(selector) = &deployment.seed_selector {
        validate_selector(errors, &path.child("seedSelector"), selector);
    }
    if deployment.seed_selector.is_some() && registration.spec.resources.iter().any(is_primary) {
        errors.push(
            path.child("seedSelector")
                .forbidden("specifying a seed selector is not allowed when controlling resources primarily"),
        );
    }
    if deployment.deployment_refs.len() > 1 {
        errors.push(
            path.child("deploymentRefs")
                .forbidden("only one deployment reference is allowed"),
        );
    }
    for (index, reference) in deployment.deployment_refs.iter().enumerate() {
        not_empty(
            errors,
            &path.child("deploymentRefs").index(index).child("name"),
            &reference.name,
        );
    }
}

/// Operators of expressions, and what each takes (apimachinery v0.35 pkg/apis/meta/v1/validation).
pub(crate) fn validate_selector(errors: &mut Vec<FieldError>, path: &Path, selector: &LabelSelector) {
    for (index, expression) in selector.match_expressions.iter().flatten().enumerate() {
        let path = path.child("matchExpressions").index(index);
        let is_empty = expression.values.as_ref().is_none_or(Vec::is_empty);
        not_empty(errors, &path.child("key"), &expression.key);
        match expression.operator.as_str() {
            "In" | "NotIn" if is_empty => errors.push(
                path.child("values")
                    .required("must be specified when `operator` is 'In' or 'NotIn'"),
            ),
            "Exists" | "DoesNotExist" if !is_empty => errors.push(
                path.child("values")
                    .forbidden("may not be specified when `operator` is 'Exists' or 'DoesNotExist'"),
            ),
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => errors.push(
                path.child("operator")
                    .not_supported(other, &["In", "NotIn", "Exists", "DoesNotExist"]),
            ),
        }
    }
}

/// Everything that is wrong with a change of a registration.
pub fn validate_controller_registration_update(
    new: &ControllerRegistration,
    old: &ControllerRegistration,
) -> Vec<FieldError> {
    let mut errors = validate_controller_registration(new);
    // A name stays, and one that is wrong must not keep its object from going.
    errors.retain(|error| error.path != "metadata.name");
    errors.extend(frozen("controller registration", new.spec != old.spec, &new.metadata));
    for (index, resource) in new.spec.resources.iter().enumerate() {
        let before = old.spec.resources.iter().find(|old| same_kind_and_type(old, resource));
        if let Some(before) = before {
            let path = Path::new("spec.resources").index(index).child("primary");
            errors.extend(path.immutable(&is_primary(resource), &is_primary(before)));
        }
    }
    errors
}

fn same_kind_and_type(a: &ControllerResource, b: &ControllerResource) -> bool {
    a.kind == b.kind && a.type_.eq_ignore_ascii_case(&b.type_)
}

/// Errors for every kind and type that both this registration and another one claim primarily.
///
/// `others` may contain the registration itself; it is skipped by name.
pub fn competing_primaries(
    registration: &ControllerRegistration,
    others: &[ControllerRegistration],
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (index, resource) in registration
        .spec
        .resources
        .iter()
        .enumerate()
        .filter(|(_, r)| is_primary(r))
    {
        let taken = others
            .iter()
            .filter(|other| other.metadata.name != registration.metadata.name)
            .find(|other| {
                other
                    .spec
                    .resources
                    .iter()
                    .any(|theirs| is_primary(theirs) && same_kind_and_type(theirs, resource))
            });
        if let Some(other) = taken {
            errors.push(Path::new("spec.resources").index(index).forbidden(format!(
                "another ControllerRegistration resource already exists that controls resource {}/{} primarily: {}",
                resource.kind,
                resource.type_,
                name(&other.metadata)
            )));
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn registration(spec: serde_json::Value) -> ControllerRegistration {
        serde_json::from_value(json!({"metadata": {"name": "provider"}, "spec": spec})).unwrap()
    }

    fn errors(spec: serde_json::Value) -> Vec<String> {
        validate_controller_registration(&registration(spec))
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn an_extension_gets_its_lifecycle_and_time_out() {
        let mut defaulted = registration(json!({"resources": [
            {"kind": "Extension", "type": "dns", "lifecycle": {"reconcile": "AfterWorker"}},
            {"kind": "Worker", "type": "local", "primary": false}], "deployment": {}}));
        default_controller_registration(&mut defaulted);
        assert_eq!(
            serde_json::to_value(&defaulted.spec).unwrap(),
            json!({"resources": [
                {"kind": "Extension", "type": "dns", "primary": true, "reconcileTimeout": "3m0s",
                 "clusterCompatibility": ["shoot"],
                 "lifecycle": {"reconcile": "AfterWorker", "delete": "BeforeKubeAPIServer", "migrate": "BeforeKubeAPIServer"}},
                {"kind": "Worker", "type": "local", "primary": false}], "deployment": {"policy": "OnDemand"}})
        );
        assert_eq!(validate_controller_registration(&defaulted), []);
    }

    #[test]
    fn each_rule_names_the_field() {
        let cases = [
            (
                json!({"resources": [{"kind": "Machine", "type": "a"}]}),
                "spec.resources[0].kind: Unsupported value: \"Machine\"",
            ),
            (
                json!({"resources": [{"kind": "Worker"}]}),
                "spec.resources[0].type: Required value: field is required",
            ),
            (
                json!({"resources": [{"kind": "Worker", "type": "a"}, {"kind": "Worker", "type": "b"}, {"kind": "Worker", "type": "A"}]}),
                "spec.resources[2]: Duplicate value: \"Worker/A\": must stand here once; remove or rename one",
            ),
            (
                json!({"resources": [{"kind": "Worker", "type": "a", "autoEnable": ["shoot"]}]}),
                "spec.resources[0].autoEnable: Forbidden: field must not be set when kind != Extension",
            ),
            (
                json!({"resources": [{"kind": "Extension", "type": "a", "autoEnable": ["seed"], "clusterCompatibility": ["shoot"]}]}),
                "spec.resources[0].autoEnable[0]: Forbidden: autoEnable must be a subset",
            ),
            (
                json!({"resources": [{"kind": "Extension", "type": "a", "lifecycle": {"delete": "AfterWorker"}}]}),
                "spec.resources[0].lifecycle.delete: Unsupported value: \"AfterWorker\"",
            ),
            (
                json!({"resources": [{"kind": "Worker", "type": "a"}], "deployment": {"seedSelector": {}}}),
                "spec.deployment.seedSelector: Forbidden: specifying a seed selector",
            ),
            (
                json!({"deployment": {"seedSelector": {"matchExpressions": [{"key": "a", "operator": "Foo"}]}}}),
                "spec.deployment.seedSelector.matchExpressions[0].operator: Unsupported value: \"Foo\"",
            ),
            (
                json!({"deployment": {"seedSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}}),
                "spec.deployment.seedSelector.matchExpressions[0].values: Required value",
            ),
            (
                json!({"deployment": {"deploymentRefs": [{"name": "a"}, {"name": "b"}]}}),
                "spec.deployment.deploymentRefs: Forbidden: only one deployment reference is allowed",
            ),
        ];
        for (spec, expected) in cases {
            let found = errors(spec.clone());
            assert_eq!(found.len(), 1, "{spec}: {found:?}");
            assert!(found[0].starts_with(expected), "{}\n{expected}", found[0]);
        }
        assert!(errors(json!({"resources": [{"kind": "Worker", "type": "a", "primary": false}], "deployment": {"seedSelector": {}}})).is_empty());
    }

    #[test]
    fn primary_stays_what_it_was_and_is_held_once() {
        let old = registration(json!({"resources": [{"kind": "Worker", "type": "a"}]}));
        let new = registration(json!({"resources": [{"kind": "Worker", "type": "A", "primary": false}]}));
        let found = validate_controller_registration_update(&new, &old);
        assert_eq!(
            found[0].to_string(),
            "spec.resources[0].primary: Invalid value: false: field is immutable; keep true"
        );
        let mut other = registration(json!({"resources": [
            {"kind": "Worker", "type": "A"}, {"kind": "Worker", "type": "c"}]}));
        other.metadata.name = Some("other".into());
        assert_eq!(competing_primaries(&old, &[old.clone(), other.clone()]).len(), 1);
        assert_eq!(competing_primaries(&new, &[other]), []);
        assert_eq!(competing_primaries(&old, std::slice::from_ref(&old)), []);
    }

    #[test]
    fn a_name_leaves_room_for_the_names_that_contain_it() {
        let named = |name: &str| {
            let mut made = registration(json!({}));
            made.metadata.name = Some(name.to_owned());
            made
        };
        assert_eq!(validate_controller_registration(&named(&"x".repeat(47))), []);
        let long = named(&"x".repeat(48));
        let reported = validate_controller_registration(&long);
        assert_eq!(reported.len(), 1, "{reported:?}");
        let words = "has 48 characters, and the namespace of its installations contains it; take 47 at most";
        assert!(reported[0].to_string().ends_with(words), "{}", reported[0]);
        assert_eq!(validate_controller_registration_update(&long, &long), []);
    }
}
