//! Deletions that need two people (gardener/gardener v1.150 plugin/pkg/global/deletionconfirmation): who confirmed a
//! deletion must not be who requests it.

use std::collections::BTreeMap;

use api_core::v1beta1::{DualApprovalForDeletion, Project};
use api_meta::names::SERVICE_ACCOUNT_USER_PREFIX;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

/// Whether `user` may not delete an object of `resource` (its plural) with these labels that they confirmed themselves.
/// The first entry of the project for the resource decides.
pub fn needs_second_person(project: &Project, resource: &str, labels: &BTreeMap<String, String>, user: &str) -> bool {
    let mut entries = project.spec.dual_approval_for_deletion.iter();
    let Some(entry) = entries.find(|entry| entry.resource == resource) else {
        return false;
    };
    let DualApprovalForDeletion {
        selector,
        include_service_accounts,
        ..
    } = entry;
    let is_service_account = user.starts_with(SERVICE_ACCOUNT_USER_PREFIX);
    selects(selector, labels) && (!is_service_account || include_service_accounts.unwrap_or(true))
}

/// Whether a selector selects labels; the empty one selects all. An operator that is not known selects as well: the
/// deletion is then rather approved once too often.
pub(crate) fn selects(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> bool {
    let mut equal = selector.match_labels.iter().flatten();
    let mut requirements = selector.match_expressions.iter().flatten();
    equal.all(|(label, value)| labels.get(label) == Some(value))
        && requirements.all(|requirement| is_met(requirement, labels))
}

fn is_met(requirement: &LabelSelectorRequirement, labels: &BTreeMap<String, String>) -> bool {
    let value = labels.get(&requirement.key);
    let listed = value.is_some_and(|value| requirement.values.iter().flatten().any(|listed| listed == value));
    match requirement.operator.as_str() {
        "In" => listed,
        "NotIn" => !listed,
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn needs(entries: Value, resource: &str, user: &str) -> bool {
        let project: Project = serde_json::from_value(json!({"spec": {"dualApprovalForDeletion": entries}})).unwrap();
        let labels = BTreeMap::from([("tier".to_owned(), "gold".to_owned())]);
        needs_second_person(&project, resource, &labels, user)
    }

    #[test]
    fn the_first_entry_for_the_resource_decides_by_labels() {
        let select = |selector: Value| json!([{"resource": "shoots", "selector": selector}]);
        assert!(needs(select(json!({})), "shoots", "alice"));
        assert!(!needs(select(json!({})), "projects", "alice"));
        assert!(needs(
            select(json!({"matchLabels": {"tier": "gold"}})),
            "shoots",
            "alice"
        ));
        assert!(!needs(
            select(json!({"matchLabels": {"tier": "tin"}})),
            "shoots",
            "alice"
        ));
        for (operator, values, selected) in [
            ("In", json!(["gold"]), true),
            ("NotIn", json!(["gold"]), false),
            ("Exists", json!([]), true),
            ("DoesNotExist", json!([]), false),
        ] {
            let expression = json!({"matchExpressions": [{"key": "tier", "operator": operator, "values": values}]});
            assert_eq!(needs(select(expression), "shoots", "alice"), selected, "{operator}");
        }
        assert!(!needs(json!([]), "shoots", "alice"));
    }

    #[test]
    fn service_accounts_need_a_second_person_unless_they_are_excepted() {
        let robot = "system:serviceaccount:garden-dev:robot";
        let entry = |include: Value| json!([{"resource": "shoots", "selector": {}, "includeServiceAccounts": include}]);
        assert!(needs(entry(Value::Null), "shoots", robot));
        assert!(needs(entry(json!(true)), "shoots", robot));
        assert!(!needs(entry(json!(false)), "shoots", robot));
        assert!(needs(entry(json!(false)), "shoots", "alice"));
    }
}
