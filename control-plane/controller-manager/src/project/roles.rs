//! What members of a project may do (gardener/gardener v1.150 pkg/controllermanager/controller/project,
//! charts/gardener/controlplane). Pure builders: roles for all projects, and for each what binds its members.

use std::collections::BTreeSet;

use api_core::v1beta1::{Project, ProjectMember};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, RoleBinding, RoleRef, Subject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, ResourceExt};

const RBAC: &str = "rbac.authorization.k8s.io";
/// Groups whose objects project members work with.
const GARDEN_GROUPS: [&str; 4] = [
    "core.gardener.cloud",
    "settings.gardener.cloud",
    "operations.gardener.cloud",
    "security.gardener.cloud",
];
const READ: [&str; 3] = ["get", "list", "watch"];
const WRITE: [&str; 8] = [
    "get",
    "list",
    "watch",
    "create",
    "update",
    "patch",
    "delete",
    "deletecollection",
];
/// Prefix of roles that extensions bring.
const EXTENSION_ROLE_PREFIX: &str = "extension:";

/// ClusterRole that a role of a project is bound to in its namespace.
const NAMESPACE_ROLES: [(&str, &str); 3] = [
    ("admin", "gardener.cloud:system:project-member"),
    ("viewer", "gardener.cloud:system:project-viewer"),
    (
        "serviceaccountmanager",
        "gardener.cloud:system:project-serviceaccountmanager",
    ),
];

fn rule(groups: &[&str], resources: &[&str], verbs: &[&str]) -> PolicyRule {
    let texts = |texts: &[&str]| texts.iter().map(ToString::to_string).collect::<Vec<_>>();
    PolicyRule {
        api_groups: Some(texts(groups)),
        resources: Some(texts(resources)),
        verbs: texts(verbs),
        ..PolicyRule::default()
    }
}

/// The roles that all projects share.
pub(crate) fn shared() -> Vec<ClusterRole> {
    let kinds = [
        "bastions",
        "credentialsbindings",
        "namespacedcloudprofiles",
        "quotas",
        "secretbindings",
        "shoots",
        "workloadidentities",
        "openidconnectpresets",
    ];
    // What gardenlet writes about a Shoot and what its rescue hangs on: for members to look at.
    let of_gardenlet = ["backupentries", "shootstates"];
    let member = vec![
        rule(&GARDEN_GROUPS, &kinds, &WRITE),
        rule(&GARDEN_GROUPS, &of_gardenlet, &READ),
        rule(
            &["core.gardener.cloud"],
            &["shoots/adminkubeconfig", "shoots/viewerkubeconfig"],
            &["create"],
        ),
        rule(&[""], &["secrets", "configmaps"], &WRITE),
        rule(&["", "events.k8s.io"], &["events"], &READ),
        rule(&[""], &["resourcequotas", "serviceaccounts"], &READ),
        rule(&[RBAC], &["roles", "rolebindings"], &WRITE),
    ];
    let viewer = vec![
        rule(&GARDEN_GROUPS, &kinds, &READ),
        rule(&GARDEN_GROUPS, &of_gardenlet, &READ),
        rule(&["core.gardener.cloud"], &["shoots/viewerkubeconfig"], &["create"]),
        rule(&[""], &["configmaps", "resourcequotas", "serviceaccounts"], &READ),
        rule(&["", "events.k8s.io"], &["events"], &READ),
        rule(&[RBAC], &["roles", "rolebindings"], &READ),
    ];
    let accounts = vec![
        rule(&[""], &["serviceaccounts"], &WRITE),
        rule(&[""], &["serviceaccounts/token"], &["create"]),
    ];
    NAMESPACE_ROLES
        .into_iter()
        .zip([member, viewer, accounts])
        .map(|((_, name), rules)| ClusterRole {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                ..ObjectMeta::default()
            },
            rules: Some(rules),
            ..ClusterRole::default()
        })
        .collect()
}

/// Everything that gives one project's members their rights.
#[derive(Debug)]
pub(crate) struct Roles {
    /// Rights on the Project object itself.
    pub(crate) cluster_roles: Vec<ClusterRole>,
    pub(crate) cluster_bindings: Vec<ClusterRoleBinding>,
    /// Rights in the namespace.
    pub(crate) bindings: Vec<RoleBinding>,
}

/// The roles of one project with this namespace.
pub(crate) fn of_project(project: &Project, namespace: &str) -> Roles {
    let name = project.name_any();
    let mut roles = Roles {
        cluster_roles: Vec::new(),
        cluster_bindings: Vec::new(),
        bindings: Vec::new(),
    };
    let on_project: [(&str, String, &[&str]); 3] = [
        (
            "admin",
            format!("gardener.cloud:system:project:{name}"),
            &["get", "patch", "update", "delete"],
        ),
        (
            "viewer",
            format!("gardener.cloud:system:project-viewer:{name}"),
            &["get"],
        ),
        (
            "uam",
            format!("gardener.cloud:system:project-uam:{name}"),
            &["get", "patch", "update", "manage-members"],
        ),
    ];
    for (role, role_name, verbs) in on_project {
        let mut rule = rule(&["core.gardener.cloud"], &["projects"], verbs);
        rule.resource_names = Some(vec![name.clone()]);
        let metadata = owned(project, role_name.clone());
        roles.cluster_bindings.push(ClusterRoleBinding {
            metadata: metadata.clone(),
            role_ref: role_ref(&role_name),
            subjects: Some(members_with(project, role)),
        });
        roles.cluster_roles.push(ClusterRole {
            metadata,
            rules: Some(vec![rule]),
            ..ClusterRole::default()
        });
    }
    let extension_roles: BTreeSet<&str> = project
        .spec
        .members
        .iter()
        .flat_map(roles_of)
        .filter(|role| role.starts_with(EXTENSION_ROLE_PREFIX))
        .collect();
    let extension_roles = extension_roles.into_iter().map(|role| {
        let extension = role.trim_start_matches(EXTENSION_ROLE_PREFIX);
        (role, format!("gardener.cloud:extension:project:{name}:{extension}"))
    });
    let fixed = NAMESPACE_ROLES
        .into_iter()
        .map(|(role, role_name)| (role, role_name.to_owned()));
    for (role, role_name) in fixed.chain(extension_roles) {
        let metadata = ObjectMeta {
            namespace: Some(namespace.to_owned()),
            ..owned(project, role_name.clone())
        };
        roles.bindings.push(RoleBinding {
            metadata,
            role_ref: role_ref(&role_name),
            subjects: Some(members_with(project, role)),
        });
    }
    roles
}

fn roles_of(member: &ProjectMember) -> impl Iterator<Item = &str> {
    std::iter::once(member.role.as_str()).chain(member.roles.iter().map(String::as_str))
}

/// Roles that an owner holds without being given them.
const ROLES_OF_OWNER: [&str; 3] = ["admin", "uam", "serviceaccountmanager"];

/// Members with a role; the owner has those of [`ROLES_OF_OWNER`].
fn members_with(project: &Project, role: &str) -> Vec<Subject> {
    let holds = |member: &&ProjectMember| {
        roles_of(member).any(|held| held == role || (held == "owner" && ROLES_OF_OWNER.contains(&role)))
    };
    let members = project.spec.members.iter().filter(holds).map(|member| Subject {
        api_group: member
            .api_group
            .clone()
            .or_else(|| (member.kind != "ServiceAccount").then(|| RBAC.to_owned())),
        kind: member.kind.clone(),
        name: member.name.clone(),
        namespace: member.namespace.clone(),
    });
    members.collect()
}

fn owned(project: &Project, name: String) -> ObjectMeta {
    ObjectMeta {
        name: Some(name),
        owner_references: project.controller_owner_ref(&()).map(|owner| vec![owner]),
        ..ObjectMeta::default()
    }
}

fn role_ref(name: &str) -> RoleRef {
    RoleRef {
        api_group: RBAC.to_owned(),
        kind: "ClusterRole".to_owned(),
        name: name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_member_is_bound_by_its_roles_and_no_more() {
        let project: Project = serde_json::from_value(json!({"metadata": {"name": "dev", "uid": "u"}, "spec": {"members": [
            {"kind": "User", "name": "ada", "role": "owner"},
            {"kind": "ServiceAccount", "name": "robot", "namespace": "garden-dev", "role": "viewer", "roles": ["extension:logs"]}]}}))
        .unwrap();
        let roles = of_project(&project, "garden-dev");
        let bound: Vec<(String, Vec<String>)> = roles
            .bindings
            .iter()
            .map(|binding| {
                (
                    binding.name_any(),
                    binding.subjects.iter().flatten().map(|s| s.name.clone()).collect(),
                )
            })
            .collect();
        let expect = |role: &str, names: &[&str]| {
            (
                role.to_owned(),
                names.iter().map(ToString::to_string).collect::<Vec<_>>(),
            )
        };
        assert_eq!(
            bound,
            [
                expect("gardener.cloud:system:project-member", &["ada"]),
                expect("gardener.cloud:system:project-viewer", &["robot"]),
                expect("gardener.cloud:system:project-serviceaccountmanager", &["ada"]),
                expect("gardener.cloud:extension:project:dev:logs", &["robot"]),
            ]
        );
        let admin = &roles.cluster_bindings[0].subjects.as_ref().unwrap()[0];
        assert_eq!((admin.name.as_str(), admin.api_group.as_deref()), ("ada", Some(RBAC)));
        let names = roles.cluster_roles[0].rules.as_ref().unwrap()[0].resource_names.clone();
        assert_eq!(names, Some(vec!["dev".to_owned()]));
        assert_eq!(shared().len(), NAMESPACE_ROLES.len());
    }

    #[test]
    fn members_look_at_what_gardenlet_writes_and_change_none_of_it() {
        let verbs = |role: &ClusterRole, resource: &str| -> Vec<String> {
            let rules = role.rules.iter().flatten();
            let about = rules.filter(|rule| rule.resources.iter().flatten().any(|one| one == resource));
            about.flat_map(|rule| rule.verbs.clone()).collect()
        };
        let roles = shared();
        for role in &roles[..2] {
            for resource in ["backupentries", "shootstates"] {
                assert_eq!(verbs(role, resource), READ, "{} {resource}", role.name_any());
            }
        }
        assert_eq!(verbs(&roles[0], "shoots"), WRITE);
    }
}
