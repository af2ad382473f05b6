//! Defaults and rules of Projects (gardener/gardener v1.150 pkg/apis/core/v1beta1/defaults_project.go,
//! pkg/api/core/validation/project.go).

use std::collections::BTreeSet;
use std::ops::Deref;

use api_core::v1beta1::{Project, ProjectMember, ProjectSpec, Toleration};
use api_meta::names::{GARDEN_NAMESPACE, PROJECT_NAMESPACE_PREFIX, SEED_TAINT_PROTECTED};
use k8s_openapi::api::rbac::v1::Subject;

use crate::checks::{distinct, dns_label, name, not_empty, repeats};
use crate::{FieldError, Path};

/// Longest project name: with the shoot's name it must fit into names of cloud resources.
const PROJECT_NAME_BYTES_MAX: usize = 10;
/// Roles without prefix.
const ROLES: [&str; 5] = ["admin", "owner", "serviceaccountmanager", "uam", "viewer"];
/// API group of users and groups.
const RBAC: &str = "rbac.authorization.k8s.io";
/// Prefix of roles that extensions bring.
const EXTENSION_ROLE_PREFIX: &str = "extension:";

/// Writes defaults into a project. `creator` is the user of the request, on creation only.
///
/// The creator becomes `createdBy`, whatever the request has, and, if there is none, the owner; the owner is always a
/// member as admin and owner, and no other member is.
pub fn default_project(project: &mut Project, creator: Option<&Subject>) {
    let spec = &mut project.spec;
    if let Some(creator) = creator {
        spec.created_by = Some(creator.clone());
    }
    default_subjects(spec);
    if spec.owner.is_none() && creator.is_some() {
        let owner = spec
            .members
            .iter()
            .find(|member| has_role(member, "owner"))
            .map(subject_of);
        spec.owner = owner.or_else(|| spec.created_by.clone());
    }
    if let Some(owner) = spec.owner.clone() {
        let member = spec.members.iter_mut().find(|member| subject_of(member) == owner);
        match member {
            Some(member) if has_role(member, "owner") => {}
            Some(member) => member.roles.push("owner".into()),
            None => spec.members.push(ProjectMember {
                kind: owner.kind,
                api_group: owner.api_group,
                name: owner.name,
                namespace: owner.namespace,
                role: "admin".into(),
                roles: vec!["owner".into()],
            }),
        }
    }
    for member in &mut spec.members {
        let owns = spec.owner.as_ref().is_none_or(|owner| subject_of(member) == *owner);
        if !owns {
            member.roles.retain(|role| role != "owner");
        }
        if member.role.is_empty() && !member.roles.is_empty() {
            member.role = member.roles.remove(0);
        }
    }
    if spec.namespace.as_deref() == Some(GARDEN_NAMESPACE) {
        let tolerations = spec.tolerations.get_or_insert_default();
        for list in [&mut tolerations.defaults, &mut tolerations.whitelist] {
            if !list.iter().any(|toleration| toleration.key == SEED_TAINT_PROTECTED) {
                list.push(Toleration {
                    key: SEED_TAINT_PROTECTED.to_owned(),
                    value: None,
                });
            }
        }
    }
}

/// Users and groups are of RBAC's API group; a member without any role may look.
fn default_subjects(spec: &mut ProjectSpec) {
    let complete = |kind: &str, group: &mut Option<String>| {
        if matches!(kind, "User" | "Group") && group.as_ref().is_none_or(String::is_empty) {
            *group = Some(RBAC.to_owned());
        }
    };
    if let Some(owner) = &mut spec.owner {
        complete(&owner.kind, &mut owner.api_group);
    }
    for member in &mut spec.members {
        complete(&member.kind, &mut member.api_group);
        if member.role.is_empty() && member.roles.is_empty() {
            member.role = "viewer".to_owned();
        }
    }
}

/// Several projects name a namespace and no label decides between them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "several Projects name namespace {0}, and it has no label project.gardener.cloud/name; set the label to one of them"
)]
pub struct SeveralProjects(String);

/// The project of a namespace: the one in its label `project.gardener.cloud/name`, if that project names the namespace,
/// too; without the label the only project that names it. Gardener has no label here and takes any of several
/// (gardener/gardener v1.150 plugin/pkg/utils/project.go).
///
/// # Errors
/// Several projects name the namespace, and no label decides.
pub fn project_of_namespace<P: Deref<Target = Project>>(
    namespace: &str,
    label: Option<&str>,
    projects: impl IntoIterator<Item = P>,
) -> Result<Option<P>, SeveralProjects> {
    project_among(namespace, label, projects, |project| {
        let owned = project.spec.namespace.as_deref();
        (name(&project.metadata), owned.unwrap_or_default())
    })
}

/// The same for projects of any form, whose name and namespace `identify` returns.
///
/// # Errors
/// As [`project_of_namespace`].
pub fn project_among<P>(
    namespace: &str,
    label: Option<&str>,
    projects: impl IntoIterator<Item = P>,
    identify: impl Fn(&P) -> (&str, &str),
) -> Result<Option<P>, SeveralProjects> {
    let mut naming = projects.into_iter().filter(|project| identify(project).1 == namespace);
    if let Some(owner) = label.filter(|label| !label.is_empty()) {
        return Ok(naming.find(|project| identify(project).0 == owner));
    }
    match (naming.next(), naming.next()) {
        (Some(_), Some(_)) => Err(SeveralProjects(namespace.to_owned())),
        (only, _) => Ok(only),
    }
}

fn has_role(member: &ProjectMember, role: &str) -> bool {
    member.role == role || member.roles.iter().any(|other| other == role)
}

fn subject_of(member: &ProjectMember) -> Subject {
    Subject {
        kind: member.kind.clone(),
        api_group: member.api_group.clone(),
        name: member.name.clone(),
        namespace: member.namespace.clone(),
    }
}

/// Everything that is wrong with a project by itself.
pub fn validate_project(project: &Project) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let path = Path::new("metadata.name");
    let name = name(&project.metadata);
    dns_label(&mut errors, &path, name);
    if name.len() > PROJECT_NAME_BYTES_MAX {
        errors.push(path.too_long(name, PROJECT_NAME_BYTES_MAX));
    }
    if name.contains("--") {
        errors.push(path.invalid(
            name,
            "must not contain two hyphens in a row, they separate parts of names; take one",
        ));
    }
    let spec = Path::new("spec");
    for (field, text) in [
        ("description", &project.spec.description),
        ("purpose", &project.spec.purpose),
    ] {
        if text.as_ref().is_some_and(String::is_empty) {
            errors.push(
                spec.child(field)
                    .required("must not be empty when it is given; leave it out"),
            );
        }
    }
    if let Some(owner) = &project.spec.owner {
        not_empty(&mut errors, &spec.child("owner.name"), &owner.name);
    }
    validate_approvals(&mut errors, &spec.child("dualApprovalForDeletion"), project);
    if let Some(namespace) = &project.spec.namespace {
        let path = spec.child("namespace");
        dns_label(&mut errors, &path, namespace);
        if namespace != GARDEN_NAMESPACE && !namespace.starts_with(PROJECT_NAMESPACE_PREFIX) {
            errors.push(path.invalid(namespace, "must be \"garden\" or start with \"garden-\"; leave it out and the project gets a namespace of its name"));
        }
    }
    validate_members(&mut errors, &spec.child("members"), &project.spec.members);
    if let Some(tolerations) = &project.spec.tolerations {
        let lists = [
            ("defaults", &tolerations.defaults),
            ("whitelist", &tolerations.whitelist),
        ];
        for (field, list) in lists {
            let path = spec.child("tolerations").child(field);
            let repeated = repeats(list.iter().map(|toleration| (&toleration.key, &toleration.value)));
            for ((index, toleration), repeated) in list.iter().enumerate().zip(repeated) {
                not_empty(&mut errors, &path.index(index).child("key"), &toleration.key);
                if repeated {
                    errors.push(path.index(index).duplicate(&toleration.key));
                }
            }
        }
        let whitelist = tolerations.whitelist.iter();
        let whitelist: BTreeSet<_> = whitelist
            .map(|toleration| (&toleration.key, &toleration.value))
            .collect();
        for (index, toleration) in tolerations.defaults.iter().enumerate() {
            if !whitelist.contains(&(&toleration.key, &toleration.value)) {
                let path = spec.child("tolerations.defaults").index(index);
                errors.push(path.forbidden("only tolerations of the whitelist are allowed; add it there"));
            }
        }
    }
    errors
}

/// Deletions of Shoots alone can need two people.
fn validate_approvals(errors: &mut Vec<FieldError>, path: &Path, project: &Project) {
    const RESOURCES: [&str; 1] = ["shoots"];
    let resources = || {
        project
            .spec
            .dual_approval_for_deletion
            .iter()
            .map(|entry| entry.resource.as_str())
    };
    distinct(errors, resources(), |index| path.index(index).child("resource"));
    for (index, resource) in resources().enumerate() {
        let path = path.index(index).child("resource");
        if !RESOURCES.contains(&resource) {
            errors.push(path.not_supported(resource, &RESOURCES));
        }
    }
}

fn validate_members(errors: &mut Vec<FieldError>, path: &Path, members: &[ProjectMember]) {
    let keys: Vec<String> = members
        .iter()
        .map(|m| format!("{}/{}/{}", m.kind, m.namespace.as_deref().unwrap_or_default(), m.name))
        .collect();
    distinct(errors, keys.iter().map(String::as_str), |index| path.index(index));
    for (index, member) in members.iter().enumerate() {
        let path = path.index(index);
        not_empty(errors, &path.child("name"), &member.name);
        match member.kind.as_str() {
            "User" | "Group" => {}
            "ServiceAccount" if member.namespace.is_some() => {}
            "ServiceAccount" => errors.push(path.child("namespace").required("service accounts live in a namespace")),
            kind => errors.push(
                path.child("kind")
                    .not_supported(kind, &["User", "Group", "ServiceAccount"]),
            ),
        }
        // `role` is the first of the roles.
        let roles = std::iter::once(&member.role).chain(&member.roles).enumerate();
        for (index, role) in roles {
            let path = path.child("roles").index(index);
            let extension = role
                .strip_prefix(EXTENSION_ROLE_PREFIX)
                .is_some_and(|name| !name.is_empty());
            if !extension && !ROLES.contains(&role.as_str()) {
                errors.push(path.not_supported(role, &[&ROLES[..], &["extension:<name>"]].concat()));
            }
        }
    }
}

/// Everything that is wrong with a change of a project.
pub fn validate_project_update(new: &Project, old: &Project) -> Vec<FieldError> {
    let mut errors = validate_project(new);
    let spec = Path::new("spec");
    errors.extend(
        spec.child("createdBy")
            .immutable(&new.spec.created_by, &old.spec.created_by),
    );
    if old.spec.namespace.is_some() {
        errors.extend(
            spec.child("namespace")
                .immutable(&new.spec.namespace, &old.spec.namespace),
        );
    }
    if old.spec.owner.is_some() && new.spec.owner.is_none() {
        errors.push(
            spec.child("owner")
                .invalid(&new.spec.owner, "a project keeps an owner; name another one instead"),
        );
    }
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn project(name: &str, spec: serde_json::Value) -> Project {
        serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap()
    }

    #[test]
    fn a_namespace_belongs_to_its_labelled_project_never_to_the_first_of_several() {
        let project = |name: &str, namespace: &str| {
            let mut project = Project::default();
            project.metadata.name = Some(name.into());
            project.spec.namespace = Some(namespace.into());
            project
        };
        let projects = [project("a", "x"), project("b", "x"), project("c", "y")];
        let owner = |namespace: &str, label: Option<&str>| {
            let found = project_of_namespace(namespace, label, &projects);
            found.map(|found| found.and_then(|project| project.metadata.name.clone()))
        };
        let is = |name: &str| Ok(Some(name.to_owned()));
        assert_eq!(owner("x", Some("b")), is("b"));
        let several = owner("x", None).unwrap_err().to_string();
        assert!(several.contains("several Projects name namespace x"), "{several}");
        assert_eq!(owner("x", Some("")), owner("x", None));
        assert_eq!(owner("y", None), is("c"));
        assert_eq!(owner("y", Some("a")), Ok(None), "a has another");
        assert_eq!(owner("z", None), Ok(None));
    }

    #[test]
    fn the_creator_becomes_owner_and_member() {
        let mut mine = project("dev", json!({}));
        let creator: Subject =
            serde_json::from_value(json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ada"}))
                .unwrap();
        default_project(&mut mine, Some(&creator));
        let again = mine.clone();
        default_project(&mut mine, None);
        assert_eq!(mine, again, "defaults settle");
        assert_eq!(mine.spec.owner, Some(creator));
        assert_eq!(
            (mine.spec.members[0].role.as_str(), &mine.spec.members[0].roles[..]),
            ("admin", &["owner".to_owned()][..])
        );
        assert_eq!(validate_project(&mine), []);
    }

    #[test]
    fn each_rule_names_the_field() {
        let cases = [
            (project("much-too-long", json!({})), "metadata.name"),
            (project("a--b", json!({})), "metadata.name"),
            (project("dev", json!({"namespace": "kube-system"})), "spec.namespace"),
            (
                project(
                    "dev",
                    json!({"members": [{"kind": "User", "name": "a", "role": "king"}]}),
                ),
                "spec.members[0].roles[0]",
            ),
            (
                project(
                    "dev",
                    json!({"members": [{"kind": "Robot", "name": "a", "role": "admin"}]}),
                ),
                "spec.members[0].kind",
            ),
            (
                project(
                    "dev",
                    json!({"members": [{"kind": "User", "name": "a", "role": "admin"}, {"kind": "User", "name": "a", "role": "viewer"}]}),
                ),
                "spec.members[1]",
            ),
            (project("dev", json!({"description": ""})), "spec.description"),
            (project("dev", json!({"purpose": ""})), "spec.purpose"),
            (project("dev", json!({"owner": {"kind": "User"}})), "spec.owner.name"),
            (
                project("dev", json!({"dualApprovalForDeletion": [{"resource": "pods"}]})),
                "spec.dualApprovalForDeletion[0].resource",
            ),
            (
                project(
                    "dev",
                    json!({"dualApprovalForDeletion": [{"resource": "shoots"}, {"resource": "shoots"}]}),
                ),
                "spec.dualApprovalForDeletion[1].resource",
            ),
            (
                project("dev", json!({"tolerations": {"whitelist": [{}]}})),
                "spec.tolerations.whitelist[0].key",
            ),
            (
                project("dev", json!({"tolerations": {"defaults": [{"key": "a"}]}})),
                "spec.tolerations.defaults[0]",
            ),
        ];
        for (object, path) in cases {
            let found = validate_project(&object);
            assert_eq!(found.iter().map(|e| e.path.as_str()).collect::<Vec<_>>(), [path]);
        }
        let fine = project(
            "dev",
            json!({"members": [{"kind": "User", "name": "a", "role": "extension:x"}]}),
        );
        assert_eq!(validate_project(&fine), []);
        let moved = validate_project_update(
            &project("dev", json!({"namespace": "garden-b"})),
            &project("dev", json!({"namespace": "garden-a"})),
        );
        assert_eq!(moved[0].path, "spec.namespace");
    }
}
