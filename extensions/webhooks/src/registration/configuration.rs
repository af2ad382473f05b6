//! Webhook configurations as objects, with all that an API server would fill in, so that what is read can be compared with what is
//! wanted. Pure. (gardener/gardener v1.150 extensions/pkg/webhook/registration.go)

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhook, MutatingWebhookConfiguration, RuleWithOperations, ValidatingWebhook,
    ValidatingWebhookConfiguration, WebhookClientConfig,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::mode::Place;
use crate::names::{configuration_name, shoot_configuration_name, webhook_name};
use crate::webhook::{Target, Webhook};

/// A shoot's care leaves these configurations alone: see gardener/gardener v1.150 docs/usage/shoot/shoot_status.md.
const EXCLUDED_FROM_REMEDIATION: &str = "remediation.webhook.shoot.gardener.cloud/exclude";

/// What an extension registers in one cluster. None: it has no webhook of that form there.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Configurations {
    pub(crate) mutating: Option<MutatingWebhookConfiguration>,
    pub(crate) validating: Option<ValidatingWebhookConfiguration>,
}

/// What an extension registers for one target. `bundle`: authorities of its certificate, PEM.
pub(crate) fn configurations(place: &Place, webhooks: &[Webhook], target: Target, bundle: &str) -> Configurations {
    let of_form = |changes: bool| {
        let chosen = webhooks
            .iter()
            .filter(move |webhook| webhook.target == target && webhook.changes == changes);
        chosen.map(|webhook| Registered::of(place, webhook, bundle))
    };
    let name = match target {
        Target::Seed => configuration_name(&place.extension),
        Target::Shoot => shoot_configuration_name(&place.extension),
    };
    let metadata = ObjectMeta {
        name: Some(name),
        labels: Some(BTreeMap::from([(
            EXCLUDED_FROM_REMEDIATION.to_owned(),
            "true".to_owned(),
        )])),
        ..ObjectMeta::default()
    };
    let mutating: Vec<_> = of_form(true).map(Registered::mutating).collect();
    let validating: Vec<_> = of_form(false).map(Registered::validating).collect();
    Configurations {
        mutating: (!mutating.is_empty()).then(|| MutatingWebhookConfiguration {
            metadata: metadata.clone(),
            webhooks: Some(mutating),
        }),
        validating: (!validating.is_empty()).then_some(ValidatingWebhookConfiguration {
            metadata,
            webhooks: Some(validating),
        }),
    }
}

/// What both forms of a webhook have.
struct Registered<'a> {
    webhook: &'a Webhook,
    name: String,
    client_config: WebhookClientConfig,
    rules: Vec<RuleWithOperations>,
}

impl<'a> Registered<'a> {
    fn of(place: &Place, webhook: &'a Webhook, bundle: &str) -> Self {
        let client_config = WebhookClientConfig {
            ca_bundle: Some(ByteString(bundle.as_bytes().to_vec())),
            ..place.client_config(&webhook.path, webhook.target == Target::Shoot)
        };
        let rules = webhook.rules.iter().map(|rule| RuleWithOperations {
            api_groups: Some(vec![rule.group.clone()]),
            api_versions: Some(vec![rule.version.clone()]),
            operations: Some(vec!["CREATE".to_owned(), "UPDATE".to_owned()]),
            resources: Some(vec![rule.resource.clone()]),
            scope: Some("*".to_owned()),
        });
        Self {
            webhook,
            name: webhook_name(&webhook.name, &place.extension),
            client_config,
            rules: rules.collect(),
        }
    }

    fn mutating(self) -> MutatingWebhook {
        let webhook = self.webhook;
        MutatingWebhook {
            admission_review_versions: versions(),
            client_config: self.client_config,
            failure_policy: Some(webhook.effective_failure_policy().as_str().to_owned()),
            match_conditions: None,
            match_policy: Some("Exact".to_owned()),
            name: self.name,
            namespace_selector: Some(webhook.namespaces.clone().unwrap_or_default()),
            object_selector: Some(webhook.objects.clone().unwrap_or_default()),
            reinvocation_policy: Some("Never".to_owned()),
            rules: Some(self.rules),
            side_effects: "None".to_owned(),
            timeout_seconds: Some(webhook.timeout_seconds.into()),
        }
    }

    fn validating(self) -> ValidatingWebhook {
        let webhook = self.webhook;
        ValidatingWebhook {
            admission_review_versions: versions(),
            client_config: self.client_config,
            failure_policy: Some(webhook.effective_failure_policy().as_str().to_owned()),
            match_conditions: None,
            match_policy: Some("Exact".to_owned()),
            name: self.name,
            namespace_selector: Some(webhook.namespaces.clone().unwrap_or_default()),
            object_selector: Some(webhook.objects.clone().unwrap_or_default()),
            rules: Some(self.rules),
            side_effects: "None".to_owned(),
            timeout_seconds: Some(webhook.timeout_seconds.into()),
        }
    }
}

/// Versions of AdmissionReview that the server reads.
fn versions() -> Vec<String> {
    vec!["v1".to_owned(), "v1beta1".to_owned()]
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use k8s_openapi::api::apps::v1::Deployment;
    use k8s_openapi::api::core::v1::Secret;
    use kube::Resource;
    use serde_json::{Value, json};

    use super::*;
    use crate::refusal::Refusal;
    use crate::registration::Mode;
    use crate::request::Request;
    use crate::webhook::{FailurePolicy, Mutator, Validator, labelled};

    struct Nothing;

    #[async_trait]
    impl<K: Resource + Send + Sync> Mutator<K> for Nothing {
        async fn mutate(&self, _: &Request, _: &mut K, _: Option<&K>) -> Result<(), Refusal> {
            Ok(())
        }
    }

    #[async_trait]
    impl<K: Resource + Send + Sync> Validator<K> for Nothing {
        async fn validate(&self, _: &Request, _: &K, _: Option<&K>) -> Result<Vec<String>, Refusal> {
            Ok(Vec::new())
        }
    }

    fn made(webhooks: &[Webhook], target: Target) -> (Value, Value) {
        let place = Place {
            extension: "provider-fake".to_owned(),
            namespace: "ext".to_owned(),
            service_port: 443,
            mode: Mode::Service,
        };
        let made = configurations(&place, webhooks, target, "PEM");
        (json!(made.mutating), json!(made.validating))
    }

    #[test]
    fn a_configuration_is_that_of_gardeners_library() {
        let webhook = Webhook::new("controlplane", Target::Seed)
            .mutates::<Deployment>(Nothing)
            .mutates::<Secret>(Nothing)
            .in_namespaces(labelled("a", "b"));
        let (mutating, validating) = made(&[webhook], Target::Seed);
        let rule = |group: &str, resource: &str| {
            json!({
                "apiGroups": [group], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"],
                "resources": [resource], "scope": "*",
            })
        };
        let expected = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
            "metadata": {
                "name": "gardener-extension-provider-fake",
                "labels": {"remediation.webhook.shoot.gardener.cloud/exclude": "true"},
            },
            "webhooks": [{
                "name": "controlplane.fake.extensions.gardener.cloud",
                "admissionReviewVersions": ["v1", "v1beta1"],
                "clientConfig": {"caBundle": "UEVN", "service": {
                    "name": "gardener-extension-provider-fake", "namespace": "ext", "path": "/controlplane", "port": 443,
                }},
                "failurePolicy": "Fail", "matchPolicy": "Exact", "reinvocationPolicy": "Never", "sideEffects": "None",
                "timeoutSeconds": 10,
                "namespaceSelector": {"matchLabels": {"a": "b"}}, "objectSelector": {},
                "rules": [rule("apps", "deployments"), rule("", "secrets")],
            }],
        });
        assert_eq!((mutating, validating), (expected, Value::Null));
    }

    #[test]
    fn webhooks_in_shoots_ignore_failures_by_default() {
        let webhooks = [
            Webhook::new("shoot", Target::Shoot).validates::<Secret>(Nothing),
            Webhook::new("strict", Target::Shoot)
                .validates::<Secret>(Nothing)
                .failure_policy(FailurePolicy::Fail)
                .timeout_seconds(99),
        ];
        let (mutating, validating) = made(&webhooks, Target::Shoot);
        assert_eq!(mutating, Value::Null);
        assert_eq!(validating["metadata"]["name"], "gardener-extension-provider-fake-shoot");
        let shown = |at: usize| {
            let webhook = &validating["webhooks"][at];
            (webhook["failurePolicy"].clone(), webhook["timeoutSeconds"].clone())
        };
        assert_eq!(shown(0), (json!("Ignore"), json!(10)));
        assert_eq!(shown(1), (json!("Fail"), json!(30)));
        assert_eq!(
            validating["webhooks"][0]["clientConfig"]["url"],
            "https://gardener-extension-provider-fake.ext:443/shoot"
        );
        assert_eq!(made(&webhooks, Target::Seed), (Value::Null, Value::Null));
    }
}
