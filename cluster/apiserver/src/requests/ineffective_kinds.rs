//! Kinds of Kubernetes that are stored so that manifests and controllers find them, and that nothing acts on here: creating
//! one returns a warning. None is refused.

use serde_json::Value;

/// Group, kind, and what does not happen.
const INEFFECTIVE: [(&str, &str, &str); 9] = [
    (
        "",
        "LimitRange",
        "no pod or container gets defaults from it or is refused by it",
    ),
    (
        "",
        "ReplicationController",
        "it starts no pods; a ReplicaSet or Deployment does",
    ),
    ("autoscaling", "HorizontalPodAutoscaler", "nothing is scaled by it"),
    ("batch", "CronJob", "it starts no Jobs"),
    ("networking.k8s.io", "IPAddress", "it reserves no address"),
    ("networking.k8s.io", "Ingress", "nothing is reached through it"),
    ("networking.k8s.io", "ServiceCIDR", "no Service gets an address of it"),
    ("node.k8s.io", "RuntimeClass", "no pod runs otherwise for it"),
    (
        "scheduling.k8s.io",
        "PriorityClass",
        "no pod is scheduled before another by it",
    ),
];
/// Group, kind, and which part has an effect.
const PARTLY_EFFECTIVE: [(&str, &str, &str); 2] = [
    (
        "",
        "ResourceQuota",
        "numbers of objects are limited by it; what pods and claims ask for is not",
    ),
    (
        "storage.k8s.io",
        "StorageClass",
        "a claim's volume takes its reclaimPolicy; whatever its provisioner, every claim is bound at once, and a claim that \
         names no class gets no default one",
    ),
];
/// Secrets that a controller of Kubernetes puts a token into.
const TOKEN_SECRETS: &str = "kubernetes.io/service-account-token";
const NO_TOKEN: &str = "it gets no token; `kubectl create token` gives one";
/// Texts of these warnings that no others contain.
const ONLY_A_PART: &str = "only a part counts here";
const NOTHING: &str = "nothing acts on it here";

/// Whether a warning is about a kind without effect here, which real Kubernetes does not return.
pub fn is_ineffective_kind_warning(warning: &str) -> bool {
    [ONLY_A_PART, NOTHING].iter().any(|words| warning.contains(words))
}

/// The warning for the creator of such an object; none for an object that has its effect.
pub(crate) fn warning(group: &str, kind: &str, object: &Value) -> Option<String> {
    let is_token = group.is_empty() && kind == "Secret" && object.get("type")? == TOKEN_SECRETS;
    let of_kind = |(of, name, _): &&(&str, &str, &str)| (*of, *name) == (group, kind);
    if (group, kind) == ("", "ResourceQuota") && limits_numbers_alone(object) {
        return None;
    }
    if let Some((_, _, what)) = PARTLY_EFFECTIVE.iter().find(of_kind) {
        return Some(format!("of this {kind} {ONLY_A_PART}: {what}"));
    }
    let (kind, what) = if is_token {
        (format!("a Secret of type {TOKEN_SECRETS}"), NO_TOKEN)
    } else {
        let (_, _, what) = INEFFECTIVE.iter().find(of_kind)?;
        (format!("this {kind}"), *what)
    };
    Some(format!("{kind} is stored, and {NOTHING}: {what}"))
}

/// Whether all that a quota limits is counted here.
fn limits_numbers_alone(quota: &Value) -> bool {
    let hard = quota.pointer("/spec/hard").and_then(Value::as_object);
    let mut names = hard.into_iter().flatten().map(|(name, _)| name.as_str());
    names.all(crate::admission::quota::is_counted)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fmt::Write as _;

    use super::*;

    /// The kinds of Kubernetes v1.35 that no server here has, by group: those in the tables that are not registered, and
    /// those that are not in the tables.
    fn unserved() -> BTreeMap<&'static str, Vec<&'static str>> {
        let registry = crate::kinds::registry::Registry::default();
        crate::kinds::builtin::register(&registry, &[], &crate::storage::format::Since::default());
        let mut groups = BTreeMap::from([
            (
                "flowcontrol.apiserver.k8s.io",
                vec!["FlowSchema", "PriorityLevelConfiguration"],
            ),
            (
                "resource.k8s.io",
                vec!["DeviceClass", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice"],
            ),
        ]);
        // Reviews are answered without being stored.
        let reviews = ["authentication.k8s.io", "authorization.k8s.io"];
        let tables = cluster_builtin::kinds().iter();
        for kind in tables.filter(|kind| !reviews.contains(&&*kind.group)) {
            if !registry
                .snapshot()
                .of_group(&kind.group)
                .any(|served| served.info().kind == kind.kind)
            {
                let group = if kind.group.is_empty() { "v1" } else { &*kind.group };
                groups.entry(group).or_insert_with(Vec::new).push(&*kind.kind);
            }
        }
        groups
    }

    #[test]
    fn every_ineffective_kind_is_one_of_kubernetes() {
        for (group, kind, _) in INEFFECTIVE.into_iter().chain(PARTLY_EFFECTIVE) {
            let kinds = cluster_builtin::kinds();
            assert!(
                kinds.iter().any(|known| (&*known.group, &*known.kind) == (group, kind)),
                "{kind}"
            );
        }
    }

    #[test]
    fn every_warning_is_recognized_as_one_about_an_ineffective_kind() {
        let object = serde_json::json!({"spec": {"hard": {"cpu": "1"}}, "type": TOKEN_SECRETS});
        for (group, kind, _) in INEFFECTIVE
            .into_iter()
            .chain(PARTLY_EFFECTIVE)
            .chain([("", "Secret", "")])
        {
            let warning = warning(group, kind, &object).expect(kind);
            assert!(is_ineffective_kind_warning(&warning), "{warning}");
        }
        assert!(!is_ineffective_kind_warning(
            "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"
        ));
    }

    #[test]
    fn generated_reference_lists_what_nothing_acts_on() {
        let mut page = String::from(
            "# Kinds of Kubernetes that nothing acts on\n\n\
             The embedded API servers store all kinds of Kubernetes' own but those that are not served, which are named\n\
             below. Of these nothing comes of the following yet: they are stored and answered with a warning, which\n\
             kubectl shows.\n\n| Group | Kind | What is so instead |\n| --- | --- | --- |\n",
        );
        let named = |group: &'static str| if group.is_empty() { "v1" } else { group };
        for (group, kind, what) in INEFFECTIVE {
            writeln!(page, "| `{}` | {kind} | {what} |", named(group)).unwrap();
        }
        writeln!(page, "| `v1` | Secret of type `{TOKEN_SECRETS}` | {NO_TOKEN} |").unwrap();
        page.push_str("\nOf these only a part counts:\n\n| Group | Kind | What counts |\n| --- | --- | --- |\n");
        for (group, kind, what) in PARTLY_EFFECTIVE {
            writeln!(page, "| `{}` | {kind} | {what} |", named(group)).unwrap();
        }
        page.push_str("\nNot served at all, so that no client relies on them:\n\n| Group | Kinds |\n| --- | --- |\n");
        for (group, kinds) in unserved() {
            writeln!(page, "| `{group}` | {} |", kinds.join(", ")).unwrap();
        }
        page.push_str("\nNor are versions of Kubernetes' kinds that are alpha or beta.\n");
        page.push_str(
            "\nAn eviction (`kubectl drain`) of a pod that a PodDisruptionBudget selects is refused: budgets are not counted.\n",
        );
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/ineffective-kinds.md");
        if std::env::var_os("UPDATE_GOLDENS").is_some_and(|value| value == "1") {
            std::fs::write(file, &page).unwrap();
        }
        assert_eq!(
            std::fs::read_to_string(file).unwrap_or_default(),
            page,
            "run `cargo xtask generate`"
        );
    }
}
