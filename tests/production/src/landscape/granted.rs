//! What manifests grant, and what of it was used: one row for each rule of a role that is bound to one of our users. A rule counts as
//! used when one of its requests was made, so that the table does not depend on the order in which things happened.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde_json::Value;

use super::audit::Request;

/// A rule of a role, and whom a binding gives it to.
#[derive(Clone, Debug)]
pub struct Granted {
    /// `ClusterRole NAME` or `Role NAMESPACE/NAME`.
    pub role: String,
    /// The namespace in which it holds; everywhere without one.
    pub namespace: Option<String>,
    /// `User NAME`, `Group NAME` or `ServiceAccount NAMESPACE/NAME`.
    pub subjects: BTreeSet<String>,
    /// The rule.
    pub rule: Value,
}

/// The rules of all roles among these objects that bindings among them grant.
#[must_use]
pub fn granted(objects: &[Value]) -> Vec<Granted> {
    let mut all = Vec::new();
    for binding in objects.iter().filter(|object| !object["roleRef"].is_null()) {
        let of_binding = binding["metadata"]["namespace"].as_str().map(str::to_owned);
        let role = objects.iter().find(|object| {
            let is_namespaced = object["kind"] == "Role";
            object["kind"] == binding["roleRef"]["kind"]
                && object["metadata"]["name"] == binding["roleRef"]["name"]
                && (!is_namespaced || object["metadata"]["namespace"] == binding["metadata"]["namespace"])
        });
        let Some(role) = role else { continue };
        let name = text(&role["metadata"]["name"]);
        let role_name = match role["metadata"]["namespace"].as_str() {
            Some(namespace) => format!("Role {}/{name}", masked(namespace)),
            None => format!("ClusterRole {name}"),
        };
        let subjects: BTreeSet<String> = items(&binding["subjects"])
            .map(|one| subject(one, of_binding.as_deref()))
            .collect();
        all.extend(items(&role["rules"]).map(|rule| Granted {
            role: role_name.clone(),
            namespace: of_binding.clone(),
            subjects: subjects.clone(),
            rule: rule.clone(),
        }));
    }
    all
}

fn subject(subject: &Value, namespace: Option<&str>) -> String {
    let (kind, name) = (text(&subject["kind"]), text(&subject["name"]));
    match kind.as_str() {
        "ServiceAccount" => {
            let namespace = subject["namespace"].as_str().or(namespace).unwrap_or_default();
            format!("{kind} {}/{name}", namespace)
        }
        _ => format!("{kind} {name}"),
    }
}

impl Granted {
    /// Whether it allows the request.
    #[must_use]
    pub fn allows(&self, request: &Request) -> bool {
        let is_theirs = self.subjects.iter().any(|subject| match subject.split_once(' ') {
            Some(("User", name)) => name == request.user,
            Some(("Group", name)) => request.groups.contains(name),
            Some(("ServiceAccount", name)) => {
                format!("system:serviceaccount:{}", name.replacen('/', ":", 1)) == request.user
            }
            _ => false,
        });
        let holds_there = self
            .namespace
            .as_ref()
            .is_none_or(|namespace| *namespace == request.namespace);
        is_theirs && holds_there && rule_allows(&self.rule, request)
    }
}

/// RBAC's own reading of a rule (kubernetes/kubernetes v1.35 pkg/registry/rbac/validation and pkg/apis/rbac/v1/evaluation_helpers.go).
fn rule_allows(rule: &Value, request: &Request) -> bool {
    let names = |field: &str, wanted: &str| items(&rule[field]).any(|one| one == "*" || one == wanted);
    if !names("verbs", &request.verb) {
        return false;
    }
    if !request.path.is_empty() {
        let matches = |pattern: &str| match pattern.strip_suffix('*') {
            Some(prefix) => request.path.starts_with(prefix),
            None => pattern == request.path,
        };
        return items(&rule["nonResourceURLs"]).filter_map(Value::as_str).any(matches);
    }
    let sub = request.resource.split_once('/').map(|(_, sub)| format!("*/{sub}"));
    let is_resource = names("resources", &request.resource) || sub.is_some_and(|sub| names("resources", &sub));
    let is_name = rule["resourceNames"]
        .as_array()
        .is_none_or(|all| all.iter().any(|one| *one == request.name));
    names("apiGroups", &request.group) && is_resource && is_name
}

/// The subjects of a role, and its rules with whether they were used.
type Rows = (BTreeSet<String>, Vec<(String, bool)>);

/// The table of a cluster's rules, grouped by role.
#[must_use]
pub fn table<'a>(granted: &[Granted], requests: impl Iterator<Item = &'a Request> + Clone) -> String {
    let mut roles: BTreeMap<String, Rows> = BTreeMap::new();
    for one in granted {
        let used = requests.clone().any(|request| one.allows(request));
        let (subjects, rules) = roles.entry(one.role.clone()).or_default();
        subjects.extend(one.subjects.iter().map(|subject| masked(subject)));
        let row = described(&one.rule);
        match rules.iter_mut().find(|(known, _)| *known == row) {
            Some((_, was)) => *was |= used,
            None => rules.push((row, used)),
        }
    }
    let mut text = String::new();
    for (role, (subjects, rules)) in roles {
        let subjects: Vec<String> = subjects.iter().map(|subject| format!("`{subject}`")).collect();
        let _ = write!(
            text,
            "### {role}\n\nOf {}.\n\n| groups | resources | names | verbs | |\n|---|---|---|---|---|\n",
            subjects.join(", ")
        );
        for (rule, used) in rules {
            let _ = writeln!(text, "{rule} {} |", if used { "used" } else { "unused" });
        }
        text.push('\n');
    }
    text
}

/// The verbs of a rule's resources of which no request was made: for who reads the log of a test.
#[must_use]
pub fn unused<'a>(one: &Granted, requests: impl Iterator<Item = &'a Request> + Clone) -> Vec<String> {
    let mut unused = Vec::new();
    for resource in items(&one.rule["resources"]).filter_map(Value::as_str) {
        for verb in items(&one.rule["verbs"]).filter_map(Value::as_str) {
            let mut narrow = one.clone();
            narrow.rule["resources"] = Value::from(vec![resource]);
            narrow.rule["verbs"] = Value::from(vec![verb]);
            if !requests.clone().any(|request| narrow.allows(request)) {
                unused.push(format!("{verb} {resource}"));
            }
        }
    }
    unused
}

fn described(rule: &Value) -> String {
    let list = |field: &str| {
        let all: Vec<String> = items(&rule[field])
            .map(|one| match one.as_str() {
                Some("") => "core".to_owned(),
                other => format!("`{}`", other.unwrap_or_default()),
            })
            .collect();
        all.join(", ")
    };
    match rule["nonResourceURLs"].is_null() {
        false => format!("| | {} | | {} |", list("nonResourceURLs"), list("verbs")),
        true => format!(
            "| {} | {} | {} | {} |",
            list("apiGroups"),
            list("resources"),
            list("resourceNames"),
            list("verbs")
        ),
    }
}

/// Without what is drawn at random: the namespace of an installation.
fn masked(name: &str) -> String {
    match name.split_once("extension-provider-local-") {
        Some((before, rest)) => {
            let after = rest.split_once('/').map(|(_, after)| format!("/{after}"));
            format!("{before}extension-provider-local-ID{}", after.unwrap_or_default())
        }
        None => name.to_owned(),
    }
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn request(user: &str, verb: &str, resource: &str, namespace: &str, name: &str) -> Request {
        Request {
            user: user.to_owned(),
            groups: BTreeSet::from(["g".to_owned()]),
            verb: verb.to_owned(),
            group: String::new(),
            resource: resource.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            path: String::new(),
        }
    }

    fn objects(rule: &Value) -> Vec<Value> {
        vec![
            json!({"kind": "Role", "metadata": {"name": "r", "namespace": "n"}, "rules": [rule]}),
            json!({"kind": "RoleBinding", "metadata": {"name": "b", "namespace": "n"},
                "roleRef": {"kind": "Role", "name": "r"}, "subjects": [{"kind": "ServiceAccount", "name": "a"}]}),
        ]
    }

    #[test]
    fn rules_hold_for_their_subjects_in_their_namespace() {
        let rule = json!({"apiGroups": [""], "resources": ["pods", "*/log"], "verbs": ["get"], "resourceNames": ["p"]});
        let all = granted(&objects(&rule));
        let account = "system:serviceaccount:n:a";
        let allowed = [("pods", "p"), ("pods/log", "p"), ("secrets/log", "p")];
        for (resource, name) in allowed {
            assert!(
                all[0].allows(&request(account, "get", resource, "n", name)),
                "{resource}"
            );
        }
        for (user, verb, resource, namespace, name) in [
            (account, "get", "pods", "n", "other"),
            (account, "get", "pods", "m", "p"),
            (account, "list", "pods", "n", "p"),
            (account, "get", "secrets", "n", "p"),
            ("a", "get", "pods", "n", "p"),
        ] {
            assert!(!all[0].allows(&request(user, verb, resource, namespace, name)));
        }
    }

    #[test]
    fn the_table_tells_used_from_unused_rules() {
        let rule = json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]});
        let all = granted(&objects(&rule));
        let used = [request("system:serviceaccount:n:a", "get", "pods", "n", "p")];
        let expected = "### Role n/r\n\nOf `ServiceAccount n/a`.\n\n| groups | resources | names | verbs | |\n|---|---|---|---|---|\n\
                        | core | `pods` |  | `get`, `list` | used |\n\n";
        assert_eq!(table(&all, used.iter()), expected);
        assert!(table(&all, [].iter()).contains("unused"));
        assert_eq!(unused(&all[0], used.iter()), ["list pods"]);
        assert_eq!(
            masked("ServiceAccount extension-provider-local-x1/p"),
            "ServiceAccount extension-provider-local-ID/p"
        );
    }
}
