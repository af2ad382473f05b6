//! A user who changes the owner or the human members of a Project is its owner or needs the verb `manage-members` on it
//! (gardener/gardener v1.150 plugin/pkg/global/customverbauthorizer). Service accounts are the admins' to add, but not
//! with roles that admins do not have: that would be a way around.

use std::collections::BTreeSet;

use api_meta::names::SERVICE_ACCOUNT_USER_PREFIX;
use cluster_apiserver::kind::Review;
use cluster_apiserver::{Status, User};
use serde_json::Value;

use super::{Plugin, Verdict, writes_object};
use crate::AdmissionPlugin;
use crate::convert::{CORE, text};

const VERB: &str = "manage-members";
/// Roles that give what an admin does not have.
const BEYOND_ADMIN: [&str; 3] = ["owner", "uam", "serviceaccountmanager"];

/// Validates changes of `spec.owner` and `spec.members`.
pub(crate) struct ManageMembers;

impl Plugin for ManageMembers {
    fn name(&self) -> Option<AdmissionPlugin> {
        Some(AdmissionPlugin::CustomVerbAuthorizer)
    }

    fn review<'a>(&'a self, review: Review<'a>) -> Verdict<'a> {
        Box::pin(async move {
            let Review { call, objects, .. } = review;
            let Some(project) = review.object.filter(|_| writes_object(&call)) else {
                return Ok(Vec::new());
            };
            let owner = owner_of(project);
            let before = review.old.and_then(owner_of);
            let field = if before.is_some() && owner != before && !is_subject(call.user, before) {
                "spec.owner"
            } else if !is_subject(call.user, owner)
                && held(project, owner) != review.old.map(|old| held(old, owner)).unwrap_or_default()
            {
                "spec.members"
            } else {
                return Ok(Vec::new());
            };
            if objects
                .allowed(call.user, VERB, CORE, "projects", None, call.name)
                .await?
            {
                return Ok(Vec::new());
            }
            let why = format!(
                "{field}: user {:?} is not allowed to {VERB}; ask the project's owner or a member with role uam",
                call.user.name
            );
            Err(Status::forbidden(CORE, "projects", call.name, &why))
        })
    }
}

fn owner_of(project: &Value) -> Option<&Value> {
    project.pointer("/spec/owner").filter(|owner| !owner.is_null())
}

/// Whether the user is this subject. A project without an owner gets its creator as owner.
fn is_subject(user: &User, subject: Option<&Value>) -> bool {
    let Some(subject) = subject else { return true };
    let name = text(subject, "/name");
    match text(subject, "/kind") {
        "ServiceAccount" => user.name == format!("{SERVICE_ACCOUNT_USER_PREFIX}{}:{name}", text(subject, "/namespace")),
        "Group" => user.groups.iter().any(|group| group == name),
        _ => user.name == name,
    }
}

/// Who holds which role, as far as that needs the verb: kind, namespace, name, role. What the owner holds does not.
fn held<'v>(project: &'v Value, owner: Option<&Value>) -> BTreeSet<[&'v str; 4]> {
    let members = project.pointer("/spec/members").and_then(Value::as_array);
    let mut held = BTreeSet::new();
    for member in members.into_iter().flatten() {
        let [kind, namespace, name] = ["/kind", "/namespace", "/name"].map(|field| text(member, field));
        let owns = owner.is_some_and(|owner| {
            (kind, namespace, name) == (text(owner, "/kind"), text(owner, "/namespace"), text(owner, "/name"))
        });
        let is_account = kind == "ServiceAccount" || kind == "User" && name.starts_with(SERVICE_ACCOUNT_USER_PREFIX);
        let further = member["roles"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str);
        for role in std::iter::once(text(member, "/role")).chain(further) {
            if !owns && !role.is_empty() && (!is_account || BEYOND_ADMIN.contains(&role)) {
                held.insert([kind, namespace, name, role]);
            }
        }
    }
    held
}

#[cfg(test)]
mod tests {
    use cluster_apiserver::kind::Operation;
    use serde_json::json;

    use super::*;
    use crate::admission::tests::{Fixture, review};

    #[test]
    fn only_users_who_manage_members_change_members_and_owner() {
        let user = |name: &str, role: &str| json!({"kind": "User", "name": name, "role": role});
        let account = |roles: &[&str]| json!({"kind": "ServiceAccount", "namespace": "n", "name": "r", "role": roles[0], "roles": roles[1..]});
        let project = |owner: &str, members: &[Value]| {
            json!({"metadata": {"name": "p"},
            "spec": {"owner": {"kind": "User", "name": owner}, "members": members}})
        };
        let old = project("zoe", &[user("ann", "admin"), user("zoe", "owner")]);
        let checked =
            |fixture: &Fixture, new: &Value| review(&ManageMembers, Operation::Update, Some(new), Some(&old), fixture);
        let mut denied = Fixture::default();
        denied.denied.push("projects");
        let refused = [
            (
                "spec.members",
                project("zoe", &[user("ann", "owner"), user("zoe", "owner")]),
            ),
            ("spec.members", project("zoe", &[user("zoe", "owner")])),
            (
                "spec.members",
                project(
                    "zoe",
                    &[user("ann", "admin"), user("zoe", "owner"), account(&["viewer", "uam"])],
                ),
            ),
            (
                "spec.owner",
                project("ann", &[user("ann", "admin"), user("zoe", "owner")]),
            ),
        ];
        for (field, new) in &refused {
            let refusal = checked(&denied, new).expect_err(field);
            assert!(
                refusal.contains(&format!("{field}: user \"alice\" is not allowed to manage-members")),
                "{refusal}"
            );
            assert!(checked(&Fixture::default(), new).is_ok());
        }
        let moved = project(
            "zoe",
            &[user("zoe", "owner"), user("ann", "admin"), account(&["admin"])],
        );
        assert!(checked(&denied, &moved).is_ok());
        let create = |new: &Value| review(&ManageMembers, Operation::Create, Some(new), None, &denied);
        assert!(
            create(&moved).unwrap_err().contains("spec.members"),
            "people in a project of another"
        );
        assert!(create(&project("zoe", &[user("zoe", "owner")])).is_ok());
        assert!(create(&project("alice", &[user("ann", "admin"), user("zoe", "uam")])).is_ok());
        let robot = user("system:serviceaccount:n:r", "admin");
        let with_robot = project("zoe", &[user("ann", "admin"), user("zoe", "owner"), robot]);
        assert!(checked(&denied, &with_robot).is_ok());
        let own = project("alice", &[user("ann", "admin")]);
        let given_away = project("ann", &[user("ann", "admin")]);
        assert!(
            review(
                &ManageMembers,
                Operation::Update,
                Some(&given_away),
                Some(&own),
                &denied
            )
            .is_ok()
        );
    }
}
