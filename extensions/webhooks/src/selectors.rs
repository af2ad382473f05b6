//! By which labels webhooks of extensions select namespaces and objects (gardener/gardener v1.150 extensions/pkg/webhook). Pure.

use api_meta::{labels, names};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

use crate::webhook::labelled;

/// Namespaces of shoots whose provider is of this type.
#[must_use]
pub fn shoots_of_provider(type_: &str) -> LabelSelector {
    is_in(&[(labels::SHOOT_PROVIDER, type_)])
}

/// Namespaces of shoots in seeds whose provider is of this type.
#[must_use]
pub fn seeds_of_provider(type_: &str) -> LabelSelector {
    is_in(&[(labels::SEED_PROVIDER, type_)])
}

/// Namespaces of shoots whose backups are kept by a provider of this type.
#[must_use]
pub fn backups_of_provider(type_: &str) -> LabelSelector {
    is_in(&[(labels::BACKUP_PROVIDER, type_)])
}

/// Namespaces of shoots with this network, of this provider.
#[must_use]
pub fn shoots_of_network(network: &str, provider: &str) -> LabelSelector {
    is_in(&[
        (labels::SHOOT_PROVIDER, provider),
        (labels::NETWORKING_PROVIDER, network),
    ])
}

/// Namespaces of shoots with an Extension of this type.
#[must_use]
pub fn shoots_with_extension(type_: &str) -> LabelSelector {
    is_in(&[(&format!("{}{type_}", labels::EXTENSION_PREFIX), "true")])
}

/// In a shoot: the namespace of its system components.
#[must_use]
pub fn system_namespaces() -> LabelSelector {
    is_in(&[(labels::PURPOSE, names::SYSTEM_NAMESPACE)])
}

/// Objects that gardenlet expects the shoot's provider to change.
#[must_use]
pub fn marked() -> LabelSelector {
    labelled(labels::MUTATED_BY_CONTROL_PLANE_WEBHOOK, "true")
}

/// Objects of the garden with a label of their types: `prefix` is one of [`labels::extension_types`].
#[must_use]
pub(crate) fn in_garden(prefix: &str, type_: &str) -> LabelSelector {
    labelled(&format!("{prefix}{type_}"), "true")
}

fn is_in(pairs: &[(&str, &str)]) -> LabelSelector {
    let requirements = pairs.iter().map(|(key, value)| LabelSelectorRequirement {
        key: (*key).to_owned(),
        operator: "In".to_owned(),
        values: Some(vec![(*value).to_owned()]),
    });
    LabelSelector {
        match_expressions: Some(requirements.collect()),
        ..LabelSelector::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn selectors_are_those_of_gardeners_library() {
        let is_in = |key: &str, value: &str| json!({"key": key, "operator": "In", "values": [value]});
        let (shoot, network) = (
            "shoot.gardener.cloud/provider",
            "networking.shoot.gardener.cloud/provider",
        );
        for (selector, requirements) in [
            (shoots_of_provider("x"), vec![is_in(shoot, "x")]),
            (seeds_of_provider("x"), vec![is_in("seed.gardener.cloud/provider", "x")]),
            (
                backups_of_provider("x"),
                vec![is_in("backup.gardener.cloud/provider", "x")],
            ),
            (
                shoots_of_network("n", "x"),
                vec![is_in(shoot, "x"), is_in(network, "n")],
            ),
            (
                shoots_with_extension("e"),
                vec![is_in("extensions.gardener.cloud/e", "true")],
            ),
            (
                system_namespaces(),
                vec![is_in("gardener.cloud/purpose", "kube-system")],
            ),
        ] {
            assert_eq!(json!(selector), json!({"matchExpressions": requirements}));
        }
        let marked_by = "provider.extensions.gardener.cloud/mutated-by-controlplane-webhook";
        assert_eq!(json!(marked()), json!({"matchLabels": {marked_by: "true"}}));
        let of_fake = json!({"matchLabels": {"provider.extensions.gardener.cloud/fake": "true"}});
        assert_eq!(json!(in_garden(labels::extension_types::PROVIDER, "fake")), of_fake);
    }
}
