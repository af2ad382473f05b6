//! Defaults and validation of what a Shoot has for an extension, in the garden's API server (gardener/gardener v1.150
//! docs/extensions/admission.md): only that part may be changed, and all that is wrong with it is in one answer.

use std::sync::Arc;

use api_core::v1beta1::Shoot;
use api_meta::labels::extension_types;
use api_meta::{Fault, RawJson};
use async_trait::async_trait;
use extensions_sdk::FieldProblem;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use crate::patch::difference;
use crate::refusal::Refusal;
use crate::request::Request;
use crate::selectors::in_garden;
use crate::webhook::{Mutator, Target, Validator, Webhook};

/// What an extension author writes for Shoots with the extension's type. Shoots of other types and in deletion are none of its
/// business, and updates that leave `spec` as it is are not either.
#[async_trait]
pub trait ShootProvider: Send + Sync + 'static {
    /// Sets what the user has left out. Only the part of the extension may be changed; whatever else is changed refuses the
    /// request as a bug of the extension. It is called again with what it has made: then it has nothing to change.
    ///
    /// # Errors
    /// What makes defaults impossible, such as a cloud profile that cannot be read.
    async fn default(&self, _shoot: &mut Shoot, _old: Option<&Shoot>) -> Result<(), Refusal> {
        Ok(())
    }

    /// All that is wrong with the part of the extension, each with its path from the Shoot's root.
    ///
    /// # Errors
    /// What makes validation impossible.
    async fn validate(&self, _shoot: &Shoot, _old: Option<&Shoot>) -> Result<Vec<FieldProblem>, Refusal> {
        Ok(Vec::new())
    }
}

/// The part of a Shoot that an extension has to itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShootPart {
    /// `spec.provider.infrastructureConfig`, `controlPlaneConfig` and the `providerConfig` of worker pools, where
    /// `spec.provider.type` is that of the extension.
    Provider,
    /// `spec.networking.providerConfig`, where `spec.networking.type` is.
    Network,
    /// The `providerConfig` of the entry of `spec.extensions` with that type.
    Extension,
}

impl ShootPart {
    fn selector(self, type_: &str) -> LabelSelector {
        let prefix = match self {
            Self::Provider => extension_types::PROVIDER,
            Self::Network => extension_types::NETWORKING,
            Self::Extension => extension_types::EXTENSION,
        };
        in_garden(prefix, type_)
    }

    fn is_of(self, type_: &str, shoot: &Shoot) -> bool {
        let spec = &shoot.spec;
        match self {
            Self::Provider => spec.provider.type_ == type_,
            Self::Network => {
                let networking = spec.networking.as_ref();
                networking.is_some_and(|networking| networking.type_.as_deref() == Some(type_))
            }
            Self::Extension => spec.extensions.iter().any(|extension| extension.type_ == type_),
        }
    }

    /// The fields of the part.
    fn fields<'s>(self, type_: &str, shoot: &'s mut Shoot) -> Vec<&'s mut Option<RawJson>> {
        let spec = &mut shoot.spec;
        match self {
            Self::Provider => {
                let provider = &mut spec.provider;
                let own = [&mut provider.infrastructure_config, &mut provider.control_plane_config];
                let workers = provider.workers.iter_mut();
                own.into_iter()
                    .chain(workers.map(|worker| &mut worker.provider_config))
                    .collect()
            }
            Self::Network => {
                let networking = spec.networking.as_mut();
                networking
                    .map(|networking| &mut networking.provider_config)
                    .into_iter()
                    .collect()
            }
            Self::Extension => {
                let extensions = spec.extensions.iter_mut();
                let own = extensions.filter(|extension| extension.type_ == type_);
                own.map(|extension| &mut extension.provider_config).collect()
            }
        }
    }
}

/// Both webhooks of a part of Shoots: `mutator` and `validator`. They are registered in the garden's API server: see
/// [`crate::Webhooks::registered_in`].
#[must_use]
pub fn shoot_webhooks(type_: &str, part: ShootPart, provider: Arc<dyn ShootProvider>) -> [Webhook; 2] {
    let own = Own {
        type_: type_.to_owned(),
        part,
        provider,
    };
    // Names and paths of gardener/gardener v1.150 pkg/provider-local/admission.
    let mutator = Webhook::new("mutator", Target::Seed)
        .path("/webhooks/mutate")
        .mutates::<Shoot>(own.clone());
    let validator = Webhook::new("validator", Target::Seed)
        .path("/webhooks/validate")
        .validates::<Shoot>(own);
    [mutator, validator].map(|webhook| webhook.of_objects(part.selector(type_)))
}

/// What concerns one extension.
#[derive(Clone)]
struct Own {
    type_: String,
    part: ShootPart,
    provider: Arc<dyn ShootProvider>,
}

impl Own {
    fn concerns(&self, request: &Request, new: &Shoot, old: Option<&Shoot>) -> bool {
        self.part.is_of(&self.type_, new)
            && !request.is_in_deletion()
            && request.sub_resource.is_empty()
            && old.is_none_or(|old| old.spec != new.spec)
    }

    /// The first path of what was changed beside the part.
    fn changed_elsewhere(&self, mut before: Shoot, after: &Shoot) -> Option<String> {
        let mut wanted = after.clone();
        let fields = self.part.fields(&self.type_, &mut wanted);
        for (before, after) in self.part.fields(&self.type_, &mut before).into_iter().zip(fields) {
            before.clone_from(after);
        }
        let (before, wanted) = (serde_json::to_value(&before).ok()?, serde_json::to_value(&wanted).ok()?);
        let first = difference(&before, &wanted).into_iter().next()?;
        let path = first["path"].as_str()?.trim_start_matches('/');
        Some(path.replace('/', "."))
    }
}

#[async_trait]
impl Mutator<Shoot> for Own {
    async fn mutate(&self, request: &Request, new: &mut Shoot, old: Option<&Shoot>) -> Result<(), Refusal> {
        if !self.concerns(request, new, old) {
            return Ok(());
        }
        let before = new.clone();
        self.provider.default(new, old).await?;
        match self.changed_elsewhere(before, new) {
            None => Ok(()),
            Some(path) => Err(
                Fault::bug(format!("the extension has changed {path}, which is not its own"))
                    .hint("use a version of the extension that sets defaults in its own configuration alone")
                    .into(),
            ),
        }
    }
}

#[async_trait]
impl Validator<Shoot> for Own {
    async fn validate(&self, request: &Request, new: &Shoot, old: Option<&Shoot>) -> Result<Vec<String>, Refusal> {
        if !self.concerns(request, new, old) {
            return Ok(Vec::new());
        }
        match Refusal::of_fields(self.provider.validate(new, old).await?) {
            None => Ok(Vec::new()),
            Some(refusal) => Err(refusal),
        }
    }
}

#[cfg(test)]
mod tests {
    use base_client::review_server;
    use serde_json::{Value, json};

    use super::*;
    use crate::decide::reviews;

    /// Sets a network where there is none, and accepts one network alone.
    struct Fake {
        oversteps: bool,
    }

    #[async_trait]
    impl ShootProvider for Fake {
        async fn default(&self, shoot: &mut Shoot, _: Option<&Shoot>) -> Result<(), Refusal> {
            let config = shoot.spec.provider.infrastructure_config.get_or_insert_default();
            let mut value = config.value();
            if value["network"].is_null() {
                value["network"] = json!("10.0.0.0/16");
                *config = value.into();
            }
            for worker in &mut shoot.spec.provider.workers {
                worker.provider_config.get_or_insert_with(|| json!({"disk": 50}).into());
            }
            if self.oversteps {
                shoot.spec.region = "elsewhere".to_owned();
            }
            Ok(())
        }

        async fn validate(&self, shoot: &Shoot, old: Option<&Shoot>) -> Result<Vec<FieldProblem>, Refusal> {
            let config = shoot.spec.provider.infrastructure_config.as_ref().map(RawJson::value);
            let mut problems = Vec::new();
            if config.unwrap_or_default()["network"] != "10.0.0.0/16" {
                let field = "spec.provider.infrastructureConfig.network";
                problems.push(FieldProblem::new(field, "is wrong", "10.0.0.0/16"));
            }
            let before = old.map_or(0, |old| old.spec.provider.workers.len());
            if before > shoot.spec.provider.workers.len() {
                problems.push(FieldProblem::new("spec.provider.workers", "has lost a pool", ""));
            }
            Ok(problems)
        }
    }

    fn shoot(infrastructure: Value, workers: usize) -> Value {
        let workers: Vec<_> = (0..workers)
            .map(|at| json!({"name": format!("w{at}"), "fromTomorrow": {"at": at}}))
            .collect();
        json!({
            "apiVersion": "core.gardener.cloud/v1beta1", "kind": "Shoot", "metadata": {"name": "s", "namespace": "garden-p"},
            "spec": {
                "region": "r", "kubernetes": {"version": "1.35.0"}, "fromTomorrow": 12345678901234567_u64,
                "provider": {"type": "fake", "infrastructureConfig": infrastructure, "workers": workers},
            },
            "status": {"lastOperation": {"type": "Create", "state": "Succeeded", "description": "", "lastUpdateTime": "2026-01-01T00:00:00Z", "progress": 100}},
        })
    }

    /// The answers of both webhooks: the patch, and the refusal's status.
    async fn answers(oversteps: bool, object: &Value, old: &Value) -> (Value, Value) {
        let webhooks = shoot_webhooks("fake", ShootPart::Provider, Arc::new(Fake { oversteps }));
        let paths = webhooks
            .iter()
            .map(|webhook| (webhook.path.clone(), reviews("admission-fake", webhook)));
        let client = base_client::in_process(review_server(paths.collect()), |_| {});
        let operation = if old.is_null() { "CREATE" } else { "UPDATE" };
        let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
            "uid": "u", "kind": {"group": "core.gardener.cloud", "version": "v1beta1", "kind": "Shoot"},
            "operation": operation, "namespace": "garden-p", "name": "s", "object": object, "oldObject": old,
        }});
        let mut responses = Vec::new();
        for path in ["/webhooks/mutate", "/webhooks/validate"] {
            let request = http::Request::post(path).body(review.to_string().into_bytes()).unwrap();
            let answer: Value = client.request(request).await.unwrap();
            responses.push(answer["response"].clone());
        }
        (responses.remove(0), responses.remove(0))
    }

    fn patch(response: &Value) -> Value {
        use base64::Engine as _;
        let Some(patch) = response["patch"].as_str() else {
            return Value::Null;
        };
        serde_json::from_slice(&base64::engine::general_purpose::STANDARD.decode(patch).unwrap()).unwrap()
    }

    #[tokio::test]
    async fn defaults_are_set_in_the_providers_part_and_nowhere_else() {
        let (mutated, _) = answers(false, &shoot(json!({"zones": ["a"]}), 1), &Value::Null).await;
        let expected = json!([
            {"op": "add", "path": "/spec/provider/infrastructureConfig/network", "value": "10.0.0.0/16"},
            {"op": "add", "path": "/spec/provider/workers/0/providerConfig", "value": {"disk": 50}},
        ]);
        assert_eq!(patch(&mutated), expected);
        let (refused, _) = answers(true, &shoot(json!({}), 0), &Value::Null).await;
        let message = refused["status"]["message"].as_str().unwrap();
        let beginning =
            "extension admission-fake, webhook mutator, Shoot garden-p/s: the extension has changed spec.region";
        assert!(
            refused["status"]["code"] == 500 && message.starts_with(beginning),
            "{message}"
        );
    }

    #[tokio::test]
    async fn all_problems_are_in_one_answer_with_their_paths() {
        let (_, refused) = answers(false, &shoot(json!({"network": "x"}), 1), &shoot(json!({}), 2)).await;
        let fields: Vec<_> = refused["status"]["details"]["causes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| &it["field"])
            .collect();
        assert_eq!(
            fields,
            ["spec.provider.infrastructureConfig.network", "spec.provider.workers"]
        );
        assert_eq!(refused["status"]["code"], 422);
        let (_, fine) = answers(false, &shoot(json!({"network": "10.0.0.0/16"}), 1), &Value::Null).await;
        assert_eq!(fine, json!({"uid": "u", "allowed": true}));
    }

    #[tokio::test]
    async fn other_types_deletions_and_updates_of_the_status_pass_untouched() {
        let bad = shoot(json!({"network": "x"}), 0);
        let (mut other, mut going, mut reported) = (bad.clone(), bad.clone(), bad.clone());
        other["spec"]["provider"]["type"] = json!("other");
        going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        reported["status"]["lastOperation"]["progress"] = json!(50);
        for (object, old) in [(other, Value::Null), (going, shoot(json!({}), 0)), (reported, bad)] {
            let passes = json!({"uid": "u", "allowed": true});
            assert_eq!(answers(false, &object, &old).await, (passes.clone(), passes));
        }
    }

    #[test]
    fn parts_are_selected_by_the_labels_of_their_types() {
        for (part, label) in [
            (ShootPart::Provider, "provider.extensions.gardener.cloud/x"),
            (ShootPart::Network, "networking.extensions.gardener.cloud/x"),
            (ShootPart::Extension, "extensions.extensions.gardener.cloud/x"),
        ] {
            let [mutator, validator] = shoot_webhooks("x", part, Arc::new(Fake { oversteps: false }));
            assert!(mutator.changes && !validator.changes);
            assert_eq!(json!(mutator.objects), json!({"matchLabels": {label: "true"}}));
            assert_eq!(mutator.objects, validator.objects);
        }
    }

    #[test]
    fn each_part_is_its_own_fields() {
        let raw = || Some(RawJson::from(json!({})));
        let mut shoot: Shoot = serde_json::from_value(shoot(json!({}), 2)).unwrap();
        shoot.spec.extensions = serde_json::from_value(json!([{"type": "x"}, {"type": "y"}])).unwrap();
        shoot.spec.networking = serde_json::from_value(json!({"type": "x"})).unwrap();
        for (part, count) in [
            (ShootPart::Provider, 4),
            (ShootPart::Network, 1),
            (ShootPart::Extension, 1),
        ] {
            let mut changed = shoot.clone();
            let fields = part.fields("x", &mut changed);
            assert_eq!(fields.len(), count, "{part:?}");
            fields.into_iter().for_each(|field| *field = raw());
            assert!(part.is_of(if part == ShootPart::Provider { "fake" } else { "x" }, &changed));
        }
    }
}
