//! Webhooks of users that may keep a cluster from waking up, and its nodes from joining: they are called for objects that
//! nodes and system components need, and what would answer runs on the nodes (gardener/gardener v1.150
//! pkg/gardenlet/controller/shoot/care/constraints.go, pkg/gardenlet/operation/botanist/matchers/matcher.go). Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, RuleWithOperations, ValidatingWebhookConfiguration,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use kube::core::{Selector, SelectorExt};

/// A webhook that is ignored when it fails may take as long as this: clients of control planes give up after 30 s.
const TIMEOUT_MAX: i32 = 15;
/// The same for leases, which leaders renew every few seconds.
const TIMEOUT_OF_LEASES_MAX: i32 = 3;
/// What Gardener writes on a configuration that it has changed.
const REMEDIATED: &str = "gardener.cloud/warning";
/// Labels of configurations that are Gardener's own, with their values.
const OWN: [(&str, &str); 2] = [
    ("app", "gardener-resource-manager"),
    (api_meta::labels::RESOURCES_MANAGED_BY, "gardener"),
];

/// A webhook of a configuration of either kind.
struct Webhook<'c> {
    configuration: Configuration<'c>,
    name: &'c str,
    failure_policy: Option<&'c str>,
    timeout_seconds: Option<i32>,
    objects: Option<&'c LabelSelector>,
    namespaces: Option<&'c LabelSelector>,
    rules: &'c [RuleWithOperations],
}

#[derive(Clone, Copy)]
struct Configuration<'c> {
    kind: &'static str,
    metadata: &'c ObjectMeta,
}

/// Where objects are that a cluster needs.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    /// In `kube-system`.
    System,
    /// In `kube-system` and `default`.
    SystemAndDefault,
    /// In any namespace.
    Anywhere,
    /// In no namespace.
    Cluster,
    /// The namespace `kube-system` itself.
    SystemNamespace,
}

/// Group, version, resource, subresources beside the resource itself, and place. Of versions that Kubernetes 1.33 to 1.36
/// serves.
type Needed = (&'static str, &'static str, &'static str, &'static [&'static str], Place);

const STATUS: &[&str] = &["status"];
const NEEDED: [Needed; 22] = [
    ("", "v1", "pods", STATUS, Place::System),
    ("", "v1", "configmaps", &[], Place::System),
    ("", "v1", "endpoints", &[], Place::SystemAndDefault),
    ("", "v1", "secrets", &[], Place::System),
    ("", "v1", "serviceaccounts", &[], Place::System),
    ("", "v1", "services", STATUS, Place::SystemAndDefault),
    ("", "v1", "nodes", STATUS, Place::Cluster),
    ("", "v1", "namespaces", STATUS, Place::SystemNamespace),
    ("apps", "v1", "controllerrevisions", &[], Place::System),
    ("apps", "v1", "daemonsets", STATUS, Place::System),
    ("apps", "v1", "deployments", &["scale"], Place::System),
    ("apps", "v1", "replicasets", &["status", "scale"], Place::System),
    LEASES,
    ("networking.k8s.io", "v1", "networkpolicies", &[], Place::System),
    ("rbac.authorization.k8s.io", "v1", "clusterroles", &[], Place::Cluster),
    (
        "rbac.authorization.k8s.io",
        "v1",
        "clusterrolebindings",
        &[],
        Place::Cluster,
    ),
    ("rbac.authorization.k8s.io", "v1", "roles", &[], Place::System),
    ("rbac.authorization.k8s.io", "v1", "rolebindings", &[], Place::System),
    (
        "apiextensions.k8s.io",
        "v1",
        "customresourcedefinitions",
        STATUS,
        Place::Cluster,
    ),
    ("apiregistration.k8s.io", "v1", "apiservices", STATUS, Place::Cluster),
    (
        "certificates.k8s.io",
        "v1",
        "certificatesigningrequests",
        &["status", "approval"],
        Place::Cluster,
    ),
    ("scheduling.k8s.io", "v1", "priorityclasses", &[], Place::Cluster),
];
const LEASES: Needed = ("coordination.k8s.io", "v1", "leases", &[], Place::Anywhere);

/// Both kinds have the same fields, as types of their own.
macro_rules! webhooks_of {
    ($kind:literal, $configurations:expr) => {
        $configurations.iter().flat_map(|configuration| {
            let configuration = configuration.as_ref();
            configuration.webhooks.iter().flatten().map(|webhook| Webhook {
                configuration: Configuration {
                    kind: $kind,
                    metadata: &configuration.metadata,
                },
                name: &webhook.name,
                failure_policy: webhook.failure_policy.as_deref(),
                timeout_seconds: webhook.timeout_seconds,
                objects: webhook.object_selector.as_ref(),
                namespaces: webhook.namespace_selector.as_ref(),
                rules: webhook.rules.as_deref().unwrap_or_default(),
            })
        })
    };
}

/// The first problematic webhook, as a reason and a sentence.
pub(super) fn problem(
    validating: &[impl AsRef<ValidatingWebhookConfiguration>],
    mutating: &[impl AsRef<MutatingWebhookConfiguration>],
) -> Option<(&'static str, String)> {
    let mut users = webhooks_of!("ValidatingWebhookConfiguration", validating)
        .chain(webhooks_of!("MutatingWebhookConfiguration", mutating))
        .filter(|webhook| !webhook.configuration.is_own());
    users.find_map(|webhook| {
        let Configuration { kind, metadata } = webhook.configuration;
        let name = metadata.name.as_deref().unwrap_or_default();
        if webhook.is_problematic() {
            return Some(("ProblematicWebhooks", webhook.sentence(kind, name)));
        }
        webhook.configuration.is_remediated().then(|| {
            let why =
                format!("{kind} {name:?} is problematic and was remediated by Gardener; its annotations say how.");
            ("RemediatedWebhooks", why)
        })
    })
}

impl Configuration<'_> {
    fn is_own(&self) -> bool {
        let labels = self.metadata.labels.as_ref();
        OWN.iter()
            .any(|(key, value)| labels.is_some_and(|labels| labels.get(*key).is_some_and(|label| label == value)))
    }

    fn is_remediated(&self) -> bool {
        let annotations = self.metadata.annotations.as_ref();
        annotations.is_some_and(|annotations| annotations.get(REMEDIATED).is_some_and(|text| !text.is_empty()))
    }
}

impl Webhook<'_> {
    fn is_problematic(&self) -> bool {
        let longer_than = |max: i32| self.timeout_seconds.is_none_or(|seconds| seconds > max);
        // The leases of controllers in kube-system, whatever happens when it fails: leaders lose theirs meanwhile.
        if longer_than(TIMEOUT_OF_LEASES_MAX) && self.meets(&LEASES, Place::System, Some(&BTreeMap::new())) {
            return true;
        }
        let ignored = self.failure_policy.is_some_and(|policy| policy != "Fail");
        if ignored && !longer_than(TIMEOUT_MAX) {
            return false;
        }
        NEEDED.iter().any(|needed| {
            let (_, _, resource, _, place) = needed;
            let pods = BTreeMap::from([
                ("origin".to_owned(), "gardener".to_owned()),
                ("shoot.gardener.cloud/no-cleanup".to_owned(), "true".to_owned()),
            ]);
            self.meets(needed, *place, (*resource == "pods").then_some(&pods))
        })
    }

    /// Whether it is called for such an object. `labels`: those that the object has; any if nothing.
    fn meets(&self, needed: &Needed, place: Place, labels: Option<&BTreeMap<String, String>>) -> bool {
        let namespaces = match place {
            Place::System | Place::SystemNamespace => vec![labels_of("kube-system")],
            Place::SystemAndDefault => vec![labels_of("kube-system"), labels_of("default")],
            Place::Anywhere | Place::Cluster => Vec::new(),
        };
        let namespace_is_selected =
            namespaces.is_empty() || namespaces.iter().any(|labels| selects(self.namespaces, labels));
        let system = labels_of("kube-system");
        let labels = if place == Place::SystemNamespace {
            Some(&system)
        } else {
            labels
        };
        namespace_is_selected
            && labels.is_none_or(|labels| selects(self.objects, labels))
            && self.rules.iter().any(|rule| is_for(rule, needed))
    }

    fn sentence(&self, kind: &str, configuration: &str) -> String {
        let policy = self.failure_policy.unwrap_or("nil");
        let timeout = match self.timeout_seconds {
            Some(seconds) => format!("and {seconds}s timeout"),
            None => "and unset timeoutSeconds".to_owned(),
        };
        format!(
            "{kind} {configuration:?} is problematic: webhook {:?} with failurePolicy {policy:?} {timeout} might prevent \
             worker nodes from properly joining the shoot cluster",
            self.name
        )
    }
}

/// The labels of a namespace that every shoot has.
fn labels_of(namespace: &str) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::from([("kubernetes.io/metadata.name".to_owned(), namespace.to_owned())]);
    if namespace == "kube-system" {
        labels.insert("gardener.cloud/purpose".to_owned(), namespace.to_owned());
        labels.insert("shoot.gardener.cloud/no-cleanup".to_owned(), "true".to_owned());
    }
    labels
}

/// One that cannot be read may select everything.
fn selects(selector: Option<&LabelSelector>, labels: &BTreeMap<String, String>) -> bool {
    let Some(selector) = selector else { return true };
    Selector::try_from(selector.clone()).map_or(true, |selector| selector.matches(labels))
}

fn is_for(rule: &RuleWithOperations, (group, version, resource, subresources, place): &Needed) -> bool {
    let has = |list: &Option<Vec<String>>, wanted: &str| {
        let list = list.iter().flatten();
        list.into_iter().any(|one| one == "*" || one == wanted)
    };
    let changes = rule
        .operations
        .iter()
        .flatten()
        .any(|one| matches!(one.as_str(), "*" | "CREATE" | "UPDATE"));
    let in_namespace = !matches!(place, Place::Cluster | Place::SystemNamespace);
    let in_scope = match rule.scope.as_deref() {
        None | Some("*") => true,
        Some("Namespaced") => in_namespace,
        Some("Cluster") => !in_namespace,
        Some(_) => false,
    };
    let names_it = rule.resources.iter().flatten().any(|one| {
        let (main, sub) = one.split_once('/').unwrap_or((one, ""));
        let subresource = sub == "*" || sub.is_empty() || subresources.contains(&sub);
        (main == "*" || main == *resource) && subresource
    });
    changes && in_scope && has(&rule.api_groups, group) && has(&rule.api_versions, version) && names_it
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;

    /// What is problematic with a webhook that is called for pods, changed like this.
    fn found(change: impl FnOnce(&mut Value)) -> Option<String> {
        let mut webhook = json!({
            "name": "guard.example", "failurePolicy": "Fail", "timeoutSeconds": 10, "sideEffects": "None",
            "admissionReviewVersions": ["v1"], "clientConfig": {},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}],
        });
        change(&mut webhook);
        let configuration = json!({"metadata": {"name": "guard"}, "webhooks": [webhook]});
        let mutating: MutatingWebhookConfiguration = serde_json::from_value(configuration.clone()).unwrap();
        let validating: ValidatingWebhookConfiguration = serde_json::from_value(configuration).unwrap();
        let none: [Arc<ValidatingWebhookConfiguration>; 0] = [];
        let of_mutating = problem(&none, &[Arc::new(mutating)]);
        let none: [Arc<MutatingWebhookConfiguration>; 0] = [];
        let of_validating = problem(&[Arc::new(validating)], &none);
        assert_eq!(of_mutating.is_some(), of_validating.is_some());
        of_mutating.map(|(reason, why)| {
            assert_eq!(reason, "ProblematicWebhooks");
            why
        })
    }

    fn rule(group: &str, resource: &str) -> Value {
        json!([{"apiGroups": [group], "apiVersions": ["v1"], "resources": [resource], "operations": ["UPDATE"]}])
    }

    #[test]
    fn a_webhook_that_must_answer_for_pods_of_the_system_is_problematic() {
        assert_eq!(
            found(|_| {}).unwrap(),
            "MutatingWebhookConfiguration \"guard\" is problematic: webhook \"guard.example\" with failurePolicy \"Fail\" \
             and 10s timeout might prevent worker nodes from properly joining the shoot cluster"
        );
        assert_eq!(found(|webhook| webhook["failurePolicy"] = json!("Ignore")), None);
        let slow = |webhook: &mut Value| {
            webhook["failurePolicy"] = json!("Ignore");
            webhook["timeoutSeconds"] = json!(16);
        };
        assert!(found(slow).is_some(), "clients give up before it is ignored");
    }

    #[test]
    fn selectors_and_rules_that_leave_the_system_alone_are_fine() {
        let not_system = json!({"matchExpressions": [
            {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system"]}]});
        assert_eq!(found(|webhook| webhook["namespaceSelector"] = not_system), None);
        let mine = json!({"matchLabels": {"mine": "yes"}});
        assert_eq!(found(|webhook| webhook["objectSelector"] = mine.clone()), None);
        assert_eq!(
            found(|webhook| webhook["rules"][0]["operations"] = json!(["DELETE"])),
            None
        );
        assert_eq!(found(|webhook| webhook["rules"][0]["scope"] = json!("Cluster")), None);
        assert_eq!(found(|webhook| webhook["rules"] = rule("batch", "jobs")), None);
        for (group, resource) in [
            ("", "nodes"),
            ("", "nodes/status"),
            ("", "*"),
            ("apps", "deployments/scale"),
        ] {
            assert!(
                found(|webhook| webhook["rules"] = rule(group, resource)).is_some(),
                "{group} {resource}"
            );
        }
        assert_eq!(
            found(|webhook| webhook["rules"] = rule("apps", "deployments/status")),
            None
        );
        let of_default = |webhook: &mut Value| {
            webhook["rules"] = rule("", "services");
            webhook["namespaceSelector"] = json!({"matchLabels": {"kubernetes.io/metadata.name": "default"}});
        };
        assert!(found(of_default).is_some(), "the Service of the API server lies there");
    }

    #[test]
    fn a_webhook_for_leases_is_problematic_even_if_it_is_ignored() {
        let leases = |seconds: i32| {
            found(move |webhook| {
                webhook["rules"] = rule("coordination.k8s.io", "leases");
                webhook["failurePolicy"] = json!("Ignore");
                webhook["timeoutSeconds"] = json!(seconds);
            })
        };
        assert_eq!(leases(3), None);
        assert!(leases(4).is_some());
    }

    #[test]
    fn configurations_of_gardener_do_not_count_and_remediated_ones_do() {
        let of = |metadata: Value, policy: &str| {
            let configuration = json!({"metadata": metadata, "webhooks": [{
                "name": "w", "failurePolicy": policy, "timeoutSeconds": 5, "sideEffects": "None",
                "admissionReviewVersions": ["v1"], "clientConfig": {}, "rules": rule("", "nodes")}]});
            let validating: ValidatingWebhookConfiguration = serde_json::from_value(configuration).unwrap();
            let none: [Arc<MutatingWebhookConfiguration>; 0] = [];
            problem(&[Arc::new(validating)], &none).map(|(reason, _)| reason)
        };
        let own = json!({"name": "a", "labels": {"resources.gardener.cloud/managed-by": "gardener"}});
        assert_eq!(of(own, "Fail"), None);
        let remediated = json!({"name": "a", "annotations": {"gardener.cloud/warning": "timeout was lowered"}});
        assert_eq!(of(remediated, "Ignore"), Some("RemediatedWebhooks"));
    }
}
