//! What to apply, in which order, what to take back and what to leave. Pure.

use api_resources::{GroupKind, ObjectReference};

use crate::decode::Desired;
use crate::naming::{group_of, wish};

/// What to do in the target.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Plan {
    /// No longer wanted: deleted first, last applied first.
    pub(crate) delete: Vec<ObjectReference>,
    /// Wanted, but to be left alone from now on.
    pub(crate) release: Vec<ObjectReference>,
    /// To be applied, in this order.
    pub(crate) apply: Vec<Desired>,
}

/// Kinds that are one and the same under several groups
/// (gardener/gardener v1.150 pkg/resourcemanager/controller/managedresource/equivalences.go).
const EQUIVALENT: [(&str, &[&str]); 6] = [
    ("Deployment", &["apps", "extensions"]),
    ("DaemonSet", &["apps", "extensions"]),
    ("ReplicaSet", &["apps", "extensions"]),
    ("StatefulSet", &["apps", "extensions"]),
    ("Ingress", &["networking.k8s.io", "extensions"]),
    ("NetworkPolicy", &["networking.k8s.io", "extensions"]),
];

/// Compares what is wanted with what was applied before.
pub(crate) fn plan(desired: Vec<Desired>, applied: &[ObjectReference], equivalences: &[Vec<GroupKind>]) -> Plan {
    let same = |object: &Desired, reference: &ObjectReference| {
        reference.name.as_deref() == Some(&object.name)
            && namespace_fits(object.namespace.as_deref(), reference.namespace.as_deref())
            && same_kind(
                (&object.group, &object.kind),
                (&group_of(reference), reference.kind.as_deref().unwrap_or_default()),
                equivalences,
            )
    };
    let (released, mut apply): (Vec<Desired>, Vec<Desired>) = desired.into_iter().partition(is_released);
    let mut plan = Plan::default();
    for reference in applied {
        if released.iter().any(|object| same(object, reference)) {
            plan.release.push(reference.clone());
        } else if !apply.iter().any(|object| same(object, reference)) {
            plan.delete.push(reference.clone());
        }
    }
    plan.delete
        .sort_by_key(|reference| std::cmp::Reverse(rank(reference.kind.as_deref().unwrap_or_default())));
    apply.sort_by_key(|object| rank(&object.kind));
    plan.apply = apply;
    plan
}

fn is_released(object: &Desired) -> bool {
    object.annotations().get(wish::MODE).map(String::as_str) == Some(wish::MODE_IGNORE)
}

/// An object without namespace is applied to `default` if its kind has namespaces.
pub(crate) fn namespace_fits(wanted: Option<&str>, applied: Option<&str>) -> bool {
    match (wanted, applied) {
        (Some(wanted), Some(applied)) => wanted == applied,
        (None, Some(applied)) => applied == "default",
        // A cluster-scoped kind drops a namespace that was written by mistake.
        (_, None) => true,
    }
}

/// Whether two pairs of group and kind mean the same objects.
pub(crate) fn same_kind(one: (&str, &str), other: (&str, &str), equivalences: &[Vec<GroupKind>]) -> bool {
    let of_kind = |kind: &str| {
        EQUIVALENT
            .iter()
            .find(|(known, _)| *known == kind)
            .map(|(_, groups)| *groups)
    };
    let built_in =
        one.1 == other.1 && of_kind(one.1).is_some_and(|groups| groups.contains(&one.0) && groups.contains(&other.0));
    let requested = equivalences.iter().any(|set| {
        let holds = |(group, kind): (&str, &str)| set.iter().any(|member| member.group == group && member.kind == kind);
        holds(one) && holds(other)
    });
    one == other || built_in || requested
}

/// Where a kind stands: what others live in, are typed by, run as or read comes first; what intercepts requests last.
pub(crate) fn rank(kind: &str) -> usize {
    const FIRST: [&str; 18] = [
        "Namespace",
        "CustomResourceDefinition",
        "PriorityClass",
        "StorageClass",
        "ResourceQuota",
        "LimitRange",
        "ServiceAccount",
        "Secret",
        "ConfigMap",
        "PersistentVolume",
        "PersistentVolumeClaim",
        "ClusterRole",
        "ClusterRoleBinding",
        "Role",
        "RoleBinding",
        "NetworkPolicy",
        "Service",
        "Endpoints",
    ];
    const LAST: [&str; 12] = [
        "DaemonSet",
        "Pod",
        "ReplicaSet",
        "Deployment",
        "StatefulSet",
        "Job",
        "CronJob",
        "HorizontalPodAutoscaler",
        "PodDisruptionBudget",
        "APIService",
        "MutatingWebhookConfiguration",
        "ValidatingWebhookConfiguration",
    ];
    let place = |list: &[&str]| list.iter().position(|known| *known == kind);
    match (place(&FIRST), place(&LAST)) {
        (Some(at), _) => at,
        (None, Some(at)) => FIRST.len() + 1 + at,
        (None, None) => FIRST.len(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn desired(api_version: &str, kind: &str, namespace: Option<&str>, name: &str) -> Desired {
        let group = api_version
            .split_once('/')
            .map(|(group, _)| group.to_owned())
            .unwrap_or_default();
        Desired {
            api_version: api_version.into(),
            group,
            kind: kind.into(),
            namespace: namespace.map(Into::into),
            name: name.into(),
            value: json!({"metadata": {}}),
        }
    }

    fn applied(object: &Desired) -> ObjectReference {
        ObjectReference {
            api_version: Some(object.api_version.clone()),
            kind: Some(object.kind.clone()),
            namespace: object.namespace.clone(),
            name: Some(object.name.clone()),
            ..ObjectReference::default()
        }
    }

    #[test]
    fn namespaces_and_definitions_come_first_webhooks_last_and_deletions_go_the_other_way() {
        let all: Vec<Desired> = [
            ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration"),
            ("apps/v1", "Deployment"),
            ("x.example/v1", "Widget"),
            ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
            ("v1", "ConfigMap"),
            ("v1", "Namespace"),
        ]
        .iter()
        .map(|(version, kind)| desired(version, kind, None, "x"))
        .collect();
        let order = |kinds: Vec<String>| kinds.join(" ");
        let first = plan(all.clone(), &[], &[]);
        assert_eq!(
            order(first.apply.iter().map(|object| object.kind.clone()).collect()),
            "Namespace CustomResourceDefinition ConfigMap Widget Deployment ValidatingWebhookConfiguration"
        );
        let references: Vec<_> = first.apply.iter().map(applied).collect();
        let settled = plan(all, &references, &[]);
        assert!(settled.delete.is_empty() && settled.release.is_empty());
        let gone = plan(vec![], &references, &[]);
        assert_eq!(
            order(
                gone.delete
                    .iter()
                    .map(|reference| reference.kind.clone().unwrap())
                    .collect()
            ),
            "ValidatingWebhookConfiguration Deployment Widget ConfigMap CustomResourceDefinition Namespace"
        );
    }

    #[test]
    fn only_unlisted_objects_are_deleted_and_a_change_of_group_is_no_deletion() {
        let before = [
            desired("extensions/v1beta1", "Deployment", Some("n"), "d"),
            desired("v1", "ConfigMap", Some("default"), "c"),
            desired("v1", "ConfigMap", Some("n"), "c"),
            desired("a.example/v1", "Old", None, "o"),
        ]
        .map(|object| applied(&object));
        let now = vec![
            desired("apps/v1", "Deployment", Some("n"), "d"),
            desired("v1", "ConfigMap", None, "c"),
            desired("b.example/v1", "New", None, "o"),
        ];
        let kind = |group: &str, kind: &str| GroupKind {
            group: group.into(),
            kind: kind.into(),
        };
        let equivalences = [vec![kind("a.example", "Old"), kind("b.example", "New")]];
        assert_eq!(plan(now.clone(), &before, &equivalences).delete, [before[2].clone()]);
        assert_eq!(plan(now, &before, &[]).delete.len(), 2);
    }

    #[test]
    fn an_object_in_mode_ignore_is_released_and_neither_applied_nor_deleted() {
        let mut object = desired("v1", "ConfigMap", Some("n"), "c");
        let before = [applied(&object)];
        object.value["metadata"]["annotations"] = json!({"resources.gardener.cloud/mode": "Ignore"});
        assert_eq!(
            plan(vec![object.clone()], &before, &[]),
            Plan {
                release: before.to_vec(),
                ..Plan::default()
            }
        );
        object.value["metadata"]["annotations"] = json!({"resources.gardener.cloud/ignore": "true"});
        let retained = plan(vec![object], &before, &[]);
        assert_eq!(
            (retained.apply.len(), retained.release.len(), retained.delete.len()),
            (1, 0, 0)
        );
    }
}
