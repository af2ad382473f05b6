//! From a review to an answer: who decides about an object, within which time, and the answer when that fails.

use std::marker::PhantomData;
use std::sync::Arc;

use api_meta::Fault;
use async_trait::async_trait;
use base_client::{Admission, Reviewer, reviewer};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::patch::{difference, overlay};
use crate::refusal::Refusal;
use crate::request::Request;
use crate::webhook::{Mutator, Validator, Webhook};

/// Decides about objects of one kind.
#[async_trait]
pub(crate) trait Decide: Send + Sync {
    async fn decide(&self, request: &Request) -> Result<Admission, Refusal>;
}

pub(crate) struct Mutating<K, M> {
    mutator: M,
    kind: PhantomData<fn() -> K>,
}

impl<K, M> Mutating<K, M> {
    pub(crate) fn new(mutator: M) -> Self {
        Self {
            mutator,
            kind: PhantomData,
        }
    }
}

#[async_trait]
impl<K, M> Decide for Mutating<K, M>
where
    K: DeserializeOwned + Serialize + Clone + Send + Sync + 'static,
    M: Mutator<K>,
{
    async fn decide(&self, request: &Request) -> Result<Admission, Refusal> {
        if request.is_in_deletion() {
            return Ok(Admission::allowed());
        }
        let (before, old) = request.typed::<K>()?;
        let mut after = before.clone();
        self.mutator.mutate(request, &mut after, old.as_ref()).await?;
        let (before, after) = (view(&before)?, view(&after)?);
        let target = overlay(Some(&request.object), Some(&before), Some(&after));
        Ok(Admission::patched(
            target.map_or_else(Vec::new, |target| difference(&request.object, &target)),
        ))
    }
}

fn view<K: Serialize>(object: &K) -> Result<Value, Refusal> {
    serde_json::to_value(object).map_err(|error| {
        let fault = Fault::bug(error).doing("write the object as JSON");
        fault
            .hint("report it: an object of a known type cannot be written")
            .into()
    })
}

pub(crate) struct Validating<K, V> {
    validator: V,
    kind: PhantomData<fn() -> K>,
}

impl<K, V> Validating<K, V> {
    pub(crate) fn new(validator: V) -> Self {
        Self {
            validator,
            kind: PhantomData,
        }
    }
}

#[async_trait]
impl<K, V> Decide for Validating<K, V>
where
    K: DeserializeOwned + Send + Sync + 'static,
    V: Validator<K>,
{
    async fn decide(&self, request: &Request) -> Result<Admission, Refusal> {
        let (new, old) = request.typed::<K>()?;
        let warnings = self.validator.validate(request, &new, old.as_ref()).await?;
        Ok(Admission::allowed().with_warnings(warnings))
    }
}

/// Answers the reviews of a webhook of `extension`.
pub(crate) fn reviews(extension: &str, webhook: &Webhook) -> Reviewer {
    let (extension, webhook) = (Arc::<str>::from(extension), Arc::new(webhook.clone()));
    reviewer(move |review| {
        let (extension, webhook) = (extension.clone(), webhook.clone());
        async move { answer(&extension, &webhook, review).await }
    })
}

async fn answer(extension: &str, webhook: &Webhook, mut review: Value) -> Result<Value, String> {
    let request = Request::read(&mut review)?;
    let decided = match webhook.deciders.get(&request.kind) {
        Some(decider) => in_time(webhook, decider.decide(&request)).await,
        None => Err(unexpected(&request).into()),
    };
    let admission = decided.unwrap_or_else(|refusal| {
        let object = request.object_name();
        let class = refusal.class();
        tracing::info!(webhook = webhook.name, %object, %class, "refused: {refusal}");
        refusal.admission(&format!("extension {extension}, webhook {}, {object}", webhook.name))
    });
    Ok(admission.answer(&review))
}

async fn in_time(
    webhook: &Webhook,
    deciding: impl Future<Output = Result<Admission, Refusal>>,
) -> Result<Admission, Refusal> {
    let patience = webhook.patience();
    tokio::time::timeout(patience, deciding).await.unwrap_or_else(|_| {
        let late = Fault::transient(format!("no decision within {} s", patience.as_secs_f64()));
        Err(late.hint("try again; look at what the extension waits for").into())
    })
}

fn unexpected(request: &Request) -> Fault {
    let kind = &request.kind;
    Fault::bug(format!(
        "it is not registered for {}/{} {}",
        kind.group, kind.version, kind.kind
    ))
    .hint("delete the webhook configuration: the extension writes its own again")
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use super::*;
    use crate::webhook::Target;

    struct Marks;

    #[async_trait]
    impl Mutator<ConfigMap> for Marks {
        async fn mutate(&self, _: &Request, new: &mut ConfigMap, old: Option<&ConfigMap>) -> Result<(), Refusal> {
            let data = new.data.get_or_insert_default();
            match data.get("do").map(String::as_str) {
                Some("fail") => return Err(Fault::dependency("the cloud is away").hint("wait").into()),
                Some("hang") => std::future::pending::<()>().await,
                _ => {}
            }
            data.insert("marked".to_owned(), old.is_some().to_string());
            Ok(())
        }
    }

    struct WarnOrRefuse;

    #[async_trait]
    impl Validator<ConfigMap> for WarnOrRefuse {
        async fn validate(&self, _: &Request, new: &ConfigMap, _: Option<&ConfigMap>) -> Result<Vec<String>, Refusal> {
            match new.immutable {
                Some(true) => Ok(vec!["it cannot be changed later".to_owned()]),
                _ => Err(Fault::user("it may change").into()),
            }
        }
    }

    async fn answered(webhook: &Webhook, operation: &str, object: Value, old: Value) -> Value {
        let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
            "uid": "u", "kind": {"group": "", "version": "v1", "kind": object["kind"]}, "operation": operation,
            "namespace": "n", "name": "a", "object": object, "oldObject": old,
        }});
        let answer = answer("provider-x", webhook, review).await.unwrap();
        answer["response"].clone()
    }

    /// The operations of an answer's patch.
    fn patch_of(response: &Value) -> Value {
        use base64::Engine as _;
        let patch = response["patch"].as_str().unwrap();
        let bytes = base64::engine::general_purpose::STANDARD.decode(patch).unwrap();
        serde_json::from_slice(&bytes).unwrap()
    }

    fn map(data: Value) -> Value {
        json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a"}, "data": data, "unknown": {"x": 1}})
    }

    #[tokio::test]
    async fn a_mutator_patches_what_it_has_changed_and_nothing_else() {
        let webhook = Webhook::new("marks", Target::Seed).mutates(Marks);
        let created = answered(&webhook, "CREATE", map(json!({"a": "b"})), Value::Null).await;
        assert_eq!(
            patch_of(&created),
            json!([{"op": "add", "path": "/data/marked", "value": "false"}])
        );
        let settled = map(json!({"marked": "true"}));
        let updated = answered(&webhook, "UPDATE", settled.clone(), settled).await;
        assert_eq!(updated, json!({"uid": "u", "allowed": true}));
        let mut going = map(json!({}));
        going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        let answer = answered(&webhook, "UPDATE", going, Value::Null).await;
        assert_eq!(answer, json!({"uid": "u", "allowed": true}));
    }

    #[tokio::test(start_paused = true)]
    async fn failures_name_extension_webhook_and_object() {
        let webhook = Webhook::new("marks", Target::Seed).mutates(Marks);
        let about = "extension provider-x, webhook marks, ConfigMap n/a: ";
        let unfit = json!({"kind": "ConfigMap", "data": 3});
        for (object, code, message) in [
            (map(json!({"do": "fail"})), 503, "the cloud is away (to do: wait)"),
            (map(json!({"do": "hang"})), 503, "no decision within 9 s"),
            (unfit, 422, "the object cannot be read: invalid type: integer `3`"),
        ] {
            let refused = answered(&webhook, "CREATE", object, Value::Null).await;
            assert_eq!(
                (&refused["allowed"], &refused["status"]["code"]),
                (&json!(false), &json!(code))
            );
            let text = refused["status"]["message"].as_str().unwrap();
            assert!(text.starts_with(&format!("{about}{message}")), "{text}");
        }
        let other = answered(&webhook, "CREATE", json!({"kind": "Secret"}), Value::Null).await;
        let text = other["status"]["message"].as_str().unwrap();
        assert!(
            text.contains("Secret n/a: it is not registered for /v1 Secret"),
            "{text}"
        );
    }

    #[tokio::test]
    async fn a_validator_warns_or_refuses() {
        let webhook = Webhook::new("warn-or-refuse", Target::Seed).validates(WarnOrRefuse);
        let mut object = map(json!({}));
        let refused = answered(&webhook, "CREATE", object.clone(), Value::Null).await;
        assert_eq!(
            (&refused["allowed"], &refused["status"]["code"]),
            (&json!(false), &json!(422))
        );
        object["immutable"] = json!(true);
        let warned = answered(&webhook, "CREATE", object, Value::Null).await;
        assert_eq!(
            warned,
            json!({"uid": "u", "allowed": true, "warnings": ["it cannot be changed later"]})
        );
    }
}
