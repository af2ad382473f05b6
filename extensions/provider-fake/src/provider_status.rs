//! What this provider hands to itself through `providerStatus`: the Infrastructure writes it, ControlPlane and Worker read it
//! back from their own specs. No component in between reads it.

use api_meta::{ErrorCode, Fault, RawJson};
use extensions_sdk::check_config;
use serde::{Deserialize, Serialize};

/// apiVersion of the provider's own types.
pub(crate) const API_VERSION: &str = "fake.provider.extensions.gardener.cloud/v1alpha1";
const KIND: &str = "InfrastructureStatus";

/// `status.providerStatus` of an Infrastructure of this provider. Fields stand in the order in which an API server prints them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct InfrastructureStatus {
    #[serde(default = "api_version")]
    api_version: String,
    /// The key pair that machines are made with; none without a public key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) key_pair: Option<String>,
    #[serde(default = "kind")]
    kind: String,
    /// The id of the network.
    pub(crate) network: String,
    /// The id of the security group of machines.
    pub(crate) nodes_security_group: String,
    /// In the order of the configuration.
    pub(crate) zones: Vec<ZoneStatus>,
}

/// What there is in one zone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ZoneStatus {
    /// Its name.
    pub(crate) name: String,
    /// The id of the subnet of machines.
    pub(crate) subnet: String,
}

fn api_version() -> String {
    API_VERSION.to_owned()
}

fn kind() -> String {
    KIND.to_owned()
}

impl InfrastructureStatus {
    pub(crate) fn new(
        network: String,
        nodes_security_group: String,
        key_pair: Option<String>,
        zones: Vec<ZoneStatus>,
    ) -> Self {
        Self {
            api_version: api_version(),
            key_pair,
            kind: kind(),
            network,
            nodes_security_group,
            zones,
        }
    }

    /// Reads what an Infrastructure reported, from the spec of an object that it was copied into.
    ///
    /// # Errors
    /// A dependency fault: it is not there yet, or is of another provider.
    pub(crate) fn read(raw: Option<&RawJson>) -> Result<Self, Fault> {
        check_config(raw, &[(API_VERSION, KIND)], "spec.infrastructureProviderStatus").map_err(|problems| {
            let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
            Fault::dependency(format!(
                "what the Infrastructure reported cannot be used: {}",
                problems.join(", and ")
            ))
            .code(ErrorCode::RetryableConfigurationProblem)
            .hint("wait until the Infrastructure has succeeded and gardenlet has copied its providerStatus")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_reported_is_read_back_and_its_keys_are_sorted() {
        let zone = ZoneStatus {
            name: "a".to_owned(),
            subnet: "subnet-2".to_owned(),
        };
        let status = InfrastructureStatus::new(
            "net-1".to_owned(),
            "sg-3".to_owned(),
            Some("key-4".to_owned()),
            vec![zone],
        );
        let raw = RawJson::of(&status).unwrap();
        // As an API server gives it back.
        assert_eq!(raw.get(), raw.value().to_string());
        let read = InfrastructureStatus::read(Some(&raw)).unwrap();
        assert_eq!(read, status);
        assert!(InfrastructureStatus::read(None).unwrap_err().retryable());
    }
}
