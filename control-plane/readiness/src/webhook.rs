//! Admission webhooks of the seed, for errors: an API server names a webhook alone, and here is which configuration has it, which
//! Service serves it and who has installed that; and which webhooks stand in the way of writes because nothing serves them.
//! It reads, and changes nothing.

use std::collections::{BTreeMap, BTreeSet};

use api_extensions::ExtensionKind;
use api_meta::{Fault, ObjectName, WebhookFailure, names};
use base_client::list;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, RuleWithOperations, ValidatingWebhookConfiguration, WebhookClientConfig,
};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement, ObjectMeta};
use kube::{Api, Client};

/// Names the ManagedResource that an object is of, behind its cluster: `CLUSTER:NAMESPACE/NAME`.
const ORIGIN: &str = "resources.gardener.cloud/origin";
/// Names the Service of an EndpointSlice (kubernetes/api v1.35 discovery/v1/well_known_labels.go).
const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// A webhook and what stands behind it.
#[derive(Clone, Debug, Default)]
pub struct Webhook {
    /// Its name, as in the API server's message.
    pub name: String,
    /// Kind and name of its configuration.
    pub configuration: String,
    /// `namespace/name` of the Service that it is reached by; nothing where it is reached by URL.
    pub service: Option<String>,
    /// Kind and name of what has installed it, as far as it can be seen.
    pub owner: Option<String>,
    /// Whether its Service has a ready endpoint; nothing where there is no Service.
    pub is_served: Option<bool>,
    /// Whether requests that it reviews fail when it does not answer.
    pub fails_closed: bool,
    /// The requests that it reviews.
    pub rules: Vec<RuleWithOperations>,
    /// In which namespaces.
    pub namespaces: LabelSelector,
    /// About which objects.
    pub objects: LabelSelector,
}

impl Webhook {
    /// What it is and who stands behind it.
    #[must_use]
    pub fn title(&self) -> String {
        let Self {
            name, configuration, ..
        } = self;
        let service = self
            .service
            .iter()
            .map(|service| format!("served by Service {service}"));
        let owner = self.owner.iter().map(|owner| format!("installed by {owner}"));
        let parts: Vec<String> = std::iter::once(format!("webhook {name} of {configuration}"))
            .chain(service)
            .chain(owner)
            .collect();
        parts.join(", ")
    }

    /// One thing to do when it does not answer.
    #[must_use]
    pub fn to_do(&self) -> String {
        match (&self.service, self.is_served) {
            (Some(service), Some(false)) => format!(
                "let a pod behind Service {service} become ready, or delete {} if nothing is to serve it any more",
                self.configuration
            ),
            (Some(service), _) => format!(
                "look at the log of the pods behind Service {service}: webhook {} fails",
                self.name
            ),
            (None, _) => format!(
                "fix the program that serves webhook {}: {} names its URL",
                self.name, self.configuration
            ),
        }
    }

    /// The same as errors carry it.
    fn failed(&self, has_answered: bool) -> WebhookFailure {
        WebhookFailure {
            name: self.name.clone(),
            has_answered,
            configuration: Some(self.configuration.clone()),
            service: self.service.clone(),
        }
    }

    /// Whether updates of an extension object of this kind fail because of it: it must be called, and nothing serves
    /// it.
    #[must_use]
    pub fn blocks(&self, kind: &str, namespace: &BTreeMap<String, String>, object: &BTreeMap<String, String>) -> bool {
        self.fails_closed
            && self.is_served == Some(false)
            && self.rules.iter().any(|rule| covers_updates(rule, kind))
            && selects(&self.namespaces, namespace)
            && selects(&self.objects, object)
    }
}

/// The webhook that a failure is about, among those of a cluster.
#[must_use]
pub fn webhook_of<'a>(webhooks: &'a [Webhook], failure: &WebhookFailure) -> Option<&'a Webhook> {
    let mut of_name = webhooks.iter().filter(|one| one.name == failure.name);
    // Two configurations may have webhooks of one name; the Service in the URL that was called distinguishes them.
    let is_called = |one: &&Webhook| failure.service.is_some() && one.service == failure.service;
    of_name.clone().find(is_called).or_else(|| of_name.next())
}

/// All webhooks of a cluster.
///
/// # Errors
/// They, or the endpoints of their Services, cannot be read.
pub async fn webhooks(client: &Client) -> Result<Vec<Webhook>, Fault> {
    let (mutating, validating): (Api<MutatingWebhookConfiguration>, Api<ValidatingWebhookConfiguration>) =
        (Api::all(client.clone()), Api::all(client.clone()));
    let (mutating, validating) = futures::try_join!(list(&mutating, ""), list(&validating, ""))?;
    let mut all: Vec<Webhook> = Vec::new();
    // Both kinds have the same fields, as types of their own.
    macro_rules! add {
        ($kind:literal, $configurations:expr) => {
            for configuration in $configurations {
                let metadata = configuration.metadata;
                all.extend(configuration.webhooks.into_iter().flatten().map(|one| Webhook {
                    fails_closed: one.failure_policy.as_deref() != Some("Ignore"),
                    rules: one.rules.unwrap_or_default(),
                    namespaces: one.namespace_selector.unwrap_or_default(),
                    objects: one.object_selector.unwrap_or_default(),
                    ..webhook($kind, &metadata, one.name, &one.client_config)
                }));
            }
        };
    }
    add!("MutatingWebhookConfiguration", mutating);
    add!("ValidatingWebhookConfiguration", validating);
    let services: BTreeSet<String> = all.iter().filter_map(|one| one.service.clone()).collect();
    let mut served = BTreeMap::new();
    for service in services {
        let is_served = has_ready_endpoint(client, &service).await?;
        served.insert(service, is_served);
    }
    for one in &mut all {
        one.is_served = one.service.as_ref().and_then(|service| served.get(service).copied());
    }
    Ok(all)
}

/// What stands behind a fault of a write in the seed, put before it; the fault as it is where nothing is known.
pub async fn with_webhook(client: &Client, namespace: &str, fault: Fault) -> Fault {
    let waits_for = fault
        .object
        .as_deref()
        .filter(|object| is_written_by_extensions(object, namespace));
    if fault.webhook.is_none() && waits_for.is_none() {
        return fault;
    }
    let known = match webhooks(client).await {
        Ok(known) => known,
        Err(error) => {
            tracing::debug!(error = error.chain(), "the webhooks behind an error cannot be read");
            return fault;
        }
    };
    if let Some(failure) = fault.webhook.as_deref()
        && let Some(webhook) = webhook_of(&known, failure)
    {
        let failure = webhook.failed(failure.has_answered);
        let has_answered = failure.has_answered;
        let named = fault.doing(&webhook.title()).webhook(Some(failure));
        // One that answered has reported what is wrong.
        return match has_answered {
            true => named,
            false => named.hint(webhook.to_do()),
        };
    }
    let Some(kind) = waits_for.map(|object| object.kind.clone()) else {
        return fault;
    };
    let labels = labels_of(client, namespace).await;
    let none = BTreeMap::new();
    match known.iter().find(|one| one.blocks(&kind, &labels, &none)) {
        Some(webhook) => fault
            .doing(&format!(
                "every update of {kind} objects fails, because no endpoint is ready behind {}",
                webhook.title()
            ))
            .hint(webhook.to_do())
            .webhook(Some(webhook.failed(false))),
        None => fault,
    }
}

/// Whether it is an extension object in the shoot's namespace.
fn is_written_by_extensions(object: &ObjectName, namespace: &str) -> bool {
    object.namespace.as_deref() == Some(namespace) && ExtensionKind::of(&object.kind).is_some()
}

async fn labels_of(client: &Client, namespace: &str) -> BTreeMap<String, String> {
    let api: Api<Namespace> = Api::all(client.clone());
    let found = base_client::observe(&api, namespace).await;
    found
        .present()
        .and_then(|found| found.metadata.labels.clone())
        .unwrap_or_default()
}

fn webhook(kind: &str, metadata: &ObjectMeta, name: String, client: &WebhookClientConfig) -> Webhook {
    let annotations = metadata.annotations.iter().flatten();
    let mut origins = annotations
        .filter(|(key, _)| *key == ORIGIN)
        .map(|(_, origin)| origin.as_str());
    let origin = origins.next();
    let origin = origin.map(|origin| origin.split_once(':').map_or(origin, |(_, resource)| resource));
    let service = client.service.as_ref();
    let installation = service.and_then(|service| service.namespace.strip_prefix(names::EXTENSION_NAMESPACE_PREFIX));
    let configuration = metadata.name.as_deref().unwrap_or_default();
    Webhook {
        name,
        configuration: format!("{kind} {configuration}"),
        service: service.map(|service| format!("{}/{}", service.namespace, service.name)),
        owner: installation
            .map(|name| format!("ControllerInstallation {name}"))
            .or_else(|| origin.map(|origin| format!("ManagedResource {origin}"))),
        ..Webhook::default()
    }
}

async fn has_ready_endpoint(client: &Client, service: &str) -> Result<bool, Fault> {
    let (namespace, name) = service.split_once('/').unwrap_or_default();
    let slices: Api<EndpointSlice> = Api::namespaced(client.clone(), namespace);
    let slices = list(&slices, &format!("{SERVICE_NAME}={name}")).await?;
    let mut endpoints = slices.iter().flat_map(|slice| &slice.endpoints);
    Ok(endpoints.any(|endpoint| endpoint.conditions.as_ref().and_then(|one| one.ready).unwrap_or(true)))
}

/// Whether a rule is about updates of extension objects of a kind, or of their status.
fn covers_updates(rule: &RuleWithOperations, kind: &str) -> bool {
    let has = |list: &Option<Vec<String>>, wanted: &[&str]| {
        let mut list = list.iter().flatten();
        list.any(|one| wanted.contains(&one.as_str()))
    };
    let Some(plural) = ExtensionKind::of(kind).map(ExtensionKind::plural) else {
        return false;
    };
    let (status, all) = (format!("{plural}/status"), format!("{plural}/*"));
    let resources = ["*", "*/*", "*/status", plural, &status, &all];
    has(&rule.operations, &["*", "UPDATE"])
        && has(&rule.api_groups, &["*", ExtensionKind::GROUP])
        && has(&rule.resources, &resources)
}

/// Whether a selector selects labels; an empty one selects all.
fn selects(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> bool {
    let mut equal = selector.match_labels.iter().flatten();
    let mut others = selector.match_expressions.iter().flatten();
    equal.all(|(key, value)| labels.get(key) == Some(value)) && others.all(|wanted| fulfils(wanted, labels))
}

fn fulfils(wanted: &LabelSelectorRequirement, labels: &BTreeMap<String, String>) -> bool {
    let value = labels.get(&wanted.key);
    let is_listed = || value.is_some_and(|value| wanted.values.iter().flatten().any(|one| one == value));
    match wanted.operator.as_str() {
        "In" => is_listed(),
        "NotIn" => !is_listed(),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn known(name: &str, configuration: &str, service: &str) -> Webhook {
        Webhook {
            name: name.to_owned(),
            configuration: format!("MutatingWebhookConfiguration {configuration}"),
            service: Some(service.to_owned()),
            fails_closed: true,
            is_served: Some(false),
            ..Webhook::default()
        }
    }

    fn rule(operations: &[&str], groups: &[&str], resources: &[&str]) -> RuleWithOperations {
        let rule = json!({"operations": operations, "apiGroups": groups, "apiVersions": ["*"], "resources": resources});
        serde_json::from_value(rule).unwrap()
    }

    fn selector(selector: Value) -> LabelSelector {
        serde_json::from_value(selector).unwrap()
    }

    fn labels(key: &str, value: &str) -> BTreeMap<String, String> {
        BTreeMap::from([(key.to_owned(), value.to_owned())])
    }

    #[test]
    fn webhook_is_found_by_its_name_and_by_the_service_in_the_url() {
        let all = [
            known("a", "one", "n/s"),
            known("b", "two", "n/t"),
            known("b", "three", "m/t"),
        ];
        let failed = |name: &str, service: Option<&str>| WebhookFailure {
            name: name.to_owned(),
            service: service.map(str::to_owned),
            ..WebhookFailure::default()
        };
        let found = |failure: &WebhookFailure| {
            webhook_of(&all, failure).map(|one| one.configuration.rsplit(' ').next().unwrap())
        };
        assert_eq!(found(&failed("a", Some("n/s"))), Some("one"));
        assert_eq!(found(&failed("b", Some("m/t"))), Some("three"));
        assert_eq!(found(&failed("b", None)), Some("two"));
        assert_eq!(found(&failed("c", Some("n/s"))), None);
    }

    #[test]
    fn title_names_configuration_service_and_owner() {
        let metadata = ObjectMeta {
            name: Some("gardener-extension-moon".to_owned()),
            ..ObjectMeta::default()
        };
        let service = |namespace: &str| {
            serde_json::from_value(json!({"service": {"namespace": namespace, "name": "moon"}})).unwrap()
        };
        let kind = "MutatingWebhookConfiguration";
        let of_extension = webhook(
            kind,
            &metadata,
            "w".to_owned(),
            &service("extension-provider-moon-abcde"),
        );
        assert_eq!(
            of_extension.title(),
            "webhook w of MutatingWebhookConfiguration gardener-extension-moon, served by Service \
             extension-provider-moon-abcde/moon, installed by ControllerInstallation provider-moon-abcde"
        );
        let annotated = ObjectMeta {
            annotations: Some(labels(ORIGIN, "seed:garden/guard")),
            ..metadata
        };
        let of_resource = webhook(kind, &annotated, "w".to_owned(), &service("garden"));
        assert_eq!(of_resource.owner.as_deref(), Some("ManagedResource garden/guard"));
    }

    #[test]
    fn only_a_webhook_of_the_kind_without_endpoints_blocks_it() {
        let namespace = labels("shoot.gardener.cloud/provider", "moon");
        let none = BTreeMap::new();
        let blocks = |change: &dyn Fn(&mut Webhook)| {
            let mut webhook = known("w", "c", "n/s");
            webhook.rules = vec![rule(
                &["CREATE", "UPDATE"],
                &[ExtensionKind::GROUP],
                &["operatingsystemconfigs"],
            )];
            change(&mut webhook);
            webhook.blocks("OperatingSystemConfig", &namespace, &none)
        };
        assert!(blocks(&|_| {}));
        assert!(!blocks(&|webhook| webhook.is_served = Some(true)));
        assert!(!blocks(&|webhook| webhook.is_served = None));
        assert!(!blocks(&|webhook| webhook.fails_closed = false));
        assert!(!blocks(
            &|webhook| webhook.rules = vec![rule(&["CREATE"], &["*"], &["*"])]
        ));
        assert!(!blocks(&|webhook| webhook.rules = vec![rule(&["*"], &["apps"], &["*"])]));
        assert!(!blocks(
            &|webhook| webhook.rules = vec![rule(&["*"], &["*"], &["workers"])]
        ));
        assert!(blocks(
            &|webhook| webhook.rules = vec![rule(&["*"], &["*"], &["*/status"])]
        ));
        let of = |value: Value| move |webhook: &mut Webhook| webhook.namespaces = selector(value.clone());
        let key = "shoot.gardener.cloud/provider";
        let expression = |operator: &str, values: &[&str]| json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
        assert!(blocks(&of(expression("In", &["moon"]))));
        assert!(!blocks(&of(expression("NotIn", &["moon"]))));
        assert!(blocks(&of(expression("Exists", &[]))));
        assert!(!blocks(&of(expression("DoesNotExist", &[]))));
        assert!(!blocks(&of(json!({"matchLabels": {key: "mars"}}))));
        assert!(!blocks(
            &|webhook| webhook.objects = selector(json!({"matchLabels": {"a": "b"}}))
        ));
    }

    #[test]
    fn only_extension_objects_of_the_shoots_namespace_are_written_by_extensions() {
        let is =
            |kind: &str, namespace| is_written_by_extensions(&ObjectName::new(kind, namespace, "x"), "shoot--a--b");
        assert!(is("OperatingSystemConfig", Some("shoot--a--b")));
        assert!(is("BackupEntry", Some("shoot--a--b")));
        assert!(!is("Deployment", Some("shoot--a--b")));
        assert!(!is("Worker", Some("shoot--a--c")));
        assert!(!is("BackupBucket", None));
    }
}
