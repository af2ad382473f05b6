//! `spec.provider.controlPlaneConfig` of a Shoot. It may be left out.

use std::collections::BTreeMap;

use api_meta::{Fault, RawJson};
use extensions_sdk::{FieldProblem, check_config, decode_config};
use serde::Deserialize;

use crate::provider_status::API_VERSION;

const KIND: &str = "ControlPlaneConfig";
const FIELD: &str = "spec.provider.controlPlaneConfig";

/// What the owner of a shoot wants of its control plane.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ControlPlaneConfig {
    /// The program that acts for the cluster in the cloud.
    #[serde(default)]
    pub(crate) cloud_controller_manager: CloudControllerManagerConfig,
}

/// Its settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CloudControllerManagerConfig {
    /// Features that are on or off.
    #[serde(default)]
    pub(crate) feature_gates: BTreeMap<String, bool>,
}

impl ControlPlaneConfig {
    /// Reads it.
    ///
    /// # Errors
    /// A user fault with `ERR_CONFIGURATION_PROBLEM` and the paths of what is wrong.
    pub(crate) fn read(raw: Option<&RawJson>) -> Result<Self, Fault> {
        raw.map(|raw| decode_config(Some(raw), &[(API_VERSION, KIND)], FIELD))
            .transpose()
            .map(Option::unwrap_or_default)
    }

    /// Reads it, for admission.
    ///
    /// # Errors
    /// All problems.
    pub(crate) fn check(raw: Option<&RawJson>) -> Result<Self, Vec<FieldProblem>> {
        raw.map(|raw| check_config(Some(raw), &[(API_VERSION, KIND)], FIELD))
            .transpose()
            .map(Option::unwrap_or_default)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn it_may_be_missing_and_is_read_strictly() {
        let config = |features: serde_json::Value| {
            let raw =
                RawJson::from(json!({"apiVersion": API_VERSION, "kind": KIND, "cloudControllerManager": features}));
            ControlPlaneConfig::read(Some(&raw))
        };
        assert_eq!(ControlPlaneConfig::read(None).unwrap(), ControlPlaneConfig::default());
        let gates = config(json!({"featureGates": {"A": true}}))
            .unwrap()
            .cloud_controller_manager
            .feature_gates;
        assert_eq!(gates, BTreeMap::from([("A".to_owned(), true)]));
        let fault = config(json!({"featureGate": {}})).unwrap_err();
        assert!(
            fault
                .to_string()
                .contains(&format!("{FIELD}.cloudControllerManager.featureGate is not known")),
            "{fault}"
        );
    }
}
