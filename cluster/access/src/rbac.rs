//! RBAC over an index of roles and bindings that changes with them. Never reads a store: the owner of the
//! objects passes every change, in order. What is not in the index allows nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{PoisonError, RwLock};

use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::Value;

use crate::attributes::quote;
use crate::rules::{allows, describe, list, uncovered};
use crate::{Attributes, Decision, ResourceTarget, Target, User, group};

const RBAC_GROUP: &str = "rbac.authorization.k8s.io";

/// A change of the objects RBAC decides by.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// A ClusterRole was created or changed.
    ClusterRole(Box<ClusterRole>),
    /// A ClusterRole is gone.
    ClusterRoleGone(String),
    /// A Role was created or changed.
    Role(Box<Role>),
    /// A Role is gone: namespace, name.
    RoleGone(String, String),
    /// A ClusterRoleBinding was created or changed.
    ClusterRoleBinding(Box<ClusterRoleBinding>),
    /// A ClusterRoleBinding is gone.
    ClusterRoleBindingGone(String),
    /// A RoleBinding was created or changed.
    RoleBinding(Box<RoleBinding>),
    /// A RoleBinding is gone: namespace, name.
    RoleBindingGone(String, String),
}

impl Change {
    /// The change an object of `rbac.authorization.k8s.io` means; `object` is absent when it was deleted.
    /// `None` for any other resource. An object that does not parse as its kind counts as deleted: it grants nothing.
    pub fn of(resource: &str, namespace: &str, name: &str, object: Option<&Value>) -> Option<Self> {
        let gone = (namespace.to_owned(), name.to_owned());
        Some(match (resource, object) {
            ("clusterroles", Some(object)) => parse(object).map_or(Self::ClusterRoleGone(gone.1), Self::ClusterRole),
            ("clusterroles", None) => Self::ClusterRoleGone(gone.1),
            ("roles", Some(object)) => parse(object).map_or(Self::RoleGone(gone.0, gone.1), Self::Role),
            ("roles", None) => Self::RoleGone(gone.0, gone.1),
            ("clusterrolebindings", Some(object)) => {
                parse(object).map_or(Self::ClusterRoleBindingGone(gone.1), Self::ClusterRoleBinding)
            }
            ("clusterrolebindings", None) => Self::ClusterRoleBindingGone(gone.1),
            ("rolebindings", Some(object)) => {
                parse(object).map_or(Self::RoleBindingGone(gone.0, gone.1), Self::RoleBinding)
            }
            ("rolebindings", None) => Self::RoleBindingGone(gone.0, gone.1),
            _ => return None,
        })
    }
}

fn parse<T: for<'a> serde::Deserialize<'a>>(object: &Value) -> Option<Box<T>> {
    T::deserialize(object).ok().map(Box::new)
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum SubjectKey {
    User(String),
    Group(String),
}

/// Namespace (absent for cluster-wide bindings) and name.
type BindingKey = (Option<String>, String);

#[derive(Debug)]
struct Binding {
    role: RoleRef,
    subjects: Vec<SubjectKey>,
}

/// Roles and bindings, found by subject.
#[derive(Debug, Default)]
pub struct RbacIndex {
    cluster_roles: BTreeMap<String, ClusterRole>,
    aggregated: BTreeMap<String, Vec<PolicyRule>>,
    roles: BTreeMap<(String, String), Role>,
    bindings: BTreeMap<BindingKey, Binding>,
    by_subject: BTreeMap<SubjectKey, BTreeSet<BindingKey>>,
}

impl RbacIndex {
    /// Applies one change.
    pub fn apply(&mut self, change: Change) {
        match change {
            Change::ClusterRole(role) => {
                self.cluster_roles
                    .insert(role.metadata.name.clone().unwrap_or_default(), *role);
                self.aggregate();
            }
            Change::ClusterRoleGone(name) => {
                self.cluster_roles.remove(&name);
                self.aggregate();
            }
            Change::Role(role) => {
                let key = (
                    role.metadata.namespace.clone().unwrap_or_default(),
                    role.metadata.name.clone().unwrap_or_default(),
                );
                self.roles.insert(key, *role);
            }
            Change::RoleGone(namespace, name) => {
                self.roles.remove(&(namespace, name));
            }
            Change::ClusterRoleBinding(binding) => {
                let binding = *binding;
                self.bind(
                    (None, binding.metadata.name.unwrap_or_default()),
                    binding.role_ref,
                    binding.subjects.unwrap_or_default(),
                );
            }
            Change::ClusterRoleBindingGone(name) => self.unbind(&(None, name)),
            Change::RoleBinding(binding) => {
                let binding = *binding;
                let namespace = binding.metadata.namespace.unwrap_or_default();
                self.bind(
                    (Some(namespace), binding.metadata.name.unwrap_or_default()),
                    binding.role_ref,
                    binding.subjects.unwrap_or_default(),
                );
            }
            Change::RoleBindingGone(namespace, name) => self.unbind(&(Some(namespace), name)),
        }
    }

    fn bind(&mut self, key: BindingKey, role: RoleRef, subjects: Vec<Subject>) {
        self.unbind(&key);
        let namespace = key.0.clone().unwrap_or_default();
        let subjects: Vec<SubjectKey> = subjects
            .into_iter()
            .filter_map(|subject| subject_key(subject, &namespace))
            .collect();
        for subject in &subjects {
            self.by_subject.entry(subject.clone()).or_default().insert(key.clone());
        }
        self.bindings.insert(key, Binding { role, subjects });
    }

    fn unbind(&mut self, key: &BindingKey) {
        let Some(binding) = self.bindings.remove(key) else {
            return;
        };
        for subject in binding.subjects {
            if let Some(keys) = self.by_subject.get_mut(&subject) {
                keys.remove(key);
                if keys.is_empty() {
                    self.by_subject.remove(&subject);
                }
            }
        }
    }

    /// Rules of roles with an aggregation rule: those of all ClusterRoles their selectors match, resolved at once and
    /// through each other (`view` into `edit` into `admin`), without waiting for a controller to write them down.
    fn aggregate(&mut self) {
        let names: Vec<String> = self
            .cluster_roles
            .iter()
            .filter(|(_, role)| role.aggregation_rule.is_some())
            .map(|(name, _)| name.clone())
            .collect();
        self.aggregated = names
            .into_iter()
            .map(|name| {
                let rules = self.collect(&name);
                (name, rules)
            })
            .collect();
    }

    fn collect(&self, name: &str) -> Vec<PolicyRule> {
        let (mut visited, mut open, mut rules) = (BTreeSet::from([name.to_owned()]), vec![name.to_owned()], Vec::new());
        while let Some(name) = open.pop() {
            let Some(role) = self.cluster_roles.get(&name) else {
                continue;
            };
            let Some(aggregation) = &role.aggregation_rule else {
                rules.extend(role.rules.clone().unwrap_or_default());
                continue;
            };
            for (other_name, other) in &self.cluster_roles {
                let labels = other.metadata.labels.clone().unwrap_or_default();
                let selected = aggregation
                    .cluster_role_selectors
                    .iter()
                    .flatten()
                    .any(|selector| selects(selector, &labels));
                if selected && visited.insert(other_name.clone()) {
                    open.push(other_name.clone());
                }
            }
        }
        let mut unique: Vec<PolicyRule> = Vec::new();
        for rule in rules {
            if !unique.contains(&rule) {
                unique.push(rule);
            }
        }
        unique
    }

    /// The rules an aggregated ClusterRole is to show, so that `kubectl describe` prints them; `None` for other
    /// roles. The index itself never needs them to be written.
    pub fn aggregated_rules(&self, cluster_role: &str) -> Option<&[PolicyRule]> {
        self.aggregated.get(cluster_role).map(Vec::as_slice)
    }

    /// Names of all ClusterRoles with an aggregation rule.
    pub fn aggregated_roles(&self) -> impl Iterator<Item = &str> {
        self.aggregated.keys().map(String::as_str)
    }

    /// Decides. Users of the group `system:masters` are allowed everything.
    pub fn authorize(&self, attributes: &Attributes) -> Decision {
        if attributes.user.is_in(group::MASTERS) {
            return Decision::Allow(String::new());
        }
        let namespace = match &attributes.target {
            Target::Resource(target) => target.namespace.as_str(),
            Target::Path(_) => "",
        };
        let mut missing = BTreeSet::new();
        for (subject, key, binding) in self.bindings_of(&attributes.user, namespace) {
            match self.rules_of(&binding.role, key.0.as_deref()) {
                Ok(rules) if rules.iter().any(|rule| allows(rule, attributes)) => {
                    return Decision::Allow(allowed_by(subject, key, binding));
                }
                Ok(_) => {}
                Err(error) => {
                    missing.insert(error);
                }
            }
        }
        let missing: Vec<String> = missing.into_iter().collect();
        Decision::Deny(match missing.as_slice() {
            [] => String::new(),
            [one] => format!("RBAC: {one}"),
            many => format!("RBAC: [{}]", many.join(", ")),
        })
    }

    /// All rules the user has in the namespace (empty: cluster-wide ones only), for SelfSubjectRulesReview. The texts
    /// name roles that are bound but do not exist.
    pub fn rules_for(&self, user: &User, namespace: &str) -> (Vec<PolicyRule>, Vec<String>) {
        let (mut rules, missing) = self.bound_rules_for(user, namespace);
        if user.is_in(group::MASTERS) {
            rules.extend(everything());
        }
        (rules, missing)
    }

    /// As [`Self::rules_for`], from bindings alone: without the rights that `system:masters` has by itself.
    pub fn bound_rules_for(&self, user: &User, namespace: &str) -> (Vec<PolicyRule>, Vec<String>) {
        let (mut rules, mut missing) = (Vec::new(), BTreeSet::new());
        for (_, key, binding) in self.bindings_of(user, namespace) {
            match self.rules_of(&binding.role, key.0.as_deref()) {
                Ok(more) => rules.extend_from_slice(more),
                Err(error) => {
                    missing.insert(error);
                }
            }
        }
        (rules, missing.into_iter().collect())
    }

    /// Cluster-wide bindings of the user first, then those of the namespace.
    fn bindings_of<'a>(&'a self, user: &User, namespace: &str) -> Vec<(&'a SubjectKey, &'a BindingKey, &'a Binding)> {
        let keys = std::iter::once(SubjectKey::User(user.name.clone()))
            .chain(user.groups.iter().cloned().map(SubjectKey::Group));
        let mut found = Vec::new();
        for subject in keys {
            let Some((subject, bindings)) = self.by_subject.get_key_value(&subject) else {
                continue;
            };
            for key in bindings {
                let here = key
                    .0
                    .as_deref()
                    .is_none_or(|own| !namespace.is_empty() && own == namespace);
                if let Some(binding) = self.bindings.get(key).filter(|_| here) {
                    found.push((subject, key, binding));
                }
            }
        }
        found.sort_by_key(|(_, key, _)| key.0.is_some());
        found
    }

    fn rules_of(&self, role: &RoleRef, namespace: Option<&str>) -> Result<&[PolicyRule], String> {
        let name = &role.name;
        match (role.kind.as_str(), namespace) {
            ("ClusterRole", _) => {
                if let Some(rules) = self.aggregated.get(name) {
                    return Ok(rules);
                }
                let found = self
                    .cluster_roles
                    .get(name)
                    .ok_or_else(|| format!("clusterrole.{RBAC_GROUP} {} not found", quote(name)))?;
                Ok(found.rules.as_deref().unwrap_or_default())
            }
            ("Role", Some(namespace)) => {
                let found = self.roles.get(&(namespace.to_owned(), name.clone()));
                let found = found.ok_or_else(|| format!("role.{RBAC_GROUP} {} not found", quote(name)))?;
                Ok(found.rules.as_deref().unwrap_or_default())
            }
            (kind, _) => Err(format!("unsupported role reference kind: {}", quote(kind))),
        }
    }

    /// Verifies that the writer of a role has every permission in it, or may `escalate`
    /// (kubernetes/kubernetes v1.35 pkg/registry/rbac/{role,clusterrole}/policybased). `target` is the role written;
    /// call it before the role is stored, and only when its rules change.
    ///
    /// # Errors
    /// The reason of the 403.
    pub fn may_grant_rules(
        &self,
        user: &std::sync::Arc<User>,
        target: &ResourceTarget,
        rules: &[PolicyRule],
    ) -> Result<(), String> {
        let escalate = Attributes::resource(user, "escalate", target.clone());
        if self.authorize(&escalate).is_allowed() {
            return Ok(());
        }
        self.holds_all(user, &target.namespace, rules)
    }

    /// Whether the user could grant everything there is, as the writer of a ClusterRole with an aggregation rule must
    /// (kubernetes/kubernetes v1.35 pkg/registry/rbac/clusterrole/policybased). `target` is the role written.
    pub fn may_grant_everything(&self, user: &std::sync::Arc<User>, target: &ResourceTarget) -> bool {
        self.may_grant_rules(user, target, &everything()).is_ok()
    }

    /// Verifies that the writer of a binding has every permission of its role, or may `bind` it
    /// (kubernetes/kubernetes v1.35 pkg/registry/rbac/{rolebinding,clusterrolebinding}/policybased).
    /// `namespace` is empty for ClusterRoleBindings.
    ///
    /// # Errors
    /// The reason of the 403, also when the role does not exist.
    pub fn may_bind(&self, user: &std::sync::Arc<User>, namespace: &str, role: &RoleRef) -> Result<(), String> {
        let target = ResourceTarget {
            group: RBAC_GROUP.to_owned(),
            version: "v1".to_owned(),
            resource: if role.kind == "Role" {
                "roles".to_owned()
            } else {
                "clusterroles".to_owned()
            },
            namespace: namespace.to_owned(),
            name: role.name.clone(),
            ..ResourceTarget::default()
        };
        if self.authorize(&Attributes::resource(user, "bind", target)).is_allowed() {
            return Ok(());
        }
        let rules = self.rules_of(role, (!namespace.is_empty()).then_some(namespace))?;
        self.holds_all(user, namespace, rules)
    }

    fn holds_all(&self, user: &User, namespace: &str, rules: &[PolicyRule]) -> Result<(), String> {
        let (held, missing) = self.rules_for(user, namespace);
        let lacking = uncovered(&held, rules);
        if lacking.is_empty() {
            return Ok(());
        }
        let groups: Vec<String> = user.groups.iter().map(|group| quote(group)).collect();
        let unresolved = if missing.is_empty() {
            String::new()
        } else {
            format!("; resolution errors: [{}]", missing.join(", "))
        };
        Err(format!(
            "user {} (groups=[{}]) is attempting to grant RBAC permissions not currently held:\n{}{unresolved}",
            quote(&user.name),
            groups.join(" "),
            describe(&lacking)
        ))
    }
}

fn everything() -> [PolicyRule; 2] {
    let all = || vec!["*".to_owned()];
    [
        PolicyRule {
            verbs: all(),
            api_groups: Some(all()),
            resources: Some(all()),
            ..PolicyRule::default()
        },
        PolicyRule {
            verbs: all(),
            non_resource_urls: Some(all()),
            ..PolicyRule::default()
        },
    ]
}

fn subject_key(subject: Subject, binding_namespace: &str) -> Option<SubjectKey> {
    match subject.kind.as_str() {
        "User" => Some(SubjectKey::User(subject.name)),
        "Group" => Some(SubjectKey::Group(subject.name)),
        "ServiceAccount" => {
            let namespace = subject.namespace.unwrap_or_else(|| binding_namespace.to_owned());
            (!namespace.is_empty())
                .then(|| SubjectKey::User(format!("{}{namespace}:{}", group::SERVICE_ACCOUNT_PREFIX, subject.name)))
        }
        _ => None,
    }
}

fn allowed_by(subject: &SubjectKey, key: &BindingKey, binding: &Binding) -> String {
    let (kind, name) = match key {
        (None, name) => ("ClusterRoleBinding", quote(name)),
        (Some(namespace), name) => ("RoleBinding", quote(&format!("{name}/{namespace}"))),
    };
    let subject = match subject {
        SubjectKey::User(name) => match crate::user::split_service_account(name) {
            Some((namespace, name)) => format!("ServiceAccount {}", quote(&format!("{name}/{namespace}"))),
            None => format!("User {}", quote(name)),
        },
        SubjectKey::Group(name) => format!("Group {}", quote(name)),
    };
    format!(
        "RBAC: allowed by {kind} {name} of {} {} to {subject}",
        binding.role.kind,
        quote(&binding.role.name)
    )
}

/// Label selectors as in aggregation rules: matchLabels and matchExpressions. An unknown operator selects nothing.
fn selects(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> bool {
    let equal = selector
        .match_labels
        .iter()
        .flatten()
        .all(|(key, value)| labels.get(key) == Some(value));
    let expressions = selector.match_expressions.iter().flatten().all(|wanted| {
        let (own, values) = (labels.get(&wanted.key), list(&wanted.values));
        match wanted.operator.as_str() {
            "In" => own.is_some_and(|own| values.contains(own)),
            "NotIn" => own.is_none_or(|own| !values.contains(own)),
            "Exists" => own.is_some(),
            "DoesNotExist" => own.is_none(),
            _ => false,
        }
    });
    equal && expressions
}

/// The index behind a lock: decides while changes come in.
#[derive(Debug, Default)]
pub struct Authorizer(RwLock<RbacIndex>);

impl Authorizer {
    /// Applies one change.
    pub fn apply(&self, change: Change) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).apply(change);
    }

    /// Decides.
    pub fn authorize(&self, attributes: &Attributes) -> Decision {
        self.read(|index| index.authorize(attributes))
    }

    /// Reads the index; the lock is held meanwhile, so keep it short.
    pub fn read<T>(&self, read: impl FnOnce(&RbacIndex) -> T) -> T {
        read(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}
