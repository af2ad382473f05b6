//! What all extension kinds have in common, as traits: code that works on any of them is written against these. They
//! never hide a kind's own fields.

use std::fmt::Debug;

use api_meta::crd::Definition;
use api_meta::{
    Condition, Kind, LastError, LastOperation, NamedResourceReference, ObjectScope, RawJson, SecretReference,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_core::Resource;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::table::{ExtensionKind, Family, PerKind};
use crate::{DefaultStatus, ExtensionClass};

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

/// The common status fields of an extension object, to be changed.
#[derive(Debug)]
pub struct CommonStatus<'a> {
    /// What the provider wants others to read.
    pub provider_status: &'a mut Option<RawJson>,
    /// What is known about it.
    pub conditions: &'a mut Vec<Condition>,
    /// Why the last operation failed.
    pub last_error: &'a mut Option<LastError>,
    /// What was done last.
    pub last_operation: &'a mut Option<LastOperation>,
    /// The generation last worked on.
    pub observed_generation: &'a mut Option<i64>,
    /// What another seed needs to take over.
    pub state: &'a mut Option<RawJson>,
    /// Objects that go with the state.
    pub resources: &'a mut Vec<NamedResourceReference>,
}

/// What all kinds have in common of one object, borrowed: for code that does not care which kind it is.
#[derive(Clone, Copy, Debug)]
pub struct ObjectView<'a> {
    /// Its kind.
    pub kind: ExtensionKind,
    /// Kubernetes' metadata.
    pub metadata: &'a ObjectMeta,
    /// Which extension is responsible.
    pub type_: &'a str,
    /// The common status fields; nothing if there is no status yet.
    pub status: Option<StatusView<'a>>,
}

impl ObjectView<'_> {
    /// `namespace/name`, or its name alone.
    pub fn full_name(&self) -> String {
        let name = self.metadata.name.as_deref().unwrap_or_default();
        match &self.metadata.namespace {
            Some(namespace) => format!("{namespace}/{name}"),
            None => name.to_owned(),
        }
    }

    /// The namespace in the seed of the shoot that the object belongs to, as [`ExtensionKind::is_of_shoot`] finds it.
    pub fn shoot_namespace(&self) -> Option<&str> {
        if self.kind.is_namespaced() {
            return self.metadata.namespace.as_deref();
        }
        let (namespace, _) = self.metadata.name.as_deref()?.rsplit_once("--")?;
        self.kind.is_of_shoot(self.metadata, namespace).then_some(namespace)
    }
}

/// What only one kind has, written in its own file; what all have alike is [`ExtensionObject`].
pub trait OwnPart: Kind + JsonSchema + Sized {
    /// The part of the status that only this kind has, as far as actuators write it.
    type Own: Clone + Debug + Default + Send + Sync + 'static;

    /// Writes that part.
    fn set_own(&mut self, own: Self::Own);

    /// Its custom resource definition, to be built.
    fn definition() -> Definition;

    /// What the object is for, where the kind says so.
    fn purpose(&self) -> Option<&str> {
        None
    }

    /// The Secret with credentials, where the kind has one.
    fn secret_ref(&self) -> Option<&SecretReference> {
        None
    }
}

/// An extension object: of one of the kinds that extensions act on, which are those of the table.
pub trait ExtensionObject:
    OwnPart
    + Resource<DynamicType = (), Scope: ObjectScope>
    + Serialize
    + DeserializeOwned
    + Clone
    + Debug
    + Default
    + Send
    + Sync
    + 'static
{
    /// Its row of the table.
    const ROW: ExtensionKind;

    /// Which extension is responsible.
    fn type_(&self) -> &str;

    /// For whom the object is; nothing in the spec means a shoot.
    fn class(&self) -> ExtensionClass;

    /// Configuration for the provider, opaque.
    fn provider_config(&self) -> Option<&RawJson>;

    /// The common status fields; nothing if there is no status yet.
    fn status(&self) -> Option<StatusView<'_>>;

    /// The common status fields to be changed, made if there is no status yet.
    fn common_status(&mut self) -> CommonStatus<'_>;

    /// The value of this kind among those of all.
    #[doc(hidden)]
    fn field<F: Family>(all: &PerKind<F>) -> &F::Of<Self>;

    /// Writes the common status fields, leaving the kind's own ones as they are.
    fn set_status(&mut self, status: DefaultStatus) {
        let DefaultStatus {
            provider_status,
            conditions,
            last_error,
            last_operation,
            observed_generation,
            state,
            resources,
        } = status;
        let common = self.common_status();
        *common.provider_status = provider_status;
        *common.conditions = conditions;
        *common.last_error = last_error;
        *common.last_operation = last_operation;
        *common.observed_generation = observed_generation;
        *common.state = state;
        *common.resources = resources;
    }

    /// How far its extension has come: the last operation, and the generation that it has worked on.
    fn progress(&self) -> (Option<&LastOperation>, i64) {
        let status = self.status();
        let observed = status.and_then(|status| status.observed_generation);
        (
            status.and_then(|status| status.last_operation),
            observed.unwrap_or_default(),
        )
    }

    /// What all kinds have in common of it.
    fn view(&self) -> ObjectView<'_> {
        ObjectView {
            kind: Self::ROW,
            metadata: self.meta(),
            type_: self.type_(),
            status: self.status(),
        }
    }
}

/// Implements [`ExtensionObject`] for a row of the table: the fields that all kinds have bear the same names in all.
macro_rules! extension_object {
    ($kind:ident) => {
        impl ExtensionObject for $kind {
            const ROW: ExtensionKind = ExtensionKind::$kind;

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

            fn common_status(&mut self) -> CommonStatus<'_> {
                let status = self.status.get_or_insert_default();
                CommonStatus {
                    provider_status: &mut status.provider_status,
                    conditions: &mut status.conditions,
                    last_error: &mut status.last_error,
                    last_operation: &mut status.last_operation,
                    observed_generation: &mut status.observed_generation,
                    state: &mut status.state,
                    resources: &mut status.resources,
                }
            }

            fn field<F: Family>(all: &PerKind<F>) -> &F::Of<Self> {
                &all.$kind
            }
        }
    };
}

pub(crate) use extension_object;

#[cfg(test)]
mod tests {
    use api_meta::schema::round_trip;

    use super::*;
    use crate::{Cluster, Extension, ForKind, Infrastructure, Worker};

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

    struct RoundTrip;

    impl ForKind for RoundTrip {
        type Output = Result<(), String>;

        fn call<K: ExtensionObject>(self) -> Self::Output {
            round_trip::<K>()
        }
    }

    #[test]
    fn every_kind_comes_back_with_every_field() {
        let of_kinds = ExtensionKind::ALL.iter().map(|kind| kind.with(RoundTrip));
        let wrong: Vec<String> = of_kinds
            .chain([round_trip::<Cluster>()])
            .filter_map(Result::err)
            .collect();
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
