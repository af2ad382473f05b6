//! The admission webhooks that the extension has registered: objects that it does not know are created without being
//! kept (`dryRun`), in the namespace of the run and in one of a Shoot of another provider.

use std::collections::BTreeMap;

use api_extensions::{ExtensionClass, ExtensionKind};
use api_meta::{Fault, WebhookFailure, labels};
use base_client::{fault_of, list};
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, RuleWithOperations, ValidatingWebhookConfiguration, WebhookClientConfig,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;
use kube::api::{DynamicObject, PostParams};
use kube::core::ApiResource;
use serde_json::{Map, Value, json};

use crate::rule::Rule;
use crate::stage::{Stage, Stop};
use crate::{surroundings, template};

/// The provider of the other Shoot, the type of objects that no extension knows, and what they are called.
const UNKNOWN: &str = "conformance-unknown";

/// A webhook of the extension.
struct Webhook {
    name: String,
    rules: Vec<RuleWithOperations>,
}

/// Runs the part.
///
/// # Errors
/// An API server that refuses to show webhooks or to make a namespace.
pub(crate) async fn run(stage: &mut Stage) -> Result<(), Stop> {
    let rules = [Rule::WebhooksAnswer, Rule::WebhooksSpareOtherProviders];
    let webhooks = of_extension(stage).await?;
    let samples = samples(stage, &webhooks);
    if samples.is_empty() {
        let reason = match webhooks.is_empty() {
            true => "no configuration of webhooks of the extension was found",
            false => "the extension's webhooks are called for no kind that the kit has an example of",
        };
        rules.into_iter().for_each(|rule| stage.ledger.skipped(rule, reason));
        return Ok(());
    }
    stage.step("create unknown objects, without keeping them");
    let own = stage.names.namespace.clone();
    let other = format!("{own}-other");
    let marks = [
        labels::SHOOT_PROVIDER,
        labels::SEED_PROVIDER,
        labels::BACKUP_PROVIDER,
        labels::NETWORKING_PROVIDER,
    ];
    let mut marks: BTreeMap<String, String> = marks
        .into_iter()
        .map(|key| (key.to_owned(), UNKNOWN.to_owned()))
        .collect();
    marks.insert(labels::ROLE.to_owned(), labels::role::SHOOT.to_owned());
    stage.namespaces.push(other.clone());
    surroundings::namespace(&stage.client, &other, marks, UNKNOWN).await?;
    for (rule, namespace) in [(rules[0], &own), (rules[1], &other)] {
        for sample in &samples {
            let title = format!("{} {namespace}/{UNKNOWN}", sample.kind);
            match sample.refused(stage, namespace, &webhooks).await {
                Answer::Allowed => stage.checked(rule, &title, Ok(())),
                Answer::Refused(why) => stage.checked(rule, &title, Err(why)),
                Answer::Other(why) => stage.ledger.skipped(rule, format!("{title} cannot be created: {why}")),
            }
        }
    }
    Ok(())
}

/// The webhooks that belong to the extension: by its namespace if it was given, and by the names that Gardener's library
/// gives (gardener/gardener v1.150 extensions/pkg/webhook/registration.go).
async fn of_extension(stage: &Stage) -> Result<Vec<Webhook>, Fault> {
    let mut found = Vec::new();
    let mutating: Vec<MutatingWebhookConfiguration> = list(&Api::all(stage.client.clone()), "").await?;
    for configuration in mutating {
        for webhook in configuration.webhooks.unwrap_or_default() {
            if is_of_extension(stage, &configuration.metadata, &webhook.name, &webhook.client_config) {
                let rules = webhook.rules.unwrap_or_default();
                found.push(Webhook {
                    name: webhook.name,
                    rules,
                });
            }
        }
    }
    let validating: Vec<ValidatingWebhookConfiguration> = list(&Api::all(stage.client.clone()), "").await?;
    for configuration in validating {
        for webhook in configuration.webhooks.unwrap_or_default() {
            if is_of_extension(stage, &configuration.metadata, &webhook.name, &webhook.client_config) {
                let rules = webhook.rules.unwrap_or_default();
                found.push(Webhook {
                    name: webhook.name,
                    rules,
                });
            }
        }
    }
    Ok(found)
}

fn is_of_extension(stage: &Stage, metadata: &ObjectMeta, webhook: &str, client: &WebhookClientConfig) -> bool {
    let (type_, namespace) = (&stage.subject.type_, stage.options.namespace.as_deref());
    let service = client.service.as_ref().map(|service| service.namespace.as_str());
    let mut owners = metadata.owner_references.iter().flatten();
    let owned = owners.any(|owner| owner.kind == "Namespace" && Some(owner.name.as_str()) == namespace);
    let named = metadata
        .name
        .as_deref()
        .unwrap_or_default()
        .strip_prefix("gardener-extension-");
    let named = named.is_some_and(|rest| rest == type_ || rest.ends_with(&format!("-{type_}")));
    namespace.is_some() && service == namespace
        || owned
        || named
        || webhook.ends_with(&format!(".{type_}.extensions.gardener.cloud"))
}

/// An object that no extension knows.
struct Sample {
    group: &'static str,
    version: &'static str,
    plural: &'static str,
    kind: &'static str,
    fields: Map<String, Value>,
}

enum Answer {
    Allowed,
    /// By a webhook of the extension.
    Refused(String),
    /// By something else.
    Other(String),
}

/// Objects of the kinds that the extension's webhooks are called for.
fn samples(stage: &Stage, webhooks: &[Webhook]) -> Vec<Sample> {
    let mut all = workloads();
    let kinds = ExtensionKind::ALL.iter().filter(|kind| kind.is_namespaced());
    all.extend(kinds.map(|kind| {
        let mut spec = template::least(*kind, &stage.names, UNKNOWN);
        spec.insert("type".to_owned(), json!(UNKNOWN));
        spec.insert("class".to_owned(), json!(ExtensionClass::Shoot));
        Sample {
            group: ExtensionKind::GROUP,
            version: "v1alpha1",
            plural: kind.plural(),
            kind: kind.kind(),
            fields: Map::from_iter([("spec".to_owned(), Value::Object(spec))]),
        }
    }));
    all.retain(|sample| {
        webhooks
            .iter()
            .flat_map(|webhook| &webhook.rules)
            .any(|rule| sample.is_meant(rule))
    });
    all
}

fn workloads() -> Vec<Sample> {
    let pod = json!({"containers": [{"name": UNKNOWN, "image": "registry.example.com/conformance:1"}]});
    let marks = json!({"app": UNKNOWN});
    let template = json!({"metadata": {"labels": marks}, "spec": pod});
    let workload = json!({"spec": {"selector": {"matchLabels": marks}, "template": template}});
    let mut set = workload.clone();
    set["spec"]["serviceName"] = json!(UNKNOWN);
    let of = |group, version, plural, kind, fields: Value| Sample {
        group,
        version,
        plural,
        kind,
        fields: fields.as_object().cloned().unwrap_or_default(),
    };
    vec![
        of("apps", "v1", "deployments", "Deployment", workload.clone()),
        of("apps", "v1", "statefulsets", "StatefulSet", set),
        of("apps", "v1", "daemonsets", "DaemonSet", workload),
        of("", "v1", "pods", "Pod", json!({"spec": pod})),
        of(
            "",
            "v1",
            "services",
            "Service",
            json!({"spec": {"ports": [{"port": 443}]}}),
        ),
        of("", "v1", "secrets", "Secret", json!({"data": {}})),
        of("", "v1", "configmaps", "ConfigMap", json!({"data": {}})),
    ]
}

impl Sample {
    fn is_meant(&self, rule: &RuleWithOperations) -> bool {
        let has = |list: &Option<Vec<String>>, word: &str| {
            list.iter()
                .flatten()
                .any(|one| one == word || one == "*" || one == "*/*")
        };
        has(&rule.operations, "CREATE")
            && has(&rule.api_groups, self.group)
            && has(&rule.api_versions, self.version)
            && has(&rule.resources, self.plural)
    }

    async fn refused(&self, stage: &Stage, namespace: &str, webhooks: &[Webhook]) -> Answer {
        let resource = ApiResource::from_gvk_with_plural(
            &kube::core::GroupVersionKind::gvk(self.group, self.version, self.kind),
            self.plural,
        );
        let api: Api<DynamicObject> = Api::namespaced_with(stage.client.clone(), namespace, &resource);
        let mut object = DynamicObject::new(UNKNOWN, &resource).data(Value::Object(self.fields.clone()));
        object.metadata.labels = Some(BTreeMap::from([(
            labels::MUTATED_BY_CONTROL_PLANE_WEBHOOK.to_owned(),
            "true".to_owned(),
        )]));
        let params = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        let Err(error) = api.create(&params, &object).await else {
            return Answer::Allowed;
        };
        let message = fault_of(error, "create it").chain();
        let failure = WebhookFailure::in_message(&message);
        match failure.filter(|failure| webhooks.iter().any(|webhook| webhook.name == failure.name)) {
            Some(_) => Answer::Refused(format!("the API server answered {message:?}")),
            None => Answer::Other(message),
        }
    }
}
