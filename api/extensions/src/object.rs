//! What the 12 extension kinds have in common, as one trait. It never hides a kind's own fields.

use std::fmt::Debug;

use api_meta::{Condition, Kind, LastError, LastOperation, NamedResourceReference, RawJson, SecretReference};
use kube_core::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{
    BackupBucket, BackupEntry, Bastion, ContainerRuntime, ControlPlane, DNSRecord, DefaultStatus, Extension,
    ExtensionClass, Infrastructure, Network, OperatingSystemConfig, SelfHostedShootExposure, Worker,
};

/// The common status fields of an extension object, borrowed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StatusView<'a> {
    /// What the provider reports, opaque.
    pub provider_status: Option<&'a RawJson>,
    /// What is known about it.
    pub conditions: &'a [Condition],
    /// What went wrong last.
    pub last_error: Option<&'a LastError>,
    /// What was done last.
    pub last_operation: Option<&'a LastOperation>,
    /// The generation that the status is about.
    pub observed_generation: Option<i64>,
    /// What the extension needs to take over on another seed, opaque.
    pub state: Option<&'a RawJson>,
    /// Objects that belong to the state.
    pub resources: &'a [NamedResourceReference],
}

impl StatusView<'_> {
    /// An owned copy.
    pub fn to_owned(self) -> DefaultStatus {
        let Self {
            provider_status,
            conditions,
            last_error,
            last_operation,
            observed_generation,
            state,
            resources,
        } = self;
        DefaultStatus {
            provider_status: provider_status.cloned(),
            conditions: conditions.to_vec(),
            last_error: last_error.cloned(),
            last_operation: last_operation.cloned(),
            observed_generation,
            state: state.cloned(),
            resources: resources.to_vec(),
        }
    }
}

/// An extension object: one of the 12 kinds that extensions act on (all of the group but Cluster).
pub trait ExtensionObject:
    Kind + Resource<DynamicType = ()> + Serialize + DeserializeOwned + Clone + Debug + Default + Send + Sync + 'static
{
    /// Which extension is responsible.
    fn type_(&self) -> &str;

    /// For whom the object is; nothing in the spec means a shoot.
    fn class(&self) -> ExtensionClass;

    /// What the object is for, where the kind says so.
    fn purpose(&self) -> Option<&str> {
        None
    }

    /// Configuration for the provider, opaque.
    fn provider_config(&self) -> Option<&RawJson>;

    /// The Secret with credentials, where the kind has one.
    fn secret_ref(&self) -> Option<&SecretReference> {
        None
    }

    /// The common status fields; nothing if there is no status yet.
    fn status(&self) -> Option<StatusView<'_>>;

    /// Writes the common status fields, leaving the kind's own ones as they are.
    fn set_status(&mut self, status: DefaultStatus);
}

/// Every kind that [`ExtensionObject`] is implemented for, in alphabetical order.
pub const EXTENSION_KINDS: [&str; 12] = [
    BackupBucket::KIND,
    BackupEntry::KIND,
    Bastion::KIND,
    ContainerRuntime::KIND,
    ControlPlane::KIND,
    DNSRecord::KIND,
    Extension::KIND,
    Infrastructure::KIND,
    Network::KIND,
    OperatingSystemConfig::KIND,
    SelfHostedShootExposure::KIND,
    Worker::KIND,
];

macro_rules! extension_object {
    ($($kind:ident $(($($extra:tt)*))?),+ $(,)?) => {$(
        impl ExtensionObject for $kind {
            fn type_(&self) -> &str {
                &self.spec.type_
            }

            fn class(&self) -> ExtensionClass {
                self.spec.class.clone().unwrap_or(ExtensionClass::Shoot)
            }

            fn provider_config(&self) -> Option<&RawJson> {
                self.spec.provider_config.as_ref()
            }

            fn status(&self) -> Option<StatusView<'_>> {
                self.status.as_ref().map(|status| StatusView {
                    provider_status: status.provider_status.as_ref(),
                    conditions: &status.conditions,
                    last_error: status.last_error.as_ref(),
                    last_operation: status.last_operation.as_ref(),
                    observed_generation: status.observed_generation,
                    state: status.state.as_ref(),
                    resources: &status.resources,
                })
            }

            fn set_status(&mut self, new: DefaultStatus) {
                let DefaultStatus {
                    provider_status, conditions, last_error, last_operation, observed_generation, state, resources,
                } = new;
                let status = self.status.get_or_insert_default();
                status.provider_status = provider_status;
                status.conditions = conditions;
                status.last_error = last_error;
                status.last_operation = last_operation;
                status.observed_generation = observed_generation;
                status.state = state;
                status.resources = resources;
            }

            $($($extra)*)?
        }
    )+};
}

extension_object! {
    BackupBucket(fn secret_ref(&self) -> Option<&SecretReference> { Some(&self.spec.secret_ref) }),
    BackupEntry(fn secret_ref(&self) -> Option<&SecretReference> { Some(&self.spec.secret_ref) }),
    Bastion,
    ContainerRuntime,
    ControlPlane(fn secret_ref(&self) -> Option<&SecretReference> { Some(&self.spec.secret_ref) }),
    DNSRecord(fn secret_ref(&self) -> Option<&SecretReference> { Some(&self.spec.secret_ref) }),
    Extension,
    Infrastructure(fn secret_ref(&self) -> Option<&SecretReference> { Some(&self.spec.secret_ref) }),
    Network,
    OperatingSystemConfig(fn purpose(&self) -> Option<&str> { Some(self.spec.purpose.as_str()) }),
    SelfHostedShootExposure,
    Worker(fn secret_ref(&self) -> Option<&SecretReference> { Some(&self.spec.secret_ref) }),
}

#[cfg(test)]
mod tests {
    use api_meta::schema::round_trip;

    use super::*;
    use crate::Cluster;

    #[test]
    fn provider_status_state_and_configuration_keep_their_bytes() {
        const ODD: &str = r#"{"z":{"b":9007199254740993,"a":[1e400,0.10]},"t":"\u00e9\/\ud83d\ude00","e":""}"#;
        let text = format!(
            r#"{{"apiVersion":"extensions.gardener.cloud/v1alpha1","kind":"Infrastructure","metadata":{{"name":"i"}},"spec":{{"type":"local","providerConfig":{ODD},"region":"r","secretRef":{{"name":"s"}}}},"status":{{"providerStatus":{ODD},"state":{ODD},"nodesCIDR":"10.0.0.0/16"}}}}"#
        );
        let infrastructure: Infrastructure = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json::to_string(&infrastructure).unwrap(), text);
        let status = infrastructure.status().unwrap();
        assert_eq!(status.provider_status.unwrap().get(), ODD);
        let mut worker = Worker::default();
        worker.spec.infrastructure_provider_status = status.provider_status.cloned();
        worker.set_status(status.to_owned());
        let written = serde_json::to_string(&worker).unwrap();
        assert!(
            written.contains(&format!(r#""infrastructureProviderStatus":{ODD}"#)),
            "{written}"
        );
        assert!(written.contains(&format!(r#""state":{ODD}"#)), "{written}");
    }

    #[test]
    fn every_kind_comes_back_with_every_field() {
        let results = [
            round_trip::<BackupBucket>(),
            round_trip::<BackupEntry>(),
            round_trip::<Bastion>(),
            round_trip::<Cluster>(),
            round_trip::<ContainerRuntime>(),
            round_trip::<ControlPlane>(),
            round_trip::<DNSRecord>(),
            round_trip::<Extension>(),
            round_trip::<Infrastructure>(),
            round_trip::<Network>(),
            round_trip::<OperatingSystemConfig>(),
            round_trip::<SelfHostedShootExposure>(),
            round_trip::<Worker>(),
        ];
        let wrong: Vec<String> = results.into_iter().filter_map(Result::err).collect();
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    #[test]
    fn setting_the_common_status_leaves_the_kinds_own_fields() {
        let mut infrastructure: Infrastructure =
            serde_json::from_str(r#"{"spec":{"type":"a","class":"seed"},"status":{"nodesCIDR":"10.1.0.0/16"}}"#)
                .unwrap();
        assert_eq!(infrastructure.class(), ExtensionClass::Seed);
        infrastructure.set_status(DefaultStatus {
            observed_generation: Some(4),
            ..DefaultStatus::default()
        });
        let status = infrastructure.status.unwrap();
        assert_eq!(
            (status.nodes_cidr.as_deref(), status.observed_generation),
            (Some("10.1.0.0/16"), Some(4))
        );
        assert_eq!(Extension::default().class(), ExtensionClass::Shoot);
    }
}
