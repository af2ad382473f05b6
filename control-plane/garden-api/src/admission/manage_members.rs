//! Who changes whom a Project belongs to, or which people are its members, needs the verb `manage-members` on it
//! (gardener/gardener v1.150 plugin/pkg/global/customverbauthorizer). Service accounts are the admins' to add, but not
//! with roles that admins do not have: that would be a way around.

use std::collections::BTreeSet;

use cluster_apiserver::Status;
use cluster_apiserver::kind::Review;
use serde_json::Value;

use super::{Plugin, Verdict, writes_object};
use crate::convert::{CORE, text};

const VERB: &str = "manage-members";
/// Roles that give what an admin does not have.
const BEYOND_ADMIN: [&str; 3] = ["owner", "uam", "serviceaccountmanager"];

/// Judges changes of `spec.owner` and `spec.members`.
pub(crate) struct ManageMembers;

impl Plugin for ManageMembers {
    fn review<'a>(&'a self, review: Review<'a>) -> Verdict<'a> {
        Box::pin(async move {
            let Review { call, objects, .. } = review;
            let (Some(project), Some(old)) = (review.object.filter(|_| writes_object(&call)), review.old) else {
                return Ok(Vec::new());
            };
            let field = if project.pointer("/spec/owner") != old.pointer("/spec/owner") {
                "spec.owner"
            } else if held(project) != held(old) {
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

/// Who holds which role, as far as that needs the verb: kind, namespace, name, role.
fn held(project: &Value) -> BTreeSet<[&str; 4]> {
    let members = project.pointer("/spec/members").and_then(Value::as_array);
    let mut held = BTreeSet::new();
    for member in members.into_iter().flatten() {
        let further = member["roles"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str);
        for role in std::iter::once(text(member, "/role")).chain(further) {
            let kind = text(member, "/kind");
            if kind != "ServiceAccount" || BEYOND_ADMIN.contains(&role) {
                held.insert([kind, text(member, "/namespace"), text(member, "/name"), role]);
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
    fn only_who_may_manage_members_changes_people_and_owner() {
        let user = |name: &str, role: &str| json!({"kind": "User", "name": name, "role": role});
        let account = |roles: &[&str]| json!({"kind": "ServiceAccount", "namespace": "n", "name": "r", "role": roles[0], "roles": roles[1..]});
        let project = |owner: &str, members: &[Value]| {
            json!({"metadata": {"name": "p"},
            "spec": {"owner": {"kind": "User", "name": owner}, "members": members}})
        };
        let old = project("zoe", &[user("ann", "admin"), user("zoe", "owner")]);
        let judged =
            |fixture: &Fixture, new: &Value| review(&ManageMembers, Operation::Update, Some(new), Some(&old), fixture);
        let mut denied = Fixture::default();
        denied.denied.push("projects");
        let refused = [
            (
                "spec.members",
                project("zoe", &[user("ann", "owner"), user("zoe", "owner")]),
            ),
            ("spec.members", project("zoe", &[user("ann", "admin")])),
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
            let refusal = judged(&denied, new).expect_err(field);
            assert!(
                refusal.contains(&format!("{field}: user \"alice\" is not allowed to manage-members")),
                "{refusal}"
            );
            assert!(judged(&Fixture::default(), new).is_ok());
        }
        let moved = project(
            "zoe",
            &[user("zoe", "owner"), user("ann", "admin"), account(&["admin"])],
        );
        assert!(judged(&denied, &moved).is_ok());
        assert!(review(&ManageMembers, Operation::Create, Some(&moved), None, &denied).is_ok());
    }
}
