//! Who may write the status of extension objects: a policy of admission that kube-apiserver evaluates itself, so that no server
//! of ours must answer, and the parameters that name who may. What the registration document demands (only the primary
//! controller writes what extensions and gardenlet communicate by; gardener/gardener v1.150 docs/extensions/registration.md) is a
//! convention upstream.

use std::collections::{BTreeMap, BTreeSet};

use api_extensions::ExtensionKind;
use api_meta::names;
use k8s_openapi::api::admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding};
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};

use crate::object::typed;

/// Name of the policy and of its binding.
pub const EXTENSION_STATUS_POLICY: &str = "extension-status.orangery.dev";
/// Name of the ConfigMap with its parameters, in namespace `garden`.
pub const EXTENSION_STATUS_WRITERS: &str = "extension-status-writers";
/// The fields of the status that only the primary extension writes.
pub const PRIMARY_FIELDS: [&str; 5] = [
    "lastError",
    "lastOperation",
    "observedGeneration",
    "providerStatus",
    "state",
];
/// The field among them that gardenlet writes when it restores an object.
pub const RESTORED_FIELD: &str = "state";

/// The key of gardenlet's user; every other key has a dot.
const GARDENLET_KEY: &str = "gardenlet";
/// Longest key of a ConfigMap.
const KEY_BYTES_MAX: usize = 253;

/// Who may write the primary fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatusWriters {
    /// The user by which the seed's API server knows gardenlet.
    pub gardenlet: String,
    /// For kind and type, the namespaces whose service accounts may. Whatever is not in it, any user may write that the roles of
    /// the seed let.
    pub namespaces: BTreeMap<(ExtensionKind, String), BTreeSet<String>>,
}

/// The parameters: a key for each kind and type, such as `Infrastructure.local`, whose value is the namespaces, separated by spaces;
/// and gardenlet's user. A type that is no part of a key is left out: no Shoot and no Seed can name it, since types are parts
/// of labels too.
#[must_use]
pub fn extension_status_writers(writers: &StatusWriters) -> ConfigMap {
    let StatusWriters { gardenlet, namespaces } = writers;
    let named = namespaces.iter().filter_map(|((kind, type_), namespaces)| {
        let key = format!("{kind}.{}", type_.to_ascii_lowercase());
        let names: Vec<&str> = namespaces.iter().map(String::as_str).collect();
        (is_key(&key) && !names.is_empty()).then(|| (key, names.join(" ")))
    });
    let own = (GARDENLET_KEY.to_owned(), gardenlet.clone());
    let data: BTreeMap<String, String> = named.chain([own]).collect();
    typed(json!({
        "metadata": {"name": EXTENSION_STATUS_WRITERS, "namespace": names::GARDEN_NAMESPACE, "labels": labels()},
        "data": data,
    }))
}

fn is_key(key: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    key.len() <= KEY_BYTES_MAX && key.bytes().all(allowed)
}

fn labels() -> Value {
    json!({"app.kubernetes.io/part-of": "seed-system", "app.kubernetes.io/managed-by": "gardenlet"})
}

/// The policy. It compares the status before and after a write field by field, so that a writer may send a whole status in
/// which it has changed nothing but conditions. People, and whatever else acts as a user that is no service account, are not
/// confined: they repair.
#[must_use]
pub fn extension_status_policy() -> ValidatingAdmissionPolicy {
    let statuses: Vec<String> = ExtensionKind::ALL
        .iter()
        .map(|kind| format!("{}/status", kind.plural()))
        .collect();
    let variable = |name: &str, expression: &str| json!({"name": name, "expression": expression});
    let fields = PRIMARY_FIELDS.map(|field| format!("'{field}'")).join(", ");
    typed(json!({
        "metadata": {"name": EXTENSION_STATUS_POLICY, "labels": labels()},
        "spec": {
            "failurePolicy": "Fail",
            "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
            "matchConstraints": {"resourceRules": [{
                "apiGroups": [ExtensionKind::GROUP],
                "apiVersions": ["*"],
                "operations": ["UPDATE"],
                "resources": statuses,
            }]},
            // Objects of the class `garden` are of an operator of the garden, which no ControllerInstallation installs.
            "matchConditions": [{
                "name": "of-a-seed-or-shoot",
                "expression": "!has(object.spec.class) || object.spec.class != 'garden'",
            }],
            "variables": [
                variable("user", "request.userInfo.username"),
                variable("key", "request.kind.kind + '.' + object.spec.type.lowerAscii()"),
                variable(
                    "namespaces",
                    "has(params.data) && variables.key in params.data ? params.data[variables.key].split(' ') : []",
                ),
                variable("before", "has(oldObject.status) ? oldObject.status : {}"),
                variable("after", "has(object.status) ? object.status : {}"),
                variable("changed", &changed(&fields)),
                variable(
                    "isGardenlet",
                    &format!(
                        "has(params.data) && '{GARDENLET_KEY}' in params.data \
                         && params.data['{GARDENLET_KEY}'] == variables.user"
                    ),
                ),
                variable("refused", &refused()),
            ],
            "validations": [{
                "expression": "variables.namespaces.size() == 0 || variables.refused.size() == 0",
                "messageExpression": message(),
                "reason": "Forbidden",
            }],
        },
    }))
}

/// The primary fields that the write changes, adds or removes.
fn changed(fields: &str) -> String {
    format!(
        "[{fields}].filter(field, (field in variables.before) != (field in variables.after) \
         || (field in variables.before && variables.before[field] != variables.after[field]))"
    )
}

/// Those that this user may not.
fn refused() -> String {
    format!(
        "variables.isGardenlet ? variables.changed.filter(field, field != '{RESTORED_FIELD}') \
         : !variables.user.startsWith('system:serviceaccount:') \
         || variables.namespaces.exists(name, variables.user.startsWith('system:serviceaccount:' + name + ':')) \
         ? [] : variables.changed"
    )
}

fn message() -> String {
    format!(
        "variables.user + ' may not write status.' + variables.refused.join(', status.') + ' of ' + request.kind.kind + ' ' \
         + (has(object.metadata.namespace) ? object.metadata.namespace + '/' : '') + object.metadata.name + ' of type ' \
         + object.spec.type + ': service accounts of namespace ' + variables.namespaces.join(' or ') + ' may, where the primary \
         extension of this kind and type is installed, and gardenlet status.{RESTORED_FIELD}; to do: write status.conditions alone'"
    )
}

/// The binding of the policy to its parameters. Without them nothing is refused: gardenlet writes them again within moments, and
/// until then every extension works.
#[must_use]
pub fn extension_status_binding() -> ValidatingAdmissionPolicyBinding {
    typed(json!({
        "metadata": {"name": EXTENSION_STATUS_POLICY, "labels": labels()},
        "spec": {
            "policyName": EXTENSION_STATUS_POLICY,
            "paramRef": {
                "name": EXTENSION_STATUS_WRITERS,
                "namespace": names::GARDEN_NAMESPACE,
                "parameterNotFoundAction": "Allow",
            },
            "validationActions": ["Deny"],
        },
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(entries: &[(ExtensionKind, &str, &[&str])]) -> BTreeMap<String, String> {
        let namespaces = entries.iter().map(|(kind, type_, names)| {
            let names = names.iter().map(|name| (*name).to_owned());
            ((*kind, (*type_).to_owned()), names.collect())
        });
        let writers = StatusWriters {
            gardenlet: "g".to_owned(),
            namespaces: namespaces.collect(),
        };
        extension_status_writers(&writers).data.unwrap_or_default()
    }

    #[test]
    fn parameters_name_namespaces_by_kind_and_type_and_gardenlets_user() {
        let data = data(&[
            (ExtensionKind::Worker, "Moon", &["extension-b", "extension-a"]),
            (ExtensionKind::Network, "moon", &["extension-a"]),
        ]);
        let expected = [
            ("Network.moon", "extension-a"),
            ("Worker.moon", "extension-a extension-b"),
            ("gardenlet", "g"),
        ];
        let expected = expected.map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(data, BTreeMap::from(expected));
    }

    #[test]
    fn a_type_without_namespaces_or_that_fits_no_key_has_no_parameter() {
        let long = "x".repeat(KEY_BYTES_MAX);
        let data = data(&[
            (ExtensionKind::Worker, "a/b", &["n"]),
            (ExtensionKind::Worker, &long, &["n"]),
            (ExtensionKind::Worker, "none", &[]),
        ]);
        assert_eq!(data.into_keys().collect::<Vec<_>>(), [GARDENLET_KEY]);
    }
}
