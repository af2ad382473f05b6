//! What gardenlet and extensions of a seed may do in the seed's own namespace of the garden, and nowhere else. A role of
//! all seeds would reach into every seed's namespace; these end at one's own (facts: gardener/gardener v1.150
//! `pkg/admissioncontroller/webhook/auth/seed`). Pure, but for writing what differs.

use api_core::v1beta1::Seed;
use api_meta::names::seed_namespace;
use api_meta::{Fault, labels};
use base_client::apply;
use base_controller::ObjectKey;
use k8s_openapi::api::rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef, Subject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;

use crate::context::{Context, MANAGER};

const RBAC_GROUP: &str = "rbac.authorization.k8s.io";
/// Role of the seed's gardenlet: accounts of extensions, and tokens for them.
const GARDENLET: &str = "gardener.cloud:system:seed";
/// Role of the extensions that run in the seed, each under a service account of the seed's namespace.
const EXTENSIONS: &str = "gardener.cloud:system:extensions";

const READ: [&str; 3] = ["get", "list", "watch"];

/// Brings roles and bindings of the seed's namespace to what they should be; writes only what differs.
///
/// # Errors
/// What the garden returns, as long as the namespace is not there.
pub(super) async fn reconcile(context: &Context, seed: &Seed) -> Result<(), Fault> {
    let (caches, name) = (&context.caches, seed.name_any());
    let namespace = seed_namespace(&name);
    caches.seed_roles.ready().await;
    caches.seed_role_bindings.ready().await;
    let key = |object: &str| ObjectKey::namespaced(&namespace, object);
    for role in roles(&namespace) {
        let there = caches.seed_roles.get(&key(&role.name_any()));
        if there.is_none_or(|there| there.rules != role.rules) {
            apply(&context.namespaced(&namespace), &role, MANAGER).await?;
        }
    }
    for binding in bindings(&name, &namespace) {
        let there = caches.seed_role_bindings.get(&key(&binding.name_any()));
        if there.is_none_or(|there| there.subjects != binding.subjects) {
            apply(&context.namespaced(&namespace), &binding, MANAGER).await?;
        }
    }
    Ok(())
}

/// The seed whose namespace an object is in.
pub(super) fn seed_of(namespace: Option<&str>) -> Vec<ObjectKey> {
    let prefix = seed_namespace("");
    let name = namespace.and_then(|namespace| namespace.strip_prefix(&prefix));
    name.map(ObjectKey::cluster).into_iter().collect()
}

fn roles(namespace: &str) -> [Role; 2] {
    let role = |name: &str, rules: Vec<PolicyRule>| Role {
        metadata: metadata(name, namespace),
        rules: Some(rules),
    };
    let accounts = ["create", "get", "list", "watch", "update", "patch", "delete"];
    let leases = [
        "create",
        "get",
        "list",
        "watch",
        "update",
        "patch",
        "delete",
        "deletecollection",
    ];
    [
        role(
            GARDENLET,
            vec![
                rule("", "serviceaccounts", &accounts),
                rule("", "serviceaccounts/token", &["create"]),
            ],
        ),
        role(
            EXTENSIONS,
            vec![
                // Its own namespace alone: a role of a namespace reaches no other.
                rule("", "namespaces", &["get"]),
                rule("", "configmaps", &READ),
                rule("", "secrets", &READ),
                rule("coordination.k8s.io", "leases", &leases),
                rule("", "events", &["create", "patch"]),
                rule("events.k8s.io", "events", &["create", "patch"]),
            ],
        ),
    ]
}

fn bindings(seed: &str, namespace: &str) -> [RoleBinding; 2] {
    let binding = |role: &str, kind: &str, subject: String| RoleBinding {
        metadata: metadata(role, namespace),
        role_ref: RoleRef {
            api_group: RBAC_GROUP.to_owned(),
            kind: "Role".to_owned(),
            name: role.to_owned(),
        },
        subjects: Some(vec![Subject {
            api_group: Some(RBAC_GROUP.to_owned()),
            kind: kind.to_owned(),
            name: subject,
            namespace: None,
        }]),
    };
    [
        binding(GARDENLET, "User", format!("gardener.cloud:system:seed:{seed}")),
        binding(EXTENSIONS, "Group", format!("system:serviceaccounts:{namespace}")),
    ]
}

fn metadata(name: &str, namespace: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: Some(namespace.to_owned()),
        labels: Some([(labels::ROLE.to_owned(), labels::role::SEED.to_owned())].into()),
        ..ObjectMeta::default()
    }
}

fn rule(group: &str, resource: &str, verbs: &[&str]) -> PolicyRule {
    PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(vec![resource.to_owned()]),
        verbs: verbs.iter().map(|verb| (*verb).to_owned()).collect(),
        ..PolicyRule::default()
    }
}
