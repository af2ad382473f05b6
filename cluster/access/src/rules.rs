//! Whether one RBAC rule allows one request (kubernetes/kubernetes v1.35 pkg/apis/rbac/v1/evaluation_helpers.go and
//! pkg/registry/rbac/validation/policy_compact.go). Never looks at roles or bindings.

use std::collections::BTreeSet;

use k8s_openapi::api::rbac::v1::PolicyRule;

use crate::attributes::quote;
use crate::{Attributes, ResourceTarget, Target};

/// Whether the rule allows the request.
pub(crate) fn allows(rule: &PolicyRule, attributes: &Attributes) -> bool {
    if !has(&rule.verbs, &attributes.verb) {
        return false;
    }
    match &attributes.target {
        Target::Path(path) => list(&rule.non_resource_urls)
            .iter()
            .any(|pattern| matches_path(pattern, path)),
        Target::Resource(target) => {
            has(list(&rule.api_groups), &target.group)
                && matches_resource(rule, target)
                && matches_name(rule, &target.name)
        }
    }
}

fn has(values: &[String], wanted: &str) -> bool {
    values.iter().any(|value| value == "*" || value == wanted)
}

/// `*`, the exact `resource/subresource`, or `*/subresource`. `pods` does not cover `pods/log`.
fn matches_resource(rule: &PolicyRule, target: &ResourceTarget) -> bool {
    let combined = target.combined();
    list(&rule.resources)
        .iter()
        .any(|value| covers_resource(value, &combined))
}

fn covers_resource(value: &str, combined: &str) -> bool {
    value == "*"
        || value == combined
        || value
            .strip_prefix("*/")
            .is_some_and(|subresource| combined.split_once('/').is_some_and(|(_, own)| own == subresource))
}

fn matches_name(rule: &PolicyRule, name: &str) -> bool {
    let names = list(&rule.resource_names);
    names.is_empty() || names.iter().any(|own| own == name)
}

fn matches_path(pattern: &str, path: &str) -> bool {
    pattern == "*"
        || pattern == path
        || pattern
            .strip_suffix('*')
            .is_some_and(|prefix| path.starts_with(prefix.trim_end_matches('*')))
}

pub(crate) fn list(values: &Option<Vec<String>>) -> &[String] {
    values.as_deref().unwrap_or_default()
}

/// The rules among `wanted` that `held` does not cover, each broken down to one verb and one resource
/// (kubernetes/kubernetes v1.35 component-helpers/auth/rbac/validation/policy_comparator.go).
pub(crate) fn uncovered(held: &[PolicyRule], wanted: &[PolicyRule]) -> Vec<PolicyRule> {
    let single = wanted.iter().flat_map(break_down);
    single
        .filter(|rule| !held.iter().any(|owner| covers(owner, rule)))
        .collect()
}

/// The rules among `wanted` of which `held` does not cover all.
pub fn not_held(held: &[PolicyRule], wanted: &[PolicyRule]) -> Vec<PolicyRule> {
    let is_missing = |rule: &&PolicyRule| !uncovered(held, std::slice::from_ref(rule)).is_empty();
    wanted.iter().filter(is_missing).cloned().collect()
}

fn break_down(rule: &PolicyRule) -> Vec<PolicyRule> {
    let mut all = Vec::new();
    for verb in &rule.verbs {
        for group in list(&rule.api_groups) {
            for resource in list(&rule.resources) {
                let one = PolicyRule {
                    verbs: vec![verb.clone()],
                    api_groups: Some(vec![group.clone()]),
                    resources: Some(vec![resource.clone()]),
                    ..PolicyRule::default()
                };
                match list(&rule.resource_names) {
                    [] => all.push(one),
                    names => all.extend(names.iter().map(|name| PolicyRule {
                        resource_names: Some(vec![name.clone()]),
                        ..one.clone()
                    })),
                }
            }
        }
        all.extend(list(&rule.non_resource_urls).iter().map(|url| PolicyRule {
            verbs: vec![verb.clone()],
            non_resource_urls: Some(vec![url.clone()]),
            ..PolicyRule::default()
        }));
    }
    all
}

/// Whether `owner` allows everything that `single` (one verb, one resource or path, at most one name) does.
fn covers(owner: &PolicyRule, single: &PolicyRule) -> bool {
    let all = |own: &[String], wanted: &[String]| wanted.iter().all(|wanted| has(own, wanted));
    if !all(&owner.verbs, &single.verbs) {
        return false;
    }
    if let [url] = list(&single.non_resource_urls) {
        return list(&owner.non_resource_urls)
            .iter()
            .any(|pattern| matches_path(pattern, url));
    }
    let resources = list(&single.resources)
        .iter()
        .all(|wanted| list(&owner.resources).iter().any(|own| covers_resource(own, wanted)));
    let names = match (list(&owner.resource_names), list(&single.resource_names)) {
        ([], _) => true,
        (_, []) => false,
        (own, wanted) => wanted.iter().all(|name| own.contains(name)),
    };
    all(list(&owner.api_groups), list(&single.api_groups)) && resources && names
}

/// The rules as kube-apiserver prints them in refusals: one per line, verbs of the same resources merged, sorted.
pub(crate) fn describe(rules: &[PolicyRule]) -> String {
    let mut compact: Vec<PolicyRule> = Vec::new();
    for rule in rules {
        let same = |other: &&mut PolicyRule| {
            PolicyRule {
                verbs: Vec::new(),
                ..(*other).clone()
            } == PolicyRule {
                verbs: Vec::new(),
                ..rule.clone()
            }
        };
        match compact.iter_mut().find(same) {
            Some(known) => known.verbs.extend(rule.verbs.iter().cloned()),
            None => compact.push(rule.clone()),
        }
    }
    let lines: BTreeSet<String> = compact.iter().map(line).collect();
    lines.into_iter().collect::<Vec<_>>().join("\n")
}

fn line(rule: &PolicyRule) -> String {
    let fields = [
        ("APIGroups", list(&rule.api_groups)),
        ("Resources", list(&rule.resources)),
        ("NonResourceURLs", list(&rule.non_resource_urls)),
        ("ResourceNames", list(&rule.resource_names)),
        ("Verbs", &rule.verbs),
    ];
    let shown = fields
        .iter()
        .filter(|(_, values)| !values.is_empty())
        .map(|(name, values)| {
            let values: Vec<String> = values.iter().map(|value| quote(value)).collect();
            format!("{name}:[{}]", values.join(" "))
        });
    format!("{{{}}}", shown.collect::<Vec<_>>().join(", "))
}
