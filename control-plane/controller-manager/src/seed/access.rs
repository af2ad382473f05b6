//! Who may do what in a seed's namespace of the garden: its gardenlet makes service accounts there, and its extensions,
//! who act as these, see what is there and nothing of another seed. Pure.

use api_core::v1beta1::Seed;
use api_meta::names::{SEED_USER_PREFIX, seed_namespace};
use k8s_openapi::api::rbac::v1::{RoleBinding, RoleRef, Subject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;

const GROUP: &str = "rbac.authorization.k8s.io";
/// Role of the gardenlet; the binding is called like it.
const OF_GARDENLET: &str = "gardener.cloud:system:seed-namespace";
/// Role of the extensions; the binding is called like it.
const OF_EXTENSIONS: &str = "gardener.cloud:system:extensions";
/// Group of all service accounts of a namespace, before its name.
const ACCOUNTS_PREFIX: &str = "system:serviceaccounts:";
/// On the namespace, once all of [`bindings`] are there. Another value has them written again.
pub(super) const DONE: (&str, &str) = ("access.orangery.dev/bindings", "1");

/// The bindings in the namespace of a seed.
pub(super) fn bindings(seed: &Seed) -> [RoleBinding; 2] {
    let name = seed.name_any();
    let namespace = seed_namespace(&name);
    [
        binding(&namespace, OF_GARDENLET, "User", format!("{SEED_USER_PREFIX}{name}")),
        binding(
            &namespace,
            OF_EXTENSIONS,
            "Group",
            format!("{ACCOUNTS_PREFIX}{namespace}"),
        ),
    ]
}

fn binding(namespace: &str, role: &str, kind: &str, subject: String) -> RoleBinding {
    RoleBinding {
        metadata: ObjectMeta {
            name: Some(role.to_owned()),
            namespace: Some(namespace.to_owned()),
            ..ObjectMeta::default()
        },
        role_ref: RoleRef {
            api_group: GROUP.to_owned(),
            kind: "ClusterRole".to_owned(),
            name: role.to_owned(),
        },
        subjects: Some(vec![Subject {
            api_group: Some(GROUP.to_owned()),
            kind: kind.to_owned(),
            name: subject,
            namespace: None,
        }]),
    }
}
