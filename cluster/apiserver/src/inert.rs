//! Kinds of Kubernetes that are stored so that manifests and controllers find them, and that nobody acts on here: who
//! creates one is told so. It never refuses any.

use serde_json::Value;

/// Group, kind, and what does not come of it.
const INERT: [(&str, &str, &str); 8] = [
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
    (
        "",
        "ResourceQuota",
        "nothing is counted against it, and nothing is refused by it",
    ),
    ("autoscaling", "HorizontalPodAutoscaler", "nothing is scaled by it"),
    ("batch", "CronJob", "it starts no Jobs"),
    ("networking.k8s.io", "Ingress", "nothing is reached through it"),
    ("networking.k8s.io", "NetworkPolicy", "no connection is cut off by it"),
    (
        "scheduling.k8s.io",
        "PriorityClass",
        "no pod is scheduled before another by it",
    ),
];
/// Secrets that a controller of Kubernetes puts a token into.
const TOKEN_SECRETS: &str = "kubernetes.io/service-account-token";
const NO_TOKEN: &str = "it gets no token; `kubectl create token` gives one";

/// What the creator of such an object is told; none for what is acted on.
pub(crate) fn warning(group: &str, kind: &str, object: &Value) -> Option<String> {
    let is_token = group.is_empty() && kind == "Secret" && object.get("type")? == TOKEN_SECRETS;
    let (kind, what) = if is_token {
        (format!("a Secret of type {TOKEN_SECRETS}"), NO_TOKEN)
    } else {
        let known = |(of, name, _): &&(&str, &str, &str)| (*of, *name) == (group, kind);
        let (_, _, what) = INERT.iter().find(known)?;
        (format!("this {kind}"), *what)
    };
    Some(format!("{kind} is stored, and nothing acts on it here: {what}"))
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    #[test]
    fn every_inert_kind_is_one_of_kubernetes() {
        for (group, kind, _) in INERT {
            let kinds = cluster_schema::builtin::kinds();
            assert!(
                kinds.iter().any(|known| (&*known.group, &*known.kind) == (group, kind)),
                "{kind}"
            );
        }
    }

    #[test]
    fn generated_reference_lists_what_nothing_acts_on() {
        let mut page = String::from(
            "# Kinds of Kubernetes that nothing acts on\n\n\
             The embedded API servers store all kinds of Kubernetes' own but those of webhooks and\n\
             aggregation. Of these nothing comes of the following yet: they are stored and answered with a warning, which\n\
             kubectl shows.\n\n| Group | Kind | What is so instead |\n| --- | --- | --- |\n",
        );
        for (group, kind, what) in INERT {
            writeln!(
                page,
                "| `{}` | {kind} | {what} |",
                if group.is_empty() { "v1" } else { group }
            )
            .unwrap();
        }
        writeln!(page, "| `v1` | Secret of type `{TOKEN_SECRETS}` | {NO_TOKEN} |").unwrap();
        page.push_str(
            "\nAn eviction (`kubectl drain`) of a pod that a PodDisruptionBudget selects is refused: budgets are not counted.\n",
        );
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/inert-kinds.md");
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
