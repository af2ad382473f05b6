//! Where the primary extensions of a seed run: the namespaces whose service accounts are theirs. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api_core::v1beta1::{ControllerInstallation, ControllerRegistration};
use api_extensions::ExtensionKind;
use api_meta::names::{extension_namespace, is_dns_label};
use api_rules::{KindType, is_primary};
use kube::ResourceExt;
use serde::Deserialize;

/// What an operator of Scenario 2 reports in `providerStatus`; all else in it is its own affair.
#[derive(Deserialize)]
struct Reported {
    namespace: String,
}

/// How an installation gets into the seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Means {
    /// By us, from a chart.
    Chart,
    /// By an operator.
    Operator,
    /// Its ControllerDeployment is not known.
    Unknown,
}

/// The namespaces of an installation: the one that charts go into, or the one that its operator names. Both while it is not
/// known which of the two it is; none while an operator has not reported it.
pub(crate) fn namespaces(installation: &ControllerInstallation, means: Means) -> BTreeSet<String> {
    let ours = || extension_namespace(&installation.name_any());
    match means {
        Means::Chart => BTreeSet::from([ours()]),
        Means::Operator => reported(installation).into_iter().collect(),
        Means::Unknown => reported(installation).into_iter().chain([ours()]).collect(),
    }
}

/// The namespace that its operator reports.
fn reported(installation: &ControllerInstallation) -> Option<String> {
    let status = installation.status.as_ref()?.provider_status.as_ref()?;
    let Reported { namespace } = status.decode().ok()?;
    // Anything else could name several namespaces in the parameters.
    is_dns_label(&namespace).then_some(namespace)
}

/// The installation of the primary extension of a kind and type, if it has one in the seed.
pub(crate) fn primary_of(
    registrations: &[Arc<ControllerRegistration>],
    installations: &[Arc<ControllerInstallation>],
    wanted: &KindType,
) -> Option<Arc<ControllerInstallation>> {
    let serves = |one: &&Arc<ControllerRegistration>| {
        let mut resources = one.spec.resources.iter();
        resources.any(|resource| is_primary(resource) && wanted.matches(resource))
    };
    let name = registrations.iter().find(serves)?.name_any();
    let of_it = |one: &&Arc<ControllerInstallation>| one.spec.registration_ref.name.as_ref() == Some(&name);
    installations.iter().find(of_it).cloned()
}

/// For each kind and type, the namespaces of its primary extension. An installation counts until it is gone: its extension
/// deletes what it has made.
pub(crate) fn primaries(
    registrations: &[Arc<ControllerRegistration>],
    installations: &[Arc<ControllerInstallation>],
    means: impl Fn(&ControllerInstallation) -> Means,
) -> BTreeMap<(ExtensionKind, String), BTreeSet<String>> {
    let mut all: BTreeMap<_, BTreeSet<String>> = BTreeMap::new();
    for installation in installations {
        let name = installation.spec.registration_ref.name.as_deref();
        let registration = registrations.iter().find(|one| Some(one.name_any().as_str()) == name);
        let resources = registration.iter().flat_map(|one| &one.spec.resources);
        for resource in resources.filter(|resource| is_primary(resource)) {
            let Some(kind) = ExtensionKind::of(&resource.kind) else {
                continue;
            };
            let found = namespaces(installation, means(installation));
            let key = (kind, KindType::new(kind, &resource.type_).type_);
            all.entry(key).or_default().extend(found);
        }
    }
    all.retain(|_, namespaces| !namespaces.is_empty());
    all
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn registration(name: &str, resources: &[(&str, &str, bool)]) -> Arc<ControllerRegistration> {
        let resources: Vec<Value> = resources
            .iter()
            .map(|(kind, type_, primary)| json!({"kind": kind, "type": type_, "primary": primary}))
            .collect();
        let object = json!({"metadata": {"name": name}, "spec": {"resources": resources}});
        Arc::new(serde_json::from_value(object).unwrap())
    }

    fn installation(name: &str, registration: &str, provider_status: Value) -> Arc<ControllerInstallation> {
        let object = json!({
            "metadata": {"name": name},
            "spec": {"registrationRef": {"name": registration}, "seedRef": {"name": "s"}},
            "status": {"providerStatus": provider_status},
        });
        Arc::new(serde_json::from_value(object).unwrap())
    }

    fn found(
        registrations: &[Arc<ControllerRegistration>],
        installations: &[Arc<ControllerInstallation>],
        means: Means,
    ) -> Vec<String> {
        let all = primaries(registrations, installations, |_| means);
        all.iter()
            .map(|((kind, type_), namespaces)| format!("{kind}/{type_} {namespaces:?}"))
            .collect()
    }

    #[test]
    fn only_primary_resources_of_known_kinds_have_writers() {
        let registrations = [
            registration(
                "a",
                &[
                    ("Worker", "Moon", true),
                    ("Network", "moon", false),
                    ("Lost", "x", true),
                ],
            ),
            registration("b", &[("Worker", "moon", false), ("Network", "moon", true)]),
        ];
        let installations = [
            installation("a-1", "a", json!({})),
            installation("b-1", "b", json!({})),
            installation("c-1", "gone", json!({})),
        ];
        assert_eq!(
            found(&registrations, &installations, Means::Chart),
            [r#"Network/moon {"extension-b-1"}"#, r#"Worker/moon {"extension-a-1"}"#]
        );
    }

    #[test]
    fn an_operators_namespace_is_the_reported_one_and_none_before() {
        let registrations = [registration("a", &[("Worker", "moon", true)])];
        let of = |status: Value, means| found(&registrations, &[installation("a-1", "a", status)], means);
        let reported = json!({"namespace": "moon-system", "image": "i"});
        assert_eq!(
            of(reported.clone(), Means::Operator),
            [r#"Worker/moon {"moon-system"}"#]
        );
        assert_eq!(
            of(reported, Means::Unknown),
            [r#"Worker/moon {"extension-a-1", "moon-system"}"#]
        );
        for unusable in [
            json!({}),
            json!({"namespace": "a b"}),
            json!({"namespace": 1}),
            json!({"namespace": ""}),
        ] {
            assert!(of(unusable.clone(), Means::Operator).is_empty(), "{unusable}");
        }
    }

    #[test]
    fn two_installations_of_one_primary_both_count() {
        let registrations = [registration("a", &[("Worker", "moon", true)])];
        let both = [installation("a-1", "a", json!({})), installation("a-2", "a", json!({}))];
        assert_eq!(
            found(&registrations, &both, Means::Chart),
            [r#"Worker/moon {"extension-a-1", "extension-a-2"}"#]
        );
    }
}
