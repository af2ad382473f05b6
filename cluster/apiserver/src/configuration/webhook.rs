//! A webhook, compiled once from its configuration. It is called in `admission/webhook_calls`.
//! (kubernetes/kubernetes v1.35 staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/generic)

use std::sync::Arc;
use std::time::Duration;

use cluster_cel::{Expression, Work};
use serde_json::Value;

use crate::configuration::matching::Matching;
use crate::connections::webhook_client::{Client, Clients};

/// The timeout of a webhook whose configuration has none.
const TIMEOUT_DEFAULT_SECONDS: u64 = 10;

/// Versions of AdmissionReview.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReviewVersion {
    V1,
    V1Beta1,
}

/// A condition in CEL, compiled.
#[derive(Debug)]
pub(crate) struct Condition {
    pub(crate) expression: Result<Expression, (String, String)>,
}

/// A webhook.
pub(crate) struct Webhook {
    pub(crate) configuration: String,
    pub(crate) name: String,
    /// Unique among mutating webhooks, or among validating ones.
    pub(crate) key: (String, usize),
    pub(crate) matching: Matching,
    pub(crate) conditions: Vec<Condition>,
    pub(crate) ignores_failures: bool,
    pub(crate) timeout: Duration,
    pub(crate) takes_dry_runs: bool,
    /// Called again when a later webhook changes the object.
    pub(crate) again: bool,
    pub(crate) version: Option<ReviewVersion>,
    pub(crate) client: Result<Arc<Client>, String>,
    pub(crate) mutating: bool,
}

impl Condition {
    /// It was validated when it was written, perhaps by a server with weaker rules.
    pub(crate) fn of(value: &Value, work: &mut Work) -> Self {
        let source = value
            .get("expression")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .trim();
        Self {
            expression: Expression::stored(source, false, work).map_err(|why| (source.to_owned(), why)),
        }
    }
}

impl Webhook {
    /// From the webhook at `index` of a configuration; `work` is that of all expressions of the configuration.
    pub(crate) fn of(
        (configuration, index): (&str, usize),
        value: &Value,
        mutating: bool,
        clients: &Clients,
        work: &mut Work,
    ) -> Self {
        let text = |field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default();
        let list = |field: &str| value.get(field).and_then(Value::as_array).into_iter().flatten();
        let version = list("admissionReviewVersions").find_map(|version| match version.as_str()? {
            "v1" => Some(ReviewVersion::V1),
            "v1beta1" => Some(ReviewVersion::V1Beta1),
            _ => None,
        });
        let seconds = value.get("timeoutSeconds").and_then(Value::as_u64);
        Self {
            configuration: configuration.to_owned(),
            name: text("name").to_owned(),
            key: (configuration.to_owned(), index),
            matching: Matching::of_webhook(value),
            conditions: list("matchConditions").map(|it| Condition::of(it, work)).collect(),
            ignores_failures: text("failurePolicy") == "Ignore",
            timeout: Duration::from_secs(seconds.unwrap_or(TIMEOUT_DEFAULT_SECONDS)),
            takes_dry_runs: matches!(text("sideEffects"), "None" | "NoneOnDryRun"),
            again: text("reinvocationPolicy") == "IfNeeded",
            version,
            client: clients.client(value.get("clientConfig").unwrap_or(&Value::Null)),
            mutating,
        }
    }
}
