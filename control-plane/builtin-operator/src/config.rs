//! The `providerConfig` of ControllerDeployments of type `builtin`. Never guesses: unknown fields are errors.

use api_meta::RawJson;
use k8s_openapi::api::core::v1::EnvVar;
use k8s_openapi::api::rbac::v1::PolicyRule;
use serde::Deserialize;

/// What to install.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProviderConfig {
    /// Image of the extension's program, as a container names it.
    pub image: String,
    /// Its arguments.
    #[serde(default)]
    pub args: Vec<String>,
    /// More environment beside `NAMESPACE` and `SEED_NAME`, which are always set.
    #[serde(default)]
    pub env: Vec<EnvVar>,
    /// How many pods; 1 unless given. With 0 the program runs elsewhere, under the same service account.
    #[serde(default = "one")]
    pub replicas: i32,
    /// What the extension may do in the seed, in place of what every extension needs.
    #[serde(default)]
    pub rules: Option<Vec<PolicyRule>>,
}

fn one() -> i32 {
    1
}

/// Why a `providerConfig` cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    #[error("the ControllerDeployment's providerConfig cannot be read: {0}")]
    Form(serde_json::Error),
    #[error("the ControllerDeployment's providerConfig is invalid: {field}: {problem}")]
    Value { field: &'static str, problem: String },
}

impl ProviderConfig {
    /// Reads and validates.
    pub(crate) fn read(raw: &RawJson) -> Result<Self, ConfigError> {
        let config: Self = raw.decode().map_err(ConfigError::Form)?;
        let wrong = |field, problem: &str| {
            Err(ConfigError::Value {
                field,
                problem: problem.to_owned(),
            })
        };
        if config.image.trim().is_empty() {
            return wrong("image", "must name an image");
        }
        if config.replicas < 0 {
            return wrong("replicas", "must not be negative");
        }
        if config.env.iter().any(|variable| variable.name.is_empty()) {
            return wrong("env", "every variable needs a name");
        }
        Ok(config)
    }
}
